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


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """How free the model is."""

    may_call: bool = True
    wanted: str = ""
    """The tool that must be called; empty if the model chooses."""
    one_by_one: bool = False


def read_tool_choice(wire: str, body: Mapping[str, Any]) -> ToolChoice:
    """Read the choice in the words of a wire.

    >>> read_tool_choice("openai", {"tool_choice": "none"}).may_call
    False
    >>> read_tool_choice("anthropic", {"tool_choice": {"type": "tool", "name": "look"}}).wanted
    'look'
    """
    if wire == "gemini":
        return _read_gemini_choice(body)
    choice = body.get("tool_choice")
    one_by_one = body.get("parallel_tool_calls") is False
    if not isinstance(choice, Mapping):
        return ToolChoice(choice != "none", one_by_one=one_by_one)
    function = choice.get("function")
    named = function.get("name") if isinstance(function, Mapping) else choice.get("name")
    one_by_one = one_by_one or choice.get("disable_parallel_tool_use") is True
    return ToolChoice(choice.get("type") != "none", str(named or ""), one_by_one)


def _read_gemini_choice(body: Mapping[str, Any]) -> ToolChoice:
    around = body.get("toolConfig") or {}
    config = around.get("functionCallingConfig") or {} if isinstance(around, Mapping) else {}
    names = config.get("allowedFunctionNames") or []
    wanted = str(names[0]) if config.get("mode") == "ANY" and len(names) == 1 else ""
    return ToolChoice(config.get("mode") != "NONE", wanted)


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
