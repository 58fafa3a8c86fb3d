"""Reads opencode sessions: messages with parts, as its database and `opencode export` contain them.

A record is `{"session": ...}` or `{"info": ..., "parts": [...]}`; an export is one object with both. An
assistant message holds several steps, each a request of its own. A compaction is a user message with a
`compaction` part and, once it is finished, an assistant message marked as its summary.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from refold.transcripts.agents.draft import Draft, openai_assistant, openai_result
from refold.transcripts.agents.fields import as_list, as_object, number_at, text_at, to_seconds, to_usage
from refold.transcripts.agents.recording import Compaction, Record, Recording, Wire

NAME: Final = "opencode"
WIRE: Final = "openai"
CLEARED: Final = "[Old tool result content cleared]"
"""Text that opencode shows its model in place of an output it pruned."""
_QUESTION: Final = "What did we do so far?"
"""Text that opencode shows in place of the message that asks for a compaction."""
_TEXT_FILES: Final = ("text/", "application/x-directory")
"""Files whose content is in a text part beside them."""
_Part = Mapping[str, Any]


def recognise(value: Wire) -> bool:
    """True if this is a record of opencode's, or an export."""
    if isinstance(value.get("session"), dict) and len(value) == 1:
        return True
    info = as_object(value.get("info"))
    if isinstance(value.get("parts"), list):
        return "role" in info and ("sessionID" in info or "id" in info)
    inner = as_list(value.get("messages"))
    return "id" in info and all(isinstance(item, dict) and {"info", "parts"} <= item.keys() for item in inner)


def read(records: Sequence[Record]) -> Recording:
    """Read a session."""
    draft = Draft(NAME, WIRE)
    session: Mapping[str, Any] = {}
    messages: list[Record] = []
    for record in records:
        value = record.value
        if isinstance(value.get("parts"), list):
            messages.append(record)
        else:
            session = session or as_object(value.get("session")) or as_object(value.get("info"))
            inner = as_list(value.get("messages"))
            messages += [Record(item, record.line) for item in inner if isinstance(item, dict)]
    _read_messages(draft, messages)
    return draft.finish(
        session=text_at(session, "id"),
        cwd=text_at(session, "directory") or None,
        title=text_at(session, "title") or draft.title or None,
        at=to_seconds(as_object(session.get("time")).get("created") or session.get("time_created")),
    )


def _read_messages(draft: Draft, records: Sequence[Record]) -> None:
    said_before: dict[str, int] = {}
    """Number of our messages before each message of opencode's."""
    markers: dict[str, _Part] = {}
    for record in records:
        info = as_object(record.value.get("info"))
        parts = [part for part in as_list(record.value.get("parts")) if isinstance(part, dict)]
        name = text_at(info, "id")
        said_before.setdefault(name, len(draft.messages))
        marker = next((part for part in parts if part.get("type") == "compaction"), None)
        if marker is not None:
            markers[name] = marker
            draft.carry("compaction")
        elif info.get("role") != "assistant":
            _add_user(draft, record.line, parts)
        elif info.get("summary") is not True:
            _add_assistant(draft, record.line, info, parts)
        else:
            request = markers.get(text_at(info, "parentID"))
            if request is None or not info.get("finish") or info.get("error"):
                draft.carry("unfinished summary")
                continue
            said = len(draft.messages)
            start = said_before.get(text_at(request, "tail_start_id"), said)
            draft.folds.append(
                Compaction(
                    said=said,
                    kept=(min(start, said), said),
                    put=({"role": "user", "content": _QUESTION}, openai_assistant(_join_texts(parts))),
                    trigger="auto" if request.get("auto") is True else "manual",
                    at=to_seconds(as_object(info.get("time")).get("created")),
                    line=record.line,
                )
            )


def _add_user(draft: Draft, line: int, parts: Sequence[_Part]) -> None:
    text = _join_texts(parts)
    files: list[Wire] = []
    for part in parts:
        mime, url = text_at(part, "mime"), text_at(part, "url")
        if part.get("type") != "file" or mime.startswith(_TEXT_FILES) or not url:
            continue
        name = text_at(part, "filename") or mime
        is_image = mime.startswith("image/")
        files.append(
            {"type": "image_url", "image_url": {"url": url}}
            if is_image
            else {"type": "file", "file": {"filename": name, "file_data": url}}
        )
    if not text and not files:
        draft.carry("empty message")
        return
    draft.suggest_title(text)
    texts = [{"type": "text", "text": text}] if text else []
    draft.add({"role": "user", "content": [*texts, *files] if files else text}, line)


def _join_texts(parts: Sequence[_Part]) -> str:
    shown = (part for part in parts if part.get("type") == "text" and part.get("ignored") is not True)
    return "\n".join(text for part in shown if (text := text_at(part, "text")))


def _add_assistant(draft: Draft, line: int, info: Mapping[str, Any], parts: Sequence[_Part]) -> None:
    draft.model = text_at(info, "modelID") or draft.model
    for step in _split_steps(parts):
        tools = [part for part in step if part.get("type") == "tool" and text_at(part, "callID")]
        thoughts = [text_at(part, "text") for part in step if part.get("type") == "reasoning"]
        thinking = "\n".join(filter(None, thoughts))
        text = _join_texts(step)
        if not text and not tools and not thinking:
            continue
        states = [as_object(part.get("state")) for part in tools]
        calls = [
            (part["callID"], text_at(part, "tool"), state.get("input"))
            for part, state in zip(tools, states, strict=True)
        ]
        index = draft.add(openai_assistant(text, thinking=thinking, calls=calls), line)
        report = next((part.get("tokens") for part in step if part.get("type") == "step-finish"), None)
        tokens = as_object(info.get("tokens") if report is None else report)
        cache = as_object(tokens.get("cache"))
        usage = to_usage(
            fresh=number_at(tokens, "input"),
            output=number_at(tokens, "output") + number_at(tokens, "reasoning"),
            read=number_at(cache, "read"),
            write=number_at(cache, "write"),
        )
        draft.add_usage(usage, index)
        for part, state in zip(tools, states, strict=True):
            status = state.get("status")
            if status not in ("completed", "error"):  # a tool that still runs is an open call
                continue
            output = text_at(state, "output" if status == "completed" else "error")
            index = draft.add(openai_result(part["callID"], output), line)
            if as_object(state.get("time")).get("compacted"):
                draft.changed[index] = openai_result(part["callID"], CLEARED)


def _split_steps(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    step: list[_Part] = []
    for part in parts:
        if part.get("type") == "step-start" and step:
            yield step
            step = []
        step.append(part)
    yield step
