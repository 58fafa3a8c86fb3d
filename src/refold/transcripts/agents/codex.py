"""Reads Codex rollouts: JSON lines in envelopes with items of the Responses API, events and compactions.

`compacted` replaces everything before it: by its `replacement_history` or, in older files, by the user's own
words and the summary. `thread_rolled_back` takes back the last turns. The oldest files have no envelopes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.transcripts.agents.draft import Draft, first_timestamp
from refold.transcripts.agents.fields import as_object, content_text, number_at, text_at, to_seconds, to_usage
from refold.transcripts.agents.recording import Compaction, Record, Recording, Wire

NAME: Final = "codex"
WIRE: Final = "responses"
_ENVELOPES: Final = frozenset(
    {"session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state"}
)
_BARE_ITEMS: Final = frozenset(
    {"message", "reasoning", "function_call", "function_call_output", "local_shell_call"}
)
_NOT_SENT: Final = frozenset({"ghost_snapshot", "other", ""})
"""Items that Codex records and never sends."""
_CONTEXT_STARTS: Final = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md",
    "<turn_aborted>",
    "<permissions",
    "<skill",
)
"""First words of messages that Codex itself writes in the user's name."""
_KEPT_CHARACTERS: Final = 80_000
"""The user's words that Codex keeps if it wrote no replacement: 20,000 tokens of four characters each."""


def recognise(value: Wire) -> bool:
    """True if only Codex writes such a record."""
    kind = value.get("type")
    if isinstance(kind, str) and kind in _ENVELOPES and isinstance(value.get("payload"), dict):
        return True
    return "type" not in value and "instructions" in value and isinstance(value.get("id"), str)


def read(records: Sequence[Record]) -> Recording:
    """Read a rollout."""
    draft = Draft(NAME, WIRE)
    meta: Mapping[str, Any] = {}
    has_items = any(_item(record.value) is not None for record in records)
    for record in records:
        value, payload = record.value, as_object(record.value.get("payload"))
        item = _item(value)
        if item is not None:
            _add_item(draft, item, record.line)
            continue
        kind = value.get("type")
        if kind == "session_meta" or (kind is None and "instructions" in value):
            meta = meta or payload or value  # a fork copies the entries of its parents behind its own
        elif kind == "turn_context":
            draft.model = text_at(payload, "model") or draft.model
        elif kind == "compacted":
            _add_compaction(draft, record, payload)
        elif kind == "event_msg":
            _read_event(draft, payload, record.line, has_items=has_items)
        draft.carry(kind)
    instructions = meta.get("base_instructions")
    return draft.finish(
        session=text_at(meta, "id"),
        cwd=text_at(meta, "cwd") or None,
        at=to_seconds(meta.get("timestamp")) or first_timestamp(records),
        system=text_at(instructions, "text") or text_at(meta, "base_instructions", "instructions") or None,
    )


def _item(value: Wire) -> Wire | None:
    """Return the item of the Responses API in a record; None if it holds none."""
    payload = value.get("payload")
    if value.get("type") == "response_item":
        return payload if isinstance(payload, dict) else None
    return value if payload is None and text_at(value, "type") in _BARE_ITEMS else None


def _add_item(draft: Draft, item: Wire, line: int) -> None:
    if text_at(item, "type") in _NOT_SENT:
        draft.carry(item.get("type"))
        return
    draft.add(item, line)
    if _is_user_turn(item):
        draft.suggest_title(content_text(item.get("content")))


def _is_user_turn(item: Wire) -> bool:
    """True if a person wrote this message."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    return not content_text(item.get("content")).lstrip().startswith(_CONTEXT_STARTS)


def _is_model_output(item: Wire) -> bool:
    kind = text_at(item, "type")
    is_answer = kind == "message" and item.get("role") == "assistant"
    return is_answer or kind == "reasoning" or kind.endswith("_call")


def _read_event(draft: Draft, payload: Mapping[str, Any], line: int, *, has_items: bool) -> None:
    kind = payload.get("type")
    if kind == "token_count":
        report = as_object(as_object(payload.get("info")).get("last_token_usage"))
        total, cached = number_at(report, "input_tokens"), number_at(report, "cached_input_tokens")
        usage = to_usage(
            fresh=max(0, total - cached), output=number_at(report, "output_tokens"), read=min(cached, total)
        )
        # from the end: a rollout has thousands of these events
        backwards = range(len(draft.messages) - 1, -1, -1)
        last = next((index for index in backwards if _is_model_output(draft.messages[index])), -1)
        draft.add_usage(usage, last)
    elif kind == "thread_rolled_back":
        turns = [index for index, item in enumerate(draft.messages) if _is_user_turn(item)]
        count = min(number_at(payload, "num_turns"), len(turns))
        if count:
            draft.cut(turns[-count])
    elif not has_items and kind in ("user_message", "agent_message"):
        # rollouts without items have the conversation in their events only
        role, block = ("user", "input_text") if kind == "user_message" else ("assistant", "output_text")
        _add_item(draft, _message(role, block, text_at(payload, "message")), line)


def _add_compaction(draft: Draft, record: Record, payload: Mapping[str, Any]) -> None:
    history = payload.get("replacement_history")
    if isinstance(history, list):
        put = [item for item in history if isinstance(item, dict) and text_at(item, "type") not in _NOT_SENT]
    else:
        put = [*_last_user_words(draft.messages), _message("user", "input_text", text_at(payload, "message"))]
    draft.folds.append(
        Compaction(
            said=len(draft.messages),
            put=tuple(put),
            at=to_seconds(record.value.get("timestamp")),
            line=record.line,
        )
    )


def _last_user_words(messages: Sequence[Wire]) -> list[Wire]:
    """Return the user's last messages, as many as Codex keeps."""
    kept: list[Wire] = []
    left = _KEPT_CHARACTERS
    for item in reversed(messages):
        if _is_user_turn(item):
            text = content_text(item.get("content"))
            kept.append(item if len(text) <= left else _message("user", "input_text", text[:left]))
            left -= len(text)
            if left <= 0:
                break
    return kept[::-1]


def _message(role: str, kind: str, text: str) -> Wire:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
