"""Calls of sessions and their store: open, search, prepare, observe.

They may wait for a store or a model, and then run in threads. A thread costs more than a short write, so that
a request far from its next fold is prepared in the event loop where the store can write at once.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, cast
from weakref import WeakValueDictionary

from refold import formats
from refold.calls.summariser import AskTarget
from refold.core.compaction.budget import CROWDED
from refold.core.messages.quick_init import quick_replace
from refold.core.overflow.detect import is_vague
from refold.errors import StoreError, StoreReplaced, describe_fault
from refold.gateway.history.caller_summaries import (
    Access,
    CallerSummariser,
    find_summary_model,
    give_back_later,
)
from refold.gateway.history.client_compaction import MARK, QUIET_TURNS, ends_with_order, keep_quiet
from refold.gateway.history.hints import Hints
from refold.gateway.history.known_conversations import Conversation
from refold.gateway.history.known_prefix import KnownPrefixes
from refold.gateway.history.memo import MessageMemo, NamedHistory
from refold.gateway.history.sizes import (
    FixedSizes,
    count_history,
    describe_fullness,
    estimate_came,
    find_short_bytes,
    fits_after,
)
from refold.gateway.history.split import SplitBody
from refold.gateway.history.tenant_cap import TenantCap
from refold.gateway.history.turns import Turn, View, write_turn
from refold.gateway.history.watched_store import StoreBreaker, WatchedStore
from refold.gateway.options import HistoryOptions
from refold.inspector.live.traffic import TrafficRow
from refold.inspector.scopes import TENANT_NOTE
from refold.session.drivers import Rest
from refold.session.many import Sessions, find_session
from refold.session.opening import find_store
from refold.session.results import Ready
from refold.session.session import Session
from refold.session.steps.observe import observe
from refold.stores import SESSION_NOTE, Store

_LOGGER: Final = logging.getLogger("refold.gateway")
_LONG_CONTEXT: Final = ("context-1m", 1_000_000)
"""The beginning of Anthropic's beta header for a window of a million tokens."""
_SHARE_OF_MODEL: Final = 0.75
"""Share of a request's deadline that a summary may take; the rest is for a fold without a model."""
_TENANT_CONNECTIONS: Final = 2
"""Connections of one tenant to PostgreSQL, whose servers take 100 by default; the address may name others."""
_LEAST_DOUBTED: Final = 4_096
"""Tokens of a request that may be too large although no upstream says so: windows that small are told."""
_NOBODY: Final = "refold-gateway"
"""The name of a session that does not exist, to ask whether the store answers."""


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """A request with a history, as far as its handling depends on it."""

    wire: str
    body: bytes
    hints: Hints
    endpoint: str
    """The address of the upstream: windows are learned for each."""
    betas: str = ""
    counts: bool = False
    """True if it only counts tokens."""
    access: Access | None = None
    """The way to the caller's upstream, where the caller pays for summaries."""
    row: TrafficRow = field(default_factory=TrafficRow, compare=False)
    """Where it is noted what was done to the request, and why."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the conversations of all tenants use."""

    pool: ThreadPoolExecutor
    memo: MessageMemo
    prefixes: KnownPrefixes
    breaker: StoreBreaker
    """One for all: their stores are one server or one disk."""


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """A request and what was read of it."""

    request: HistoryRequest
    split: SplitBody
    history: NamedHistory

    @property
    def orders_summary(self) -> bool:
        """True if the client compacts by itself here."""
        return self.request.hints.compacts or ends_with_order(self.history.values[-1])


