"""Run a gateway until a signal ends it: SIGTERM and SIGINT drain, SIGHUP takes other options."""

import asyncio
import gc
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final

from refold.errors import RefoldError
from refold.gateway.options import GatewayOptions
from refold.gateway.server import Gateway, describe_address
from refold.inspector.browsing import leave_address
from refold.inspector.running import describe_page, explain_no_listening

_GARBAGE: Final = 20_000
"""Objects after which Python looks for circles among them. A request makes some thousand and hardly a circle:
with Python's own 700 it looks several times in each, which takes a twentieth of the time."""


def serve(
    gateway: Gateway, *, announce: Callable[[str], None], reload: Callable[[], GatewayOptions] | None = None
) -> None:
    """Serve in an event loop of its own until the process is asked to end.

    announce   is given the first line, which says where the gateway listens, and later what a reload did
    reload     returns the options anew; its error leaves the old ones in force
    """
    with asyncio.Runner(loop_factory=_find_loop_factory()) as runner:
        runner.run(_serve(gateway, announce, reload))


async def _serve(
    gateway: Gateway, announce: Callable[[str], None], reload: Callable[[], GatewayOptions] | None
) -> None:
    try:
        await gateway.start()
        gc.freeze()
        gc.set_threshold(_GARBAGE)
    except OSError as error:
        raise explain_no_listening(gateway.options.host, gateway.options.port, error) from None
    stopping, hurried = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        (hurried if stopping.is_set() else stopping).set()

    with suppress(NotImplementedError):  # on Windows Ctrl-C ends the loop itself
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        if reload is not None:
            loop.add_signal_handler(signal.SIGHUP, lambda: announce(_reload(gateway, reload)))
    try:
        announce(describe_address(gateway.address, gateway.options))
        if gateway.inspector is not None:
            announce(describe_page(gateway.inspector.url))
        with _leave_address(gateway):
            await stopping.wait()
        await _drain_unless(gateway, hurried)
    finally:
        await gateway.close()


def _leave_address(gateway: Gateway) -> AbstractContextManager[None]:
    """Leave the address of the inspector where other programs of the user find it."""
    inspector = gateway.inspector
    with suppress(RefoldError):  # without its store the gateway passes requests on, so it must not end here
        return nullcontext() if inspector is None else leave_address(inspector.url, inspector.store_address)
    return nullcontext()


async def _drain_unless(gateway: Gateway, hurried: asyncio.Event) -> None:
    """Let open requests end; a second signal ends them."""
    tasks = [asyncio.ensure_future(gateway.drain()), asyncio.ensure_future(hurried.wait())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _reload(gateway: Gateway, reload: Callable[[], GatewayOptions]) -> str:
    try:
        rest = gateway.use(reload())
    except RefoldError as error:
        return f"refold serve: the settings stay as they were: {error}"
    return "refold serve: the settings were read again" + (f"; {rest}" if rest else "")


def _find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the faster event loop if it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Any = uvloop.new_event_loop
    return factory  # type: ignore[no-any-return]
