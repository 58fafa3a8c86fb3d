"""Where agents keep what was said, and how it is read: files and databases, never written to.

    transcript = read("0b5d7a1e.jsonl")
    transcript.messages                   # everything that was said, in transcript.format
    transcript.seen                       # what the agent's model saw last, after its own compactions
    transcript.problems                   # what was torn, glued or missing, and where

    for found in find("codex"):           # newest first
        print(found.name, found.title)

Reading never raises for what is wrong inside a file. `FormatError` means that there is no conversation in it,
`OSError` that it could not be opened.
"""

from refold.transcripts.agents import AGENTS, Compaction, Problem, seen
from refold.transcripts.finding import Found, find, located
from refold.transcripts.reading import Transcript, read, read_bytes

__all__ = [
    "AGENTS",
    "Compaction",
    "Found",
    "Problem",
    "Transcript",
    "find",
    "located",
    "read",
    "read_bytes",
    "seen",
]
