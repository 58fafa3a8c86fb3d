"""The JSON-RPC server: reads calls, answers them concurrently, sends events, and ends cleanly in every case.

The end of the input ends the server as soon as every call is answered. A signal cancels the calls that run: a
compaction that is cancelled leaves the session as it was.
"""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from refold.remote import operations
from refold.remote.plain import event_to_plain
from refold.remote.protocol import (
    CANCELLED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Call,
    Failure,
    MessageFramer,
    UnreadableMessage,
    format_error,
    format_notification,
    format_result,
    is_id,
    parse_call,
    read_id,
    to_failure,
)
from refold.remote.registry import Defaults, SessionRegistry
from refold.session.events import Event
from refold.stores import Store

# The capacity of a pipe on Linux: one read can take all that there is.
CHUNK: Final = 65_536
MOST_AT_ONCE: Final = 256
"""Most calls at a time; the next is read when one of them is answered, so that a flood fills no memory."""
LAST_SECONDS: Final = 60.0
"""Seconds that a client may take to read its last answers: enough for a slow one on a loaded machine."""
HURRIED_SECONDS: Final = 2.0
"""The same after a signal, when somebody waits for the end."""
EVENT: Final = "session/event"
_CANCELS: Final = ("$/cancelRequest", "notifications/cancelled")
_STOPS: Final = ("shutdown", "exit")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Server:
    """Serves one client over a pair of file descriptors."""

    def __init__(self, store: Store, defaults: Defaults, *, source: int, sink: int) -> None:
        self._registry = SessionRegistry(store, defaults, self._send_event)
        self._source = source
        self._sink = sink
        self._framer = MessageFramer()
        self._outgoing: SimpleQueue[Any] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="refold-rpc-output", daemon=True)
        self._open: dict[Any, asyncio.Task[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Task[None] | None = None
        self.broken = False
        """True if nobody reads any more."""

    async def serve(self) -> int:
        """Serve until the input ends; returns the signal that ended it, or 0."""
        caught: list[int] = []
        self._writer.start()
        self._reading = asyncio.create_task(self._read())

        def catch(number: int) -> None:
            caught.append(number)
            self._stop(cancel=True)

        for number in _SIGNALS:
            with suppress(NotImplementedError, RuntimeError):  # not on Windows, not outside the main thread
                self._loop.add_signal_handler(number, catch, number)
        try:
            with suppress(asyncio.CancelledError):
                await self._reading
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for number in _SIGNALS:
                with suppress(NotImplementedError, RuntimeError):
                    self._loop.remove_signal_handler(number)
            await self._registry.close()
            self._outgoing.put(None)
            await asyncio.to_thread(self._writer.join, HURRIED_SECONDS if caught else LAST_SECONDS)
        return caught[0] if caught else 0

    def _stop(self, *, cancel: bool = False) -> None:
        """Read no further; with `cancel` also cancel the calls that run."""
        if self._reading is not None:
            self._reading.cancel()
        for task in self._tasks if cancel else ():
            task.cancel()

    async def _read(self) -> None:
        async for value in self._values():
            await self._room.acquire()
            task = asyncio.create_task(self._answer_message(value))
            self._tasks.add(task)
            task.add_done_callback(self._done)
            await asyncio.sleep(0)  # the call queues for its session before the next one is read

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._room.release()
        if not task.cancelled():
            task.exception()

    async def _values(self) -> AsyncIterator[Any]:
        """Yield incoming messages. A daemon thread reads them, so that the program can end while it waits."""
        loop = self._loop
        chunks: asyncio.Queue[bytes] = asyncio.Queue()
        more = threading.Semaphore(4)  # chunks read ahead; a faster client waits in its pipe

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
            for value in self._framer.feed(chunk):
                yield value
        for value in self._framer.close():
            yield value

    async def _answer_message(self, value: Any) -> None:
        """Answer one message: a call, or a batch of calls."""
        answer: Any
        if not isinstance(value, list):
            answer = await self._answer(value)
        elif not value:
            answer = format_error(None, Failure(INVALID_REQUEST, "a batch has at least one request"))
        else:
            answers = await asyncio.gather(*(self._answer(call) for call in value))
            answer = [response for response in answers if response is not None] or None
        if answer is not None:
            self._outgoing.put(answer)

    async def _answer(self, value: Any) -> dict[str, Any] | None:
        """Return the response of one call; None for a notification."""
        if isinstance(value, UnreadableMessage):
            return format_error(None, Failure(INVALID_REQUEST if value.large else PARSE_ERROR, value.why))
        try:
            call = parse_call(value)
        except Failure as failure:
            return format_error(read_id(value), failure)
        task = asyncio.ensure_future(self._run(call))
        if call.id is not None:
            self._open[call.id] = task
        try:
            result = await task
        except asyncio.CancelledError:
            task.cancel()
            answer = format_error(call.id, Failure(CANCELLED, "cancelled"))
        except Exception as error:  # noqa: BLE001  # whatever it is, the client gets an answer
            answer = format_error(call.id, to_failure(error))
        else:
            answer = format_result(call.id, result)
        finally:
            if self._open.get(call.id) is task:
                del self._open[call.id]
        return None if call.notification else answer

    async def _run(self, call: Call) -> Any:
        if call.method in _CANCELS:
            return self._cancel(call)
        if call.method in _STOPS:
            self._stop()
            return None
        method = operations.find_method(call.method)
        return await method.act(self._registry, **method.read(call.params))

    def _cancel(self, call: Call) -> None:
        params = call.params if isinstance(call.params, dict) else {}
        id_ = params.get("id", params.get("requestId"))
        if not is_id(id_):
            raise Failure(INVALID_PARAMS, "id takes a text or a number")
        task = self._open.get(id_)
        if task is not None:
            task.cancel()

    def _send_event(self, event: Event) -> None:
        self._outgoing.put(format_notification(EVENT, event_to_plain(event)))

    def _write(self) -> None:
        """Write outgoing messages, in a thread of its own: a client may send megabytes before it reads."""
        while (value := self._outgoing.get()) is not None:
            raw = self._framer.format(value)
            try:
                while raw and not self.broken:
                    raw = raw[os.write(self._sink, raw) :]
            except OSError:  # nobody reads any more
                self.broken = True
                with suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(partial(self._stop, cancel=True))
