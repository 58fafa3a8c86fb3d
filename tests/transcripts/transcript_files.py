"""Files as agents leave them behind, and a database as opencode has it."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.path.insert(0, str(ROOT / "bench"))

import fuzz_transcripts  # noqa: E402
import make_transcripts  # noqa: E402

EXAMPLES = ROOT / "examples" / "transcripts"
CLAUDE = EXAMPLES / "claude-code.jsonl"
LINES = CLAUDE.read_bytes().splitlines()


def user(number, words="x", **fields):
    """A line of Claude Code's."""
    parent = f"u{number - 1}" if number else None
    line = {"type": "user", "uuid": f"u{number}", "parentUuid": parent, "sessionId": "s"}
    return {**line, "message": {"role": "user", "content": words}, **fields}


def lines(*values):
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)


def database(path):
    """The database of opencode with the example in it; gives the session's id."""
    session = make_transcripts.opencode()
    rows = [(one["info"]["id"], "", one["info"]) for one in session["messages"]]
    rows += [(part["id"], one["info"]["id"], part) for one in session["messages"] for part in one["parts"]]
    cells = [json.dumps(value, separators=(",", ":")).encode() for _, _, value in rows]
    fuzz_transcripts.write_database(path, session["info"], rows, cells)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE message SET data = CAST(data AS TEXT)")
        db.execute("UPDATE part SET data = CAST(data AS TEXT)")
        db.commit()
    return session["info"]["id"]


def rules(transcript):
    return [problem.rule for problem in transcript.problems]
