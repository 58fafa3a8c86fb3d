"""How a session's work is driven: pure steps yield what they need done, one small driver does it.

    def rename(state, title):                  # work: a generator, written once
        yield Do(lambda: state.store.put_note("title", title))
        return title

    drive(rename(...), lock, ask)               # a thread: waits for the store and the model
    await adrive(rename(...), lock, ask)        # an event loop: the store works in a thread

The lock is held while the state is looked at or changed, also while the store writes, and let go while a
model thinks: what is said meanwhile is not kept waiting.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from refold.core.compaction.flow import Answerer, Asks, areplies_to, replies_to

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoreCall:
    """Something that touches the store."""

    what: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for what another flow of the same session is doing, without the lock."""

    sync: Callable[[], Any]
    asynchronous: Callable[[], Awaitable[Any]]


SessionFlow: TypeAlias = Generator[Asks | StoreCall | Wait, Any, T]


class Lock(Protocol):
    """A lock of a thread."""

    def acquire(self) -> bool:
        """Take it."""
        ...

    def release(self) -> None:
        """Let it go."""
        ...


def run_sync(work: SessionFlow[T], lock: Lock, ask: Answerer, flush: Callable[[], None]) -> T:
    """Drive work in this thread; `flush` runs whenever the lock is free."""
    lock.acquire()
    held = True
    try:
        step = _first(work)
        while True:
            if isinstance(step, StoreCall):
                step = _next(work, _tried(step.what))
                continue
            lock.release()
            held = False
            flush()
            value = step.sync() if isinstance(step, Wait) else replies_to(step, ask)
            lock.acquire()
            held = True
            step = _next(work, (value, None))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # work of T returns a T
    finally:
        work.close()
        if held:
            lock.release()
        flush()


async def run_async(
    work: SessionFlow[T], lock: "asyncio.Lock", ask: Answerer, flush: Callable[[], None]
) -> T:
    """Drive work in an event loop; a store that has begun to write is waited for, also when cancelled."""
    await lock.acquire()
    held = True
    try:
        step = _first(work)
        while True:
            if isinstance(step, StoreCall):
                step = _next(work, await _in_thread(step.what))
                continue
            lock.release()
            held = False
            flush()
            value = await (step.asynchronous() if isinstance(step, Wait) else areplies_to(step, ask))
            await lock.acquire()
            held = True
            step = _next(work, (value, None))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # work of T returns a T
    finally:
        work.close()
        if held:
            lock.release()
        flush()


def _first(work: SessionFlow[T]) -> Asks | StoreCall | Wait:
    return next(work)


def _next(work: SessionFlow[T], done: tuple[Any, Exception | None]) -> Asks | StoreCall | Wait:
    value, error = done
    return work.send(value) if error is None else work.throw(error)


def _tried(what: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return what(), None
    except Exception as error:  # noqa: BLE001  # every error goes to the work that asked for it
        return None, error


async def _in_thread(what: Callable[[], Any]) -> tuple[Any, Exception | None]:
    import asyncio  # dear to import; who is here has paid already

    future = asyncio.ensure_future(asyncio.to_thread(_tried, what))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():  # whoever cancels twice waits as well: the lock must not be let go before
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        raise
