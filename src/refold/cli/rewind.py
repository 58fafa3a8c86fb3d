"""`refold rewind`: go back in a session; what came after stays on its own branch."""

from argparse import ArgumentParser, Namespace
from shlex import quote
from typing import Final

from refold.cli import stored
from refold.cli.encoding import dumps
from refold.cli.plain import clean
from refold.cli.screen import Screen
from refold.cli.stops import DONE

EXAMPLES: Final = """\
  refold rewind task '#12'
  refold rewind task before-the-refactoring
  refold rewind task start
"""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    stored.arguments(parser)
    told = "a message (#12), a checkpoint, the name of an entry, or start"
    parser.add_argument("to", metavar="TO", help=told)
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Move the head, and say how to come back."""
    with stored.session(args) as session:
        head = stored.head_of(session.keeper.store, args.session)
        said = session.rewind(args.to)
    if args.json:
        screen.data(dumps({"session": args.session, "said": said, "from": head.name or None}) + "\n")
        return DONE
    screen.line(
        f"stands behind #{said} now, before it was #{head.said}; what came after stays on its own branch"
    )
    if head.name:
        screen.line(f"`refold rewind {quote(clean(args.session))} {head.name}` goes back there")
    return DONE
