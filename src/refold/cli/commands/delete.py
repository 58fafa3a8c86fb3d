"""`refold delete`: remove sessions from a store for good."""

import re
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Final

from refold.cli.commands.sessions import NAME_WIDTH
from refold.cli.exit_status import DONE, WrongUse
from refold.cli.input.raw import confirm
from refold.cli.input.stores import find_head, use_store
from refold.cli.options.common import add_store, refuse_both
from refold.cli.output.encoding import to_data
from refold.cli.output.log_lines import format_age
from refold.cli.output.screen import UNCUT, Screen
from refold.core.tokens.units import format_count
from refold.stores import SessionInfo, Store

EXAMPLES: Final = """\
  refold delete task
  refold delete task-1 task-2 --store sqlite:team.db --yes
  refold delete --unused 90d --dry-run
  refold delete --unused 90d --yes --json
"""
NOTE: Final = "nothing brings a deleted session back: `refold export` keeps a copy as files"
_SECONDS: Final = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    text = "their names, also as --session NAME; `refold sessions` lists them"
    parser.add_argument("session", metavar="SESSION", nargs="*", help=text)
    parser.add_argument("--unused", metavar="AGE", help="all whose last change is older: 12h, 30d, 8w")
    parser.add_argument("--yes", action="store_true", help="do not ask; needed where nobody can answer")
    parser.add_argument("--dry-run", action="store_true", help="only list what would go")
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """List what goes, ask, and delete it."""
    refuse_both(args, "--session", "--unused")
    # an empty one, such as a variable that is not set, is none: it would take all sessions
    age = re.fullmatch(r"([0-9]{1,6})([mhdw])", "0d" if args.unused is None else args.unused)
    if age is None:
        raise WrongUse(f"--unused {args.unused[:40]!r}: write an age such as 12h, 30d or 8w")
    if not args.session and args.unused is None:
        raise WrongUse("nothing is named: refold delete SESSION, or --unused 30d")
    before = time.time() - int(age[1]) * _SECONDS[age[2]]
    sizes: dict[str, int] = {}
    with use_store(args) as store:
        infos = _choose(store, args.session, before)
        if infos and not args.json:
            width = NAME_WIDTH if screen.live else UNCUT
            rows = [
                [screen.short(one.name, width), f"{one.said:,}", format_age(one.changed)] for one in infos
            ]
            screen.table([["session", "said", "changed"], *rows], "lrl")
        if infos and not args.dry_run:
            if not args.yes:
                what = format_count(len(infos), "session")
                confirm(f"Delete {what} from {store.address} for good?", screen)
            still = {info.name for info in _choose(store, args.session, before)}  # somebody may have gone on
            infos = [info for info in infos if info.name in still]
            sizes = store.delete(*(info.name for info in infos))
        address = store.address
    said, size = sum(info.said for info in infos), sum(sizes.values())
    if args.json:
        facts = {"store": address, "dry_run": args.dry_run, "sessions": to_data(infos), "messages": said}
        screen.json({**facts, "bytes": None if args.dry_run else size})
    elif not infos:
        screen.line(f"no session is unused for {args.unused}")
    else:
        counts = f"{format_count(len(infos), 'session')} with {format_count(said, 'message')}"
        screen.line(f"would delete {counts}" if args.dry_run else f"deleted {counts}, {size / 1e3:,.1f} kB")
    return DONE


def _choose(store: Store, names: Sequence[str], before: float) -> list[SessionInfo]:
    """Return the sessions of these names; without names those that were last changed before a time."""
    for name in names:
        find_head(store, name)
    return [info for info in store.sessions() if (info.name in names if names else info.changed < before)]
