"""Build messages, print them, and answer from a script; knows the core alone, no wire format."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from refold.core.compaction.flow import Answer, Ask
from refold.core.messages.message import (
    SUMMARY,
    Document,
    File,
    Image,
    Message,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.messages.tool_pairs import link, open_calls
from refold.errors import AnswerFailed

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
"""A PNG of one pixel, the picture that `image()` holds by default."""

Content: TypeAlias = str | Part


def user(*content: Content, **fields: Any) -> Message:
    """Return a user message of texts and parts; fields are those of a `Message` (id, pinned, ...)."""
    return Message("user", _parts(content), **fields)


def assistant(*content: Content, **fields: Any) -> Message:
    """Return an assistant message."""
    return Message("assistant", _parts(content), **fields)


def system(*content: Content, **fields: Any) -> Message:
    """Return a system message."""
    return Message("system", _parts(content), **fields)


def summary(text: str, /, *, role: Role = "user", kind: str = "summary", **meta: Any) -> Message:
    """Return a message that replaces others, as a fold makes it."""
    return Message(role, (Text(text),), source=SUMMARY, meta={"kind": kind, **meta})


def call(tool: str, /, *, id: str = "", **arguments: Any) -> Message:  # noqa: A002  # the field's own name
    """Return an assistant message that calls one tool; its id is c1 unless given."""
    return calls(call_part(tool, id=id, **arguments))


def calls(*content: Content, **fields: Any) -> Message:
    """Return an assistant message with calls and other content; calls without an id are c1, c2, ..."""
    parts: list[Content] = []
    number = 0
    for piece in content:
        number += isinstance(piece, ToolCall)
        parts.append(replace(piece, id=piece.id or f"c{number}") if isinstance(piece, ToolCall) else piece)
    return assistant(*parts, **fields)


def call_part(tool: str, /, *, id: str = "", **arguments: Any) -> ToolCall:  # noqa: A002  # the field's own name
    """Return a tool call, to put into a message."""
    return ToolCall(id, tool, arguments)


def result(call_id: str, *content: Content, role: Role = "tool", name: str | None = None) -> Message:
    """Return a message that answers a call; `role="user"` for providers that want it so."""
    return Message(role, (result_part(call_id, *content, name=name),))


def result_part(
    call_id: str, *content: Content, name: str | None = None, is_error: bool = False
) -> ToolResult:
    """Return a tool result, to put into a message."""
    return ToolResult(call_id, _parts(content), name=name, is_error=is_error)


def thinking(text: str, *, signature: str | None = "signed") -> Thinking:
    """Return a model's reasoning, to put into a message."""
    return Thinking(text, signature=signature)


def image(data: str = PIXEL, *, media_type: str = "image/png", url: str | None = None) -> Image:
    """Return a picture, to put into a message; by address if a `url` is given."""
    return Image(url=url) if url is not None else Image(data=data, media_type=media_type)


def shape(messages: Sequence[Message], *, limit: int = 80) -> str:
    """Return a conversation as text, one line a message; longer texts end in three dots.

    >>> print(shape([user("hi"), call("read", path="a.py"), result("c1", "x = 1")]))
    user: hi
    assistant: -> read(path=a.py) #c1
    tool #c1: x = 1
    """
    lines: list[str] = []
    for message in messages:
        head: str = message.role
        if message.is_summary:
            head += f" ({message.meta.get('kind', SUMMARY)})"
        if message.pinned:
            head += " (pinned)"
        said = " | ".join(_format_part(part, limit) for part in message.parts)
        joint = " " if message.parts and isinstance(message.parts[0], ToolResult) else ": "
        lines.append(f"{head}{joint}{said}" if said else f"{head}:")
    return "\n".join(lines)


def loose_ends(messages: Sequence[Message]) -> list[str]:
    """Name each result without its call and each call without its result; calls that still wait are none."""
    links = link(messages)
    waiting = open_calls(messages, links)
    ends = {place: f"result #{part.call_id} without its call" for place, part in links.orphans.items()}
    for place, part in links.unanswered.items():
        if place[0] not in waiting:
            ends[place] = f"call #{part.id} without its result"
    return [f"{place[0]}: {ends[place]}" for place in sorted(ends)]


def waiting_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the calls at the end of a history that still wait for their results.

    >>> [call.name for call in waiting_calls([user("go"), call("read", path="a.py")])]
    ['read']
    """
    links = link(messages)
    waiting = open_calls(messages, links)
    return [call for (index, _), call in links.unanswered.items() if index in waiting]


Line: TypeAlias = str | Answer | BaseException
"""One reaction of a scripted model to a question: a text or an answer to return, or an error to raise."""


class Scripted:
    """A model that returns the lines of its script in turn, and then the last one again and again."""

    def __init__(self, answers: Line | Sequence[Line] = (), *, window: int | None = None) -> None:
        self.asked: list[Ask] = []
        """The questions so far, in order."""
        self.window = window
        """Its window, if it has one."""
        self._script = (answers,) if isinstance(answers, Line) else tuple(answers)

    def __call__(self, ask: Ask) -> str | Answer:
        """Return the next line."""
        self.asked.append(ask)
        if not self._script:
            raise AnswerFailed("the script is empty: this model should not have been asked")
        line = self._script[min(len(self.asked), len(self._script)) - 1]
        if isinstance(line, BaseException):
            raise line
        return line

    async def later(self, ask: Ask) -> str | Answer:
        """Return the next line, as an asynchronous model does: `ask=model.later`."""
        return self(ask)


def _parts(content: Sequence[Content]) -> tuple[Part, ...]:
    return tuple(Text(piece) if isinstance(piece, str) else piece for piece in content)


def _format_part(part: Part, limit: int) -> str:
    match part:
        case Text():
            return _shorten(part.text, limit)
        case Thinking():
            return f"(thinks {_shorten(part.text, limit)})"
        case ToolCall():
            return f"-> {part.name}({_shorten(_format_arguments(part.arguments), limit)}) #{part.id}"
        case ToolResult():
            inner = " + ".join(_format_part(piece, limit) for piece in part.content)
            return f"#{part.call_id}{' failed' if part.is_error else ''}: {inner}"
        case Image():
            return f"[image {part.media_type or part.url or part.file_id}]"
        case Document():
            return f"[document {part.title or part.media_type}]"
        case File():
            return f"[file {part.name or part.media_type}]"
    return f"[{part.kind}]"


def _format_arguments(arguments: str | Mapping[str, Any]) -> str:
    if isinstance(arguments, str):
        return arguments
    return ", ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in arguments.items()
    )


def _shorten(text: str, limit: int) -> str:
    line = text.replace("\n", "\\n")
    return line if len(line) <= limit else line[: limit - 3] + "..."
