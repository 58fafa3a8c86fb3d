"""Real usage traces, read from a folder: agent runs and transcripts with what their providers reported."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from refold.core.tokens.usage import Usage, read_usage
from refold.errors import FormatError
from refold.replay import Recorded

T = TypeVar("T", dict[str, Any], list[Any])

SECONDS: Final = {"claude-code": 3_600.0}
"""Seconds that the cache of a kind's provider lives, if it is not five minutes: these ask for an hour."""
LEAST: Final = 6
"""Messages below which there is nothing to replay."""


def read_traces(folder: Path) -> dict[str, list[Recorded]]:
    """Read the conversations of each kind, from a folder with its name or from this one itself."""
    if not folder.is_dir():
        raise FormatError("there is no such folder", path=str(folder))
    readers = {
        "swe-bench-trajectories": read_trajectories,
        "claude-code": read_transcripts,
        "tau-bench": read_talks,
    }
    recorded = {
        kind: list(read(folder / kind if (folder / kind).is_dir() else folder))
        for kind, read in readers.items()
    }
    return {
        kind: long_enough
        for kind, all_ in recorded.items()
        if (long_enough := [trace for trace in all_ if len(trace.messages) >= LEAST])
    }


def read_trajectories(folder: Path) -> Iterator[Recorded]:
    """Read agent runs in OpenAI's shape, with the provider's answer beside each message of the model."""
    for path in sorted(folder.glob("*.traj.json")):
        messages: list[Any] = []
        usages: dict[int, Usage] = {}
        times: dict[int, float] = {}
        for message in _parse_json(path.read_bytes(), dict).get("messages", ()):
            response = (message.get("extra") or {}).get("response") or {}
            if message["role"] == "assistant" and (usage := read_usage(response.get("usage"))):
                usages[len(messages)] = usage
                if isinstance(created := response.get("created"), int | float):
                    times[len(messages)] = float(created)
            messages.append({key: message[key] for key in ("role", "content") if key in message})
        yield Recorded(messages, format="openai", usages=usages, times=times, name=path.name)


def read_transcripts(folder: Path) -> Iterator[Recorded]:
    """Read Claude Code sessions in Anthropic's shape, without their own summaries of what is there anyway."""
    for path in sorted(folder.glob("*.jsonl")):
        messages: list[Any] = []
        usages: dict[int, Usage] = {}
        times: dict[int, float] = {}
        answer, reply = -1, ""
        for record in _iter_records(path):
            message = record["message"]
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
            # calls of one answer have a record each, and results of the first may stand between them
            is_same = bool(message.get("id")) and message.get("id") == reply
            if is_same and not any(map(_is_said, messages[answer + 1 :])):
                messages[answer]["content"] += blocks
            elif messages and messages[-1]["role"] == message["role"] == "user":
                messages[-1]["content"] += blocks
            else:
                if record["type"] == "assistant":
                    answer, reply = len(messages), message.get("id") or ""
                if record["type"] == "assistant" and (usage := read_usage(message.get("usage"))):
                    usages[len(messages)] = usage
                if stamp := record.get("timestamp"):
                    times[len(messages)] = datetime.fromisoformat(stamp).timestamp()
                messages.append({"role": message["role"], "content": blocks})
        yield Recorded(messages, format="anthropic", usages=usages, times=times, name=path.name)


def _is_said(message: dict[str, Any]) -> bool:
    """True if somebody said something in a message: it has more than results of tools."""
    return any(block.get("type") != "tool_result" for block in message["content"])


def read_talks(folder: Path) -> Iterator[Recorded]:
    """Read talks of customers with an agent, in OpenAI's shape; they have no reports and no times."""
    for path in sorted(folder.glob("*.json")):
        for number, talk in enumerate(_parse_json(path.read_bytes(), list)):
            if isinstance(talk, dict) and isinstance(talk.get("traj"), list):
                yield Recorded(talk["traj"], format="openai", name=f"{path.name}#{number}")


def _iter_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records with messages of the main conversation."""
    for line in path.read_bytes().split(b"\n"):
        record = _parse_json(line, dict)
        is_side_record = record.get("isSidechain") or record.get("isCompactSummary") or record.get("isMeta")
        if (
            record.get("type") in {"user", "assistant"}
            and not is_side_record
            and "content" in record.get("message", {})
        ):
            yield record


def _parse_json(raw: bytes, kind: type[T]) -> T:
    """Return JSON of the expected type; an empty value if the text is torn or of another type."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return kind()
    return value if isinstance(value, kind) else kind()
