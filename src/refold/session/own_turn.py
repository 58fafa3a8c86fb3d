"""One turn of a session that may have several at once: after a refusal its own list is folded.

A session has one view: that of the list which it was handed last. If another turn of the same conversation
came between, a refusal would fold that one's list. So the refused turn hands in its own list again, in the
same step in which the refusal is observed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from refold.core.overflow.detect import overflow
from refold.errors import Overflow
from refold.session.chunks import FAILED
from refold.session.drivers import SessionFlow
from refold.session.results import Observed, Ready
from refold.session.state.session_state import SessionState
from refold.session.steps.observe import observe
from refold.session.steps.prepare import prepare

S = TypeVar("S")
_TRIES: Final = 3
"""How often a list is handed in again. Another turn can only come between while a model writes a summary."""


class _Session(Protocol):
    """What a turn needs of a `Session`, which does whole turns itself and so cannot be imported here."""

    state: SessionState

    def observe(self, answer: Any, *, say: bool = False) -> Observed: ...

    @property
    def prepare(self) -> Callable[..., Ready]: ...

    @property
    def _run_without_store(self) -> Callable[[SessionFlow[Observed]], Observed]: ...


class _AsyncSession(Protocol):
    """The same of an `AsyncSession`."""

    state: SessionState

    def observe(self, answer: Any, *, say: bool = False) -> Awaitable[Observed]: ...

    @property
    def prepare(self) -> Callable[..., Awaitable[Ready]]: ...

    @property
    def _run_without_store(self) -> Callable[[SessionFlow[Observed]], Awaitable[Observed]]: ...


class _OwnList:
    """The list of one turn, and whether the turn was refused before."""

    def __init__(self, items: Sequence[Any] | None, beside: Mapping[str, Any], *, is_own: bool) -> None:
        self.items, self.beside, self._is_own = items, beside, is_own
        self.tip = ""
        """The name of its last message, once it was handed in."""
        self._is_recovered = False

    def observe_refusal(self, state: SessionState, answer: Any) -> SessionFlow[Observed]:
        """Observe what may be a refusal of this list, whatever list the session holds."""
        info = overflow(answer) if self._is_overtaken(state) else None
        if info is not None and self._is_recovered:  # the session counts the refusals of the other turn
            raise Overflow(info.provider, info.limit, info.requested)
        ready: Ready | None = None
        for _ in range(_TRIES if info is not None else 0):
            if self._is_overtaken(state):
                ready = yield from self._hand_in(state)
        observed = yield from observe(state, answer, is_own=self._is_own)
        if ready is not None and ready.fold is not None and not observed.send_again:
            # The other turn has taught the session a smaller window: this view is not what was refused.
            observed = Observed(
                send_again=True, messages=ready.messages, origins=ready.origins, reason=ready.outcome.reason
            )
        self._is_recovered = self._is_recovered or observed.send_again
        return observed

    def _is_overtaken(self, state: SessionState) -> bool:
        """True if the session holds the list of another turn; never where a turn has no list of its own."""
        return self.items is not None and state.position.tip != self.tip

    def _hand_in(self, state: SessionState) -> SessionFlow[Ready]:
        beside = {"system": None, "tools": None, "prompt": None, "files": None, **self.beside}
        ready = yield from prepare(state, self.items, **beside, start_background=lambda: None)
        self.tip = ready.tip
        return ready


def _may_be_refusal(answer: Any) -> bool:
    if isinstance(answer, Mapping):
        is_error = bool(answer.get("error")) and not answer.keys() & {"choices", "output"}
        return is_error or answer.get("type") in FAILED
    return isinstance(answer, BaseException) or (isinstance(answer, str) and overflow(answer) is not None)


class _AnyOwnTurn(Generic[S]):
    """A session for one turn, as `turns` takes it.

    is_own   True if nothing but the provider's client is called, so that an error is about this turn
    """

    def __init__(
        self, session: S, items: Sequence[Any] | None, beside: Mapping[str, Any], *, is_own: bool = False
    ) -> None:
        self._session, self._list = session, _OwnList(items, beside, is_own=is_own)


class OwnTurn(_AnyOwnTurn[_Session]):
    """The turn of a `Session`."""

    def prepare(self) -> Ready:
        """Return the view to send."""
        ready = self._session.prepare(self._list.items, **self._list.beside)
        self._list.tip = ready.tip
        return ready

    def observe(self, answer: Any, *, say: bool = False) -> Observed:
        """Take in a response or an error; what is to be sent again is a view of this turn's list."""
        session = self._session
        if not _may_be_refusal(answer):
            return session.observe(answer, say=say)
        flow = self._list.observe_refusal(session.state, answer)
        return session._run_without_store(flow)  # noqa: SLF001  # as its own `observe` does


class AsyncOwnTurn(_AnyOwnTurn[_AsyncSession]):
    """The same in an event loop."""

    async def prepare(self) -> Ready:
        """Return the view to send."""
        ready = await self._session.prepare(self._list.items, **self._list.beside)
        self._list.tip = ready.tip
        return ready

    async def observe(self, answer: Any, *, say: bool = False) -> Observed:
        """Take in a response or an error; what is to be sent again is a view of this turn's list."""
        session = self._session
        if not _may_be_refusal(answer):
            return await session.observe(answer, say=say)
        flow = self._list.observe_refusal(session.state, answer)
        return await session._run_without_store(flow)  # noqa: SLF001  # as its own `observe` does
