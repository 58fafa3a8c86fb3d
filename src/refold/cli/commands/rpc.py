"""`refold rpc`: sessions for another program, as JSON-RPC 2.0 on standard input and output."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.options.remote import add_remote_options, open_remote
from refold.cli.output.screen import Screen

EXAMPLES: Final = """\
  refold rpc --store sqlite:agent.db --model gpt-4o
  echo '{"jsonrpc": "2.0", "id": 1, "method": "initialize"}' | refold rpc
"""
NOTE: Final = """\
One JSON value a line, or with Content-Length as language servers write it.
Events come as notifications `session/event`. The end of the input ends it.
docs/remote.md lists the methods.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_remote_options(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Serve until the input ends."""
    import asyncio

    from refold.remote.server import Server

    if sys.stdin is None or sys.stdout is None:
        raise WrongUse("refold rpc talks over standard input and output: leave both open")
    screen.flush()
    with open_remote(args) as (store, defaults), _take_output() as sink:

        async def serve() -> int:
            return await Server(store, defaults, source=sys.stdin.fileno(), sink=sink).serve()

        number = asyncio.run(serve())
    return 128 + number if number else DONE


@contextmanager
def _take_output() -> Iterator[int]:
    """Keep standard output for the protocol: whatever else prints goes to standard error meanwhile."""
    sink = os.dup(sys.stdout.fileno())
    if sys.stderr is not None:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        yield sink
    finally:
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)
