"""Messages of `llm` as chat items, and back. Reasoning and metadata travel with the message itself."""

import base64
import json
from collections.abc import Sequence
from typing import Any

import llm
from llm.parts import AttachmentPart, Message, TextPart, ToolCallPart, ToolResultPart

from refold.adapters.bridge import Bridge


def to_wire(message: Message) -> list[dict[str, Any]]:
    """Return the chat items of a message; a message of tool results has one for each."""
    if message.role == "tool":
        return [_write_result(part) for part in message.parts if isinstance(part, ToolResultPart)]
    item = {"role": message.role, "content": _write_content(message.parts)}
    calls = [
        {
            "id": part.tool_call_id or part.name,
            "type": "function",
            "function": {"name": part.name, "arguments": json.dumps(part.arguments)},
        }
        for part in message.parts
        if isinstance(part, ToolCallPart) and not part.server_executed
    ]
    return [{**item, "tool_calls": calls} if calls else item]


def _write_result(part: ToolResultPart) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": part.tool_call_id or part.name, "content": part.output}


def _write_content(parts: Sequence[Any]) -> str | list[dict[str, Any]]:
    """Return a text, or a list of blocks where something is attached."""
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    attached = [part.attachment for part in parts if isinstance(part, AttachmentPart) and part.attachment]
    if not attached:
        return text
    return [*([{"type": "text", "text": text}] if text else []), *map(_write_attachment, attached)]


def _write_attachment(attachment: llm.Attachment) -> dict[str, Any]:
    kind = attachment.type or ""
    if attachment.content and not attachment.url:
        data = base64.b64encode(attachment.content).decode("ascii")
        url = f"data:{kind};base64,{data}"
    else:
        url = attachment.url or attachment.path or ""
    if kind and not kind.startswith("image/"):
        return {"type": "file", "file": {"filename": attachment.path or "file", "file_data": url}}
    return {"type": "image_url", "image_url": {"url": url}}


def from_wire(items: Sequence[Any]) -> list[Message]:
    """Return messages that a fold made or changed."""
    return [_read_item(item) for item in items]


def _read_item(item: dict[str, Any]) -> Message:
    if item["role"] == "tool":
        parts = [ToolResultPart(output=_read_text(item["content"]), tool_call_id=item["tool_call_id"])]
        return Message(role="tool", parts=parts)
    content = item.get("content") or ""
    blocks = [] if isinstance(content, str) else content
    text = _read_text(content)
    parts = [TextPart(text=text)] if text else []
    parts += [_read_attachment(block) for block in blocks if block["type"] != "text"]
    parts += [_read_call(call) for call in item.get("tool_calls") or ()]
    return Message(role=item["role"], parts=parts)


def _read_text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content if block["type"] == "text")


def _read_call(call: dict[str, Any]) -> ToolCallPart:
    function = call["function"]
    arguments = json.loads(function["arguments"] or "{}")
    return ToolCallPart(name=function["name"], arguments=arguments, tool_call_id=call["id"])


def _read_attachment(block: dict[str, Any]) -> AttachmentPart:
    """Return an attachment; what is neither data nor an address was a path."""
    url = block["image_url"]["url"] if block["type"] == "image_url" else block["file"]["file_data"]
    if url.startswith("data:"):
        kind, _, data = url.removeprefix("data:").partition(";base64,")
        attachment = llm.Attachment(type=kind or None, content=base64.b64decode(data))
    elif "://" in url:
        attachment = llm.Attachment(url=url)
    else:
        attachment = llm.Attachment(path=url)
    return AttachmentPart(attachment=attachment)


BRIDGE = Bridge(to_wire, from_wire)
