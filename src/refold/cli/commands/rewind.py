"""`refold rewind`: go back in a session; what came after stays on its own branch."""

from argparse import ArgumentParser, Namespace
from shlex import quote
from typing import TYPE_CHECKING, Final

from refold.cli.exit_status import DONE, Refused
from refold.cli.input import stored
from refold.cli.output.encoding import dumps
from refold.cli.output.plain import clean
from refold.cli.output.screen import Screen
from refold.errors import RefoldError, StoreError

if TYPE_CHECKING:
    from refold.session.session import Session

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
        head = stored.head_of(session.state.store, args.session)
        said = _moved(session, args.to)
    if args.json:
        screen.data(dumps({"session": args.session, "said": said, "from": head.name or None}) + "\n")
        return DONE
    screen.line(
        f"stands behind #{said} now, before it was #{head.said}; what came after stays on its own branch"
    )
    if head.name:
        screen.line(f"`refold rewind {quote(clean(args.session))} {head.name}` goes back there")
    return DONE


def _moved(session: "Session", to: str) -> int:
    """Move; a word that can only be a checkpoint is told as one."""
    try:
        return session.rewind(to)
    except StoreError:
        raise
    except RefoldError:
        if to.lstrip("[").startswith(("#", "b2:")) or to.strip().isdigit():
            raise
        names = ", ".join(map(repr, session.state.view.checkpoints))
        there = f"it has {names}" if names else "it has none"
        raise Refused(
            f"there is no checkpoint {to!r} on this branch; {there}; a message is '#12', an entry b2:..."
        ) from None
