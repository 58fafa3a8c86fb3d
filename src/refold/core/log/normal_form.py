"""The normal form of a message: equal for one message in different JSON, whoever wrote it.

Clients and frameworks send the same history in other JSON: a string becomes one text block, nulls vanish, a
cache mark moves, ids and signatures are dropped. A name over the raw JSON would call that another history. So
a message is named by this form; what is stored and sent is what the caller wrote. Fields that no rule names
count in full.
"""

import json
from typing import Any, Final

from refold.core.messages.unread import COMPACTIONS

CACHED: Final = "cache_control"
"""Key with which Anthropic's clients mark the part of a request to cache."""
_CACHE_MARKS: Final = (CACHED, "cachePoint")
"""Fields that mark it: in a block or a message, and of a block of its own, as Converse has it."""
HEAD: Final = 2
"""Messages at the start of a history in which clients repeat their environment, such as today's date."""
ENVIRONMENT_TAGS: Final = ("system-reminder", "environment_context", "session_context")
"""Tags of blocks that a client writes anew in every session: Claude Code, Codex, gemini-cli. They are the
client's system prompt in another place, so they do not count in the first messages."""

_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", None})
_THINKING_TYPES: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_UNCOUNTED: Final = frozenset(
    {"cache_control", "annotations", "logprobs", "thoughtSignature", "thought_signature", "signature"}
)
"""Fields that providers add and clients drop or move; the meaning of a message does not depend on them."""
_UNCOUNTED_OF_ITEM: Final = _UNCOUNTED | {"id", "status", "encrypted_content"}
"""The same for a whole message or item: its id is the provider's or the client's own, not the call's."""
_THINKING_OF_ITEM: Final = frozenset(
    {"reasoning", "reasoning_content", "reasoning_details", "thinking_blocks"}
)
"""Thinking beside the content of a chat message: DeepSeek, OpenRouter, LiteLLM."""
_ANSWERED_BY_ID: Final = frozenset({"function_call", "mcp_approval_request"})
"""Items that their answer names by their own id, where they have no `call_id`: Interactions, Responses."""
_CONTENT_KEYS: Final = frozenset({"content", "parts", "output"})
"""Where a message or item holds text or a list of parts: OpenAI and Anthropic, Gemini, Responses outputs."""
PRIVATE: Final = "_native"
"""Key of a message for what is an adapter's own: stored, never counted, never sent."""
_WRITTEN_APART: Final = frozenset({"role", "type", "tool_calls", "arguments", PRIVATE})
_SKIPPED_AT_FIRST: Final = _UNCOUNTED_OF_ITEM | _THINKING_OF_ITEM | _WRITTEN_APART
_SKIPPED_OF_ITEM: Final = _UNCOUNTED_OF_ITEM | _WRITTEN_APART
_SKIPPED_OF_PART: Final = _UNCOUNTED | {"type"}
_SKIPPED_OF_CALL: Final = frozenset({"type", "function", "index"})
_USUAL_FIELDS_OF_CALL: Final = _SKIPPED_OF_CALL | {"id"}
_FALSE_BY_DEFAULT: Final = frozenset({"is_error", "thought"})
_JSON: Final = json.JSONEncoder()
_READ: Final = json.JSONDecoder().decode


def write_normal_form(item: Any, number: int) -> str:
    """Return the normal form of a message as text; only compared, never read.

    number   the message's place in its history, from 1; 0 if it has none

    >>> block = {"role": "user", "content": [{"type": "text", "text": "hi ", "cache_control": {"type": "x"}}]}
    >>> write_normal_form({"role": "user", "content": "hi"}, 1) == write_normal_form(block, 1)
    True
    """
    out: list[str] = []
    is_head = 0 < number <= HEAD
    if not isinstance(item, dict):
        _write_value(item, out)
        return "".join(out)
    if len(item) == 2 and "role" in item and "content" in item:  # most messages have nothing else
        content = item["content"]
        if type(content) is str:
            return f"{item['role']}|None|{_form_text(content, is_head=is_head)}"
        if content is not None:
            _write_content(content, out, is_head=is_head)
        return f"{item['role']}|None|{''.join(out)}"
    kind = item.get("type")
    kind = None if kind == "message" else kind
    out.append(f"{item.get('role')}|{kind}|")
    _write_item(item, out, _SKIPPED_AT_FIRST, is_head=is_head)
    if kind in _ANSWERED_BY_ID and item.get("call_id") is None:
        _write_field("id", item.get("id"), out)
    if len(out) == 1 and not _THINKING_OF_ITEM.isdisjoint(item):  # thinking alone
        _write_item(item, out, _SKIPPED_OF_ITEM, is_head=False)
    if kind in COMPACTIONS and len(out) > 1:  # nothing else tells two of them apart
        _write_field("encrypted_content", item.get("encrypted_content"), out)
    if kind and len(out) == 1:  # an item that nothing else tells: a reference, or reasoning that is encrypted
        _write_item(item, out, _WRITTEN_APART, is_head=False)
    return "".join(out)


