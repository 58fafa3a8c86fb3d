"""Transcripts of agents: which agent wrote some records, and the conversation in them.

    recording = read(records)          # or read(records, agent="codex")
    recording.messages                 # everything that was said, in a wire shape
    recording.seen                     # what the agent's model saw last

Readers know JSON and no file. What a reader does not understand it counts in `carried` and leaves alone; the
records themselves stay with whoever read them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from refold.errors import FormatError
from refold.transcripts.agents import claude_code, codex, gemini_cli, opencode, pi, plain
from refold.transcripts.agents.values import Compaction, Problem, Record, Recording, Wire, seen, sound

__all__ = ["AGENTS", "Compaction", "Problem", "Record", "Recording", "agent_of", "read", "recognise", "seen"]

AGENTS: Final = (claude_code.NAME, codex.NAME, opencode.NAME, pi.NAME, gemini_cli.NAME)
"""The agents whose transcripts are known, in the order in which they are asked."""
_LOOKED_AT: Final = 200
"""Records that are looked at: a damaged beginning must not hide whose file it is."""


@dataclass(frozen=True, slots=True)
class _Agent:
    recognise: Callable[[Wire], bool]
    read: Callable[[Sequence[Record]], Recording]


_TABLE: Final = {
    claude_code.NAME: _Agent(claude_code.recognise, claude_code.read),
    codex.NAME: _Agent(codex.recognise, codex.read),
    opencode.NAME: _Agent(opencode.recognise, opencode.read),
    pi.NAME: _Agent(pi.recognise, pi.read),
    gemini_cli.NAME: _Agent(gemini_cli.recognise, gemini_cli.read),
}


def agent_of(value: Wire) -> str | None:
    """Name the agent that alone writes such a record."""
    return next((name for name in AGENTS if _TABLE[name].recognise(value)), None)


def recognise(records: Sequence[Record]) -> str | None:
    """Name the agent that wrote these records, by what most of the first of them can only be."""
    votes: Counter[str] = Counter()
    for one in records[:_LOOKED_AT]:
        found = agent_of(one.value)
        if found is not None:
            votes[found] += 1
    return votes.most_common(1)[0][0] if votes else None


def read(records: Sequence[Record], *, agent: str | None = None, checked: bool = True) -> Recording:
    """Read the conversation in some records; what a provider's shape cannot hold is left out and told.

    A list that only counts messages may do without looking at each: `checked=False`.
    """
    name = agent or recognise(records)
    if name is None:
        return sound(_plain(records))
    if name not in _TABLE:
        raise FormatError(f"no agent is named {name!r}: use one of {', '.join(AGENTS)}")
    recording = _TABLE[name].read(records)
    return sound(recording) if checked else recording


def _plain(records: Sequence[Record]) -> Recording:
    """Records of nobody: one request, or a message on each line."""
    return plain.read(records[0].value if len(records) == 1 else [one.value for one in records])
