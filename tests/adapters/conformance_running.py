"""How the conformance suite runs agents: turn by turn, in one event loop, in threads, or in a child process."""

import asyncio
import hashlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from conformance_case import WINDOW, Agent, Case, Line, Setup, Summariser, outline

from refold import Overflow
from refold.testing import Call, Provider, Reply, Request
from refold.testing import Usage as Cost

FULL = os.environ.get("REFOLD_ADAPTERS") == "full"
"""True in `make adapters`; else a smaller talk, which folds once."""
TURNS = 40 if FULL else 9
LEAST_FOLDS = 3 if FULL else 1
CHILD = Path(__file__).with_name("conformance_child.py")


def secret(turn: int) -> str:
    """Return a word that is said in one turn only."""
    return f"pw{hashlib.sha256(str(turn).encode()).hexdigest()[:8]}"


def write_turn(turn: int, *, parallel: bool = True) -> str:
    """Return what the user says in a turn; the model calls three tools at once in every fifth."""
    many = " PARALLEL 3." if parallel and turn % 5 == 0 else ""
    return f"Turn {turn}: what is in the next box? The password is {secret(turn)}.{many}"


def write_note(request: Request) -> Reply | None:
    """Let the model call `look` with a note of fifty lines when a turn begins; the provider answers the rest."""
    last = outline(request.messages, request.wire)[-1]
    turns = re.findall(r"Turn (\d+):", last.text)
    if last.role != "user" or not turns:
        return None
    note = "".join(f"Line {i} of note {turns[-1]} says what is to be done.\n" for i in range(1, 51))
    return Reply("I look and note it.", (Call("look", {"n": int(turns[-1]), "note": note}),))


class Running:
    """An agent that was opened, with the event loop that all its coroutines run in."""

    def __init__(
        self,
        case: Case,
        provider: Provider,
        folder: Path,
        *,
        with_refold: bool = True,
        window: int = WINDOW,
        policy: str = "refold",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.case, self.provider, self.folder = case, provider, folder
        self.summariser = Summariser()
        options = {"store": f"sqlite:{folder / 'refold.db'}", "window": window, "policy": policy}
        options |= {"ask": self.summariser}
        self._loop = asyncio.Runner()
        setup = Setup(
            url=provider.url,
            root=provider.root,
            folder=folder,
            with_refold=with_refold,
            options=options if with_refold else {},
        )
        self.agent: Agent = self.finish(case.open(setup))

    def finish(self, value: Any) -> Any:
        """Return a value, or what a coroutine returns."""
        return self._loop.run(_await(value)) if inspect.isawaitable(value) else value

    def turn(self, key: str, text: str, mode: str | None = None) -> str:
        """Run one turn in a mode, by default in the case's main one."""
        mode = mode or self.case.modes[0]
        run = self.agent.arun if mode in {"async", "astream"} else self.agent.run
        return str(self.finish(run(key, text, stream=mode in {"stream", "astream"})))

    def talk(self, key: str, first: int, last: int) -> list[str]:
        """Run turns; every third one is streamed if the case can. Return what the user said."""
        main = self.case.modes[0]
        streamed = {"sync": "stream", "async": "astream"}.get(main, main)
        said: list[str] = []
        for turn in range(first, last + 1):
            said.append(write_turn(turn, parallel="parallel_calls" not in self.case.skips))
            mode = streamed if turn % 3 == 0 and streamed in self.case.modes else main
            self.turn(key, said[-1], mode)
        return said

    def history(self, key: str) -> Any:
        """Return the framework's own history."""
        return self.finish(self.agent.history(key))

    def outline(self, key: str) -> list[Line]:
        """Return the framework's own history as lines."""
        lines: list[Line] = self.finish(self.agent.outline(key))
        return lines

    def session(self, key: str) -> Any:
        """Return Refold's session."""
        return self.finish(self.agent.session(key))

    def read_log(self, key: str) -> list[Line]:
        """Return what Refold has stored as said, as lines."""
        return outline([entry.value for entry in self.session(key).log(kinds=["said"])], self.case.format)

    def close(self) -> None:
        """Close the agent and its event loop."""
        try:
            self.finish(self.agent.close())
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _await(value: Any) -> Any:
    return await value


@dataclass(frozen=True, slots=True, kw_only=True)
class Talked:
    """What the long talk left behind; checks read it and change nothing."""

    said: list[str]
    requests: list[Request]
    problems: list[Any]
    history: Any
    lines: list[Line]
    log: list[Line]
    folds: list[Any]
    asked: list[str]
    totals: Any
    recalled: list[Line]
    """The lines of one more turn, in which the model recalls the first box."""
    recall_tools: list[str]

    @property
    def costs(self) -> list[Cost]:
        """What every answer cost."""
        return [request.usage for request in self.requests if request.usage is not None]


def run_talk(case: Case, folder: Path) -> Talked:
    """Run the long talk with Refold."""
    with Provider(limit=WINDOW) as provider, Running(case, provider, folder) as running:
        said = running.talk("main", 1, TURNS)
        session, lines = running.session("main"), running.outline("main")
        talked = Talked(
            said=said,
            requests=list(provider.requests),
            problems=list(provider.problems),
            history=running.history("main"),
            lines=lines,
            log=running.read_log("main"),
            folds=session.folds(),
            asked=list(running.summariser.asked),
            totals=session.stats().totals,
            recalled=[],
            recall_tools=[],
        )
        if "recall" in case.skips:
            return talked
        running.turn("main", f"RECALL {first_result(lines)[:40]}")
        recalled = running.outline("main")[len(lines) :]
        return replace(talked, recalled=recalled, recall_tools=provider.requests[-1].tool_names)


def first_result(lines: list[Line]) -> str:
    """Return what the first tool call of a history gave."""
    return next(line.results[0] for line in lines if line.results)


def find_causes(error: BaseException) -> list[BaseException]:
    """Return an error and everything that it came from."""
    found: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is not None and each not in found:
            found.append(each)
            todo += [each.__cause__, each.__context__]
    return found


def has_overflow(error: BaseException) -> bool:
    """True if `refold.Overflow` is among the causes of an error."""
    return any(isinstance(cause, Overflow) for cause in find_causes(error))


def read_request(request: Request) -> dict[str, Any]:
    """Return what two requests are compared by."""
    return {"messages": request.messages, "system": request.system, "tools": request.tools}


class Child:
    """An agent in a process of its own, which is killed without a warning."""

    def __init__(self, test_class: type, folder: Path, url: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        place = [str(inspect.getfile(test_class)), test_class.__qualname__, str(folder), url]
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), "agent", *place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def turn(self, key: str, text: str) -> str:
        """Run a turn there."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([key, text]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the child ended with status {self._process.wait()}"
        return str(json.loads(line))

    def kill(self) -> None:
        """End the process by SIGKILL, as a crash of the machine's memory would."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


@contextmanager
def provider_apart(limit: int, words: int) -> Iterator[str]:
    """Run a provider in a process of its own, so that its work does not count as ours; yield its address."""
    command = [sys.executable, str(CHILD), "provider", str(limit), str(words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        yield process.stdout.readline().strip()
        process.stdin.close()
