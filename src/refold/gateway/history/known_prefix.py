"""How a long request began the last time: if its bytes are the same, its messages are not looked at again.

Comparing a megabyte takes a twentieth of the time of taking it apart. The last messages are left out, because
clients move their cache mark away from them in the next request.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import msgspec

from refold.gateway.history.memo import NamedHistory

LEAST_BYTES: Final = 16 * 1024
"""Histories that are shorter are taken apart as quickly: of 26 kB the session's part of a turn is a twentieth
less, of 10 kB it is the same."""
NEW_BYTES: Final = 64 * 1024
"""New bytes that are taken apart in a moment."""
MAX_BYTES: Final = 32 * 1024 * 1024
"""Bytes of histories that are remembered. With what was read of their messages they take 6 times as much
where a message has 300 characters, and 19 times where it has 20."""
_OPEN_MESSAGES: Final = 2
"""Messages at the end that the next request may write otherwise."""
_HEAD_BYTES: Final = 1024
_ENDS: Final = (b"}", b"]", b'"')
"""The last byte of a value that cannot go on: a number could."""
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ESCAPED_LETTER: Final = re.compile(rb"\\u00[4-7]")
"""A letter of a name that is written as an escape, as nobody does who has nothing to hide."""
_SURROGATES: Final = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|([89a-fA-F][0-9a-fA-F]{2}))"
)
"""A character as two escapes; with its group half of one, as programs write it that cut texts anywhere."""
_PRIVATE: Final = range(0xE000, 0xF900)
_MARK: Final = re.compile(rb"\\u[ef][0-9a-f]{3}")
"""Characters that nobody defines: one that a request does not hold stands for half of another."""
Fields = dict[str, msgspec.Raw]
T = TypeVar("T", Fields, list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class KnownPrefix:
    """The beginning of a request, or of its list of messages."""

    text: bytes
    """Its JSON up to the end of the last message here."""
    start: int
    """Place of the bracket with which the list begins."""
    items: Sequence[msgspec.Raw]
    history: NamedHistory

    def cut_from(self, text: bytes) -> bytes | None:
        """Return a longer text without the messages here; None if it does not begin with them."""
        if not text.startswith(self.text):
            return None
        rest = text[len(self.text) :].lstrip()
        if not rest.startswith((b",", b"]")):
            return None
        return self.text[: self.start + 1] + rest.removeprefix(b",")


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
    """Takes one request apart, as far as it is new."""

    def __init__(self, prefixes: KnownPrefixes, place: "_Place") -> None:
        self._prefixes, self._place = prefixes, place
        self._text, self._start = b"", 0
        """What the next request may begin with, and where the list begins in it."""
        self._known: KnownPrefix | None = None

    @property
    def count(self) -> int:
        """Number of messages at the beginning that are known."""
        return 0 if self._known is None else len(self._known.items)

    @property
    def history(self) -> NamedHistory | None:
        """The known messages with their names."""
        return None if self._known is None else self._known.history

    def expects(self, body: bytes) -> bool:
        """True if most of a request is known, so that it is taken apart in a moment."""
        known = self._prefixes.find(self._place)
        return known is not None and len(body) - len(known.text) < NEW_BYTES and body.startswith(known.text)

    def read_request(self, body: bytes, key: str) -> tuple[Fields, Sequence[msgspec.Raw]] | None:
        """Return the other fields and the messages of a request; None if it has no messages.

        key   the name of the field with the messages
        """
        if len(body) >= LEAST_BYTES and self._place[-1] and (found := self._read_known(body, key)):
            return found
        fields = _decode(_FIELDS, body)
        raw = fields.pop(key, None)
        return None if raw is None else (fields, self._read_list(body, bytes(raw)))

    def _read_known(self, body: bytes, key: str) -> tuple[Fields, Sequence[msgspec.Raw]] | None:
        """Read a request that begins as the last one of its conversation did."""
        known = self._prefixes.find(self._place)
        cut = None if known is None else known.cut_from(body)
        if known is None or cut is None or _may_name(key, cut[known.start :]):
            return None
        fields = _decode(_FIELDS, cut)
        items = [*known.items, *_decode(_ITEMS, bytes(fields.pop(key)))]
        self._known, self._text, self._start = known, body, known.start
        return fields, items

    def _read_list(self, body: bytes, text: bytes) -> Sequence[msgspec.Raw]:
        """Read the messages of a request whose beginning is not known."""
        if len(text) < LEAST_BYTES:
            return _decode(_ITEMS, text)
        if self._place[-1]:
            self._text, self._start = body, body.index(text)
            return _decode(_ITEMS, text)
        # Without an id the first words tell; what stands around the list is then that of many conversations.
        self._place, self._text = (*self._place, text[:_HEAD_BYTES].decode("utf-8", "replace")), text
        known = self._prefixes.find(self._place)
        cut = None if known is None else known.cut_from(text)
        if known is None or cut is None:
            return _decode(_ITEMS, text)
        self._known = known
        return [*known.items, *_decode(_ITEMS, cut)]

    def keep(self, items: Sequence[msgspec.Raw], history: NamedHistory, key: str) -> None:
        """Remember the request for the next one, without its last messages."""
        count = len(items) - _OPEN_MESSAGES
        if not self._text or count <= max(history.fixed, self.count):
            return
        end = self._start + 1 if self._known is None else len(self._known.text)
        for item in items[self.count : count]:
            raw = bytes(item)
            end = self._text.index(raw, end) + len(raw)  # only blanks and a comma stand between
        prefix = KnownPrefix(self._text[:end], self._start, items[:count], history.cut(count))
        if self._text.endswith(_ENDS, 0, end) and (self._known is not None or self._is_found(prefix, key)):
            self._prefixes.put(self._place, prefix)

    def _is_found(self, prefix: KnownPrefix, key: str) -> bool:
        """True if the list stands where it seems to: a request may name its field twice."""
        cut = prefix.cut_from(self._text)
        return cut is not None and not _may_name(key, cut[prefix.start :])


def _decode(decoder: "msgspec.json.Decoder[T]", text: bytes) -> T:
    """Take JSON apart, also where it holds halves of characters, which the decoder refuses."""
    try:
        return decoder.decode(text)
    except msgspec.DecodeError:
        plain = text.replace(b"\\\\", b"\0\0")  # what follows a backslash that is escaped is no escape
        halves = {match[0] for match in _SURROGATES.finditer(plain) if match[1]}
        unused = {b"\\u%04x" % code for code in _PRIVATE} - set(_MARK.findall(text))
        if not halves or len(halves) > len(unused) or b"\0" in text:
            raise
        marks = dict(zip(halves, unused, strict=False))
    marked = _SURROGATES.sub(lambda match: marks.get(match[0], match[0]), plain)
    found: Any = decoder.decode(marked.replace(b"\0\0", b"\\\\"))
    back = {mark: half for half, mark in marks.items()}

    def restore(raw: msgspec.Raw) -> msgspec.Raw:
        return msgspec.Raw(_MARK.sub(lambda match: back.get(match[0], match[0]), bytes(raw)))

    if isinstance(found, dict):
        return cast("T", {name: restore(raw) for name, raw in found.items()})
    return cast("T", [restore(raw) for raw in found])


def _may_name(key: str, text: bytes) -> bool:
    """True if JSON may hold the name of a field; inside of a text quotes are escaped."""
    return f'"{key}"'.encode() in text or _ESCAPED_LETTER.search(text) is not None


_Place = tuple[str, ...]
"""The tenant, the wire, and the client's id or else the first words."""
