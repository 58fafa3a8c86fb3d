"""The description of a provider's wire, and the values that every wire shares; no network.

One `Wire` serves questions and conversations. Both send a JSON body to the same path and read the same kind
of stream. They ask for different settings, so that a wire builds two bodies and reads one kind of response.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from refold.clients.chat import Delta, Json, RequestedCall
from refold.clients.http.sse import Event
from refold.core.compaction.cached_prefix import CachedPrefix
from refold.core.compaction.flow import Ask
from refold.core.messages.message import read_json

REASONING_TOKENS: Final = 4_096
"""Output tokens added to the limit of a summary for models that reason first. Reasoning counts against the
limit: too few cut the summary off, and a summary that is cut off is rejected; too many only allow more."""
CALL_ID_STEM: Final = "call-"
"""The beginning of ids that we make up for calls without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A model at an address."""

    base: str
    model: str
    provider: str | None = None
    """The provider, if the address names it; otherwise the text of a refusal shows it."""
    key: str = field(default="", repr=False)
    key_variable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An HTTP request."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of an HTTP response."""

    status: int
    content_type: str = ""
    retry_after: float | None = None
    """Seconds after which the provider wants the next request, if it says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The next turn of a conversation."""

    messages: Sequence[Mapping[str, Any]]
    system: str | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The content of a whole response."""

    text: str
    reasoning: str = ""
    messages: tuple[Json, ...] = ()
    """The messages that may be sent back in the next turn."""
    calls: tuple[RequestedCall, ...] = ()
    call_count: int = 0
    """Calls of any kind, also of kinds that a chat cannot answer: a response with calls is no summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The protocol of one provider. The events of a stream are gathered into one response."""

    format: str
    """The shape of its messages, as `refold.formats` names it."""
    path: Callable[[str], str]
    """The path of a model behind the base address."""
    headers: Callable[[str], Mapping[str, str]]
    """The headers that carry a key."""
    ask_body: Callable[[Ask, str, Collection[str]], Json]
    """Build the body of a question to a model, without the parameters that it refused."""
    ask_optional: tuple[str, ...]
    """Parameters of a question that a model may refuse and that a summary can do without."""
    append_question: Callable[[Json, CachedPrefix, str], Json]
    """Change the body of a question: ask it as one more message of the cached conversation."""
    chat_body: Callable[[Turn, str, Collection[str]], Json]
    chat_optional: tuple[str, ...]
    gather: Callable[[Json, Event, Json], bool]
    """Add an event and its data to the gathered state; True if it was the last event."""
    is_complete: Callable[[Json], bool]
    """True if the gathered state says how the reply ended."""
    assemble: Callable[[Json], Json]
    """Turn the gathered state into the response as it would come without streaming."""
    delta: Callable[[Event, Json], Delta]
    """The text in one event."""
    read: Callable[[Json, str], Reading | None]
    """Read a whole response; None if it has another shape. The text begins the ids of calls without one."""
    assistant: Callable[[str], Json]
    user: Callable[[str], Json]
    result: Callable[[RequestedCall, str, bool], Json]
    merge_results: Callable[[Sequence[Json]], tuple[Json, ...]] = tuple
    """Combine the results of one reply as the wire wants them: one message each, or one for all."""
    has_reasoning_tags: bool = False
    """True if servers send reasoning between tags in the text, because the wire has no other place for it."""


def make_request(wire: Wire, target: Target, body: Json) -> Request:
    """Make the request that brings a body to a target."""
    headers = {"content-type": "application/json", "accept": "text/event-stream", "user-agent": "refold"}
    # Without compression no small response can unpack to gigabytes.
    headers["accept-encoding"] = "identity"
    return Request(
        url=target.base.rstrip("/") + wire.path(target.model),
        headers={**headers, **(wire.headers(target.key) if target.key else {})},
        # UTF-8 cannot carry half of a surrogate pair; it becomes a question mark.
        body=json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"),
    )


def parse_call(id_: Any, name: Any, raw: Any, fallback_id: str) -> RequestedCall:
    """Read a call whose arguments are a text or an object; no text at all stands for an empty object."""
    id_ = id_ if isinstance(id_, str) and id_ else fallback_id
    name = text_of(name)
    if isinstance(raw, dict):
        return RequestedCall(id_, name, raw, json.dumps(raw, ensure_ascii=False))
    text = join_surrogates(text_of(raw))
    arguments = read_json(text) if text.strip() else {}
    if not isinstance(arguments, dict):
        return RequestedCall(id_, name, {}, text, broken=True)
    return RequestedCall(id_, name, arguments, text)


def arguments_to_send(call: RequestedCall) -> str:
    """Return a call's arguments as text; `{}` if they are no JSON, which servers refuse in the history."""
    return "{}" if call.broken or not call.raw.strip() else call.raw


def tool_parts(tool: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]] | None:
    """Name, description and parameters of a neutral tool; None for a tool in a wire's own shape."""
    if not isinstance(tool.get("name"), str) or "input_schema" in tool:
        return None
    parameters = tool.get("parameters") or {"type": "object", "properties": {}}
    return tool["name"], str(tool.get("description") or ""), parameters


def drop_empty(fields: Mapping[str, Any]) -> Json:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value}


def without_key(body: Json, key: str) -> Json:
    """Return a copy of a body without one field."""
    return {name: value for name, value in body.items() if name != key}


def join_surrogates(text: str) -> str:
    """Make characters whole again whose two UTF-16 halves came in two events."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def text_of(value: Any) -> str:
    """Return the value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def fields_of(value: Any) -> Json:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Json]:
    """Return the objects in a value that should be a list of objects."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
