"""`refold mcp`: sessions as tools of the Model Context Protocol."""

import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.options import remote
from refold.cli.output.screen import Screen

EXAMPLES: Final = """\
  refold mcp --store sqlite:agent.db --session my-task
  claude mcp add refold -- refold mcp
"""
NOTE: Final = """\
Tools: context_stats, compact_now, recall_search, recall_expand. Needs the
library of the protocol: pip install 'refold[mcp]'. It ends with its input.
"""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("--session", metavar="NAME", help="the session that is meant where a call names none")
    remote.arguments(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Serve until the input ends."""
    try:
        from refold.remote.mcp_server import serve
    except ImportError:
        raise WrongUse("refold mcp needs mcp: pip install 'refold[mcp]'") from None
    if sys.stdin is None or sys.stdout is None:
        raise WrongUse("refold mcp talks over standard input and output: leave both open")
    screen.flush()
    with remote.opened(args) as (store, defaults):
        serve(store, defaults, args.session)
    return DONE
