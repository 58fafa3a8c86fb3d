"""Reads pi sessions: JSON lines whose entries form a tree; the last entry is the end of the conversation.

On the path to it the latest compaction counts: its summary replaces everything before `firstKeptEntryId`.
Earlier compactions are history, even if they are in the part that was kept.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.transcripts.agents.draft import Draft, first_timestamp, openai_assistant, openai_result
from refold.transcripts.agents.fields import (
    as_list,
    as_object,
    content_text,
    number_at,
    text_at,
    to_seconds,
    to_usage,
)
from refold.transcripts.agents.record_tree import Node
from refold.transcripts.agents.recording import Compaction, Record, Recording, Wire

NAME: Final = "pi"
WIRE: Final = "openai"
_ENTRIES: Final = frozenset(
    {"message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom_message"}
    | {"custom", "label", "session_info", "context_edit", "usage"}
)
_SPEAKING: Final = ("message", "custom_message", "branch_summary")
"""Entries that bring messages."""


def recognise(value: Wire) -> bool:
    """True if only pi writes such a record."""
    kind = value.get("type")
    if kind == "session":
        return isinstance(value.get("cwd"), str) and ("version" in value or "id" in value)
    return (
        isinstance(kind, str)
        and kind in _ENTRIES
        and "parentId" in value
        and isinstance(value.get("id"), str)
    )


def read(records: Sequence[Record]) -> Recording:
    """Read a session."""
    draft = Draft(NAME, WIRE)
    heads = [record.value for record in records if record.value.get("type") == "session"]
    entries = [record for record in records if record.value.get("type") != "session"]
    numbers = {id(record.value): number for number, record in enumerate(records)}
    _read_path(draft, _choose_path(entries, draft), numbers)
    names = [text_at(entry.value, "name") for entry in entries if entry.value.get("type") == "session_info"]
    head = heads[0] if heads else {}
    return draft.finish(
        session=text_at(head, "id"),
        cwd=text_at(head, "cwd") or None,
        title=next((name for name in reversed(names) if name), draft.title) or None,
        at=to_seconds(head.get("timestamp")) or first_timestamp(records),
    )


def _choose_path(entries: Sequence[Record], draft: Draft) -> Sequence[Record]:
    """Return the entries on the path to the last one; files of version 1 have no tree."""
    tree = [entry for entry in entries if isinstance(entry.value.get("id"), str)]
    if not tree:
        return entries
    nodes = [Node(entry.value["id"], text_at(entry.value, "parentId") or None) for entry in tree]
    branch = draft.trace_branch(nodes, [entry.line for entry in tree], len(nodes) - 1, "entry")
    on_path = set(branch.path)
    draft.abandoned = sum(
        entry.value.get("type") in _SPEAKING for index, entry in enumerate(tree) if index not in on_path
    )
    return [tree[index] for index in branch.path]


def _read_path(draft: Draft, path: Sequence[Record], numbers: Mapping[int, int]) -> None:
    said_before: dict[str, int] = {}
    """Number of messages before each entry, by its id."""
    said_before_number: dict[int, int] = {}
    """The same by the entry's number in the file, which version 1 uses."""
    for entry in path:
        value, kind = entry.value, entry.value.get("type")
        said_before[text_at(value, "id")] = len(draft.messages)
        said_before_number[numbers[id(value)]] = len(draft.messages)
        if kind == "compaction":
            first = value.get("firstKeptEntryIndex")
            by_id = said_before.get(text_at(value, "firstKeptEntryId"))
            start = said_before_number.get(first) if isinstance(first, int) else by_id
            _add_compaction(draft, entry, start)
        elif kind == "context_edit":
            _edit_message(draft, value.get("replacement"), said_before.get(text_at(value, "targetId")))
        elif kind == "model_change":
            draft.model = text_at(value, "modelId") or draft.model
        elif kind == "branch_summary":
            draft.add({"role": "user", "content": text_at(value, "summary")}, entry.line)
        elif kind == "custom_message":
            draft.add({"role": "user", "content": _content(value.get("content"))}, entry.line)
        elif kind == "message":
            _add_message(draft, as_object(value.get("message")), entry.line)
        if kind not in _SPEAKING:
            draft.carry(kind)


def _add_compaction(draft: Draft, entry: Record, start: int | None) -> None:
    said = len(draft.messages)
    if start is None:
        message = "the first entry that was kept is not there; nothing counts as kept"
        draft.report("kept", message, entry.line)
    draft.folds.append(
        Compaction(
            said=said,
            kept=(said if start is None else start, said),
            put=({"role": "user", "content": text_at(entry.value, "summary")},),
            trigger="hook" if entry.value.get("fromHook") is True else "",
            tokens_before=number_at(entry.value, "tokensBefore") or None,
            at=to_seconds(entry.value.get("timestamp")),
            line=entry.line,
        )
    )


def _edit_message(draft: Draft, replacement: Any, index: int | None) -> None:
    """Remember what the model sees in place of a message from now on."""
    if index is None or index >= len(draft.messages):
        return
    old = draft.messages[index]
    if isinstance(replacement, dict):
        draft.changed[index] = _to_wire(replacement) or old
    elif isinstance(replacement, str):
        draft.changed[index] = {**old, "content": replacement}


def _add_message(draft: Draft, message: Mapping[str, Any], line: int) -> None:
    wire = _to_wire(message)
    if wire is not None:
        draft.add(wire, line)
    if message.get("role") == "assistant":
        draft.model = text_at(message, "model") or draft.model
        usage = as_object(message.get("usage"))
        draft.add_usage(
            to_usage(
                fresh=number_at(usage, "input"),
                output=number_at(usage, "output"),
                read=number_at(usage, "cacheRead"),
                write=number_at(usage, "cacheWrite"),
            )
        )
    elif message.get("role") == "user":
        draft.suggest_title(content_text(message.get("content")))


def _to_wire(message: Mapping[str, Any]) -> Wire | None:
    """Return a message in OpenAI chat shape; None if the model never sees it."""
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        blocks = as_list(content)
        calls = [
            (text_at(block, "id"), text_at(block, "name"), as_object(block).get("arguments"))
            for block in blocks
            if text_at(block, "type") == "toolCall"
        ]
        thinking = "\n".join(text for block in blocks if (text := text_at(block, "thinking")))
        return openai_assistant(content_text(content), thinking=thinking, calls=calls)
    if role == "toolResult":
        return openai_result(text_at(message, "toolCallId"), _content(content))
    if role == "bashExecution":
        text = f"$ {text_at(message, 'command')}\n{text_at(message, 'output')}"
        return None if message.get("excludeFromContext") is True else {"role": "user", "content": text}
    if role in ("branchSummary", "compactionSummary"):
        return {"role": "user", "content": text_at(message, "summary")}
    if role == "system":
        sections = (
            section if isinstance(section, str) else text_at(section, "text", "content")
            for section in as_list(message.get("sections"))
        )
        return {"role": "system", "content": text_at(message, "content") or "\n\n".join(sections)}
    return {"role": "user", "content": _content(content)} if role in ("user", "custom") else None


def _content(content: Any) -> Any:
    """Return content as text if it is text alone, else as blocks with its images."""
    text = content_text(content)
    images = [
        {
            "type": "image_url",
            "image_url": {"url": f"data:{text_at(block, 'mimeType')};base64,{text_at(block, 'data')}"},
        }
        for block in as_list(content)
        if text_at(block, "type") == "image"
    ]
    if not images:
        return text
    return [{"type": "text", "text": text}, *images] if text else images
