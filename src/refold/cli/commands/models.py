"""`refold models`: the windows and prices of models, and how a name is found among them."""

import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from refold.cli.exit_status import DONE
from refold.cli.options import flags, knobs
from refold.cli.output.encoding import dumps, plain
from refold.cli.output.screen import Screen
from refold.cli.output.tables import columns
from refold.config import settings as config
from refold.config.settings import Settings
from refold.core.models.windows import Price, Window, house
from refold.errors import RefoldWarning, WindowUnknown

EXAMPLES: Final = """\
  refold models
  refold models gpt-4o
  refold models 'google/gemini-2.5*'
  refold models claude-sonnet-4-5 --json
"""
_HOW: Final = {
    "table": "listed under this name",
    "prefix": "the longest known beginning of the name",
    "provider default": "what this provider's models have where nothing else is known",
    "fallback": "nobody knows it; pass --window, or add it to refold.toml",
    "name": "the size stands in the name",
    "setting": "set by the policy",
}


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    told = "a model, a part of a name, or a pattern with * in it"
    parser.add_argument("name", metavar="NAME", nargs="?", help=told)
    parser.add_argument("--policy", metavar="NAME", help="find the window as this policy does")
    flags.output(parser)


def run(args: Namespace, screen: Screen) -> int:
    """List the models that are meant, and say how the name is found."""
    settings = config.load()
    name = (args.name or "").strip()
    rows = sorted(_rows(settings), key=_title)
    rows = [row for row in rows if _meant(name, row)]
    found = _found(name, args.policy, settings) if name and "*" not in name else None
    if args.json:
        told = None if found is None else {**plain(found), "how": _how(found, settings)}
        screen.data(
            dumps({"name": name or None, "found": told, "models": [plain(row) for row in rows]}) + "\n"
        )
        return DONE
    if found is not None:
        _show_found(name, found, settings, screen)
        screen.line()
    _show_rows(rows, screen)
    return DONE


def _rows(settings: Settings) -> Iterable[Window]:
    yield from house().rows()
    yield from (window for window in settings.windows.values() if isinstance(window, Window))


def _title(window: Window) -> str:
    return f"{window.provider}/{window.model}" if window.provider else window.model


def _meant(name: str, window: Window) -> bool:
    title, wanted = _title(window).lower(), name.lower()
    if "*" in wanted:
        return fnmatchcase(title, wanted) or fnmatchcase(window.model.lower(), wanted)
    return wanted.replace(":", "/") in title


def _found(name: str, policy: str | None, settings: Settings) -> Window | None:
    """The window the library would take; None where it would refuse to guess."""
    chosen = config.laid_over(knobs.policy(policy or "refold", ()), settings.windows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RefoldWarning)  # the answer says it itself
        try:
            return chosen.window(name)
        except WindowUnknown:
            return None


def _show_found(name: str, window: Window, settings: Settings, screen: Screen) -> None:
    rows = [["window", f"{window.tokens:,} tokens"]]
    if window.input_tokens:
        rows.append(["input", f"{window.input_tokens:,} tokens at most"])
    if window.output_tokens:
        rows.append(["output", f"{window.output_tokens:,} tokens at most"])
    if window.price is not None:
        rows.append(["price", _price(window.price)])
    rows.append(["found", _how(window, settings)])
    if window.detail:
        rows.append(["source", f"{window.detail} ({window.as_of})"])
    title = _title(window)
    arrow = f" → {title}" if title not in {"", name} else ""
    screen.line(screen.paint(screen.short(name, 60), "bold") + arrow)
    for line in columns(rows, "ll"):
        screen.line(f"  {line}")


def _how(window: Window, settings: Settings) -> str:
    if window.source == "overlay":
        return f"set in {settings.sources.get('windows', config.FILE)}"
    return _HOW.get(window.source, window.source)


def _price(price: Price) -> str:
    told = f"${price.input:g} in, ${price.output:g} out"
    told += "" if price.cache_read is None else f", ${price.cache_read:g} from the cache"
    told += "" if price.cache_write is None else f", ${price.cache_write:g} into it"
    return f"{told}, for a million tokens"


def _show_rows(rows: list[Window], screen: Screen) -> None:
    head = ["model", "context", "input", "output", "$ in", "$ out", "$ cached", "source", "as of"]
    table = columns([head, *map(_row, rows)], "lrrrrrrll")
    if rows:
        screen.line(screen.paint(table[0], "bold"))
    for line in table[1:]:
        screen.line(line)
    count = f"{len(rows):,} model" + "s" * (len(rows) != 1) if rows else "no model in the table"
    screen.line(f"{count}; dollars are for a million tokens" if rows else f"{count} has this in its name")


def _row(window: Window) -> list[str]:
    price = window.price
    money = ("", "", "") if price is None else (price.input, price.output, price.cache_read)
    return [
        _title(window),
        f"{window.tokens:,}",
        _number(window.input_tokens),
        _number(window.output_tokens),
        *("" if each is None or each == "" else f"{each:g}" for each in money),
        _sources(window),
        window.as_of,
    ]


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _sources(window: Window) -> str:
    """The names of those who say the numbers, each once and without its version."""
    parts = [part.partition(": ")[2] for part in window.detail.split("; ")]
    names = [name.rpartition(" ")[0] or name for part in parts for name in part.split(" and ") if name]
    return ", ".join(dict.fromkeys(names)) or window.source
