"""Talkers over HTTP: one turn, its words as they come, its reply last; and how an address becomes one."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from refold.clients.exchange import Exchange, respond
from refold.clients.hearing import Heard
from refold.clients.http import HttpClient
from refold.clients.opening import addresses, opened_one
from refold.clients.sse import Event
from refold.clients.streaming import Flow, Stopped
from refold.clients.talking import Called, Json, Piece, Reply, Talker
from refold.clients.talking_wires import TalkWire, Turn, partial_of, reply_of
from refold.clients.troubles import Trouble
from refold.clients.wires import Body, Request, posted
from refold.errors import AnswerFailed, RefoldError

MOST_BYTES: Final = 64 * 1024 * 1024
"""What an answer may have, framing included: a hundred thousand words, each in an event of its own."""
SECONDS: Final = {"total_seconds": 1_800.0, "first_seconds": 120.0, "idle_seconds": 60.0}
"""How long an answer may take; people see it grow and can leave it at any moment."""
STEM: Final = "call-"
_LOGGER: Final = logging.getLogger("refold")


class HttpTalker:
    """Somebody to talk to over HTTP; may be used by several threads."""

    def __init__(
        self, client: HttpClient, wire: TalkWire, *, tools: bool = True, max_tokens: int | None = None
    ) -> None:
        self.name = client.name
        self.window = client.window
        self.format = wire.format
        self.tools = tools
        self._client = client
        self._wire = wire
        self._max_tokens = max_tokens
        self._flows: set[Flow[Piece, Reply]] = set()

    @property
    def model(self) -> str:
        """The model that answers."""
        return self._client.model

    def __repr__(self) -> str:
        return f"<talker {self.name}>"

    def talk(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        max_tokens: int | None = None,
    ) -> Iterator[Piece | Reply]:
        """Answer: pieces as they come, the reply last."""
        turn = Turn(
            messages=messages,
            system=system,
            tools=tools if self.tools else (),
            max_tokens=max_tokens or self._max_tokens,
        )
        return self._talk(turn)

    def _talk(self, turn: Turn) -> Iterator[Piece | Reply]:
        heard: list[Heard] = []

        async def start(give: Callable[[Piece], None]) -> Reply:
            heard.append(Heard(give, tagged=self.format == "openai"))
            return await self._client.exchanged(lambda: self._exchange(turn, heard[-1]))

        flow: Flow[Piece, Reply] = Flow(start)
        self._flows.add(flow)
        try:
            reply = yield from flow.pieces()
        except Trouble as met:
            trouble = met
        except Stopped:
            trouble = Trouble("was left before the answer ended")
        else:
            yield reply
            return
        finally:
            self._flows.discard(flow)
        raise self._failed(trouble, heard)  # outside, so that no error of the library hangs on it

    def _exchange(self, turn: Turn, heard: Heard) -> Exchange[Reply]:
        wire = self._wire

        def gather(body: Body, event: Event, data: Body) -> bool:
            heard.hear(wire.piece(event, data))
            return wire.gather(body, event, data)

        def build(without: frozenset[str]) -> Request:
            if "tools" in without and self.tools:
                self.tools = False
                _LOGGER.warning("%s takes no tools: they are left out", self.name)
            payload = wire.payload(turn, self.model, without)
            return posted(self._client.target, wire.path, wire.headers, payload)

        target = self._client.target
        body, streamed = yield from respond(replace(wire, gather=gather), target, build, most=MOST_BYTES)
        heard.end()
        reply = reply_of(wire, wire.whole(body), f"{STEM}{len(turn.messages)}-")
        if reply is None:
            raise Trouble("gave nothing in its answer" if streamed else "answered in an unknown shape")
        if not heard.text and (reply.text or reply.reasoning):  # it came in one piece
            heard.hear(Piece(reply.text, reply.reasoning))
            heard.end()
        return reply

    def _failed(self, trouble: Trouble, heard: Sequence[Heard]) -> AnswerFailed:
        words = heard[-1] if heard else Heard(lambda _piece: None)
        words.end()
        return AnswerFailed(
            f"{self.name} {trouble.why}",
            provider=self._client.target.provider or self.name,
            cause=trouble.cause,
            partial=partial_of(self._wire, "".join(words.text), "".join(words.reasoning)),
        )

    def user(self, text: str) -> Json:
        """What a person says, as a message of this wire."""
        return self._wire.user(text)

    def result(self, call: Called, text: str, *, failed: bool = False) -> Json:
        """What a tool gave, as a message of this wire."""
        return self._wire.result(call, text, failed)

    def results(self, given: Sequence[tuple[Called, str, bool]]) -> tuple[Json, ...]:
        """What the tools of one answer gave, as messages of this wire."""
        return self._wire.merged([self._wire.result(*each) for each in given])

    def close(self) -> None:
        """Drop every answer that is still coming."""
        for flow in list(self._flows):
            flow.leave()


def opened(address: str, **options: Any) -> Talker:
    """Open the talker at an address."""
    if not isinstance(address, str) or len(addresses(address)) != 1:
        raise RefoldError(f"one talks to one model at a time: give a single address, not {address!r}")
    place = addresses(address)[0]
    scheme = place.partition(":")[0]
    if scheme == "local":
        from refold.clients.talking_local import LocalTalker, open_local

        talker: LocalTalker = open_local(place, options)
        return talker
    client = opened_one(place, {**SECONDS, **options})
    wire = _wire(scheme)
    if not isinstance(client, HttpClient) or wire is None:
        raise RefoldError(f"{place} answers questions, but nobody can talk to it: choose another model")
    return HttpTalker(client, wire)


def _wire(scheme: str) -> TalkWire | None:
    if scheme in ("openai", "http", "https"):
        from refold.clients.talking_chat import COMPATIBLE, OPENAI

        return OPENAI if scheme == "openai" else COMPATIBLE
    if scheme == "anthropic":
        from refold.clients.talking_anthropic import ANTHROPIC

        return ANTHROPIC
    if scheme == "gemini":
        from refold.clients.talking_gemini import GEMINI

        return GEMINI
    if scheme == "responses":
        from refold.clients.talking_responses import RESPONSES_TALK

        return RESPONSES_TALK
    return None
