"""`refold unfold`: undo a fold, so that what it took is seen again."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from refold.calls.measure import count
from refold.cli.exit_status import DONE, Refused
from refold.cli.input import stored
from refold.cli.output import log_lines
from refold.cli.output.encoding import dumps
from refold.cli.output.screen import Screen

if TYPE_CHECKING:
    from refold.session.session import Session

EXAMPLES: Final = """\
  refold unfold task
  refold unfold task 3f2a9c1d
"""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    stored.arguments(parser)
    told = "its name or the beginning of it, as `refold folds` shows it; the latest by default"
    parser.add_argument("fold", metavar="FOLD", nargs="?", help=told)
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Undo it and say what is seen now."""
    with stored.session(args) as session:
        before, tokens_before = _size(session)
        view = session.state.view
        name = session.unfold(args.fold)
        if name is None:
            raise Refused("nothing is folded on this branch: there is nothing to undo")
        after, tokens_after = _size(session)
    done = name in {fold.name for fold in view.standing}
    if args.json:
        facts = {"session": args.session, "fold": name, "unfolded": done, "before": before, "after": after}
        sizes = {"tokens_before": tokens_before, "tokens_after": tokens_after}
        screen.data(dumps({**facts, **sizes}) + "\n")
    elif not done:
        screen.line(f"{stored.short(name)} was unfolded already")
    else:
        took = log_lines.span_of(name, view)
        counts = f"{before:,} → {after:,} messages, {tokens_before:,} → {tokens_after:,} tokens"
        screen.line(f"unfolded {stored.short(name)} ({took}): {counts} in the view")
    return DONE


def _size(session: "Session") -> tuple[int, int]:
    """The messages of the view, and their tokens by estimate."""
    items = session.view()
    return len(items), count(items, format=session.state.wire.name)
