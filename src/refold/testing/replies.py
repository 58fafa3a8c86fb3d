"""What the provider for tests answers: a function of the request alone, so that two runs can be compared.

Answers do not depend on what a fold has hidden. A turn is named by a key, made from the user's last text; its
steps go on from the id of the last tool call, which carries the key, the step and the number of steps.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refold.core.messages.message import Message, Text, ToolResult

_KEY_DIGITS: Final = 6
"""A million keys: the chance that two of 40 turns share one is below 0.1 %."""
_MARK: Final = re.compile(r"(\d{6})_(\d+)_(\d+)")
_STEPS: Final = re.compile(r"\bSTEPS (\d+)")
_PARALLEL: Final = re.compile(r"\bPARALLEL (\d+)")
_RECALL: Final = re.compile(r"\bRECALL\s+([^\n]{1,200})")
_CALL: Final = re.compile(r"\bCALL (\w+)\s*(\{.*\})?", re.DOTALL)
_NUMBER: Final = re.compile(r"\d+")
_QUOTED_CHARS: Final = 300
"""What an answer repeats of recalled words."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where an answer stands: the key of its turn, its step, and how many steps the turn has."""

    key: str
    step: int
    steps: int

    def __str__(self) -> str:
        return f"{self.key}_{self.step}_{self.steps}"

    @property
    def number(self) -> int:
        """A number that is the mark's own; the argument of `look`."""
        return int(self.key) * 100 + self.step


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of an answer."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in no wire's shape: a text, tool calls, or both."""

    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """What an answer depends on."""

    messages: Sequence[Message]
    items: Sequence[Any]
    """The same messages in the shape of their wire."""
    tools: Sequence[str]
    may_call: bool = True
    """False where the request forbids tools."""
    wanted: str = ""
    """The tool that the request wants called."""
    one_by_one: bool = False
    """True where the request forbids parallel calls."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How the model behaves where the user's words do not say it."""

    tool: str = "look"
    words: int = 60
    parallel: bool = False
    reasoning: bool = True
    reject_invalid: bool = False


def decide(situation: Situation, habits: Habits) -> tuple[Mark, Reply]:
    """Return the answer to a request, and where it stands."""
    result = _find_last_result(situation.messages)
    said = find_user_text(situation.messages)
    if result is None:
        mark = Mark(_make_key(said, situation.messages), 1, _read_number(_STEPS, said, 1))
        return mark, _start_turn(situation, habits, mark, said)
    last = _find_mark(situation, said)
    mark = Mark(last.key, last.step + 1, last.steps)
    if last.step < last.steps and (call := _make_call(situation, habits, mark)):
        return mark, Reply(calls=(call,))
    quote = _quote(result) if "recall" in _name_of(situation.messages, result).lower() else ""
    return mark, Reply(quote + _make_text(mark, habits.words))


def find_user_text(messages: Sequence[Message]) -> str:
    """Return the last text of the user; a client may have joined it to a summary as a part of its own."""
    for message in reversed(messages):
        texts = [part.text for part in message.parts if isinstance(part, Text)]
        if message.role == "user" and texts and not message.is_summary:
            return texts[-1]
    return ""


def _start_turn(situation: Situation, habits: Habits, mark: Mark, said: str) -> Reply:
    if re.search(r"\bEMPTY\b", said):
        return Reply()
    recall = next((name for name in situation.tools if "recall" in name.lower()), "")
    if recall and situation.may_call and (asked := _RECALL.search(said)):
        return Reply(calls=(Call(recall, {"query": asked[1].strip()}),))
    if (named := _CALL.search(said)) and named[1] in situation.tools and situation.may_call:
        return Reply(calls=(Call(named[1], _read_arguments(named[2])),))
    call = None if re.search(r"\bNOTOOL\b", said) else _make_call(situation, habits, mark)
    if call is None:
        return Reply(_make_text(mark, habits.words))
    many = 1 if situation.one_by_one else _count_parallel(habits, mark, said)
    numbers = [mark.number, *(mark.number * 10 + i for i in range(1, many))]
    return Reply(calls=tuple(Call(call.name, {"n": number}) for number in numbers))


def _make_call(situation: Situation, habits: Habits, mark: Mark) -> Call | None:
    name = situation.wanted or habits.tool
    if not situation.may_call or name not in situation.tools:
        return None
    return Call(name, {"n": mark.number})


