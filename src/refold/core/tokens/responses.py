"""What a provider answered, in any of four shapes: usage, why it ended, the message; never raises.

Takes the answer as a dict, as an object of a client library, or a report of usage alone. What the answer
says is looked at only to see whether there is anything. Hostile values give an empty `Response`.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from refold.core.tokens.usage import Usage, reported

Finish: TypeAlias = Literal["stop", "length", "tool_calls", "refusal", "overflow", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What could be read of an answer."""

    usage: Usage | None = None
    finish: Finish = "unknown"
    raw_finish: str = ""
    """The provider's own word for how it ended."""
    model: str = ""
    empty: bool = True
    """No words and no calls; thinking alone is empty. A report of usage alone is not: it does not tell."""
    message: Any | None = None
    """The message to append to a history of that shape (Responses: a tuple of items); None for nothing."""

    @property
    def completed(self) -> bool:
        """Whether the model had its turn: it said or called something, cut off or not."""
        return not self.empty and self.finish not in {"refusal", "overflow"}


_NOTHING: Final = Response()

_WORDS: Final[Mapping[Finish, str]] = {
    "stop": "stop endturn stopsequence completed complete eos end pauseturn compaction",
    "length": "length maxtokens maxoutputtokens",
    "tool_calls": "toolcalls toolcall tooluse functioncall",
    "refusal": (
        "refusal contentfilter contentfiltered guardrailintervened safety recitation blocklist"
        " prohibitedcontent spii imagesafety imageprohibitedcontent imagerecitation modelarmor sensitive"
    ),
    # modellength is Mistral's; the others are Anthropic's, Bedrock's and OpenAI's
    "overflow": "modelcontextwindowexceeded contextwindowexceeded contextlengthexceeded modellength",
}
"""How answers end, in the words of providers, lower-case letters only."""
_FINISH: Final = {word: finish for finish, words in _WORDS.items() for word in words.split()}

_USAGE: Final = ("usage", "usageMetadata", "usage_metadata")
_MODEL: Final = ("model", "modelVersion", "model_version")
_DEPTH: Final = 100
"""Arguments of tools are nested a few deep; what is deeper is hostile or goes in a circle."""
_PLACES: Final = 200_000
"""How many values an answer may hold; a few that contain each other can make up more than fit anywhere."""
_ITEMS: Final = 100_000
_SILENT: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Blocks and items in which nothing is said to anybody."""
_CALLS: Final = frozenset(
    {
        *("function_call", "custom_tool_call", "computer_call"),
        *("local_shell_call", "shell_call", "apply_patch_call"),
    }
)
"""Items of a Responses answer that wait for a result; other calls are run by the provider."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """One shape, read."""

    raw: str
    message: Any
    said: bool
    calls: bool = False
    refused: bool = False


def read_response(value: Any) -> Response:
    """Read a provider's answer.

    >>> read_response({"choices": [{"finish_reason": "length", "message": {"content": "Once"}}]}).finish
    'length'
    """
    try:
        return _read(value)
    except Exception:  # noqa: BLE001  # hostile objects raise what they like
        return _NOTHING


def _read(value: Any) -> Response:
    if isinstance(value, Usage | int):
        return _bare(reported(value))
    found = _fields(value)
    usage = _usage(found)
    answer = next((answer for shape in _SHAPES if (answer := shape(found))), None)
    model = next((name for key in _MODEL if isinstance(name := found.get(key), str)), "")[:300]
    if answer is None:
        return _bare(usage, model)
    return Response(
        usage=usage,
        finish=_finish(answer),
        raw_finish=answer.raw,
        model=model,
        empty=not (answer.said or answer.calls),
        message=answer.message,
    )


def _bare(usage: Usage | None, model: str = "") -> Response:
    return _NOTHING if usage is None else Response(usage=usage, model=model, empty=False)


def _usage(found: Mapping[str, Any]) -> Usage | None:
    reports = [_data(found[key]) for key in _USAGE if found.get(key) is not None]
    return next((usage for report in [*reports, found] if (usage := reported(report))), None)


def _finish(answer: _Answer) -> Finish:
    finish = _FINISH.get(re.sub(r"[^a-z]", "", answer.raw.lower()), "unknown")
    if finish in {"stop", "unknown"} and answer.refused:
        return "refusal"
    # some servers end with "stop" although they call, and Gemini always does
    return "tool_calls" if finish == "stop" and answer.calls else finish


def _chat(found: Mapping[str, Any]) -> _Answer | None:
    """An OpenAI chat completion; also Ollama's own answer, which has one message and no choices."""
    choices = _list(found.get("choices"))
    if choices:
        choice = _fields(choices[0])
        raw, message = _raw(choice.get("finish_reason")), _fields(choice.get("message"))
    elif isinstance(found.get("done_reason"), str):
        raw, message = _raw(found["done_reason"]), _fields(found.get("message"))
    else:
        return None
    calls = bool(message.get("tool_calls") or message.get("function_call"))
    refused = _worded(message.get("refusal"))
    said = _worded(message.get("content")) or refused or bool(message.get("audio"))
    thought = any(_worded(message.get(key)) for key in ("reasoning", "reasoning_content", "thinking"))
    item = _whole(message, "assistant") if said or calls or thought else None
    return _Answer(raw, item, said, calls, refused)


