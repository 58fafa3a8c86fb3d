"""The JSON-RPC server: reads calls, answers them side by side, tells events; ends clean however it ends.

The end of the input ends the server as soon as every call is answered. An interrupt or a termination cancels
what runs: a fold that is cancelled leaves the session as it was.
"""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from refold.remote import methods
from refold.remote.desk import Defaults, Desk
from refold.remote.framing import Frames, Unread
from refold.remote.plain import event_of
from refold.remote.protocol import (
    CANCELLED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Call,
    Failure,
    answer,
    failure_of,
    id_of,
    is_id,
    notification,
    read,
    refusal,
)
from refold.session.events import Event
from refold.stores import Store

CHUNK: Final = 65_536
MOST_AT_ONCE: Final = 256
"""Calls that may be open; the next is read when one of them is answered."""
LAST_SECONDS: Final = 60.0
"""How long a client may take to read its last answers."""
HURRIED_SECONDS: Final = 2.0
"""And after an interrupt."""
EVENT: Final = "session/event"
_CANCELS: Final = ("$/cancelRequest", "notifications/cancelled")
_STOPS: Final = ("shutdown", "exit")


class Server:
    """One client over a pair of streams, given by the numbers of their files."""

    def __init__(self, store: Store, defaults: Defaults, *, source: int, sink: int) -> None:
        self._desk = Desk(store, defaults, self._tell)
        self._source = source
        self._sink = sink
        self._frames = Frames()
        self._written: SimpleQueue[Any] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="refold-rpc-output", daemon=True)
        self._open: dict[Any, asyncio.Task[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Task[None] | None = None
        self.broken = False
        """Whether nobody reads any more."""

    async def serve(self) -> int:
        """Serve until the input ends; gives the signal that ended it, or 0."""
        caught: list[int] = []
        self._writer.start()
        self._reading = asyncio.create_task(self._read())

        def catch(number: int) -> None:
            caught.append(number)
            self._stop(drop=True)

        forget = self._heed(catch)
        try:
            with suppress(asyncio.CancelledError):
                await self._reading
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            forget()
            await self._desk.close()
            self._written.put(None)
            await asyncio.to_thread(self._writer.join, HURRIED_SECONDS if caught else LAST_SECONDS)
        return caught[0] if caught else 0

    def _stop(self, *, drop: bool = False) -> None:
        """Read no further; `drop` what runs as well."""
        if self._reading is not None:
            self._reading.cancel()
        for task in self._tasks if drop else ():
            task.cancel()

    def _heed(self, act: Callable[[int], object]) -> Callable[[], None]:
        loop = self._loop
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            with suppress(NotImplementedError, RuntimeError):  # not on Windows, not outside the main thread
                loop.add_signal_handler(number, act, number)

        def forget() -> None:
            for number in numbers:
                with suppress(NotImplementedError, RuntimeError):
                    loop.remove_signal_handler(number)

        return forget

    async def _read(self) -> None:
        async for value in self._values():
            await self._room.acquire()
            task = asyncio.create_task(self._taken(value))
            self._tasks.add(task)
            task.add_done_callback(self._done)
            await asyncio.sleep(0)  # the call takes its place in the session's order before the next one

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._room.release()
        if not task.cancelled():
            task.exception()

    async def _values(self) -> AsyncIterator[Any]:
        """What comes in; the thread that reads holds nothing that the end of the program would wait for."""
        loop = self._loop
        chunks: asyncio.Queue[bytes] = asyncio.Queue()
        more = threading.Semaphore(4)

        def reading() -> None:
            chunk = b"?"
            while chunk:
                more.acquire()
                try:
                    chunk = os.read(self._source, CHUNK)
                except OSError:
                    chunk = b""
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(chunks.put_nowait, chunk)

        threading.Thread(target=reading, name="refold-rpc-input", daemon=True).start()
        while chunk := await chunks.get():
            more.release()
            for value in self._frames.feed(chunk):
                yield value
        for value in self._frames.close():
            yield value

    async def _taken(self, value: Any) -> None:
        """Answer one message: a call, or several at once."""
        told: Any
        if not isinstance(value, list):
            told = await self._answered(value)
        elif not value:
            told = refusal(None, Failure(INVALID_REQUEST, "a batch has at least one request"))
        else:
            answers = await asyncio.gather(*(self._answered(each) for each in value))
            told = [each for each in answers if each is not None] or None
        if told is not None:
            self._written.put(told)

    async def _answered(self, value: Any) -> dict[str, Any] | None:
        """What to answer to one call; None to a notification."""
        if isinstance(value, Unread):
            return refusal(None, Failure(INVALID_REQUEST if value.large else PARSE_ERROR, value.why))
        try:
            call = read(value)
        except Failure as failure:
            return refusal(id_of(value), failure)
        task = asyncio.ensure_future(self._called(call))
        if call.id is not None:
            self._open[call.id] = task
        try:
            result = await task
        except asyncio.CancelledError:
            task.cancel()
            told = refusal(call.id, Failure(CANCELLED, "cancelled"))
        except Exception as error:  # noqa: BLE001  # whatever it is, the client gets an answer
            told = refusal(call.id, failure_of(error))
        else:
            told = answer(call.id, result)
        finally:
            if self._open.get(call.id) is task:
                del self._open[call.id]
        return None if call.notification else told

    async def _called(self, call: Call) -> Any:
        if call.method in _CANCELS:
            return self._cancel(call)
        if call.method in _STOPS:
            self._stop()
            return None
        method = methods.find(call.method)
        return await method.act(self._desk, **method.read(call.params))

    def _cancel(self, call: Call) -> None:
        params = call.params if isinstance(call.params, dict) else {}
        named = params.get("id", params.get("requestId"))
        if not is_id(named):
            raise Failure(INVALID_PARAMS, "id takes a text or a number")
        task = self._open.get(named)
        if task is not None:
            task.cancel()

    def _tell(self, event: Event) -> None:
        self._written.put(notification(EVENT, event_of(event)))

    def _write(self) -> None:
        """Write what there is; a thread of its own, because a client may send before it reads."""
        while (value := self._written.get()) is not None:
            raw = self._frames.written(value)
            try:
                while raw and not self.broken:
                    raw = raw[os.write(self._sink, raw) :]
            except OSError:  # nobody reads any more
                self.broken = True
                with suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(partial(self._stop, drop=True))
