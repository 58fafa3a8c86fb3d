"""The state of one session: the only thing that changes, composed of values with one owner each."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from refold import formats
from refold.calls.conversation import choose_counter
from refold.core.log.entries import Entry
from refold.core.log.view import Folded, View
from refold.core.messages.message import Message
from refold.core.tokens.counting import Counter
from refold.errors import StoreError
from refold.formats import Format
from refold.formats.shared import canonical
from refold.session.drivers import SessionFlow
from refold.session.events import EventQueue
from refold.session.state.accounting import Accounting
from refold.session.state.caller_history import CallerHistory
from refold.session.state.loaded_view import LoadedView, WireReader
from refold.session.state.position import LogPosition
from refold.session.state.request_context import RequestContext
from refold.session.state.session_log import SessionLog, is_outage
from refold.session.state.settings import Settings, Summariser
from refold.session.state.thinking_prefixes import ShownThinking, ThinkingPrefixes
from refold.stores import Head, Store

Memory: TypeAlias = tuple[LogPosition, CallerHistory, Accounting, LoadedView]
"""What a session holds of its log."""


@dataclass(slots=True, kw_only=True)
class SessionState:
    """One conversation: its place in the store, its view in memory, its usage and cost so far."""

    name: str
    log: SessionLog
    """The store, with what waits in memory while it fails."""
    settings: Settings
    summariser: Summariser
    now: Callable[[], float]
    events: EventQueue
    redact: Callable[[Any], Any] | None = None
    """Removes secrets from summaries, receipts, events and files; None if the session does not redact."""
    redact_stored: Callable[[Any], Any] | None = None
    """Removes secrets from what is stored."""
    request: RequestContext = field(default_factory=RequestContext)
    position: LogPosition = field(default_factory=LogPosition)
    loaded: LoadedView = field(init=False)
    caller: CallerHistory = field(default_factory=CallerHistory)
    accounting: Accounting = field(default_factory=Accounting)
    pending_fold: Callable[[], SessionFlow[Any]] | None = None
    """Waits for the fold that is being prepared in the background; None if there is none."""

    def __post_init__(self) -> None:
        self.loaded = self.new_view(
            formats.get(self.settings.format or formats.detect((), self.settings.model))
        )

    @property
    def store(self) -> Store:
        """The store itself."""
        return self.log.store

    @property
    def head(self) -> Head | None:
        """The end of the branch in the store; None for an empty session."""
        return self.position.head

    @property
    def view(self) -> View:
        """The view that the model sees: ranges and replacements, without the messages themselves."""
        return self.position.view

    @property
    def wire(self) -> Format:
        """The format the conversation is in."""
        return self.loaded.reader.wire

    def counter(self) -> Counter:
        """Return the way this session counts tokens."""
        counter = choose_counter(self.settings.policy, self.settings.model, self.settings.count)
        report = self.accounting.report
        is_known = report is not None and report.model in {"", self.settings.model or ""}
        return replace(counter, guess=report.guess) if report and is_known else counter

    def new_view(self, wire: Format, fixed: int = 0) -> LoadedView:
        """Return an empty view; the first `fixed` messages of it will be system messages."""
        bound = ShownThinking(self.bound_thinking())
        return LoadedView(WireReader(wire), self.counter(), fixed=fixed, bound=bound)

    def bound_thinking(self) -> ThinkingPrefixes | None:
        """Return what thinking is bound to; None if the model does not bind it."""
        thinking, model = self.caller.thinking, self.settings.model or ""
        if not thinking.applies_to(model):
            return None
        if thinking.has_begun:
            thinking.begin_with(model, self.request.system, self.request.tools)
        else:
            thinking.go_on(model)
        return thinking

    def bind_view(self) -> None:
        """Show the view behind the system prompt and the tools that are sent now."""
        thinking, model, bound = self.caller.thinking, self.settings.model or "", self.loaded.bound
        applies = thinking.applies_to(model)
        if applies and not thinking.has_begun:
            if self.view.said and not thinking.sent:  # another process has sent it, and its answer comes here
                thinking.note_sent(bound.prefix)
            thinking.begin_with(model, self.request.system, self.request.tools)
        if (applies or bound.thinking is not None) and self.loaded.bind(self.bound_thinking()):
            self.accounting.invalidate_report()

    def use_settings(self, settings: Settings) -> None:
        """Go on with other settings; the next operation reads and measures the view again."""
        self.settings = settings
        self.accounting.forget_model()
        self.position.mark_stale()

    @contextmanager
    def change_settings(self, **changes: Any) -> Iterator[None]:
        """Go on with other settings for a while."""
        settings = self.settings
        self.use_settings(replace(settings, **changes))
        try:
            yield
        finally:
            self.use_settings(settings)

    def copy_memory(self) -> Memory:
        """Return what reading the state again replaces."""
        return copy(self.position), copy(self.caller), copy(self.accounting), self.loaded

    def restore_memory(self, memory: Memory) -> None:
        """Have the state as it was before it was read in vain."""
        *parts, self.loaded = memory
        for part, before in zip((self.position, self.caller, self.accounting), parts, strict=True):
            _restore_fields(part, before)

    def restore_log(self, before: SessionLog, *, stale: bool) -> None:
        """Have the log as it was before it was caught up in vain."""
        _restore_fields(self.log, before)
        self.position.stale = stale

    def begin_again(self, error: StoreError) -> bool:
        """Begin with an empty history if the store cannot be read for now; False if it must not be.

        For a caller that holds the whole history. The store compares it by names when it works again.
        """
        if self.log.closed or not is_outage(error):
            return False
        self.log.begin_again(error)
        self.position.begin_again()
        self.loaded = self.new_view(self.wire)
        self.caller.hold_said([])
        self.caller.forget_objects()  # the whole list tells its format, not what came since
        self.accounting.restore_folds({})
        return True

    def set_pending_fold(self, wait: Callable[[], SessionFlow[Any]] | None) -> None:
        """Note how to wait for the fold that is being prepared; None if it is done."""
        self.pending_fold = wait

    def note_turn(self, added: Iterable[Message]) -> None:
        """Tell the circuit breaker that the model took its turn, if it said one of these messages."""
        if "assistant" in [message.role for message in added]:
            self.accounting.record_breaker_event("turn", self.now())

    def send_view(self, *, new_copies: bool = False) -> list[Any]:
        """Return what the model sees, as copies that the caller may change and continue."""
        self.caller.note_view(self.position, self.loaded)
        return self.caller.copy_view(self.loaded, new_copies=new_copies).copy()

    def shortening_folds(self) -> list[Folded]:
        """Return the folds that made the view shorter, oldest first; repairs are not for people to undo."""
        sizes = self.accounting.fold_sizes
        return [fold for fold in self.view.folds if any(sizes.get(fold.name, ()))]

    def to_stored(self, item: Any) -> Any:
        """Return a message as the log keeps it."""
        value = canonical.to_json(item) if isinstance(item, Message) else item
        return value if self.redact_stored is None else self.redact_stored(value)

    def from_stored(self, entry: Entry, wire: Format | None = None) -> Any:
        """Return a message of the log in the format of the conversation, or in another one."""
        stored = entry.beside.get("format", formats.DEFAULT)
        if stored == canonical.FORMAT.name:
            return canonical.from_json(entry.value)
        return formats.write_text(wire or self.wire, entry.value, stored)


def _restore_fields(part: Any, before: Any) -> None:
    """Give a value its former fields; others hold it, so that it must stay the same object."""
    for one in fields(part):
        setattr(part, one.name, getattr(before, one.name))
