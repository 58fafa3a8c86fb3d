"""`refold show`: a session as the model sees it, everything that was said in it, or its log."""

from argparse import ArgumentParser, Namespace
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from refold import formats
from refold.cli.exit_status import DONE, WrongUse
from refold.cli.input import stored
from refold.cli.input.sources import SHAPES
from refold.cli.output import costs, format_message, log_lines
from refold.cli.output.encoding import dumps, listed
from refold.cli.output.screen import Screen
from refold.core.log.entries import SAID, Entry
from refold.core.log.view import Piece, Put, Run, View, project_marks
from refold.stores import Head, Store

if TYPE_CHECKING:  # a session loads all that compacts, which a look at a log does not need
    from refold.session.purse import Purse

EXAMPLES: Final = """\
  refold show task
  refold show task --all --brief
  refold show task --log
  refold show task --format anthropic > view.json
  refold show claude-code:latest --brief
"""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    stored.arguments(parser, files=True)
    add = parser.add_argument
    add("--all", action="store_true", help="everything that was said, with what is folded marked")
    add("--log", action="store_true", help="the entries: messages, folds, checkpoints, usage")
    add("--brief", action="store_true", help="one line for each message")
    told = f"print the view as a JSON list in this shape: {SHAPES}"
    add("--format", metavar="NAME", help=told)
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Show what was asked for."""
    chosen = [name for name in ("all", "log", "format") if getattr(args, name)]
    if len(chosen) > 1:
        raise WrongUse(f"--{chosen[0]} and --{chosen[1]} exclude each other: choose one")
    if args.format and args.brief:
        raise WrongUse("--format and --brief exclude each other: choose one")
    wire = formats.get(args.format) if args.format else None
    if args.all or args.log:
        with stored.opened(args, files=True) as store:
            head = stored.head_of(store, args.session)
            show = _log if args.log else _all
            show(args, store, head, screen)
        return DONE
    with stored.session(args, files=True) as session:
        items = session.view()
        shelf = session.keeper.shelf
        if wire is not None:
            screen.data(listed([format_message.plain(item) for item in wire.render(shelf.messages)]) + "\n")
        elif args.json:
            _view_data(args, session.keeper.view, shelf.atoms, items, screen)
        else:
            view = session.keeper.view
            more = [f"{len(items):,} seen", *_costs(session.keeper.purse)]
            screen.line(_headline(args.session, shelf.wire.name, view, more, screen))
            screen.line()
            for atom, message in zip(shelf.atoms, shelf.messages, strict=True):
                handle, facts = handle_of(atom, view)
                format_message.show(screen, handle, message, facts=facts, brief=args.brief)
    return DONE


def handle_of(atom: Piece | None, view: View) -> tuple[str, list[str]]:
    """What to call a message of the view, and what else is to be known of it."""
    if atom is None:
        return "", []
    if isinstance(atom, Put):
        runs = view.originals(atom)
        return stored.short(atom.fold), [f"in place of {log_lines.span(runs)}"] if runs else []
    return f"#{atom.first}", ["pinned"] if atom.first in view.pins else []


def view_at(store: Store, session: str, head: Head) -> View:
    """The view at the head, without the messages."""
    return project_marks(store.read(session, head.place, kinds=log_lines.VIEW), head.said)


def shown_in(view: View) -> Callable[[int], bool]:
    """Tell quickly which messages are seen as they were said."""
    runs = sorted((piece.first, piece.last) for piece in view.pieces if isinstance(piece, Run))
    firsts = [first for first, _ in runs]

    def shown(number: int) -> bool:
        at = bisect_right(firsts, number) - 1
        return at >= 0 and number <= runs[at][1]

    return shown


def stream(screen: Screen, about: dict[str, Any], key: str, values: Iterable[Any]) -> None:
    """Print one JSON object whose last field is a list, item by item, however long it is."""
    screen.data(dumps({**about, key: []})[: -len("[]\n}")] + "[")
    comma = "\n    "
    for value in values:
        screen.data(comma + dumps(value, indent=None))
        comma = ",\n    "
    screen.data("\n  ]\n}\n")


def _costs(purse: "Purse") -> list[str]:
    """What the conversation and its summaries have cost, where that is known."""
    parts = ((costs.told(purse.own), "spent"), (costs.told(purse.summaries), "on summaries"))
    return [f"{amount} {what}" for amount, what in parts if amount]


def _headline(name: str, wire: str, view: View, more: Sequence[str], screen: Screen) -> str:
    folds = len(view.standing)
    facts = [wire, f"{view.said:,} said", more[0], f"{folds:,} fold{'s' * (folds != 1)}"]
    told = " · ".join([*facts, *more[1:]])
    return f"{screen.paint(screen.short(name, max(20, screen.width - len(told) - 2)), 'bold')}  {told}"


def _view_data(
    args: Namespace, view: View, atoms: Iterable[Piece | None], items: list[Any], screen: Screen
) -> None:
    messages = (
        {"handle": _handle(atom), "message": format_message.plain(item)}
        for atom, item in zip(atoms, items, strict=True)
    )
    stream(screen, {"session": args.session, "said": view.said, "seen": len(items)}, "messages", messages)


def _handle(atom: Piece | None) -> str | None:
    if atom is None:
        return None
    return f"#{atom.first}" if isinstance(atom, Run) else f"{atom.fold}/{atom.place}"


def _all(args: Namespace, store: Store, head: Head, screen: Screen) -> None:
    view = view_at(store, args.session, head)
    shown = shown_in(view)
    said = store.read(args.session, head.place, kinds=SAID)
    if args.json:
        stream(screen, {"session": args.session, "said": view.said}, "messages", _said_data(said, view))
        return
    for entry in said:
        facts = ["folded"] * (not shown(entry.said)) + ["pinned"] * (entry.said in view.pins)
        format_message.show(
            screen, f"#{entry.said}", format_message.read(entry), facts=facts, brief=args.brief
        )


def _said_data(said: Iterable[Entry], view: View) -> Iterator[dict[str, Any]]:
    shown = shown_in(view)
    for entry in said:
        yield {
            "handle": f"#{entry.said}",
            "name": entry.name,
            "at": entry.at,
            "folded": not shown(entry.said),
            "pinned": entry.said in view.pins,
            "message": entry.value,
        }


def _log(args: Namespace, store: Store, head: Head, screen: Screen) -> None:
    entries = store.read(args.session, head.place)
    if args.json:
        stream(screen, {"session": args.session}, "entries", map(log_lines.data, entries))
        return
    view = view_at(store, args.session, head)
    for entry in entries:
        screen.line(log_lines.line(entry, view, screen))
