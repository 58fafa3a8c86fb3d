"""`Session`: one conversation in a store, for threads."""

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Annotated, Any, Final, Self, TypeVar
from weakref import WeakSet

from refold.arguments import Range, check_arguments
from refold.calls.outcome import Outcome
from refold.calls.target import TargetSize
from refold.core.compaction.budget import Budget
from refold.core.compaction.policy import Policy
from refold.core.log.entries import Entry, Kind
from refold.errors import StoreError
from refold.formats.systems.file_forms import DEFAULT_FORM
from refold.policies.knobs import Count
from refold.session import operations, turns
from refold.session.checkpoints import checkpoint, checkpoints, rewind
from refold.session.drivers import Begun, Rest, SessionFlow, Wait, run_at_once, run_sync
from refold.session.events import Listener
from refold.session.operations import SAME
from refold.session.outage import Result, catch_up, report_failure
from refold.session.own_turn import OwnTurn
from refold.session.results import Checkpoint, CompactionSegment, FoldMade, Hit, Ready, Rewound, Stats
from refold.session.results import ObservedTurn as Observed
from refold.session.state.accounting import SentRequest
from refold.session.state.request_context import ReadMessage
from refold.session.state.session_state import SessionState
from refold.session.steps.background import fold_in_background
from refold.session.steps.export import export, import_from, keep_archive
from refold.session.steps.install_fold import Attempt
from refold.session.steps.load import read_log
from refold.session.steps.observe import observe
from refold.session.steps.prepare import prepare
from refold.session.steps.recall import OfferedWhen, answer_recall, original, recall, recall_tool

T = TypeVar("T")
_LOGGER: Final = logging.getLogger("refold")
_LOCKS: "Final[WeakSet[_Lock]]" = WeakSet()


