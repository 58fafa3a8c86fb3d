"""Run an inspector alone until a signal ends it."""

import asyncio
import errno
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from refold.errors import FormatError
from refold.inspector.browsing import leave_address
from refold.inspector.server import InspectorServer


def serve_inspector(server: InspectorServer, *, announce: Callable[[str], None]) -> None:
    """Serve in an event loop of its own until the process is asked to end.

    announce   is given the line that says where the page is
    """
    asyncio.run(_serve(server, announce))


async def _serve(server: InspectorServer, announce: Callable[[str], None]) -> None:
    try:
        await server.start()
    except OSError as error:
        raise explain_no_listening(server.options.host, server.options.port, error) from None
    stopping = asyncio.Event()
    with suppress(NotImplementedError):  # on Windows Ctrl-C ends the loop itself
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        with leave_address(server.url, server.store_address):
            announce(describe_page(server.url))
            await stopping.wait()
    finally:
        await server.close()


def explain_no_listening(host: str, port: int, error: OSError) -> FormatError:
    """Return why no server can listen there, in the system's own words: the event loop adds the address."""
    reason = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error)
    hint = "; choose another port (0: a free one)" * (error.errno == errno.EADDRINUSE)
    name = "port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "host"
    return FormatError(f"cannot listen on {host}:{port}: {reason}{hint}", path=name)


def describe_page(url: str) -> str:
    """Return the line that says where the page is."""
    return f"refold inspect: {url}"
