"""Histories of one tenant's requests: found by their messages, kept in sessions, folded in passing.

Session calls may wait for a store or a model, and run in threads then. The calls of one conversation run one
after the other, in the order of its requests. Whatever goes wrong here, the request goes on as it came.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from secrets import token_hex
from typing import Any, Final, TypeVar

import msgspec

from refold import formats
from refold.errors import FormatError, RefoldError, StoreError, describe_fault
from refold.gateway.history.known_conversations import Conversation, KnownConversations
from refold.gateway.history.known_prefix import ListReader
from refold.gateway.history.memo import NamedHistory
from refold.gateway.history.session_calls import HistoryRequest, SessionCalls, SplitRequest, Surroundings
from refold.gateway.history.split import SplitBody, split_body
from refold.gateway.history.turns import Turn
from refold.gateway.history.watched_store import StoreIsDown
from refold.gateway.options import HistoryOptions
from refold.session.session import Session

T = TypeVar("T")
_LOGGER: Final = logging.getLogger("refold.gateway")
_INLINE_BYTES: Final = 256 * 1024
"""Bodies up to this size are read in the event loop: 1 ms if the history is known, 15 ms if all of it is new.
Larger ones are read in a thread, so that the streams of others do not stall."""
_CLOSING_SECONDS: Final = 10.0
"""Seconds that session calls get to end when the gateway is closed."""
_BYTES_PER_TOKEN: Final = 4
_NEW: Final = "new session: shares no assistant message with any known one"
_NEW_BY_ID: Final = "session by the client's own id: shares no assistant message with any other"
_SHARED: Final = "known session: found in the store by the messages it shares"
_NO_ANSWER: Final = "no session: it holds no answer of a model yet (a title, a ping, a first turn)"
"""How the session of a request was found, or why it has none, for people who look at its traffic."""


class Conversations:
    """All conversations of one tenant."""

    def __init__(self, options: HistoryOptions, around: Surroundings, tenant: str) -> None:
        self._options, self._around, self._tenant = options, around, tenant
        self._calls = SessionCalls(options, around, tenant)
        self._known = KnownConversations()
        self._finding = asyncio.Lock()
        self._tasks: set[asyncio.Future[Any]] = set()

    async def is_ready(self) -> bool:
        """Return whether the store answers; if it does not, histories go on unmodified until it does."""
        return await self._work(self._calls.check_store)

    async def close(self) -> None:
        """Wait for what runs, and close the sessions and the store."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING_SECONDS)
        await self._work(self._calls.close)

    async def prepare(self, request: HistoryRequest) -> Turn:
        """Return what to send for a request; nothing that goes wrong here stops it."""
        row = request.row
        if request.hints.bypass:
            row.explain("the caller asked for it to go on as it came")
            return Turn(fold="bypassed")
        try:
            known = self._around.prefixes.open(self._tenant, request.wire, request.hints.client)
            if len(request.body) <= _INLINE_BYTES or known.expects(request.body):
                split, history = self._read(request, known)
            else:
                split, history = await self._work(self._read, request, known)
        except (RefoldError, ValueError, RecursionError, msgspec.MsgspecError):  # nobody can read it
            row.explain("its messages cannot be read")
            return Turn(fold="none")
        if split is None or history is None or not history.names:
            is_elsewhere = split is not None and split.is_elsewhere
            row.explain("its history is kept at the provider" if is_elsewhere else "it holds no messages")
            return Turn(fold="none", model="" if split is None else split.model)
        if request.counts:
            row.explain("it only counts tokens: no session is made for it")
            return self._go_on(split, history) or Turn(fold="none", model=split.model)
        return await self._prepare_or_go_on(SplitRequest(request, split, history))

    async def _prepare_or_go_on(self, asked: SplitRequest) -> Turn:
        """Ask the conversation's session what to send; if it cannot say, go on as far as is known."""
        request, split, history, late = asked.request, asked.split, asked.history, None
        try:
            if history.has_answer or self._is_large(request, split.model):
                return await self._prepare(asked)
            request.row.explain(_NO_ANSWER)
            count, is_short = self._calls.count_alone, len(request.body) <= _INLINE_BYTES
            tokens = count(asked) if is_short else await self._work(count, asked)
            return Turn(fold="none", model=split.model, tokens=tokens, named=request.hints.session)
        except FormatError as error:
            request.row.explain(f"its messages cannot be read: {error}")
            return self._go_on(split, history) or Turn(fold="none", model=split.model)
        except StoreError as error:
            _warn_of_store(error)
            reason = "store"
        except _TooLate as error:
            reason, late = "deadline", error.task
        except Exception as error:  # noqa: BLE001  # the request must go on
            _LOGGER.warning("a history was not taken in by a fault: %s", describe_fault(error))
            reason = "fault"
        turn = self._go_on(split, history, reason) or Turn(fold=f"bypassed;{reason}", model=split.model)
        return replace(turn, late=late)

    def observe(
        self, turn: Turn, wire: str, answer: dict[str, Any] | None, on_end: Callable[[], None]
    ) -> None:
        """Take in the usage of an answer, behind the caller's back.

        on_end   called when it is stored; not at all if there is none
        """
        conversation = turn.conversation
        if conversation is not None and turn.tokens is not None and turn.fold != "failed":
            conversation.answered = max(conversation.answered, turn.tokens[1])
        if conversation is None or answer is None:
            return
        if not conversation.is_free:
            self._keep(self._observe_in_order(conversation, turn, wire, answer, on_end))
            return
        try:
            rest = self._calls.observe_at_once(conversation, turn, wire, answer)
        except Exception as error:  # noqa: BLE001  # the answer must go on
            _warn_of_usage(error)
            return
        if rest is None:
            on_end()
        else:  # no other call may come before it: the next request's size builds on this one's
            conversation.take()
            task = self._start(rest)
            task.add_done_callback(lambda _task: conversation.lock.release())
            self._keep(_end_observing(task, on_end))

    def find_live(self, name: str) -> Session | None:
        """Return an open session by its name."""
        return self._calls.live.get(name)

    def count_unsaved(self) -> int:
        """Return how many messages wait in memory, because the store fails."""
        return sum(session.state.log.unsaved_messages for session in list(self._calls.live.values()))

    def store_waiting(self) -> None:
        """Store what waits in memory, also of those who send nothing now, behind their backs."""
        for conversation in self._known:
            session = self._calls.live.get(conversation.name)
            if session is not None and session.unsaved:
                self._keep(self._store_in_order(conversation, session))

    def note_tenant(self, tenant: str) -> None:
        """Note in this store that there is a tenant, behind the caller's back."""
        self._keep(self._work(self._calls.note_tenant, tenant))

    async def recover(self, turn: Turn, wire: str, refusal: Any) -> Turn | None:
        """Return a smaller request after a refusal; None if there is none."""
        if turn.conversation is None and turn.late is None:
            return None
        task = self._keep(self._recover_in_order(turn, wire, refusal))
        try:
            async with asyncio.timeout(self._options.fold_seconds):
                recovered: Turn | None = await asyncio.shield(task)
                return recovered
        except TimeoutError:
            return None
        except Exception as error:  # noqa: BLE001  # the upstream's own error tells more
            _LOGGER.warning("a refused history was not folded: %s", describe_fault(error))
            return None
        finally:
            if not task.done():  # nobody will send it
                task.add_done_callback(self.take_back)

    def take_back(self, recovered: "asyncio.Future[Turn | None] | Turn") -> None:
        """Undo the fold of a refusal that may mean anything, behind the caller's back."""
        self._keep(self._take_back_in_order(recovered))

    async def _take_back_in_order(self, recovered: "asyncio.Future[Turn | None] | Turn") -> None:
        turn = recovered if isinstance(recovered, Turn) else await recovered
        if turn is None or turn.undo is None or turn.conversation is None:
            return
        async with turn.conversation.in_turn():
            try:
                await self._work(turn.undo)
            except RefoldError as error:
                _LOGGER.warning("a fold was not taken back (%s)", describe_fault(error))

    async def _prepare(self, asked: SplitRequest) -> Turn:
        """Find the conversation of a history, and have its session say what to send."""
        request = asked.request
        conversation = self._find_open(request, asked.history)
        if conversation is None:
            if self._around.breaker.refuses(time.monotonic()):
                return Turn(fold="bypassed;store", model=asked.split.model)  # it is tried again by and by
            conversation = await self._find_stored(request, asked.history)
        elif request.hints.session:
            request.row.explain("the session that the caller names")
        else:
            request.row.explain("known session: it goes on where that ended")
        request.row.times.end_phase("identify")
        try:
            return await self._prepare_for(conversation, asked)
        except FormatError:  # it began in another wire, and has tool calls that this one cannot tell
            request.row.explain("session of its own: what was said so far is in another wire")
            return await self._prepare_for(self._get(f"{conversation.name}:{request.wire}", request), asked)

    async def _prepare_for(self, conversation: Conversation, asked: SplitRequest) -> Turn:
        if not conversation.is_free:
            task = self._keep(self._prepare_in_order(conversation, asked))
        else:
            await conversation.lock.acquire()  # nobody has it, so that nothing comes between
            prepared = self._prepare_now(conversation, asked)
            if isinstance(prepared, Turn):
                return prepared
            task = prepared
        await asyncio.wait((task,), timeout=self._options.fold_seconds)  # it goes on though nobody may wait
        if not task.done():
            raise _TooLate(task)
        return task.result()

    def _read(
        self, request: HistoryRequest, known: ListReader
    ) -> tuple[SplitBody | None, NamedHistory | None]:
        """Split a body and name its messages; only new messages are read."""
        split = split_body(request.body, request.wire, known.read_request)
        if split is None or split.is_elsewhere:
            return split, None
        wire, memo = formats.get(request.wire), self._around.memo
        history = memo.read_history(wire, split.items[known.count :], self._tenant, known.history)
        known.keep(split.items, history, split.key)
        return split, history

    def _is_large(self, request: HistoryRequest, model: str) -> bool:
        """True if a history without an answer is above half of the window: soon it may not fit."""
        policy = self._options.make_policy(request.hints.policy or self._options.policy)
        window = self._calls.find_window(request) or policy.window(model).tokens
        return len(request.body) > window * _BYTES_PER_TOKEN / 2

    def _go_on(self, split: SplitBody, history: NamedHistory, reason: str = "") -> Turn | None:
        """Return the last view of a known conversation and what came since; asks no session.

        None if the conversation is not in memory or was not folded.
        """
        conversation = self._known.find(history.names)
        plan = None if conversation is None else conversation.plan
        place = -1 if plan is None else plan.count - history.fixed - 1
        if plan is None or not 0 <= place < len(history.names) or history.names[place] != plan.tip:
            return None
        body = split.write([*plan.parts, *range(plan.count, len(split.items))])
        return Turn(fold=f"ready;{reason}" if reason else "ready", body=body, model=split.model)

    # -- finding -------------------------------------------------------------------------------------------

    def _find_open(self, request: HistoryRequest, history: NamedHistory) -> Conversation | None:
        """Return the conversation that the caller names, or that ends where the history goes on."""
        found = self._known.find(history.names, request.hints.client)
        name = request.hints.session or (found and found.name)
        return self._get(name, request) if name else None

    async def _find_stored(self, request: HistoryRequest, history: NamedHistory) -> Conversation:
        """Return the conversation that shares most with the history; a new one if none does."""
        async with self._finding:  # two requests of one new conversation must not become two sessions
            found = self._find_open(request, history)
            if found is None:
                hint = request.hints.client
                name = await self._work(self._calls.search, request.wire, history, hint)
                found = self._get(name or hint or f"gateway-{token_hex(8)}", request)
                self._known.add_tip(found, history.names[-1])
                request.row.explain(_SHARED if name else _NEW_BY_ID if hint else _NEW)
            return found

    def _get(self, name: str, request: HistoryRequest) -> Conversation:
        return self._known.get(name, request.hints.policy or self._options.policy)

    # -- in the order of a conversation --------------------------------------------------------------------

    def _prepare_now(self, conversation: Conversation, asked: SplitRequest) -> "Turn | asyncio.Future[Turn]":
        """Prepare a history in the event loop, as far as nothing is waited for; ends the lock."""
        tip = asked.history.names[-1]
        try:
            prepared = self._calls.prepare_at_once(conversation, asked)
            if not isinstance(prepared, Turn):
                task = self._start(prepared)
                task.add_done_callback(partial(self._end_preparing, conversation, tip))
                return task
        except BaseException:
            conversation.lock.release()
            raise
        conversation.lock.release()
        self._known.add_tip(conversation, tip)
        return prepared

    def _end_preparing(self, conversation: Conversation, tip: str, task: "asyncio.Future[Turn]") -> None:
        conversation.lock.release()
        if not task.cancelled() and task.exception() is None:
            self._known.add_tip(conversation, tip)

    async def _prepare_in_order(self, conversation: Conversation, asked: SplitRequest) -> Turn:
        async with conversation.in_turn():
            turn = await self._work(self._calls.prepare, conversation, asked)
            self._known.add_tip(conversation, asked.history.names[-1])
            return turn

    async def _recover_in_order(self, turn: Turn, wire: str, refusal: Any) -> Turn | None:
        """Fold harder; what was late the first time is sent, if it is smaller than what was refused."""
        if turn.late is not None:
            turn = await asyncio.shield(turn.late)
            if turn.body is not None:
                return turn
        conversation = turn.conversation
        if conversation is None:
            return None
        async with conversation.in_turn():
            return await self._work(self._calls.recover, conversation, turn, wire, refusal)

    async def _observe_in_order(
        self,
        conversation: Conversation,
        turn: Turn,
        wire: str,
        answer: dict[str, Any],
        on_end: Callable[[], None],
    ) -> None:
        async with conversation.in_turn():
            await _end_observing(self._work(self._calls.observe, conversation, turn, wire, answer), on_end)

    async def _store_in_order(self, conversation: Conversation, session: Session) -> None:
        async with conversation.in_turn():
            await self._work(session.folds)  # each call of a session stores first what waits

    async def _work(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._around.pool, call, *arguments)

    def _start(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        """Start a call in a thread, which goes on although nobody may wait for it."""
        return self._keep(asyncio.get_running_loop().run_in_executor(self._around.pool, call))

    def _keep(self, work: "Awaitable[T]") -> "asyncio.Future[T]":
        """Start a task that goes on although nobody may wait for it."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: "asyncio.Future[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # who waited has it; else nobody is left to be told


async def _end_observing(work: Awaitable[object], on_end: Callable[[], None]) -> None:
    """Wait until the usage of an answer is stored; what fails there concerns nobody's request."""
    try:
        await work
    except RefoldError as error:
        _warn_of_usage(error)
    else:
        on_end()


def _warn_of_usage(error: Exception) -> None:
    _LOGGER.warning("usage was not recorded (%s)", describe_fault(error))


def _warn_of_store(error: StoreError) -> None:
    """Say that the store failed; not again for requests that did not ask it therefore."""
    if not isinstance(error, StoreIsDown):
        _LOGGER.warning("the store failed (%s): a history was not taken in", describe_fault(error))


class _TooLate(Exception):
    """A history was not ready in time; the work on it goes on."""

    def __init__(self, task: "asyncio.Future[Turn]") -> None:
        self.task = task
