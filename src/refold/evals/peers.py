"""Run other systems as processes that exchange JSON lines; knows none of them.

    to it     {"id": 1, "op": "fold", "messages": [...], "budget": 4000}
    from it   {"id": 1, "ask": "..."}          answered by {"id": 1, "answer": "..."}, or an error
    from it   {"id": 1, "count": "..."}        answered by {"id": 1, "tokens": 12}, as everybody is measured
    from it   {"id": 1, "messages": [...]}     the end; or {"id": 1, "error": "..."}

`{"op": "about"}` returns its name and version. Its standard error is passed through.
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
"""Seconds for one fold of a peer, without the time in which it waits for an answer."""
STARTING: Final = 180.0
"""Least seconds for the first reply; some peers load slowly."""
MOST_ASKS: Final = 100
"""Questions in one fold; a peer that asks more is in a loop."""
_BLOCK: Final = 1 << 16


class PeerFailed(RefoldError):
    """Another system returned no view."""


class PeerLate(PeerFailed):
    """Another system took too long."""


@dataclass(slots=True)
class Peer:
    """One other system; its process starts at the first use."""

    name: str
    words: tuple[str, ...]
    patience: float = PATIENCE
    most_asks: int = MOST_ASKS
    _process: subprocess.Popen[bytes] | None = None
    _read: bytearray = field(default_factory=bytearray)
    _count: int = 0

    def fold(self, messages: list[dict[str, Any]], budget: int, ask: Callable[[Any], Any] | None) -> Any:
        """Return the system's view of these messages."""
        self._count += 1
        plain = [_join_texts(message) for message in messages]
        request = {"id": self._count, "op": "fold", "messages": plain, "budget": budget, "counts": True}
        if window := getattr(ask, "window", None):
            request["window"] = window
        reply = self._talk(request, ask, self.patience)
        view = reply.get("messages")
        if not isinstance(view, list) or not all(isinstance(one, dict) for one in view):
            raise PeerFailed(f"{self.name}: {str(reply.get('error') or 'gave no list of messages')[:300]}")
        return view

    def about(self) -> dict[str, Any]:
        """Return the system's name and version."""
        self._count += 1
        return self._talk({"id": self._count, "op": "about"}, None, max(self.patience, STARTING))

    def close(self) -> None:
        """End the process: close its input, wait two seconds, then kill it."""
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
            reply = self._hear(left)
            left -= time.monotonic() - begin
            if reply.get("id") not in {request["id"], None}:
                continue  # a late reply to a request that was given up
            if "count" in reply:
                self._say({"id": request["id"], "tokens": estimate(str(reply["count"]))})
            elif "ask" not in reply:
                return reply
            else:
                asks += 1
                if asks > self.most_asks:
                    self.close()
                    raise PeerFailed(
                        f"{self.name} asked the summariser more than {self.most_asks} times in one fold"
                    )
                self._say({"id": request["id"], **_answer_peer(str(reply["ask"]), ask)})

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
            reply = json.loads(line)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise PeerFailed(f"{self.name} said something that is no JSON object: {line[:80]!r}")
        return reply

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


def parse_peer(text: str, seconds: float = PATIENCE) -> Peer:
    """Return the peer that `NAME=COMMAND` on a command line names, and how long a fold of it may take."""
    name, equals, command = text.partition("=")
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise RefoldError(f"--peer {name}: {str(error).lower()}") from None
    if not (name and equals and words):
        raise RefoldError(f"--peer takes NAME=COMMAND, as in langchain='python adapter.py', not {text!r}")
    return Peer(name, words, seconds)


def _join_texts(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose content is nothing but texts, with one text: not every system knows parts."""
    content = message.get("content")
    if not isinstance(content, list) or not all(set(part) == {"type", "text"} for part in content):
        return message
    return {**message, "content": "\n".join(part["text"] for part in content)}


def _answer_peer(prompt: str, ask: Callable[[Any], Any] | None) -> dict[str, str]:
    if ask is None:
        return {"error": "no model was given"}
    try:
        said = ask(Ask(prompt))
    except RefoldError as error:
        return {"error": str(error)}
    if not isinstance(said, Answer):
        return {"answer": str(said)}
    return {"answer": said.text, **({"finish": said.finish} if said.finish != "stop" else {})}