def _write_item(item: dict[str, Any], out: list[str], skipped: frozenset[str], *, is_head: bool) -> None:
    for key in sorted(item):
        if key in skipped:
            continue
        value = item[key]
        if value is None or value == []:
            continue
        if key in _CONTENT_KEYS:
            _write_content(value, out, is_head=is_head)
        else:
            _write_field(key, value, out)
    if "tool_calls" in item:
        for call in item["tool_calls"] or ():
            _write_call(call, out)
    if "arguments" in item:
        _write_arguments(item["arguments"], out)


def _write_content(content: Any, out: list[str], *, is_head: bool) -> None:
    if isinstance(content, str):
        if text := _form_text(content, is_head=is_head):
            out.append(text)
    elif isinstance(content, list):
        _write_parts(content, out, is_head=is_head)
    else:
        _write_value(content, out)


def _write_parts(parts: list[Any], out: list[str], *, is_head: bool) -> None:
    """Write a list of parts; thinking counts only if nothing else is there."""
    before, thinking = len(out), []
    for part in parts:
        if not isinstance(part, dict):
            _write_content(part, out, is_head=is_head)
            continue
        kind = part.get("type")
        usual = "" if is_head else _write_usual_part(part, kind)
        if usual:
            out.append(usual)
        elif kind in _THINKING_TYPES or part.get("thought") is True or "reasoningContent" in part:
            thinking.append(part)
        elif "cachePoint" in part and len(part) == 1:  # Converse marks what is cached by a block of its own
            continue
        else:
            _write_part(part, out, is_head=is_head)
    if len(out) == before:
        for part in thinking:
            _write_value(part, out)


def _form_text(text: str, *, is_head: bool) -> str:
    text = text.rstrip()
    # The length in front keeps two texts apart from one text that has both.
    return f"t{len(text)}:{text}" if text and not (is_head and _is_environment(text)) else ""


def _is_environment(text: str) -> bool:
    """True for a text that is nothing but one block with a client's environment."""
    text = text.lstrip()
    return any(
        text.startswith(f"<{tag}>") and text.find(end := f"</{tag}>") == len(text) - len(end)
        for tag in ENVIRONMENT_TAGS
    )


def _write_usual_part(part: dict[str, Any], kind: Any) -> str:
    """Return a text, a call or a result of Anthropic as `_write_part` writes it; empty for anything else.

    Nearly all parts of an agent's history are of these kinds, and one text for each takes half of the time.
    """
    size = len(part)
    if kind == "text" and size == 2 and isinstance(text := part.get("text"), str):
        text = text.rstrip()
        return f"t{len(text)}:{text}" if text else ""
    if kind == "tool_result" and size == 3:
        call_id, text = part.get("tool_use_id"), part.get("content")
        if isinstance(call_id, str) and isinstance(text, str) and (text := text.rstrip()):
            return f"ptool_result|t{len(text)}:{text}f11:tool_use_id=s{len(call_id)}:{call_id}"
    elif kind == "tool_use" and size == 4:
        call_id, name, given = part.get("id"), part.get("name"), part.get("input")
        if isinstance(call_id, str) and isinstance(name, str) and isinstance(given, dict):
            out = [f"ptool_use|f2:id=s{len(call_id)}:{call_id}f5:input="]
            _write_value(given, out)
            return f"{''.join(out)}f4:name=s{len(name)}:{name}"
    return ""


def _write_part(part: dict[str, Any], out: list[str], *, is_head: bool) -> None:
    kind = part.get("type")
    is_text = kind in _TEXT_TYPES and isinstance(part.get("text"), str)
    if not is_text:
        out.append(f"p{kind}|")
    for key in sorted(part):
        if key in _SKIPPED_OF_PART:
            continue
        value = part[key]
        if value is None or value == []:
            continue
        if key == "text" and is_text:
            _write_content(value, out, is_head=is_head)
        elif key == "content" and kind == "tool_result":
            _write_content(value, out, is_head=False)
        else:
            _write_field(key, value, out)