class SessionCalls:
    """The sessions of one tenant; each method may wait for the store."""

    def __init__(self, options: HistoryOptions, around: Surroundings, tenant: str) -> None:
        self.options, self.breaker, self._memo = options, around.breaker, around.memo
        self._tenant = tenant
        self._cap = TenantCap(options.tenant_summary_tokens_per_hour)
        self._opening = threading.Lock()
        self._store: Store | None = None
        self._watched: Store | None = None
        """The same store, left alone while it fails."""
        self._sessions: dict[tuple[str, str], Sessions] = {}
        self._summarisers: WeakValueDictionary[tuple[str, str], CallerSummariser] = WeakValueDictionary()
        """Those of open sessions, by wire and name."""
        self.live: WeakValueDictionary[str, Session] = WeakValueDictionary()
        """The sessions that are open, by name."""
        self._fixed_sizes = FixedSizes(options.make_policy)

    def check_store(self) -> bool:
        """Return whether the store answers."""
        try:  # without the breaker: whoever asks for the state of the store wants to know it now
            with self._opening:
                store = self._store = self._store or self._find_store()
            store.head(_NOBODY)
        except StoreError as error:
            if not self.breaker.is_open:  # a probe each second does not say it each second
                # its text names a place or a host, never what somebody said
                _LOGGER.warning("the store does not answer (%s): new conversations are not folded", error)
            self.breaker.note_failure(time.monotonic())
            return False
        self.breaker.note_success()
        return True

    def close(self) -> None:
        """Close the sessions, and the store if it was opened here."""
        for sessions in self._sessions.values():
            try:
                sessions.close()
            except StoreError as error:
                _LOGGER.warning("messages were not stored: %s", error)  # it names places, and no text
        if self._store is not None and self._store is not self.options.store:
            self._store.close()

    def search(self, wire: str, history: NamedHistory, hint: str) -> str | None:
        """Return the name of the session that shares most with a history."""
        store, names = self._open_store(), history.names
        found = find_session(store, history.values, format=wire, hint=hint or None, names=names)
        return None if found is None else found.name

    def prepare(self, conversation: Conversation, asked: SplitRequest) -> Turn:
        """Take a history in and return what to send."""
        request, split = asked.request, asked.split
        system, tools = self._read_frame(split)
        window = self.find_window(request, conversation.window)
        if conversation.plan is None and self._is_crowded(conversation, split, system, tools, window):
            return Turn(fold="bypassed;crowded", model=split.model)
        session = self._get_session(conversation, request.wire)
        if _is_replaced(session):
            self._reopen(session)
            session = self._get_session(conversation, request.wire)
        settings, wanted = session.state.settings, (split.model, request.endpoint, window)
        is_other = (settings.model, settings.endpoint, conversation.window) != wanted
        if is_other:
            session.use(model=split.model, window=window, endpoint=request.endpoint)
            conversation.window = window
        with self._lend_key(session, request), self._cap.hold(session):
            ready = _prepare(conversation, session, asked.history.values, system=system, tools=tools)
        if is_other:  # behind the history, so that a store that fails does not make it wait twice
            self._note_session(conversation, request, split.model)
        return self._make_turn(conversation, session, asked, ready)

    def prepare_at_once(self, conversation: Conversation, asked: SplitRequest) -> Turn | Callable[[], Turn]:
        """Do the same in an event loop; what would wait comes back as a call for a thread."""
        request, split, history = asked.request, asked.split, asked.history
        session = self._find_quick(conversation, asked)
        system, tools = self._read_frame(split)
        window = conversation.window
        if session is None or (
            conversation.plan is None and self._is_crowded(conversation, split, system, tools, window)
        ):
            return partial(self.prepare, conversation, asked)
        with ExitStack() as held:
            if request.access is not None:
                held.enter_context(self._lend_key(session, request))
            if self._cap.is_reached:
                held.enter_context(self._cap.hold(session))
            ready = session._prepare_at_once(  # noqa: SLF001  # a part of `prepare`
                history.values, system=system, tools=tools, read=history.read
            )
            if isinstance(ready, Ready):
                return self._make_turn(conversation, session, asked, ready)
            kept = held.pop_all()

        def finish() -> Turn:
            with kept:
                prepared = ready.finish()
            return self._make_turn(conversation, session, asked, prepared)

        return finish

    def _read_frame(self, split: SplitBody) -> tuple[Any, Any]:
        """Return the system prompt and the tools of a request."""
        memo, tenant = self._memo, self._tenant
        return memo.read_field(split.system, tenant), memo.read_field(split.tools, tenant)

    def _find_quick(self, conversation: Conversation, asked: SplitRequest) -> Session | None:
        """Return a session that is open and far from its next fold; None if a call of it may take long."""
        request, model = asked.request, asked.split.model
        session = self._find_live(conversation, request.wire)
        if session is None or _is_replaced(session) or conversation.quiet_turns:
            return None
        if len(request.body) > conversation.short_bytes:
            return None
        if asked.orders_summary:  # a mark in the store follows
            return None
        settings, window = session.state.settings, self.find_window(request, conversation.window)
        same = (settings.model, settings.endpoint, conversation.window) == (model, request.endpoint, window)
        return session if same else None

    def _find_live(self, conversation: Conversation, wire: str) -> Session | None:
        """Return the session of a conversation if it is open; to open one may close another, which waits."""
        sessions = self._sessions.get((conversation.policy, wire))
        return None if sessions is None else sessions._get_at_once(conversation.name)  # noqa: SLF001  # a part of `get`

    def _make_turn(
        self, conversation: Conversation, session: Session, asked: SplitRequest, ready: Ready
    ) -> Turn:
        """Return the turn of a history that its session has prepared."""
        request, split, history = asked.request, asked.split, asked.history
        has_folds = bool(_find_folds(session))
        size = count_history(session, history, conversation.size, is_whole=not has_folds)
        conversation.size = size
        came = estimate_came(session, size, ready.budget)
        conversation.short_bytes = find_short_bytes(len(request.body), ready.budget)
        fold = "made" if ready.outcome.compacted else "ready"  # else a block of the upstream's own
        request.row.explain(describe_fullness(session, ready))
        view = View(ready.messages, ready.origins, (came, ready.budget.used), fold, history.names[-1])
        conversation.requests += 1
        if asked.orders_summary:
            _mark_compaction(conversation, session)
        turn = write_turn(conversation, split, view, has_folds=has_folds)
        return quick_replace(turn, room=ready.budget.room, request=session.state.accounting.prepared)

    def recover(self, conversation: Conversation, turn: Turn, wire: str, refusal: Any) -> Turn | None:
        """Fold harder after a refusal; None if that is not possible."""
        if (split := turn.split) is None:
            return None
        session, is_doubted = self._get_session(conversation, wire), is_vague(refusal)
        if is_doubted and not _is_large(conversation, session, turn):
            return None
        instead = None
        if turn.number != conversation.requests:  # another request came in between, and may have folded
            refused, turn = turn, self._prepare_again(conversation, session, split, wire)
            instead = turn if turn.body not in (None, refused.body) else None
            if instead is not None and fits_after(refusal, refused.sent, turn.sent):
                return instead
        folds, accounting = _find_folds(session), session.state.accounting
        window, written = accounting.learned_window, (conversation.plan, conversation.written)
        flow = observe(session.state, refusal, is_own=True)
        observed = session._run_without_store(flow)  # noqa: SLF001  # as its own `observe` does
        if not observed.send_again or observed.messages is None:
            accounting.learned_window = window if is_doubted else accounting.learned_window
            return instead
        self._lower_window(conversation, session, 0 if is_doubted else accounting.learned_window or 0)
        budget, size = observed.budget, conversation.size
        used = 0 if budget is None else budget.used
        came = used if size is None else estimate_came(session, size, budget)
        view = View(observed.messages, observed.origins, (came, used), "made", turn.tip)
        made = [fold for fold in _find_folds(session) if fold not in folds]

        def undo() -> None:
            session = self._get_session(conversation, wire)  # it may have been closed
            session.state.accounting.learned_window = window
            if conversation.requests == turn.number:
                conversation.plan, conversation.written = written
            for fold in reversed(made):
                if session.state.view.covering(fold) is None:
                    session.unfold(fold)

        harder = write_turn(conversation, split, view, has_folds=True)
        return replace(harder, request=accounting.prepared, undo=undo if is_doubted else None)

    def _lower_window(self, conversation: Conversation, session: Session, learned: int) -> None:
        """Use a window that was learned in place of that of a beta header, which not every account has."""
        if self.options.window is None and 0 < learned < (conversation.window or 0):
            conversation.window = learned
            session.use(window=learned)

    def _prepare_again(
        self, conversation: Conversation, session: Session, split: SplitBody, wire: str
    ) -> Turn:
        """Prepare a request a second time, behind the one that came in between."""
        if session.model != split.model:
            session.use(model=split.model, window=conversation.window)
        history = self._memo.read_history(formats.get(wire), split.items, self._tenant)
        system, tools = self._read_frame(split)
        with self._cap.hold(session):
            ready = session.prepare(history.values, system=system, tools=tools)
        request = HistoryRequest(wire, b"", Hints(), session.state.settings.endpoint)
        return self._make_turn(conversation, session, SplitRequest(request, split, history), ready)

    def observe(self, conversation: Conversation, turn: Turn, wire: str, answer: Any) -> None:
        """Take in what an answer told of its usage."""
        session = self._get_session(conversation, wire)
        flow = observe(session.state, answer, request=turn.request)
        session._run_without_store(flow)  # noqa: SLF001  # as its own `observe` does

    def observe_at_once(
        self, conversation: Conversation, turn: Turn, wire: str, answer: Any
    ) -> Callable[[], object] | None:
        """Do the same in an event loop; what would wait comes back as a call for a thread."""
        session = self._find_live(conversation, wire)
        if session is None:
            return partial(self.observe, conversation, turn, wire, answer)
        observed = session._observe_at_once(answer, turn.request)  # noqa: SLF001  # a part of `observe`
        return observed.finish if isinstance(observed, Rest) else None

    def _is_crowded(
        self, conversation: Conversation, split: SplitBody, system: Any, tools: Any, window: int | None
    ) -> bool:
        """True if system prompt and tools leave so little room that one fold would follow the other."""
        budget = self._fixed_sizes.measure(split, system, tools, window, conversation.policy)
        crowded = budget.used > CROWDED * budget.room
        if crowded and not conversation.was_crowded:
            conversation.was_crowded = True
            sizes = f"{budget.used:,} of the {budget.room:,} tokens that fit"
            _LOGGER.warning("system prompt and tools take %s: a conversation is not folded", sizes)
        return crowded

    def count_alone(self, asked: SplitRequest) -> tuple[int, int]:
        """Return the tokens of a request that no session takes in, as it came and as it goes on."""
        request, split = asked.request, asked.split
        policy = request.hints.policy or self.options.policy
        window = self.find_window(request) or self.options.make_policy(policy).window(split.model).tokens
        fixed = self._fixed_sizes.measure(split, *self._read_frame(split), window, policy)
        budget = self._fixed_sizes.measure_messages(asked.history.values, split, window, policy)
        used = fixed.breakdown.fixed + budget.used
        return used, used

    def _open_store(self) -> Store:
        with self._opening:
            if self._watched is None:
                self._store = self._store or self.breaker.watch(self._find_store)
                self._watched = cast("Store", WatchedStore(self._store, self.breaker))
            return self._watched

    def _reopen(self, session: Session) -> None:
        """Leave a store that was deleted or replaced; requests bring what its sessions have not stored."""
        with self._opening:
            if session.state.store is not self._watched:  # another request has done it
                return
            old, self._store, self._watched = self._store, None, None
            self._sessions = {}
            self.live.clear()
        _LOGGER.warning("the store was deleted or replaced: it is opened again")
        self.breaker.note_success(has_written=True)
        if old is not None and old is not self.options.store:
            old.close()

    def _find_store(self) -> Store:
        address = self.options.store
        if not self._tenant:
            return find_store(address, None)
        if isinstance(address, str) and address.startswith("postgres") and "connections=" not in address:
            address += f"{'&' if '?' in address else '?'}connections={_TENANT_CONNECTIONS}"
        return find_store(address, None, scope=self._tenant)

    def _get_session(self, conversation: Conversation, wire: str) -> Session:
        key, known = (conversation.policy, wire), self._sessions
        sessions = known.get(key)
        if sessions is None:
            made = Sessions(
                store=self._open_store(),
                policy=self.options.make_policy(conversation.policy),
                format=wire,
                options=lambda name: {"ask": self._find_summariser(str(name), wire)},
                ask_timeout=self.options.fold_seconds * _SHARE_OF_MODEL,
                background=self.options.ask is not None or bool(self.options.summary_model),
                **self.options.caps,
                on_event=None if self.options.tenant_summary_tokens_per_hour is None else self._cap.listen,
            )
            # Of two threads one is the first; the other's has no session yet. The store may be left by now.
            sessions = known.setdefault(key, made)
        session = self.live[conversation.name] = sessions.get(conversation.name)
        return session

    def _find_summariser(self, name: str, wire: str) -> AskTarget:
        """Return who writes the summaries of a session: the operator's, or the caller's own upstream."""
        model = find_summary_model(self.options.summary_model, wire)
        if self.options.ask is not None or not model:
            return self.options.ask
        made = CallerSummariser(wire, model, self.options.fold_seconds * _SHARE_OF_MODEL)
        self._summarisers[wire, name] = made
        return made

    @contextmanager
    def _lend_key(self, session: Session, request: HistoryRequest) -> Iterator[None]:
        """Lend the caller's key to the summariser for a request and for the fold that it begins."""
        summariser = self._summarisers.get((request.wire, session.state.name))
        if summariser is None or request.access is None:
            yield
            return
        summariser.lend(request.access)
        wait = None
        try:
            yield
            wait = session.state.pending_fold
        finally:
            if wait is None:
                summariser.give_back()
        if wait is not None:
            give_back_later(session, summariser, wait)

    def _note_session(self, conversation: Conversation, request: HistoryRequest, model: str) -> None:
        """Note for the inspector what the log of a session does not tell: it may run in another process."""
        note = {
            "client": request.row.client,
            "model": model,
            "window": conversation.window,
            "policy": conversation.policy,
            "endpoint": request.endpoint,
        }
        self._put_note(f"{SESSION_NOTE}{conversation.name}", json.dumps(note))

    def note_tenant(self, tenant: str) -> None:
        """Note for the inspector that there is a tenant."""
        self._put_note(f"{TENANT_NOTE}{tenant}", "")

    def _put_note(self, key: str, text: str) -> None:
        try:
            store = self._open_store()
            if store.note(key) != text:
                store.put_note(key, text)
        except StoreError as error:
            _LOGGER.warning("a note for the inspector was not stored (%s)", describe_fault(error))

    def find_window(self, request: HistoryRequest, known: int | None = None) -> int | None:
        """Return the window that is not the model's usual one: the operator's, or that of a beta header.

        known   the window of the last request; the upstream may have said that it is smaller
        """
        if self.options.window is not None:
            return self.options.window
        beta, tokens = _LONG_CONTEXT
        has_beta = any(part.strip().startswith(beta) for part in request.betas.split(","))
        return min(tokens, known or tokens) if has_beta else None


