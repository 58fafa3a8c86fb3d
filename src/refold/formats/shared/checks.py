"""Rules that several providers share; each is a function from messages to problems, linear in the history.

Rule names are stable; callers filter by them:

    result-without-call   call-without-result   open-call           duplicate-result   duplicate-call-id
    results-not-adjacent  invalid-arguments     first-not-user      system-inside      unknown-role
    empty-content         empty-text            wrong-role

`open-call` is a call at the very end without a result: an agent is about to run it, but a provider would
refuse the history as it is.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from refold.core.messages.message import Message, Opaque, Text, ToolCall, ToolResult
from refold.core.messages.unread import opens_history
from refold.core.messages.wire_rules import Problem
from refold.formats.shared.writing import UNKNOWN_ROLE

EndsCalls: TypeAlias = Callable[[Message, Message], bool]
"""True if the calls before a message have to be answered by now; takes the message and the one before it."""


def sort_problems(*groups: Iterable[Problem]) -> list[Problem]:
    """Join problems, sorted by position."""
    return sorted(
        (problem for problems in groups for problem in problems),
        key=lambda problem: -1 if problem.index is None else problem.index,
    )


class _Pairing:
    """Calls and results so far."""

    def __init__(self, *, adjacent: bool, unique: bool) -> None:
        self.problems: list[Problem] = []
        self._adjacent = adjacent
        self._unique = unique
        self._waiting: dict[str, tuple[int, ToolCall]] = {}
        self._late: dict[str, tuple[int, ToolCall]] = {}
        self._answered: set[str] = set()

    def end_group(self) -> None:
        """Make calls without a result late from now on."""
        for call_id, call in self._waiting.items():
            older = self._late.get(call_id)
            if older is not None:
                self._report_unanswered("call-without-result", *older)
            self._late[call_id] = call
        self._waiting.clear()

    def add_call(self, index: int, call: ToolCall) -> None:
        is_known = self._unique and (call.id in self._late or call.id in self._answered)
        if is_known or call.id in self._waiting:
            self._report(index, "duplicate-call-id", f"the call id {shorten(call.id)} is used twice")
        self._answered.discard(call.id)
        self._waiting[call.id] = (index, call)

    def add_result(self, index: int, call_id: str) -> None:
        name = shorten(call_id)
        if self._waiting.pop(call_id, None) is not None:
            self._answered.add(call_id)
        elif self._late.pop(call_id, None) is not None:
            self._answered.add(call_id)
            if self._adjacent:
                text = f"the result of call {name} does not stand directly behind its call"
                self._report(index, "results-not-adjacent", text)
        elif call_id in self._answered:
            self._report(index, "duplicate-result", f"call {name} is answered a second time")
        else:
            self._report(index, "result-without-call", f"no call before this result has the id {name}")

    def finish(self) -> None:
        for call in self._late.values():
            self._report_unanswered("call-without-result", *call)
        for call in self._waiting.values():
            self._report_unanswered("open-call", *call)

    def _report_unanswered(self, rule: str, index: int, call: ToolCall) -> None:
        self._report(index, rule, f"call {shorten(call.id)} of {shorten(call.name)} has no result")

    def _report(self, index: int, rule: str, text: str) -> None:
        self.problems.append(Problem(index, rule, text))


def pairs(
    messages: Sequence[Message], ends_calls: EndsCalls, *, adjacent: bool = True, unique: bool = False
) -> list[Problem]:
    """Check that every call is answered once, where the provider expects the result."""
    pairing = _Pairing(adjacent=adjacent, unique=unique)
    before: Message | None = None
    for index, message in enumerate(messages):
        if before is not None and ends_calls(message, before):
            pairing.end_group()
        for part in message.parts:
            if type(part) is ToolCall:
                pairing.add_call(index, part)
            elif type(part) is ToolResult:
                pairing.add_result(index, part.call_id)
        before = message
    pairing.finish()
    return pairing.problems


def arguments(
    messages: Sequence[Message], *, as_text: bool, is_free: Callable[[ToolCall], bool] = lambda _: False
) -> list[Problem]:
    """Check that arguments are JSON text, or an object, as the provider wants; free calls take any text."""

    def expected(call: ToolCall) -> str:
        if not as_text:
            return "an object" if isinstance(call.arguments, str) else ""
        if not isinstance(call.arguments, str):
            return "JSON text"
        # a call without arguments is often sent as empty text, and accepted
        return "" if is_blank(call.arguments) or is_json(call.arguments) else "JSON"

    return [
        Problem(index, "invalid-arguments", f"the arguments of call {shorten(part.id)} are not {what}")
        for index, message in enumerate(messages)
        for part in message.parts
        if type(part) is ToolCall and (what := expected(part)) and not is_free(part)
    ]


def is_json(text: str) -> bool:
    """True if a text is JSON that Python can read."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def roles(messages: Sequence[Message], *, system_inside: bool) -> list[Problem]:
    """Check that every role is known, and that `system` is in the list only where that is allowed."""
    problems = []
    for index, message in enumerate(messages):
        first = message.parts[0] if message.parts else None
        if type(first) is Opaque and first.kind.startswith(UNKNOWN_ROLE):
            role = shorten(first.kind.removeprefix(UNKNOWN_ROLE))
            problems.append(Problem(index, "unknown-role", f"the role {role} is not known"))
        # a system message of ours has no wire value and is written as a user message
        elif message.role == "system" and not system_inside and message.wire is not None:
            text = "system messages do not stand in the list; the provider has a field of its own for them"
            problems.append(Problem(index, "system-inside", text))
    return problems


def system_between(messages: Sequence[Message]) -> list[Problem]:
    """Check that each system message stands between a user's turn and a reply, or last."""
    problems = []
    for index, message in enumerate(messages):
        # a system message of ours has no wire value and is written as a user message
        if message.role != "system" or message.wire is None:
            continue
        before = messages[index - 1] if index else None
        after = messages[index + 1] if index + 1 < len(messages) else None
        is_behind_user = before is not None and (before.role in ("user", "tool") or _is_ours(before))
        if not is_behind_user or (after is not None and after.role != "assistant"):
            text = "a system message stands directly behind a user's turn, and before a reply or last"
            problems.append(Problem(index, "system-inside", text))
    return problems


def _is_ours(message: Message) -> bool:
    return message.role == "system" and message.wire is None


def first_is_user(messages: Sequence[Message]) -> list[Problem]:
    """Check that the first message comes from the user; a system message of ours is written as one.

    A provider's own compaction may be first: it stands for what the user has said.
    """
    for index, message in enumerate(messages):
        if message.role == "user" or _is_ours(message) or opens_history(message):
            return []
        if message.role != "system":
            return [Problem(index, "first-not-user", f"the first message is from the {message.role}")]
    return []


def is_blank(text: str) -> bool:
    """True if a text is empty or white space."""
    return not text or text.isspace()


def has_blank_text(message: Message) -> bool:
    """True if a message has a text part with nothing to read and nothing else to carry."""
    return any(type(part) is Text and not part.extra and is_blank(part.text) for part in message.parts)


def shorten(value: Any) -> str:
    """Show a value of any size in a few characters."""
    text = repr(value if not isinstance(value, str) else value[:80])
    return text if len(text) <= 90 else f"{text[:87]}..."
