"""Read the usage from an answer that passes by, and a failure; only events that have one are parsed."""

from typing import Any, Final

from refold.core.messages.message import read_json
from refold.core.overflow.detect import is_vague
from refold.core.tokens.usage import read_usage
from refold.session.chunks import ProviderChunks

MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes of an answer, or of one event, that are looked at; a longer one tells no usage. Answers of models
have some 100 kB."""
_USAGE: Final = b'"usage"'
_ERROR: Final = b'"error"'
_TELLING: Final = {_USAGE: b'"usage":null', _ERROR: b'"error":null'}
"""Fields of events that are read, and how a field without a value is written."""
_KEPT: Final = ("model", "stop_reason", "status")


class UsageReader:
    """Sees the pieces of one answer and gathers what it says of its usage."""

    def __init__(self, *, is_stream: bool) -> None:
        self._is_stream = is_stream
        self._pieces: list[bytes] = []
        self._size = 0
        """Bytes of the answer, or of the event of a stream that has not ended yet."""
        self._found: dict[str, Any] = {}
        self.refusals: list[Any] = []
        """Events of a stream with which a history was refused."""

    def feed(self, piece: bytes) -> None:
        """Look at a piece of the answer."""
        if self._is_stream and not self._pieces and piece.endswith(b"\n\n") and not _may_tell(piece):
            return  # whole events without usage: nearly every piece of a stream
        self._size += len(piece)
        if self._size > MAX_BYTES:
            self._pieces.clear()
            if not self._is_stream:
                return
        self._pieces.append(piece)
        if self._is_stream and (b"\n\n" in piece or b"\r" in piece or b"\n" in piece[:1]):
            self._read_events()

    def finish(self) -> dict[str, Any] | None:
        """Return the answer as far as `observe` needs it; None if it told no usage."""
        text = b"".join(self._pieces)
        self._pieces.clear()
        if self._is_stream:
            self._read_event(text)
        elif self._size <= MAX_BYTES and _USAGE in text:
            self._take(read_json(text))
        return self._found if self._found.get("usage") else None

    def _read_events(self) -> None:
        """Read the events that are complete; the rest waits for more."""
        text = b"".join(self._pieces).replace(b"\r\n", b"\n")
        whole, mark, rest = text.rpartition(b"\n\n")
        if len(rest) > MAX_BYTES:
            rest = b""
        self._pieces, self._size = [rest] if rest else [], len(rest)
        if mark and _may_tell(whole):
            for event in whole.split(b"\n\n"):
                self._read_event(event)

    def _read_event(self, event: bytes) -> None:
        if all(name not in event or null in event for name, null in _TELLING.items()):
            return
        lines = (line[5:].strip() for line in event.splitlines() if line.startswith(b"data:"))
        value = read_json(b"\n".join(lines))
        self._take(value)
        if not self.refusals and isinstance(value, dict):
            refusal = ProviderChunks().find_refusal(value)
            self.refusals += [] if refusal is None or is_vague(refusal) else [refusal]

    def _take(self, value: Any) -> None:
        """Take over what a JSON answer or an event tells; events of one stream add to each other."""
        if not isinstance(value, dict):
            return
        holders = (value.get(name) for name in ("message", "response", "x_groq", "interaction"))
        for part in (*holders, value, value.get("delta")):
            if isinstance(part, dict):
                self._found |= {name: part[name] for name in _KEPT if isinstance(part.get(name), str)}
                usage = part.get("usage")
                if isinstance(usage, dict):
                    known = {name: number for name, number in usage.items() if number is not None}
                    self._found["usage"] = {**self._found.get("usage", {}), **known}


def describe_usage(answer: dict[str, Any] | None) -> dict[str, int] | None:
    """Return the tokens of an answer, whatever its provider calls them; None if it told none."""
    usage = None if answer is None else read_usage(answer)
    if usage is None:
        return None
    names = ("input", "output", "cache_read", "cache_write")
    return {name: getattr(usage, name) for name in names}


def _may_tell(text: bytes) -> bool:
    return _USAGE in text or _ERROR in text  # of every piece of a stream, so that no loop is made for it
