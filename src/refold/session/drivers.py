"""Run the flows of a session: pure steps yield what they need, and a small driver does it.

    def rename(state, title):                   # a flow: a generator, written once
        yield StoreCall(lambda: state.store.put_note("title", title))
        return title

    run_sync(rename(...), lock, ask, ...)         # in a thread: waits for the store and the model
    await run_async(rename(...), lock, ask, ...)  # in an event loop: the store works in a thread

A write that waits for nobody is made by the flow itself: to hand it to a driver, or to a thread, costs more.

The lock is held while the state is read or changed, also while the store writes. It is released while a
model answers, so that other operations of the session go on meanwhile.
"""

import inspect
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

from refold.core.compaction.flow import Answerer, Asks, ask_in_parallel, ask_in_turn
from refold.errors import RefoldError

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
_OTHERS_EVERY: Final = 16
"""Flows in an event loop after which other tasks get their turn. Fewer cost time; more let them wait for
longer, and for ever where somebody says one message after another."""
_OTHERS_AFTER: Final = 0.005
"""Seconds after which they get it sooner, because a fold takes as long as a hundred short flows."""
_FLOWS: Final = count(1)
_OTHERS_AT: Final = [0.0]
"""When they got it last."""


@dataclass(frozen=True, slots=True)
class StoreCall:
    """A call that reads or writes the store."""

    call: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for another flow of the same session, without the lock."""

    wait: Callable[[], Any]
    """In an event loop it returns an awaitable."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for a while, without the lock: another process is at work."""

    seconds: float


Guard: TypeAlias = Callable[[Callable[[], Any]], Any]
"""Makes a call of the store."""
Request: TypeAlias = Asks | StoreCall | Wait | Pause
"""What a flow may need."""
SessionFlow: TypeAlias = Generator[Request, Any, T]


@dataclass(frozen=True, slots=True)
class Begun:
    """A flow that has begun in an event loop and would wait there; it has the lock."""

    step: Request
    """What it needs next."""


@dataclass(frozen=True, slots=True)
class Rest(Generic[T]):
    """What is left of a flow that would have waited in an event loop."""

    finish: Callable[[], T]
    """Ends it, in a thread."""