def _prepare(conversation: Conversation, session: Session, messages: list[Any], **fixed: Any) -> Ready:
    """Have a session prepare a request; in a quiet turn it folds only what does not fit."""
    if conversation.quiet_turns:
        conversation.quiet_turns -= 1
        with keep_quiet(session):
            ready = session.prepare(messages, **fixed)
        if ready.budget.used <= ready.budget.room:
            return ready
    return session.prepare(messages, **fixed)


def _mark_compaction(conversation: Conversation, session: Session) -> None:
    """Mark in the log that the client compacts here by itself."""
    conversation.quiet_turns = QUIET_TURNS
    try:
        session.checkpoint(MARK)
    except StoreError as error:
        _LOGGER.warning("a client's own compaction was not marked (%s)", describe_fault(error))


def _is_replaced(session: Session) -> bool:
    """True if nothing more can be stored by this session, because its store is another one now."""
    failure = session.state.log.failure
    return failure is not None and isinstance(failure.error, StoreReplaced)


def _find_folds(session: Session) -> list[str]:
    """Return the names of the folds that shorten the history and stand in the view."""
    return [fold.name for fold in session.state.shortening_folds() if fold.standing]


def _is_large(conversation: Conversation, session: Session, turn: Turn) -> bool:
    """True if a request is large for its window, or larger than all that were answered."""
    used, report = turn.sent, session.state.accounting.report
    answered = conversation.answered or (report.usage.context if report else 0)
    return used >= turn.room / 2 or (bool(answered) and used > max(answered, _LEAST_DOUBTED))
