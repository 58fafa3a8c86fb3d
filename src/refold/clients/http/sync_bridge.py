"""Run a coroutine in a thread and an event loop of its own, for callers that block; knows nothing of HTTP.

A blocking read of a socket has a time-out for each read only: a server that sends a byte now and then holds
its caller for ever. A name look-up has no time-out at all. A loop can be left at any moment, by Ctrl-C in the
thread that waits or by another thread. Either way the coroutine is cancelled, which drops its connection.
"""

import contextvars
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
CLOSING_SECONDS: Final = 1.0
"""Seconds that a loop may take to close its connections before the caller goes on; more would be felt
after Ctrl-C, and the thread is a daemon that ends by itself."""


class Cancelled(Exception):
    """Another thread cancelled the coroutine."""


@dataclass(frozen=True, slots=True)
class _End(Generic[R]):
    value: R | None = None
    error: BaseException | None = None

    def unwrap(self) -> R:
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # R may be optional


class BackgroundCall(Generic[T, R]):
    """A coroutine in another thread; `start` gets the function that hands a piece over while it works."""

    def __init__(self, start: Callable[[Callable[[T], None]], Coroutine[Any, Any, R]], name: str) -> None:
        self._start = start
        self._queue: SimpleQueue[T | _End[R]] = SimpleQueue()
        self._is_cancelled = Event()
        self._cancels: list[Callable[[], object]] = []
        self._thread = Thread(
            target=contextvars.copy_context().run, args=(self._run,), name=name, daemon=True
        )

    def pieces(self) -> Generator[T, None, R]:
        """Yield the pieces as they come; return what the coroutine returns, raise what it raises."""
        try:
            self._thread.start()  # an interrupt may come while it waits for the thread
            while not isinstance(part := self._queue.get(), _End):
                yield part
        finally:
            self.cancel()
            with suppress(RuntimeError):  # it was interrupted before the thread ran
                self._thread.join(CLOSING_SECONDS)  # so that the connection is closed when the caller goes on
        return part.unwrap()

    def wait(self, seconds: float) -> R | None:
        """Wait for what the coroutine returns or raises; None and cancel it if the time runs out."""
        try:
            self._thread.start()
            end = self._queue.get(timeout=seconds)
        except Empty:
            self.cancel()
            return None
        except BaseException:  # Ctrl-C
            self.cancel()
            raise
        self._thread.join(CLOSING_SECONDS)
        assert isinstance(end, _End)  # noqa: S101  # a coroutine that is waited for hands over no pieces
        return end.unwrap()

    def cancel(self) -> None:
        """Cancel the coroutine, from any thread; does nothing after its end."""
        self._is_cancelled.set()
        for cancel in self._cancels:
            with suppress(RuntimeError):  # the loop has ended by itself
                cancel()

    def _run(self) -> None:
        import asyncio

        async def work() -> None:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None  # noqa: S101  # a coroutine that runs has one
            self._cancels.append(lambda: loop.call_soon_threadsafe(task.cancel))
            try:
                if self._is_cancelled.is_set():  # before there was a task to cancel
                    raise asyncio.CancelledError  # noqa: TRY301  # handled like a cancelled task
                end = _End(await self._start(self._queue.put))
            except asyncio.CancelledError:
                end = _End(error=Cancelled())
            except Exception as error:  # noqa: BLE001  # raised again in the thread that waits
                end = _End(error=error)
            # Before the loop closes: closing waits for name look-ups, which nobody can cancel.
            self._queue.put(end)

        try:
            asyncio.run(work())
        except BaseException as error:  # noqa: BLE001  # raised again in the thread that waits
            self._queue.put(_End(error=error))
