"""Reads Claude Code sessions: JSON lines that form a tree; one message of the API may span many lines.

A record names its parent. Parallel calls branch off, and their results hang beside the path to the last
message; they belong to it all the same. A compaction is a `compact_boundary`, which starts a new tree and
names what came before it as its logical parent, and a user message that holds the summary.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from refold.core.tokens.usage import read_usage
from refold.transcripts.agents.draft import Draft, first_timestamp
from refold.transcripts.agents.fields import as_list, as_object, content_text, number_at, text_at, to_seconds
from refold.transcripts.agents.record_tree import Node, add_side_nodes
from refold.transcripts.agents.recording import Compaction, Record, Recording, Wire

NAME: Final = "claude-code"
WIRE: Final = "anthropic"
_TITLES: Final = {
    "custom-title": ("customTitle", "title"),
    "ai-title": ("aiTitle", "title"),
    "summary": ("summary",),
}
"""Records that name the session, the most important first."""
_OWN_TYPES: Final = frozenset(
    {"file-history-snapshot", "queue-operation", "summary", "custom-title", "ai-title"}
)
_GENERATED_STARTS: Final = ("<", "[Request interrupted")
"""First words of user messages that the program wrote, not the user."""
_ENVELOPE: Final = ("parentUuid", "sessionId", "isSidechain")


def recognise(value: Wire) -> bool:
    """True if only Claude Code writes such a record."""
    if not isinstance(value.get("type"), str):
        return False
    if "uuid" in value and any(key in value for key in _ENVELOPE):
        return True
    return value["type"] in _OWN_TYPES and any(key in value for key in ("sessionId", "messageId", "leafUuid"))


def read(records: Sequence[Record]) -> Recording:
    """Read a session; side chains of sub-agents only if the file holds nothing else."""
    draft = Draft(NAME, WIRE)
    nodes = [record for record in records if isinstance(record.value.get("uuid"), str)]
    main = [record for record in nodes if record.value.get("isSidechain") is not True]
    nodes = main or nodes
    for record in records:
        if not _is_message(record.value):
            draft.carry(record.value.get("type"))
    _Reader(draft).read([nodes[index] for index in _choose_path(nodes, draft)])
    values = [record.value for record in records]
    titles = {
        kind: text_at(value, *keys)
        for value in values
        for kind, keys in _TITLES.items()
        if value.get("type") == kind
    }
    title = next((titles[kind] for kind in _TITLES if titles.get(kind)), draft.title)
    return draft.finish(
        session=next((name for value in values if (name := text_at(value, "sessionId"))), ""),
        cwd=next((name for value in values if (name := text_at(value, "cwd"))), None),
        title=title or None,
        at=first_timestamp(records),
    )


def _is_message(value: Wire) -> bool:
    return value.get("type") in ("user", "assistant") and isinstance(value.get("message"), dict)


def _choose_path(records: Sequence[Record], draft: Draft) -> list[int]:
    """Return the records that belong to the branch of the last message, in order."""
    # Across a compaction only the logical parent links to earlier records.
    nodes = [
        Node(record.value["uuid"], text_at(record.value, "parentUuid", "logicalParentUuid") or None)
        for record in records
    ]
    message_indices = [index for index, record in enumerate(records) if _is_message(record.value)]
    if not message_indices:
        return []
    branch = draft.trace_branch(nodes, [record.line for record in records], message_indices[-1], "record")
    on_path = [records[index].value for index in branch.path]
    replies = {name for value in on_path if (name := text_at(value.get("message"), "id"))}
    answered = {name for value in on_path for name in _block_ids(value, "tool_result", "tool_use_id")}
    unanswered = {
        name
        for record in records
        if text_at(record.value.get("message"), "id") in replies
        for name in _block_ids(record.value, "tool_use", "id")
    } - answered
    # Other lines of the replies on the path and the results of their parallel calls are not on it themselves.
    wanted = {
        index
        for index in message_indices
        if (
            text_at(records[index].value["message"], "id") in replies
            if records[index].value["type"] == "assistant"
            else unanswered.intersection(_block_ids(records[index].value, "tool_result", "tool_use_id"))
        )
    }
    order = add_side_nodes(branch, wanted)
    draft.abandoned = len(set(message_indices) - set(order))
    return order


def _block_ids(value: Wire, kind: str, key: str) -> list[str]:
    blocks = as_list(as_object(value.get("message")).get("content"))
    return [name for block in blocks if text_at(block, "type") == kind and (name := text_at(block, key))]


class _Reader:
    """Turns the chosen records into messages, one after the other."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.indexes: dict[str, int] = {}
        """The message that each record became, by the record's uuid."""
        self.reply_id = ""
        self.reply_index = -1
        """The API's id and the index of the assistant's last message."""
        self.answered: set[str] = set()
        self.reports: dict[int, Any] = {}
        """Reported usage by message; the last line of a message has the whole of it."""

    def read(self, records: Sequence[Record]) -> None:
        for record in records:
            value = record.value
            if value.get("subtype") == "compact_boundary":
                self.start_compaction(record)
            elif value.get("type") == "attachment":
                self.add_queued_prompt(record)
            elif value.get("isCompactSummary") is True and _is_message(value):
                self.add_summary(record)
            elif _is_message(value) and value.get("isApiErrorMessage") is not True:
                add = self.add_assistant if value["type"] == "assistant" else self.add_user
                add(record, value["message"])
            self.indexes[value["uuid"]] = len(self.draft.messages) - 1
        for index, report in self.reports.items():
            self.draft.add_usage(read_usage(report), index)

    def start_compaction(self, record: Record) -> None:
        """Add a compaction; its summary is in a later record."""
        about = as_object(record.value.get("compactMetadata"))
        segment = about.get("preservedSegment")
        first = self.indexes.get(text_at(segment, "headUuid"))
        last = self.indexes.get(text_at(segment, "tailUuid"))
        kept = (0, 0)
        if first is not None and last is not None and 0 <= first <= last:
            kept = (first, last + 1)
        self.draft.folds.append(
            Compaction(
                said=len(self.draft.messages),
                kept=kept,
                trigger=text_at(about, "trigger"),
                tokens_before=number_at(about, "preTokens") or None,
                tokens_after=number_at(about, "postTokens") or None,
                at=to_seconds(record.value.get("timestamp")),
                line=record.line,
            )
        )
        self.reply_id = ""

    def add_summary(self, record: Record) -> None:
        """Add a summary to its compaction; a summary without its boundary is a compaction of its own."""
        draft = self.draft
        if not draft.folds or draft.folds[-1].said != len(draft.messages) or draft.folds[-1].put:
            self.start_compaction(record)
        put = ({"role": "user", "content": record.value["message"].get("content")},)
        draft.folds[-1] = replace(draft.folds[-1], put=put)

    def add_queued_prompt(self, record: Record) -> None:
        """Add what a person typed while a tool was running."""
        about = as_object(record.value.get("attachment"))
        prompt = about.get("prompt")
        if about.get("type") == "queued_command" and isinstance(prompt, str | list) and prompt:
            self.draft.add({"role": "user", "content": prompt}, record.line)

    def add_user(self, record: Record, message: Wire) -> None:
        """Add a user message; results that answer one reply together become one message."""
        draft, content = self.draft, message.get("content")
        call_ids = _block_ids(record.value, "tool_result", "tool_use_id")
        if call_ids and self.answered.issuperset(call_ids):
            draft.report("twice", "a result stands twice; the first was taken", record.line)
            return
        self.answered.update(call_ids)
        if not call_ids and record.value.get("isMeta") is not True:
            text = content_text(content)
            draft.suggest_title("" if text.startswith(_GENERATED_STARTS) else text)
        last = draft.messages[-1] if draft.messages else {}
        is_behind_compaction = bool(draft.folds) and draft.folds[-1].said >= len(draft.messages)
        if (
            last.get("role") == "user"
            and not is_behind_compaction
            and _has_only_results(content)
            and _has_only_results(last.get("content"))
        ):
            last["content"] = [*last["content"], *as_list(content)]
        else:
            draft.add({"role": "user", "content": content}, record.line)

    def add_assistant(self, record: Record, message: Wire) -> None:
        """Add an assistant message, or join another line of it with what is there."""
        draft, reply_id = self.draft, text_at(message, "id")
        content = message.get("content")
        if reply_id and reply_id == self.reply_id:
            last = draft.messages[self.reply_index]
            last["content"] = _merge_blocks(last["content"], as_list(content))
        else:
            content = _merge_blocks([], content) if isinstance(content, list) else content
            self.reply_index = draft.add({"role": "assistant", "content": content}, record.line)
            self.reply_id = reply_id if isinstance(content, list) else ""
        self.reports[self.reply_index] = message.get("usage")
        model = text_at(message, "model")
        # Claude Code names the model `<synthetic>` for messages that it wrote itself
        draft.model = draft.model if model.startswith("<") else model or draft.model


