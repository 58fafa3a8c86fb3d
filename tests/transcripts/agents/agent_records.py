"""Builders of records as agents write them, and the examples as records."""

import sys
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

import make_transcripts  # noqa: E402

from refold.transcripts.agents import Record, read  # noqa: E402

EXAMPLES = {
    "claude-code": make_transcripts.claude_code(),
    "codex": make_transcripts.codex(),
    "pi": make_transcripts.pi(),
    "gemini-cli": make_transcripts.gemini_cli(),
    "opencode": [make_transcripts.opencode()],
}
SUMMARY = make_transcripts.SUMMARY


def read_values(values, agent=None):
    """The recording in some records."""
    return read([Record(value, line) for line, value in enumerate(values, start=1)], agent=agent)


class Claude:
    """A Claude Code file that grows line by line."""

    def __init__(self):
        self.lines = []
        self.numbers = count(1)

    def add(self, kind, message=None, parent="last", **fields):
        name = f"u{next(self.numbers)}"
        if parent == "last":
            parent = self.lines[-1]["uuid"] if self.lines else None
        line = {"type": kind, "uuid": name, "parentUuid": parent, "sessionId": "s", "isSidechain": False}
        self.lines.append({**line, **({"message": message} if message is not None else {}), **fields})
        return name

    def user(self, content, **fields):
        return self.add("user", {"role": "user", "content": content}, **fields)

    def assistant(self, name, *blocks, usage=None, **fields):
        message = {
            "id": name,
            "role": "assistant",
            "model": "claude-x",
            "content": list(blocks),
            "usage": usage,
        }
        return self.add("assistant", message, **fields)

    def result(self, call, text="done", **fields):
        return self.user([{"type": "tool_result", "tool_use_id": call, "content": text}], **fields)

    @property
    def recording(self):
        return read_values(self.lines, "claude-code")


def text(words):
    return {"type": "text", "text": words}


def use(name):
    return {"type": "tool_use", "id": name, "name": "run", "input": {}}
