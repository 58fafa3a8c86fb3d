"""Codex: JSON lines in envelopes; items of the Responses API, events about them, and compactions.

`compacted` replaces everything before it: by its `replacement_history`, or, in files of old, by the user's
own words and the summary. `thread_rolled_back` takes back the last turns. The oldest files have no envelopes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.core.tokens.usage import Usage
from refold.transcripts.agents.shaping import (
    Draft,
    number_at,
    object_of,
    said_text,
    seconds,
    started,
    text_at,
    title_of,
    usage_of,
)
from refold.transcripts.agents.values import Compaction, Record, Recording, Wire

NAME: Final = "codex"
WIRE: Final = "responses"
_ENVELOPES: Final = frozenset(
    {"session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state"}
)
_BARE: Final = frozenset(
    {"message", "reasoning", "function_call", "function_call_output", "local_shell_call"}
)
_NOT_SENT: Final = frozenset({"ghost_snapshot", "other", ""})
"""Items that Codex writes down and never sends."""
_CONTEXT: Final = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md",
    "<turn_aborted>",
    "<permissions",
    "<skill",
)
"""How messages begin that Codex itself says in the user's name."""
_KEPT_CHARACTERS: Final = 80_000
"""What Codex keeps of the user's words where it wrote no replacement: 20,000 tokens, four characters each."""


def recognise(value: Wire) -> bool:
    """Whether only Codex writes such a record."""
    kind = value.get("type")
    if isinstance(kind, str) and kind in _ENVELOPES and isinstance(value.get("payload"), dict):
        return True
    return "type" not in value and "instructions" in value and isinstance(value.get("id"), str)


def read(records: Sequence[Record]) -> Recording:
    """Read a rollout."""
    draft = Draft(NAME, WIRE)
    meta: Mapping[str, Any] = {}
    spoken = any(_item(one.value) is not None for one in records)
    for one in records:
        value, payload = one.value, object_of(one.value.get("payload"))
        item = _item(value)
        if item is not None:
            _say(draft, item, one.line)
            continue
        kind = value.get("type")
        if kind == "session_meta" or (kind is None and "instructions" in value):
            meta = meta or payload or value  # a fork copies those of its parents behind its own
        elif kind == "turn_context":
            draft.model = text_at(payload, "model") or draft.model
        elif kind == "compacted":
            _compacted(draft, one, payload)
        elif kind == "event_msg":
            _event(draft, payload, one.line, spoken=spoken)
        draft.carry(kind)
    told = meta.get("base_instructions")
    return draft.done(
        session=text_at(meta, "id"),
        cwd=text_at(meta, "cwd") or None,
        at=seconds(meta.get("timestamp")) or started(records),
        system=text_at(told, "text") or text_at(meta, "base_instructions", "instructions") or None,
    )


def _item(value: Wire) -> Wire | None:
    """The item of the Responses API that a record holds."""
    payload = value.get("payload")
    if value.get("type") == "response_item":
        return payload if isinstance(payload, dict) else None
    return value if payload is None and text_at(value, "type") in _BARE else None


def _say(draft: Draft, item: Wire, line: int) -> None:
    if text_at(item, "type") in _NOT_SENT:
        draft.carry(item.get("type"))
        return
    draft.say(item, line)
    if _is_turn(item) and not draft.title:
        draft.title = title_of(said_text(item.get("content"))) or ""


def _is_turn(item: Wire) -> bool:
    """Whether a person speaks here."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    return not said_text(item.get("content")).lstrip().startswith(_CONTEXT)


def _event(draft: Draft, payload: Mapping[str, Any], line: int, *, spoken: bool) -> None:
    kind = payload.get("type")
    if kind == "token_count":
        usage = _usage(object_of(object_of(payload.get("info")).get("last_token_usage")))
        answers = (
            index for index in range(len(draft.messages) - 1, -1, -1) if _answers(draft.messages[index])
        )
        draft.note(usage, next(answers, -1))
    elif kind == "thread_rolled_back":
        turns = [index for index, item in enumerate(draft.messages) if _is_turn(item)]
        back = min(number_at(payload, "num_turns"), len(turns))
        if back:
            draft.cut(turns[-back])
    elif not spoken and kind in ("user_message", "agent_message"):
        role, what = ("user", "input_text") if kind == "user_message" else ("assistant", "output_text")
        words = text_at(payload, "message")
        _say(draft, {"type": "message", "role": role, "content": [{"type": what, "text": words}]}, line)


def _answers(item: Wire) -> bool:
    """Whether the model made this item."""
    kind = text_at(item, "type")
    return (
        kind == "reasoning"
        or kind.endswith("_call")
        or (kind == "message" and item.get("role") == "assistant")
    )


def _usage(told: Mapping[str, Any]) -> Usage | None:
    whole, read = number_at(told, "input_tokens"), number_at(told, "cached_input_tokens")
    return usage_of(
        fresh=max(0, whole - read), output=number_at(told, "output_tokens"), read=min(read, whole)
    )


def _compacted(draft: Draft, one: Record, payload: Mapping[str, Any]) -> None:
    history = payload.get("replacement_history")
    if isinstance(history, list):
        put = tuple(
            item for item in history if isinstance(item, dict) and text_at(item, "type") not in _NOT_SENT
        )
    else:
        put = (*_own_words(draft.messages), _user(text_at(payload, "message")))
    draft.folds.append(
        Compaction(said=len(draft.messages), put=put, at=seconds(one.value.get("timestamp")), line=one.line)
    )


def _own_words(messages: Sequence[Wire]) -> list[Wire]:
    """The user's last words, as far as Codex keeps them."""
    kept: list[Wire] = []
    left = _KEPT_CHARACTERS
    for item in reversed(messages):
        if _is_turn(item):
            words = said_text(item.get("content"))
            kept.append(item if len(words) <= left else _user(words[:left]))
            left -= len(words)
            if left <= 0:
                break
    return kept[::-1]


def _user(text: str) -> Wire:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
