"""Defaults from refold.toml and the environment, each with where it came from; turns no knob by itself.

Where several set the same thing, the environment wins over the file; a caller's own arguments win over both.

    policy = "refold"
    model = "gpt-4o"
    window = "32k"

    [windows."my-model"]
    context = "128k"
    output = 8192
"""

import os
import sys
import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from refold.core.names import read
from refold.core.policy import Policy
from refold.core.units import tokens
from refold.core.window_overlay import Overlay, lay, overlay
from refold.core.windows import Window
from refold.errors import FormatError, RefoldError, RefoldWarning, WindowUnknown

FILE: Final = "refold.toml"
NAMES: Final = ("policy", "model", "window")
"""What may be set by name, in the file as it stands here and in the environment as `REFOLD_` and capitals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a user set for every call."""

    policy: str | None = None
    model: str | None = None
    window: int | str | None = None
    windows: Overlay = field(default_factory=dict)
    """Windows of models, laid over every table."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each value came from: a variable's name or a file's path."""


def load(environment: Mapping[str, str] | None = None, folder: Path | None = None) -> Settings:
    """Read what is set for somebody who works in this folder."""
    variables = os.environ if environment is None else environment
    path = find(variables, folder or Path())
    settings = Settings() if path is None else parse(_text(path), str(path))
    for name in NAMES:
        variable = f"REFOLD_{name.upper()}"
        if value := variables.get(variable, "").strip():
            settings = _with(settings, name, value, variable)
    return settings


def find(variables: Mapping[str, str], folder: Path) -> Path | None:
    """The file that holds: the one that REFOLD_CONFIG names, one in this folder, one in the user's own."""
    if named := variables.get("REFOLD_CONFIG", ""):
        return Path(named)
    places = (folder / FILE, _home(variables) / "refold" / FILE)
    return next((path for path in places if path.is_file()), None)


def parse(text: str, name: str = FILE) -> Settings:
    """Read the text of a file; the name is for messages."""
    try:
        values = tomllib.loads(text)
        windows = overlay(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"is not TOML: {error}", path=name) from None
    except FormatError as error:
        raise FormatError(str(error), path=name) from None
    known = (*NAMES, "windows")
    for key in values:
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"it may set {', '.join(known)}"
            raise FormatError(f"there is nothing called {key!r} to set; {hint}", path=name)
    settings = Settings(windows=windows, sources={"windows": name} if windows else {})
    for key in NAMES:
        if key in values:
            settings = _with(settings, key, values[key], name)
    return settings


def laid_over(policy: Policy, windows: Overlay) -> Policy:
    """The policy with the user's windows laid over its own table."""
    if not windows:
        return policy
    return replace(policy, window=lambda model: _window(policy, windows, model))


def _window(policy: Policy, windows: Overlay, model: str | None) -> Window:
    """The user's window where one is meant, else what the policy says, with its warning if it has one."""
    if not model or not model.strip():
        return policy.window(model)
    with warnings.catch_warnings():
        # the policy may only warn or refuse once it is clear that the user's table is silent as well
        warnings.simplefilter("ignore", RefoldWarning)
        try:
            found = policy.window(model)
        except WindowUnknown:
            found = None
    listed = found if found is not None and found.source != "fallback" else None
    return lay(read(model), listed, windows) or policy.window(model)


def _with(settings: Settings, name: str, value: Any, source: str) -> Settings:
    if name == "window":
        try:
            value = tokens(value)
        except FormatError as error:
            raise FormatError(str(error), path=f"{source}: window") from None
    elif not isinstance(value, str) or not value.strip():
        raise FormatError("must be a name in quotes", path=f"{source}: {name}")
    return replace(settings, **{name: value}, sources={**settings.sources, name: source})


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError("is not UTF-8 text", path=str(path)) from None
    except OSError as error:
        raise RefoldError(f"cannot read {path}: {error.strerror or error}") from None


def _home(variables: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The folder in which a user's programs keep their settings."""
    home = Path(variables.get("HOME", "") or os.path.expanduser("~"))  # noqa: PTH111  # Path's own may raise
    if chosen := variables.get("XDG_CONFIG_HOME", ""):
        return Path(chosen)
    if platform == "win32":
        return Path(variables.get("APPDATA", "") or home / "AppData" / "Roaming")
    return home / ("Library/Application Support" if platform == "darwin" else ".config")
