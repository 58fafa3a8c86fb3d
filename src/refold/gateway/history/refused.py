"""Find out whether an upstream refuses a history, before a byte of its answer has gone to the caller.

A refusal comes as an error, or inside a stream that began with 200. There the events before the first words
are held back for a moment, so that a refusal right behind them can still be answered by a smaller request.
"""

from typing import Any, Final

from refold.clients.http.sse import SseParser
from refold.core.messages.message import read_json
from refold.core.overflow.detect import find_block_refusal, is_thinking_refusal, overflow
from refold.gateway.history.decoding import decode_body
from refold.gateway.http.forwarding import Answer
from refold.gateway.http.refusals import Refusal
from refold.session.chunks import ProviderChunks

HELD_SECONDS: Final = 2.0
HELD_BYTES: Final = 64 * 1024
"""The most that is held back: a model that thinks for long is not to look as if nothing came."""
_ECHOES: Final = 4
"""How often a beginning may hold what a request has beside its history: OpenAI repeats instructions and tools
in two events, and a letter that is escaped takes about twice its bytes."""
_FAILED: Final = b'"failed"'
_ERROR_BYTES: Final = 1024 * 1024
_ERROR_SECONDS: Final = 30.0
_NEVER_SIZE: Final = frozenset({401, 403, 404, 408, 409, 429})
"""Statuses that say something else, whatever their words are."""


async def read_refusal(answer: Answer, *, is_folded: bool, beside: int) -> Any | None:
    """Return a refusal that a smaller or simpler request may answer, as `observe` takes it; else None.

    is_folded   True if the upstream got a view of ours: then it may refuse what a fold has left behind
    beside      bytes of the request beside its history
    """
    if answer.status >= 400:  # RFC 9110: the client's or the server's error
        if answer.status in _NEVER_SIZE or answer.is_stream:
            return None
        text = await answer.hold(seconds=_ERROR_SECONDS, max_bytes=_ERROR_BYTES, look=lambda _piece: False)
        return _read_error(answer, text, is_folded=is_folded)
    reader = _FirstEvents(is_folded=is_folded)
    look = reader.look if answer.is_stream else lambda _piece: False
    if answer.is_stream or answer.wire == "responses":
        text = await answer.hold(seconds=HELD_SECONDS, max_bytes=HELD_BYTES + _ECHOES * beside, look=look)
        if not answer.is_stream and _FAILED in text:  # a response may fail behind its 200
            value = read_json(text)
            is_failed = isinstance(value, dict) and value.get("status") == "failed"
            return value if is_failed and _is_refusal(value, is_folded=is_folded) else None
    return reader.refusal


def _read_error(answer: Answer, body: bytes, *, is_folded: bool) -> Any | None:
    try:
        text = decode_body(body, answer.encoding, _ERROR_BYTES)
    except Refusal:  # too long for an error
        return None
    text = body if text is None else text
    if not text and not answer.upstream.content.is_eof():  # it may have more to say
        return None
    value = read_json(text)
    error = value if isinstance(value, dict | list) else text.decode("utf-8", "replace")
    # the status alone may be the refusal: a 413 with any words, a 400 without
    whole = {"status": answer.status, "body": error}
    return whole if overflow(whole) else error if _is_refusal(error, is_folded=is_folded) else None


def _is_refusal(error: Any, *, is_folded: bool) -> bool:
    if overflow(error) is not None:
        return True
    return is_folded and bool(find_block_refusal(error) or is_thinking_refusal(error))


class _FirstEvents:
    """Reads the events of a stream up to the first words."""

    def __init__(self, *, is_folded: bool) -> None:
        self.refusal: Any | None = None
        self._is_folded = is_folded
        self._parser, self._chunks = SseParser(), ProviderChunks()

    def look(self, piece: bytes) -> bool:
        """Return whether the words have begun, or the stream has failed."""
        for event in self._parser.feed(piece):
            value = read_json(event.data.encode("utf-8", "surrogatepass"))
            if not isinstance(value, dict):
                return True
            is_error = "error" in value and "choices" not in value
            if is_error or self._chunks.find_refusal(value) is not None:
                self.refusal = value if _is_refusal(value, is_folded=self._is_folded) else None
                return True
            if not self._chunks.is_opening(value):
                return True
        return False