class Session:
    """One conversation in a store; several threads may use it."""

    def __init__(self, state: SessionState, *, owns_store: bool) -> None:
        self.state = state
        self.owns_store = owns_store
        self._lock = _Lock(state)
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The name of the session."""
        return self.state.name

    @property
    def model(self) -> str | None:
        """The model of the conversation; may be changed at any time."""
        return self.state.settings.model

    @model.setter
    def model(self, model: str | None) -> None:
        operations.use(self.state, model=model)

    def use(
        self,
        *,
        model: str | None = SAME,
        window: int | str | None = None,
        endpoint: str | None = None,
        account: str | None = None,
    ) -> None:
        """Go on with another model, window, endpoint or account; the next `prepare` measures against it.

        What is not named stays, but a window that was given goes with the model it was given for.
        """
        operations.use(self.state, model=model, window=window, endpoint=endpoint, account=account)

    @property
    def unsaved(self) -> int:
        """Entries of the log that are only in memory, because the store fails; 0 if everything is stored."""
        return self.state.log.unsaved

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` with every event; returns a call that ends the subscription."""
        return self.state.events.listeners.subscribe(callback)

    def say(self, message: Any, *, key: str | None = None, durable: bool = True) -> str:
        """Append a message, or several, and return the handle of the last one, such as `#12`.

        message   text of the user, a message in the conversation's format, or a `refold.Message`
        key       name of this message in the caller's world, such as a request id: a second `say` with the
                  same key appends nothing and returns the first handle, also in another process
        durable   False if the message may wait in memory while the store fails, as in `prepare`; by default
                  it is stored when the call returns, or the store's error is raised
        """
        flow = operations.say(self.state, message, key, durable=durable)
        return self.run_flow(flow) if durable else self._run_without_store(flow)

    def view(self) -> list[Any]:
        """Return what the model sees, in the format of the conversation."""
        return self.run_flow(operations.view(self.state))

    @check_arguments
    def log(
        self, *, kinds: Collection[Kind] | None = None, first: int = 0, last: int | None = None
    ) -> list[Entry]:
        """Return the entries of this branch, oldest first; `first` and `last` are numbers of messages."""
        return self.run_flow(read_log(self.state, kinds=kinds, first=first, last=last))

    def budget(self) -> Budget:
        """Return how full the context is, with the system prompt and tools that were sent last."""
        return self.run_flow(operations.budget(self.state), at_once=False)

    def needs_compaction(self) -> bool:
        """Return whether a compaction is due."""
        return self.run_flow(operations.needs_compaction(self.state), at_once=False)

    @check_arguments
    def prepare(
        self,
        messages: Sequence[Any] | None = None,
        *,
        system: Any = None,
        tools: Sequence[Any] | None = None,
        prompt: str | None = None,
        files: Sequence[Any] | None = None,
    ) -> Ready:
        """Take in the caller's history, compact if it is due, and return what to send.

        messages   the whole history as the caller has it, or what `prepare` returned before and what came
                   since; without it the session's own view is prepared
        system, tools, prompt, files
                   what is sent beside the history; it is counted and not stored

        Only new messages are stored and counted.
        """
        beside = {"system": system, "tools": tools, "prompt": prompt, "files": files}
        flow = prepare(self.state, messages, **beside, start_background=self._start_background)
        return self._run_without_store(flow)

    def observe(self, answer: Any, *, say: bool = False) -> Observed:
        """Take in a provider's response, or the exception that came instead.

        The next estimate starts from the reported usage. After a refusal for size the history is folded once
        without a model; then the result is true and has the messages to send again. A second refusal of the
        same turn raises `Overflow`.

        say   also append the answer to the conversation, as it may be sent back
        """
        flow = operations.observe_and_say(self.state, answer) if say else observe(self.state, answer)
        return self._run_without_store(flow)  # type: ignore[return-value]  # `send_again` tells which

    @check_arguments
    def send(
        self,
        call: Callable[[list[Any]], Any],
        messages: Sequence[Any] | None = None,
        *,
        system: Any = None,
        tools: Sequence[Any] | None = None,
        say: bool | None = None,
    ) -> Any:
        """Do a whole turn: `prepare`, `call`, `observe`; returns the response.

        call   the request: it takes the list to send and returns the response
        say    also append the answer to the conversation; by default if no messages are handed in

        After a refusal for size the history is folded and `call` is made once more. Every other error, and a
        second refusal, comes through as the provider's own.
        """
        turn = OwnTurn(self, messages, {"system": system, "tools": tools})
        keeps = messages is None if say is None else say
        return turns.send(turn, lambda view: call(view.messages or []), turn.prepare(), say=keeps)

    def stream(
        self,
        call: Callable[[list[Any]], Any],
        messages: Sequence[Any] | None = None,
        *,
        system: Any = None,
        tools: Sequence[Any] | None = None,
        say: bool | None = None,
    ) -> Iterator[Any]:
        """Do a whole turn with a stream: the chunks come through as they are, and are observed at the end.

        call   the request: it takes the list to send and returns the chunks, in an event loop as one iterates
               over them there
        say    also append the answer to the conversation; by default if no messages are handed in

        After a refusal for size the history is folded and `call` is made once more, as long as no chunk has
        gone out. If the consumer stops early, what came by then is observed.
        """
        turn = OwnTurn(self, messages, {"system": system, "tools": tools})
        keeps = messages is None if say is None else say
        yield from turns.stream(turn, lambda view: call(view.messages or []), turn.prepare(), say=keeps)

    @check_arguments
    def compact(
        self,
        strategy: str | Policy | None = None,
        *,
        keep: Count | None = None,
        focus: str = "",
        target: TargetSize | None = None,
    ) -> Outcome:
        """Fold now, whether or not it is due.

        strategy   a policy, its name or the id of a strategy; the session's policy by default
        keep       how many of the last messages stay as they are, beside the last request of the user
        focus      what a summary is to look at
        target     how large the context may be afterwards: 12000 or "12k"; a pair such as (10000, 12000) or
                   "10k-12k" also says below which size it should not fall
        """
        flow = operations.compact(self.state, strategy=strategy, keep=keep, focus=focus, target=target)
        return self.run_flow(flow)

    def checkpoint(self, name: str = "") -> str:
        """Mark this place by a name; the current thread begins here. Returns the name."""
        return self.run_flow(checkpoint(self.state, name))

    def checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints of every branch, in the order in which they were set."""
        return self.run_flow(checkpoints(self.state))

    @check_arguments
    def segment(self, strategy: str | Policy | None = None) -> CompactionSegment | None:
        """Return the messages that `compact` would fold now, or None if it would fold none; asks nobody."""
        return self.run_flow(operations.segment(self.state, strategy))

    def unfold(self, fold: str | FoldMade | None = None) -> str | None:
        """Undo a fold, the latest by default; returns its name, or None if nothing is folded."""
        return self.run_flow(operations.unfold(self.state, fold))

    def rewind(self, to: Any) -> Rewound:
        """Go back to a message (`#12`), a checkpoint or an entry, and return the number of messages there.

        What came after stays on its own branch. A checkpoint may stand on any branch. Pins stay on the
        messages that are there. A fold that was undone since then stands again, and `folded_again` of the
        result names it.
        """
        return self.run_flow(rewind(self.state, to))

    @check_arguments
    def recall(self, query: str, *, limit: Annotated[int, Range(0)] = 10) -> list[Hit]:
        """Search everything that was ever said, folded or not; the best hits come first."""
        return self.run_flow(recall(self.state, query, limit=limit))

    def original(self, handle: Any) -> list[Any]:
        """Return messages as they were said: `#12`, `#12-#57`, a hit, or the name of a fold."""
        return self.run_flow(original(self.state, handle))

    def pin(self, handle: Any = -1) -> str:
        """Keep a message in every view, the last one by default; returns its handle."""
        return self.run_flow(operations.pin(self.state, handle))

    def unpin(self, handle: Any = -1) -> str:
        """Let a pinned message be folded again; returns its handle."""
        return self.run_flow(operations.pin(self.state, handle, pinned=False))

    def folds(self) -> list[FoldMade]:
        """Return every fold of this branch, oldest first, also those that were undone."""
        return self.run_flow(operations.folds(self.state))

    def stats(self) -> Stats:
        """Return what fills the context now, beside what all requests cost together."""
        return self.run_flow(operations.stats(self.state))

    def recall_tool(
        self,
        format: str | None = None,  # noqa: A002  # the word users know
        *,
        when: OfferedWhen = "always",
        name: str = "recall",
        strict: bool = False,
    ) -> dict[str, Any] | None:
        """Return the definition of the tool by which the model reads what was folded.

        format   the shape, if not that of the conversation
        when     "always": the same from the first turn on, so that tools and the cached prefix do not change
                 in the middle; "folded": None while nothing is folded
        name     the tool's name, where a program has a `recall` of its own
        strict   every argument is given, as `chat.completions.parse()` of OpenAI demands
        """
        return self.run_flow(recall_tool(self.state, format, when, name, strict=strict), at_once=False)

    def answer_recall(self, arguments: str | Mapping[str, Any]) -> str:
        """Return the text to answer with when the model calls the tool `recall`."""
        return self.run_flow(answer_recall(self.state, arguments))

    @check_arguments
    def export(self, directory: str | os.PathLike[str], *, form: str = DEFAULT_FORM) -> list[str]:
        """Write the session as files, in a form that another system reads, and return their names."""
        return self.run_flow(export(self.state, directory, form))

    @check_arguments
    def import_from(self, directory: str | os.PathLike[str]) -> int:
        """Read an exported folder into this session, which must be empty; returns the number of messages.

        A file with a list whose tags hide messages is read too: what they hide becomes a fold.
        """
        return self.run_flow(import_from(self.state, directory))

    def run_flow(self, flow: SessionFlow[T], *, at_once: bool = True) -> T:
        """Run a flow of this session in this thread.

        at_once   try a store again that has just failed; else its pause is waited for, and memory is used
        """
        state = self.state
        if state.log.failure is not None:
            self._run(catch_up(state, at_once=at_once))
        result = self._run(flow)
        if state.settings.archive:
            self._run(keep_archive(state))
        return result

    def _run_without_store(self, flow: SessionFlow[Result]) -> Result:
        """Run a flow that goes on from memory while the store fails."""
        state = self.state
        if state.log.failure is not None:
            self._run(catch_up(state, at_once=False))
        ask, lock, guard = state.summariser.answer, self._lock, state.log.run_in_memory
        flush, mark_stale = state.events.flush, state.position.mark_stale
        result = run_sync(flow, lock, ask, flush, mark_stale, guard=guard)
        if state.settings.archive:
            self._run(keep_archive(state))
        return result if state.log.failure is None else self._run(report_failure(state, result))

    def _run_at_once(self, flow: SessionFlow[Result]) -> Result | Rest[Result]:
        """Run a flow as `_run_without_store` does, in an event loop, as far as nobody is waited for."""
        state, lock = self.state, self._lock
        if state.log.failure is not None or state.settings.archive or not lock.acquire(blocking=False):
            return Rest(partial(self._run_without_store, flow))
        flush, mark_stale = state.events.flush, state.position.mark_stale
        found = run_at_once(flow, lock, flush, mark_stale)
        if not isinstance(found, Begun):
            return found

        def finish() -> Result:
            ask, guard = state.summariser.answer, state.log.run_in_memory
            result = run_sync(flow, lock, ask, flush, mark_stale, guard=guard, first=found.step)
            return result if state.log.failure is None else self._run(report_failure(state, result))

        return Rest(finish)

    def _prepare_at_once(
        self, messages: Sequence[Any], *, system: Any, tools: Any, read: Sequence[ReadMessage] = ()
    ) -> Ready | Rest[Ready]:
        """Do what `prepare` does in an event loop.

        read   the last messages, as far as the caller has read them
        """
        beside = {"system": system, "tools": tools, "prompt": None, "files": None}
        start = self._start_background
        flow = prepare(self.state, messages, **beside, start_background=start, read=read)
        return self._run_at_once(flow)

    def _observe_at_once(self, answer: Any, request: SentRequest | None = None) -> object:
        """Do what `observe` does in an event loop."""
        return self._run_at_once(observe(self.state, answer, request=request))

    def _run(self, flow: SessionFlow[T]) -> T:
        state = self.state
        ask = state.summariser.answer
        return run_sync(flow, self._lock, ask, state.events.flush, state.position.mark_stale)

    def _start_background(self) -> None:
        """Prepare a fold in a thread of its own."""
        attempts: list[Attempt | None] = []

        def work() -> None:
            try:
                self.run_flow(fold_in_background(self.state, attempts.append))
            except Exception:
                _LOGGER.exception("a fold in the background failed; the conversation is as it was")

        def wait() -> SessionFlow[Attempt | None]:
            yield Wait(thread.join)
            return attempts[0] if attempts else None

        thread = threading.Thread(target=work, name="refold-fold", daemon=True)
        self.state.set_pending_fold(wait)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads now; the fold is made when it is due
            self.state.set_pending_fold(None)
            _LOGGER.warning("no fold is prepared in the background: %s", error)
            return
        self._thread = thread  # now: another thread that closes the session can only join what runs

    def close(self) -> None:
        """Wait for a fold that is being prepared, and close the store if the session opened it.

        Raises the store's error if the store fails and messages are only in memory: they are lost then.
        """
        if self._thread is not None:
            self._thread.join()
        try:
            if self.state.log.failure is not None:
                self._run(catch_up(self.state, at_once=True))
            self.state.log.close()
        finally:
            if self.owns_store:
                self.state.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StoreError as lost:
            if error is None:
                raise
            error.add_note(str(lost))

    def __repr__(self) -> str:
        return f"<Session {self.name!r} in {self.state.store.address}>"


class _Lock:
    """The lock of a session. A child process begins with a new one, and reads the state again."""

    def __init__(self, state: SessionState) -> None:
        self.inner = threading.Lock()
        self._state = state
        _LOCKS.add(self)

    def acquire(self, blocking: bool = True) -> bool:  # noqa: FBT001, FBT002  # as that of `threading`
        """Take the lock; False if others have it and nobody is to wait."""
        return self.inner.acquire(blocking)

    def release(self) -> None:
        """Release the lock."""
        self.inner.release()

    def locked(self) -> bool:
        """True while a thread is inside."""
        return self.inner.locked()

    def after_fork(self) -> None:
        """In a child process, forget the lock and the work of the parent's threads."""
        self.inner = threading.Lock()
        self._state.events.listeners.after_fork()
        self._state.set_pending_fold(None)
        self._state.position.mark_stale()


def _renew_locks() -> None:
    for lock in _LOCKS:
        lock.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_locks)
