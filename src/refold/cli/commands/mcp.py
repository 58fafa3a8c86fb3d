"""`refold mcp`: sessions as tools of the Model Context Protocol."""

import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.options.remote import add_remote_options, open_remote
from refold.cli.output.screen import Screen
from refold.errors import install_hint

EXAMPLES: Final = """\
  refold mcp --store sqlite:agent.db --session my-task
  claude mcp add refold -- refold mcp
"""
NOTE: Final = """\
Tools: context_stats, compact_now, recall_search, recall_expand. Needs the
library of the protocol: the extra mcp. It ends with its input.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--session", metavar="NAME", help="the session of calls that name none")
    add_remote_options(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Serve until the input ends."""
    try:
        from refold.remote.mcp_server import serve
    except ImportError:
        raise WrongUse(f"refold mcp needs mcp: {install_hint('mcp')}") from None
    if sys.stdin is None or sys.stdout is None:
        raise WrongUse("refold mcp talks over standard input and output: leave both open")
    screen.flush()
    with open_remote(args) as (store, defaults):
        serve(store, defaults, args.session)
    return DONE
