"""What an adapter's test module brings to the conformance suite, and what the suite gives it.

    class PlainAgent(Agent):
        def __init__(self, setup): ...
        def run(self, key, text, *, stream=False): ...
        def history(self, key): ...
        def outline(self, key): ...
        def session(self, key): ...
        def close(self): ...

    class PlainCase(Case):
        name = "plain"
        modes = ("sync", "stream")

        def open(self, setup):
            return PlainAgent(setup)

    class TestPlain(Conformance):
        case = PlainCase()

Any method of an agent, and `Case.open`, may be `async def`: the suite awaits it, always in the one event loop
of that agent.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

import pytest

import refold
from refold.formats import get

PDF = b64encode(
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\n"
    b"trailer<</Root 1 0 R>>\n%%EOF\n"
).decode()
"""A document of one empty page."""
SYSTEM = "You look into boxes and say what is in them."
"""The system prompt of every agent."""
WINDOW = 4000
MODEL = {
    "openai": "gpt-4o",
    "responses": "gpt-4o",
    "anthropic": "claude-sonnet-5",
    "gemini": "gemini-2.5-flash",
}
"""A model's name for each wire, where the framework wants one that it knows."""


def look(n: int, note: str = "") -> str:  # a long argument, as those of agents that write files
    """Look into box n and return what is in it."""
    if n < 0:
        raise ValueError(f"there is no box {n}")
    things = " ".join(
        f"Shelf {i} of box {n} holds {(n * 31 + i * 7) % 997} parts in bag {i}." for i in range(1, 10)
    )
    return f"Box {n} is open. {things}"