def _write_call(call: Any, out: list[str]) -> None:
    """Write a call of chat completions; its arguments are JSON in a text, which clients write anew."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        _write_value(call, out)
        return
    out.append("c")
    if isinstance(call_id := call.get("id"), str) and call.keys() <= _USUAL_FIELDS_OF_CALL:
        out.append(f"f2:id=s{len(call_id)}:{call_id}")
    else:
        for key in sorted(call):
            if key not in _SKIPPED_OF_CALL:
                _write_field(key, call[key], out)
    for key in sorted(function):
        if key == "arguments":
            _write_arguments(function[key], out)
        else:
            _write_field(key, function[key], out)


def _write_arguments(arguments: Any, out: list[str]) -> None:
    if isinstance(arguments, str):
        try:  # noqa: SIM105  # `suppress` takes as long as the rest
            arguments = _READ(arguments)
        except (ValueError, RecursionError):
            pass  # no JSON: it counts as the text that it is
    _write_value(arguments, out)


def _write_field(key: str, value: Any, out: list[str]) -> None:
    """Write a field with its name, unless it only says that there is nothing."""
    if isinstance(value, str) and isinstance(key, str):
        out.append(f"f{len(key)}:{key}=s{len(value)}:{value}")
    elif value is not None and not (value is False and key in _FALSE_BY_DEFAULT):
        _write_key(key, out)
        _write_value(value, out)


def _write_key(key: Any, out: list[str]) -> None:
    if not isinstance(key, str):  # 1 is the key "1" in JSON; what JSON does not have is an error
        (key,) = json.loads(_JSON.encode({key: 0}))
    out.append(f"f{len(key)}:{key}=")  # the length keeps one odd key apart from two fields


def _write_value(value: Any, out: list[str]) -> None:
    """Write any value in full, with sorted keys and without cache marks."""
    if isinstance(value, str):
        out.append(f"s{len(value)}:{value}")
    elif isinstance(value, dict):
        keys = sorted(value)
        if CACHED in value and isinstance(value[CACHED], dict):  # an input of a tool may have that name too
            keys.remove(CACHED)
        out.append(f"d{len(keys)}:")
        for key in keys:
            inner = value[key]
            if isinstance(inner, str) and isinstance(key, str):
                out.append(f"f{len(key)}:{key}=s{len(inner)}:{inner}")
            else:
                _write_key(key, out)
                _write_value(inner, out)
    elif isinstance(value, list | tuple):
        out.append(f"l{len(value)}:")
        for item in value:
            _write_value(item, out)
            if not isinstance(item, str | dict | list | tuple):
                out.append(",")  # [1, 23] is not [12, 3]
    elif type(value) is int:
        out.append(str(value))
    else:
        out.append(_JSON.encode(value))


def remove_cached_fields(value: Any) -> Any:
    """Return a value without any field `cache_control`, wherever it stands: names in older logs need it."""
    if isinstance(value, dict):
        return {key: remove_cached_fields(item) for key, item in value.items() if key != CACHED}
    return [remove_cached_fields(item) for item in value] if isinstance(value, list) else value


def may_have_marks(item: dict[str, Any]) -> bool:
    """False for a message of one text without a cache mark, as most are."""
    return type(item.get("content")) is not str or CACHED in item or "cachePoint" in item


def split_cache_marks(item: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return a message without its cache marks, and the marks. Arguments of tools are not looked into."""
    if not isinstance(item, dict) or not may_have_marks(item):
        return item, []
    own = {key: item[key] for key in _CACHE_MARKS if isinstance(item.get(key), dict)}
    bare = {key: value for key, value in item.items() if key not in own} if own else item
    content = item.get("content")
    pairs = [split_cache_marks(block) for block in content] if isinstance(content, list) else []
    if inner := [mark for _, marks in pairs for mark in marks]:
        bare = {**bare, "content": [block for block, _ in pairs if block]}  # a block may be just a mark
    return bare, [*inner, *({key: mark} for key, mark in own.items())]


def put_cache_mark(item: dict[str, Any], mark: dict[str, Any]) -> dict[str, Any]:
    """Return a message with a cache mark at its end; the same one if nothing there can bear it."""
    content = item.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) and content else content
    last = blocks[-1] if isinstance(blocks, list) and blocks else None
    if not isinstance(blocks, list) or not isinstance(last, dict) or last.get("type") in _THINKING_TYPES:
        return item
    end = [{**last, **mark}] if CACHED in mark else [last, mark]
    return {**item, "content": [*blocks[:-1], *end]}
