"""The messages of Pydantic AI as chat items and back; a function of the message alone.

A request is several items: system prompts, prompts, tool results. A response is one. Items are measured and
stored. What is sent is Pydantic AI's own message, unless a fold changed it. So that such a message can be
made again with its signatures and files, the items keep these in fields of their own.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from refold.adapters.bridge import (
    ITEM_ID,
    REASONING,
    Bridge,
    Wire,
    is_reasoning_item,
    mark_places,
    read_answer,
)

_SIGNED: Final = ("id", "signature", "provider_name", "provider_details")
"""What a provider wants back beside the text of its thinking."""
_SENT: Final = ("provider_name", "provider_details")
_RAN: Final = "builtin-tool-call"
"""The kind of a call that the provider ran itself; it is sent by its id."""
_VALUE: Final = "pydantic_ai"
"""The field of a block that holds a value of Pydantic AI as JSON, where chat has no block for it."""
_NAMES: Final = {"tool-call": "call"}
_FILE: Final = "file_part"
"""The field of a file that a model made, with what its provider wants back."""


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return what reads and writes a kind of value; slow to make, and only needed for rare values."""
    return TypeAdapter(kind)


def to_wire(message: ModelMessage) -> Sequence[Wire]:
    """Return the chat items of a message."""
    parts = message.parts
    if isinstance(message, ModelResponse):
        if len(parts) == 1 and parts[0].part_kind == "text":  # most responses; a long history has many
            return ({"role": "assistant", "content": parts[0].content},)
        return (_write_response(parts),)
    items = [_REQUEST_PARTS.get(part.part_kind, _carry_request_part)(part) for part in parts]
    return items or ({"role": "user", "content": ""},)  # a request of instructions alone


# -- requests ----------------------------------------------------------------------------------------------


def _write_system(part: Any) -> Wire:
    return {"role": "system", "content": part.content}


def _write_user(part: Any) -> Wire:
    content = part.content
    return {"role": "user", "content": content if isinstance(content, str) else _write_blocks(content)}


def _write_result(part: Any) -> Wire:
    content = part.content
    item = {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.tool_name}
    if isinstance(content, str):
        item["content"] = content
    elif files := part.files:
        item["content"] = [{"type": "text", "text": part.model_response_str()}, *_write_blocks(files)]
    else:
        item["content"] = part.model_response_str()
    if part.outcome != "success":
        item["outcome"] = part.outcome
    return item


def _write_retry(part: Any) -> Wire:
    """Write what asks the model to try again: the result of a call, or words to it."""
    text = part.model_response()
    if getattr(part, "tool_name", None) is None:
        return {"role": "user", "content": text}
    return {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.tool_name, "content": text}


def _carry_request_part(part: Any) -> Wire:
    """Write a part that chat has nothing for; it stays whole or is left out."""
    value = _adapter(ModelRequestPart).dump_python(part, mode="json")
    return {"role": "user", "content": [{"type": part.part_kind, _VALUE: value}]}


_REQUEST_PARTS: Final[Mapping[str, Callable[[Any], Wire]]] = {
    "system-prompt": _write_system,
    "user-prompt": _write_user,
    "tool-return": _write_result,
    "retry-prompt": _write_retry,
    "retry-feedback": _write_retry,
}


def _write_blocks(contents: Sequence[Any]) -> list[Wire]:
    return [
        {"type": "text", "text": content} if isinstance(content, str) else _write_media(content)
        for content in contents
    ]


def _write_media(content: Any) -> Wire:
    """Write what is no plain text, so that it is counted as what it is and can be read again as it was."""
    if content.kind == "binary":
        return _write_binary(content)
    block = {"type": content.kind, _VALUE: _adapter(UserContent).dump_python(content, mode="json")}
    if content.kind == "image-url":
        return {**block, "type": "image_url", "image_url": {"url": content.url}}
    return {**block, "type": "text", "text": content.content} if content.kind == "text-content" else block


def _write_binary(content: BinaryContent) -> Wire:
    about = {"media_type": content.media_type, "vendor_metadata": content.vendor_metadata}
    if content.is_image:
        return {"type": "image_url", "image_url": {"url": content.data_uri}, _VALUE: about}
    file = {"filename": content.identifier, "file_data": content.data_uri}
    return {"type": "file", "file": file, _VALUE: about}


# -- responses ---------------------------------------------------------------------------------------------


def _write_response(parts: Sequence[Any]) -> Wire:
    blocks: list[Wire] = []
    thinking: list[Wire] = []
    calls: list[Wire] = []
    kinds = _name_kinds(parts)
    for part, kind in zip(parts, kinds, strict=True):
        if kind == "text":
            text = {"type": "text", "text": part.content}
            blocks.append(text if part.id is None else {**text, "id": part.id})
        elif kind == "call":
            calls.append(_write_call(part))
        elif kind == "thinking":
            thinking.append(_fill({"type": "thinking", "thinking": part.content}, part, _SIGNED))
        elif kind == "file":
            blocks.append({**_write_binary(part.content), _FILE: _fill({}, part, ("id", *_SENT))})
        else:
            value = _adapter(ModelResponsePart).dump_python(part, mode="json")
            blocks.append({"type": kind, _VALUE: value})
    item: Wire = {"role": "assistant", "content": _join_blocks(blocks, has_calls=bool(calls))}
    if thinking:
        item["reasoning_content"] = "\n".join([block["thinking"] for block in thinking])
        item["thinking_blocks"] = mark_places(thinking, kinds)
    if calls:
        item["tool_calls"] = calls
    return item


