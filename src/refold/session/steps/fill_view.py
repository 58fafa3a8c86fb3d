"""Fill the view of a session: read its messages from the store, and what they mean in their format."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from refold import formats
from refold.core.compaction.bound_thinking import has_bound
from refold.core.log.entries import ROOT, SAID, Entry
from refold.core.log.normal_form import split_cache_marks
from refold.core.log.view import MessageRange, Replacement, View, ViewItem
from refold.core.messages.message import Message
from refold.errors import FormatError, LogCorrupt
from refold.formats import Format
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.block_makers import show_messages
from refold.session.state.loaded_view import single_pieces
from refold.session.state.session_state import SessionState
from refold.session.state.thinking_prefixes import MADE_BEHIND, binding_key
from refold.stores import Place


def fill_view(state: SessionState, system: Sequence[Any], wire: Format | None = None) -> SessionFlow[None]:
    """Read the view's messages from the store, in another format if one is given, without old cache marks."""
    view, position = state.view, state.position
    said = {} if state.head is None else (yield from read_shown(state, view, state.head.place))
    last = said.get(view.said)
    position.set_tip(ROOT if last is None else last.name)
    wire = wire or find_wire(state, last, system)
    shown_messages = show_folds(state, position.fold_messages, wire)
    shown_items, body = write_items(state, view, wire, said, shown_messages)
    view_items: list[ViewItem | None] = [*[None] * len(system), *shown_items]
    # a list in that format brings its own
    items = [*(formats.write_readable(wire, item) for item in system), *body]
    messages = _parse_view(state, wire, items, len(view_items), last)
    for index, shown in enumerate(view_items):
        if isinstance(shown, Replacement):  # the wire does not carry where a message came from
            message = shown_messages[shown.fold][shown.place]
            messages[index] = replace(messages[index], source=message.source, meta=message.meta)
    yield from _recall_binding(state, said.values(), messages)
    loaded = state.new_view(wire, len(system))
    loaded.add(view_items, items, messages)
    if wire.name != state.wire.name:  # such as after a rewind: the caller's list is in the format before it
        state.caller.forget_objects()
    state.loaded = loaded  # last, so that an error above leaves the old view in place


def read_shown(state: SessionState, view: View, place: Place) -> SessionFlow[dict[int, Entry]]:
    """Read the messages that a view of a place shows, and the last one, though a fold may hide it."""
    ranges = [item for item in view.items if isinstance(item, MessageRange)]
    ranges.append(MessageRange(view.said, view.said))
    said: dict[int, Entry] = yield StoreCall(
        lambda: {
            entry.said: entry
            for stretch in ranges
            for entry in state.log.read(state.name, place, kinds=SAID, first=stretch.first, last=stretch.last)
        }
    )
    return said


def show_folds(
    state: SessionState, folds: Mapping[str, Sequence[Message]], wire: Format
) -> dict[str, list[Message]]:
    """Return the messages of folds as the model in use can read them in this format."""
    return {name: show_messages(state, messages, wire.name) for name, messages in folds.items()}


def write_items(
    state: SessionState,
    view: View,
    wire: Format,
    said: Mapping[int, Entry],
    shown: Mapping[str, Sequence[Message]],
) -> tuple[list[ViewItem], list[Any]]:
    """Return the items of a view, one for each message, and the messages as they are sent."""
    view_items = [single for piece in view.items for single in single_pieces(piece)]
    items: list[Any] = []
    for item in view_items:
        if isinstance(item, Replacement):
            items += wire.render([shown[item.fold][item.place]])
        elif item.first in said:
            items.append(write_item(state, wire, said[item.first]))
        else:
            problem = f"message #{item.first} of session {state.name!r} is missing in the store"
            raise LogCorrupt(f"{problem}: `refold check` shows the damage")
    return view_items, items


def _parse_view(
    state: SessionState, wire: Format, items: list[Any], count: int, last: Entry | None
) -> list[Message]:
    """Read the items of a view; say it plainly where another program has stored them in another format."""
    stored = formats.DEFAULT if last is None else last.beside.get("format", formats.DEFAULT)
    try:
        messages = list(wire.parse(items))
    except FormatError as error:
        if stored == wire.name:
            raise
        raise _other_format(state, stored, wire) from error
    if len(messages) != count:  # what a fold shows as one message is several in this format
        raise _other_format(state, stored, wire)
    return messages


def can_change_format(state: SessionState, wire: Format, new: Sequence[Any]) -> bool:
    """True if what was said can be read in the format of new messages; False if these can in its own."""
    said = [formats.write_text(wire, item, state.wire.name) for item in state.loaded.body]
    try:
        formats.refuse_other(wire, [*state.loaded.system, *said])  # nothing new would stand for the first
    except FormatError as error:
        try:
            formats.refuse_other(state.wire, new)
        except FormatError:
            raise _other_format(state, state.wire.name, wire) from error
        return False
    return True


def _other_format(state: SessionState, stored: str, wire: Format) -> FormatError:
    """Return the error of a conversation that cannot go on in another format."""
    holds = f"session {state.name!r} holds a conversation in the format {stored!r}"
    advice = "give this conversation another name (or key)"
    return FormatError(f"{holds}, which cannot be read as {wire.name!r}: {advice}")


def find_wire(state: SessionState, last: Entry | None, system: Sequence[Any] = ()) -> Format:
    """Return the format of the conversation, as the settings or its last message tell it.

    system   system messages in front; they may have come later, with the same words in another format
    """
    if state.settings.format is not None:
        return formats.get(state.settings.format)
    wire = state.wire if last is None else formats.get(last.beside.get("format", formats.DEFAULT))
    return wire if formats.may_read(wire, system) else formats.detect(system)


def write_item(state: SessionState, wire: Format, entry: Entry) -> Any:
    """Return a message as it is sent now; its cache mark stood where the history ended then."""
    entry = state.position.edited.get(entry.said, entry)
    return split_cache_marks(state.from_stored(entry, wire))[0]


def take_in_prefixes(state: SessionState, entries: Iterable[Entry]) -> None:
    """Take over behind which prefixes the thinking in these entries was made."""
    facts = (entry.beside for entry in entries if MADE_BEHIND in entry.about)  # most have none
    state.caller.thinking.take_in(facts)


def _recall_binding(
    state: SessionState, entries: Iterable[Entry], messages: Iterable[Message]
) -> SessionFlow[None]:
    """Take over what is known of thinking; ask the store whether the model binds it, if no facts tell.

    It is asked before the first request, though nothing may hold thinking yet: the answer to it may. What a
    model without a name has taught is another's in another session, so there it takes thinking to ask.
    """
    take_in_prefixes(state, entries)
    model, endpoint = state.settings.model or "", state.settings.endpoint
    if state.caller.thinking.is_unsure_of(model) and (
        model or state.caller.thinking.recorded[1] or any(map(has_bound, messages))
    ):
        note: str | None = yield StoreCall(lambda: state.log.note(binding_key(endpoint, model)))
        state.caller.thinking.note_answer(model, binds=note is not None)
