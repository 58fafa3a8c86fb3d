"""Real usage traces, read from a folder: agent runs and transcripts with what their providers reported."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from refold.core.tokens.usage import Usage, read_usage
from refold.replay import Recorded

T = TypeVar("T", dict[str, Any], list[Any])

SECONDS: Final = {"claude-code": 3_600.0}
"""How long the cache of a kind's provider lives, where it is not five minutes: these ask for an hour."""
LEAST: Final = 6
"""Messages below which there is nothing to replay."""


def read_traces(folder: Path) -> dict[str, list[Recorded]]:
    """The conversations of each kind, in folders of their names or in this one itself."""
    readers = {
        "swe-bench-trajectories": read_trajectories,
        "claude-code": read_transcripts,
        "tau-bench": read_talks,
    }
    found = {
        kind: list(read(folder / kind if (folder / kind).is_dir() else folder))
        for kind, read in readers.items()
    }
    return {
        kind: kept for kind, all_ in found.items() if (kept := [r for r in all_ if len(r.messages) >= LEAST])
    }


def read_trajectories(folder: Path) -> Iterator[Recorded]:
    """Agent runs in OpenAI's shape, with the provider's answer beside each message of the model."""
    for path in sorted(folder.glob("*.traj.json")):
        messages: list[Any] = []
        usages: dict[int, Usage] = {}
        times: dict[int, float] = {}
        for each in _parse_json(path.read_bytes(), dict).get("messages", ()):
            response = (each.get("extra") or {}).get("response") or {}
            if each["role"] == "assistant" and (usage := read_usage(response.get("usage"))):
                usages[len(messages)] = usage
                if isinstance(created := response.get("created"), int | float):
                    times[len(messages)] = float(created)
            messages.append({key: each[key] for key in ("role", "content") if key in each})
        yield Recorded(messages, format="openai", usages=usages, times=times, name=path.name)


def read_transcripts(folder: Path) -> Iterator[Recorded]:
    """Claude Code sessions in Anthropic's shape; their own summaries are left out, so that all is said."""
    for path in sorted(folder.glob("*.jsonl")):
        messages: list[Any] = []
        usages: dict[int, Usage] = {}
        times: dict[int, float] = {}
        last = ""
        for record in _iter_records(path):
            message = record["message"]
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
            same = bool(message.get("id")) and message.get("id") == last
            if messages and (same or messages[-1]["role"] == message["role"] == "user"):
                messages[-1]["content"] += blocks
            else:
                _note_usage(record, len(messages), usages, times)
                messages.append({"role": message["role"], "content": blocks})
            last = message.get("id") or ""
        yield Recorded(messages, format="anthropic", usages=usages, times=times, name=path.name)


def read_talks(folder: Path) -> Iterator[Recorded]:
    """Customers and an agent with tools, in OpenAI's shape; without reports and times."""
    for path in sorted(folder.glob("*.json")):
        for number, each in enumerate(_parse_json(path.read_bytes(), list)):
            if isinstance(each, dict) and isinstance(each.get("traj"), list):
                yield Recorded(each["traj"], format="openai", name=f"{path.name}#{number}")


def _iter_records(path: Path) -> Iterator[dict[str, Any]]:
    """The lines that hold what was said in the main conversation."""
    for line in path.read_bytes().split(b"\n"):
        record = _parse_json(line, dict)
        aside = record.get("isSidechain") or record.get("isCompactSummary") or record.get("isMeta")
        if (
            record.get("type") in {"user", "assistant"}
            and not aside
            and "content" in record.get("message", {})
        ):
            yield record


def _parse_json(raw: bytes, kind: type[T]) -> T:
    """JSON of a kind; nothing of it where it is torn or of another kind."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return kind()
    return value if isinstance(value, kind) else kind()


def _note_usage(record: dict[str, Any], at: int, usages: dict[int, Usage], times: dict[int, float]) -> None:
    if record["type"] == "assistant" and (usage := read_usage(record["message"].get("usage"))):
        usages[at] = usage
    if stamp := record.get("timestamp"):
        times[at] = datetime.fromisoformat(stamp).timestamp()
