"""What a session tells those who listen: eight events as values, and the list of listeners.

    usage_update         a request was answered: tokens read, window, how full
    context_warning      a level was reached
    compaction_start     an attempt begins ...
    compaction_end       ... and became a fold
    compaction_skipped   ... or was not made
    compaction_failed    ... or came to nothing
    overflow             a provider refused for size
    unfolded             a fold was undone

A listener that fails is logged and never disturbs a conversation.
"""

import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from refold.calls.outcome import Receipt
from refold.core.compaction.budget import Level
from refold.core.tokens.usage import Usage

if TYPE_CHECKING:
    import asyncio

_LOGGER: Final = logging.getLogger("refold")


def _listed(value: Any) -> Any:
    """A value with lists for tuples, as JSON gives them back."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What all events have."""

    session: str
    at: float
    """Seconds since the epoch."""

    def as_dict(self) -> dict[str, Any]:
        """The event as plain data that JSON can hold."""
        plain: dict[str, Any] = _listed(asdict(self))
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageUpdate(_Told):
    """A request was answered, and the provider said how much it had read."""

    kind: Literal["usage_update"] = field(default="usage_update", init=False)
    tokens: int
    """What fills the context now."""
    window: int
    ratio: float
    """Share of the room that is used."""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWarning(_Told):
    """The context has reached a level, or no model may be asked to summarise it."""

    kind: Literal["context_warning"] = field(default="context_warning", init=False)
    level: Level
    used: int
    room: int
    reason: str = ""
    """Why, where it is not the level: a cap on what summaries may cost is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStart(_Told):
    """A compaction is attempted."""

    kind: Literal["compaction_start"] = field(default="compaction_start", init=False)
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionEnd(_Told):
    """A compaction became a fold."""

    kind: Literal["compaction_end"] = field(default="compaction_end", init=False)
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    stages: tuple[str, ...]
    """Those that were accepted, in order."""
    fold: str
    """The fold's name."""
    receipt: Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSkipped(_Told):
    """A compaction was due and was not made."""

    kind: Literal["compaction_skipped"] = field(default="compaction_skipped", init=False)
    reason: str
    until: float | None = None
    """When it may be attempted again, where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFailed(_Told):
    """A compaction came to nothing; the history is as it was."""

    kind: Literal["compaction_failed"] = field(default="compaction_failed", init=False)
    reason: str
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowMet(_Told):
    """A provider refused for size, or cut in silence."""

    kind: Literal["overflow"] = field(default="overflow", init=False)
    provider: str | None = None
    limit: int | None = None
    requested: int | None = None
    recovered: bool = False
    """Whether the history was folded so that the request can be sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfolded(_Told):
    """A fold was undone."""

    kind: Literal["unfolded"] = field(default="unfolded", init=False)
    fold: str


Event: TypeAlias = (
    UsageUpdate
    | ContextWarning
    | CompactionStart
    | CompactionEnd
    | CompactionSkipped
    | CompactionFailed
    | OverflowMet
    | Unfolded
)
Listener: TypeAlias = Callable[[Event], object]
"""Called with each event; may be async."""


class Listeners:
    """Those who listen; may be used by several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[object, Listener] = {}
        self._waiting: set[asyncio.Task[None]] = set()
        self._warned = False

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` with every event from now on; what is given back ends it, also if called twice."""
        if not callable(callback):
            raise TypeError(f"a listener is called with events; {type(callback).__name__} cannot be called")
        token = object()
        with self._lock:
            self._listeners[token] = callback

        def unsubscribe() -> None:
            with self._lock:
                self._listeners.pop(token, None)

        return unsubscribe

    def emit(self, event: Event) -> None:
        """Tell everybody, in the order they came; never raises.

        An async listener runs as a task of the running loop. One that came meanwhile hears the next event,
        one that left meanwhile hears nothing more.
        """
        with self._lock:
            listeners = list(self._listeners.items())
        for token, listener in listeners:
            with self._lock:
                listens = token in self._listeners
            if listens:
                self._tell(listener, event)

    def _tell(self, listener: Listener, event: Event) -> None:
        try:
            answer = listener(event)
            if inspect.isawaitable(answer):
                self._schedule(answer, event.kind)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001  # cancelled ones too: it never disturbs a conversation
            _failed(event.kind, error)

    def _schedule(self, answer: Awaitable[object], kind: str) -> None:
        import asyncio  # dear to import; who has awaitables has paid already

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._turn_down(answer)
            return
        task = loop.create_task(_awaited(answer, kind))
        self._waiting.add(task)  # a loop holds its tasks weakly
        task.add_done_callback(self._waiting.discard)

    def _turn_down(self, answer: Awaitable[object]) -> None:
        close = getattr(answer, "close", None) or getattr(answer, "cancel", None)
        if callable(close):
            close()
        with self._lock:
            first, self._warned = not self._warned, True
        if first:
            _LOGGER.warning(
                "an async listener was not run: no event loop is running here; "
                "subscribe a plain function, or use AsyncSession"
            )


async def _awaited(answer: Awaitable[object], kind: str) -> None:
    try:
        await answer
    except Exception as error:  # noqa: BLE001  # a listener never disturbs a conversation
        _failed(kind, error)


def _failed(kind: str, error: BaseException) -> None:
    _LOGGER.error("a listener failed on %s and was passed over", kind, exc_info=error)