@dataclass(slots=True)
class Summariser:
    """Writes summaries: a function of the question, so that two runs can be compared. Remembers questions."""

    asked: list[str] = field(default_factory=list)

    def __call__(self, ask: Any) -> str:
        question = str(ask)
        self.asked.append(question)
        boxes = list(dict.fromkeys(re.findall(r"Box (\d+) is open", question)))[-6:]
        words = list(dict.fromkeys(re.findall(r"password is (pw\w+)", question)))[-6:]
        return (
            "The user asks what is in the next box, one box after another, and names a password each time."
            f" The agent opened the boxes {', '.join(boxes)} with the tool look; each holds bags with parts."
            f" The passwords were {', '.join(words)}. Nothing has failed. The next box comes next."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What an agent is built from."""

    url: str
    """The provider's address with `/v1`."""
    root: str
    """The same without `/v1`, for Anthropic and Gemini clients."""
    folder: Path
    """Where the framework keeps its own history, on disk: the same folder again means resume."""
    with_refold: bool = True
    """False: the very same agent, and no Refold in it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the adapter: store, window, ask, policy. Pass them on: `RefoldMiddleware(**setup.options)`."""


class Line(NamedTuple):
    """One item of a history in words that are the same for every framework."""

    role: str
    text: str
    calls: tuple[tuple[str, str], ...] = ()
    """Names and arguments, as JSON with sorted keys."""
    results: tuple[str, ...] = ()
    """Texts of tool results."""


def outline(items: Sequence[Any], wire: str) -> list[Line]:
    """Return a history as lines, without system messages and without items that say nothing.

    wire   the format of the items: "openai", "responses", "anthropic" or "gemini"
    """
    lines: list[Line] = []
    for message in get(wire).parse(list(items)):
        calls = tuple((call.name, _sort(call.arguments)) for call in message.calls)
        results = tuple(_read_result(result) for result in message.results)
        line = Line("tool" if results else message.role, message.text, calls, results)
        if message.role != "system" and any(line[1:]):
            lines.append(line)
    return lines


def _sort(arguments: Any) -> str:
    value = json.loads(arguments or "{}") if isinstance(arguments, str) else dict(arguments)
    return json.dumps(value, sort_keys=True)


def _read_result(result: Any) -> str:
    text = " ".join(getattr(part, "text", "") or "" for part in result.content)
    # Gemini wraps a text into an object, and frameworks choose its key
    found = json.loads(text) if text.startswith("{") else text
    return str(next(iter(found.values()), "")) if isinstance(found, dict) else text


def write_json(path: Path, value: Any, default: Callable[[Any], Any] | None = None) -> None:
    """Write a file whole: two turns at once write the same one, and a kill may come at any moment."""
    with NamedTemporaryFile("w", dir=path.parent, delete=False) as part:
        json.dump(value, part, default=default)
    Path(part.name).replace(path)


def mask(value: Any, *keys: str) -> Any:
    """Return a copy of plain data in which the values under these keys are "*": ids, times and usage."""
    if isinstance(value, Mapping):
        return {name: "*" if name in keys else mask(inner, *keys) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mask(inner, *keys) for inner in value]
    return value


class Agent:
    """One agent of a framework, built for a `Setup`; a base to inherit from."""

    def run(self, key: str, text: str, *, stream: bool = False) -> str:
        """Let the user say `text` in the conversation `key`; return the agent's last text.

        The framework's own loop calls the tools and saves the history. With `stream` the turn is streamed to
        its end. Errors of the framework come through.
        """
        raise NotImplementedError

    async def arun(self, key: str, text: str, *, stream: bool = False) -> str:
        """Do the same in an event loop."""
        raise NotImplementedError

    def history(self, key: str) -> list[Any]:
        """Return the framework's own history as plain data: dicts, lists, texts and numbers.

        It is compared with that of a run without Refold. Ids and times that the framework makes by chance,
        and usage, are masked with `mask`. Everything else stays.
        """
        raise NotImplementedError

    def outline(self, key: str) -> list[Line]:
        """Return the framework's own history as lines; made from the history without help of the adapter.

        Where the framework has a converter of its own, `outline(items, "openai")` does the rest.
        """
        raise NotImplementedError

    def session(self, key: str) -> refold.Session:
        """Return Refold's session of a conversation, such as `adapter.session(key)`."""
        raise NotImplementedError

    def rewind(self, key: str, turns: int) -> None:
        """Take the last `turns` turns out of the history, as the framework's users do it (check 9)."""
        raise NotImplementedError

    def show_image(self, key: str, text: str, png: str) -> str:
        """Do as `run` with a picture (PNG in base64) beside the text (check 10)."""
        raise NotImplementedError

    def show_document(self, key: str, text: str, pdf: str) -> str:
        """Do as `run` with a document (PDF in base64) beside the text (check 10)."""
        raise NotImplementedError

    def interrupt(self, key: str, text: str) -> None:
        """Stop a turn after the model has called `look` and before its result is there (check 10)."""
        raise NotImplementedError

    def close(self) -> None:
        """Close clients, stores and sessions."""


class Case:
    """What the suite knows about an adapter."""

    name = ""
    wire = "openai"
    """The wire on which the framework talks to the provider."""
    format = "openai"
    """The format of the items in Refold's session: that of the adapter's `to_wire`."""
    modes: tuple[str, ...] = ("sync", "stream", "async", "astream")
    """Ways to run a turn: `run`, `run` with stream, `arun`, `arun` with stream."""
    package: str = ""
    """The adapter that this case belongs to, where a test module has cases of several client libraries."""
    page: str | None = None
    """The documentation, such as `docs/adapters/langchain.md`; its Python examples are run in order."""
    skips: Mapping[str, str] = {}
    """Checks that the framework makes impossible, each with its reason: `{"rewind": "has no way back"}`.

    Names of checks: long_turn, history, usage, refusal_at_call, refusal_in_stream, refusal_event (behind a
    status of 200), second_refusal, other_error, resume, recall, unfold, pin, parallel_calls, threads, tasks,
    one_key, rewind, signatures, empty_answer, failed_tool, image, document, interrupt, off.
    """

    def open(self, setup: Setup) -> Agent:
        """Build an agent with the system prompt `SYSTEM` and the tool `look`."""
        raise NotImplementedError


def need(*modules: str, extra: str) -> None:
    """Skip a test module with one line where a framework is not installed."""
    import warnings
    from importlib import import_module

    for module in modules:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # frameworks warn about their own libraries when imported
                import_module(module)
        except ImportError as error:
            reason = f"{module} is not installed ({error}): pip install 'refold[{extra}]'"
            pytest.skip(reason, allow_module_level=True)


__all__ = [
    "MODEL",
    "PDF",
    "SYSTEM",
    "WINDOW",
    "Agent",
    "Case",
    "Line",
    "Setup",
    "Summariser",
    "look",
    "mask",
    "need",
    "outline",
]
