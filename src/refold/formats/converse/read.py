"""Reads Bedrock Converse messages; what it does not understand it carries unchanged."""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from refold.core.messages.message import (
    Document,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Role,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.formats.shared import reading
from refold.formats.shared.wire_kinds import own_kinds

NAME: Final = "converse"
ROLES: Final[Mapping[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system"}
CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
"""The call ids that Bedrock accepts."""
TEXT_FORMATS: Final[Mapping[str, str]] = {"txt": "text/plain", "md": "text/markdown", "html": "text/html"}
_WORDS: Final = {
    "json": "json",
    "searchResult": "searchResult.content.*.text",
    "document": "document.source.content.*.text",
    "guardContent": "guardContent.text.text",
}
"""Where carried blocks have words that may be shortened."""
_CALL_FIELDS: Final = frozenset({"toolUseId", "name", "input"})
_RESULT_FIELDS: Final = frozenset({"toolUseId", "content", "status"})
_THOUGHT_FIELDS: Final = frozenset({"text", "signature"})


def recognise(item: Any) -> str:
    """Return the path of what only Converse has: blocks that have no type and consist of one known field."""
    if not isinstance(item, dict) or "parts" in item or "type" in item:
        return ""
    kinds = own_kinds(NAME)
    return reading.find_block(item, lambda block: len(block) == 1 and next(iter(block)) in kinds)


def parse(items: Sequence[Any]) -> tuple[Message, ...]:
    """Read a history."""
    return reading.read_items("Converse", items, _read_message)


def _read_message(item: dict[str, Any]) -> Message:
    role_name = reading.text_at(item, "role")
    role = ROLES.get(role_name)
    if role is None:
        return reading.carry_unknown_role(NAME, item, role_name)
    blocks = reading.optional_list(item, "content")
    parts = reading.read_blocks(blocks, ".content", _read_block)
    return reading.make_message(role, parts, wire=reading.make_wire(NAME, item, parts, blocks))


def _read_block(block: dict[str, Any]) -> Part:
    key = _only_field(block)
    # what Bedrock ran by itself has a type, and its result stands in the same message
    if key == "toolUse" and "type" not in (call := reading.object_at(block, key)):
        return reading.read_at(key, _read_call, call)
    if key == "toolResult" and "type" not in (result := reading.object_at(block, key)):
        return reading.read_at(key, _read_result, result)
    return _read_inner_block(block)


def _only_field(block: dict[str, Any]) -> str:
    """Return the field that says what a block is."""
    if len(block) != 1 or "type" in block:
        found = ", ".join(map(str, block))[:80] or "none"
        raise reading.Misfit("", f"expected an object with one field that says what it is, found {found}")
    return next(iter(block))


def _read_inner_block(block: dict[str, Any]) -> Part:
    """Read a block that may also stand inside a tool result."""
    key = _only_field(block)
    if key == "text":
        return reading.make_text(reading.text_at(block, key))
    if key == "reasoningContent":
        thought = reading.read_at(key, _read_thought, reading.object_at(block, key))
        return Opaque(key, block) if thought is None else thought
    if key in ("image", "document", "video", "audio"):
        media = reading.read_at(key, partial(_read_media, key), reading.object_at(block, key))
        if key != "document" or "content" not in block[key]["source"]:
            return media
    return Opaque(key, block, _WORDS.get(key))


def _read_call(value: dict[str, Any]) -> ToolCall:
    arguments, extra = reading.call_arguments(value, "input"), reading.other_fields(value, _CALL_FIELDS)
    return ToolCall(reading.text_at(value, "toolUseId"), reading.text_at(value, "name"), arguments, extra)


def _read_result(value: dict[str, Any]) -> ToolResult:
    blocks = reading.optional_list(value, "content")
    return ToolResult(
        reading.text_at(value, "toolUseId"),
        reading.read_blocks(blocks, ".content", _read_inner_block),
        is_error=value.get("status") == "error",
        extra=reading.other_fields(value, _RESULT_FIELDS),
    )


def _read_thought(value: dict[str, Any]) -> Thinking | None:
    """Read reasoning: with its words, or encrypted as text; None for bytes, which only Bedrock reads."""
    if isinstance(value.get("reasoningText"), dict):
        thought = value["reasoningText"]
        return Thinking(
            reading.text_at(thought, "text", ".reasoningText"),
            signature=reading.optional_text(thought, "signature", ".reasoningText"),
            extra=reading.other_fields(thought, _THOUGHT_FIELDS),
        )
    redacted = value.get("redactedContent")
    return Thinking("", redacted=redacted) if isinstance(redacted, str) else None


def _read_media(key: str, value: dict[str, Any]) -> Part:
    kind, source = reading.optional_text(value, "format"), reading.object_at(value, "source")
    location = source.get("s3Location")
    url = reading.optional_text(location, "uri", ".source.s3Location") if isinstance(location, dict) else None
    data = source.get("bytes")
    if isinstance(data, (bytes, bytearray)):
        data = b64encode(data).decode("ascii")  # the SDK takes bytes, and JSON carries them so
    if data is not None and not isinstance(data, str):
        raise reading.Misfit(".source.bytes", f"expected bytes or a string, found {reading.json_type(data)}")
    if key == "image":
        return Image(media_type=f"image/{kind}" if kind else None, data=data, url=url)
    if key != "document":
        return File(media_type=f"{key}/{kind}" if kind else None, data=data, url=url)
    media_type = TEXT_FORMATS.get(kind or "", f"application/{kind}" if kind else None)
    text = reading.optional_text(source, "text", ".source")
    return Document(
        title=reading.optional_text(value, "name"), text=text, data=data, url=url, media_type=media_type
    )
