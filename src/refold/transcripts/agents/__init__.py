"""Readers of agents' transcripts: which agent wrote some records, and the conversation in them.

    recording = read(records)          # or read(records, agent="codex")
    recording.messages                 # every message, in a wire shape
    recording.seen                     # what the agent's model saw last

Readers know JSON and open no file. Records that a reader does not understand are counted in `carried`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Final, TypeAlias

from refold.errors import FormatError
from refold.transcripts.agents import plain
from refold.transcripts.agents.recording import (
    Compaction,
    Problem,
    Record,
    Recording,
    Wire,
    drop_unreadable,
    seen,
)

__all__ = [
    "AGENTS",
    "Compaction",
    "Problem",
    "Record",
    "Recording",
    "identify_record",
    "read",
    "recognise",
    "seen",
]

_Reader: TypeAlias = tuple[Callable[[Wire], bool], Callable[[Sequence[Record]], Recording]]
AGENTS: Final = ("claude-code", "codex", "opencode", "pi", "gemini-cli")
"""The agents whose transcripts are known, in the order in which they are asked."""
_MAX_VOTES: Final = 200
"""Records that vote on the agent: a damaged beginning must not hide whose file it is."""


@cache
def _load_reader(name: str) -> _Reader:
    """Load the reader of an agent; most files are of no agent, and need none."""
    module = import_module(f"refold.transcripts.agents.{name.replace('-', '_')}")
    return module.recognise, module.read


def identify_record(value: Wire) -> str | None:
    """Return the only agent that writes such a record; None if there is no such agent."""
    return next((name for name in AGENTS if _load_reader(name)[0](value)), None)


def recognise(records: Sequence[Record]) -> str | None:
    """Return the agent that wrote most of the first records; None if no agent did."""
    votes = Counter(identify_record(record.value) for record in records[:_MAX_VOTES])
    del votes[None]
    return votes.most_common(1)[0][0] if votes else None


def read(records: Sequence[Record], *, agent: str | None = None, checked: bool = True) -> Recording:
    """Read the conversation in some records; drop and report messages that do not fit the wire shape.

    `checked=False` skips the check of every message, for callers that only count them.
    """
    name = agent or recognise(records)
    if name is None:
        value = records[0].value if len(records) == 1 else [record.value for record in records]
        return drop_unreadable(plain.read(value))
    if name not in AGENTS:
        raise FormatError(f"no agent is named {name!r}: use one of {', '.join(AGENTS)}")
    recording = _load_reader(name)[1](records)
    return drop_unreadable(recording) if checked else recording
