"""Recorded conversations for the speed benchmark: of each kind of data one, in OpenAI's chat shape.

The recordings stay where they are; what is published of them is how many messages and kilobytes they have.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import refold
from refold.evals.datasets import Dataset, read_dataset, to_openai

Messages = list[dict[str, Any]]

JOINED_TALKS: Final = 8
"""Talks that make a very long one, of some 3,700 messages: months with one assistant."""


@dataclass(frozen=True)
class Kind:
    """A recorded conversation, written to a file that every adapter can read."""

    name: str
    path: Path
    messages: int
    kilobytes: float

    @property
    def facts(self) -> dict[str, Any]:
        """What is published of it."""
        return {name: value for name, value in asdict(self).items() if name != "path"}


def write_kinds(data: Path, folder: Path) -> list[Kind]:
    """Write one conversation of each kind in a folder of data, as JSON; what it lacks is left out."""
    return [_write(name, messages, folder) for name, messages in _choose(read_dataset(data)) if messages]


def _choose(found: Dataset) -> list[tuple[str, Messages]]:
    sessions = [run.messages for run in found.transcripts]
    runs = [run.messages for run in found.runs]
    talks = [talk.messages for talk in found.longmemeval]
    joined = [message for talk in talks[:JOINED_TALKS] for message in talk]
    return [
        ("agent session", max(sessions, key=_count_characters, default=[])),
        ("SWE run", max(runs, key=_count_characters, default=[])),
        ("talk", talks[0] if talks else []),
        (f"{JOINED_TALKS} talks joined", joined if len(talks) >= JOINED_TALKS else []),
    ]


def _write(name: str, messages: Sequence[dict[str, Any]], folder: Path) -> Kind:
    """Write a conversation that every library can read: texts and calls, each call with its result."""
    plain = [_flatten(message) for message in to_openai(list(messages))]
    mended = refold.repair(plain, format="openai").messages
    path = folder / f"{name.replace(' ', '-')}.json"
    text = json.dumps(mended, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    return Kind(name, path, len(mended), round(len(text.encode()) / 1_000, 1))


def _flatten(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with its text as one string; pictures and notes of the recorder are left out."""
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part.get("text") or "" for part in content if isinstance(part, dict))
    kept: dict[str, Any] = {"role": message["role"], "content": content or ""}
    for key in ("tool_calls", "tool_call_id"):
        if message.get(key):
            kept[key] = message[key]
    return kept


def _count_characters(messages: Sequence[dict[str, Any]]) -> int:
    return sum(len(str(message.get("content") or "")) for message in messages)