def _has_only_results(content: Any) -> bool:
    blocks = as_list(content)
    return bool(blocks) and all(text_at(block, "type") == "tool_result" for block in blocks)


def _merge_blocks(blocks: list[Any], more: Sequence[Any]) -> list[Any]:
    """Add blocks of the same message; a block that repeats or continues an earlier one replaces it."""
    merged = list(blocks)
    for block in more:
        # a stream starts with a text of white space alone; Claude Code never sends it, and no API takes it
        if not isinstance(block, dict) or (
            text_at(block, "type") == "text" and not text_at(block, "text").strip()
        ):
            continue
        place = next((place for place, old in enumerate(merged) if _continues(old, block)), None)
        if place is None:
            merged.append(block)
        else:
            merged[place] = block
    return merged


def _continues(old: Any, new: Any) -> bool:
    """True if a block is equal to an earlier one, or a longer version of it."""
    if old == new:
        return True
    kind = text_at(old, "type")
    if not kind or kind != text_at(new, "type"):
        return False
    if kind == "tool_use":
        return text_at(old, "id") == text_at(new, "id")
    key = kind if kind in ("text", "thinking") else ""
    text = text_at(old, key)
    # one character is too little to tell a longer version from another text
    return len(text.strip()) > 1 and text_at(new, key).startswith(text)
