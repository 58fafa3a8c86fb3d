"""Rules that several providers share, each a small function from messages to problems; linear in the history.

Rule names are stable; callers filter by them:

    result-without-call   call-without-result   open-call           duplicate-result   duplicate-call-id
    results-not-adjacent  invalid-arguments     first-not-user      system-inside      unknown-role
    empty-content         empty-text

`open-call` is a call at the very end that nobody has answered yet: an agent is about to run it, but a
provider would refuse the history as it stands.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from refold.core.messages.message import Message, Opaque, Text, ToolCall
from refold.core.messages.message import ToolResult as Result
from refold.core.messages.wire_rules import Problem
from refold.formats.shared.writing import WHOLE

Closes: TypeAlias = Callable[[Message, Message], bool]
"""Given a message and the one before it: do the calls before it have to be answered by now?"""


def in_order(*found: Iterable[Problem]) -> list[Problem]:
    """Join problems, in order of position."""
    return sorted(
        (problem for problems in found for problem in problems),
        key=lambda problem: -1 if problem.index is None else problem.index,
    )


class _Pairs:
    """Calls and results met so far."""

    def __init__(self, *, adjacent: bool, unique: bool) -> None:
        self.problems: list[Problem] = []
        self._adjacent = adjacent
        self._unique = unique
        self._waiting: dict[str, tuple[int, ToolCall]] = {}
        self._late: dict[str, tuple[int, ToolCall]] = {}
        self._answered: set[str] = set()

    def close(self) -> None:
        """Calls that wait are late from now on."""
        for call_id, call in self._waiting.items():
            older = self._late.get(call_id)
            if older is not None:
                self._unanswered("call-without-result", *older)
            self._late[call_id] = call
        self._waiting.clear()

    def call(self, index: int, call: ToolCall) -> None:
        if call.id in self._waiting or (
            self._unique and (call.id in self._late or call.id in self._answered)
        ):
            self._say(index, "duplicate-call-id", f"the call id {short(call.id)} is used twice")
        self._answered.discard(call.id)
        self._waiting[call.id] = (index, call)

    def result(self, index: int, result: Result) -> None:
        call_id = result.call_id
        if self._waiting.pop(call_id, None) is not None:
            self._answered.add(call_id)
        elif self._late.pop(call_id, None) is not None:
            self._answered.add(call_id)
            if self._adjacent:
                text = f"the result of call {short(call_id)} does not stand directly behind its call"
                self._say(index, "results-not-adjacent", text)
        elif call_id in self._answered:
            self._say(index, "duplicate-result", f"call {short(call_id)} is answered a second time")
        else:
            self._say(index, "result-without-call", f"no call before this result has the id {short(call_id)}")

    def end(self) -> None:
        for call in self._late.values():
            self._unanswered("call-without-result", *call)
        for call in self._waiting.values():
            self._unanswered("open-call", *call)

    def _unanswered(self, rule: str, index: int, call: ToolCall) -> None:
        self._say(index, rule, f"call {short(call.id)} of {short(call.name)} has no result")

    def _say(self, index: int, rule: str, text: str) -> None:
        self.problems.append(Problem(index, rule, text))


def pairs(
    messages: Sequence[Message], closes: Closes, *, adjacent: bool = True, unique: bool = False
) -> list[Problem]:
    """Every call is answered once, where the provider expects it."""
    seen = _Pairs(adjacent=adjacent, unique=unique)
    before: Message | None = None
    for index, message in enumerate(messages):
        if before is not None and closes(message, before):
            seen.close()
        for part in message.parts:
            if type(part) is ToolCall:
                seen.call(index, part)
            elif type(part) is Result:
                seen.result(index, part)
        before = message
    seen.end()
    return seen.problems


def arguments(
    messages: Sequence[Message], *, as_text: bool, free: Callable[[ToolCall], bool] = lambda _: False
) -> list[Problem]:
    """Arguments are JSON text, or an object, as the provider wants them; `free` calls take any text."""
    return [
        Problem(index, "invalid-arguments", f"the arguments of call {short(part.id)} are not {wanted}")
        for index, message in enumerate(messages)
        for part in message.parts
        if type(part) is ToolCall and (wanted := _wanted(part, as_text=as_text)) and not free(part)
    ]


def _wanted(call: ToolCall, *, as_text: bool) -> str:
    """What the arguments should be and are not; empty where they are right."""
    given = call.arguments
    if not as_text:
        return "an object" if isinstance(given, str) else ""
    if not isinstance(given, str):
        return "JSON text"
    # a call without arguments is often sent as empty text, and taken
    return "" if not given or given.isspace() or is_json(given) else "JSON"


def is_json(text: str) -> bool:
    """Whether a text is JSON that Python can read."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def roles(messages: Sequence[Message], *, system_inside: bool) -> list[Problem]:
    """Every role is known, and `system` stands in the list only where it may (ours is written as user)."""
    found = []
    for index, message in enumerate(messages):
        if role := _foreign_role(message):
            found.append(Problem(index, "unknown-role", f"the role {short(role)} is not known"))
        elif message.role == "system" and not system_inside and message.wire is not None:
            text = "system messages do not stand in the list; the provider has a field of its own for them"
            found.append(Problem(index, "system-inside", text))
    return found


def _foreign_role(message: Message) -> str:
    first = message.parts[0] if message.parts else None
    if type(first) is Opaque and first.kind.startswith(WHOLE):
        return first.kind.removeprefix(WHOLE)
    return ""


def first_is_user(messages: Sequence[Message]) -> list[Problem]:
    """The first message comes from the user; a system message of ours is written as one."""
    for index, message in enumerate(messages):
        if message.role == "user" or (message.role == "system" and message.wire is None):
            return []
        if message.role != "system":
            return [Problem(index, "first-not-user", f"the first message is from the {message.role}")]
    return []


def blank(text: str) -> bool:
    """Whether there is nothing to read in a text."""
    return not text or text.isspace()


def short(value: Any) -> str:
    """Show a value of unknown size in a few characters."""
    text = repr(value if not isinstance(value, str) else value[:80])
    return text if len(text) <= 90 else f"{text[:87]}..."


def blank_texts(message: Message) -> bool:
    """Whether a message has a text part with nothing to read and nothing else to carry."""
    return any(type(part) is Text and not part.extra and blank(part.text) for part in message.parts)
