"""The client of a real small model on this machine: `local` or `local:model.gguf`; offline, on demand.

    python -m refold.clients.local fetch        once: the weights of the smallest model, 94 MB

A llama.cpp server runs in a process of its own, behind a free port of this machine and a key that nobody else
has; it is asked as any server that speaks OpenAI chat. Nothing is downloaded by asking.
"""

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Final
from weakref import WeakSet

from refold.clients.chat import COMPATIBLE
from refold.clients.deadlines import Deadlines
from refold.clients.gguf import read_header
from refold.clients.http import HttpClient, library
from refold.clients.local_server import SERVERS, START_SECONDS, Server, Setting
from refold.clients.troubles import Trouble
from refold.clients.weights import main, model_file
from refold.clients.wires import Body, Target
from refold.core.compaction.flow import Answer, Ask
from refold.core.tokens.units import tokens
from refold.errors import AnswerFailed, RefoldError

TOTAL_SECONDS: Final = 600.0
"""For a question, where nothing else is said: processors read tens of tokens a second where they are busy."""
MOST_CONTEXT: Final = 32_768
"""Tokens for which memory is taken, where the model knows more; a context of 128k takes many gigabytes."""
TOLD_SHARE: Final = 0.75
"""Share of the context that is told as the window. Small models have small vocabularies: SmolLM2 counts
8 to 28 % more tokens in English and code than the models for which refold counts."""
ANSWER_SHARE: Final = 12
"""One part in so many of the window is what an answer may have, whatever the question allows: small models
often find no end, and a summary that was cut off is not let in anyway. More only takes longer."""
REPEAT_PENALTY: Final = 1.1
"""How much less likely a word of the last 64 becomes; without, small models loop. More loses names."""
MOST_THREADS: Final = 1_024
_SECONDS: Final = ("total_seconds", "connect_seconds", "first_seconds", "idle_seconds")
_OPTIONS: Final = (*_SECONDS, "start_seconds", "window", "max_tokens", "threads", "environment")


def _payload(question: Ask, model: str, without: Collection[str]) -> Body:
    payload = COMPATIBLE.payload(question, model, without)
    # without a cache the same question has the same answer, whatever came before
    return {**payload, "repeat_penalty": REPEAT_PENALTY, "cache_prompt": False}


WIRE: Final = replace(COMPATIBLE, payload=_payload)


class LocalClient:
    """A model on this machine."""

    def __init__(
        self,
        *,
        name: str,
        setting: Setting,
        window: int,
        max_tokens: int,
        deadlines: Deadlines,
        start_seconds: float,
    ) -> None:
        self.name = name
        self.window = window
        self.max_tokens = max_tokens
        self.deadlines = deadlines
        self.setting = setting
        self._start_seconds = start_seconds
        self._asked: tuple[Server, HttpClient] | None = None
        _OPEN.add(self)

    @property
    def model(self) -> str:
        """The name of the file, without its ending."""
        return self.setting.alias

    def __repr__(self) -> str:
        return f"<client {self.name}>"

    def ask(self, question: Ask) -> Answer:
        """Ask and wait for the answer; the first question starts the server."""
        server, client = self.serving()
        try:
            return client.ask(self._bounded(question))
        except AnswerFailed:
            SERVERS.stop_if_ill(self.setting, server)
            raise

    async def aask(self, question: Ask) -> Answer:
        """Ask inside an event loop, which does not wait while the server starts."""
        import asyncio

        server, client = await asyncio.to_thread(self.serving)
        try:
            return await client.aask(self._bounded(question))
        except AnswerFailed:
            await asyncio.to_thread(SERVERS.stop_if_ill, self.setting, server)
            raise

    def close(self) -> None:
        """Stop the server, unless others use it."""
        _OPEN.discard(self)
        if all(other.setting != self.setting for other in _OPEN):
            SERVERS.stop(self.setting)

    def _bounded(self, question: Ask | str) -> Ask:
        """The question, with an end to its answer."""
        asked = question if isinstance(question, Ask) else Ask(question)
        most = min(asked.max_tokens or self.max_tokens, self.max_tokens)
        return Ask(asked.text, system=asked.system, max_tokens=most, purpose=asked.purpose)

    def serving(self) -> tuple[Server, HttpClient]:
        """The server as it runs now, and who asks it."""
        try:
            server = SERVERS.serving(self.setting, self._start_seconds)
        except Trouble as trouble:
            trouble.clean("")
            failed = AnswerFailed(f"{self.name} {trouble.why}", provider=self.name, cause=trouble.cause)
        else:
            asked = self._asked
            if asked is None or asked[0] is not server:
                asked = self._asked = (server, self._client(server))
            return asked
        raise failed

    def _client(self, server: Server) -> HttpClient:
        target = Target(base=f"{server.url}/v1", model=self.model, key=server.key)
        return HttpClient(
            name=self.name, wire=WIRE, target=target, deadlines=self.deadlines, window=self.window
        )


_OPEN: Final[WeakSet[LocalClient]] = WeakSet()
"""Clients that may still ask; whoever is forgotten without a farewell leaves by itself."""


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
    library(name)
    if find_spec("xllamacpp") is None:
        raise RefoldError(f"{name} needs xllamacpp: pip install 'refold[local]'")
    path = model_file(rest, options.get("environment") or os.environ)
    context, window = _sizes(read_header(path).context, options.get("window"), name)
    threads = _whole("threads", options.get("threads"), MOST_THREADS, name)
    return LocalClient(
        name=name,
        setting=Setting(model=path, context=context, threads=threads),
        window=window,
        max_tokens=_whole("max_tokens", options.get("max_tokens"), window, name) or window // ANSWER_SHARE,
        deadlines=_deadlines(options),
        start_seconds=_start(options),
    )


def _sizes(known: int, wished: Any, name: str) -> tuple[int, int]:
    """The context that memory is taken for, and the window that is told."""
    if wished is None:
        context = min(known, MOST_CONTEXT)
        return context, int(context * TOLD_SHARE)
    window = tokens(wished)
    if not 0 < window <= known:
        raise RefoldError(f"{name} knows {known:,} tokens: window={window:,} is not among them")
    return min(known, int(window / TOLD_SHARE) + 1), window


def _whole(option: str, wished: Any, most: int, name: str) -> int | None:
    if wished is None:
        return None
    if not isinstance(wished, int) or isinstance(wished, bool) or not 0 < wished <= most:
        raise RefoldError(f"{name} takes {option} from 1 to {most:,}, not {wished!r}")
    return wished


def _deadlines(options: Mapping[str, Any]) -> Deadlines:
    given = {name: options[name] for name in _SECONDS if options.get(name) is not None}
    return Deadlines.of({"total_seconds": TOTAL_SECONDS, **given})


def _start(options: Mapping[str, Any]) -> float:
    given = options.get("start_seconds")
    return START_SECONDS if given is None else Deadlines.of({"total_seconds": given}).total


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
