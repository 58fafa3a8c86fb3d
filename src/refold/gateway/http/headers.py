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
_NOT_SENT: Final = _HOP_BY_HOP | {"host", "content-length", "expect"}
"""Also those that say what the client library of the next connection knows better."""

RawHeaders = Iterable[tuple[bytes, bytes]]


def forward_request_headers(raw: RawHeaders, *, reads_answer: bool) -> CIMultiDict[str]:
    """Return the headers that go upstream, in their order and spelling.

    reads_answer   True if the answer must come uncompressed, because its usage is read on the way
    """
    headers = CIMultiDict(_list_forwarded(raw, _NOT_SENT, OWN))
    if reads_answer:
        headers["Accept-Encoding"] = "identity"
    return headers


def forward_response_headers(raw: RawHeaders) -> CIMultiDict[str]:
    """Return the headers that go back to the caller."""
    return CIMultiDict(_list_forwarded(raw, _HOP_BY_HOP))


def _decode(value: bytes) -> str:
    """Return a header's value; one in an old encoding is written anew in UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _list_forwarded(raw: RawHeaders, dropped: frozenset[str], own: str = "") -> list[tuple[str, str]]:
    """Return the headers but those that are dropped, our own, and those that the connection names."""
    found = [
        (name.decode("latin-1"), value.decode() if value.isascii() else _decode(value)) for name, value in raw
    ]
    lows = [name.lower() for name, _ in found]
    if "connection" in lows:
        named = [value for low, (_, value) in zip(lows, found, strict=True) if low == "connection"]
        dropped |= {part.strip().lower() for value in named for part in value.split(",")}
    return [
        header
        for low, header in zip(lows, found, strict=True)
        if low not in dropped and not (own and low.startswith(own))
    ]
