"""The ten events of a session as values, and the listeners that receive them.

    usage_update         a request was answered: tokens read, window, how full
    context_warning      a level was reached
    compaction_start     an attempt begins ...
    compaction_end       ... and became a fold
    compaction_skipped   ... or was not made
    compaction_failed    ... or came to nothing
    overflow             a provider refused for size
    unfolded             a fold was undone
    store_failed         the store fails, and the session goes on from memory
    store_restored       it works again, and everything is stored

A listener that fails is logged and never disturbs a conversation.
"""

import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from refold.calls.outcome import Receipt
from refold.core.compaction.budget import Level
from refold.core.messages.quick_init import quick_init
from refold.core.tokens.usage import Usage

if TYPE_CHECKING:
    import asyncio

_LOGGER: Final = logging.getLogger("refold")


def _to_lists(value: Any) -> Any:
    """Return a value with lists for tuples, as JSON gives them back."""
    if isinstance(value, dict):
        return {key: _to_lists(item) for key, item in value.items()}
    return [_to_lists(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class _EventBase:
    """The fields of every event."""

    session: str
    at: float
    """Seconds since the epoch."""

    def as_dict(self) -> dict[str, Any]:
        """Return the event as plain data that JSON can hold."""
        plain: dict[str, Any] = _to_lists(asdict(self))
        return plain


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class UsageUpdate(_EventBase):
    """A request was answered, and the provider reported its size."""

    kind: Literal["usage_update"] = field(default="usage_update", init=False)
    tokens: int
    """Tokens in the context now."""
    window: int
    ratio: float
    """Share of the room that is used."""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWarning(_EventBase):
    """The context has reached a level, or `reason` says what else needs a decision of people."""

    kind: Literal["context_warning"] = field(default="context_warning", init=False)
    level: Level
    used: int
    room: int
    reason: str = ""
    """The cap on the cost of summaries that is reached, or what fills the room; empty for a level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStart(_EventBase):
    """An attempt to compact begins."""

    kind: Literal["compaction_start"] = field(default="compaction_start", init=False)
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionEnd(_EventBase):
    """A compaction became a fold."""

    kind: Literal["compaction_end"] = field(default="compaction_end", init=False)
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    stages: tuple[str, ...]
    """The accepted stages, in order."""
    fold: str
    """The fold's name."""
    receipt: Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSkipped(_EventBase):
    """A compaction was due and was not attempted."""

    kind: Literal["compaction_skipped"] = field(default="compaction_skipped", init=False)
    reason: str
    until: float | None = None
    """When it may be attempted again, if that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFailed(_EventBase):
    """An attempt to compact failed; the history is unchanged."""

    kind: Literal["compaction_failed"] = field(default="compaction_failed", init=False)
    reason: str
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowMet(_EventBase):
    """A provider refused a request for its size, cut it silently, or reported more than the window."""

    kind: Literal["overflow"] = field(default="overflow", init=False)
    provider: str | None = None
    limit: int | None = None
    requested: int | None = None
    recovered: bool = False
    """True if the history was folded, so that the request can be sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfolded(_EventBase):
    """A fold was undone."""

    kind: Literal["unfolded"] = field(default="unfolded", init=False)
    fold: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailed(_EventBase):
    """The store fails, and the session goes on from memory; told once until it works again."""

    kind: Literal["store_failed"] = field(default="store_failed", init=False)
    reason: str
    """The error of the store."""
    unsaved: int
    """Entries of the log that are only in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRestored(_EventBase):
    """The store works again, and everything that waited in memory is stored."""

    kind: Literal["store_restored"] = field(default="store_restored", init=False)
    stored: int
    """Messages that were stored now."""


Event: TypeAlias = (
    UsageUpdate
    | ContextWarning
    | CompactionStart
    | CompactionEnd
    | CompactionSkipped
    | CompactionFailed
    | OverflowMet
    | Unfolded
    | StoreFailed
    | StoreRestored
)
Listener: TypeAlias = Callable[[Event], object]
"""A callable that receives each event; may be async."""


class Listeners:
    """The subscribed listeners; may be used by several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[object, Listener] = {}
        """Another dict whenever a listener comes or goes, so that it is read without the lock."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._warned = False

    def after_fork(self) -> None:
        """In a child process, take a new lock: a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` with every event from now on; returns a call that ends the subscription."""
        if not callable(callback):
            raise TypeError(f"a listener is called with events; {type(callback).__name__} cannot be called")
        token = object()
        with self._lock:
            self._listeners = {**self._listeners, token: callback}

        def unsubscribe() -> None:
            with self._lock:
                self._listeners = {key: kept for key, kept in self._listeners.items() if key is not token}

        return unsubscribe

    def emit(self, event: Event) -> None:
        """Call every listener in the order of subscription; never raises.

        An async listener runs as a task of the running loop. A listener that subscribes meanwhile receives
        the next event; one that unsubscribes meanwhile receives none.
        """
        for token, listener in self._listeners.items():
            if token in self._listeners:
                self._call(listener, event)

    def _call(self, listener: Listener, event: Event) -> None:
        try:
            answer = listener(event)
            if answer is not None and inspect.isawaitable(answer):
                self._schedule(answer, event.kind)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001  # also CancelledError: a listener never disturbs a conversation
            _log_failure(event.kind, error)

    def _schedule(self, answer: Awaitable[object], kind: str) -> None:
        import asyncio  # expensive to import; whoever has awaitables has imported it

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._refuse(answer)
            return

        async def run_listener() -> None:
            try:
                await answer
            except Exception as error:  # noqa: BLE001  # a listener never disturbs a conversation
                _log_failure(kind, error)

        task = loop.create_task(run_listener())
        self._tasks.add(task)  # a loop holds its tasks weakly, and a lost task would never run
        task.add_done_callback(self._tasks.discard)

    def _refuse(self, answer: Awaitable[object]) -> None:
        close = getattr(answer, "close", None) or getattr(answer, "cancel", None)
        if callable(close):
            close()
        with self._lock:
            first, self._warned = not self._warned, True
        if first:
            _LOGGER.warning(
                "an async listener was not called: no event loop is running here; "
                "subscribe a plain function, or use AsyncSession"
            )


def _log_failure(kind: str, error: BaseException) -> None:
    _LOGGER.error("a listener failed on %s and was skipped", kind, exc_info=error)


class EventQueue:
    """The events of one session that wait until nothing is locked; listeners may call the session."""

    def __init__(self, listeners: Listeners) -> None:
        self.listeners = listeners
        self._events: deque[Event] = deque()
        self._level = "none"

    def add(self, event: Event) -> None:
        """Keep an event until the next `flush`."""
        self._events.append(event)

    def flush(self) -> None:
        """Deliver the waiting events; several threads may do so at once."""
        while self._events:
            try:
                event = self._events.popleft()
            except IndexError:  # another thread has just taken the last one
                return
            self.listeners.emit(event)

    def is_new_level(self, level: str) -> bool:
        """True if listeners should be warned: this level is reached and was not reached at the last call."""
        new = level not in ("none", self._level)
        self._level = level
        return new
