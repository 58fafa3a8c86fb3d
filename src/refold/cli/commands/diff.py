"""`refold diff`: what a fold took, and what stands there now."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from refold import formats
from refold.cli.commands.show import view_at
from refold.cli.exit_status import DONE, Refused
from refold.cli.input import stored
from refold.cli.output import format_message, log_lines
from refold.cli.output.encoding import dumps
from refold.cli.output.screen import Screen, Style
from refold.core.log.entries import SAID, Entry
from refold.core.log.view import Change, Piece, Put, Run, View
from refold.core.messages.message import Message
from refold.stores import Place, Store

EXAMPLES: Final = """\
  refold diff task
  refold diff task 3f2a9c1d
  refold diff task --full | less
  refold diff transcript.jsonl
"""
_COLOURS: Final[dict[str, Style]] = {"-": "red", "+": "green"}


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    stored.arguments(parser, files=True)
    told = "its name or the beginning of it, as `refold folds` shows it; the latest that stands by default"
    parser.add_argument("fold", metavar="FOLD", nargs="?", help=told)
    parser.add_argument("--full", action="store_true", help="show what left whole, not one line of each")
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Show one fold."""
    with stored.opened(args, files=True) as store:
        head = stored.head_of(store, args.session)
        view = view_at(store, args.session, head)
        folds = {one.name: one for one in store.read(args.session, head.place, kinds=["fold"])}
        name = _chosen(args.fold, view)
        reader = _Reader(store, args.session, head.place, folds)
        if args.json:
            screen.data(dumps(_data(args.session, folds[name], view, reader)) + "\n")
        else:
            _show(folds[name], view, reader, screen, full=args.full)
    return DONE


def _chosen(word: str | None, view: View) -> str:
    if word is None:
        if not view.standing:
            raise Refused("nothing is folded on this branch: there is nothing to compare")
        return view.standing[-1].name
    names = [fold.name for fold in view.folds]
    found = [name for name in names if name.startswith(word) or name.removeprefix("b2:").startswith(word)]
    if len(found) != 1:
        what = "several folds begin with" if found else "no fold of this branch is named"
        raise Refused(f"{what} {word!r}: `refold folds` lists them")
    return found[0]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A message on one side of a change."""

    handle: str
    message: Message


@dataclass(frozen=True, slots=True)
class _Reader:
    """Finds the messages of pieces."""

    store: Store
    session: str
    place: Place
    folds: dict[str, Entry]

    def read(self, pieces: Iterable[Piece], own: str) -> Iterator[_Piece]:
        """The messages of some pieces; those of the fold itself have no handle of their own."""
        for piece in pieces:
            if isinstance(piece, Run):
                for one in self.store.read(
                    self.session, self.place, kinds=SAID, first=piece.first, last=piece.last
                ):
                    yield _Piece(f"#{one.said}", format_message.read(one))
            else:
                handle = "" if piece.fold == own else stored.short(piece.fold)
                yield _Piece(handle, self._put(piece))

    def _put(self, piece: Put) -> Message:
        fold = self.folds[piece.fold]
        value = fold.value["messages"][piece.place]
        if "message" in value:
            return format_message.parsed(value["message"], "refold")
        return format_message.parsed(value["wire"], str(fold.beside.get("format", formats.DEFAULT)))


def _data(session: str, fold: Entry, view: View, reader: _Reader) -> dict[str, Any]:
    known = view.fold(fold.name)
    changes = known.changes if known else ()
    return {
        "session": session,
        "fold": fold.name,
        "standing": known is not None and known.standing,
        "stages": fold.value.get("stages", []),
        "tokens_before": fold.value.get("before"),
        "tokens_after": fold.value.get("after"),
        "at": fold.at,
        "changes": [_change_data(change, fold.name, reader) for change in changes],
    }


def _change_data(change: Change, own: str, reader: _Reader) -> dict[str, Any]:
    return {
        side: [
            {
                "handle": one.handle or None,
                "role": one.message.role,
                "text": "\n".join(format_message.lines(one.message)),
            }
            for one in reader.read(pieces, own)
        ]
        for side, pieces in (("took", change.took), ("put", change.put))
    }


def _show(fold: Entry, view: View, reader: _Reader, screen: Screen, *, full: bool) -> None:
    screen.line(log_lines.line(fold, view, screen))
    known = view.fold(fold.name)
    for change in known.changes if known else ():
        screen.line()
        kept = {number for run in change.kept for number in range(run.first, run.last + 1)}
        for one in reader.read(change.took, fold.name):
            if not (one.handle.startswith("#") and int(one.handle[1:]) in kept):
                _side("-", one, screen, full=full)
        for one in reader.read(change.put, fold.name):
            stays = one.handle.startswith("#")
            _side(" " if stays else "+", one, screen, full=full or not stays)


def _side(mark: str, one: _Piece, screen: Screen, *, full: bool) -> None:
    style = _COLOURS.get(mark, "plain")
    head = f"{mark} {one.handle} {one.message.role}" if one.handle else f"{mark} {one.message.role}"
    lines = list(format_message.lines(one.message))
    if not full or len(lines) <= 1:
        room = max(20, screen.width - len(head) - 2) if not full else 10_000
        screen.line(screen.paint(f"{head}  {screen.short(format_message.start(one.message), room)}", style))
        return
    screen.line(screen.paint(head, style))
    for line in lines:
        screen.line(screen.paint(f"{mark}   {line}".rstrip(), style))
