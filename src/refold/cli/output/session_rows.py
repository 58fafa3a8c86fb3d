"""The sessions of agents in rows: when, where, what about, and how large they are."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.input import stored
from refold.cli.output.encoding import dumps, plain
from refold.cli.output.progress import progress
from refold.cli.output.screen import Screen
from refold.cli.output.tables import columns
from refold.transcripts import FoundSession, find

LIMIT: Final = 30
"""Rows on a terminal: what fits under one command; other programs get all."""
_SHORT: Final = 8
"""Characters of a session's name that are shown; more where the first are not its own (a time, a prefix)."""
_PREFIXES: Final = ("ses_",)
_FOLDER: Final = 24


def run(args: Namespace, screen: Screen) -> int:
    """List them."""
    if args.store:
        raise WrongUse("--agent and --store exclude each other: choose one")
    if args.limit is not None and args.limit < 0:
        raise WrongUse(f"--limit {args.limit}: 0 for all, or a number of rows")
    wanted = args.limit if args.limit is not None else LIMIT if screen.live else 0
    found: list[FoundSession] = []
    with progress(screen, long=True) as told:
        for one in find(args.agent, limit=wanted or None):
            found.append(one)
            if not len(found) % 100:
                told.show(f"reading sessions: {len(found):,}")
    if args.json:
        screen.data(dumps({"agent": args.agent, "sessions": [_data(one) for one in found]}) + "\n")
    elif found:
        _show(found, screen)
    else:
        whose = "any agent" if args.agent == "all" else args.agent
        screen.line(f"no sessions of {whose} were found on this machine")
    return DONE


def _data(one: FoundSession) -> dict[str, object]:
    about = plain(one.about)
    return {
        "name": one.name,
        "agent": one.agent,
        "session": one.session,
        "path": one.path,
        "changed": one.changed,
        "size": one.size,
        **{key: about[key] for key in about if key != "session"},
    }


def _show(found: Sequence[FoundSession], screen: Screen) -> None:
    rows = [["session", "changed", "messages", "tokens", "folds", "model", "folder"]]
    rows += [_row(one, screen) for one in found]
    table = columns(rows, "llrrrll", padded=True)
    width = max(20, screen.width - max(map(len, table)) - 2) if screen.live else 200
    screen.line(screen.paint(f"{table[0]}  title", "bold"))
    for line, one in zip(table[1:], found, strict=True):
        screen.line(f"{line}  {screen.paint(screen.short(one.title, width), 'dim')}".rstrip())


def _row(one: FoundSession, screen: Screen) -> list[str]:
    about = one.about
    folder = Path(about.cwd).name if about.cwd else ""
    return [
        f"{one.agent}:{_short(one.session)}",
        stored.ago(one.changed),
        "?" if about.messages is None else f"{about.messages:,}",
        f"{about.tokens:,}" if about.tokens else "",
        f"{about.compactions:,}" if about.compactions else "",
        screen.short(about.model, _FOLDER),
        screen.short(folder, _FOLDER),
    ]


def _short(name: str) -> str:
    """Enough of a name to name it by."""
    prefix = next((one for one in _PREFIXES if name.startswith(one)), "")
    return name[: len(prefix) + _SHORT + 6 * bool(prefix)]
