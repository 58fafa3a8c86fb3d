"""How a long history began the last time: if its bytes are the same, its messages are not looked at again.

Comparing a megabyte takes a tenth of the time of taking it apart. The last messages are left out, because
clients move their cache mark away from them in the next request.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from refold.gateway.history.memo import NamedHistory

LEAST_BYTES: Final = 64 * 1024
"""Histories that are shorter are taken apart as quickly."""
MAX_BYTES: Final = 32 * 1024 * 1024
"""Bytes of histories that are remembered; with the buffers of their messages they take twice as much."""
_OPEN_MESSAGES: Final = 2
"""Messages at the end that the next request may write otherwise."""
_HEAD_BYTES: Final = 1024
_ENDS: Final = (b"}", b"]", b'"')
"""The last byte of a value that cannot go on: a number could."""
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class KnownPrefix:
    """The beginning of a list of messages."""

    text: bytes
    """The JSON of the list up to the end of its last message here."""
    items: Sequence[msgspec.Raw]
    history: NamedHistory

    def read_rest(self, text: bytes) -> list[msgspec.Raw] | None:
        """Return the messages behind it in a longer list; None if the list does not begin with it."""
        if not text.startswith(self.text):
            return None
        rest = text[len(self.text) :].lstrip()
        if rest == b"]":
            return []
        return _ITEMS.decode(b"[" + rest[1:]) if rest.startswith(b",") else None


class KnownPrefixes:
    """The beginnings of the histories that came last; several threads may use it."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._known: OrderedDict[_Place, KnownPrefix] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, tenant: str, wire: str, hint: str) -> "ListReader":
        """Return a reader for one request.

        hint   the client's own id of the conversation, if it has one
        """
        return ListReader(self, (tenant, wire, hint))

    def find(self, place: "_Place") -> KnownPrefix | None:
        """Return the beginning that is known for a place."""
        return self._known.get(place)

    def put(self, place: "_Place", prefix: KnownPrefix) -> None:
        """Remember how a list begins, and forget what came longest ago."""
        with self._lock:
            before = self._known.pop(place, None)
            self._bytes += len(prefix.text) - (0 if before is None else len(before.text))
            self._known[place] = prefix
            while self._bytes > self._max_bytes:
                self._bytes -= len(self._known.popitem(last=False)[1].text)


class ListReader:
    """Takes the list of one request apart, as far as it is new."""

    def __init__(self, prefixes: KnownPrefixes, place: "_Place") -> None:
        self._prefixes, self._place, self._text = prefixes, place, b""
        self._known: KnownPrefix | None = None

    @property
    def count(self) -> int:
        """Number of messages at the beginning that are known."""
        return 0 if self._known is None else len(self._known.items)

    @property
    def history(self) -> NamedHistory | None:
        """The known messages with their names."""
        return None if self._known is None else self._known.history

    def read_items(self, text: bytes) -> Sequence[msgspec.Raw]:
        """Return all messages of a list."""
        if len(text) < LEAST_BYTES:
            return _ITEMS.decode(text)
        if not self._place[-1]:  # without an id the first words tell
            self._place = (*self._place, text[:_HEAD_BYTES].decode("utf-8", "replace"))
        self._text, known = text, self._prefixes.find(self._place)
        rest = None if known is None else known.read_rest(text)
        if known is None or rest is None:
            return _ITEMS.decode(text)
        self._known = known
        return [*known.items, *rest]

    def keep(self, items: Sequence[msgspec.Raw], history: NamedHistory) -> None:
        """Remember the list for the next request, without its last messages."""
        count = len(items) - _OPEN_MESSAGES
        if not self._text or count <= max(history.fixed, self.count):
            return
        end = 1 if self._known is None else len(self._known.text)
        for item in items[self.count : count]:
            raw = bytes(item)
            end = self._text.index(raw, end) + len(raw)  # only blanks and a comma stand between
        if self._text.endswith(_ENDS, 0, end):
            prefix = KnownPrefix(self._text[:end], items[:count], history.cut(count))
            self._prefixes.put(self._place, prefix)


_Place = tuple[str, ...]
"""The tenant, the wire, and the client's id or else the first words."""
