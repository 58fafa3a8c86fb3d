"""What a session knows of its runner: items that it has read, and which requests are of its conversation."""

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from refold import formats
from refold.core.log.entries import ROOT, to_json_text
from refold.core.messages.plain_values import to_plain_messages
from refold.session.drivers import SessionFlow
from refold.session.state.caller_history import copy_item
from refold.session.state.session_state import SessionState
from refold.session.steps.append import append_messages
from refold.session.steps.load import read_log, reload_if_stale, retry_on_conflict

_WORDS: Final = frozenset({"message", "reasoning"})
"""Items of an answer after which the runner does nothing more."""


@dataclass(slots=True)
class _Run:
    """What is known of one run; several of one conversation may go on at once."""

    opening: Any = None
    """The first item that the model was sent."""
    is_going_on: bool = False
    calls: frozenset[str] = frozenset()
    """The calls whose results the runner will bring."""
    awaits_request: bool = False
    """True from the beginning until the model is asked."""


_RUN: Final[ContextVar[tuple[Any, _Run] | None]] = ContextVar("refold_run", default=None)
"""The run that goes on in this task or has started it, and the `OwnRequests` of its conversation."""


class OwnRequests:
    """Knows the requests of one conversation by what its runner does, not by the items that are left in them.

    A limit or a filter may leave any items. But a run begins with reading the session, and after an answer
    with calls the runner comes back with their results. What is asked in between is asked by an agent that is
    a tool: it runs with the same configuration, and its list begins with other words.
    """

    def __init__(self) -> None:
        self._first: Any = None
        """The first of the runner's items, as far as they were read."""
        self._last_run = _Run()
        """The run that began last; a run that is resumed goes on with it."""

    @property
    def _run(self) -> _Run:
        owner, run = _RUN.get() or (None, self._last_run)
        return run if owner is self else self._last_run

    def begin_run(self, first: Any) -> None:
        """Note that the runner reads the session, whose first item is this."""
        opening = self._last_run.opening if first == self._first else None  # else it begins anew
        self._first = first
        self._last_run = _Run(opening, is_going_on=True, awaits_request=True)
        _RUN.set((self, self._last_run))

    def note_request(self) -> None:
        """Note that the model of the run was asked through Refold."""
        self._run.awaits_request = False

    def is_bypassed(self, items: Sequence[Any]) -> bool:
        """True once if a run brings an answer, and no model was asked through Refold."""
        said = [item for item in items if isinstance(item, dict) and item.get("role") == "assistant"]
        # Answers that a program adds by itself, such as examples, have mostly no type.
        run = self._run
        is_bypassed = run.awaits_request and any(item.get("type") == "message" for item in said)
        run.awaits_request = run.awaits_request and not is_bypassed
        return is_bypassed

    def accept(self, items: Sequence[Any]) -> bool:
        """True if a list is one of the conversation's."""
        first, run = items[0] if items else None, self._run
        is_own = run.opening is None or first == run.opening or _is_awaited(run, items)
        if is_own:
            run.opening = first
        return is_own

    def note_answer(self, output: Sequence[Any]) -> None:
        """Note what an answer to the conversation lets its runner do."""
        run = self._run
        run.calls = frozenset(filter(None, (getattr(item, "call_id", None) for item in output)))
        run.is_going_on = any(item.type not in _WORDS for item in output)


def _is_awaited(run: _Run, items: Sequence[Any]) -> bool:
    if not run.calls:
        return run.is_going_on
    return any(isinstance(item, dict) and item.get("call_id") in run.calls for item in items)


@dataclass(frozen=True, slots=True)
class KnownItems:
    """The items of a conversation that are known here, so that a run reads only what others have added."""

    bodies: tuple[str, ...] = ()
    """Their JSON."""
    last: str = ROOT
    """The name of the last one, which stands for all before it: each name is made from the one before."""

    def plus(self, before: str, bodies: Iterable[str], last: str) -> "KnownItems":
        """Return the known items with more of them, if these stand behind the last one."""
        return KnownItems((*self.bodies, *bodies), last) if before == self.last else self


def append_items(state: SessionState, items: Sequence[Any], known: KnownItems) -> SessionFlow[KnownItems]:
    """Append items as they are, and return those that are known now.

    `say` would set system messages apart that stand in front.
    """

    def act() -> SessionFlow[KnownItems]:
        new = [copy_item(item) for item in to_plain_messages(items)]
        formats.refuse_other(state.wire, new)
        before = state.position.tip
        yield from append_messages(state, new)
        state.caller.hold_said(None)  # no list will come to be compared with
        bodies = (to_json_text(state.to_stored(item)) for item in new)
        return known.plus(before, bodies, state.position.tip)

    return (yield from retry_on_conflict(state, act))


def read_items(state: SessionState, known: KnownItems) -> SessionFlow[KnownItems]:
    """Return all items; only those are read that others have added."""
    yield from reload_if_stale(state)
    if state.position.tip == known.last:
        return known
    entries = yield from read_log(state, kinds=["said"], first=len(known.bodies))
    if known.bodies and entries and entries[0].name == known.last:
        del entries[0]
    elif known.bodies:  # others have taken items back
        known, entries = KnownItems(), (yield from read_log(state, kinds=["said"]))
    return known.plus(known.last, [entry.body for entry in entries], state.position.tip)
