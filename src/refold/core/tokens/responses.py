"""Read a provider's answer in any of six wire formats: usage, why it ended, the message; never raises.

Takes the answer as a dict, as an object of a client library, or a report of usage alone. The content is read
only to see whether there is any. Hostile values give an empty `Response`.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from refold.core.messages.plain_values import PLAIN_TYPES
from refold.core.messages.quick_init import quick_init
from refold.core.messages.unread import COMPACTIONS
from refold.core.tokens.usage import (
    Usage,
    costs_more,
    find_impossible,
    read_block_size,
    read_cost,
    read_usage,
)

Finish: TypeAlias = Literal["stop", "length", "tool_calls", "refusal", "overflow", "unknown"]


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The facts that could be read of an answer."""

    usage: Usage | None = None
    cost: Usage | None = field(default=None, compare=False)
    """What all passes took together: the same, unless the provider lists several passes."""
    block: int | None = field(default=None, compare=False)
    """Tokens that a compaction by the provider itself has written, if the report says so."""
    impossible: str = field(default="", compare=False)
    """The first number of the report that no request has, in words; it is ignored."""
    finish: Finish = "unknown"
    raw_finish: str = ""
    """The provider's own word for why it ended."""
    model: str = ""
    empty: bool = True
    """True if there is no text and no call; reasoning alone is empty. False for a report of usage alone."""
    message: Any | None = None
    """The message to append to a history of that format, if there is one; a tuple of items for Responses and
    Interactions."""
    unbound: bool = False
    """True if the provider has found thinking behind another prefix than its own, and gone on."""

    @property
    def completed(self) -> bool:
        """True if the model took its turn: it wrote or called something, cut off or not."""
        return not self.empty and self.finish not in {"refusal", "overflow"}

    @property
    def compacted(self) -> bool:
        """True if the provider has compacted by itself: its usage is not that of the list that was sent."""
        message = self.message
        content = message.get("content") if type(message) is dict else message
        if type(content) is str:
            return False
        blocks = [block for block in _to_list(content) if isinstance(block, dict)]
        return any(
            str(block.get("type")) in COMPACTIONS and (block.get("content") or block.get("encrypted_content"))
            for block in blocks
        )


_EMPTY: Final = Response()

_WORDS: Final[Mapping[Finish, str]] = {
    "stop": "stop endturn stopsequence completed complete eos end pauseturn compaction",
    "length": "length maxtokens maxoutputtokens",
    "tool_calls": "toolcalls toolcall tooluse functioncall requiresaction",
    "refusal": (
        "refusal contentfilter contentfiltered guardrailintervened safety recitation blocklist"
        " prohibitedcontent spii imagesafety imageprohibitedcontent imagerecitation modelarmor sensitive"
    ),
    # modellength is Mistral's; the others are Anthropic's, Bedrock's and OpenAI's
    "overflow": "modelcontextwindowexceeded contextwindowexceeded contextlengthexceeded modellength",
}
"""Why answers end, in the words of providers, lower-case letters only."""
_FINISH: Final = {word: finish for finish, words in _WORDS.items() for word in words.split()}

_USAGE: Final = ("usage", "usageMetadata", "usage_metadata")
_MODEL: Final = ("model", "modelVersion", "model_version")
_UNBOUND: Final = frozenset({"thinking_dropped", "thinking_mismatch_allowed"})
"""What Anthropic has done to thinking behind a changed prefix."""
_DUMP: Final = {"mode": "json", "by_alias": True, "exclude_unset": True}
"""How a model gives its JSON. Where it takes the option, it does not warn: pydantic would, about the parsed
answers of the clients."""
_MAX_DEPTH: Final = 100
"""Arguments of tools are nested a few levels; a deeper value is hostile or goes in a circle."""
_MAX_VALUES: Final = 200_000
"""Values that an answer may hold. A few that contain each other can multiply to more than fit in memory."""
_MAX_ITEMS: Final = 100_000
_SILENT: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Blocks and items that hold only reasoning."""
CALL_ITEMS: Final = frozenset(
    {
        *("function_call", "custom_tool_call", "computer_call"),
        *("local_shell_call", "shell_call", "apply_patch_call"),
    }
)
"""Items of a Responses answer that wait for a result; other calls are run by the provider."""


@quick_init
@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer, read from one format."""

    raw_finish: str
    message: Any
    has_words: bool
    has_calls: bool = False
    is_refused: bool = False


