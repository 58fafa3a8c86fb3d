"""A question behind the conversation itself: the request that was sent before, and one message more.

System prompt, tools and messages stand in it as the caller sends them, word for word and in the same order,
because a provider finds in its cache only what begins alike. No choice of tools is set: that would make it
another request. A model that calls one instead of answering is turned down like any other bad summary.
"""

from collections.abc import Mapping
from typing import Any, Final

from refold.clients.wires import Body
from refold.core.compaction.cached_prefix import Prefix, neutral
from refold.core.compaction.flow import Ask
from refold.core.log.entries import CACHED

MOST_MARKS: Final = 4
"""How many places Anthropic lets a request mark."""


def anthropic(payload: Body, question: Ask) -> Body:
    """Anthropic Messages; the last block is marked, so that what was written before is looked for."""
    prefix, block = _prefix(question), {"type": "text", "text": question.closing}
    tools = [_tool(tool, "anthropic") for tool in prefix.tools]
    told = {"system": prefix.system, "tools": tools}
    if _marks([prefix.system, tools, list(prefix.messages)]) < MOST_MARKS:
        block[CACHED] = {"type": "ephemeral"}  # type: ignore[assignment]  # JSON
    messages = [*prefix.messages, {"role": "user", "content": [block]}]
    return {**_without(payload, "system"), **_given(told), "messages": messages}


def chat(payload: Body, question: Ask) -> Body:
    """OpenAI chat completions."""
    prefix = _prefix(question)
    system = [{"role": "system", "content": prefix.system}] if prefix.system else []
    messages = [*system, *prefix.messages, {"role": "user", "content": question.closing}]
    told = {"tools": [_tool(tool, "openai") for tool in prefix.tools]}
    return {**payload, **_given(told), "messages": messages}


def responses(payload: Body, question: Ask) -> Body:
    """OpenAI Responses."""
    prefix = _prefix(question)
    told = {"instructions": prefix.system, "tools": [_tool(tool, "responses") for tool in prefix.tools]}
    items = [*prefix.messages, {"role": "user", "content": question.closing}]
    return {**_without(payload, "instructions"), **_given(told), "input": items}


def gemini(payload: Body, question: Ask) -> Body:
    """Gemini."""
    prefix = _prefix(question)
    system = {"parts": [{"text": prefix.system}]} if isinstance(prefix.system, str) else prefix.system
    told = {"systemInstruction": system if prefix.system else None, "tools": list(prefix.tools)}
    contents = [*prefix.messages, {"role": "user", "parts": [{"text": question.closing}]}]
    return {**_without(payload, "systemInstruction"), **_given(told), "contents": contents}


def _prefix(question: Ask) -> Prefix:
    assert question.prefix is not None  # noqa: S101  # whoever comes here has looked
    return question.prefix


def _without(payload: Body, name: str) -> Body:
    return {key: value for key, value in payload.items() if key != name}


def _given(fields: Mapping[str, Any]) -> Body:
    return {name: value for name, value in fields.items() if value}


def _tool(tool: Any, wire: str) -> Any:
    """A tool in the wire's own shape; one that is there already stays as it is."""
    if not neutral(tool):
        return tool
    name, told = tool["name"], tool.get("description", "")
    parameters = tool.get("parameters") or {"type": "object", "properties": {}}
    if wire == "anthropic":
        return {"name": name, "description": told, "input_schema": parameters}
    plain = {"name": name, "description": told, "parameters": parameters}
    return {"type": "function", **plain} if wire == "responses" else {"type": "function", "function": plain}


def _marks(value: Any) -> int:
    """How many places are marked to be cached."""
    if isinstance(value, Mapping):
        return (CACHED in value) + sum(_marks(item) for key, item in value.items() if key != CACHED)
    return sum(map(_marks, value)) if isinstance(value, list | tuple) else 0
