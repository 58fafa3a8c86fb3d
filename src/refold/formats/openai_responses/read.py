"""Reads OpenAI Responses items into messages; what it does not understand it carries unchanged."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.core.messages.message import (
    Message,
    Opaque,
    Part,
    Role,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.messages.unread import ASKED_COMPACTION, COMPACTIONS, FAILED_COMPACTION
from refold.formats.shared import reading
from refold.formats.shared.wire_kinds import is_interaction_step, own_kinds

NAME: Final = "responses"
ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
_SYSTEM_ITEMS: Final = frozenset({"additional_tools", "configuration_update", "compaction_trigger"})
"""Items with which a program steers the model; they hold until others replace them, so folds keep them."""
_TEXT_BLOCKS: Final = frozenset({"input_text", "output_text", "text"})
_OWN_BLOCKS: Final = frozenset({"input_text", "output_text", "input_image", "input_file"})
ARGUMENT_KEYS: Final[Mapping[str, str]] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
    "program": "code",
}
"""The field of each type of call that holds its arguments."""
RESULT_KEYS: Final[Mapping[str, str]] = {"program_output": "result", "tool_search_output": "tools"}
"""The field of an output that holds the result, where it is not `output`."""
_WORDS: Final = {
    "mcp_call": "output",
    "mcp_list_tools": "tools.*.description",
    "file_search_call": "results.*.text",
    "code_interpreter_call": "outputs.*.logs",
    "agent_message": "content.*.text",
}
"""Where carried items have words that may be shortened."""
NAMED_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
"""Calls that name their tool; for the others the type itself is the tool."""
_CALL: Final = "_call"
OUTPUT: Final = "_output"
_REASONING_FIELDS: Final = frozenset({"type", "encrypted_content"})


def recognise(item: Any) -> str:
    """Return the path of what only Responses has: items that are no messages, and its own content blocks."""
    if not isinstance(item, dict) or "parts" in item:
        return ""
    kind = reading.block_type(item)
    is_known = kind in own_kinds(NAME) or kind in COMPACTIONS or kind.endswith((_CALL, f"{_CALL}{OUTPUT}"))
    if is_known and kind != "message" and not is_interaction_step(item):  # some types are the same there
        return ".type"
    if path := reading.find_block(item, lambda block: reading.block_type(block) in _OWN_BLOCKS):
        return path
    return ".type" if kind == "message" and isinstance(item.get("content"), str) else ""


def parse(items: Sequence[Any]) -> tuple[Message, ...]:
    """Read a history."""
    return reading.read_items("Responses", items, _read_message)


def _read_message(item: dict[str, Any]) -> Message:
    kind = reading.block_type(item)
    if not kind and isinstance(item.get("id"), str) and item.keys() <= {"id", "type"}:
        kind = "item_reference"
    parts: tuple[Part, ...]
    raws: Sequence[Any]
    if kind in ("", "message"):
        role_name = reading.text_at(item, "role")
        known_role = ROLES.get(role_name)
        if known_role is None:
            return reading.carry_unknown_role(NAME, item, role_name)
        role = known_role
        parts, raws = reading.read_content(item, _read_block)
    else:
        role, part = _read_item(kind, item)
        parts, raws = (part,), (item,)
    wire = reading.make_wire(NAME, item, parts, raws)
    return reading.make_message(role, parts, id=reading.item_id(item), wire=wire)


def _read_item(kind: str, item: dict[str, Any]) -> tuple[Role, Part]:
    """Read an item that is not a message; one without a partner in the list is carried whole."""
    if kind == "reasoning":
        return "assistant", _read_reasoning(item)
    if kind in NAMED_CALLS or kind == "custom_tool_call_output":
        call_id: str | None = reading.text_at(item, "call_id")
    else:
        call_id = reading.optional_text(item, "call_id")
        if call_id is None and kind == "local_shell_call_output":
            call_id = reading.optional_text(item, "id")  # the first shell tool had it there
    if call_id is not None and (kind.endswith(_CALL) or kind == "program"):
        return "assistant", _read_call(kind, call_id, item)
    if call_id is not None and kind.endswith(OUTPUT):
        key = RESULT_KEYS.get(kind, "output")
        output = item.get(key)
        if isinstance(output, dict):
            content = reading.read_blocks([output], f".{key}", _read_block)
        else:
            content = reading.read_content(item, _read_block, key)[0]
        extra = _item_extra(kind, item, "function_call_output", ("call_id", key))
        is_error = item.get("status") == "failed" or _ends_badly(output)
        return "tool", ToolResult(call_id, content, is_error=is_error, extra=extra)
    has_content = bool(item.get("encrypted_content"))
    if kind in _SYSTEM_ITEMS or (kind == ASKED_COMPACTION and not has_content):
        return "system", Opaque(kind if kind in _SYSTEM_ITEMS else "compaction_trigger", item)
    if kind in COMPACTIONS and not has_content:
        return "assistant", Opaque(FAILED_COMPACTION, item)
    is_answer = kind.endswith((OUTPUT, "_response")) and item.get("execution") != "server"
    return "tool" if is_answer else "assistant", Opaque(kind, item, _WORDS.get(kind))


def _ends_badly(output: Any) -> bool:
    """True if a command in the output of a shell ended with an error, or did not end in time."""
    pieces = output if isinstance(output, list) else ()
    ends = [piece.get("outcome") for piece in pieces if isinstance(piece, dict)]
    return any(isinstance(end, dict) and end.get("exit_code") != 0 for end in ends)


def _read_call(kind: str, call_id: str, item: dict[str, Any]) -> ToolCall:
    name = reading.text_at(item, "name") if kind in NAMED_CALLS else kind.removesuffix(_CALL)
    key = ARGUMENT_KEYS.get(kind, "arguments")
    extra = _item_extra(kind, item, "function_call", ("call_id", "name", key))
    return ToolCall(call_id, name, reading.call_arguments(item, key, is_text=True), extra)


def _item_extra(kind: str, item: dict[str, Any], usual: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    """Return an item's other fields, with its type if that is not the usual one."""
    extra = reading.other_fields(item, frozenset({"type", *known}))
    return extra if kind == usual else {"type": kind, **extra}


