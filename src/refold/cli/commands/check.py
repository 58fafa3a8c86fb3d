"""`refold check`: verify everything in a store, and copy what can be read into a new one."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from refold.cli.exit_status import DONE, REFUSED, Refused
from refold.cli.input import stored
from refold.cli.output.encoding import dumps, plain
from refold.cli.output.progress import progress
from refold.cli.output.screen import Screen
from refold.errors import StoreError
from refold.stores import SessionInfo, Store, Defect, open_store
from refold.stores.salvage import CopiedSession, SalvageReport, salvage

EXAMPLES: Final = """\
  refold check
  refold check --store jsonl:logs --json
  refold check --store sqlite:damaged.db --salvage sqlite:mended.db
"""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    told = "copy everything that can be read into this new store"
    parser.add_argument("--salvage", metavar="NEW", help=told)
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Check, copy where that was asked for, and tell; the status says whether all is sound."""
    with stored.opened(args) as store:
        infos = _infos(store)
        troubles = []
        for trouble in _checked(store, infos, screen):
            troubles.append(trouble)
            if not args.json:
                screen.line(_line(trouble, screen))
        if not args.json:
            screen.line(_verdict(infos, len(troubles), screen))
        saved = _salvaged(store, args.salvage, infos, screen) if args.salvage else None
    if args.json:
        screen.data(dumps(_data(store, infos, troubles, saved)) + "\n")
    elif saved is not None:
        _tell(saved, args.salvage, screen)
    return REFUSED if troubles else DONE


def _infos(store: Store) -> list[SessionInfo]:
    """The sessions, as far as the store still tells."""
    with suppress(StoreError):
        return store.sessions()
    return []


def _checked(store: Store, infos: list[SessionInfo], screen: Screen) -> Iterator[Defect]:
    entries = sum(info.entries for info in infos)
    with progress(screen, long=True) as now:
        found = store.check()
        while True:
            now.show(f"checking {entries:,} entries in {len(infos):,} sessions")
            try:
                trouble = next(found, None)
            except StoreError as error:
                now.clear()
                yield Defect(session="", what=str(error))
                return
            now.clear()
            if trouble is None:
                return
            yield trouble


def _line(trouble: Defect, screen: Screen) -> str:
    name = f"{screen.short(trouble.session, 40)}: " if trouble.session else ""
    return f"{screen.paint('wrong', 'red')}  {name}{screen.short(trouble.what, 400)}"


def _verdict(infos: list[SessionInfo], troubles: int, screen: Screen) -> str:
    entries, sessions = sum(info.entries for info in infos), len(infos)
    counts = f"{_count(entries, 'entry')}, {_count(sessions, 'session')}"
    if not troubles:
        return f"{counts}: {screen.paint('all sound', 'green')}"
    return f"{counts}: {screen.paint(_count(troubles, 'trouble'), 'red')}"


def _count(number: int, word: str) -> str:
    many = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number:,} {word if number == 1 else many}"


def _salvaged(store: Store, where: str, infos: list[SessionInfo], screen: Screen) -> SalvageReport:
    """Copy into a new store; one that holds something is refused before anything is written."""
    whole = sum(info.entries for info in infos)
    target = open_store(where)
    try:
        if target.address == store.address:
            raise Refused(f"{target.address} is the store itself: salvage into a new one")
        with progress(screen, long=True) as now:
            return salvage(store, target, tell=lambda done: now.show("salvaging", min(done, whole), whole))
    except KeyboardInterrupt:
        screen.note(f"{target.address} holds a part: begin again with another new store")
        raise
    finally:
        target.close()


def _tell(saved: SalvageReport, where: str, screen: Screen) -> None:
    """Say what was copied, and what was left out."""
    for copied in saved.sessions:
        for what in _left_out(copied):
            screen.line(f"{screen.paint('lost', 'yellow')}   {screen.short(copied.session, 40)}: {what}")
    if saved.stopped:
        screen.line(f"{screen.paint('lost', 'yellow')}   the rest: {screen.short(saved.stopped, 400)}")
    kept = sum(1 for copied in saved.sessions if copied.entries or not copied.lost)
    told = f"{_count(saved.entries, 'entry')} of {_count(kept, 'session')} copied to"
    end = "; nothing was left out" if saved.whole else ""
    screen.line(f"{told} {screen.short(where, 400)}{end}")


def _left_out(copied: CopiedSession) -> Iterator[str]:
    if copied.lost:
        yield f"{_count(copied.lost, 'entry')} of {copied.entries + copied.lost:,} cannot be read"
    elif copied.lost is None:
        yield "nobody knows how many entries it had"
    if copied.note:
        yield copied.note


def _data(store: Store, infos: list[SessionInfo], troubles: list[Defect], saved: SalvageReport | None) -> dict[str, Any]:
    return {
        "store": store.address,
        "sessions": len(infos),
        "entries": sum(info.entries for info in infos),
        "sound": not troubles,
        "troubles": plain(troubles),
        "salvaged": None
        if saved is None
        else {**plain(saved), "entries": saved.entries, "whole": saved.whole},
    }
