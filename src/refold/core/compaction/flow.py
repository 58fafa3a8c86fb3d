"""How pure code asks a model: it yields questions and receives replies; it never calls anybody.

    def shorten(text):                          # a flow: a generator, pure
        (reply,) = yield (Ask(f"Shorten: {text}", max_tokens=200),)
        return text if isinstance(reply, Failed) else reply.text

    run(shorten("..."), my_llm)                 # my_llm: a callable from Ask (a str) to str
    await arun(shorten("..."), my_async_llm)    # the same flow, driven by an event loop

Several questions yielded at once are independent; the async driver asks them in parallel. A model that
fails does not raise inside the flow: the flow receives `Failed` and moves on. What is not an `Exception`
(Ctrl-C, cancellation) closes the flow and passes through.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias, TypeVar

from refold.core.compaction.cached_prefix import CachedPrefix
from refold.errors import AnswerFailed

T = TypeVar("T")

_THOUGHT: Final = re.compile(r"\s*<(think|thinking)>(.*?)(?:</\1>\s*|\Z)", re.DOTALL)
"""How open models write their reasoning before the answer (DeepSeek-R1, Qwen3); without an end it is all."""


class Ask(str):
    """A question to a model: itself the prompt's text, with what else a client needs beside it."""

    __slots__ = ("closing", "max_tokens", "prefix", "purpose", "system")

    system: str
    """The system prompt."""
    max_tokens: int | None
    """How long the answer may be."""
    purpose: str
    """Why it is asked, e.g. `summary`, `chunk 2/5`, `merge`."""
    prefix: CachedPrefix | None
    """The conversation behind which the same can be asked; whoever cannot do that takes the text."""
    closing: str
    """What the user says last then, in place of text and system prompt."""

    def __new__(
        cls,
        text: str,
        *,
        system: str = "",
        max_tokens: int | None = None,
        purpose: str = "summary",
        prefix: CachedPrefix | None = None,
        closing: str = "",
    ) -> Self:
        """Make a question from its text."""
        self = super().__new__(cls, text)
        self.system = system
        self.max_tokens = max_tokens
        self.purpose = purpose
        self.prefix = prefix
        self.closing = closing
        return self

    @property
    def text(self) -> str:
        """The prompt as a plain string."""
        return str.__str__(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model said, with what its provider told about it."""

    text: str
    finish: str = "stop"
    """Why it ended: `stop`, `length`, `tool_calls`, `refusal`, or the provider's own word."""
    calls: int = 0
    """How many tool calls it made instead of answering."""
    reasoning: str = ""
    model: str = ""
    provider: str = ""
    """Who answered: `anthropic`, `openai`, or the address of a server; empty where nobody says."""
    input_tokens: int | None = None
    """All that was read, cached or not."""
    output_tokens: int | None = None
    cache_read: int = 0
    """Tokens of the input that came out of the provider's cache."""
    cache_write: int = 0
    """Tokens of the input that were put into it."""
    prefixed: bool = False
    """Whether it was asked behind the conversation's own prefix."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Nobody answered, and why."""

    error: Exception


Reply: TypeAlias = Answer | Failed
Asks: TypeAlias = tuple[Ask, ...]
Flow: TypeAlias = Generator[Asks, tuple[Reply, ...], T]
Answerer: TypeAlias = Callable[[Ask], str | Answer | Awaitable[str | Answer]]


def run(flow: Flow[T], ask: Answerer) -> T:
    """Drive a flow, asking one question after another."""
    replies: tuple[Reply, ...] | None = None
    try:
        while True:
            asks = flow.send(replies)  # type: ignore[arg-type]  # None starts a generator
            replies = ask_in_turn(asks, ask)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # a flow of T returns a T
    finally:
        flow.close()


async def arun(flow: Flow[T], ask: Answerer) -> T:
    """Drive a flow inside an event loop, asking questions that were yielded together in parallel."""
    replies: tuple[Reply, ...] | None = None
    try:
        while True:
            asks = flow.send(replies)  # type: ignore[arg-type]  # None starts a generator
            replies = await ask_in_parallel(asks, ask)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # a flow of T returns a T
    finally:
        flow.close()


def ask_in_turn(asks: Asks, ask: Answerer) -> tuple[Reply, ...]:
    """What a model replies to questions, one after another."""
    return tuple(_reply(ask, question) for question in asks)


async def ask_in_parallel(asks: Asks, ask: Answerer) -> tuple[Reply, ...]:
    """What a model replies to questions that are asked in parallel."""
    import asyncio  # dear to import; who uses it has paid already

    tasks = [asyncio.ensure_future(_areply(ask, question)) for question in asks]
    try:
        return tuple(await asyncio.gather(*tasks))
    finally:  # where one was cancelled the others must not run on
        for task in tasks:
            task.cancel()


def _reply(ask: Answerer, question: Ask) -> Reply:
    try:
        said = ask(question)
    except Exception as error:  # noqa: BLE001  # any failure of a model is a value for the flow
        return Failed(error)
    if inspect.isawaitable(said):
        if inspect.iscoroutine(said):
            said.close()
        raise TypeError("this model is asynchronous: use `await refold.acompact(...)`")
    return _answer(said)


async def _areply(ask: Answerer, question: Ask) -> Reply:
    try:
        said = ask(question)
        return _answer(await said if inspect.isawaitable(said) else said)
    except Exception as error:  # noqa: BLE001  # any failure of a model is a value for the flow
        return Failed(error)


def _answer(said: Any) -> Reply:
    if isinstance(said, Answer):
        return said
    if isinstance(said, str):
        text, thought = split_reasoning(said)
        return Answer(text=text, reasoning=thought)
    return Failed(AnswerFailed(f"the model gave {type(said).__name__} where text was expected"))


def split_reasoning(said: str) -> tuple[str, str]:
    """The answer, and the reasoning that a model wrote before it between tags of its own.

    >>> thought_apart("<think>easy</think> Four.")
    ('Four.', 'easy')
    """
    thought = _THOUGHT.match(said)
    return (said[thought.end() :], thought[2]) if thought else (said, "")


def run_together(flows: Sequence[Flow[T]]) -> Flow[list[T]]:
    """Run several flows side by side: what they ask at the same time is asked at the same time."""
    results: dict[int, T] = {}
    inbox: dict[int, tuple[Reply, ...] | None] = dict.fromkeys(range(len(flows)))
    while inbox:
        asked: dict[int, Asks] = {}
        for number, replies in inbox.items():
            try:
                asked[number] = flows[number].send(replies)  # type: ignore[arg-type]  # None starts it
            except StopIteration as stop:
                results[number] = stop.value
        inbox = {}
        if asked:
            answers = yield tuple(ask for asks in asked.values() for ask in asks)
            at = 0
            for number, asks in asked.items():
                inbox[number] = answers[at : at + len(asks)]
                at += len(asks)
    return [results[number] for number in range(len(flows))]
