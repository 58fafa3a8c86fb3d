"""What the provider for tests remembers of a request, and how a body is read on each wire.

The wires are named like the formats: "openai" (chat completions), "responses", "anthropic" and "gemini".
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from refold.core.messages.wire_rules import Problem

Outcome: TypeAlias = Literal["answered", "refused", "rejected", "failed"]
"""Answered; refused for its size; rejected as invalid; or failed because `fail_next` said so."""

_GEMINI: Final = re.compile(r"/models/([^/:]+):(generateContent|streamGenerateContent|countTokens)$")


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one answer."""

    input: int
    """All of the request, the cached prefix included."""
    cached: int
    """The prefix that an earlier request began with."""
    output: int
    """All of the answer, the reasoning included."""
    reasoning: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came, and what became of it."""

    number: int
    """Its place in `Provider.requests`, from 1."""
    wire: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes
    body: Mapping[str, Any]
    model: str
    messages: list[Any]
    """The history in the shape of its wire: `messages`, `input` or `contents`."""
    system: Any
    """What stands beside the history: `system`, `instructions` or `systemInstruction`."""
    tools: list[Any]
    stream: bool
    used: int
    """Tokens of messages, system and tools together."""
    outcome: Outcome = "answered"
    usage: Usage | None = None
    """What the answer cost; None where there was none."""

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools that the model is offered."""
        return list_tool_names(self.tools)


@dataclass(frozen=True, slots=True)
class InvalidRequest:
    """A reason why the real provider would not have taken a request."""

    request: int
    """The request's number."""
    wire: str
    problem: Problem


@dataclass(frozen=True, slots=True)
class Body:
    """A body taken apart, the same for all wires."""

    wire: str
    model: str
    messages: list[Any]
    system: Any
    tools: list[Any]
    stream: bool
    only_counts: bool = False
    """True if the tokens are asked for and no answer."""
    previous: str | None = None
    """The response that a Responses request goes on from; its items are at the provider."""


def read_body(path: str, body: Mapping[str, Any]) -> Body | None:
    """Take a body apart; None where the path belongs to no wire."""
    place = unquote(path.partition("?")[0]).rstrip("/")
    stream = body.get("stream") is True
    model = str(body.get("model") or "")
    tools = _list(body.get("tools"))
    if place.endswith("/chat/completions"):
        return Body("openai", model, _list(body.get("messages")), None, tools, stream)
    if place.endswith("/responses"):
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else _list(given)
        previous = body.get("previous_response_id")
        return Body("responses", model, items, body.get("instructions"), tools, stream, previous=previous)
    if place.endswith(("/messages", "/messages/count_tokens")):
        messages, counts = _list(body.get("messages")), place.endswith("/count_tokens")
        return Body("anthropic", model, messages, body.get("system"), tools, stream, counts)
    if found := _GEMINI.search(place):
        return _read_gemini(body, *found.groups())
    return None


def _read_gemini(body: Mapping[str, Any], model: str, method: str) -> Body:
    contents = _list(body.get("contents"))
    # the field has two spellings; SDKs write the first, curl examples of the documentation the second
    system = body.get("systemInstruction") or body.get("system_instruction")
    streams = method == "streamGenerateContent"
    tools = _list(body.get("tools"))
    return Body("gemini", model, contents, system, tools, streams, method == "countTokens")


def list_tool_names(tools: list[Any]) -> list[str]:
    """Return the names of tools in the shape of any wire.

    >>> list_tool_names([{"type": "function", "function": {"name": "look"}}, {"name": "read"}])
    ['look', 'read']
    >>> list_tool_names([{"functionDeclarations": [{"name": "look"}]}])
    ['look']
    """
    names: list[str] = []
    for tool in tools:
        if not isinstance(tool, Mapping):
            continue
        declared = tool.get("functionDeclarations") or tool.get("function_declarations")
        inner = _list(declared) if declared else [tool.get("function") or tool]
        names += [str(each["name"]) for each in inner if isinstance(each, Mapping) and each.get("name")]
    return names


def write_text(value: Any) -> str:
    """Return a text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else []
