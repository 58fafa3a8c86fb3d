"""Names and values of messages by their bytes: of a history that is sent again only what is new is read.

The name of a message stands for everything before it, so that the name before and the bytes tell the name.
A message whose bytes have changed and whose meaning has not, such as one that lost its cache mark, is read
again and gets the name that it had.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from refold.core.log.entries import ROOT, hash_entry
from refold.core.messages.message import Opaque
from refold.errors import FormatError
from refold.formats import Format
from refold.session.state.request_context import ReadMessage
from refold.session.steps.take_in import is_system

MEMO_BYTES: Final = 64 * 1024 * 1024
"""Bytes of messages that are remembered; with the objects that they are read into they take up to six times
as much memory. Less reads long histories anew in every turn."""
_ENTRY_BYTES: Final = 192
"""Bytes for which an entry counts beside its text: a tool call with nearly no text takes 1,750 bytes of
memory, which are six times its 150 bytes of text and this."""
_READ: Final = json.JSONDecoder().decode


@dataclass(frozen=True, slots=True)
class KnownMessage:
    """A message that was read."""

    name: str
    value: Any
    is_system: bool
    is_answer: bool


@dataclass(frozen=True, slots=True)
class NamedHistory:
    """The messages of a request, with their names."""

    values: list[Any]
    fixed: int
    """Number of system messages in front; they are no part of the chain and have no names."""
    names: list[str]
    answer: int | None = None
    """Place of the first message that a model has said."""
    read: Sequence[ReadMessage] = ()
    """The messages at its end that were read for this request."""

    @property
    def has_answer(self) -> bool:
        """True if a model has said something in it."""
        return self.answer is not None

    def cut(self, count: int) -> "NamedHistory":
        """Return the first messages of it, system messages among them."""
        names = self.names[: count - self.fixed]
        answer = self.answer if self.answer is not None and self.answer < count else None
        return NamedHistory(self.values[:count], self.fixed, names, answer)


class MessageMemo:
    """Messages by the name before them and their bytes; several threads may use it.

    It has two halves: what is used moves to the young one, and when that is full the old one is forgotten.
    """

    def __init__(self, max_bytes: int = MEMO_BYTES) -> None:
        self._half_bytes, self._bytes = max_bytes // 2, 0
        self._young: dict[_Key, KnownMessage] = {}
        self._old: dict[_Key, KnownMessage] = {}

    def read_history(
        self, wire: Format, items: Sequence[msgspec.Raw], tenant: str, after: NamedHistory | None = None
    ) -> NamedHistory:
        """Return the messages with their names; raises what the format raises at something unreadable.

        tenant   whose they are: nobody can measure whether another one has sent them
        after    the history before them, where it is known
        """
        before = after or NamedHistory([], 0, [])
        values, names = [*before.values], [*before.names]
        space, fixed, answer = tenant + wire.name, before.fixed, before.answer
        parent = names[-1] if names else ROOT
        read: list[ReadMessage] = []
        for raw in items:
            key = (space, parent, bytes(raw))
            known = self._young.get(key) or self._find(key)
            message = known or self._read(key, wire, len(names) + 1, read)
            if known is not None and read:
                read.clear()
            values.append(message.value)
            if message.is_system and not names:
                fixed += 1
                continue
            parent = message.name
            names.append(parent)
            if answer is None and message.is_answer:
                answer = len(values) - 1
        return NamedHistory(values, fixed, names, answer, read)

    def read_field(self, raw: msgspec.Raw | None, tenant: str) -> Any:
        """Return the value of a field such as the tools: the same object while its bytes are the same."""
        if raw is None:
            return None
        key = (tenant, "", bytes(raw))
        known = self._young.get(key) or self._find(key)
        if known is None:
            known = KnownMessage("", json.loads(key[2]), is_system=False, is_answer=False)
            self._put(key, known)
        return known.value

    def _read(self, key: "_Key", wire: Format, number: int, read: list[ReadMessage]) -> KnownMessage:
        """Read a message that is new, and add it to those that were read."""
        _, parent, text = key
        value = _READ(text.decode("utf-8", "surrogatepass"))  # a fifth less than `loads` takes
        (message,) = wire.parse([value])
        if any(isinstance(part, Opaque) and part.kind == "item_reference" for part in message.parts):
            raise FormatError("a part of the history is at the provider")
        known = KnownMessage(
            hash_entry(parent, "said", value, number),
            value,
            is_system=number == 1 and is_system(wire, value),
            is_answer=message.role == "assistant",
        )
        self._put(key, known)
        read.append(ReadMessage(value, message, known.name, parent))
        return known

    def _find(self, key: "_Key") -> KnownMessage | None:
        known = self._old.get(key)
        if known is not None:
            self._put(key, known)
        return known

    def _put(self, key: "_Key", message: KnownMessage) -> None:
        size = len(key[2]) + _ENTRY_BYTES
        self._bytes += size
        if self._bytes > self._half_bytes:
            self._old, self._young, self._bytes = self._young, {}, size
        self._young[key] = message


_Key = tuple[str, str, bytes]
"""The tenant and the format, the name of the message before, and the bytes: quicker to compare than
a digest is to make."""
