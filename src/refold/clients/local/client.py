"""The client of a model file on this machine; starts its server when it is first asked."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Final
from weakref import WeakSet

from refold.arguments import Argument, Seconds
from refold.clients.chat import Delta, Json, Reply, RequestedCall
from refold.clients.contract import MAX_THREADS
from refold.clients.http.client import HttpClient
from refold.clients.http.deadlines import OPTIONS, Deadlines
from refold.clients.http.failures import Failure
from refold.clients.http.transport import import_library
from refold.clients.http.wire import Target, Turn, fields_of, list_of, text_of
from refold.clients.local.gguf import read_header
from refold.clients.local.model_files import model_file
from refold.clients.local.server import SERVERS, START_SECONDS, Server, ServerSettings
from refold.clients.providers.openai_chat import COMPATIBLE
from refold.core.compaction.flow import Answer, Ask
from refold.core.tokens.units import parse_tokens
from refold.errors import AnswerFailed, RefoldError, install_hint

TOTAL_SECONDS: Final = 600.0
"""For one question. Processors read tens of tokens a second if they are busy (decision 0013); too short loses
the summary after all the work was done."""
MAX_CONTEXT: Final = 32_768
"""Tokens for which memory is taken, if the model knows more. A context of 128k takes many gigabytes."""
WINDOW_SHARE: Final = 0.75
"""Share of the context that is reported as the window. Small models have small vocabularies: SmolLM2 counts
8 to 28 % more tokens in English and code than the models for which refold counts (decision 0013). A larger
share would overflow, a smaller one wastes room."""
ANSWER_SHARE: Final = 12
"""Divisor of the window that limits an answer, whatever the question allows. Small models often find
no end, and a summary that was cut off is rejected anyway: more only takes longer."""
REPEAT_PENALTY: Final = 1.1
"""Factor by which a token of the last 64 becomes less likely. Without it small models loop; with more they
lose names, which a summary has to repeat."""
_OPTIONS: Final = (*OPTIONS, "start_seconds", "window", "max_tokens", "threads", "environment")


def _ask_body(question: Ask, model: str, refused: Collection[str]) -> Json:
    body = COMPATIBLE.ask_body(question, model, refused)
    # Without a cache the same question has the same answer, whatever came before.
    return {**body, "repeat_penalty": REPEAT_PENALTY, "cache_prompt": False}


def _chat_body(turn: Turn, model: str, refused: Collection[str]) -> Json:
    plain = replace(turn, messages=[_without_calls(message) for message in turn.messages])
    # With a cache the server does not read the whole conversation again in each turn.
    return {
        **COMPATIBLE.chat_body(plain, model, refused),
        "repeat_penalty": REPEAT_PENALTY,
        "cache_prompt": True,
    }


def _without_calls(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message with its calls and results as text: the model's chat template knows no tools."""
    if message.get("role") == "tool":
        return {"role": "user", "content": f"[result of a tool]\n{message.get('content')}"}
    calls = [fields_of(call.get("function")) for call in list_of(message.get("tool_calls"))]
    if not calls:
        return message
    lines = [f"[called {call.get('name')} with {call.get('arguments')}]" for call in calls]
    return {
        "role": "assistant",
        "content": "\n".join(filter(None, [text_of(message.get("content")), *lines])),
    }


WIRE: Final = replace(COMPATIBLE, ask_body=_ask_body, chat_body=_chat_body)


