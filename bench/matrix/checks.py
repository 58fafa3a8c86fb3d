"""Would a provider take this? Written for the matrix, so that our own validator is not the only judge."""

import json
from collections.abc import Sequence
from typing import Any

import refold

Messages = Sequence[dict[str, Any]]
ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


def wrong(view: Messages) -> str:
    """The first thing a provider would refuse, by both judges; "" where there is none."""
    return refused(view) or _validated(view)


def refused(view: Messages) -> str:
    """The first thing that OpenAI's chat completions would refuse."""
    if problem := emptied(view):
        return problem
    waiting: set[str] = set()
    for message in view:
        role = message.get("role")
        if role not in ROLES:
            return f"unknown role {role}"
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                return "a tool result without its call"
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            return "a call without its result"
        calls = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(calls)) != len(calls):
            return "two calls with one id"
        if problem := _content(message, bool(calls)):
            return problem
        waiting = set(calls)
    # calls that still wait at the very end are open: their results are to come
    return ""


def emptied(view: Messages) -> str:
    """Whether nothing is left to send; a summary in the system's role beside the prompt is something."""
    alone = len(view) < 2 and all(message.get("role") == "system" for message in view)
    return "nothing but a system prompt is left" if alone else ""


def _content(message: dict[str, Any], has_calls: bool) -> str:  # noqa: FBT001  # a fact about the message
    content = message.get("content")
    if content is None or content in ("", []):
        return "" if has_calls else f"an empty {message['role']} message"
    for call in message.get("tool_calls") or ():
        try:
            json.loads(call["function"]["arguments"])
        except ValueError:
            return "arguments that are no JSON"
    return ""


def _validated(view: Messages) -> str:
    """The first problem that refold.validate finds; it does not know thinking blocks in this shape."""
    plain = [
        {**message, "content": _spoken(message["content"])}
        if isinstance(message.get("content"), list)
        else message
        for message in view
    ]
    # a call that still waits at the end is no fault here: its result is to come
    problems = [found for found in refold.validate(plain, "openai") if found.rule != "open-call"]
    return f"{problems[0].rule}: {problems[0].message}"[:100] if problems else ""


def _spoken(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block.get("type") == "text") or "(thinks)"


def thoughts(view: Messages) -> list[dict[str, Any]]:
    """Every thinking block."""
    return [
        block
        for message in view
        if isinstance(message.get("content"), list)
        for block in message["content"]
        if block.get("type") == "thinking"
    ]


def put(view: Messages, said: Messages) -> list[dict[str, Any]]:
    """What stands in a view that nobody said: summaries and notes."""
    known = {_key(message) for message in said}
    return [message for message in view if _key(message) not in known]


def _key(message: dict[str, Any]) -> str:
    content = message.get("content")
    text = _spoken(content) if isinstance(content, list) else content or ""
    calls = [call["id"] for call in message.get("tool_calls") or ()]
    return json.dumps([message.get("role"), text, calls, message.get("tool_call_id")])
