"""Read the chunks of a stream: which may be passed on, which is a refusal, what response they make."""

from contextlib import suppress
from importlib import import_module
from itertools import groupby
from typing import Any, Final, Protocol

from refold.clients.chat import Json
from refold.clients.http.sse import Event
from refold.clients.http.wire import (
    Wire,
    fields_of,
    join_surrogates,
    list_of,
    parse_call,
    text_of,
    without_key,
)
from refold.core.messages.plain_values import to_plain_value
from refold.core.overflow.detect import find_block_refusal, is_thinking_refusal, overflow
from refold.errors import warn_caller

_OPENING: Final = frozenset(
    {
        *("message_start", "ping", "response.created", "response.in_progress", "response.queued"),
        *("messageStart", "interaction.created", "interaction.start", "interaction.status_update"),
    }
)
"""Events before the first words. They are held back, so that a refusal right behind them can be recovered."""
FAILED: Final = frozenset({"error", "response.failed", "response.error"})
"""Events that may be a refusal; a chat server sends a chunk with `error` and no type."""
_PROVIDERS: Final = {
    "choices": "openai_chat",
    **dict.fromkeys(("candidates", "usageMetadata", "promptFeedback"), "gemini"),
    "response": "openai_responses",
    **dict.fromkeys(("event_type", "messageStart", "contentBlockStart", "contentBlockDelta"), ""),
}
"""Fields that only the chunks of one provider have; of Interactions and of Converse there is no client."""


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


class _Blocks:
    """Gathers the numbered blocks of Bedrock's ConverseStream and the steps of Gemini's Interactions API."""

    def gather(self, state: Json, _event: Event, data: Json) -> None:
        """Keep the pieces of each block; they are joined at the end, since thousands come."""
        event = next((value for key, value in data.items() if key.startswith("contentBlock")), data)
        index = event.get("contentBlockIndex", event.get("index"))
        pieces = state.setdefault("pieces", {}).setdefault(index, [])
        pieces += [event[key] for key in ("start", "step", "content", "delta") if event.get(key)]
        state["is_steps"] = "event_type" in data
        for key in ("messageStop", "metadata", "interaction"):
            state.update({name: value for name, value in fields_of(data.get(key)).items() if value})

    def assemble(self, state: Json) -> Json:
        """Return the response of Converse, or an interaction with its steps, which its last event lacks."""
        gathered = [pieces for pieces in state.pop("pieces").values() if pieces]
        if not state.pop("is_steps"):
            message = {"role": "assistant", "content": [self._join_block(pieces) for pieces in gathered]}
            return {"stopReason": "", **state, "output": {"message": message}}
        steps = [step for pieces in gathered if any([*(step := self._join_step(pieces)).values()][1:])]
        return {"status": "", "usage": state.get("total_usage"), **state, "steps": steps}

    def _join_block(self, pieces: list[Json]) -> Json:
        block = _merge(pieces)
        if cited := [piece["citation"] for piece in pieces if "citation" in piece]:
            return {"citationsContent": {"content": [{"text": block.get("text", "")}], "citations": cited}}
        if call := block.get("toolUse"):
            call["input"] = parse_call("", "", call.get("input"), "").arguments
        thought = block.get("reasoningContent", {})
        is_readable = not thought.keys().isdisjoint(("text", "signature"))
        return {"reasoningContent": {"reasoningText": {"text": "", **thought}}} if is_readable else block

    def _join_step(self, pieces: list[Json]) -> Json:
        step: Json = {}
        begun = list_of(pieces[0].get("content"))  # a step may begin with its first words
        for kind, run in groupby([*pieces[:1], *begun, *pieces[1:]], lambda piece: piece.get("type")):
            items = list(run)
            piece = _merge(items)
            if kind in {"text", "thought_summary"}:
                key, block = ("content", piece) if kind == "text" else ("summary", piece.get("content", {}))
                step[key] = [*step.get(key, ()), *([block] if block.get("text") else ())]
            elif kind in {"image", "audio", "video", "document"}:
                step["content"] = [*step.get("content", ()), *items]
            elif kind == "arguments_delta":
                step["arguments"] = parse_call("", "", piece.get("arguments"), "").arguments
            elif kind != "text_annotation_delta":  # a beginning, a signature, a whole call or result
                step |= without_key(items[-1], "type" if kind == "thought_signature" else "content")
        return {"type": "model_output" if "content" in step else "thought", **step}


class ProviderChunks:
    """Reads the chunks of the providers' own wires."""

    def __init__(self) -> None:
        self._wire: Wire | _Blocks | None = None
        self._state: dict[str, Any] = {}
        self._is_unknown = False

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
        elif not (data.get("error") or self.is_opening(chunk)):
            self._is_unknown = True

    def assemble(self) -> Any:
        """Return the provider's response as far as it came; warns if its chunks could not be read."""
        if self._wire is None and self._is_unknown:
            warn_caller("a stream has no known shape: give its response to observe(response, say=True)")
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
    if isinstance(chunk, dict):  # an event of Converse has no type: its one field says what it is
        return chunk.get("type") or chunk.get("event_type") or next(iter(chunk), None)
    return getattr(chunk, "type", None) or getattr(chunk, "event_type", None)


def _merge(pieces: list[Any]) -> Any:
    """Join the pieces of a value: texts behind each other, objects field by field; others come whole."""
    if isinstance(pieces[0], str):
        return join_surrogates("".join(map(text_of, pieces)))
    if not all(isinstance(piece, dict) for piece in pieces):
        return pieces[-1]
    names = dict.fromkeys(name for piece in pieces for name in piece)
    values = {name: [piece[name] for piece in pieces if name in piece] for name in names}
    return {name: each[-1] if name == "type" else _merge(each) for name, each in values.items()}


def _to_fields(chunk: Any) -> dict[str, Any]:
    plain = to_plain_value(chunk, {}, {})
    return plain if isinstance(plain, dict) else {}


def _find_wire(data: dict[str, Any]) -> Wire | _Blocks | None:
    """Return the wire that a chunk belongs to; None if the chunk does not show it."""
    kind = str(data.get("type") or "")
    module = next((name for key, name in _PROVIDERS.items() if key in data), None)
    if kind.startswith("response."):
        module = "openai_responses"
    elif kind.startswith(("message_", "content_block_")):
        module = "anthropic"
    if not module:
        return None if module is None else _Blocks()
    wire: Wire = import_module(f"refold.clients.providers.{module}").WIRE
    return wire
