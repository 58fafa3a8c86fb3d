"""Append entries to the log of a session, and then to its view in memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from refold import formats
from refold.core.log.entries import ROOT, Entry, Kind, make_entry, make_message_entry
from refold.core.log.view import MessageRange, View, project_marks, step
from refold.core.messages.message import Message
from refold.core.messages.message_text import full_text
from refold.errors import Conflict, StoreError, StoreUnsure
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.loaded_view import without_private
from refold.session.state.message_keys import KEY
from refold.session.state.position import LogPosition, UnsureWrite
from refold.session.state.session_log import is_outage
from refold.session.state.session_state import SessionState
from refold.session.state.thinking_prefixes import MADE_BEHIND, SENT
from refold.session.steps.load import VIEW_MARKS
from refold.stores import START, Head, Place


@dataclass(slots=True)
class Draft:
    """Marks that are to be written in one step behind a place of the log, and the view behind them.

    Where a process ends between two writes, what the second was to add is missing for ever.
    """

    place: Place
    parent: str
    """Name of the entry in that place."""
    view: View
    at: float
    about: Mapping[str, Any] = field(default_factory=dict)
    """Facts beside each mark that is added."""
    marks: list[Entry] = field(default_factory=list)

    @property
    def last(self) -> str:
        """Name of the entry that the next mark stands behind."""
        return self.marks[-1].name if self.marks else self.parent

    def add(
        self, kind: Kind, value: Any, about: Mapping[str, Any] | None = None, at: float | None = None
    ) -> Entry:
        """Add a mark, with facts beside it."""
        facts, at = {**(about or {}), **self.about}, self.at if at is None else at
        mark = make_entry(kind, value, parent=self.last, said=self.view.said, about=facts, at=at)
        self.take([mark])
        return mark

    def take(self, marks: Iterable[Entry]) -> None:
        """Add marks that were made to stand behind the last one."""
        for mark in marks:
            self.marks.append(mark)
            self.view = step(self.view, mark)


def begin_draft(state: SessionState) -> Draft:
    """Return a draft of marks behind the head."""
    place, name = (START, ROOT) if state.head is None else (state.head.place, state.head.name)
    # Another process may have to know what was sent.
    about = {SENT: state.caller.thinking.sent} if state.caller.thinking.sent else {}
    return Draft(place, name, state.view, state.now(), about)


def read_draft(state: SessionState, place: Place) -> SessionFlow[Draft]:
    """Return a draft of marks behind any place of the log."""
    if place == START:
        return Draft(START, ROOT, View(), state.now())

    def read() -> Draft:
        last = next(state.log.read(state.name, place, newest=True))
        view = project_marks(state.log.read(state.name, place, kinds=VIEW_MARKS), last.said)
        return Draft(place, last.name, view, state.now())

    draft: Draft = yield StoreCall(read)
    return draft


def commit(
    state: SessionState,
    entries: Sequence[Entry],
    *,
    at: Place | None = None,
    fence: int | None = None,
    first_view: View | None = None,
) -> SessionFlow[None]:
    """Append entries at the head, or at another place in the log.

    at           a place to go to; the state is stale afterwards and has to be loaded
    fence        the fence of the lease under which the entries were made
    first_view   the view after the first entry, if it was computed already
    """
    position, expect, was_stale = state.position, state.position.head, state.position.stale
    # Stale until the store has answered: if this flow ends here, nobody knows whether it has written.
    position.mark_stale()
    head = None if position.unsure is None else _repeated(position, entries, at)
    if head is None:
        head = state.log.append_at_once(state.name, entries, expect=expect, at=at, fence=fence)
    if head is None:
        try:
            head = yield StoreCall(
                partial(state.log.append, state.name, entries, expect=expect, at=at, fence=fence)
            )
        except StoreUnsure as error:
            names = tuple([entry.name for entry in entries])
            position.set_unsure(UnsureWrite(names=names, at=at, before=expect, settle=error.settle))
            raise
        except StoreError as error:
            if not was_stale:
                if isinstance(error, Conflict):
                    position.fall_behind()
                elif is_outage(error):  # the next append compares the head all the same
                    position.stay()
            raise
    position.move_to(head)
    if at is None:
        position.follow(entries, first_view)


def _repeated(position: LogPosition, entries: Sequence[Entry], at: Place | None) -> Head | None:
    """Return the head that an earlier, unsure write left if this write repeats it.

    Raises `Conflict` if this is another write: it has to stand behind the earlier one, which was stored.
    """
    unsure = position.unsure
    position.set_unsure(None)
    if unsure is None or unsure.stored is None:
        return None
    if (tuple([entry.name for entry in entries]), at) != (unsure.names, unsure.at):
        raise Conflict(unsure.before.name if unsure.before else None, unsure.stored.name)
    return unsure.stored


def mark_entry(state: SessionState, kind: Kind, value: Any, about: Mapping[str, Any] | None = None) -> Entry:
    """Build an entry of any kind but a message, behind the head."""
    position, sent = state.position, state.caller.thinking.sent
    parent = ROOT if position.head is None else position.head.name
    if sent and kind != "usage":  # another process may have to know it
        about = {**(about or {}), SENT: sent}
    return make_entry(kind, value, parent=parent, said=position.view.said, about=about, at=state.now())


def message_entries(
    state: SessionState,
    items: Sequence[Any],
    messages: Sequence[Message],
    key: str | None = None,
    *,
    behind: str = "",
    names: Sequence[str] = (),
) -> list[Entry]:
    """Build the entries of messages behind the last one; a key belongs to the last of them.

    behind   the prefix behind which their thinking was made, if it was made behind the view as it stands
    names    their names, if the caller knows them; then all of them are plain JSON
    """
    entries: list[Entry] = []
    parent, wire, at = state.position.tip, state.loaded.reader.wire.name, state.now()
    about: dict[str, Any] = {"format": wire} if wire != formats.DEFAULT else {}
    said, redact = state.position.view.said, state.redact_stored
    last = said + len(items)
    made: list[dict[str, str]] = [{}] * len(items)
    if state.loaded.bound.thinking is not None:
        made = state.caller.thinking.record(list(map(without_private, items)), messages, behind)
    for number, (item, message) in enumerate(zip(items, messages, strict=True), said + 1):
        text = full_text(message)
        if redact is not None:
            text = str(redact(text))
        value = item if redact is None and type(item) is dict else state.to_stored(item)
        if key is not None and number == last:
            about = {**about, KEY: key}
        made_behind = made[number - last - 1]
        facts = about | ({MADE_BEHIND: made_behind} if made_behind else {})
        names = names if value is item else ()  # a message that is stored without secrets has another name
        name = names[len(entries)] if names else ""
        entry = make_message_entry(
            value, parent=parent, said=number, text=text, about=facts, at=at, name=name
        )
        parent = entry.name
        entries.append(entry)
    return entries


def append_messages(
    state: SessionState,
    items: Sequence[Any],
    messages: Sequence[Message] | None = None,
    *,
    marks: Sequence[Entry] = (),
    key: str | None = None,
    names: Sequence[str] = (),
) -> SessionFlow[None]:
    """Append messages to the log and to the view, in one write with marks that stand before them."""
    if not items and not marks:
        return
    messages = state.loaded.read(items) if messages is None else messages
    behind = "" if state.loaded.bound.thinking is None else state.loaded.bound.prefix
    entries = message_entries(state, items, messages, key, behind=behind, names=names)
    yield from commit(state, [*marks, *entries])
    if entries:
        state.position.end_with(entries[-1].name)
    ranges = [MessageRange(entry.said, entry.said) for entry in entries]
    texts = [entry.text for entry in entries] if state.redact_stored is None else ()
    del entries  # with the JSON of every message
    state.loaded.add(ranges, items, messages, texts)
    state.caller.add_said(items)
    state.note_turn(messages)
