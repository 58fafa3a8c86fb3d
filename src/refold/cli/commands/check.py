"""`refold check`: verify everything in a store, and copy what can be read into a new one."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from refold.cli.exit_status import DONE, REFUSED, Refused
from refold.cli.input.stores import use_store
from refold.cli.options.common import add_store
from refold.cli.output.encoding import to_data
from refold.cli.output.progress import progress
from refold.cli.output.screen import Screen
from refold.core.tokens.units import format_count
from refold.errors import StoreError
from refold.stores import Defect, SessionInfo, Store, open_store
from refold.stores.salvage import SalvageReport, salvage

EXAMPLES: Final = """\
  refold check
  refold check --store jsonl:logs --json
  refold check --store sqlite:damaged.db --salvage sqlite:mended.db
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    text = "copy everything that can be read into this new store"
    parser.add_argument("--salvage", metavar="NEW", help=text)
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Check, copy if asked, and report; the status says whether everything is sound."""
    with use_store(args) as store:
        infos: list[SessionInfo] = []
        unlisted = ""
        try:
            infos = store.sessions()
        except StoreError as error:  # a damaged store may not be able to list its sessions
            unlisted = str(error)
        entries = sum(info.entries for info in infos)
        defects = []
        for defect in _find_defects(store, entries, len(infos), unlisted, screen):
            defects.append(defect)
            if not args.json:
                name = f"{screen.short(defect.session, 40)}: " if defect.session else ""
                screen.line(f"{screen.paint('wrong', 'red')}  {name}{screen.short(defect.what, 400)}")
        if not args.json:
            word = screen.paint(format_count(len(defects), "trouble"), "red")
            word = word if defects else screen.paint("all sound", "green")
            screen.line(f"{_count_entries(entries)}, {format_count(len(infos), 'session')}: {word}")
        saved = _salvage(store, args.salvage, entries, screen) if args.salvage else None
    if args.json:
        data = None if saved is None else {**to_data(saved), "entries": saved.entries, "whole": saved.whole}
        counts = {"store": store.address, "sessions": len(infos), "entries": entries}
        screen.json({**counts, "sound": not defects, "troubles": to_data(defects), "salvaged": data})
    elif saved is not None:
        _report_salvage(saved, args.salvage, screen)
    return REFUSED if defects else DONE


def _find_defects(
    store: Store, entries: int, sessions: int, unlisted: str, screen: Screen
) -> Iterator[Defect]:
    """Yield every defect of a store; the line of progress is removed while a defect is printed.

    unlisted   why the sessions cannot be listed: a defect where nothing else is found
    """
    with progress(screen) as now:
        defects = store.check()
        while True:
            now.show(f"checking {entries:,} entries in {sessions:,} sessions")
            try:
                defect = next(defects, None)
            except StoreError as error:
                now.clear()
                yield Defect(session="", what=str(error))
                return
            now.clear()
            if defect is None and not unlisted:
                return
            yield defect or Defect(session="", what=unlisted)
            unlisted = ""


def _count_entries(number: int) -> str:
    return "1 entry" if number == 1 else f"{number:,} entries"


def _salvage(store: Store, address: str, entries: int, screen: Screen) -> SalvageReport:
    """Copy into a new store; one that holds something is refused before anything is written."""
    with closing(open_store(address)) as target:
        if target.address == store.address:
            raise Refused(f"{target.address} is the store itself: salvage into a new one")
        try:
            with progress(screen) as now:
                return salvage(
                    store, target, tell=lambda done: now.show("salvaging", min(done, entries), entries)
                )
        except KeyboardInterrupt:
            screen.note(f"{target.address} is incomplete: begin again with another new store")
            raise


def _report_salvage(saved: SalvageReport, address: str, screen: Screen) -> None:
    """Print what was copied, and what was left out."""
    lost: list[str] = []
    for copied in saved.sessions:
        name = screen.short(copied.session, 40)
        if copied.lost:
            total = copied.entries + copied.lost
            lost.append(f"{name}: {_count_entries(copied.lost)} of {total:,} cannot be read")
        elif copied.lost is None:
            lost.append(f"{name}: the number of its entries is unknown")
        if copied.note:
            lost.append(f"{name}: {copied.note}")
    if saved.stopped:
        lost.append(f"the rest: {screen.short(saved.stopped, 400)}")
    for text in lost:
        screen.line(f"{screen.paint('lost', 'yellow')}   {text}")
    session_count = sum(1 for copied in saved.sessions if copied.entries or not copied.lost)
    counts = f"{_count_entries(saved.entries)} of {format_count(session_count, 'session')}"
    end = "; nothing was left out" if saved.whole else ""
    screen.line(f"{counts} copied to {screen.short(address, 400)}{end}")
