"""opencode: messages with parts, as its database and `opencode export` give them.

A record is `{"session": ...}` or `{"info": ..., "parts": [...]}`; an export is one object with both. An
assistant's message holds several steps, each a request of its own. A compaction is a user's message with a
`compaction` part and, when it is finished, an assistant's message marked as its summary.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from refold.core.tokens.usage import Usage
from refold.transcripts.agents.shaping import (
    Draft,
    list_of,
    number_at,
    object_of,
    openai_assistant,
    openai_result,
    seconds,
    text_at,
    title_of,
    usage_of,
)
from refold.transcripts.agents.values import Compaction, Record, Recording, Wire

NAME: Final = "opencode"
WIRE: Final = "openai"
CLEARED: Final = "[Old tool result content cleared]"
"""What opencode shows its model in place of an output it pruned."""
_ASKED: Final = "What did we do so far?"
"""What opencode shows in place of the message that asks for a compaction."""
_TEXT_FILES: Final = ("text/", "application/x-directory")
"""Files whose content stands in a text part beside them."""


def recognise(value: Wire) -> bool:
    """Whether this is a record of opencode's, or an export."""
    if isinstance(value.get("session"), dict) and len(value) == 1:
        return True
    info = object_of(value.get("info"))
    if isinstance(value.get("parts"), list):
        return "role" in info and ("sessionID" in info or "id" in info)
    inside = list_of(value.get("messages"))
    return "id" in info and all(isinstance(one, dict) and "info" in one and "parts" in one for one in inside)


def read(records: Sequence[Record]) -> Recording:
    """Read a session."""
    draft = Draft(NAME, WIRE)
    session: Mapping[str, Any] = {}
    said: list[Record] = []
    for one in records:
        value = one.value
        if isinstance(value.get("parts"), list):
            said.append(one)
        else:
            session = session or object_of(value.get("session")) or object_of(value.get("info"))
            inside = list_of(value.get("messages"))
            said += [Record(each, one.line) for each in inside if isinstance(each, dict)]
    _walk(draft, said)
    return draft.done(
        session=text_at(session, "id"),
        cwd=text_at(session, "directory") or None,
        title=text_at(session, "title") or draft.title or None,
        at=seconds(object_of(session.get("time")).get("created") or session.get("time_created")),
    )


def _walk(draft: Draft, records: Sequence[Record]) -> None:
    first: dict[str, int] = {}
    """How many messages had been said before each message of opencode's."""
    markers: dict[str, Mapping[str, Any]] = {}
    for one in records:
        info, parts = object_of(one.value.get("info")), _parts(one.value)
        name = text_at(info, "id")
        first.setdefault(name, len(draft.messages))
        marker = next((part for part in parts if part.get("type") == "compaction"), None)
        if marker is not None:
            markers[name] = marker
            draft.carry("compaction")
        elif info.get("role") == "assistant" and info.get("summary") is True:
            _summary(draft, one, markers.get(text_at(info, "parentID")), first)
        elif info.get("role") == "assistant":
            _assistant(draft, one.line, info, parts)
        else:
            _user(draft, one.line, parts)


def _parts(value: Wire) -> list[Mapping[str, Any]]:
    return [part for part in list_of(value.get("parts")) if isinstance(part, dict)]


def _summary(draft: Draft, one: Record, marker: Mapping[str, Any] | None, first: Mapping[str, int]) -> None:
    """Compact, where the summary is finished and belongs to a request for one."""
    info = object_of(one.value.get("info"))
    if marker is None or not info.get("finish") or info.get("error"):
        draft.carry("unfinished summary")
        return
    said = len(draft.messages)
    start = first.get(text_at(marker, "tail_start_id"), said)
    words = _texts(_parts(one.value))
    draft.folds.append(
        Compaction(
            said=said,
            kept=(min(start, said), said),
            put=({"role": "user", "content": _ASKED}, openai_assistant(words)),
            trigger="auto" if marker.get("auto") is True else "manual",
            at=seconds(object_of(info.get("time")).get("created")),
            line=one.line,
        )
    )


def _user(draft: Draft, line: int, parts: Sequence[Mapping[str, Any]]) -> None:
    words = _texts(parts)
    files = [block for part in parts if (block := _file(part))]
    if not words and not files:
        draft.carry("empty message")
        return
    if not draft.title:
        draft.title = title_of(words) or ""
    texts = [{"type": "text", "text": words}] if words else []
    draft.say({"role": "user", "content": [*texts, *files] if files else words}, line)


def _texts(parts: Sequence[Mapping[str, Any]]) -> str:
    said = (part for part in parts if part.get("type") == "text" and part.get("ignored") is not True)
    return "\n".join(words for part in said if (words := text_at(part, "text")))


def _file(part: Mapping[str, Any]) -> Wire | None:
    mime, url = text_at(part, "mime"), text_at(part, "url")
    if part.get("type") != "file" or mime.startswith(_TEXT_FILES) or not url:
        return None
    if mime.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": text_at(part, "filename") or mime, "file_data": url}}


def _assistant(draft: Draft, line: int, info: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> None:
    draft.model = text_at(info, "modelID") or draft.model
    for step in _steps(parts):
        tools = [part for part in step if part.get("type") == "tool" and text_at(part, "callID")]
        thinking = [text_at(part, "text") for part in step if part.get("type") == "reasoning"]
        words = _texts(step)
        if not words and not tools and not any(thinking):
            continue
        calls = [(part["callID"], text_at(part, "tool"), _state(part).get("input")) for part in tools]
        at = draft.say(openai_assistant(words, thinking="\n".join(filter(None, thinking)), calls=calls), line)
        told = next((part.get("tokens") for part in step if part.get("type") == "step-finish"), None)
        draft.note(_usage(object_of(told if told is not None else info.get("tokens"))), at)
        for part in tools:
            _result(draft, line, part)


def _steps(parts: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    step: list[Mapping[str, Any]] = []
    for part in parts:
        if part.get("type") == "step-start" and step:
            yield step
            step = []
        step.append(part)
    yield step


def _state(part: Mapping[str, Any]) -> Mapping[str, Any]:
    return object_of(part.get("state"))


def _result(draft: Draft, line: int, part: Mapping[str, Any]) -> None:
    """Say what a tool answered; one that has not answered yet is an open call."""
    state = _state(part)
    if state.get("status") not in ("completed", "error"):
        return
    words = text_at(state, "output") if state["status"] == "completed" else text_at(state, "error")
    at = draft.say(openai_result(part["callID"], words), line)
    if object_of(state.get("time")).get("compacted"):
        draft.changed[at] = openai_result(part["callID"], CLEARED)


def _usage(told: Mapping[str, Any]) -> Usage | None:
    cache = object_of(told.get("cache"))
    return usage_of(
        fresh=number_at(told, "input"),
        output=number_at(told, "output") + number_at(told, "reasoning"),
        read=number_at(cache, "read"),
        write=number_at(cache, "write"),
    )
