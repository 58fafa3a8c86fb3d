"""Builders and checks for people who test code that uses refold; knows the core alone, no provider's shape.

    history = [
        system("You help."),
        user("what is in a.py?"),
        call("read", path="a.py"),          # an assistant message with one tool call, its id is c1
        result("c1", "x = 1"),
        assistant(thinking("easy"), "One line."),
    ]
    print(shape(history))                   # one line a message, for golden comparisons

    system: You help.
    user: what is in a.py?
    assistant: -> read(path=a.py) #c1
    tool #c1: x = 1
    assistant: (thinks easy) | One line.

A scripted model stands in for a real one and remembers what it was asked:

    model = Scripted(["first summary", TimeoutError("slow"), Answer(text="cut", finish="length")])
    outcome = refold.compact(history, ask=model, force=True)
    assert "a.py" in model.asked[0]
"""

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
"""A PNG of one pixel, the picture that `image()` shows."""

Content: TypeAlias = str | Part


def user(*content: Content, **fields: Any) -> Message:
    """What a user says: texts and parts; fields are those of a `Message` (id, pinned, ...)."""
    return _message("user", content, fields)


def assistant(*content: Content, **fields: Any) -> Message:
    """What a model says."""
    return _message("assistant", content, fields)


def system(*content: Content, **fields: Any) -> Message:
    """A system message."""
    return _message("system", content, fields)


def summary(text: str, /, *, role: Role = "user", kind: str = "summary", **meta: Any) -> Message:
    """A message that a fold put there."""
    return Message(role, (Text(text),), source=SUMMARY, meta={"kind": kind, **meta})


def call(tool: str, /, *, id: str = "", **arguments: Any) -> Message:  # noqa: A002  # the field's own name
    """An assistant message that calls one tool; its id is c1 unless given."""
    return calls(call_part(tool, id=id, **arguments))


def calls(*content: Content, **fields: Any) -> Message:
    """An assistant message with several calls, beside other content; calls without an id are c1, c2, ..."""
    parts: list[Content] = []
    number = 0
    for piece in content:
        number += isinstance(piece, ToolCall)
        parts.append(replace(piece, id=piece.id or f"c{number}") if isinstance(piece, ToolCall) else piece)
    return assistant(*parts, **fields)


def call_part(tool: str, /, *, id: str = "", **arguments: Any) -> ToolCall:  # noqa: A002  # the field's own name
    """A tool call, to stand in a message."""
    return ToolCall(id, tool, arguments)


def result(call_id: str, *content: Content, role: Role = "tool", name: str | None = None) -> Message:
    """A message that answers a call; `role="user"` for providers that want it so."""
    return Message(role, (result_part(call_id, *content, name=name),))


def result_part(
    call_id: str, *content: Content, name: str | None = None, is_error: bool = False
) -> ToolResult:
    """A tool result, to stand in a message."""
    return ToolResult(call_id, _parts(content), name=name, is_error=is_error)


def thinking(text: str, *, signature: str | None = "signed") -> Thinking:
    """A model's reasoning, to stand in a message."""
    return Thinking(text, signature=signature)


def image(data: str = PIXEL, *, media_type: str = "image/png", url: str | None = None) -> Image:
    """A picture, to stand in a message; by address where a `url` is given."""
    return Image(url=url) if url is not None else Image(data=data, media_type=media_type)


def shape(messages: Sequence[Message], *, limit: int = 80) -> str:
    """Print a conversation, one line a message; longer texts end in three dots.

    >>> print(shape([user("hi"), call("read", path="a.py"), result("c1", "x = 1")]))
    user: hi
    assistant: -> read(path=a.py) #c1
    tool #c1: x = 1
    """
    return "\n".join(_line(message, limit) for message in messages)


def loose_ends(messages: Sequence[Message]) -> list[str]:
    """Name each result without its call and each call without its result; open calls are none."""
    links, waiting = link(messages), open_calls(messages)
    ends = {place: f"result #{part.call_id} without its call" for place, part in links.orphans.items()}
    for place, part in links.unanswered.items():
        if place[0] not in waiting:
            ends[place] = f"call #{part.id} without its result"
    return [f"{place[0]}: {ends[place]}" for place in sorted(ends)]


Line: TypeAlias = str | Answer | BaseException
"""What a scripted model does when it is asked: give a text or an answer, or raise."""


class Scripted:
    """A model that gives the lines of its script in turn, and the last one for ever."""

    def __init__(self, answers: Line | Sequence[Line] = (), *, window: int | None = None) -> None:
        self.asked: list[Ask] = []
        """What it was asked, in order."""
        self.window = window
        """Its window, where it tells one."""
        self._script = (answers,) if isinstance(answers, Line) else tuple(answers)

    def __call__(self, ask: Ask) -> str | Answer:
        """Say the next line."""
        self.asked.append(ask)
        if not self._script:
            raise AnswerFailed("the script is empty: this model was not to be asked")
        line = self._script[min(len(self.asked), len(self._script)) - 1]
        if isinstance(line, BaseException):
            raise line
        return line

    async def later(self, ask: Ask) -> str | Answer:
        """Say the next line, as an asynchronous model does: `ask=model.later`."""
        return self(ask)


def _message(role: Role, content: Sequence[Content], fields: Mapping[str, Any]) -> Message:
    return Message(role, _parts(content), **fields)


def _parts(content: Sequence[Content]) -> tuple[Part, ...]:
    return tuple(Text(piece) if isinstance(piece, str) else piece for piece in content)


def _line(message: Message, limit: int) -> str:
    head: str = message.role
    if message.is_summary:
        head += f" ({message.meta.get('kind', SUMMARY)})"
    if message.pinned:
        head += " (pinned)"
    said = " | ".join(_shown(part, limit) for part in message.parts)
    joint = " " if message.parts and isinstance(message.parts[0], ToolResult) else ": "
    return f"{head}{joint}{said}" if said else f"{head}:"


def _shown(part: Part, limit: int) -> str:
    match part:
        case Text():
            return _short(part.text, limit)
        case Thinking():
            return f"(thinks {_short(part.text, limit)})"
        case ToolCall():
            return f"-> {part.name}({_short(_arguments(part.arguments), limit)}) #{part.id}"
        case ToolResult():
            inner = " + ".join(_shown(piece, limit) for piece in part.content)
            return f"#{part.call_id}{' failed' if part.is_error else ''}: {inner}"
        case Image():
            return f"[image {part.media_type or part.url or part.file_id}]"
        case Document():
            return f"[document {part.title or part.media_type}]"
        case File():
            return f"[file {part.name or part.media_type}]"
    return f"[{part.kind}]"


def _arguments(arguments: str | Mapping[str, Any]) -> str:
    if isinstance(arguments, str):
        return arguments
    return ", ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in arguments.items()
    )


def _short(text: str, limit: int) -> str:
    line = text.replace("\n", "\\n")
    return line if len(line) <= limit else line[: limit - 3] + "..."
