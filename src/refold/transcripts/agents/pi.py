"""pi: JSON lines whose entries form a tree; the last entry is where the conversation is.

On the way to it the latest compaction counts: its summary stands for all before `firstKeptEntryId`. Those
before it are history, also where they stand in what was kept.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.core.tokens.usage import Usage
from refold.transcripts.agents.shaping import (
    Draft,
    list_of,
    number_at,
    object_of,
    openai_assistant,
    openai_image,
    openai_result,
    said_text,
    seconds,
    started,
    text_at,
    title_of,
    usage_of,
)
from refold.transcripts.agents.trees import Node, branch
from refold.transcripts.agents.values import Compaction, Record, Recording, Wire

NAME: Final = "pi"
WIRE: Final = "openai"
_OWN: Final = frozenset(
    {"message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom_message"}
    | {"custom", "label", "session_info", "context_edit", "usage"}
)


def recognise(value: Wire) -> bool:
    """Whether only pi writes such a record."""
    kind = value.get("type")
    if kind == "session":
        return isinstance(value.get("cwd"), str) and ("version" in value or "id" in value)
    return isinstance(kind, str) and kind in _OWN and "parentId" in value and isinstance(value.get("id"), str)


def read(records: Sequence[Record]) -> Recording:
    """Read a session."""
    draft = Draft(NAME, WIRE)
    heads = [one.value for one in records if one.value.get("type") == "session"]
    entries = [one for one in records if one.value.get("type") != "session"]
    way = _way(entries, draft)
    where = {id(records[index].value): index for index in range(len(records))}
    _walk(draft, way, [where[id(one.value)] for one in way])
    names = [text_at(one.value, "name") for one in entries if one.value.get("type") == "session_info"]
    head = heads[0] if heads else {}
    return draft.done(
        session=text_at(head, "id"),
        cwd=text_at(head, "cwd") or None,
        title=next((name for name in reversed(names) if name), draft.title) or None,
        at=seconds(head.get("timestamp")) or started(records),
    )


def _way(entries: Sequence[Record], draft: Draft) -> list[Record]:
    """The entries on the way to the last one; files of version 1 are one way."""
    tree = [one for one in entries if isinstance(one.value.get("id"), str)]
    if not tree:
        return list(entries)
    nodes = [Node(one.value["id"], text_at(one.value, "parentId") or None) for one in tree]
    found = branch(nodes, len(nodes) - 1)
    if found.cycle is not None:
        draft.problem("cycle", "an entry is its own ancestor; each is read once", tree[found.cycle].line)
    for index in found.missing:
        draft.problem(
            "parent", "the entry before this one is missing; read on all the same", tree[index].line
        )
    on = set(found.path)
    draft.abandoned = sum(_speaks(one.value) for index, one in enumerate(tree) if index not in on)
    return [tree[index] for index in found.path]


def _speaks(value: Wire) -> bool:
    return value.get("type") in ("message", "custom_message", "branch_summary")


def _walk(draft: Draft, way: Sequence[Record], numbers: Sequence[int]) -> None:
    first: dict[str, int] = {}
    """How many messages had been said before each entry."""
    by_number: dict[int, int] = {}
    for one, number in zip(way, numbers, strict=True):
        value, kind = one.value, one.value.get("type")
        first[text_at(value, "id")] = by_number[number] = len(draft.messages)
        if kind == "compaction":
            at = value.get("firstKeptEntryIndex")
            start = (
                by_number.get(at) if isinstance(at, int) else first.get(text_at(value, "firstKeptEntryId"))
            )
            _compacted(draft, one, start)
        elif kind == "context_edit":
            _edited(draft, value, first.get(text_at(value, "targetId")))
        elif kind == "model_change":
            draft.model = text_at(value, "modelId") or draft.model
        for message in _messages(value):
            draft.say(message, one.line)
        if kind == "message":
            _note(draft, object_of(value.get("message")))
        if not _speaks(value):
            draft.carry(kind)


def _compacted(draft: Draft, one: Record, start: int | None) -> None:
    said = len(draft.messages)
    if start is None:
        draft.problem("kept", "the first entry that was kept is not there; nothing counts as kept", one.line)
    draft.folds.append(
        Compaction(
            said=said,
            kept=(said, said) if start is None else (start, said),
            put=({"role": "user", "content": text_at(one.value, "summary")},),
            trigger="hook" if one.value.get("fromHook") is True else "",
            tokens_before=number_at(one.value, "tokensBefore") or None,
            at=seconds(one.value.get("timestamp")),
            line=one.line,
        )
    )


def _edited(draft: Draft, value: Wire, index: int | None) -> None:
    """What an entry says shall be seen in place of a message."""
    if index is None or index >= len(draft.messages):
        return
    new, old = value.get("replacement"), draft.messages[index]
    if isinstance(new, dict):
        found = list(_said(new))
        draft.changed[index] = found[0] if found else old
    elif isinstance(new, str):
        draft.changed[index] = {**old, "content": new}


def _note(draft: Draft, message: Mapping[str, Any]) -> None:
    """Keep what an assistant's message tells besides, and what a title can be made of."""
    if message.get("role") == "assistant":
        draft.model = text_at(message, "model") or draft.model
        draft.note(_usage(object_of(message.get("usage"))))
    elif message.get("role") == "user" and not draft.title:
        draft.title = title_of(said_text(message.get("content"))) or ""


