"""Split a request into its fields and its messages without reading them, and put one together again.

The caller's own bytes are kept: a message that no fold concerns goes on as it was written, so that a cached
prefix cannot move.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

_LISTS: Final[Mapping[str, str]] = {"openai": "messages", "anthropic": "messages", "responses": "input"}
"""The field with the history, by wire."""
_SYSTEM: Final[Mapping[str, str]] = {"anthropic": "system", "responses": "instructions"}
"""The field with the system prompt; in the chat wire it stands among the messages."""
_ELSEWHERE: Final = ("previous_response_id", "conversation", "thread")
"""Fields that say that a part of the history is at the provider. `store` is none of them: it says what
becomes of the answer, and clients that send their whole history set it as well, or leave it
to the provider."""

ReadRequest = Callable[[bytes, str], tuple[Mapping[str, msgspec.Raw], Sequence[msgspec.Raw]] | None]
Part = bytes | int
"""A message of a view: the bytes that a fold made, or the place of the caller's own."""
Written = dict[int, tuple[Any, bytes]]
"""Messages of folds that were written as JSON, by their ids; each is held, so that its id stays its own."""


@dataclass(frozen=True, slots=True)
class SplitBody:
    """The parts of a request, as the caller wrote them."""

    fields: Mapping[str, msgspec.Raw]
    """Every field but the history, in the caller's order."""
    key: str
    """The name of the field with the history."""
    items: Sequence[msgspec.Raw]
    wire: str
    model: str = ""
    """The model that the request names."""

    @property
    def is_elsewhere(self) -> bool:
        """True if a part of the history is at the provider, so that this list is not all of it."""
        if self.fields.keys().isdisjoint(_ELSEWHERE):
            return False
        thread = self.read("thread")  # one that is only created here has the whole list
        continues = isinstance(thread, dict) and thread.get("type") == "continue"
        return continues or any(self.read(name) for name in _ELSEWHERE if name != "thread")

    @property
    def system(self) -> msgspec.Raw | None:
        """The system prompt, unread."""
        return self.fields.get(_SYSTEM.get(self.wire, ""))

    @property
    def tools(self) -> msgspec.Raw | None:
        """The tools, unread."""
        return self.fields.get("tools")

    @property
    def bytes_beside(self) -> int:
        """Bytes of what stands beside the history."""
        return sum(map(len, self.fields.values()))

    def read(self, name: str) -> Any:
        """Return the value of a field; None if there is none."""
        raw = self.fields.get(name)
        return None if raw is None else json.loads(bytes(raw))

    def write(self, parts: Sequence[Part]) -> bytes:
        """Return the request with another history, which stands last: what is new is then at the end."""
        pieces: list[bytes | msgspec.Raw] = [b"{"]
        for name, raw in self.fields.items():
            pieces += (json.dumps(name).encode(), b":", raw, b",")
        pieces.append(f"{json.dumps(self.key)}:[".encode())
        items = self.items
        for part in parts:
            pieces += (part if isinstance(part, bytes) else items[part], b",")
        if parts:
            pieces.pop()
        pieces.append(b"]}")
        return b"".join(pieces)  # once: each copy of a long body costs as much as splitting it


def split_body(body: bytes, wire: str, read_request: ReadRequest) -> SplitBody | None:
    """Return the parts of a body; None if it has no list of messages. A body that is no JSON is an error.

    read_request   takes a request apart: its other fields, and the messages in the field that it is given
    """
    key = _LISTS[wire]
    try:
        found = read_request(body, key)
        if found is None:
            return None
        fields, items = found
        model = json.loads(bytes(fields.get("model", b'""')))
        return SplitBody(fields, key, items, wire, model if isinstance(model, str) else "")
    except msgspec.ValidationError:  # it is JSON in another shape
        return None


def write_message(message: Any) -> bytes:
    """Return a message that a fold made as JSON, the same bytes each time."""
    try:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a character, as some programs cut texts
        return json.dumps(message, separators=(",", ":")).encode()
