"""Replay recorded requests of real clients and see whether each conversation is one session with every fold.

python bench/replay_clients.py FOLDER               # FOLDER/CLIENT/*.json: path, headers, at, body
python bench/replay_clients.py FOLDER --store jsonl --reopen

The requests are sent to one store in the order of their times. The session of a request is found by its
messages (`Sessions.find`), with the session id of its headers as the hint. After each request the history is
folded; recordings are short, so that texts are repeated first, the same ones alike. A request without an
answer in it makes no session: titles, quotas, the first turn. Where a client has compacted by itself (its
file has `compact` in the name) a branch is right. Exit status 1 if anything is wrong.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import refold
from refold.stores import Store, open_store

_HINTS: Final = ("x-claude-code-session-id", "x-claude-code-agent-id", "session-id", "x-session-id")
_WIRES: Final = {
    "/messages": "anthropic",
    "/chat/completions": "openai",
    "/responses": "responses",
    "generatecontent": "gemini",
}


_REPEAT: Final = 40
"""Times that a text is repeated: enough for a fold, and quick."""
_TEXTS: Final = frozenset({"text", "content", "output"})


@dataclass(frozen=True, slots=True)
class Request:
    """One recorded request."""

    client: str
    file: str
    at: float
    format: str
    hint: str
    """What its headers tell of the session; empty if they tell nothing."""
    messages: list[Any]

    @property
    def conversation(self) -> str:
        """The conversation as the recording has it: by the client's own id, else one for each wire."""
        return f"{self.client} {self.hint[:12] or self.format}"


@dataclass(slots=True)
class Played:
    """What became of the requests of one conversation."""

    requests: int = 0
    passed: int = 0
    sessions: set[str] = field(default_factory=set)
    folds: int = 0
    branches: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def read_requests(folder: Path) -> list[Request]:
    """Read the requests that have a list, oldest first."""
    requests = []
    for path in sorted(folder.glob("*/*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        wire = next((wire for part, wire in _WIRES.items() if part in value["path"].lower()), "")
        body = value.get("body") or {}
        messages = next((body[key] for key in ("messages", "input", "contents") if key in body), None)
        if wire and isinstance(messages, list):
            headers = {name.lower(): text for name, text in value["headers"]}
            hint = ":".join(headers[name] for name in _HINTS if name in headers)
            messages = lengthen(messages)
            requests.append(Request(path.parent.name, path.stem, value["at"], wire, hint, messages))
    return sorted(requests, key=lambda request: request.at)


def lengthen(value: Any, key: str = "") -> Any:
    """Return a value with longer texts; one in a tag stays, since clients are known by their tags."""
    if isinstance(value, dict):
        return {name: lengthen(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [lengthen(item, key) for item in value]
    is_text = isinstance(value, str) and key in _TEXTS and not value.lstrip().startswith("<")
    return value + f"\n{value}" * _REPEAT if is_text else value


def replay(requests: Sequence[Request], store: Store, *, reopen: bool) -> Mapping[str, Played]:
    """Send the requests to the sessions of one store; with `reopen` every one finds a new process."""
    played: dict[str, Played] = {}
    sessions = refold.Sessions(store=store, window="1m")
    for number, request in enumerate(requests):
        told = played.setdefault(request.conversation, Played())
        told.requests += 1
        if reopen:
            sessions = refold.Sessions(store=store, window="1m")
        wire = refold.formats.get(request.format)
        if not any(message.role == "assistant" for message in wire.parse(request.messages)):
            told.passed += 1
            continue
        found = sessions.find(request.messages, format=request.format, hint=request.hint or None)
        name = found.name if found else request.hint or f"new-{number}"
        told.sessions.add(name)
        send(sessions.get(name), store, request, told)
    return played


def send(session: refold.Session, store: Store, request: Request, told: Played) -> None:
    """Prepare and fold; a branch begins where the path has fewer messages than the store."""
    before = {fold.name for fold in session.folds() if fold.standing}
    beside = count_beside(session, store)
    session.prepare(request.messages)
    if "compact" not in request.file:
        if count_beside(session, store) != beside:
            told.branches.append(request.file)
        if before - {fold.name for fold in session.folds()}:
            told.lost.append(request.file)
    told.folds += session.compact().compacted


def count_beside(session: refold.Session, store: Store) -> int:
    """Return how many messages are stored on other branches than this one."""
    stored = sum(entry.kind == "said" for name, _, entry in store.salvage() if name == session.name)
    return stored - session.stats().said


def print_table(played: Mapping[str, Played]) -> bool:
    """Print a row for each conversation; True if all is right."""
    print(f"{'conversation':34} {'requests':>8} {'passed':>6} {'sessions':>8} {'folds':>5}  wrong")
    good = True
    for name, told in sorted(played.items()):
        wrong = [f"branch at {file}" for file in told.branches] + [
            f"fold lost at {file}" for file in told.lost
        ]
        if len(told.sessions) > 1:
            wrong.append("several sessions")
        shared = [other for other, one in played.items() if other != name and one.sessions & told.sessions]
        wrong += [f"shares a session with {other}" for other in shared]
        good = good and not wrong
        counts = f"{told.requests:8} {told.passed:6} {len(told.sessions):8} {told.folds:5}"
        print(f"{name:34} {counts}  {'; '.join(wrong) or '-'}")
    return good


def main() -> int:
    """Replay a folder and print what became of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--store", choices=("memory", "jsonl", "sqlite"), default="memory")
    parser.add_argument("--reopen", action="store_true", help="a new process for every request")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = "" if args.store == "memory" else f"{folder}/store"
        store = open_store(f"{args.store}:{place}")
        good = print_table(replay(read_requests(args.folder), store, reopen=args.reopen))
        store.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
