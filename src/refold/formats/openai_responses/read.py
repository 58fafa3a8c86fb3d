"""Reads OpenAI Responses items into messages; looks only where it knows its way and carries the rest."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.core.messages.message import (
    Document,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Wire,
)
from refold.formats.shared.reading import (
    Misfit,
    data_url,
    fields_besides,
    kind,
    maybe_list,
    maybe_text,
    read_each,
    read_items,
    role_at,
    text_at,
    type_of,
    unknown_role,
)

NAME: Final = "responses"
ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
_OWN_ITEMS: Final = frozenset(
    {
        "reasoning",
        "item_reference",
        "compaction",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
    }
)
_OWN_BLOCKS: Final = frozenset({"input_text", "output_text", "input_image", "input_file"})
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})
_TEXT_FIELDS: Final = frozenset({"type", "text"})
_REFUSAL: Final[Mapping[str, Any]] = {"type": "refusal"}
GIVEN: Final[Mapping[str, str]] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
}
"""Where a call keeps what it wants done."""
NAMED: Final = frozenset({"function_call", "custom_tool_call"})
_CALL: Final = "_call"
OUTPUT: Final = "_output"
_REASONING_FIELDS: Final = frozenset({"type", "encrypted_content"})


def recognise(item: Any) -> str:
    """Find what only Responses has: items that are no messages, and its own names for content."""
    if not isinstance(item, dict) or "parts" in item:
        return ""
    what = type_of(item)
    if what in _OWN_ITEMS or what.endswith((_CALL, f"{_CALL}{OUTPUT}")):
        return ".type"
    content = item.get("content")
    if isinstance(content, list):
        for index, block in enumerate(content):
            if isinstance(block, dict) and type_of(block) in _OWN_BLOCKS:
                return f".content[{index}]"
    return ".type" if what == "message" and isinstance(content, str) else ""


def parse(items: Sequence[Any]) -> tuple[Message, ...]:
    """Read a history."""
    return read_items("Responses", items, _message)


def _message(item: dict[str, Any]) -> Message:
    what = type_of(item)
    if not what and isinstance(item.get("id"), str) and item.keys() <= {"id", "type"}:
        what = "item_reference"
    if what in ("", "message"):
        return _said(item)
    role, part = _item(what, item)
    parts = (part,)
    name = item.get("id")
    return Message(
        role, parts, id=name if isinstance(name, str) else None, wire=Wire(NAME, item, parts, (item,))
    )


def _said(item: dict[str, Any]) -> Message:
    word = role_at(item)
    role = ROLES.get(word)
    if role is None:
        return unknown_role(NAME, item, word)
    content = item.get("content")
    raws: tuple[Any, ...] = ()
    if isinstance(content, str):
        parts: tuple[Part, ...] = (Text(content),) if content else ()
    else:
        blocks = maybe_list(item, "content")
        raws = tuple(blocks)
        parts = read_each(blocks, ".content", _block)
    name = item.get("id")
    return Message(
        role, parts, id=name if isinstance(name, str) else None, wire=Wire(NAME, item, parts, raws)
    )


def _item(what: str, item: dict[str, Any]) -> tuple[Role, Part]:
    """Read an item that is not a message; what has no partner in the list is carried whole."""
    if what == "reasoning":
        return "assistant", _reasoning(item)
    call_id = _call_id(what, item)
    if call_id is not None and what.endswith(_CALL):
        return "assistant", _call(what, call_id, item)
    if call_id is not None and what.endswith(OUTPUT):
        extra = _item_extra(what, item, "function_call_output", ("call_id", "output"))
        return "tool", ToolResult(call_id, _output(item), extra=extra)
    answers = what.endswith((OUTPUT, "_response"))
    return "tool" if answers else "assistant", Opaque(what, item)


def _call_id(what: str, item: dict[str, Any]) -> str | None:
    """Find the id that joins call and output; the first shell tool had it under `id` in its output."""
    if what.removesuffix(OUTPUT) in NAMED:
        return text_at(item, "call_id")
    call_id = maybe_text(item, "call_id")
    return maybe_text(item, "id") if call_id is None and what == "local_shell_call_output" else call_id


def _call(what: str, call_id: str, item: dict[str, Any]) -> ToolCall:
    name = text_at(item, "name") if what in NAMED else what.removesuffix(_CALL)
    key = GIVEN.get(what, "arguments")
    given = item.get(key)
    if given is not None and not isinstance(given, (str, dict)):
        raise Misfit(f".{key}", f"expected JSON text or an object, found {kind(given)}")
    extra = _item_extra(what, item, "function_call", ("call_id", "name", key))
    return ToolCall(call_id, name, "" if given is None else given, extra)


def _item_extra(what: str, item: dict[str, Any], usual: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    """Give an item's other fields, and its type where it is not the usual one."""
    extra = fields_besides(item, frozenset({"type", *known}))
    return extra if what == usual else {"type": what, **extra}


def _output(item: dict[str, Any]) -> tuple[Part, ...]:
    output = item.get("output")
    if isinstance(output, str):
        return (Text(output),) if output else ()
    if isinstance(output, dict):
        return read_each([output], ".output", _block)
    return read_each(maybe_list(item, "output"), ".output", _block)


def _reasoning(item: dict[str, Any]) -> Thinking:
    texts = [
        block["text"]
        for key in ("summary", "content")
        for block in maybe_list(item, key)
        if isinstance(block, dict) and isinstance(block.get("text"), str)
    ]
    return Thinking(
        texts[0] if len(texts) == 1 else "\n".join(texts),
        redacted=maybe_text(item, "encrypted_content"),
        extra=fields_besides(item, _REASONING_FIELDS),
    )


def _block(block: dict[str, Any]) -> Part:
    what = type_of(block)
    if what in _TEXTS:
        return Text(text_at(block, "text"), fields_besides(block, _TEXT_FIELDS))
    if what == "refusal":
        return Text(text_at(block, "refusal"), _REFUSAL)
    if what in ("input_image", "computer_screenshot"):
        return _image(block)
    if what == "input_file":
        return _file(block)
    if not what and isinstance(block.get("stdout"), str):  # of a shell's output
        return Text(
            "\n".join(text for text in (block["stdout"], block.get("stderr")) if isinstance(text, str))
        )
    return Opaque(what or "block", block)


def _image(block: dict[str, Any]) -> Image:
    url, file_id, detail = (maybe_text(block, key) for key in ("image_url", "file_id", "detail"))
    inline = None if url is None else data_url(url)
    if inline is None:
        return Image(url=url, file_id=file_id, detail=detail)
    return Image(media_type=inline[0], data=inline[1], detail=detail)


def _file(block: dict[str, Any]) -> Part:
    keys = ("filename", "file_data", "file_url", "file_id")
    name, data, url, file_id = (maybe_text(block, key) for key in keys)
    if data is None and url is None:
        return File(name=name, file_id=file_id)
    inline = None if data is None else data_url(data)
    if inline is None:
        return Document(title=name, data=data, url=url)
    return Document(title=name, media_type=inline[0], data=inline[1])


def role_of(item: Mapping[str, Any]) -> Role | None:
    """Give the role of a message item; None for all other items, whose role says nothing on the wire."""
    return ROLES.get(item["role"]) if type_of(item) in ("", "message") and "role" in item else None
