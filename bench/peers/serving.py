"""What every adapter speaks: JSON lines on standard input and output; the standard library alone.

An adapter is a program that runs in its peer's own environment. It is told, one line each:

    {"id": 1, "op": "about"}                                     -> {"id": 1, "name": ..., "version": ...}
    {"id": 2, "op": "fold", "messages": [...], "budget": 4000}   -> {"id": 2, "messages": [...]}
    {"id": 3, "op": "start"}                                     a new conversation
    {"id": 4, "op": "turn", "messages": [...], "budget": 4000}   these were said; what goes to the model now?
    {"id": 5, "op": "decide", "messages": 1000, "seed": 7}       -> {"id": 5, "ms": ...}
    {"id": 6, "op": "memory", "messages": 1000, "seed": 7}       -> {"id": 6, "mb": ..., "held_mb": ...}

`act`, `count`, `estimate` and `convert` are told like `decide`; with `"file": "..."` the conversation is the
one in that file. The first run over a conversation is told apart from the others (`first_ms`): some remember
what they have counted. What only has to be loaded is loaded before, by a short conversation.

Messages have OpenAI's chat shape; an assistant's content may also be a list with Anthropic's thinking blocks.
`window` is the summariser's window where it is known. While it works, an adapter may ask the model:
`{"id": 2, "ask": "prompt"}` gets `{"id": 2, "answer": "..."}`, with `"finish"` and `"calls"` where the answer
ended in another way than by `stop`, or `{"id": 2, "error": "timeout"}` (also `server` and `overflow`). Where
the line says `"counts": true` it may ask how many tokens a provider would count: `{"id": 2, "count": "..."}`
gets `{"id": 2, "tokens": 12}`. What goes wrong in a peer comes back as `{"id": 2, "error": "..."}`; what it
does not offer as `"offered": false`.
"""

import contextlib
import ctypes
import gc
import importlib.metadata
import importlib.util
import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

Messages = list[dict[str, Any]]
Thunk = Callable[[], Any]

WARM_MESSAGES, WARM_SEED = 40, 99
"""The conversation by which code is loaded: its words are others than those that are measured."""
HUGE = 1_000_000_000
"""A budget that no conversation of the benchmark reaches, in tokens."""


@dataclass(frozen=True)
class Answer:
    """What the model said, and how it ended: `stop`, `length`, `refusal` or `tool_calls`."""

    text: str
    finish: str = "stop"
    calls: int = 0


class ModelFailed(Exception):
    """The model did not answer: `timeout`, `server` or `overflow`."""

    def __init__(self, kind: str) -> None:
        super().__init__(WORDS.get(kind, kind))
        self.kind = kind


WORDS = {
    "timeout": "Request timed out.",
    "server": "Error code: 500 - the server had an error while processing your request",
    "overflow": "This model's maximum context length is exceeded. Please reduce the length of the messages.",
}


class NotOffered(Exception):
    """The peer has no such feature."""


