"""Pieces from a coroutine in a loop of its own, to whoever waits in a thread; knows nothing of what they are.

The thread that waits can be interrupted at any moment, and another thread can end the waiting. Either way
the coroutine is cancelled, which drops its connection. See `apart` for why a loop and not a blocking read.
"""

import contextvars
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Generic, TypeVar

from refold.clients.apart import CLOSING

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _End(Generic[R]):
    value: R | None = None
    error: BaseException | None = None


class Stopped(Exception):
    """Another thread ended the waiting."""


class Flow(Generic[T, R]):
    """What a coroutine gives while it works; `start` gets the call that hands a piece over."""

    def __init__(self, start: Callable[[Callable[[T], None]], Coroutine[Any, Any, R]]) -> None:
        self._start = start
        self._given: SimpleQueue[T | _End[R]] = SimpleQueue()
        self._left = Event()
        self._running: list[Callable[[], object]] = []
        self._thread = Thread(
            target=contextvars.copy_context().run, args=(self._run,), name="refold-talk", daemon=True
        )

    def pieces(self) -> Generator[T, None, R]:
        """The pieces as they come; returns what the coroutine returns, raises what it raises."""
        self._thread.start()
        try:
            while not isinstance(part := self._given.get(), _End):
                yield part
        finally:
            self.leave()
            self._thread.join(CLOSING)  # so that the connection is gone when the caller goes on
        if part.error is not None:
            raise part.error
        return part.value  # type: ignore[return-value]  # R may be optional

    def leave(self) -> None:
        """Cancel it, from any thread; nothing happens where it has ended."""
        self._left.set()
        for cancel in self._running:
            with suppress(RuntimeError):  # the loop has ended by itself
                cancel()

    def _run(self) -> None:
        import asyncio

        try:
            end = _End(asyncio.run(self._work()))
        except asyncio.CancelledError:
            end = _End(error=Stopped())
        except BaseException as error:  # noqa: BLE001  # it is raised where somebody waits
            end = _End(error=error)
        self._given.put(end)

    async def _work(self) -> R:
        import asyncio

        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101  # a coroutine that runs has one
        self._running.append(lambda: loop.call_soon_threadsafe(task.cancel))
        if self._left.is_set():
            raise asyncio.CancelledError
        return await self._start(self._given.put)
