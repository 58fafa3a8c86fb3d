"""Names and values of messages by their bytes: of a history that is sent again only what is new is read.

The name of a message stands for everything before it, so that the name before and the bytes tell the name.
A message whose bytes have changed and whose meaning has not, such as one that lost its cache mark, is read
again and gets the name that it had.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec

from refold.core.log.entries import ROOT, hash_entry
from refold.errors import FormatError
from refold.formats import Format
from refold.session.steps.take_in import is_system

MEMO_BYTES: Final = 64 * 1024 * 1024
"""Bytes of messages that are remembered; read into objects they take some five times as much memory. Less
reads long histories anew in every turn."""
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class KnownMessage:
    """A message that was read."""

    name: str
    value: Any
    is_system: bool
    is_answer: bool
    size: int


@dataclass(frozen=True, slots=True)
class NamedHistory:
    """The messages of a request, with their names."""

    values: list[Any]
    fixed: int
    """Number of system messages in front; they are no part of the chain and have no names."""
    names: list[str]
    has_answer: bool
    """True if a model has said something in it."""


class MessageMemo:
    """Messages by the name before them and their bytes; several threads may use it."""

    def __init__(self, max_bytes: int = MEMO_BYTES) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._known: OrderedDict[tuple[str, bytes], KnownMessage] = OrderedDict()
        self._lock = threading.Lock()

    def read_history(self, wire: Format, items: Sequence[msgspec.Raw]) -> NamedHistory:
        """Return the messages with their names; raises what the format raises at something unreadable."""
        values: list[Any] = []
        names: list[str] = []
        parent, fixed, has_answer = ROOT, 0, False
        for raw in items:
            message = self._read(wire, parent, len(names) + 1, raw)
            values.append(message.value)
            if message.is_system and not names:
                fixed += 1
                continue
            parent = message.name
            names.append(parent)
            has_answer = has_answer or message.is_answer
        return NamedHistory(values, fixed, names, has_answer)

    def read_field(self, raw: msgspec.Raw | None) -> Any:
        """Return the value of a field such as the tools: the same object while its bytes are the same."""
        if raw is None:
            return None
        key = ("", _digest(raw))
        known = self._get(key)
        if known is None:
            known = KnownMessage("", json.loads(bytes(raw)), False, False, len(bytes(raw)))
            self._put(key, known)
        return known.value

    def _read(self, wire: Format, parent: str, number: int, raw: msgspec.Raw) -> KnownMessage:
        key = (f"{wire.name}{parent}", _digest(raw))
        known = self._get(key)
        if known is None:
            text = bytes(raw)
            value = json.loads(text)
            if isinstance(value, dict) and value.get("type") == "item_reference":
                raise FormatError("a part of the history is at the provider")
            (message,) = wire.parse([value])
            system = number == 1 and is_system(wire, value)
            name = hash_entry(parent, "said", value, number)
            known = KnownMessage(name, value, system, message.role == "assistant", len(text))
            self._put(key, known)
        return known

    def _get(self, key: tuple[str, bytes]) -> KnownMessage | None:
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            return known

    def _put(self, key: tuple[str, bytes], message: KnownMessage) -> None:
        with self._lock:
            if key not in self._known:
                self._bytes += message.size
            self._known[key] = message
            while self._bytes > self._max_bytes and len(self._known) > 1:
                self._bytes -= self._known.popitem(last=False)[1].size


def _digest(raw: msgspec.Raw) -> bytes:
    return blake2b(raw, digest_size=_DIGEST_BYTES).digest()