def read_response(value: Any) -> Response:
    """Read a provider's answer.

    >>> read_response({"choices": [{"finish_reason": "length", "message": {"content": "Once"}}]}).finish
    'length'
    """
    try:
        return _read(value)
    except Exception:  # noqa: BLE001  # hostile objects raise what they like
        return _EMPTY


_REPORT: Final = frozenset({"usage", "model", "stop_reason", "status"})


def is_report(value: Any) -> bool:
    """True for a report of usage alone, which is no refusal: a model has answered, and its words are gone.

    >>> is_report({"usage": {"input_tokens": 9}, "stop_reason": "end_turn"}), is_report({"status": "failed"})
    (True, False)
    """
    if type(value) is not dict or "usage" not in value or not value.keys() <= _REPORT:
        return False
    words = [str(value[key]) for key in ("stop_reason", "status") if value.get(key) is not None]
    return all(_find_finish(word) in {"stop", "length", "tool_calls"} for word in words)


@lru_cache(64)
def _find_finish(word: str) -> Finish:
    return _FINISH.get(re.sub(r"[^a-z]", "", word.lower()), "unknown")


def _read(value: Any) -> Response:
    if type(value) is not dict and isinstance(value, Usage | int):
        usage = read_usage(value)
        return Response(usage=usage, cost=usage, impossible=find_impossible(value), empty=usage is None)
    fields = _to_fields(value)
    usage, cost, block, impossible = _read_reports(fields)
    names = [fields[key] for key in _MODEL if key in fields and isinstance(fields[key], str)]
    model, answer = names[0][:300] if names else "", None
    for read in () if type(fields) is dict and fields.keys() <= _REPORT else _READERS:
        if answer := read(fields):
            break
    if answer is None:
        model = "" if usage is None else model
        return Response(usage=usage, cost=cost, impossible=impossible, model=model, empty=usage is None)
    finish = _find_finish(answer.raw_finish)
    if finish in {"stop", "unknown"} and answer.is_refused:
        finish = "refusal"
    elif finish == "stop" and answer.has_calls:
        finish = "tool_calls"  # some servers end with "stop" although they call, and Gemini always does
    changes = _to_list(fields["input_transformations"]) if "input_transformations" in fields else ()
    return Response(
        usage=usage,
        cost=cost,
        block=block,
        impossible=impossible,
        finish=finish,
        raw_finish=answer.raw_finish,
        model=model,
        empty=not (answer.has_words or answer.has_calls),
        message=answer.message,
        unbound=bool(changes) and not _UNBOUND.isdisjoint(_to_fields(each).get("type") for each in changes),
    )


def _read_reports(fields: Mapping[str, Any]) -> tuple[Usage | None, Usage | None, int | None, str]:
    """Return the usage, the cost of all passes, the size of a block, and an impossible number in words."""
    reports = [_to_json(fields[key]) for key in _USAGE if key in fields and fields[key] is not None]
    usage = next(filter(None, map(read_usage, reports)), None)
    if usage is None:
        reports.append(fields)  # some have their numbers beside the answer
        usage = read_usage(fields)
    impossible = next(filter(None, map(find_impossible, reports)), "")
    if not any(map(costs_more, reports)):
        return usage, usage, None, impossible
    cost = next(filter(None, map(read_cost, reports)), None)
    block = next(filter(None, map(read_block_size, reports)), None)
    return usage, cost, block, impossible


