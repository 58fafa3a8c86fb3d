"""`refold diff`: what a fold removed, and what stands there now."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from refold import formats
from refold.cli.exit_status import DONE, Refused
from refold.cli.input.stores import find_head, use_store
from refold.cli.options.common import add_session, add_store
from refold.cli.output.format_message import first_words, message_lines, parse_entry, parse_stored
from refold.cli.output.log_lines import entry_line, read_view, short_name
from refold.cli.output.screen import UNCUT, Screen, Style
from refold.core.log.entries import SAID, Entry, bare_name
from refold.core.log.view import Change, MessageRange, View, ViewItem
from refold.core.messages.message import Message
from refold.stores import Place, Store

EXAMPLES: Final = """\
  refold diff task
  refold diff task 3f2a9c1d
  refold diff task --full | less
  refold diff transcript.jsonl
"""
_COLOURS: Final[dict[str, Style]] = {"-": "red", "+": "green"}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_session(parser, files=True)
    text = "its name or the beginning of it, as `refold folds` shows it; the latest that stands by default"
    parser.add_argument("fold", metavar="FOLD", nargs="?", help=text)
    parser.add_argument("--full", action="store_true", help="show removed messages whole, not in one line")
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Show one fold."""
    with use_store(args, files=True) as store:
        head = find_head(store, args.session)
        view = read_view(store, args.session, head)
        entries = {entry.name: entry for entry in store.read(args.session, head.place, kinds=["fold"])}
        entry = entries[_choose_fold(args.fold, view)]
        fold = view.fold(entry.name)
        changes = fold.changes if fold else ()
        reader = _Reader(store, args.session, head.place, entries)
        if args.json:
            screen.json(
                {
                    "session": args.session,
                    "fold": entry.name,
                    "standing": fold is not None and fold.standing,
                    "stages": entry.value.get("stages", []),
                    "tokens_before": entry.value.get("before"),
                    "tokens_after": entry.value.get("after"),
                    "at": entry.at,
                    "changes": [_change_data(change, entry.name, reader) for change in changes],
                }
            )
            return DONE
        screen.line(entry_line(entry, view, screen))
        for change in changes:
            screen.line()
            kept = {f"#{number}" for run in change.kept for number in range(run.first, run.last + 1)}
            for side in reader.read(change.removed, entry.name):
                if side.handle not in kept:
                    _show_side("-", side, screen, full=args.full)
            for side in reader.read(change.inserted, entry.name):
                stays = side.handle.startswith("#")
                _show_side(" " if stays else "+", side, screen, full=args.full or not stays)
    return DONE


def _choose_fold(word: str | None, view: View) -> str:
    """Return the full name of a fold; without a word that of the latest standing fold."""
    if word is None:
        if not view.standing:
            raise Refused("nothing is folded on this branch: there is nothing to compare")
        return view.standing[-1].name
    names = [fold.name for fold in view.folds]
    matches = [name for name in names if name.startswith(word) or bare_name(name).startswith(word)]
    if len(matches) != 1:
        problem = "several folds begin with" if matches else "no fold of this branch is named"
        raise Refused(f"{problem} {word!r}: `refold folds` lists them")
    return matches[0]


@dataclass(frozen=True, slots=True)
class _Side:
    """A message on one side of a change."""

    handle: str
    message: Message


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the messages of a view's pieces from the store."""

    store: Store
    session: str
    place: Place
    folds: dict[str, Entry]

    def read(self, pieces: Iterable[ViewItem], own: str) -> Iterator[_Side]:
        """Yield the messages of some pieces; those that the fold `own` inserted have no handle."""
        for piece in pieces:
            if isinstance(piece, MessageRange):
                first, last = piece.first, piece.last
                for entry in self.store.read(self.session, self.place, kinds=SAID, first=first, last=last):
                    yield _Side(f"#{entry.said}", parse_entry(entry))
            else:
                fold = self.folds[piece.fold]
                value = fold.value["messages"][piece.place]
                wire = "refold" if "message" in value else str(fold.beside.get("format", formats.DEFAULT))
                message = parse_stored(value["message" if "message" in value else "wire"], wire)
                yield _Side("" if piece.fold == own else short_name(piece.fold), message)


def _change_data(change: Change, own: str, reader: _Reader) -> dict[str, Any]:
    return {
        key: [
            {
                "handle": side.handle or None,
                "role": side.message.role,
                "text": "\n".join(message_lines(side.message)),
            }
            for side in reader.read(pieces, own)
        ]
        for key, pieces in (("took", change.removed), ("put", change.inserted))
    }


def _show_side(mark: str, side: _Side, screen: Screen, *, full: bool) -> None:
    style = _COLOURS.get(mark, "plain")
    head = f"{mark} {side.handle} {side.message.role}" if side.handle else f"{mark} {side.message.role}"
    lines = list(message_lines(side.message))
    if not full or len(lines) <= 1:
        room = UNCUT if full else max(20, screen.width - len(head) - 2)
        screen.line(screen.paint(f"{head}  {screen.short(first_words(side.message), room)}", style))
        return
    screen.line(screen.paint(head, style))
    for line in lines:
        screen.line(screen.paint(f"{mark}   {line}".rstrip(), style))
