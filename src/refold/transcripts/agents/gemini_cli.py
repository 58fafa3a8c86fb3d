"""Reads gemini-cli sessions: a log that repeats a message when it grows, and entries that change the list.

`{"$rewindTo": id}` takes back that message and all behind it. `{"$set": {"messages": [...]}}` replaces what
the model sees: a shorter beginning of the list is a step back, anything else a compaction. Older files hold
one object with all messages.
"""

from collections.abc import Sequence
from typing import Any, Final

from refold.transcripts.agents.draft import Draft
from refold.transcripts.agents.fields import (
    as_list,
    as_object,
    content_text,
    number_at,
    text_at,
    to_seconds,
    to_usage,
)
from refold.transcripts.agents.recording import Compaction, Record, Recording, Wire

NAME: Final = "gemini-cli"
WIRE: Final = "gemini"
_ROLES: Final = {"user": "user", "gemini": "model"}
_NOTES: Final = frozenset({"info", "error", "warning"})


def recognise(value: Wire) -> bool:
    """True if only gemini-cli writes such a record."""
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
    """The messages after all entries so far, each under its id, and the compactions among them."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.order: list[str] = []
        self.records: dict[str, Record] = {}
        self.folds: list[tuple[int, list[Wire], Record]] = []
        """Number of messages before each compaction, the new list, and the record of it."""
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

    def replace(self, values: Sequence[Any], record: Record) -> None:
        """Make a list what the model sees from now on."""
        new = [value for value in values if isinstance(value, dict)]
        names = [text_at(value, "id") for value in new]
        start, put = (self.folds[-1][0], self.folds[-1][1]) if self.folds else (0, [])
        visible = [*(text_at(value, "id") for value in put), *self.order[start:]]
        if names[: len(visible)] == visible:
            for value in new[len(visible) :]:
                self.add(value, record.line)
        elif visible[: len(names)] == names and len(names) >= len(put):
            self.cut(len(self.order) - (len(visible) - len(names)))
        else:
            self.folds.append((len(self.order), new, record))


def read(records: Sequence[Record]) -> Recording:
    """Read a session."""
    draft = Draft(NAME, WIRE)
    log = _Log(draft)
    for record in records:
        value = record.value
        if isinstance(target := value.get("$rewindTo"), str):
            # gemini-cli takes back everything if it does not know the message
            log.cut(log.order.index(target) if target in log.records else 0)
        elif text_at(value, "id") or text_at(value, "type") in _ROLES:
            log.add(value, record.line)
        else:
            facts = as_object(value.get("$set")) if "$set" in value else value
            log.facts.update({key: fact for key, fact in facts.items() if key != "messages"})
            if isinstance(facts.get("messages"), list):
                log.replace(facts["messages"], record)
    _fill_draft(draft, log)
    folders = [name for name in as_list(log.facts.get("directories")) if isinstance(name, str)]
    return draft.finish(
        session=text_at(log.facts, "sessionId"),
        cwd=folders[0] if folders else None,
        title=text_at(log.facts, "summary") or draft.title or None,
        at=to_seconds(log.facts.get("startTime")),
    )


def _fill_draft(draft: Draft, log: _Log) -> None:
    """Add all messages, and each compaction at its place."""
    said_before: list[int] = []
    for name in log.order:
        said_before.append(len(draft.messages))
        value, line = log.records[name].value, log.records[name].line
        kind = text_at(value, "type")
        if kind not in _ROLES:
            draft.carry(value.get("type"))
            continue
        for message in _to_contents(value):
            draft.add(message, line)
        if kind == "user":
            content = value.get("content")
            draft.suggest_title(content_text(content if isinstance(content, str | list) else [content]))
            continue
        draft.model = text_at(value, "model") or draft.model
        report = as_object(value.get("tokens"))
        total, cached = number_at(report, "input"), number_at(report, "cached")
        usage = to_usage(
            fresh=max(0, total - cached),
            output=number_at(report, "output") + number_at(report, "thoughts"),
            read=min(cached, total),
        )
        draft.add_usage(usage, said_before[-1])
    said_before.append(len(draft.messages))
    for number, values, record in log.folds:
        said = said_before[number]
        put = tuple(message for value in values for message in _to_contents(value))
        draft.folds.append(Compaction(said=said, kept=(said, said), put=put, line=record.line))


def _to_contents(value: Wire) -> list[Wire]:
    """Return a message as contents: its own parts, and behind it the results of its tools."""
    role = _ROLES.get(text_at(value, "type"))
    if role is None:
        return []
    parts, results = _to_parts(value.get("content")), []
    for tool in as_list(value.get("toolCalls")) if role == "model" else ():
        name = text_at(tool, "name")
        if not name:
            continue
        head = {**({"id": call_id} if (call_id := text_at(tool, "id")) else {}), "name": name}
        parts.append({"functionCall": {**head, "args": dict(as_object(tool.get("args")))}})
        if tool.get("result") is None:
            continue
        result = _to_parts(tool["result"])
        if not any("functionResponse" in part for part in result):
            output = "\n".join(text_at(part, "text") for part in result)
            result = [{"functionResponse": {**head, "response": {"output": output}}}]
        results += result
    contents: list[Wire] = [{"role": role, "parts": parts}] if parts else []
    return [*contents, {"role": "user", "parts": results}] if results else contents


def _to_parts(content: Any) -> list[Wire]:
    """Return content of any of its shapes as a list of parts."""
    values = content if isinstance(content, list) else [content]
    return [
        {"text": value} if isinstance(value, str) else value
        for value in values
        if (value and isinstance(value, str)) or isinstance(value, dict)
    ]
