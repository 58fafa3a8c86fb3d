"""`refold rewind`: go back in a session; what came after stays on its own branch."""

from argparse import ArgumentParser, Namespace
from shlex import quote
from typing import Final

from refold.cli.exit_status import DONE
from refold.cli.input.stores import find_head, use_session
from refold.cli.options.common import add_session, add_store
from refold.cli.output.log_lines import short_name
from refold.cli.output.screen import Screen
from refold.cli.output.text import clean

EXAMPLES: Final = """\
  refold rewind task '#12'
  refold rewind task before-the-refactoring
  refold rewind task start
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_session(parser)
    text = "a message (#12), a checkpoint of any branch, the name of an entry, or start"
    parser.add_argument("to", metavar="TO", help=text)
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Move the head, and show how to return."""
    with use_session(args) as session:
        head = find_head(session.state.store, args.session)
        said = session.rewind(args.to)
    if args.json:
        again = list(said.folded_again)
        screen.json({"session": args.session, "said": said, "from": head.name or None, "folded_again": again})
        return DONE
    screen.line(
        f"stands behind #{said} now, before it was #{head.said}; what came after stays on its own branch"
    )
    for name in said.folded_again:
        short = short_name(name)
        undo = f"`refold unfold {quote(clean(args.session))} {short}`"
        screen.line(f"fold {short}, which was undone, stands again: {undo} undoes it")
    if head.name:
        screen.line(f"`refold rewind {quote(clean(args.session))} {head.name}` goes back there")
    return DONE
