"""`refold models`: the windows and prices of models, how a name is found, and windows to forget."""

import time
import warnings
from argparse import ArgumentParser, Namespace
from fnmatch import fnmatchcase
from typing import Final

from refold.cli.exit_status import DONE, Refused
from refold.cli.input.stores import use_store
from refold.cli.options.common import STORE_HELP, add_output_options
from refold.cli.options.knobs import make_policy
from refold.cli.output.encoding import to_data
from refold.cli.output.screen import Screen
from refold.config import settings as config
from refold.config.settings import Settings
from refold.core.models.windows import Window, builtin_table, suggest_models
from refold.core.overflow.learned_windows import KEY, find_learned
from refold.core.tokens.units import format_count
from refold.errors import RefoldWarning, WindowUnknown

EXAMPLES: Final = """\
  refold models
  refold models gpt-4o
  refold models 'google/gemini-2.5*'
  refold models claude-sonnet-4-5 --json
  refold models --forget http://127.0.0.1:8080/v1#qwen3-4b
"""
_HOW: Final = {
    "table": "listed under this name",
    "prefix": "the longest known beginning of the name",
    "provider default": "the default of this provider, because nothing else is known",
    "fallback": "it is unknown; pass --window, or add it to refold.toml",
    "name": "the size stands in the name",
    "setting": "set by the policy",
}
"""Explanation of where a window comes from, by its source."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    text = "a model, a part of a name, or a pattern with * in it"
    parser.add_argument("name", metavar="NAME", nargs="?", help=text)
    parser.add_argument("--policy", metavar="NAME", help="find the window as this policy does")
    add = parser.add_argument_group("learned windows").add_argument
    text = "forget the windows that refusals for size taught for this model; ENDPOINT#MODEL for one endpoint"
    add("--forget", metavar="NAME", help=text)
    add("--store", metavar="ADDRESS", help=STORE_HELP)
    add_output_options(parser)


def run(args: Namespace, screen: Screen) -> int:
    """List the models of this name, and show which window the library would use."""
    if args.forget is not None:
        return _forget(args, screen)
    settings = config.load()
    name = (args.name or "").strip()
    windows = [window for window in settings.windows.values() if isinstance(window, Window)]
    wanted = name.lower()

    def is_meant(window: Window) -> bool:
        title = _title(window).lower()
        if "*" in wanted:
            return fnmatchcase(title, wanted) or fnmatchcase(window.model.lower(), wanted)
        return wanted.replace(":", "/") in title

    rows = sorted(filter(is_meant, [*builtin_table().rows(), *windows]), key=_title)
    used = _find_window(name, args.policy, settings) if name and "*" not in name else None
    how = "" if used is None else _HOW.get(used.source, used.source)
    if used is not None and used.source == "overlay":
        how = f"set in {settings.sources.get('windows', config.FILE)}"
    if args.json:
        used_data = None if used is None else {**to_data(used), "how": how}
        screen.json({"name": name or None, "found": used_data, "models": [to_data(row) for row in rows]})
        return DONE
    if used is not None:
        _show_window(name, used, how, screen)
        screen.line()
    if not rows:
        screen.line(f"no model in the table has this in its name{suggest_models(wanted)}")
        return DONE
    head = ["model", "context", "input", "output", "$ in", "$ out", "$ cached", "source", "as of"]
    screen.table([head, *map(_row, rows)], "lrrrrrrll")
    screen.line(f"{format_count(len(rows), 'model')}; dollars are for a million tokens")
    return DONE


def _forget(args: Namespace, screen: Screen) -> int:
    """Forget the windows that were learned for a model in a store."""
    with use_store(args) as store:
        found = find_learned(store.notes(KEY), args.forget, time.time())
        if not found:
            raise Refused(f"no window was learned for {args.forget!r} in {store.address}")
        for key in found:
            store.put_note(key, "")
    places = {key.removeprefix(KEY).removeprefix("#"): tokens for key, tokens in found.items()}
    if args.json:
        screen.json({"forgotten": places})
    for place, tokens in () if args.json else places.items():
        screen.line(f"forgot the window of {tokens:,} tokens that was learned for {place}")
    return DONE


def _title(window: Window) -> str:
    return f"{window.provider}/{window.model}" if window.provider else window.model


def _find_window(name: str, policy: str | None, settings: Settings) -> Window | None:
    """Return the window that the library would use; None if it would refuse to guess."""
    chosen = config.with_windows(make_policy(policy or "refold", (), settings), settings.windows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RefoldWarning)  # the answer on the screen says the same
        try:
            return chosen.window(name)
        except WindowUnknown:
            return None


def _show_window(name: str, window: Window, how: str, screen: Screen) -> None:
    rows = [["window", f"{window.tokens:,} tokens"]]
    if window.input_tokens:
        rows.append(["input", f"{window.input_tokens:,} tokens at most"])
    if window.output_tokens:
        rows.append(["output", f"{window.output_tokens:,} tokens at most"])
    if (price := window.price) is not None:
        text = f"${price.input:g} in, ${price.output:g} out"
        text += "" if price.cache_read is None else f", ${price.cache_read:g} from the cache"
        text += "" if price.cache_write is None else f", ${price.cache_write:g} into it"
        rows.append(["price", f"{text}, for a million tokens"])
    rows.append(["found", how])
    if window.detail:
        rows.append(["source", f"{window.detail} ({window.as_of})"])
    title = _title(window)
    arrow = f" → {title}" if title not in {"", name} else ""
    screen.line(screen.paint(screen.short(name, 60), "bold") + arrow)
    screen.table(rows, "ll", indent="  ", head=False)


def _row(window: Window) -> list[str]:
    price = window.price
    sizes = (window.input_tokens, window.output_tokens)
    money = (None,) * 3 if price is None else (price.input, price.output, price.cache_read)
    # A detail reads "context: LiteLLM 1.80 and models.dev 2025; ...": the names alone, each once.
    parts = [part.partition(": ")[2] for part in window.detail.split("; ")]
    names = [name.rpartition(" ")[0] or name for part in parts for name in part.split(" and ") if name]
    return [
        _title(window),
        f"{window.tokens:,}",
        *("" if size is None else f"{size:,}" for size in sizes),
        *("" if dollars is None else f"{dollars:g}" for dollars in money),
        ", ".join(dict.fromkeys(names)) or window.source,
        window.as_of,
    ]
