"""Transcripts of coding agents: files and databases on this machine, read and never written.

    transcript = read("0b5d7a1e.jsonl")
    transcript.messages                   # every message of the conversation, in transcript.format
    transcript.seen                       # what the agent's model saw last, after its own compactions
    transcript.problems                   # what was torn, glued or missing, and where

    for session in find("codex"):         # newest first
        print(session.name, session.title)

Damage inside a file raises nothing. `FormatError` means that the file holds no conversation, `OSError` that
it could not be opened.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from refold.transcripts.agents import AGENTS, Compaction, Problem, seen
from refold.transcripts.transcript import Transcript, read, read_bytes

if TYPE_CHECKING:
    from refold.transcripts.find_sessions import FoundSession, find, locate

_FINDING: Final = frozenset({"FoundSession", "find", "locate"})
"""Names that are loaded when they are first used: who reads a file looks for no sessions."""

__all__ = [
    "AGENTS",
    "Compaction",
    "FoundSession",
    "Problem",
    "Transcript",
    "find",
    "locate",
    "read",
    "read_bytes",
    "seen",
]


def __getattr__(name: str) -> Any:
    if name not in _FINDING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("refold.transcripts.find_sessions"), name)
