"""Flows: generators with which pure code asks a model. They yield questions and receive replies.

    def shorten(text):                          # a flow: a generator, pure
        (reply,) = yield (Ask(f"Shorten: {text}", max_tokens=200),)
        return text if isinstance(reply, Failed) else reply.text

    run(shorten("..."), my_llm)                 # my_llm: a callable from Ask (a str) to str
    await arun(shorten("..."), my_async_llm)    # the same flow, driven by an event loop

Several questions yielded at once are parts of one job: the async driver asks them in parallel, the other in
turn until one fails. A model that fails does not raise inside the flow: the flow receives `Failed` and moves
on. What is not an `Exception` (Ctrl-C, cancellation) closes the flow and passes through. Nothing that a
callable answers is trusted: `_read_answer` makes a clean `Answer` of it, or `Failed`.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Self, TypeAlias, TypeVar

from refold.core.compaction.cached_prefix import CachedPrefix
from refold.core.messages.short_repr import short_repr
from refold.core.messages.text_boundaries import clean_text
from refold.core.tokens.responses import read_response
from refold.core.tokens.usage import MAX_REPORTED_TOKENS
from refold.errors import AnswerFailed, RefoldError

T = TypeVar("T")
ASYNCHRONOUS: Final = "this model is asynchronous: use `refold.acompact(...)` or `refold.aopen(...)`"
_REASONING: Final = re.compile(r"\s*<(think|thinking)>(.*?)(?:</\1>\s*|\Z)", re.DOTALL)
"""Reasoning that open models write before the answer (DeepSeek-R1, Qwen3); without an end tag it is all."""
MOST_CHARS: Final = 8_000_000
"""Characters of an answer that are read, reasoning included; the clients stop at as many bytes."""
CHARS_PER_TOKEN: Final = 16
"""Characters that an answer may have for each token it was allowed. A token of English has four or five, so
an answer that is a little too long still reaches the gate, which says so better."""
LEAST_CHARS: Final = 20_000
"""Characters that an answer may have in any case."""


class CompactRequest(list[Any]):
    """The messages that a provider is to compact itself, with what a request needs beside them.

    It is a `list`, so that any callable from messages to the provider's response will do.
    """

    __slots__ = ("instructions", "model", "system", "tokens", "tools")

    def __init__(
        self,
        messages: Iterable[Any] = (),
        *,
        model: str = "",
        system: Any = None,
        tools: Any = None,
        instructions: str = "",
        tokens: int = 0,
    ) -> None:
        """Make a request.

        model           the model of the conversation, as it was named
        system, tools   what was given to `prepare`
        instructions    what the summary is to look at; empty for the provider's own choice
        tokens          the size of the messages, estimated
        """
        super().__init__(messages)
        self.model, self.system, self.tools = model, system, tools
        self.instructions, self.tokens = instructions, tokens


class Ask(str):
    """A question to a model: the text of the prompt, with everything else a client needs.

    It is a `str`, so that any callable from text to text is a model (docs/decisions/0002).
    """

    __slots__ = ("closing", "max_tokens", "native", "prefix", "purpose", "system")

    system: str
    """The system prompt."""
    max_tokens: int | None
    """Tokens the answer may have."""
    purpose: str
    """The use of the answer, e.g. `summary`, `chunk 2/5`, `merge`."""
    prefix: CachedPrefix | None
    """The cached conversation behind which the same can be asked; other clients use the text."""
    closing: str
    """The user's last message in that case, in place of text and system prompt."""
    native: CompactRequest | None
    """What the provider is to compact itself; such a question goes to the provider and to no summariser."""

    def __new__(
        cls,
        text: str,
        *,
        system: str = "",
        max_tokens: int | None = None,
        purpose: str = "summary",
        prefix: CachedPrefix | None = None,
        closing: str = "",
        native: CompactRequest | None = None,
    ) -> Self:
        """Make a question from its text."""
        self = super().__new__(cls, text)
        self.system = system
        self.max_tokens = max_tokens
        self.purpose = purpose
        self.prefix = prefix
        self.closing = closing
        self.native = native
        return self

    @property
    def text(self) -> str:
        """The prompt as a plain string."""
        return str.__str__(self)

    def __repr__(self) -> str:
        return short_repr(self, ("purpose", "text", "system", "max_tokens"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a model, with what its provider reported about it."""

    text: str
    finish: str = "stop"
    """The reason why it ended: `stop`, `length`, `tool_calls`, `refusal`, or the provider's own word."""
    calls: int = 0
    """Number of tool calls it made instead of answering."""
    reasoning: str = ""
    model: str = ""
    provider: str = ""
    """The provider: `anthropic`, `openai`, or the address of a server; empty where unknown."""
    input_tokens: int | None = None
    """Tokens of the whole input, cached or not."""
    output_tokens: int | None = None
    cache_read: int = 0
    """Tokens of the input that were read from the provider's cache."""
    cache_write: int = 0
    """Tokens of the input that were written to it."""
    prefixed: bool = False
    """True if it was asked behind the cached conversation."""
    native: tuple[Any, ...] | None = None
    """The items with which the provider answered that compacted by itself; None for any other answer."""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Failed:
    """The failure of a model to answer."""

    error: Exception
    asked: bool = True
    """False if the model was not asked, because the question before it failed."""

    @property
    def reason(self) -> str:
        """The error and its text, without what a log or a terminal cannot show."""
        return clean_text(f"{type(self.error).__name__}: {self.error}"[:1_000])


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


def record_replies(flow: Flow[T], replies: list[tuple[Reply, ...]]) -> Flow[T]:
    """Run a flow inside another one, and keep what it was answered."""
    try:
        asks = next(flow)
        while True:
            replies.append((yield asks))
            asks = flow.send(replies[-1])
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # a flow of T returns a T
    finally:
        flow.close()


def answer_again(flow: Flow[T], replies: Sequence[tuple[Reply, ...]]) -> T | None:
    """Run a flow whose rounds of questions have these answers already; None if it asks for more."""
    try:
        asks = next(flow)
        for answers in replies:
            if len(asks) != len(answers):
                break
            asks = flow.send(answers)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # a flow of T returns a T
    finally:
        flow.close()
    return None


def ask_in_turn(asks: Asks, ask: Answerer) -> tuple[Reply, ...]:
    """Ask a model several questions, one after another; after a failure no further one is asked.

    All of them are parts of one summary, which fails with any of them.
    """
    replies: list[Reply] = []
    for question in asks:
        if replies and isinstance(replies[-1], Failed):
            replies.append(Failed(AnswerFailed("not asked: the question before it failed"), asked=False))
        else:
            replies.append(_ask_sync(ask, question))
    return tuple(replies)


async def ask_in_parallel(asks: Asks, ask: Answerer) -> tuple[Reply, ...]:
    """Ask a model several questions in parallel."""
    import asyncio  # slow to import; a program with an event loop has loaded it already

    tasks = [asyncio.ensure_future(_ask_async(ask, question)) for question in asks]
    try:
        return tuple(await asyncio.gather(*tasks))
    finally:  # when one is cancelled the others must not run on
        for task in tasks:
            task.cancel()


def _ask_sync(ask: Answerer, question: Ask) -> Reply:
    try:
        answer = ask(question)
    except Exception as error:  # noqa: BLE001  # any failure of a model is a value for the flow
        return _read_error(error)
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise RefoldError(ASYNCHRONOUS)
    return _read_answer(answer, question)


async def _ask_async(ask: Answerer, question: Ask) -> Reply:
    try:
        answer = ask(question)
        return _read_answer(await answer if inspect.isawaitable(answer) else answer, question)
    except Exception as error:  # noqa: BLE001  # any failure of a model is a value for the flow
        return _read_error(error)


def _read_error(error: Exception) -> Failed:
    """Return a failure whose text can be read."""
    try:
        str(error)
    except Exception:  # noqa: BLE001  # an error of somebody else's code may do anything
        error = AnswerFailed(f"{type(error).__name__}, whose text cannot be read", cause=error)
    return Failed(error)


def _read_answer(value: Any, question: Ask) -> Reply:
    """Return the value of a callable as a reply: an `Answer`, or a text with or without reasoning."""
    if question.native is not None:
        return _read_compacted(value, question.native.model)
    answer = Answer(text=value) if isinstance(value, str) else value
    if not isinstance(answer, Answer):
        return Failed(AnswerFailed(f"the model gave {type(value).__name__} where text was expected"))
    text, reasoning = answer.text, answer.reasoning
    if text is None and (answer.calls or answer.finish != "stop"):
        text = ""  # an SDK gives no text beside a tool call or a refusal, and those say more
    if not isinstance(text, str):
        return Failed(AnswerFailed(f"the model gave {type(text).__name__} where text was expected"))
    if isinstance(value, str) and len(text) <= MOST_CHARS:
        text, reasoning = split_reasoning(text)
    allowed = None if question.max_tokens is None else max(LEAST_CHARS, question.max_tokens * CHARS_PER_TOKEN)
    most = MOST_CHARS if allowed is None else min(MOST_CHARS, allowed)
    if len(text) > most:
        return Failed(AnswerFailed(f"the answer has {len(text):,} characters; at most {most:,} are read"))
    clean = replace(
        answer,
        text=clean_text(text),
        finish=_read_word(answer.finish),
        calls=_read_number(answer.calls) or 0,
        reasoning=_read_word(reasoning)[:MOST_CHARS],
        model=_read_word(answer.model),
        provider=_read_word(answer.provider),
        input_tokens=_read_number(answer.input_tokens),
        output_tokens=_read_number(answer.output_tokens),
        cache_read=_read_number(answer.cache_read) or 0,
        cache_write=_read_number(answer.cache_write) or 0,
        prefixed=answer.prefixed is True,
    )
    return answer if clean == answer else clean


def _read_compacted(value: Any, model: str) -> Reply:
    """Return the response of a provider that compacted by itself as a reply, with the cost of all passes."""
    response = read_response(value)
    items = response.message if isinstance(response.message, tuple) else (response.message,)
    if response.message is None:
        return Failed(AnswerFailed("the provider's answer holds no compaction"))
    cost = response.cost
    return Answer(
        text="",
        finish=response.raw_finish,
        model=response.model or model,
        input_tokens=None if cost is None else cost.input,
        output_tokens=None if cost is None else cost.output,
        cache_read=0 if cost is None else cost.cache_read,
        cache_write=0 if cost is None else cost.cache_write,
        native=items,
    )


def _read_word(value: Any) -> str:
    return clean_text(value) if isinstance(value, str) else ""


def _read_number(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= MAX_REPORTED_TOKENS else None


def split_reasoning(text: str) -> tuple[str, str]:
    """Split an answer from the reasoning that the model wrote before it between tags.

    >>> split_reasoning("<think>easy</think> Four.")
    ('Four.', 'easy')
    """
    reasoning = _REASONING.match(text)
    return (text[reasoning.end() :], reasoning[2]) if reasoning else (text, "")


def run_together(flows: Sequence[Flow[T]]) -> Flow[list[T]]:
    """Run several flows side by side: questions that they yield in one step are asked together."""
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
            rest = iter(answers)
            inbox = {number: tuple(islice(rest, len(asks))) for number, asks in asked.items()}
    return [results[number] for number in range(len(flows))]
