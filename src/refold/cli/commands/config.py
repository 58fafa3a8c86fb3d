"""`refold config`: everything that is set, and where each value came from."""

import os
import re
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from refold.cli.exit_status import DONE, REFUSED, WrongUse
from refold.cli.options import flags, knobs
from refold.cli.output.encoding import dumps
from refold.cli.output.screen import Screen
from refold.cli.output.tables import columns
from refold.config import settings as config
from refold.config.values import ABOUT, OTHERS, shown_store

EXAMPLES: Final = """\
  refold config
  refold config model
  refold config path
  refold config --json
"""
NOTE: Final = """\
What an option says wins over a variable, a variable over the file. The file is
the one that REFOLD_CONFIG names, else refold.toml in this folder, else
refold/refold.toml in your own folder of settings. Keys are never shown.
"""
PATH: Final = "path"
KEYS: Final = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "REFOLD_API_KEY")
BASES: Final = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
DEFAULT: Final = "default"
_USER: Final = re.compile(r"(?<=://)[^\s/@#?]{1,400}(?=@)")
_QUERY: Final = re.compile(
    r"(?<=[?&])([\w-]{0,40}(?:key|password|secret|token)[\w-]{0,40}=)[^\s&#]{1,400}", re.IGNORECASE
)
"""Secrets in an address; nobody takes such an address of a model, but people write it, and show it around."""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    told = "one setting, to see its value alone; path: the file that is read"
    parser.add_argument("name", metavar="NAME", nargs="?", help=told)
    parser.add_argument("rest", nargs="*", help=SUPPRESS)
    flags.output(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Show all settings, one, or the file."""
    _refuse_writing(args)
    if args.name == PATH:
        return _path(args, screen)
    settings = config.load()
    if settings.policy is not None:
        knobs.refuse_unknown(settings.policy, settings.sources["policy"])
    rows = {name: _row(name, settings) for name in ABOUT}
    if args.name is not None:
        return _one(args, rows, screen)
    strangers = unknown(os.environ)
    if args.json:
        keys = {name: bool(os.environ.get(name)) for name in KEYS}
        windows = {name: _window(window) for name, window in settings.windows.items()}
        told = {"settings": rows, "windows": windows, "keys": keys, "unknown": strangers}
        screen.data(dumps({"file": _file(), **told}) + "\n")
    else:
        _show(rows, settings, screen)
    for name, near in strangers.items():
        screen.note(f"refold: note: nobody reads {name}" + (f"; did you mean {near}?" if near else ""))
    return DONE


def _refuse_writing(args: Namespace) -> None:
    """Say where a setting is written, to those who want to set one by this command."""
    words = [word for word in (args.name, *args.rest) if word not in ("set", "=")]
    if not args.rest:
        return
    name = _known(words[0]) if words else "policy"
    value = words[1] if len(words) > 1 else "VALUE"
    if name == "policy" and len(words) > 1:
        knobs.refuse_unknown(value, "policy")
    written = value if re.fullmatch(r"[\d.]+|true|false", value) else dumps(value)
    place = f"write {name} = {written} into {config.FILE}, or set REFOLD_{name.upper()}={value}"
    raise WrongUse(f"this only shows settings: {place}")


def _known(word: str) -> str:
    """The setting that a word names, also as its variable."""
    name = word.lower().removeprefix("refold_").replace("-", "_")
    if name not in ABOUT:
        near = get_close_matches(name, [*ABOUT, PATH], 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ABOUT)} and {PATH}"
        raise WrongUse(f"there is nothing called {word!r} to set; {hint}")
    return name


def _row(name: str, settings: config.Settings) -> dict[str, Any]:
    value = getattr(settings, name)
    if name == "store" and value is not None:
        value = _QUERY.sub(r"\1***", shown_store(value))
    elif isinstance(value, str):
        value = _QUERY.sub(r"\1***", _USER.sub("***", value))
    source = settings.sources.get(name, DEFAULT)
    return {
        "value": value,
        "source": source,
        "variable": f"REFOLD_{name.upper()}",
        "default": ABOUT[name].default,
    }


def _one(args: Namespace, rows: Mapping[str, dict[str, Any]], screen: Screen) -> int:
    name = _known(args.name)
    row = rows[name]
    if args.json:
        screen.data(dumps({"name": name, **row}) + "\n")
    elif row["value"] is not None:
        screen.line(_told(row["value"]))
    return DONE if row["value"] is not None or args.json else REFUSED


def _path(args: Namespace, screen: Screen) -> int:
    found = _file()
    if args.json:
        screen.data(dumps({"file": found}) + "\n")
        return DONE
    if found is None:
        screen.note(f"no file is read: there is no {config.FILE} here, and none in your folder of settings")
        return REFUSED
    screen.line(found)
    return DONE


def _file() -> str | None:
    found = config.find(os.environ, Path())
    return None if found is None else str(found)


def _show(rows: Mapping[str, dict[str, Any]], settings: config.Settings, screen: Screen) -> None:
    found = _file()
    screen.line(screen.paint("file", "bold") + f"  {found or 'none'}")
    screen.line()
    cells = [[name, _value(row), row["source"]] for name, row in rows.items()]
    cells += [
        [f"windows.{name}", _window(each), settings.sources["windows"]]
        for name, each in settings.windows.items()
    ]
    table = columns([["setting", "value", "from"], *cells], "lll")
    screen.line(screen.paint(table[0], "bold"))
    for line, cell in zip(table[1:], cells, strict=True):
        screen.line(screen.paint(line, "dim") if cell[2] == DEFAULT else line)
    screen.line()
    there = [name for name in KEYS if os.environ.get(name)]
    screen.line(f"keys: {', '.join(there) or 'none'} (from the environment alone; never shown)")


def _value(row: Mapping[str, Any]) -> str:
    return f"({row['default']})" if row["value"] is None else _told(row["value"])


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


def _window(window: Any) -> str:
    size = getattr(window, "tokens", None)
    return f"{size:,} tokens" if size is not None else str(window)


def unknown(variables: Mapping[str, str]) -> dict[str, str | None]:
    """Variables that look like ours and mean nothing, each with what may have been meant."""
    known = [*(f"REFOLD_{name.upper()}" for name in ABOUT), *OTHERS]
    strangers = sorted(name for name in variables if name.startswith("REFOLD_") and name not in known)
    return {name: next(iter(get_close_matches(name, known, 1)), None) for name in strangers}
