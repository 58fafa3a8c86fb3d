"""Which headers travel: everything that belongs to the message, nothing that belongs to one connection."""

from collections.abc import Iterable
from typing import Final

from multidict import CIMultiDict

OWN: Final = "x-refold-"
"""The beginning of our own headers; those of a caller are for us and go no further."""
_HOP_BY_HOP: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization"),
        *("te", "trailer", "trailers", "transfer-encoding", "upgrade"),
    }
)
"""Headers of one connection (RFC 9110, section 7.6.1)."""
_MADE_ANEW: Final = frozenset({"host", "content-length", "expect"})
"""Headers that say what the client library of the next connection knows better."""

RawHeaders = Iterable[tuple[bytes, bytes]]


def forward_request_headers(raw: RawHeaders, *, reads_answer: bool) -> CIMultiDict[str]:
    """Return the headers that go upstream, in their order and spelling.

    reads_answer   True if the answer must come uncompressed, because its usage is read on the way
    """
    headers = _drop_hop_by_hop(raw, _MADE_ANEW)
    for name in {name for name in headers if name.lower().startswith(OWN)}:
        headers.popall(name, None)
    if reads_answer:
        headers["Accept-Encoding"] = "identity"
    return headers


def forward_response_headers(raw: RawHeaders) -> CIMultiDict[str]:
    """Return the headers that go back to the caller."""
    return _drop_hop_by_hop(raw, frozenset())


def _decode(value: bytes) -> str:
    """Return a header's value; one in an old encoding is written anew in UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _drop_hop_by_hop(raw: RawHeaders, also: frozenset[str]) -> CIMultiDict[str]:
    pairs = [(name.decode("latin-1"), _decode(value)) for name, value in raw]
    named = {
        part.strip().lower()
        for name, value in pairs
        if name.lower() == "connection"
        for part in value.split(",")
    }
    dropped = _HOP_BY_HOP | also | named
    return CIMultiDict((name, value) for name, value in pairs if name.lower() not in dropped)