class Adapter:
    """What a peer's adapter gives; what it leaves out is not offered."""

    package = ""
    """The distribution whose version counts."""
    ways: Sequence[str] = ()
    """The features that can be chosen on the command line; the first unless told."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.history: Messages = []
        self.told: dict[str, Any] = {}
        """The line that is being done, for wishes that only some understand."""
        self.counted: Callable[[str], int] = quarter
        """How many tokens a provider would count; four characters a token where nobody can be asked."""

    def fold(
        self,
        messages: Messages,  # noqa: ARG002  # for those who offer it
        budget: int,  # noqa: ARG002
        ask: Callable[[str], Answer],  # noqa: ARG002
        window: int,  # noqa: ARG002
    ) -> Messages:
        """What the model would be sent; `window` is the summariser's, in tokens."""
        raise NotOffered("fold")

    def start(self) -> None:
        """Begin a new conversation."""
        self.history = []

    def turn(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """Take what was said meanwhile and give what the model is sent; the result is the new history."""
        self.history = [*self.history, *messages]
        self.history = self.fold(self.history, budget, ask, window)
        return self.history

    def kept(self) -> str:
        """Everything that can still be fetched back by the peer's own means, as text."""
        raise NotOffered("kept")

    def held(self) -> str:
        """The history of a conversation that goes on, as text."""
        return json.dumps(self.history, ensure_ascii=False)

    def decide(self, messages: Messages) -> Callable[[], Thunk]:  # noqa: ARG002  # for those who offer it
        """Something that prepares a decision with nothing to do; only what it gives back is timed."""
        raise NotOffered("decide")

    def act(self, messages: Messages) -> Callable[[], Thunk]:  # noqa: ARG002  # for those who offer it
        """The same for a cut to a quarter, with a model that answers at once."""
        raise NotOffered("act")

    def convert(self, messages: Messages) -> Thunk:  # noqa: ARG002  # for those who offer it
        """Make the library's own messages of plain dicts; nothing for those that take dicts."""
        raise NotOffered("convert")

    def count(self, messages: Messages) -> Thunk:  # noqa: ARG002  # for those who offer it
        """Count exactly; the thunk gives the tokens."""
        raise NotOffered("count")

    def estimate(self, messages: Messages) -> Thunk:  # noqa: ARG002  # for those who offer it
        """Estimate; the thunk gives the tokens."""
        raise NotOffered("estimate")


def quarter(text: str) -> int:
    """Four characters a token."""
    return len(text) // 4


def at_once(_prompt: str) -> Answer:
    """A model that needs no time."""
    return Answer("The user asked for work on the modules. Files were read and edited; the tests pass.")


def flat(messages: Sequence[dict[str, Any]]) -> str:
    """A request as one text, so that its size can be judged."""
    return "\n".join(json.dumps(message, ensure_ascii=False, default=str) for message in messages)


def tokens(messages: Sequence[dict[str, Any]]) -> int:
    """Four characters a token: what a benchmark needs to say what a quarter is."""
    return len(flat(messages)) // 4


def conversation(messages: int, seed: int, file: str = "") -> Messages:
    """The conversation that ours and theirs are measured on, fresh each time; recorded if a file is named."""
    made: Messages = json.loads(Path(file).read_text(encoding="utf-8") if file else _written(messages, seed))
    return made


@lru_cache(maxsize=1)
def _written(messages: int, seed: int) -> str:
    """The same as JSON, by bench/agent.py."""
    path = Path(__file__).resolve().parents[1] / "agent.py"
    spec = importlib.util.spec_from_file_location("bench_agent", path)
    assert spec is not None  # noqa: S101  # the file stands there
    assert spec.loader is not None  # noqa: S101  # and is Python
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return json.dumps(module.conversation(messages, kilobytes=0.75, seed=seed, words=module.COMMON))


def best(fresh: Callable[[], Thunk], seconds: float) -> dict[str, Any]:
    """The fewest CPU milliseconds of some runs, nine at most, fewer where they take long; and the first's."""
    spent, fewest, first, runs, value = 0.0, float("inf"), 0.0, 0, None
    while runs < 9 and (spent < seconds or not runs):
        work = fresh()
        begin = time.process_time()
        value = work()
        took = time.process_time() - begin
        first = first if runs else took
        spent, fewest, runs = spent + took, min(fewest, took), runs + 1
    found = {"ms": fewest * 1_000, "first_ms": first * 1_000, "runs": runs}
    return {**found, **({"tokens": value} if type(value) is int else {})}


class Server:
    """Reads a line, does what it says, writes a line."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._warm: set[str] = set()
        """What was done once with a short conversation, so that everything it needs is loaded."""
        # what libraries print must not stand between the lines
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def run(self) -> None:
        """Serve until the input ends."""
        for line in sys.stdin:
            told = json.loads(line)
            try:
                reply = self._done(told)
            except NotOffered as missing:
                reply = {"error": f"not offered: {missing}", "offered": False}
            except Exception as error:  # noqa: BLE001  # every failure of a peer is a result
                reply = {"error": f"{type(error).__name__}: {error}"[:2_000]}
            self._say({"id": told.get("id"), **reply})

    def _say(self, value: dict[str, Any]) -> None:
        self._out.write(json.dumps(value, ensure_ascii=True, default=str) + "\n")
        self._out.flush()

    def _ask(self, number: Any) -> Callable[[str], Answer]:
        def ask(prompt: str) -> Answer:
            self._say({"id": number, "ask": prompt})
            reply = json.loads(sys.stdin.readline())
            if "error" in reply:
                raise ModelFailed(reply["error"])
            return Answer(reply["answer"], reply.get("finish", "stop"), reply.get("calls", 0))

        return ask

    def _count(self, number: Any) -> Callable[[str], int]:
        @lru_cache(maxsize=100_000)
        def count(text: str) -> int:
            self._say({"id": number, "count": text})
            tokens: int = json.loads(sys.stdin.readline())["tokens"]
            return tokens

        return count

    def _done(self, told: dict[str, Any]) -> dict[str, Any]:
        adapter, what = self._adapter, told["op"]
        adapter.told = told
        adapter.counted = self._count(told.get("id")) if told.get("counts") else quarter
        if what == "about":
            return {"name": adapter.way, "version": importlib.metadata.version(adapter.package)}
        if what in ("fold", "turn"):
            work = adapter.fold if what == "fold" else adapter.turn
            view = work(
                told["messages"], told["budget"], self._ask(told.get("id")), told.get("window", 128_000)
            )
            return {"messages": view}
        if what == "start":
            adapter.start()
            return {}
        if what == "kept":
            return {"text": adapter.kept()}
        if what != "memory" and getattr(type(adapter), what) is getattr(Adapter, what):
            raise NotOffered(what)
        messages = conversation(told["messages"], told.get("seed", 7), told.get("file", ""))
        if what == "memory":
            return self._memory(messages)
        if what not in self._warm:
            self._warm.add(what)
            best(self._fresh(what, conversation(WARM_MESSAGES, seed=WARM_SEED)), 0.0)
        return best(self._fresh(what, messages), told.get("spend", 1.0))

    def _fresh(self, what: str, messages: Messages) -> Callable[[], Thunk]:
        """Something that prepares a step; only what it gives back is timed."""
        made = getattr(self._adapter, what)(messages)
        return (lambda: made) if what in ("count", "estimate", "convert") else made

    def _memory(self, messages: Messages) -> dict[str, Any]:
        """How much the process grows by holding a conversation in its own shape, and by its work on it.

        The first is what the adapter makes of the list before the clock would start: messages of the
        library's own classes, a session, a store. The second is one decision and one cut. Both are done with
        a short conversation first: some load their modules when they are imported, others when they work.
        """
        short = conversation(WARM_MESSAGES, seed=WARM_SEED)
        self._adapter.decide(short)()()
        self._adapter.act(short)()()
        empty = _settled()
        fresh = self._adapter.decide(messages)
        held = _settled()
        fresh()()
        decided = _most()
        del fresh
        cut = self._adapter.act(messages)()
        before = _settled()
        cut()
        worked = max(decided - held, _most() - before)
        grown = {"mb": max(0, worked) / 1_024, "held_mb": max(0, held - empty) / 1_024}
        return {**grown, "warm_messages": WARM_MESSAGES}


def _settled() -> int:
    """Kilobytes in use now, what was freed given back; the highest mark is set anew where that can be."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def _most() -> int:
    """Kilobytes at the highest mark."""
    return _status("VmHWM")


def _status(what: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith(what):
                return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def serve(make: type[Adapter]) -> None:
    """Serve an adapter: the program's one argument is the way."""
    warnings.simplefilter("ignore")
    Server(make(sys.argv[1] if len(sys.argv) > 1 else make.ways[0])).run()