def _read_chat(fields: Mapping[str, Any]) -> _Answer | None:
    """Return an OpenAI chat completion; also Ollama's own answer, which has one message and no choices."""
    choices = _to_list(fields.get("choices"))
    if choices:
        choice = _to_fields(choices[0])
        raw, message = _finish_word(choice.get("finish_reason")), _to_fields(choice.get("message"))
    elif isinstance(fields.get("done_reason"), str):
        raw, message = _finish_word(fields["done_reason"]), _to_fields(fields.get("message"))
    else:
        return None
    calls = bool(message.get("tool_calls") or message.get("function_call"))
    refused = "refusal" in message and _has_words(message["refusal"])
    said = _has_words(message.get("content")) or refused or bool(message.get("audio"))
    thoughts = ("reasoning", "reasoning_content", "thinking")
    is_message = said or calls or any(_has_words(message.get(key)) for key in thoughts)
    item = _to_message(message, "assistant") if is_message else None
    return _Answer(raw, item, said, calls, refused)


def _read_gemini(fields: Mapping[str, Any]) -> _Answer | None:
    feedback = _to_fields(fields.get("promptFeedback") or fields.get("prompt_feedback"))
    blocked = _finish_word(feedback.get("blockReason") or feedback.get("block_reason"))
    if "candidates" not in fields:
        return _Answer(blocked, None, has_words=False, is_refused=True) if blocked else None
    first = _to_fields(next(iter(_to_list(fields["candidates"])), None))
    raw = _finish_word(first.get("finishReason") or first.get("finish_reason")) or blocked
    content = _to_fields(first.get("content"))
    parts = [_to_fields(part) for part in _to_list(content.get("parts"))]
    calls = any(part.get("functionCall") or part.get("function_call") for part in parts)
    said = any(not part.get("thought") and _has_words([part]) for part in parts)
    return _Answer(
        raw, _to_message(content, "model") if parts else None, said, calls, is_refused=bool(blocked)
    )


def _read_responses(fields: Mapping[str, Any]) -> _Answer | None:
    if "encrypted_content" in fields and "dropped_message_count" in fields:  # xAI's CompactContext
        item = {
            "type": "compaction",
            **{key: fields[key] for key in ("id", "encrypted_content") if key in fields},
        }
        return _Answer("compaction", (_to_json(item),), has_words=True)
    is_response = fields.get("object") in ("response", "response.compaction")
    if not is_response and not ("status" in fields and "output" in fields):
        return None
    details, error = _to_fields(fields.get("incomplete_details")), _to_fields(fields.get("error"))
    raw = (
        _finish_word(details.get("reason"))
        or _finish_word(error.get("code"))
        or ("compaction" if fields.get("object") == "response.compaction" else "")
        or _finish_word(fields.get("status"))
    )
    output = _to_list(fields.get("output"))
    items = [_to_fields(item) for item in output]
    calls = any(item.get("type") in CALL_ITEMS for item in items)
    contents = [_to_fields(part) for item in items for part in _to_list(item.get("content"))]
    refused = any(part.get("type") == "refusal" for part in contents)
    said = any(_has_words(_to_list(i.get("content")) if i.get("type") == "message" else [i]) for i in items)
    plain = _to_json(output)
    return _Answer(raw, tuple(plain) if plain else None, said, calls, refused)


def _read_anthropic(fields: Mapping[str, Any]) -> _Answer | None:
    if "content" not in fields or not ("stop_reason" in fields or fields.get("type") == "message"):
        return None
    content = fields["content"]
    blocks = [_to_fields(block) for block in _to_list(content)]
    calls = any(block.get("type") == "tool_use" for block in blocks)
    said = _has_words(content)
    thought = any(block.get("type") in _SILENT for block in blocks)
    message = _to_message({"content": content}, "assistant") if said or thought else None
    return _Answer(_finish_word(fields.get("stop_reason")), message, said, calls)


def _read_converse(fields: Mapping[str, Any]) -> _Answer | None:
    """Return an answer of Bedrock Converse; its blocks are objects with one field."""
    if "stopReason" not in fields:
        return None
    content = _to_fields(_to_fields(fields.get("output")).get("message")).get("content")
    blocks = [_to_fields(block) for block in _to_list(content)]
    calls = any("toolUse" in block for block in blocks)
    said = any("reasoningContent" not in block and _has_words([block]) for block in blocks)
    message = _to_message({"content": content}, "assistant") if blocks else None
    return _Answer(_finish_word(fields["stopReason"]), message, said, calls)