class LocalClient:
    """A model on this machine: answers questions and holds conversations, without tools."""

    format: str = WIRE.format
    tools: bool = False
    has_deadline: bool = True

    def __init__(
        self,
        *,
        name: str,
        settings: ServerSettings,
        window: int,
        max_tokens: int,
        deadlines: Deadlines,
        start_seconds: float,
    ) -> None:
        self.name = name
        self.window: int | None = window
        self.max_tokens = max_tokens
        self.deadlines = deadlines
        self.settings = settings
        self._start_seconds = start_seconds
        self._connected: tuple[Server, HttpClient] | None = None
        _OPEN.add(self)

    @property
    def model(self) -> str:
        """The name of the file, without its ending."""
        return self.settings.alias

    def __repr__(self) -> str:
        return f"<client {self.name}>"

    def ask(self, question: Ask) -> Answer:
        """Ask and wait for the answer; the first question starts the server."""
        server, client = self.connect()
        try:
            return client.ask(self._limit(question))
        except AnswerFailed:
            SERVERS.stop_if_unhealthy(self.settings, server)
            raise

    async def aask(self, question: Ask) -> Answer:
        """Ask inside an event loop, which goes on while the server starts."""
        import asyncio

        server, client = await asyncio.to_thread(self.connect)
        try:
            return await client.aask(self._limit(question))
        except AnswerFailed:
            await asyncio.to_thread(SERVERS.stop_if_unhealthy, self.settings, server)
            raise

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] = (),  # noqa: ARG002  # it takes none, and `tools` says so
        max_tokens: int | None = None,
    ) -> Iterator[Delta | Reply]:
        """Stream a reply; the first turn starts the server."""
        server, client = self.connect()
        limit = min(max_tokens or self.max_tokens, self.max_tokens)
        try:
            yield from client.chat(messages, system=system, max_tokens=limit)
        except AnswerFailed:
            SERVERS.stop_if_unhealthy(self.settings, server)
            raise

    def user(self, text: str) -> Json:
        """Make a user message."""
        return WIRE.user(text)

    def result(self, call: RequestedCall, text: str, *, failed: bool = False) -> Json:
        """Make the message that answers one tool call."""
        return WIRE.result(call, text, failed)

    def results(self, outcomes: Sequence[tuple[RequestedCall, str, bool]]) -> tuple[Json, ...]:
        """Make the messages that answer all calls of a reply."""
        return tuple(WIRE.result(*outcome) for outcome in outcomes)

    def close(self) -> None:
        """Drop running replies, and stop the server unless other clients use it."""
        if self._connected is not None:
            self._connected[1].close()
        _OPEN.discard(self)
        if all(other.settings != self.settings for other in _OPEN):
            SERVERS.stop(self.settings)

    def connect(self) -> tuple[Server, HttpClient]:
        """Return the running server, started if there is none, and the HTTP client that asks it."""
        try:
            server = SERVERS.get(self.settings, self._start_seconds)
        except Failure as failure:
            failure.redact("")
            error = AnswerFailed(f"{self.name} {failure.reason}", provider=self.name, cause=failure.cause)
        else:
            connected = self._connected
            if connected is None or connected[0] is not server:
                client = HttpClient(
                    name=self.name,
                    wire=WIRE,
                    target=Target(base=f"{server.url}/v1", model=self.model, key=server.key),
                    deadlines=self.deadlines,
                    window=self.window,
                    tools=False,
                )
                connected = self._connected = (server, client)
            return connected
        raise error  # outside of `except`, so that no inner error hangs on it

    def _limit(self, question: Ask | str) -> Ask:
        """Return the question with a limit on its answer, without the prefix, which only providers cache."""
        asked = question if isinstance(question, Ask) else Ask(question)
        limit = min(asked.max_tokens or self.max_tokens, self.max_tokens)
        return Ask(asked.text, system=asked.system, max_tokens=limit, purpose=asked.purpose)


_OPEN: Final[WeakSet[LocalClient]] = WeakSet()
"""Clients that may still ask. Weak, so that a client that nobody closed does not keep its server alive."""


def open_client(rest: str = "", **options: Any) -> LocalClient:
    """Open the client of a GGUF file, of `REFOLD_LOCAL_MODEL`, or of the model that was fetched.

    window          tokens of a question with its answer; three quarters of what the model knows
    max_tokens      tokens of an answer at most; a twelfth of the window
    threads         processors to use; all, or half where the machine is overloaded
    start_seconds   how long loading the model may take (120)
    """
    name = f"local:{rest}" if rest else "local"
    for option in options:
        if option not in _OPTIONS:
            raise RefoldError(f"{name} has no option {option!r}; it has {', '.join(_OPTIONS)}")
    import_library(name)
    if find_spec("xllamacpp") is None:
        raise RefoldError(f"{name} needs xllamacpp: {install_hint('local')}")
    path = model_file(rest, options.get("environment") or os.environ)
    context, window = _sizes(read_header(path).context, options.get("window"), name)
    threads = _check_count("threads", options.get("threads"), MAX_THREADS, name)
    seconds = {option: options[option] for option in OPTIONS if options.get(option) is not None}
    start = options.get("start_seconds")
    return LocalClient(
        name=name,
        settings=ServerSettings(model=path, context=context, threads=threads),
        window=window,
        max_tokens=_check_count("max_tokens", options.get("max_tokens"), window, name)
        or window // ANSWER_SHARE,
        deadlines=Deadlines.of({"total_seconds": TOTAL_SECONDS, **seconds}),
        start_seconds=START_SECONDS
        if start is None
        else Argument("start_seconds", Seconds, None).check(start),
    )


def _sizes(trained: int, option: Any, name: str) -> tuple[int, int]:
    """Return the context that memory is taken for, and the window that is reported."""
    if option is None:
        context = min(trained, MAX_CONTEXT)
        return context, int(context * WINDOW_SHARE)
    window = parse_tokens(option)
    if not 0 < window <= trained:
        raise RefoldError(f"{name} knows {trained:,} tokens: window={window:,} is not among them")
    return min(trained, int(window / WINDOW_SHARE) + 1), window


def _check_count(option: str, value: Any, most: int, name: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
        raise RefoldError(f"{name} takes {option} from 1 to {most:,}, not {value!r}")
    return value