class Lock(Protocol):
    """A lock of a thread."""

    @property
    def inner(self) -> AbstractContextManager[object]:
        """The lock that the interpreter knows: no signal comes between taking it and the block behind it."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


@dataclass(frozen=True, slots=True)
class _Taken:
    """A lock that was taken before; it is released behind the block."""

    lock: Lock

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        self.lock.release()


def run_sync(
    flow: SessionFlow[T],
    lock: Lock,
    ask: Answerer,
    flush: Callable[[], None],
    mark_stale: Callable[[], None],
    *,
    guard: Guard | None = None,
    first: Request | None = None,
) -> T:
    """Run a flow in this thread. The lock is free afterwards, also where Ctrl-C ends the flow.

    flush        delivers events; called whenever the lock is free
    mark_stale   called if the flow was cut short between two steps that belong together
    guard        makes the calls of the store, if not every failure of the store is to reach the flow
    first        what the flow needs next, if it has begun under the lock
    """
    held = lock.inner if first is None else _Taken(lock)
    resume: Callable[[], Request] = partial(next, flow) if first is None else lambda: first
    try:
        while True:
            with held:
                try:
                    step = resume()
                    while isinstance(step, StoreCall):
                        value, error = _try_call(step.call, guard)
                        del step  # what was stored is not held while the flow goes on
                        step = flow.send(value) if error is None else flow.throw(error)
                except StopIteration as stop:
                    return stop.value  # type: ignore[no-any-return]  # a flow of T returns a T
                except BaseException as cause:
                    if _was_cut_short(flow, cause):
                        mark_stale()
                    flow.close()
                    raise
            flush()
            value, stopped = _try_call(partial(_wait_in_thread, step, ask), None, BaseException)
            goes_on = partial(flow.send, value)
            resume = goes_on if stopped is None else partial(_throw, flow, stopped, mark_stale)
            held = lock.inner
    finally:
        if flow.gi_frame is not None:  # type: ignore[attr-defined]  # cut short without the lock
            mark_stale()
            flow.close()
        flush()


def run_at_once(
    flow: SessionFlow[T], lock: Lock, flush: Callable[[], None], mark_stale: Callable[[], None]
) -> T | Begun:
    """Run a flow in an event loop, under the lock, as far as nobody is waited for.

    Returns its result; else what it needs next, and then the lock stays taken for `run_sync`.
    """
    begun: Begun | None = None
    try:
        begun = Begun(next(flow))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # a flow of T returns a T
    except BaseException as error:
        if _was_cut_short(flow, error):
            mark_stale()
        raise
    else:
        return begun
    finally:
        if begun is None:
            flow.close()
            lock.release()
            flush()


def check_loop(former: "asyncio.AbstractEventLoop | None") -> "asyncio.AbstractEventLoop":
    """Return the event loop that runs here; refuses a second one beside that which a session had before."""
    import asyncio  # expensive to import; whoever is here has imported it already

    loop = asyncio.get_running_loop()
    if former is not None and former is not loop and former.is_running():
        raise RefoldError(
            "this session is in use in another event loop: open it, or wrap its client, once for each"
        )
    return loop


async def run_async(
    flow: SessionFlow[T],
    lock: "asyncio.Lock",
    ask: Answerer,
    flush: Callable[[], None],
    mark_stale: Callable[[], None],
    *,
    guard: Guard | None = None,
) -> T:
    """Run a flow in an event loop; a store call that has begun is waited for, even if cancelled."""
    locked: bool = await lock.acquire()
    try:
        if (now := time.perf_counter()) - _OTHERS_AT[0] > _OTHERS_AFTER or next(_FLOWS) % _OTHERS_EVERY == 0:
            _OTHERS_AT[0] = now  # under the lock, so that nobody is overtaken
            await _wait_in_loop(Pause(0), ask)
        step = next(flow)
        while True:
            if isinstance(step, StoreCall):
                value, error = await _try_call_in_loop(step, guard)
                del step  # as in `run_sync`
                step = flow.send(value) if error is None else flow.throw(error)
                continue
            lock.release()
            locked = False
            flush()
            stopped: BaseException | None = None
            try:
                value = await _wait_in_loop(step, ask)
            except GeneratorExit:  # the event loop is gone
                raise
            except BaseException as error:  # noqa: BLE001  # also if cancelled: the flow has to know
                stopped = error
            locked = await lock.acquire()
            step = flow.send(value) if stopped is None else _throw(flow, stopped, mark_stale)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # a flow of T returns a T
    except BaseException as error:
        if _was_cut_short(flow, error):
            mark_stale()
        raise
    finally:
        flow.close()
        if locked:
            lock.release()
        flush()


def _was_cut_short(flow: SessionFlow[T], error: BaseException) -> bool:
    """True unless the flow itself raised an ordinary error, after which its state is consistent."""
    return not isinstance(error, Exception) or inspect.getgeneratorstate(flow) != inspect.GEN_CLOSED


def _wait_in_thread(step: Asks | Wait | Pause, ask: Answerer) -> Any:
    """Do what a flow waits for without the lock."""
    if isinstance(step, Pause):
        return time.sleep(step.seconds)
    return step.wait() if isinstance(step, Wait) else ask_in_turn(step, ask)


async def _wait_in_loop(step: Asks | Wait | Pause, ask: Answerer) -> Any:
    """Do the same in an event loop."""
    import asyncio  # expensive to import; whoever is here has imported it already

    if isinstance(step, Pause):
        return await asyncio.sleep(step.seconds)
    return await (step.wait() if isinstance(step, Wait) else ask_in_parallel(step, ask))


def _throw(flow: SessionFlow[T], error: BaseException, mark_stale: Callable[[], None]) -> Request:
    """Tell a flow that its wait was interrupted: it records that and raises. The state is read again."""
    mark_stale()
    return flow.throw(error)


def _try_call(
    call: Callable[[], Any], guard: Guard | None, caught: type[BaseException] = Exception
) -> tuple[Any, BaseException | None]:
    try:
        return (call() if guard is None else guard(call)), None
    except caught as error:  # every error goes to the flow that asked for the call
        return None, error


async def _try_call_in_loop(step: StoreCall, guard: Guard | None) -> tuple[Any, BaseException | None]:
    """Do the same in an event loop, in a thread."""
    import asyncio  # expensive to import; whoever is here has imported it already

    future = asyncio.ensure_future(asyncio.to_thread(_try_call, step.call, guard))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():  # even if cancelled twice: the lock must not be released before
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        raise


def refuse_question(_question: str) -> str:
    """Raise, because the session has no model that could answer."""
    raise RefoldError("no model was given: pass ask= when the session is opened")
