"""Small steps that the readers of several agents share: looking into hostile JSON, and building messages."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from refold.core.tokens.usage import MOST, Usage
from refold.transcripts.agents.values import Compaction, Problem, Record, Recording, Wire

_MILLISECONDS: Final = 1e11
"""From here on a number of seconds is one of milliseconds: as seconds it is in the year 5138."""
_LATEST: Final = 1e10
TITLE: Final = 120
"""Characters of a title that is only the beginning of what was said."""


def object_of(value: Any) -> Mapping[str, Any]:
    """The value where it is an object, else one without fields."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> Sequence[Any]:
    """The value where it is a list, else an empty one."""
    return value if isinstance(value, list) else ()


def text_at(value: Any, *keys: str) -> str:
    """The first of these fields that is a text with something in it."""
    if isinstance(value, dict):
        for key in keys:
            found = value.get(key)
            if found and isinstance(found, str):
                return found
    return ""


def number_at(value: Any, *keys: str) -> int:
    """The first of these fields that is a size; 0 where none is."""
    fields = object_of(value)
    for key in keys:
        found = fields.get(key)
        if isinstance(found, int | float) and not isinstance(found, bool) and 0 < found <= MOST:
            return int(found)
    return 0


def seconds(value: Any) -> float:
    """A time as seconds since the epoch: of ISO text, seconds or milliseconds; 0 where it is none.

    >>> seconds("1970-01-01T00:00:10Z"), seconds(1_700_000_000_000)
    (10.0, 1700000000.0)
    """
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError, OSError):
            return 0.0
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    found = value / 1000 if value > _MILLISECONDS else float(value)
    return found if 0 < found < _LATEST else 0.0


def usage_of(*, fresh: int, output: int, read: int, write: int = 0) -> Usage | None:
    """A report whose cached tokens stand beside the fresh ones; None where nothing was read."""
    whole = fresh + read + write
    if not 0 < whole <= MOST:
        return None
    return Usage(input=whole, output=output, cache_read=read, cache_write=write)


def title_of(text: str) -> str | None:
    """The beginning of what was said, in one line; None where that is nobody's words."""
    words = " ".join(text[: TITLE * 4].split())
    return words[:TITLE] or None


def said_text(content: Any) -> str:
    """The text of a content that is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(text for block in list_of(content) if (text := text_at(block, "text")))


class Draft:
    """A recording that grows while records are read."""

    def __init__(self, agent: str, wire: str) -> None:
        self.agent = agent
        self.wire = wire
        self.messages: list[Wire] = []
        self.places: list[int] = []
        self.usages: dict[int, Usage] = {}
        self.folds: list[Compaction] = []
        self.changed: dict[int, Wire] = {}
        self.problems: list[Problem] = []
        self.carried: dict[str, int] = {}
        self.abandoned = 0
        self.model = ""
        self.title = ""

    def say(self, message: Wire, line: int) -> int:
        """Add a message; gives its index."""
        self.messages.append(message)
        self.places.append(line)
        return len(self.messages) - 1

    def note(self, usage: Usage | None, index: int | None = None) -> None:
        """Keep what was reported with a message, the last one where none is named."""
        index = len(self.messages) - 1 if index is None else index
        if usage is not None and index >= 0:
            self.usages[index] = usage

    def carry(self, kind: Any) -> None:
        """Count a record that is no message."""
        name = kind if isinstance(kind, str) and kind else "unknown"
        self.carried[name] = self.carried.get(name, 0) + 1

    def problem(self, rule: str, message: str, line: int = 0) -> None:
        """Remember what is not as it should be."""
        self.problems.append(Problem(rule=rule, message=message, line=line))

    def cut(self, length: int) -> None:
        """Go back to so many messages; what came after stands on a branch that was left."""
        length = max(0, length)
        self.abandoned += max(0, len(self.messages) - length)
        del self.messages[length:], self.places[length:]
        self.folds = [fold for fold in self.folds if fold.said <= length]
        self.usages = {index: usage for index, usage in self.usages.items() if index < length}
        self.changed = {index: item for index, item in self.changed.items() if index < length}

    def done(self, **facts: Any) -> Recording:
        """The recording."""
        return Recording(
            agent=self.agent,
            format=self.wire,
            messages=tuple(self.messages),
            places=tuple(self.places),
            usages=tuple(sorted(self.usages.items(), key=lambda pair: pair[0])),
            folds=tuple(self.folds),
            changed=self.changed,
            problems=tuple(self.problems),
            carried=self.carried,
            abandoned=self.abandoned,
            **{"model": self.model or None, "title": self.title or None, **facts},
        )


def started(records: Iterable[Record]) -> float:
    """The first time that a record names."""
    return next((at for one in records if (at := seconds(one.value.get("timestamp")))), 0.0)


def openai_assistant(text: str, *, thinking: str = "", calls: Sequence[tuple[str, str, Any]] = ()) -> Wire:
    """An assistant's message in OpenAI chat shape; calls are (id, name, arguments)."""
    message: Wire = {"role": "assistant", "content": text or (None if calls else "")}
    if thinking:
        message["reasoning_content"] = thinking
    if calls:
        message["tool_calls"] = [
            {"id": name, "type": "function", "function": {"name": tool, "arguments": as_text(given)}}
            for name, tool, given in calls
        ]
    return message


def openai_result(call: str, content: Any) -> Wire:
    """A tool's answer in OpenAI chat shape."""
    return {"role": "tool", "tool_call_id": call, "content": content}


def openai_image(media_type: str, data: str) -> Wire:
    """A picture in OpenAI chat shape."""
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}


def as_text(value: Any) -> str:
    """A value as JSON text; text stays as it is."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps({} if value is None else value, ensure_ascii=False)
    except RecursionError:
        return "{}"
