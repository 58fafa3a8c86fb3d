"""Who makes the compaction blocks that come into a session, and whether the provider can be asked for one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from refold.core.messages.message import Message
from refold.core.summaries.native import Maker, show_to
from refold.session.state.session_state import SessionState

MAKERS: Final[Mapping[str, frozenset[str]]] = {
    "anthropic": frozenset({"anthropic"}),
    "responses": frozenset({"openai", "xai"}),
}
"""Whose models can have made the blocks of a format; a model of an unknown maker is not judged."""
_USUAL: Final = {"anthropic": "anthropic", "responses": "openai"}
"""Who made a block of which nothing is known but its format."""


def show_messages(state: SessionState, messages: Sequence[Message], wire: str) -> list[Message]:
    """Return the messages of a fold as the model in use can read them in this format."""
    reader = state.settings.reader(wire)
    return [show_to(message, reader) for message in messages]


def can_ask(state: SessionState) -> bool:
    """True if the conversation's own provider can be asked to compact."""
    makers, family = MAKERS.get(state.wire.name, ()), state.settings.reader("").family
    return state.summariser.native is not None and bool(makers) and (not family or family in makers)


def find_maker(state: SessionState) -> Maker:
    """Return who made a block that came just now: the model in use, if it can have made it."""
    wire = state.wire.name
    reader = state.settings.reader(wire)
    if reader.family and reader.family not in MAKERS.get(wire, ()):
        return Maker(format=wire, provider=_USUAL.get(wire, ""))
    return reader if reader.provider else replace(reader, provider=_USUAL.get(wire, ""))
