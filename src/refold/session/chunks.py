"""Read the chunks of a stream: which may be passed on, which is a refusal, what response they make."""

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from refold.clients.http.sse import Event
from refold.core.messages.plain_values import to_plain_value
from refold.core.overflow.detect import find_block_refusal, is_thinking_refusal, overflow

if TYPE_CHECKING:
    from refold.clients.http.wire import Wire

_OPENING: Final = frozenset(
    {"message_start", "ping", "response.created", "response.in_progress", "response.queued"}
)
"""Events before the first words. They are held back, so that a refusal right behind them can be recovered."""
FAILED: Final = frozenset({"error", "response.failed", "response.error"})
"""Events that may be a refusal; a chat server sends a chunk with `error` and no type."""
_PROVIDERS: Final = {
    "choices": "openai_chat",
    "candidates": "gemini",
    "usageMetadata": "gemini",
    "response": "openai_responses",
}
"""Fields that only the chunks of one provider have."""


class ChunkReader(Protocol):
    """What a session needs to know of the chunks of one stream."""

    def find_refusal(self, chunk: Any) -> Any | None:
        """Return what `observe` is to be given if the chunk is an error that may be recovered."""
        ...

    def is_opening(self, chunk: Any) -> bool:
        """True if the chunk has no words yet: it is held back, since a refusal may follow."""
        ...

    def add(self, chunk: Any) -> None:
        """Take in a chunk."""
        ...

    def assemble(self) -> Any:
        """Return the response as it would come without streaming, as far as it came."""
        ...


class ProviderChunks:
    """Reads the chunks of the providers' own wires."""

    def __init__(self) -> None:
        self._wire: Wire | None = None
        self._state: dict[str, Any] = {}

    def find_refusal(self, chunk: Any) -> Any | None:
        """Return a chunk that is a refusal which can be recovered."""
        error = chunk.get("error") if isinstance(chunk, dict) else getattr(chunk, "error", None)
        if not error and _read_kind(chunk) not in FAILED:
            return None
        data = _to_fields(chunk)
        is_known = overflow(data) is not None or find_block_refusal(data) or is_thinking_refusal(data)
        return data if is_known else None

    def is_opening(self, chunk: Any) -> bool:
        """True for the events before the first words."""
        return _read_kind(chunk) in _OPENING

    def add(self, chunk: Any) -> None:
        """Gather what a chunk says."""
        data = _to_fields(chunk)
        self._wire = self._wire or _find_wire(data)
        if self._wire is not None:
            with suppress(Exception):  # a chunk in an odd shape is passed on, and adds nothing
                self._wire.gather(self._state, Event("", str(data.get("type") or "")), data)

    def assemble(self) -> Any:
        """Return the provider's response as far as it came."""
        with suppress(Exception):
            return None if self._wire is None else self._wire.assemble(self._state)
        return None


class Chunks:
    """The chunks of one stream: those that are held back, and the response that they make together."""

    def __init__(self, reader: ChunkReader) -> None:
        self.held: list[Any] = []
        self.has_begun = False
        self._reader = reader
        self.assemble = reader.assemble

    def find_refusal(self, chunk: Any) -> Any | None:
        """Return a refusal that comes as a chunk, while no other chunk was passed on."""
        return None if self.has_begun else self._reader.find_refusal(chunk)

    def add(self, chunk: Any) -> list[Any]:
        """Take a chunk, and return those that may be passed on."""
        self._reader.add(chunk)
        self.held.append(chunk)
        return [] if not self.has_begun and self._reader.is_opening(chunk) else self.release()

    def release(self) -> list[Any]:
        """Return the chunks that were held back."""
        held, self.held = self.held, []
        self.has_begun = self.has_begun or bool(held)
        return held


def _read_kind(chunk: Any) -> Any:
    """Return the type of a chunk; an object is not turned into fields for it, since thousands come."""
    return chunk.get("type") if isinstance(chunk, dict) else getattr(chunk, "type", None)


def _to_fields(chunk: Any) -> dict[str, Any]:
    plain = to_plain_value(chunk, {}, {})
    return plain if isinstance(plain, dict) else {}


def _find_wire(data: dict[str, Any]) -> "Wire | None":
    """Return the wire that a chunk belongs to; None if the chunk does not show it."""
    kind = str(data.get("type") or "")
    module = next((name for key, name in _PROVIDERS.items() if key in data), "")
    if kind.startswith("response."):
        module = "openai_responses"
    elif kind.startswith(("message_", "content_block_")):
        module = "anthropic"
    if not module:
        return None
    wire: Wire = import_module(f"refold.clients.providers.{module}").WIRE
    return wire