def _read_interaction(fields: Mapping[str, Any]) -> _Answer | None:
    """Return an answer of Gemini's Interactions API: its new steps."""
    if "status" not in fields or "steps" not in fields:
        return None
    steps = [_to_fields(step) for step in _to_list(fields["steps"])]
    made = [step for step in steps if step.get("type") != "user_input"]
    calls = any(step.get("type") == "function_call" for step in made)
    said = any(_has_words(step.get("content")) for step in made)
    plain = _to_json(made)
    return _Answer(_finish_word(fields["status"]), tuple(plain) if plain else None, said, calls)


_READERS: Final[tuple[Callable[[Mapping[str, Any]], _Answer | None], ...]] = (
    _read_chat,
    _read_gemini,
    _read_responses,
    _read_anthropic,
    _read_converse,
    _read_interaction,
)


def _has_words(content: Any) -> bool:
    """True if a text, or one of several blocks, holds anything; an image or a call does."""
    if isinstance(content, str):
        return bool(content.strip())
    for block in _to_list(content):
        if isinstance(block, str):
            holds = bool(block.strip())
        else:
            fields = _to_fields(block)
            text = fields.get("text")
            if fields.get("type") in _SILENT:
                holds = False
            elif text is not None:
                holds = isinstance(text, str) and bool(text.strip())
            else:
                holds = any(item is not None for key, item in fields.items() if key not in _FRAME)
        if holds:
            return True
    return False


_FRAME: Final = frozenset(
    {"type", "text", "id", "status", "thought", "thoughtSignature", "thought_signature"}
)
"""Fields of a block that hold no content."""


def _to_message(message: Mapping[str, Any], role: str) -> Any:
    """Return the message as JSON, with its role; None if that is not possible."""
    value = _to_json(message)
    if value is None or value.get("role"):
        return value
    return {"role": role, **{key: item for key, item in value.items() if key != "role"}}


def _finish_word(value: Any) -> str:
    if type(value) is not str and isinstance(value, Enum):
        value = value.value if isinstance(value.value, str) else value.name
    return value[:100] if isinstance(value, str) else ""


def _to_list(value: Any) -> list[Any]:
    return list(islice(value, _MAX_ITEMS)) if isinstance(value, list | tuple) else []


def _to_fields(value: Any) -> Mapping[str, Any]:
    """Return the fields of a dict, a pydantic model, or any object with attributes; else none."""
    if type(value) is dict or isinstance(value, Mapping):
        return value
    if value is None or isinstance(value, str | bytes | int | float | Sequence | type):
        return {}
    if callable(dump := getattr(type(value), "model_dump", None)):
        # A model's own JSON is what the provider sent, under the provider's names.
        for options in ({**_DUMP, "warnings": False}, _DUMP, {}):
            with suppress(TypeError):
                dumped = dump(value, **options)
                if isinstance(dumped, Mapping):
                    return dumped
                break
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return {key: item for key, item in vars(value).items() if not key.startswith("_")}


def _to_json(value: Any) -> Any:
    """Return a value as plain JSON; None if that is not possible."""
    try:
        return _copy(value, _MAX_DEPTH, [_MAX_VALUES - 1])
    except Exception:  # noqa: BLE001  # hostile objects raise what they like
        return None


def _copy(value: Any, depth: int, left: list[int]) -> Any:
    """Copy a value; raise if it is too deep, or holds more values than are left."""
    kind = type(value)
    if kind in PLAIN_TYPES:
        return value
    if kind is not dict and kind is not list:  # most values are, and no other question is asked of them
        if isinstance(value, Enum):
            return _finish_word(value)
        if isinstance(value, str | int | float):
            return value
        if isinstance(value, bytes):
            return b64encode(value).decode()
    is_list = kind is not dict and isinstance(value, list | tuple)
    held = value if is_list or kind is dict else _to_fields(value)
    left[0] -= len(held)
    if left[0] < 0 or (held and depth < 1):
        raise ValueError("nested too deep, or too large")
    if is_list:
        return [_copy(item, depth - 1, left) for item in held]
    return {  # most values in it are plain, which costs no call
        str(key): item if type(item) in PLAIN_TYPES else _copy(item, depth - 1, left)
        for key, item in held.items()
    }
