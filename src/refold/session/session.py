"""One conversation, for programs: `Session` for threads, `AsyncSession` for event loops; the same acts."""

import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from refold.core.tokens.units import parse_tokens
from refold.errors import RefoldError
from refold.session.drivers import SessionFlow, Wait, run_async, run_sync
from refold.session.events import Listener
from refold.session.ops import Acts
from refold.session.state.session_state import SessionState
from refold.session.steps import background
from refold.session.steps.context import RequestContext
from refold.session.steps.install_fold import Attempt

if TYPE_CHECKING:
    import asyncio

P = ParamSpec("P")
T = TypeVar("T")
_LOGGER: Final = logging.getLogger("refold")
SAME: Final = ""
"""The model as it is."""


class Base:
    """What both kinds of session have."""

    def __init__(self, state: SessionState, *, owns_store: bool) -> None:
        self.state = state
        self.acts = Acts(state, self._start)
        self.owns_store = owns_store

    @property
    def name(self) -> str:
        """The session's name."""
        return self.state.name

    @property
    def model(self) -> str | None:
        """The model the conversation is with; may be changed at any time."""
        return self.state.settings.model

    @model.setter
    def model(self, model: str | None) -> None:
        self.use(model=model)

    def use(
        self, *, model: str | None = SAME, window: int | str | None = None, endpoint: str | None = None
    ) -> None:
        """Go on with another model, window or endpoint; the next `prepare` measures against it.

        What is not named stays, but a window that was given goes with the model it was given for.
        """
        state, old = self.state, self.state.settings
        if not isinstance(model, str | None) or not isinstance(endpoint, str | None):
            raise RefoldError("a model and an endpoint are named by text")
        state.settings = replace(
            old,
            model=old.model if model is SAME else model,
            window=(old.window if model is SAME else None) if window is None else parse_tokens(window),
            endpoint=old.endpoint if endpoint is None else endpoint,
        )
        state.learned = None
        state.trial = None  # another model counts otherwise
        state.purse = replace(state.purse, missed=False)
        state.stale = True

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` with every event; gives a call that ends it."""
        return self.state.listeners.subscribe(callback)

    def _whole(self, work: SessionFlow[T]) -> SessionFlow[T]:
        """Some work behind which nothing is half done: where it is cut short, the state is read anew."""
        try:
            return (yield from work)
        except Exception:
            raise
        except BaseException:  # Ctrl-C between two steps that belong together
            self.state.stale = True
            raise

    def _start(self, around: RequestContext) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} in {self.state.store.address}>"


def _sync(act: Callable[Concatenate[Acts, P], SessionFlow[T]]) -> Callable[Concatenate["Session", P], T]:
    @wraps(act)
    def run(self: "Session", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.drive(act(self.acts, *args, **kwargs))

    return run


def _asynchronous(
    act: Callable[Concatenate[Acts, P], SessionFlow[T]],
) -> Callable[Concatenate["AsyncSession", P], Coroutine[Any, Any, T]]:
    @wraps(act)
    async def run(self: "AsyncSession", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.drive(act(self.acts, *args, **kwargs))

    return run


class Session(Base):
    """One conversation in a store; may be used by several threads."""

    def __init__(self, state: SessionState, *, owns_store: bool) -> None:
        super().__init__(state, owns_store=owns_store)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    say = _sync(Acts.say)
    view = _sync(Acts.view)
    log = _sync(Acts.log)
    budget = _sync(Acts.budget)
    needs_compaction = _sync(Acts.needs_compaction)
    prepare = _sync(Acts.prepare)
    observe = _sync(Acts.observe)
    compact = _sync(Acts.compact)
    checkpoint = _sync(Acts.checkpoint)
    unfold = _sync(Acts.unfold)
    rewind = _sync(Acts.rewind)
    recall = _sync(Acts.recall)
    original = _sync(Acts.original)
    pin = _sync(Acts.pin)
    unpin = _sync(Acts.unpin)
    folds = _sync(Acts.folds)
    stats = _sync(Acts.stats)
    recall_tool = _sync(Acts.recall_tool)
    answer_recall = _sync(Acts.answer_recall)
    export = _sync(Acts.export)
    import_from = _sync(Acts.import_from)

    def drive(self, work: SessionFlow[T]) -> T:
        """Do some work of this session's."""
        return run_sync(self._whole(work), self._lock, self.state.ask or _nobody, self.state.flush)

    def _start(self, around: RequestContext) -> None:
        """Prepare a fold in a thread of its own."""
        made: list[Attempt | None] = []
        work = background.fold_in_background(self.state, around, made.append)
        thread = threading.Thread(target=_logged, args=(self.drive, work), name="refold-fold", daemon=True)
        self.state.waiting = lambda: _waited(Wait(thread.join, _never), made)
        self._thread = thread
        thread.start()

    def close(self) -> None:
        """Wait for what is being prepared and let go of the store, if the session opened it."""
        if self._thread is not None:
            self._thread.join()
        if self.owns_store:
            self.state.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncSession(Base):
    """One conversation in a store, for an event loop; the store works in threads."""

    def __init__(self, state: SessionState, *, owns_store: bool) -> None:
        super().__init__(state, owns_store=owns_store)
        import asyncio  # dear to import, and only those with an event loop need it

        self._asyncio = asyncio
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    say = _asynchronous(Acts.say)
    view = _asynchronous(Acts.view)
    log = _asynchronous(Acts.log)
    budget = _asynchronous(Acts.budget)
    needs_compaction = _asynchronous(Acts.needs_compaction)
    prepare = _asynchronous(Acts.prepare)
    observe = _asynchronous(Acts.observe)
    compact = _asynchronous(Acts.compact)
    checkpoint = _asynchronous(Acts.checkpoint)
    unfold = _asynchronous(Acts.unfold)
    rewind = _asynchronous(Acts.rewind)
    recall = _asynchronous(Acts.recall)
    original = _asynchronous(Acts.original)
    pin = _asynchronous(Acts.pin)
    unpin = _asynchronous(Acts.unpin)
    folds = _asynchronous(Acts.folds)
    stats = _asynchronous(Acts.stats)
    recall_tool = _asynchronous(Acts.recall_tool)
    answer_recall = _asynchronous(Acts.answer_recall)
    export = _asynchronous(Acts.export)
    import_from = _asynchronous(Acts.import_from)

    async def drive(self, work: SessionFlow[T]) -> T:
        """Do some work of this session's."""
        return await run_async(self._whole(work), self._lock, self.state.ask or _nobody, self.state.flush)

    def _start(self, around: RequestContext) -> None:
        """Prepare a fold in a task of its own."""
        made: list[Attempt | None] = []
        task = self._asyncio.create_task(
            self.drive(background.fold_in_background(self.state, around, made.append))
        )
        task.add_done_callback(_told)
        self.state.waiting = lambda: _waited(Wait(_nothing, lambda: self._asyncio.wait([task])), made)
        self._task = task

    async def close(self) -> None:
        """Wait for what is being prepared and let go of the store, if the session opened it."""
        if self._task is not None:
            await self._asyncio.wait([self._task])
        if self.owns_store:
            await self._asyncio.to_thread(self.state.store.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _waited(wait: Wait, made: Sequence[Attempt | None]) -> SessionFlow[Attempt | None]:
    yield wait
    return made[0] if made else None


async def _never() -> None:
    """Nobody waits in an event loop for a thread's fold."""


def _nothing() -> None:
    """Nobody waits in a thread for a task's fold."""


def _nobody(_question: str) -> str:
    raise RefoldError("no model was given: pass ask= when the session is opened")


def _logged(run: Callable[[SessionFlow[None]], None], work: SessionFlow[None]) -> None:
    try:
        run(work)
    except Exception:
        _LOGGER.exception("a fold in the background failed; the conversation is as it was")


def _told(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        _LOGGER.error(
            "a fold in the background failed; the conversation is as it was", exc_info=task.exception()
        )
