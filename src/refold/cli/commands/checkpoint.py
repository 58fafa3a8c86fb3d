"""`refold checkpoint`: give this place of a session a name, or list the places that have one."""

from argparse import ArgumentParser, Namespace
from typing import Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.input.stores import use_session
from refold.cli.options.common import add_session, add_store
from refold.cli.output.encoding import to_data
from refold.cli.output.screen import Screen

EXAMPLES: Final = """\
  refold checkpoint task before-the-refactoring
  refold checkpoint task
  refold checkpoint task --list
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_session(parser)
    text = "its name; a name that is in use moves here; numbered by default"
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help=text)
    parser.add_argument("--list", action="store_true", help="set none; list those of every branch")
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Set the checkpoint and show where it is, or list all checkpoints."""
    if args.list:
        return _list(args, screen)
    with use_session(args) as session:
        name = session.checkpoint(args.name)
        said = session.state.view.said
    if args.json:
        screen.json({"session": args.session, "checkpoint": name, "said": said})
    else:
        screen.line(f"checkpoint {screen.short(name, 200)} stands behind #{said}")
    return DONE


def _list(args: Namespace, screen: Screen) -> int:
    if args.name:
        raise WrongUse("--list takes no NAME: it sets no checkpoint")
    with use_session(args) as session:
        checkpoints = session.checkpoints()
    if args.json:
        screen.json({"session": args.session, "checkpoints": to_data(checkpoints)})
    elif not checkpoints:
        screen.line("no checkpoint was set")
    else:
        rows = [["checkpoint", "behind", "branch", "entry"]]
        for each in checkpoints:
            branch = "this one" if each.on_branch else "another"
            rows.append([screen.short(each.name, 200), each.handle, branch, each.entry])
        screen.table(rows, "llll")
    return DONE