def _count_parallel(habits: Habits, mark: Mark, said: str) -> int:
    """Return how many calls the turn starts with; the number in "Turn 5" says which turn it is."""
    if _PARALLEL.search(said):
        return max(1, _read_number(_PARALLEL, said, 1))
    turn = int(found[0]) if (found := _NUMBER.search(said)) else int(mark.key)
    return 3 if habits.parallel and turn % 5 == 0 else 1


def _make_text(mark: Mark, words: int) -> str:
    """Return a text of about that many words, different for each mark."""
    text = f"Answer {mark.key}: the value of step {mark.step} is {int(mark.key) * 37 + mark.step}."
    parts = range(1, max(0, words - 10) // 8 + 1)
    return " ".join([text, *(f"Part {i} of {mark.key} works as it was planned." for i in parts)])


def _make_key(said: str, messages: Sequence[Message]) -> str:
    """Return the key of a new turn; a text that was said before gets another key where its calls are seen."""
    used = {mark[1] for message in messages for call in message.calls if (mark := _MARK.search(call.id))}
    attempt = 0
    while True:
        digest = hashlib.sha256(f"{said}#{attempt}".encode()).hexdigest()
        key = str(int(digest, 16) % 10**_KEY_DIGITS).zfill(_KEY_DIGITS)
        if key not in used:
            return key
        attempt += 1


def _find_last_result(messages: Sequence[Message]) -> ToolResult | None:
    """Return the result that the request ends with; None if the user speaks last."""
    for message in reversed(messages):
        for part in reversed(message.parts):
            if isinstance(part, ToolResult):
                return part
            if message.role == "user" and isinstance(part, Text):
                return None
        if message.role == "assistant":
            return None
    return None


def _find_mark(situation: Situation, said: str) -> Mark:
    """Return the mark of the last calls: from their ids, from a signature, or counted from the last user."""
    messages = situation.messages
    last = max((i for i, message in enumerate(messages) if message.calls), default=0)
    ids = " ".join(call.id for call in messages[last].calls)
    if found := _MARK.search(ids) or _MARK.search(_read_signatures(situation.items[last])):
        return Mark(found[1], int(found[2]), int(found[3]))
    since = max((i for i, message in enumerate(messages) if message.is_user_turn), default=0)
    step = sum(1 for message in messages[since:] if message.calls)
    return Mark(_make_key(said, ()), max(1, step), _read_number(_STEPS, said, 1))


def _read_signatures(item: Any) -> str:
    parts = item.get("parts") if isinstance(item, Mapping) else None
    read = [part for part in parts or () if isinstance(part, Mapping)]
    signed = [part.get("thoughtSignature") or part.get("thought_signature") or "" for part in read]
    return " ".join(filter(None, map(read_signature, signed)))


def sign(mark: Mark, content: Any) -> str:
    """Return a signature in base64: the mark and the digest of what is signed."""
    return base64.b64encode(f"refold {mark} {_digest(content)}".encode()).decode()


def read_signature(signature: Any) -> str:
    """Return what one of our signatures says; empty if it is somebody else's."""
    try:
        # some clients write the URL-safe alphabet
        text = base64.b64decode(str(signature).replace("-", "+").replace("_", "/"), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
    return text if text.startswith("refold ") else ""


def is_changed(signature: Any, content: Any) -> bool:
    """True if a signature is one of ours and was made for other content."""
    text = read_signature(signature)
    return bool(text) and text.split()[-1] != _digest(content)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _name_of(messages: Sequence[Message], result: ToolResult) -> str:
    named = (call.name for message in messages for call in message.calls if call.id == result.call_id)
    return result.name or next(named, "")


def _quote(result: ToolResult) -> str:
    text = " ".join(part.text for part in result.content if isinstance(part, Text))
    return f"It was said: {' '.join(text.split())[:_QUOTED_CHARS]} "


def _read_number(pattern: re.Pattern[str], text: str, default: int) -> int:
    found = pattern.search(text)
    return int(found[1]) if found else default


def _read_arguments(text: str | None) -> dict[str, Any]:
    try:
        value = json.JSONDecoder().raw_decode(text or "{}")[0]
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
