"""LangChain's messages as chat items and back; a function of the message alone.

LangChain mixes shapes: content may hold the blocks of any provider, and tool calls stand beside it once more.
Here each has one place: calls in `tool_calls`, thinking in `thinking_blocks`, media as OpenAI writes it.
Items are only measured and stored. What is sent is LangChain's own message, unless a fold changed it.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from refold.adapters.bridge import ITEM_ID, TEXTS, Bridge, Wire, is_reasoning_item, mark_places, read_answer

MADE: Final[Mapping[str, str]] = {"lc_source": "summarization"}
"""The mark with which LangChain's own middleware tells a summary from what a user said."""
_THINKING: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CALLS: Final = frozenset(
    {"tool_use", "tool_call", "function_call", "tool_call_chunk", "invalid_tool_call", "input_json_delta"}
)
"""Blocks of content that say once more what `tool_calls` says: Anthropic, LangChain's own, Responses."""
_KINDS: Final[Mapping[str | None, str]] = {
    **dict.fromkeys(_THINKING, "thinking"),
    **dict.fromkeys(_CALLS, "call"),
}
_MEDIA: Final = frozenset({"image", "file", "audio", "video", "document", "media"})
_OWN: Final = "langchain"
"""The field of a block that holds LangChain's own, where chat has none that says the same; also its type."""
_to_json: Final = json.JSONEncoder(ensure_ascii=False).encode
"""`json.dumps` makes a new encoder for each call where an option is given."""


def to_wire(message: AnyMessage) -> tuple[Wire, ...]:
    """Return the chat item of a message."""
    item: Wire = _WRITERS.get(message.type, _write_user)(message)
    if message.name:
        item["name"] = message.name
    return (item,)


def _write_user(message: AnyMessage) -> Wire:
    content = message.content
    return {"role": "user", "content": content if isinstance(content, str) else _write_content(content)}


def _write_system(message: AnyMessage) -> Wire:
    return {"role": "system", "content": _write_content(message.content)}


def _write_result(message: ToolMessage) -> Wire:
    item = {"role": "tool", "tool_call_id": message.tool_call_id, "content": _write_content(message.content)}
    if message.status == "error":
        item["status"] = "error"
    return item


def _write_assistant(message: AIMessage) -> Wire:
    content, called = message.content, message.tool_calls
    item: Wire = {"role": "assistant", "content": content}
    kinds = [] if isinstance(content, str) else _fill_blocks(item, content)
    if called or message.invalid_tool_calls:
        calls = [(call, _to_json(call["args"])) for call in called]
        # without an id or a name nothing can answer them; the arguments are the model's own text
        calls += [
            (call, call["args"] or "") for call in message.invalid_tool_calls if call["id"] and call["name"]
        ]
        ids = _find_item_ids(content) if "call" in kinds else {}
        item["tool_calls"] = [
            {
                "id": call["id"] or "",  # as its result has it, which cannot be without an id
                "type": "function",
                "function": {"name": call["name"], "arguments": text},
                **ids.get(call["id"], {}),
            }
            for call, text in calls
        ]
    version = message.response_metadata.get("output_version")
    if version:
        item["output_version"] = version
    return item


def _fill_blocks(item: Wire, content: Sequence[Any]) -> list[str]:
    """Put each block of an answer in its place, and return what each of them is."""
    kinds: list[str] = []
    thinking: list[Any] = []
    others: list[Any] = []
    for block in content:
        kind = _KINDS.get(block.get("type"), "") if isinstance(block, dict) else ""
        kinds.append(kind)
        if not kind:
            others.append(block)
        elif kind == "thinking":
            thinking.append(block)
    if thinking and _must_keep_reasoning(content, others):
        kinds = ["" if kind == "thinking" else kind for kind in kinds]
        others, thinking = [b for b, kind in zip(content, kinds, strict=True) if not kind], []
    item["content"] = _write_content(others)
    if thinking:
        item["thinking_blocks"] = mark_places(thinking, kinds)
        item["reasoning_content"] = "\n".join(filter(None, map(_read_thinking, thinking)))
    return kinds


def _must_keep_reasoning(content: Sequence[Any], others: Sequence[Any]) -> bool:
    """True for reasoning that led to calls which the provider ran itself: these are not taken without it.

    others   blocks of the content that are neither thinking nor calls of our own
    """
    for block in others:  # nearly always one text
        if isinstance(block, dict) and block.get("type") not in TEXTS and "id" in block:
            return any(is_reasoning_item(each.get("id")) for each in content if isinstance(each, dict))
    return False


def _find_item_ids(content: Sequence[Any]) -> dict[Any, Wire]:
    """Return the field with the id that Responses gave to a call, by the id that its result names."""
    own: dict[Any, Wire] = {}
    standard: dict[Any, Wire] = {}
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "function_call" and block.get("id"):
            own[block.get("call_id")] = {ITEM_ID: block["id"]}
        elif kind == "tool_call" and (name := (block.get("extras") or {}).get("item_id")):
            standard[block.get("id")] = {ITEM_ID: name}
    return own | standard