def _name_kinds(parts: Sequence[Any]) -> list[str]:
    """Return what each part is; reasoning that led to calls which the provider ran itself stays with them."""
    kinds = [_NAMES.get(kind := part.part_kind, kind) for part in parts]
    if _RAN in kinds and any(part.part_kind == "thinking" and is_reasoning_item(part.id) for part in parts):
        return [REASONING if kind == "thinking" else kind for kind in kinds]
    return kinds


def _join_blocks(blocks: list[Wire], *, has_calls: bool) -> list[Wire] | str | None:
    if not blocks:
        return None if has_calls else ""
    return blocks[0]["text"] if len(blocks) == 1 and len(blocks[0]) == 2 and "text" in blocks[0] else blocks


def _write_call(part: ToolCallPart) -> Wire:
    arguments = part.args if isinstance(part.args, str) else part.args_as_json_str()
    function = {"name": part.tool_name, "arguments": arguments}
    call: Wire = {"id": part.tool_call_id, "type": "function", "function": function}
    if part.id is not None:
        call[ITEM_ID] = part.id
    if part.provider_name is not None:
        call[_VALUE] = _fill({}, part, _SENT)
    return call


def _fill(block: Wire, part: Any, names: Sequence[str]) -> Wire:
    """Add the fields that a part has, and return the block: to make another takes twice as long."""
    for name in names:
        if (value := getattr(part, name)) is not None:
            block[name] = value
    return block


# -- back ----------------------------------------------------------------------------------------------------


def from_wire(items: Sequence[Wire]) -> list[ModelMessage]:
    """Make messages of items that a fold made or changed; neighbours of one side become one request."""
    messages: list[ModelMessage] = []
    for item in items:
        if item["role"] == "assistant":
            messages.append(_read_response(item))
            continue
        parts = _read_request_parts(item)
        if messages and isinstance(messages[-1], ModelRequest):
            parts = [*messages.pop().parts, *parts]
        messages.append(ModelRequest(parts=parts))
    return messages


def _read_request_parts(item: Wire) -> list[Any]:
    content = item.get("content") or ""
    if item["role"] == "tool":
        name = item.get("name") or "tool"
        value = content if isinstance(content, str) else _read_result_content(content)
        outcome = item.get("outcome", "success")
        return [ToolReturnPart(name, value, tool_call_id=item["tool_call_id"], outcome=outcome)]
    if item["role"] in ("system", "developer"):
        text = content if isinstance(content, str) else "\n".join(block["text"] for block in content)
        return [SystemPromptPart(text)]
    if isinstance(content, str):
        return [UserPromptPart(content)]
    carried = [block[_VALUE] for block in content if "part_kind" in (block.get(_VALUE) or ())]
    if carried:
        return [_adapter(ModelRequestPart).validate_python(value) for value in carried]
    return [UserPromptPart([_read_block(block) for block in content])]


def _read_result_content(blocks: Sequence[Wire]) -> Any:
    values = [_read_block(block) for block in blocks]
    return values[0] if len(values) == 1 else values


def _read_block(block: Wire) -> Any:
    value = block.get(_VALUE)
    if value is None:
        return block.get("text", "")
    if "kind" in value:
        return _adapter(UserContent).validate_python(value)
    source = block["image_url"]["url"] if "image_url" in block else block["file"]["file_data"]
    return BinaryContent(data=b64decode(source.partition(",")[2]), **value)


def _read_response(item: Wire) -> ModelResponse:
    blocks, calls = read_answer(item)
    parts = [*map(_read_response_block, blocks), *map(_read_call, calls)]
    makers = (part.provider_name for part in parts)
    return ModelResponse(parts=parts, provider_name=next((name for name in makers if name), None))


def _read_response_block(block: Wire) -> Any:
    if block["type"] == "thinking":
        return ThinkingPart(block["thinking"], **{name: block[name] for name in _SIGNED if name in block})
    if _FILE in block:
        return FilePart(BinaryContent.narrow_type(_read_block(block)), **block[_FILE])
    if _VALUE in block:
        return _adapter(ModelResponsePart).validate_python(block[_VALUE])
    return TextPart(block["text"], id=block.get("id"))


def _read_call(call: Wire) -> ToolCallPart:
    function = call["function"]
    beside = {"id": call.get(ITEM_ID), **call.get(_VALUE, {})}
    return ToolCallPart(function["name"], function["arguments"], call["id"], **beside)


BRIDGE: Final[Bridge[ModelMessage]] = Bridge(to_wire, from_wire)
