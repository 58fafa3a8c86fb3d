"""`refold diff`: what a fold removed, and what stands there now."""

from argparse import ArgumentParser, Namespace
from typing import Any, Final

from refold.cli.exit_status import DONE, Refused
from refold.cli.input.stores import find_head, use_store
from refold.cli.options.common import add_session, add_store
from refold.cli.output.format_message import first_words, message_lines
from refold.cli.output.log_lines import NOTHING_FOLDED, entry_line, short_name
from refold.cli.output.screen import UNCUT, Screen, Style
from refold.core.log.entries import bare_name
from refold.core.log.view import Change, View
from refold.stores.reading.stored_messages import ChangeReader, Side
from refold.stores.reading.stored_views import read_view

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
        head = find_head(store, args.session, files=True)
        view = read_view(store, args.session, head)
        entries = {entry.name: entry for entry in store.read(args.session, head.place, kinds=["fold"])}
        name = _choose_fold(args.fold, view)
        entry = entries[name] if name else None
        fold = view.fold(name) if name else None
        changes = fold.changes if fold else ()
        reader = ChangeReader(store, args.session, head.place, entries)
        if args.json:
            value = entry.value if entry else {}
            screen.json(
                {
                    "session": args.session,
                    "fold": name,
                    "standing": fold is not None and fold.standing,
                    "stages": value.get("stages", []),
                    "tokens_before": value.get("before"),
                    "tokens_after": value.get("after"),
                    "at": entry.at if entry else None,
                    "changes": [_change_data(change, name or "", reader) for change in changes],
                }
            )
            return DONE
        if entry is None:
            screen.line(NOTHING_FOLDED)
            return DONE
        screen.line(entry_line(entry, view, screen))
        for change in changes:
            screen.line()
            kept = {number for run in change.kept for number in range(run.first, run.last + 1)}
            for side in reader.read(change.removed):
                if side.fold or side.number not in kept:
                    _show_side("-", side, entry.name, screen, full=args.full)
            for side in reader.read(change.inserted):
                stays = not side.fold
                _show_side(" " if stays else "+", side, entry.name, screen, full=args.full or not stays)
    return DONE


def _choose_fold(word: str | None, view: View) -> str | None:
    """Return the full name of a fold; without a word that of the latest standing fold, None without one."""
    if word is None:
        return view.standing[-1].name if view.standing else None
    names = [fold.name for fold in view.folds]
    matches = [name for name in names if name.startswith(word) or bare_name(name).startswith(word)]
    if len(matches) != 1:
        problem = "several folds begin with" if matches else "no fold of this branch is named"
        raise Refused(f"{problem} {word!r}: `refold folds` lists them")
    return matches[0]


def _name_side(side: Side, own: str) -> str:
    """Return the handle of a message; those that the fold `own` inserted have none."""
    if side.fold:
        return "" if side.fold == own else short_name(side.fold)
    return f"#{side.number}"


def _change_data(change: Change, own: str, reader: ChangeReader) -> dict[str, Any]:
    return {
        key: [
            {
                "handle": _name_side(side, own) or None,
                "role": side.message.role,
                "text": "\n".join(message_lines(side.message)),
            }
            for side in reader.read(pieces)
        ]
        for key, pieces in (("took", change.removed), ("put", change.inserted))
    }


def _show_side(mark: str, side: Side, own: str, screen: Screen, *, full: bool) -> None:
    style, handle = _COLOURS.get(mark, "plain"), _name_side(side, own)
    head = f"{mark} {handle} {side.message.role}" if handle else f"{mark} {side.message.role}"
    lines = list(message_lines(side.message))
    if not full or len(lines) <= 1:
        room = UNCUT if full else max(20, screen.width - len(head) - 2)
        screen.line(screen.paint(f"{head}  {screen.short(first_words(side.message), room)}", style))
        return
    screen.line(screen.paint(head, style))
    for line in lines:
        screen.line(screen.paint(f"{mark}   {line}".rstrip(), style))
