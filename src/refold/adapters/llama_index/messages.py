"""LlamaIndex's chat messages as chat items and back; a function of the message alone."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from llama_index.core.base.llms.types import (
    ChatMessage,
    ContentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from pydantic import TypeAdapter, ValidationError

from refold.adapters.bridge import Bridge, Wire, mark_places, read_answer

_OTHER_ROLES: Final[Mapping[str, str]] = {"chatbot": "assistant", "model": "assistant", "function": "tool"}
"""Roles of LlamaIndex that chat items name differently."""
_ROLES: Final[Mapping[MessageRole, str]] = {
    role: _OTHER_ROLES.get(role.value, role.value) for role in MessageRole
}
_MEDIA: Final[Mapping[str, str]] = {"image": "image", "audio": "audio", "document": "data", "video": "video"}
"""The field of each kind of media that holds its bytes."""
_OWN: Final = "llama_index"
"""The field that holds LlamaIndex's own block; bytes that stand in chat's block are empty in it."""
_BLOCK: Final[TypeAdapter[Any]] = TypeAdapter(ContentBlock)
_TEXT_ARGUMENTS: Final = "text_arguments"
"""Field of an answer whose calls have their arguments as JSON text: each integration reads what it wrote."""


def to_wire(message: ChatMessage) -> tuple[Wire, ...]:
    """Return the chat item of a message."""
    role, blocks = _ROLES[message.role], message.blocks
    is_text = len(blocks) == 1 and isinstance(blocks[0], TextBlock)  # most are; a long history has many
    item: Wire = {"role": role, "content": blocks[0].text if is_text else _write_content(blocks)}
    if role == "tool":
        beside = message.additional_kwargs
        item["tool_call_id"] = beside.get("tool_call_id") or beside.get("name") or ""
    elif role == "assistant" and not (is_text and not message.additional_kwargs):
        _fill_assistant(item, message)
    return (item,)


def _write_content(given: Sequence[Any]) -> Any:
    """Return the text of blocks, or the blocks where there are others than one text."""
    blocks = [block for block in given if block.block_type not in {"thinking", "tool_call", "cache"}]
    if all(block.block_type == "text" for block in blocks) and len(blocks) <= 1:
        return blocks[0].text if blocks else ""
    return [_write_block(block) for block in blocks]


def _write_block(block: Any) -> Wire:
    kind = block.block_type
    if kind == "text":
        return {"type": "text", "text": block.text}
    if kind in _MEDIA:
        return _write_media(block, kind)
    return {"type": kind, _OWN: block.model_dump(mode="json", exclude_none=True)}


def _write_media(block: Any, kind: str) -> Wire:
    """Return media as OpenAI writes them, so that they are measured by what they are; bytes are base64."""
    field = _MEDIA[kind]
    own = block.model_dump(mode="json", exclude_none=True, exclude={field})
    given = getattr(block, field)
    if given:
        given = given if isinstance(given, bytes) else b64encode(block.model_dump(include={field})[field])
        own[field] = ""
    data = given.decode() if given else None
    media = getattr(block, f"{kind}_mimetype", None) or ("image/png" if kind == "image" else "")
    url = str(block.url or block.path or "") if data is None else f"data:{media};base64,{data}"
    if kind == "image":
        detail = {"detail": block.detail} if block.detail else {}
        return {"type": "image_url", "image_url": {"url": url, **detail}, _OWN: own}
    if kind == "audio" and data is not None:
        sound = {"data": data, "format": block.format or "mp3"}
        return {"type": "input_audio", "input_audio": sound, _OWN: own}
    file = {"filename": getattr(block, "title", None) or kind, "file_data": url}
    return {"type": "file", "file": file, _OWN: own}


def _fill_assistant(item: Wire, message: ChatMessage) -> None:
    """Add what an answer has beside its text: tool calls and thinking."""
    blocks, beside = message.blocks, message.additional_kwargs
    called = [block for block in blocks if isinstance(block, ToolCallBlock)]
    if any(isinstance(block.tool_kwargs, str) for block in called):
        item[_TEXT_ARGUMENTS] = True
    calls = [_write_call(block.tool_call_id, block.tool_name, block.tool_kwargs) for block in called]
    # older integrations keep calls beside the blocks, as the provider's SDK gave them
    calls = calls or [_write_older_call(call) for call in beside.get("tool_calls") or ()]
    if calls:
        item["tool_calls"] = calls
    thinking = [block for block in blocks if isinstance(block, ThinkingBlock)]
    if thinking:
        kinds = ["call" if isinstance(block, ToolCallBlock) else block.block_type for block in blocks]
        dumped = [block.model_dump(mode="json", exclude_none=True) for block in thinking]
        item["thinking_blocks"] = mark_places(dumped, [kind for kind in kinds if kind != "cache"])
        item["reasoning_content"] = "\n".join(block.content or "" for block in thinking)


def _write_call(call_id: str | None, name: str, given: Any) -> Wire:
    """Return a call; Ollama and Gemini give it no id, and LlamaIndex names its result by the tool."""
    arguments = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
    function = {"name": name, "arguments": arguments or "{}"}
    return {"id": call_id or name, "type": "function", "function": function}


def _write_older_call(given: Any) -> Wire:
    call = given if isinstance(given, dict) else given.model_dump(exclude_none=True)
    function = call.get("function") or {"name": call["name"], "arguments": call.get("input")}  # Anthropic's
    return _write_call(call.get("id"), function["name"], function.get("arguments"))


def from_wire(items: Sequence[Wire]) -> list[ChatMessage]:
    """Make messages of what a fold made or changed, or of what a log has."""
    return [_read_item(item) for item in items]


def _read_item(item: Wire) -> ChatMessage:
    parts, calls = read_answer(item)
    blocks = [*map(_read_part, parts), *(_read_call(call, item) for call in calls)]
    beside = {"tool_call_id": item["tool_call_id"]} if item["role"] == "tool" else {}
    return ChatMessage(role=MessageRole(item["role"]), blocks=blocks, additional_kwargs=beside)


def _read_part(part: Wire) -> Any:
    own = part.get(_OWN) or part
    field = _MEDIA.get(own.get("block_type", ""), "")
    if own.get(field) == "":
        source = part[part["type"]]
        data = source.get("data") or source.get("url") or source.get("file_data")
        own = {**own, field: data.rpartition(",")[2]}
    if "block_type" in own:
        with suppress(ValidationError):  # a file that was named by its path may be gone
            return _BLOCK.validate_python(own)
    if part["type"] == "image_url" and own is part:
        return ImageBlock(url=part["image_url"]["url"])
    return TextBlock(text=part.get("text") or json.dumps(part, ensure_ascii=False))


def _read_call(call: Wire, item: Wire) -> ToolCallBlock:
    function = call["function"]
    arguments: Any = function["arguments"] or "{}"
    if not item.get(_TEXT_ARGUMENTS):
        with suppress(ValueError):  # a model may have written broken JSON
            arguments = json.loads(arguments)
    return ToolCallBlock(tool_call_id=call["id"], tool_name=function["name"], tool_kwargs=arguments)


BRIDGE: Final[Bridge[ChatMessage]] = Bridge(to_wire, from_wire)