def _usage(told: Mapping[str, Any]) -> Usage | None:
    return usage_of(
        fresh=number_at(told, "input"),
        output=number_at(told, "output"),
        read=number_at(told, "cacheRead"),
        write=number_at(told, "cacheWrite"),
    )


def _messages(value: Wire) -> Sequence[Wire]:
    """The messages that an entry brings."""
    kind = value.get("type")
    if kind == "branch_summary":
        return [{"role": "user", "content": text_at(value, "summary")}]
    if kind == "custom_message":
        return [{"role": "user", "content": _content(value.get("content"))}]
    return _said(object_of(value.get("message"))) if kind == "message" else ()


def _said(message: Mapping[str, Any]) -> Sequence[Wire]:
    role = message.get("role")
    if role == "assistant":
        return [_assistant(message)]
    if role == "toolResult":
        return [openai_result(text_at(message, "toolCallId"), _content(message.get("content")))]
    if role == "bashExecution":
        words = f"$ {text_at(message, 'command')}\n{text_at(message, 'output')}"
        return () if message.get("excludeFromContext") is True else [{"role": "user", "content": words}]
    if role in ("branchSummary", "compactionSummary"):
        return [{"role": "user", "content": text_at(message, "summary")}]
    if role == "system":
        return [{"role": "system", "content": text_at(message, "content") or _sections(message)}]
    return (
        [{"role": "user", "content": _content(message.get("content"))}] if role in ("user", "custom") else ()
    )


def _sections(message: Mapping[str, Any]) -> str:
    parts = list_of(message.get("sections"))
    return "\n\n".join(part if isinstance(part, str) else text_at(part, "text", "content") for part in parts)


def _assistant(message: Mapping[str, Any]) -> Wire:
    blocks = message.get("content")
    calls = [
        (text_at(block, "id"), text_at(block, "name"), object_of(block).get("arguments"))
        for block in list_of(blocks)
        if text_at(block, "type") == "toolCall"
    ]
    thinking = [text_at(block, "thinking") for block in list_of(blocks) if text_at(block, "thinking")]
    return openai_assistant(said_text(blocks), thinking="\n".join(thinking), calls=calls)


def _content(content: Any) -> Any:
    """Content as it was said: text alone as text, with pictures as a list of blocks."""
    pictures = [block for block in list_of(content) if text_at(block, "type") == "image"]
    if not pictures:
        return said_text(content)
    words = said_text(content)
    texts = [{"type": "text", "text": words}] if words else []
    return [*texts, *(openai_image(text_at(one, "mimeType"), text_at(one, "data")) for one in pictures)]
