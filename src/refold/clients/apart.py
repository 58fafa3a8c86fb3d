"""Waiting for a coroutine in a thread and a loop of its own; knows nothing of what is waited for.

Reads of a socket in a thread only have a time-out each: a server that sends a byte now and then holds its
caller for ever, and looking up a name has no time-out at all. A loop can be left at any moment.
"""

import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Any, Final, TypeVar

T = TypeVar("T")
CLOSING: Final = 1.0
"""Seconds that a loop gets to close what it had open."""


def wait(start: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T | None:
    """What the coroutine gives or raises; None where it is not done in time, and it is cancelled then."""
    import asyncio

    told: Future[T] = Future()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def work() -> None:
        running.append((asyncio.get_running_loop(), asyncio.current_task()))
        try:
            told.set_result(await start())
        except Exception as error:  # noqa: BLE001  # it is raised where somebody waits
            told.set_exception(error)

    def run() -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(work())

    def leave() -> None:
        for loop, task in running:
            if task is not None:
                with suppress(RuntimeError):  # the loop has ended by itself
                    loop.call_soon_threadsafe(task.cancel)

    thread = Thread(target=contextvars.copy_context().run, args=(run,), name="refold-ask", daemon=True)
    thread.start()
    try:
        told.exception(seconds)
    except TimeoutError:
        leave()
        return None
    except BaseException:  # Ctrl-C
        leave()
        raise
    thread.join(CLOSING)
    return told.result()