def _read_reasoning(item: dict[str, Any]) -> Thinking:
    return Thinking(
        reading.join_texts(item, "summary", "content"),
        redacted=reading.optional_text(item, "encrypted_content"),
        extra=reading.other_fields(item, _REASONING_FIELDS),
    )


def _read_block(block: dict[str, Any]) -> Part:
    kind = reading.block_type(block)
    if kind in _TEXT_BLOCKS:
        return reading.read_text(block)
    if kind == "refusal":
        return reading.make_text(reading.text_at(block, "refusal"), reading.REFUSAL)
    if kind in ("input_image", "computer_screenshot"):
        url, file_id, detail = (
            reading.optional_text(block, key) for key in ("image_url", "file_id", "detail")
        )
        return reading.to_image(url, file_id=file_id, detail=detail)
    if kind == "input_file":
        keys = ("filename", "file_data", "file_url", "file_id")
        name, data, url, file_id = (reading.optional_text(block, key) for key in keys)
        return reading.to_file(name, data, url, file_id)
    if not kind and isinstance(block.get("stdout"), str):  # the output of a shell
        streams = (block["stdout"], block.get("stderr"))
        return reading.make_text("\n".join(text for text in streams if isinstance(text, str)))
    return reading.carry_block(block)


def role_of_item(item: Mapping[str, Any]) -> Role | None:
    """Return the role of a message item; None for other items, which have no role on the wire."""
    return ROLES.get(item["role"]) if reading.block_type(item) in ("", "message") and "role" in item else None
