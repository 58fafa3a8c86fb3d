"""gemini-cli: a log in which a message is written anew whenever it grows, and marks that change the list.

`{"$rewindTo": id}` takes back that message and all behind it. `{"$set": {"messages": [...]}}` replaces what
the model sees: a shorter beginning of the list is a step back, anything else a compaction. Older files hold
one object with all messages.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.core.tokens.usage import Usage
from refold.transcripts.agents.shaping import (
    Draft,
    list_of,
    number_at,
    object_of,
    said_text,
    seconds,
    text_at,
    title_of,
    usage_of,
)
from refold.transcripts.agents.values import Compaction, Record, Recording, Wire

NAME: Final = "gemini-cli"
WIRE: Final = "gemini"
_ROLES: Final = {"user": "user", "gemini": "model"}
_NOTES: Final = frozenset({"info", "error", "warning"})


def recognise(value: Wire) -> bool:
    """Whether only gemini-cli writes such a record."""
    if "$set" in value or "$rewindTo" in value or ("sessionId" in value and "projectHash" in value):
        return True
    kind = value.get("type")
    return (
        isinstance(kind, str)
        and isinstance(value.get("id"), str)
        and "content" in value
        and (kind == "gemini" or (kind in ("user", *_NOTES) and "timestamp" in value and "uuid" not in value))
    )


class _Log:
    """The messages as they stand, each under its id, and the compactions among them."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.order: list[str] = []
        self.records: dict[str, Record] = {}
        self.folds: list[tuple[int, list[Wire], Record]] = []
        self.facts: dict[str, Any] = {}

    def add(self, value: Wire, line: int) -> None:
        name = text_at(value, "id") or f"line {line}"
        if name not in self.records:
            self.order.append(name)
        self.records[name] = Record(value, line)

    def cut(self, length: int) -> None:
        for name in self.order[length:]:
            del self.records[name]
        self.draft.abandoned += len(self.order) - length
        del self.order[length:]
        self.folds = [fold for fold in self.folds if fold[0] <= length]

    def rewind(self, name: str) -> None:
        """Take back a message and all behind it; gemini-cli takes back all where it does not know it."""
        self.cut(self.order.index(name) if name in self.records else 0)

    def replace(self, values: Sequence[Any], one: Record) -> None:
        """Take a list for what the model sees from now on."""
        new = [value for value in values if isinstance(value, dict)]
        names = [text_at(value, "id") for value in new]
        now = self.order[self.folds[-1][0] :] if self.folds else self.order
        begun = [text_at(value, "id") for value in self.folds[-1][1]] if self.folds else []
        shown = [*begun, *now]
        if names[: len(shown)] == shown:
            for value in new[len(shown) :]:
                self.add(value, one.line)
        elif shown[: len(names)] == names and len(names) >= len(begun):
            self.cut(len(self.order) - (len(shown) - len(names)))
        else:
            self.folds.append((len(self.order), new, one))


def read(records: Sequence[Record]) -> Recording:
    """Read a session."""
    draft = Draft(NAME, WIRE)
    log = _Log(draft)
    for one in records:
        value = one.value
        if isinstance(back := value.get("$rewindTo"), str):
            log.rewind(back)
        elif text_at(value, "id") or text_at(value, "type") in _ROLES:
            log.add(value, one.line)
        else:
            facts = object_of(value.get("$set")) if "$set" in value else value
            log.facts.update({key: found for key, found in facts.items() if key != "messages"})
            if isinstance(facts.get("messages"), list):
                log.replace(facts["messages"], one)
    _tell(draft, log)
    folders = [name for name in list_of(log.facts.get("directories")) if isinstance(name, str)]
    return draft.done(
        session=text_at(log.facts, "sessionId"),
        cwd=folders[0] if folders else None,
        title=text_at(log.facts, "summary") or draft.title or None,
        at=seconds(log.facts.get("startTime")),
    )


def _tell(draft: Draft, log: _Log) -> None:
    """Say all messages, and put each compaction where it happened."""
    places = {}
    for number, name in enumerate(log.order):
        places[number] = len(draft.messages)
        one = log.records[name]
        if text_at(one.value, "type") not in _ROLES:
            draft.carry(one.value.get("type"))
            continue
        said = _messages(one.value)
        for message in said:
            draft.say(message, one.line)
        _note(draft, one.value, len(draft.messages) - len(said))
    for number, values, one in log.folds:
        put = tuple(message for value in values for message in _messages(value))
        said_then = places.get(number, len(draft.messages))
        draft.folds.append(Compaction(said=said_then, kept=(said_then, said_then), put=put, line=one.line))


def _note(draft: Draft, value: Wire, index: int) -> None:
    if value["type"] == "gemini":
        draft.model = text_at(value, "model") or draft.model
        draft.note(_usage(object_of(value.get("tokens"))), index)
    elif not draft.title:
        draft.title = title_of(_words(value.get("content"))) or ""


def _words(content: Any) -> str:
    return (
        content
        if isinstance(content, str)
        else said_text(content if isinstance(content, list) else [content])
    )


def _usage(told: Mapping[str, Any]) -> Usage | None:
    whole, read = number_at(told, "input"), number_at(told, "cached")
    output = number_at(told, "output") + number_at(told, "thoughts")
    return usage_of(fresh=max(0, whole - read), output=output, read=min(read, whole))


def _messages(value: Wire) -> list[Wire]:
    """A message as contents: what was said, and behind it what the tools answered."""
    role = _ROLES.get(text_at(value, "type"))
    if role is None:
        return []
    tools = [object_of(call) for call in list_of(value.get("toolCalls"))] if role == "model" else []
    calls = [{"functionCall": _call(tool)} for tool in tools if text_at(tool, "name")]
    answers = [part for tool in tools for part in _answer(tool)]
    parts = [*_parts(value.get("content")), *calls]
    said: list[Wire] = [{"role": role, "parts": parts}] if parts else []
    return [*said, {"role": "user", "parts": answers}] if answers else said


def _call(tool: Mapping[str, Any]) -> Wire:
    name = text_at(tool, "id")
    return {**({"id": name} if name else {}), "name": tool["name"], "args": dict(object_of(tool.get("args")))}


def _answer(tool: Mapping[str, Any]) -> list[Wire]:
    """What a tool answered: responses as they are, anything else as the output of one."""
    if not text_at(tool, "name") or tool.get("result") is None:
        return []
    parts = _parts(tool["result"])
    if any("functionResponse" in part for part in parts):
        return parts
    name = text_at(tool, "id")
    output = "\n".join(text_at(part, "text") for part in parts)
    response = {"name": tool["name"], "response": {"output": output}}
    return [{"functionResponse": {**({"id": name} if name else {}), **response}}]


def _parts(content: Any) -> list[Wire]:
    """Content of any of its shapes as a list of parts."""
    if isinstance(content, str):
        return [{"text": content}] if content else []
    values = content if isinstance(content, list) else [content]
    return [part for value in values for part in _part(value)]


def _part(value: Any) -> list[Wire]:
    if isinstance(value, str):
        return [{"text": value}] if value else []
    return [value] if isinstance(value, dict) else []