def _read_thinking(block: Mapping[str, Any]) -> str:
    """Return the words of a block; those of Responses stand in its summary."""
    text = block.get("thinking") or block.get("reasoning")
    if isinstance(text, str):
        return text
    parts = block.get("summary") or block.get("content") or ()
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def _write_content(content: Any) -> Any:
    """Return content that is text or a list of blocks as a chat item has it.

    The cache points of Bedrock are left out: callers move them from message to message, which changes none.
    """
    if isinstance(content, str):
        return content
    return [
        block if isinstance(block, dict) and block.get("type") == "text" else _write_block(block)
        for block in content
        if isinstance(block, str) or "cachePoint" not in block
    ]


def _write_block(block: Any) -> Any:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not block.get("type"):
        return _write_untyped(block)
    return _write_media(block) if block["type"] in _MEDIA else block


def _write_untyped(block: Wire) -> Wire:
    """Return a block of Bedrock, which is named by its only key; JSON has no bytes, so media are base64."""
    kind, value = next(iter(block.items()), ("", None))
    source = value.get("source") if kind in _MEDIA and isinstance(value, dict) else None
    data = source.get("bytes") if isinstance(source, dict) else None
    if value is None or source is None or not isinstance(data, bytes):
        return {"type": _OWN, _OWN: block}
    media = f"{'application' if kind == 'document' else kind}/{value.get('format')}"
    item = _write_media({"type": kind, "mime_type": media, "filename": value.get("name"), "bytes": data})
    return {**item, _OWN: {kind: {**value, "source": {**source, "bytes": ""}}}}


def _write_media(block: Wire) -> Wire:
    """Return a picture, a sound or a document as OpenAI writes it; what names no data stays as it is.

    Media are measured by what they are. As a block that nobody understands they would count as text, and a
    picture would fill the window.
    """
    source = block.get("source")
    fields = {**block, **source} if isinstance(source, dict) else block
    kind = block["type"]
    media = fields.get("mime_type") or fields.get("media_type") or ("image/png" if kind == "image" else "")
    data = fields.get("base64") or fields.get("data") or fields.get("bytes")
    data = b64encode(data).decode() if isinstance(data, bytes) else data
    url = f"data:{media};base64,{data}" if isinstance(data, str) else fields.get("url")
    if not isinstance(url, str):
        if kind != "file" or "file" in block:
            return block
        return {"type": "file", "file": {"file_id": fields.get("file_id")}, _OWN: block}
    if kind == "image" or media.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    if media.startswith("audio/") and isinstance(data, str):
        encoding = media.removeprefix("audio/")
        return {"type": "input_audio", "input_audio": {"data": data, "format": encoding}}
    name = fields.get("filename") or fields.get("title") or kind
    return {"type": "file", "file": {"filename": name, "file_data": url}}


_WRITERS: Final[Mapping[str, Callable[[Any], Wire]]] = {
    "human": _write_user,
    "ai": _write_assistant,
    "AIMessageChunk": _write_assistant,
    "tool": _write_result,
    "ToolMessageChunk": _write_result,
    "system": _write_system,
    "SystemMessageChunk": _write_system,
}
"""By the message's `type`; every other kind is the user's."""


def from_wire(items: Sequence[Wire]) -> list[AnyMessage]:
    """Make messages of what a fold made or changed."""
    return [_read_item(item) for item in items]


def _read_item(item: Wire) -> AnyMessage:
    role, name = item["role"], item.get("name")
    if role == "assistant":
        return _read_assistant(item, name)
    content = item.get("content") or ""
    if not isinstance(content, str):
        content = [_read_block(block) for block in content]
    if role == "tool":
        status = "error" if item.get("status") == "error" else "success"
        return ToolMessage(content, tool_call_id=item["tool_call_id"], name=name, status=status)
    if role == "system":
        return SystemMessage(content, name=name)
    return HumanMessage(content, name=name, additional_kwargs=dict(MADE))


def _read_block(block: Wire) -> Any:
    own = block.get(_OWN, block)
    if block["type"] == _OWN or own.get("type"):
        return own
    ((kind, value),) = own.items()
    chat = block[block["type"]]
    data = chat.get("data") or (chat.get("url") or chat["file_data"]).partition(",")[2]
    return {kind: {**value, "source": {**value["source"], "bytes": b64decode(data)}}}


def _read_assistant(item: Wire, name: str | None) -> AIMessage:
    content = item.get("content") or ""
    blocks, called = read_answer(item)
    if not isinstance(content, str) or len(blocks) > bool(content):  # with thinking even a text is a block
        named = (_read_item_id(call) for call in called if ITEM_ID in call)
        content = [_read_block(block) for block in (*blocks, *named)]
    version = item.get("output_version")
    calls = [_read_call(call) for call in called]
    return AIMessage(
        content,
        name=name,
        tool_calls=[call for call in calls if call["type"] == "tool_call"],
        invalid_tool_calls=[call for call in calls if call["type"] == "invalid_tool_call"],
        response_metadata={"output_version": version} if version else {},
    )


def _read_item_id(call: Wire) -> Wire:
    """Return a call as Responses has it; LangChain's own calls have no place for its id."""
    return {"type": "function_call", "id": call[ITEM_ID], "call_id": call["id"], **call["function"]}


def _read_call(call: Wire) -> dict[str, Any]:
    function = call["function"]
    made = {"id": call["id"], "name": function["name"]}
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        return {**made, "args": function["arguments"], "error": None, "type": "invalid_tool_call"}
    return {**made, "args": arguments, "type": "tool_call"}


BRIDGE: Final[Bridge[AnyMessage]] = Bridge(to_wire, from_wire)
