"""`refold checkpoint`: mark this place of a session by a name."""

from argparse import ArgumentParser, Namespace
from typing import Final

from refold.cli.exit_status import DONE
from refold.cli.input import stored
from refold.cli.output.encoding import dumps
from refold.cli.output.screen import Screen

EXAMPLES: Final = """\
  refold checkpoint task before-the-refactoring
  refold checkpoint task
"""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    stored.arguments(parser)
    told = "what to call it; a name that was used moves here; numbered by default"
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help=told)
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Mark it and say where."""
    with stored.session(args) as session:
        name = session.checkpoint(args.name)
        said = session.state.view.said
    if args.json:
        screen.data(dumps({"session": args.session, "checkpoint": name, "said": said}) + "\n")
    else:
        screen.line(f"checkpoint {screen.short(name, 200)} stands behind #{said}")
    return DONE
