"""`refold unfold`: undo a fold, so that the model sees again what it removed."""

from argparse import ArgumentParser, Namespace
from typing import Final

from refold.calls.measure import count
from refold.cli.exit_status import DONE, Refused
from refold.cli.input.stores import use_session
from refold.cli.options.common import add_session, add_store
from refold.cli.output.log_lines import fold_span, short_name
from refold.cli.output.screen import Screen

EXAMPLES: Final = """\
  refold unfold task
  refold unfold task 3f2a9c1d
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_session(parser)
    text = "its name or the beginning of it, as `refold folds` shows it; the latest by default"
    parser.add_argument("fold", metavar="FOLD", nargs="?", help=text)
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Undo the fold, and show the size of the view before and after."""
    with use_session(args) as session:
        before = session.view()
        view, report = session.state.view, session.state.accounting.report
        wire, model = session.state.wire.name, report.model if report else None
        tokens_before = count(before, model=model, format=wire)
        name = session.unfold(args.fold)
        if name is None:
            raise Refused("nothing is folded on this branch: there is nothing to undo")
        after = session.view()
        tokens_after = count(after, model=model, format=wire)
    was_standing = name in {fold.name for fold in view.standing}
    if args.json:
        counts = {"before": len(before), "after": len(after)}
        sizes = {"tokens_before": tokens_before, "tokens_after": tokens_after}
        screen.json({"session": args.session, "fold": name, "unfolded": was_standing, **counts, **sizes})
    elif not was_standing:
        screen.line(f"{short_name(name)} was unfolded already")
    else:
        messages = f"{len(before):,} → {len(after):,} messages"
        tokens = f"{tokens_before:,} → {tokens_after:,} tokens"
        screen.line(
            f"unfolded {short_name(name)} ({fold_span(name, view)}): {messages}, {tokens} in the view"
        )
    return DONE
