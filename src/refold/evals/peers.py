"""Other systems as processes that speak JSON lines on standard input and output; knows none of them.

    to it     {"id": 1, "op": "fold", "messages": [...], "budget": 4000}
    from it   {"id": 1, "ask": "..."}          answered by {"id": 1, "answer": "..."}, or an error
    from it   {"id": 1, "count": "..."}        answered by {"id": 1, "tokens": 12}, as everybody is measured
    from it   {"id": 1, "messages": [...]}     the end; or {"id": 1, "error": "..."}

`{"op": "about"}` gives its name and version. What it prints on standard error is its own affair.
"""

import json
import select
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from refold.core.compaction.flow import Answer, Ask
from refold.core.tokens.estimate import estimate
from refold.errors import RefoldError

PATIENCE: Final = 600.0
"""Seconds that one fold of a peer may take; those in which it waits for an answer are not counted."""
STARTING: Final = 180.0
"""Seconds that it may take at least to say who it is: some load for long."""
MOST_ASKS: Final = 100
"""How often a peer may ask in one fold: one that asks more goes round in circles."""
_BLOCK: Final = 1 << 16


class PeerFailed(RefoldError):
    """Another system did not give a view."""


class PeerLate(PeerFailed):
    """It took too long."""


@dataclass(slots=True)
class Peer:
    """One other system, started when it is first needed."""

    name: str
    words: tuple[str, ...]
    patience: float = PATIENCE
    most_asks: int = MOST_ASKS
    _process: subprocess.Popen[bytes] | None = None
    _read: bytearray = field(default_factory=bytearray)
    _count: int = 0

    def fold(self, messages: list[dict[str, Any]], budget: int, ask: Callable[[Any], Any] | None) -> Any:
        """The view that it makes of these messages."""
        self._count += 1
        plain = [_plain(message) for message in messages]
        wish = {"id": self._count, "op": "fold", "messages": plain, "budget": budget, "counts": True}
        if window := getattr(ask, "window", None):
            wish["window"] = window
        told = self._talk(wish, ask, self.patience)
        view = told.get("messages")
        if not isinstance(view, list) or not all(isinstance(one, dict) for one in view):
            raise PeerFailed(f"{self.name}: {str(told.get('error') or 'gave no list of messages')[:300]}")
        return view

    def about(self) -> dict[str, Any]:
        """Its name and version, as it tells them."""
        self._count += 1
        return self._talk({"id": self._count, "op": "about"}, None, max(self.patience, STARTING))

    def close(self) -> None:
        """End it: no more input, a moment to leave, then by force."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        self._read.clear()

    def _talk(
        self, request: dict[str, Any], ask: Callable[[Any], Any] | None, seconds: float
    ) -> dict[str, Any]:
        self._say(request)
        left, asks = seconds, 0
        while True:
            begin = time.monotonic()
            told = self._hear(left)
            left -= time.monotonic() - begin
            if told.get("id") not in {request["id"], None}:
                continue  # what it had to say about something that was given up
            if "count" in told:
                self._say({"id": request["id"], "tokens": estimate(str(told["count"]))})
            elif "ask" not in told:
                return told
            else:
                asks += 1
                if asks > self.most_asks:
                    self.close()
                    raise PeerFailed(
                        f"{self.name} asked the summariser more than {self.most_asks} times in one fold"
                    )
                self._say({"id": request["id"], **_answered(str(told["ask"]), ask)})

    def _say(self, value: dict[str, Any]) -> None:
        process = self._started()
        line = json.dumps(value).encode() + b"\n"
        try:
            assert process.stdin is not None  # noqa: S101  # it is a pipe
            process.stdin.write(line)
            process.stdin.flush()
        except OSError:
            self.close()
            raise PeerFailed(f"{self.name} ended before it answered: run {self._shown!r} by hand") from None

    def _hear(self, seconds: float) -> dict[str, Any]:
        line = self._line(seconds)
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise PeerFailed(f"{self.name} said something that is no JSON object: {line[:80]!r}")
        return told

    def _line(self, seconds: float) -> bytes:
        stdout = self._started().stdout
        assert stdout is not None  # noqa: S101  # it is a pipe
        until = time.monotonic() + seconds
        while b"\n" not in self._read:
            ready, _, _ = select.select([stdout], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self.close()
                raise PeerLate(f"{self.name} gave no view in {self.patience:g} seconds")
            block = stdout.read1(_BLOCK)  # type: ignore[attr-defined]  # a pipe is buffered
            if not block:
                self.close()
                raise PeerFailed(f"{self.name} ended without an answer: run {self._shown!r} by hand")
            self._read += block
        line, _, rest = bytes(self._read).partition(b"\n")
        self._read = bytearray(rest)
        return line

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            try:
                self._process = subprocess.Popen(  # noqa: S603  # the user's own command, without a shell
                    self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            except OSError as error:
                raise PeerFailed(f"{self.name}: {self.words[0]} cannot be run: {error.strerror}") from None
        return self._process

    @property
    def _shown(self) -> str:
        return shlex.join(self.words)


def peer(text: str, seconds: float = PATIENCE) -> Peer:
    """The peer that `NAME=COMMAND` on a command line names, and how long a fold of it may take."""
    name, equals, command = text.partition("=")
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise RefoldError(f"--peer {name}: {str(error).lower()}") from None
    if not (name and equals and words):
        raise RefoldError(f"--peer takes NAME=COMMAND, as in langchain='python adapter.py', not {text!r}")
    return Peer(name, words, seconds)


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose content is nothing but texts, with one text: not every system knows parts."""
    content = message.get("content")
    if not isinstance(content, list) or not all(set(part) == {"type", "text"} for part in content):
        return message
    return {**message, "content": "\n".join(part["text"] for part in content)}


def _answered(prompt: str, ask: Callable[[Any], Any] | None) -> dict[str, str]:
    if ask is None:
        return {"error": "no model was given"}
    try:
        said = ask(Ask(prompt))
    except RefoldError as error:
        return {"error": str(error)}
    if not isinstance(said, Answer):
        return {"answer": str(said)}
    return {"answer": said.text, **({"finish": said.finish} if said.finish != "stop" else {})}