def _gemini(found: Mapping[str, Any]) -> _Answer | None:
    feedback = _fields(found.get("promptFeedback") or found.get("prompt_feedback"))
    blocked = _raw(feedback.get("blockReason") or feedback.get("block_reason"))
    if "candidates" not in found:
        return _Answer(blocked, None, said=False, refused=True) if blocked else None
    first = _fields(next(iter(_list(found["candidates"])), None))
    raw = _raw(first.get("finishReason") or first.get("finish_reason")) or blocked
    content = _fields(first.get("content"))
    parts = [_fields(part) for part in _list(content.get("parts"))]
    calls = any(part.get("functionCall") or part.get("function_call") for part in parts)
    said = any(not part.get("thought") and _worded([part]) for part in parts)
    return _Answer(raw, _whole(content, "model") if parts else None, said, calls, refused=bool(blocked))


def _responses(found: Mapping[str, Any]) -> _Answer | None:
    if found.get("object") != "response" and not ("status" in found and "output" in found):
        return None
    details, error = _fields(found.get("incomplete_details")), _fields(found.get("error"))
    raw = _raw(details.get("reason")) or _raw(error.get("code")) or _raw(found.get("status"))
    output = _list(found.get("output"))
    items = [_fields(item) for item in output]
    calls = any(item.get("type") in _CALLS for item in items)
    contents = [_fields(part) for item in items for part in _list(item.get("content"))]
    refused = any(part.get("type") == "refusal" for part in contents)
    said = any(_worded(_list(i.get("content")) if i.get("type") == "message" else [i]) for i in items)
    whole = _data(output)
    return _Answer(raw, tuple(whole) if whole else None, said, calls, refused)


def _anthropic(found: Mapping[str, Any]) -> _Answer | None:
    if "content" not in found or not ("stop_reason" in found or found.get("type") == "message"):
        return None
    content = found["content"]
    blocks = [_fields(block) for block in _list(content)]
    calls = any(block.get("type") == "tool_use" for block in blocks)
    said = _worded(content)
    thought = any(block.get("type") in _SILENT for block in blocks)
    message = _whole({"content": content}, "assistant") if said or thought else None
    return _Answer(_raw(found.get("stop_reason")), message, said, calls)


_SHAPES: Final[tuple[Callable[[Mapping[str, Any]], _Answer | None], ...]] = (
    _chat,
    _gemini,
    _responses,
    _anthropic,
)


def _worded(content: Any) -> bool:
    """Whether a text, or one of several blocks, says something; an image or a call does."""
    if isinstance(content, str):
        return bool(content.strip())
    blocks = [block if isinstance(block, str) else _fields(block) for block in _list(content)]
    return any(block.strip() if isinstance(block, str) else _says(block) for block in blocks)


def _says(block: Mapping[str, Any]) -> bool:
    if block.get("type") in _SILENT:
        return False
    text = block.get("text")
    if text is not None:
        return isinstance(text, str) and bool(text.strip())
    return any(item is not None for key, item in block.items() if key not in _FRAME)


_FRAME: Final = frozenset(
    {"type", "text", "id", "status", "thought", "thoughtSignature", "thought_signature"}
)
"""What may stand in a block that says nothing."""


def _whole(message: Mapping[str, Any], role: str) -> Any:
    """The message as JSON, with its role; None where that cannot be made of it."""
    whole = _data(message)
    return whole if whole is None or whole.get("role") else {"role": role, **_without(whole, "role")}


def _without(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name != key}


def _raw(value: Any) -> str:
    if isinstance(value, Enum):
        value = value.value if isinstance(value.value, str) else value.name
    return value[:100] if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return list(islice(value, _ITEMS)) if isinstance(value, list | tuple) else []


def _fields(value: Any) -> Mapping[str, Any]:
    """The fields of a dict, of a pydantic model, or of any object with attributes; of nothing else."""
    if isinstance(value, Mapping):
        return value
    if value is None or isinstance(value, str | bytes | int | float | Sequence | type):
        return {}
    dumped = _dumped(value)
    if dumped is not None:
        return dumped
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return {key: item for key, item in vars(value).items() if not key.startswith("_")}


def _dumped(value: Any) -> Mapping[str, Any] | None:
    """A model's own JSON: what the provider sent, under the provider's names."""
    dump = getattr(type(value), "model_dump", None)
    if not callable(dump):
        return None
    for options in ({"mode": "json", "by_alias": True, "exclude_unset": True}, {}):
        with suppress(TypeError):
            dumped = dump(value, **options)
            return dumped if isinstance(dumped, Mapping) else None
    return None


def _data(value: Any) -> Any:
    """A value as plain JSON; None where that cannot be made of it."""
    with suppress(Exception):  # hostile objects raise what they like
        return _plain(value, _DEPTH, iter(range(_PLACES)))
    return None


def _plain(value: Any, depth: int, places: Iterator[int]) -> Any:
    """Copy a value; raises where it is too deep or too large."""
    next(places)
    if depth < 0:
        raise ValueError("nested too deep")
    if isinstance(value, Enum):
        return _raw(value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [_plain(item, depth - 1, places) for item in value]
    return {str(key): _plain(item, depth - 1, places) for key, item in _fields(value).items()}
