"""Inspect's chat messages as items of OpenAI chat, and back; a function of the message alone."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    Content,
    ContentImage,
    ContentText,
)
from inspect_ai.tool import ToolCall, ToolInfo
from pydantic import TypeAdapter

from refold.adapters.bridge import Bridge, Wire, is_reasoning_item

MADE: Final = "refold"
"""Key in the metadata of messages that a fold made; Inspect's own compaction has `summary` there."""
_CONTENT: Final[TypeAdapter[Any]] = TypeAdapter(Content)
_OWN: Final = "inspect_ai"
"""The field of a file that holds Inspect's own content, without its data."""


def to_wire(message: ChatMessage) -> tuple[Wire, ...]:
    """Return the chat item of a message."""
    role = message.role
    if role == "assistant":
        return (_write_assistant(message),)
    item: Wire = {"role": role, "content": _write_content(message.content)}
    if role == "tool":
        item["tool_call_id"] = message.tool_call_id or ""
        if message.error is not None:  # the model reads this and not the content
            item["content"] = message.error.message
    return (item,)


def _write_assistant(message: ChatMessageAssistant) -> Wire:
    """Return an answer; reasoning stays outside of its content, as chat has it.

    But OpenAI takes a call with its id only behind the reasoning that led to it. Inspect keeps the ids of all
    calls apart from the messages, and sends them.
    """
    content, written, blocks = message.content, message.content, []
    if not isinstance(content, str):
        blocks = [block for block in content if block.type == "reasoning"]
        called = blocks and (message.tool_calls or "tool_use" in [block.type for block in content])
        if called and any(is_reasoning_item(block.signature) for block in blocks):
            written, blocks = [_write_block(block, whole=True) for block in content], []
        else:
            written = _write_content([block for block in content if block.type != "reasoning"])
    item: Wire = {"role": "assistant", "content": written}
    if blocks:
        item["reasoning_content"] = "\n".join([block.reasoning for block in blocks])
    if message.tool_calls:
        item["tool_calls"] = [_write_call(call) for call in message.tool_calls]
    return item


def _write_content(content: Any) -> Any:
    """Return one text as it is, and anything else as blocks."""
    if isinstance(content, str):
        return content
    if not content:
        return ""
    if len(content) == 1 and content[0].type == "text":
        return content[0].text
    return [_write_block(block) for block in content]


def _write_block(block: Content, *, whole: bool = False) -> Wire:
    """Return a block; `whole` for a text with what its provider wants back, such as its id."""
    if block.type == "text" and not whole:
        return {"type": "text", "text": block.text}
    if block.type == "image":
        return {"type": "image_url", "image_url": {"url": block.image}}
    own = block.model_dump(mode="json", exclude_none=True)
    if block.type not in {"audio", "video", "document"}:
        return own
    # as a file it is measured by what it is; its data stands under the name of its type
    return {"type": "file", "file": {"filename": block.type, "file_data": own.pop(block.type)}, _OWN: own}


def _write_call(call: ToolCall) -> Wire:
    arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
    return {"id": call.id, "type": "function", "function": {"name": call.function, "arguments": arguments}}


def from_wire(items: Sequence[Wire]) -> list[ChatMessage]:
    """Make messages of what a fold made or changed."""
    return [_read_item(item) for item in items]


def _read_item(item: Wire) -> ChatMessage:
    beside: dict[str, Any] = {"content": _read_content(item.get("content")), "metadata": {MADE: True}}
    role = item["role"]
    if role == "tool":
        return ChatMessageTool(tool_call_id=item["tool_call_id"], **beside)
    if role == "assistant":
        calls = [_read_call(call) for call in item.get("tool_calls") or ()]
        return ChatMessageAssistant(tool_calls=calls or None, **beside)
    return ChatMessageSystem(**beside) if role == "system" else ChatMessageUser(**beside)


def _read_content(content: str | Sequence[Mapping[str, Any]] | None) -> str | list[Content]:
    if content is None or isinstance(content, str):
        return content or ""
    return [_read_block(block) for block in content]


def _read_block(block: Mapping[str, Any]) -> Content:
    if block["type"] == "text":
        return ContentText(text=block["text"], internal=block.get("internal"))
    if block["type"] == "image_url":
        return ContentImage(image=block["image_url"]["url"])
    own = block.get(_OWN)
    return _CONTENT.validate_python({**own, own["type"]: block["file"]["file_data"]} if own else block)


def _read_call(call: Wire) -> ToolCall:
    function = call["function"]
    return ToolCall(
        id=call["id"], function=function["name"], arguments=json.loads(function["arguments"] or "{}")
    )


def write_tools(tools: Sequence[ToolInfo]) -> list[Wire]:
    """Return tools as chat completions have them, to measure them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters.model_dump(mode="json", exclude_none=True),
            },
        }
        for tool in tools
    ]


BRIDGE: Final[Bridge[ChatMessage]] = Bridge(to_wire, from_wire)
