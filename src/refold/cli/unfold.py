"""`refold unfold`: undo a fold, so that what it took is seen again."""

from argparse import ArgumentParser, Namespace
from typing import Final

from refold.cli import logged, stored
from refold.cli.encoding import dumps
from refold.cli.screen import Screen
from refold.cli.stops import DONE, REFUSED

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
        before = len(session.view())
        view = session.keeper.view
        name = session.unfold(args.fold)
        after = len(session.view())
    done = name in {fold.name for fold in view.standing}
    if args.json:
        facts = {"session": args.session, "fold": name, "unfolded": done, "before": before, "after": after}
        screen.data(dumps(facts) + "\n")
    elif name is None:
        screen.line("nothing is folded in this session")
    elif not done:
        screen.line(f"{stored.short(name)} was unfolded already")
    else:
        took = logged.span_of(name, view)
        screen.line(f"unfolded {stored.short(name)} ({took}): {before:,} → {after:,} messages in the view")
    return REFUSED if name is None else DONE
