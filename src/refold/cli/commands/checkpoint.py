"""`refold checkpoint`: give this place of a session a name."""

from argparse import ArgumentParser, Namespace
from typing import Final

from refold.cli.exit_status import DONE
from refold.cli.input.stores import use_session
from refold.cli.options.common import add_session, add_store
from refold.cli.output.screen import Screen

EXAMPLES: Final = """\
  refold checkpoint task before-the-refactoring
  refold checkpoint task
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_session(parser)
    text = "its name; a name that is in use moves here; numbered by default"
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help=text)
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Set the checkpoint and show where it is."""
    with use_session(args) as session:
        name = session.checkpoint(args.name)
        said = session.state.view.said
    if args.json:
        screen.json({"session": args.session, "checkpoint": name, "said": said})
    else:
        screen.line(f"checkpoint {screen.short(name, 200)} stands behind #{said}")
    return DONE
