"""A provider's own compaction block as the message of a fold, with its readable twin; knows no wire format.

Only who made a block can read it. So the fold's message carries a summary in plain words in its metadata, and
everybody else is shown that.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from refold.core.messages.message import SUMMARY, Message, Text
from refold.core.messages.unread import NATIVE, is_native

_TWIN = "twin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Who makes and reads blocks: every field may be empty, where it is not known."""

    format: str = ""
    """The wire format."""
    provider: str = ""
    family: str = ""
    """Who made the model: a host may serve the models of several makers."""
    endpoint: str = ""
    account: str = ""
    """A fingerprint of what the caller names the account or the key."""

    def reads(self, made: "Maker") -> bool:
        """True unless a field that both know differs: a block is refused by anybody else.

        >>> Maker(provider="openai").reads(Maker(provider="openai", account="a"))
        True
        >>> Maker(provider="xai").reads(Maker(provider="openai"))
        False
        """
        pairs = [(getattr(self, field.name), getattr(made, field.name)) for field in fields(self)]
        return all(own == other or not own or not other for own, other in pairs)


def seal_block(block: Message, twin: Message, maker: Maker, tokens: int | None) -> Message:
    """Return a provider's block as the message of a fold.

    twin     the summary that everybody else is shown; its facts become those of the block
    tokens   the size that the provider reported for the block
    """
    known = {name: value for name, value in asdict(maker).items() if value}
    size = {} if tokens is None else {"tokens": tokens}
    meta = {**twin.meta, NATIVE: {**known, **size, _TWIN: twin.text}}
    return replace(block, source=SUMMARY, meta=meta)


def read_maker(message: Message) -> Maker:
    """Return who made a block; a log that was imported may say anything."""
    facts = message.meta.get(NATIVE)
    known = facts if isinstance(facts, Mapping) else {}
    texts = {field.name: known.get(field.name) for field in fields(Maker)}
    return Maker(**{name: value for name, value in texts.items() if isinstance(value, str)})


def find_twin(message: Message) -> Message:
    """Return the readable twin of a sealed block."""
    facts: Any = message.meta.get(NATIVE)
    text = facts.get(_TWIN) if isinstance(facts, Mapping) else None
    meta = {key: value for key, value in message.meta.items() if key != NATIVE}
    return Message("user", (Text(text if isinstance(text, str) else ""),), source=SUMMARY, meta=meta)


def show_to(message: Message, reader: Maker) -> Message:
    """Return a fold's message as this reader can read it: a block of others is told by its twin."""
    if not is_native(message) or reader.reads(read_maker(message)):
        return message
    return find_twin(message)
