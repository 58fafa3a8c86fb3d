"""`refold config`: every setting, and where its value comes from."""

import os
import re
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from refold.cli.exit_status import DONE, REFUSED, WrongUse
from refold.cli.input.stores import default_address
from refold.cli.options.common import add_output_options
from refold.cli.options.knobs import refuse_unknown_policy
from refold.cli.output.encoding import dumps
from refold.cli.output.screen import Screen, Style
from refold.config import settings as config
from refold.config.serve_settings import SERVE_SETTINGS, VARIABLE
from refold.config.values import SETTINGS, hide_password
from refold.policies import presets

EXAMPLES: Final = """\
  refold config
  refold config model
  refold config path
  refold config --json
"""
NOTE: Final = """\
An option wins over a variable, a variable over the file. The file is the one
that REFOLD_CONFIG names, else refold.toml in this folder, else
refold/refold.toml in your own folder of settings. Keys are never shown.
"""
PATH: Final = "path"
KEYS: Final = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "REFOLD_API_KEY")
DEFAULT: Final = "default"
_USER: Final = re.compile(r"(?<=://)[^\s/@#?]{1,400}(?=@)")
_QUERY: Final = re.compile(
    r"(?<=[?&])([\w-]{0,40}(?:key|password|secret|token)[\w-]{0,40}=)[^\s&#]{1,400}", re.IGNORECASE
)
"""Secrets in an address. No client takes such an address, but people write them and show this output."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    text = "one setting, to see its value alone; path: the file that is read"
    parser.add_argument("name", metavar="NAME", nargs="?", help=text)
    parser.add_argument("rest", nargs="*", help=SUPPRESS)
    add_output_options(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Show all settings, one, or the file."""
    _refuse_writing(args)
    path = config.find_file(os.environ, Path())
    file = None if path is None else str(path)
    if args.name == PATH:
        if args.json:
            screen.json({"file": file})
        elif file is not None:
            screen.line(file)
        else:
            screen.note(f"no file is read: {config.FILE} is neither here nor in your folder of settings")
        return DONE if args.json or file is not None else REFUSED
    settings = config.load()
    if settings.policy is not None:
        refuse_unknown_policy(settings.policy, settings.describe_source("policy"))
    source = settings.sources.get
    rows = {
        name: {"value": value, "source": source(name, DEFAULT), "variable": variable, "default": default}
        for name, value, variable, default in _list_settings(settings)
    }
    if args.name is not None:
        name = _setting_name(args.name, rows)
        value = rows[name]["value"]
        if args.json:
            screen.json({"name": name, **rows[name]})
        elif value is not None:
            screen.line(_format_value(name, value))
        else:
            default = default_address() if name == "store" else rows[name]["default"]
            screen.note(f"{name} is not set; the default is {default}")
        return DONE if args.json or value is not None else REFUSED
    unknown = config.find_unknown_variables(os.environ)
    if args.json:
        keys = {name: bool(os.environ.get(name)) for name in KEYS}
        windows = {name: _format_window(window) for name, window in settings.windows.items()}
        screen.json({"file": file, "settings": rows, "windows": windows, "keys": keys, "unknown": unknown})
    else:
        screen.line(screen.paint("file", "bold") + f"  {file or 'none'}")
        _show_settings(rows, settings, screen)
    for name in (name for name, near in unknown.items() if near is None):  # `load` has named the others
        screen.note(f"refold: note: nobody reads {name}")
    return DONE


def _refuse_writing(args: Namespace) -> None:
    """Refuse to set a value, and say where it is set."""
    if not args.rest:
        return
    words = [word for word in (args.name, *args.rest) if word not in ("set", "=")]
    name = _setting_name(words[0], SETTINGS) if words else "policy"
    value = words[1] if len(words) > 1 else "VALUE"
    if name == "policy" and len(words) > 1:
        refuse_unknown_policy(value, "policy")
    written = value if re.fullmatch(r"[\d.]+|true|false", value) else dumps(value)
    place = f"write {name} = {written} into {config.FILE}, or set REFOLD_{name.upper()}={value}"
    raise WrongUse(f"this only shows settings: {place}")


def _setting_name(word: str, known: Collection[str]) -> str:
    """Return the setting that a word names, also by its variable."""
    name = word.lower().removeprefix("refold_").replace("-", "_")
    if name not in known:
        near = get_close_matches(name, [*known, PATH], 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(SETTINGS)} and {PATH}"
        raise WrongUse(f"there is no setting {word!r}; {hint}")
    return name


def _list_settings(settings: config.Settings) -> Iterator[tuple[str, Any, str, Any]]:
    """Yield name, value, variable and default of every setting.

    Knobs are called `policy.NAME.KNOB`, and settings of the gateway `serve.NAME`; only those that are set.
    """
    for name, info in SETTINGS.items():
        value = getattr(settings, name)
        if isinstance(value, str):
            value = _QUERY.sub(r"\1***", hide_password(value) if name == "store" else _USER.sub("***", value))
        yield name, value, f"REFOLD_{name.upper()}", info.default
    for policy, table in settings.knobs.items():
        for knob, value in table.items():
            path = f"policy.{policy}.{knob}"
            variable = f"REFOLD_{path.upper().replace('.', '_').replace('-', '_')}"
            yield path, value, variable, str(presets.find_knob(policy, knob).default)
    for name, value in settings.serve.items():
        shown = ", ".join(value) if isinstance(value, tuple) else value
        yield f"serve.{name}", shown, f"{VARIABLE}{name.upper()}", SERVE_SETTINGS[name].default


def _show_settings(rows: Mapping[str, dict[str, Any]], settings: config.Settings, screen: Screen) -> None:
    cells = [["setting", "value", "from"]]
    for name, row in rows.items():
        value = f"({row['default']})" if row["value"] is None else _format_value(name, row["value"])
        cells.append([name, value, row["source"]])
    for name, window in settings.windows.items():
        cells.append([f"windows.{name}", _format_window(window), settings.sources["windows"]])
    screen.line()
    for number, (lines, cell) in enumerate(zip(screen.layout(cells, "lll"), cells, strict=True)):
        style: Style = "bold" if number == 0 else "dim" if cell[2] == DEFAULT else "plain"
        for line in lines:
            screen.line(screen.paint(line, style))
    screen.line()
    keys = ", ".join(name for name in KEYS if os.environ.get(name)) or "none"
    screen.line(f"keys: {keys} (from the environment alone; never shown)")


def _format_value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    is_amount = isinstance(value, int) and name != "serve.port"
    return f"{value:,}" if is_amount else str(value)


def _format_window(window: Any) -> str:
    size = getattr(window, "tokens", None)
    return f"{size:,} tokens" if size is not None else str(window)
