"""Agent Framework's messages as items of OpenAI chat, and back; knows no session.

An item stands for what a model reads. What no chat item has, such as approvals and hosted files, is carried
as a block of its own kind. Which messages are sent is decided by them, but they are sent as they are.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agent_framework import Content, Message

from refold.adapters.bridge import Bridge, Wire, is_reasoning_item

_SILENT: Final = frozenset({"usage", "text_reasoning"})
"""Contents that are no part of a chat message: reports, and reasoning that only its provider reads."""
_OWN: Final = "agent_framework"
"""The field of a file that holds the framework's own content, without its data."""


def to_wire(message: Message) -> list[Wire]:
    """Return the items of one message: one for what was said and called, one for each tool result."""
    role, contents, results = str(message.role), message.contents, []
    if len(contents) == 1 and contents[0].type == "text":  # most are; a long history has many
        return [{"role": role if role != "tool" else "user", "content": contents[0].text or ""}]
    blocks: list[Wire] = []
    calls: list[Wire] = []
    silent = _SILENT - {"text_reasoning"} if _must_keep_reasoning(message) else _SILENT
    for content in contents:
        if content.type == "text":
            blocks.append({"type": "text", "text": content.text or ""})
        elif content.type == "function_call":
            calls.append(_write_call(content))
        elif content.type == "function_result":
            results.append(
                {"role": "tool", "tool_call_id": content.call_id or "", "content": _write_result(content)}
            )
        elif content.type not in silent:
            blocks.append(_write_block(content))
    if results and not (blocks or calls):
        return results
    said: Wire = {"role": role if role != "tool" else "user", "content": _join_texts(blocks)}
    if calls:
        said = {"role": "assistant", "content": said["content"] or None, "tool_calls": calls}
    return [said, *results]


def _must_keep_reasoning(message: Message) -> bool:
    """True if reasoning led to calls that the provider ran itself: OpenAI takes none without the other."""
    ran = any(content.type == "mcp_server_tool_call" for content in message.contents)
    return ran and any(is_reasoning_item(getattr(content, "id", None)) for content in message.contents)


def _join_texts(blocks: list[Wire]) -> str | list[Wire]:
    if not blocks:
        return ""
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def _write_call(content: Content) -> Wire:
    arguments = content.arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, default=str)
    function = {"name": content.name, "arguments": text}
    return {"id": content.call_id or "", "type": "function", "function": function}


def _write_result(content: Content) -> str | list[Wire]:
    items = content.items or ()
    if any(item.type != "text" for item in items):
        return [
            {"type": "text", "text": item.text or ""} if item.type == "text" else _write_block(item)
            for item in items
        ]
    result = content.result
    return result if isinstance(result, str) else json.dumps(result, default=str)


def _write_block(content: Content) -> Wire:
    """Return media as a chat has them, so that they are measured by what they are; others as they are."""
    own = content.to_dict()
    if content.type not in {"data", "uri"}:
        return own
    media, uri = str(content.media_type or ""), own.pop("uri", None)
    if media.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": uri}}
    return {"type": "file", "file": {"filename": media, "file_data": uri}, _OWN: own}


def from_wire(items: Sequence[Wire]) -> list[Message]:
    """Return messages for items that a fold made or changed."""
    return [Message(role=item["role"], contents=list(_read_contents(item))) for item in items]


def _read_contents(item: Wire) -> Iterator[Content]:
    if item["role"] == "tool":
        yield Content.from_function_result(
            call_id=item["tool_call_id"], result=list(_read_blocks(item["content"]))
        )
        return
    yield from _read_blocks(item.get("content"))
    for call in item.get("tool_calls") or ():
        function = call["function"]
        yield Content.from_function_call(
            call_id=call["id"], name=function["name"], arguments=function["arguments"]
        )


def _read_blocks(content: str | Sequence[Mapping[str, Any]] | None) -> Iterator[Content]:
    if isinstance(content, str):
        if content:
            yield Content.from_text(content)
        return
    for block in content or ():
        if block["type"] == "text":
            yield Content.from_text(block["text"])
        elif block["type"] == "image_url":
            url = block["image_url"]["url"]
            yield Content.from_uri(url, media_type=None if url.startswith("data:") else "image/*")
        elif _OWN in block:
            yield Content.from_dict({**block[_OWN], "uri": block["file"]["file_data"]})
        else:
            yield Content.from_dict(block)


BRIDGE: Final = Bridge(to_wire, from_wire)
