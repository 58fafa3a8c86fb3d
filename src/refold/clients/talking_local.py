"""Talking to the small model on this machine; it takes no tools, and is told of earlier calls in words."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from refold.clients.local import REPEAT_PENALTY, LocalClient
from refold.clients.local_server import SERVERS
from refold.clients.opening import opened_one
from refold.clients.talkers import HttpTalker
from refold.clients.talking import Called, Json, Piece, Reply
from refold.clients.talking_chat import COMPATIBLE
from refold.clients.talking_wires import Turn
from refold.clients.wires import Body, fields_of, list_of, text_of
from refold.errors import AnswerFailed, RefoldError

SECONDS: Final = {"total_seconds": 1_800.0, "first_seconds": 900.0, "idle_seconds": 300.0}
"""How long an answer may take: processors read tens of tokens a second where they are busy."""


def _payload(turn: Turn, model: str, without: Collection[str]) -> Body:
    plain = replace(turn, messages=[_plain(message) for message in turn.messages])
    # with a cache the next turn of a talk is not read from its beginning
    return {
        **COMPATIBLE.payload(plain, model, without),
        "repeat_penalty": REPEAT_PENALTY,
        "cache_prompt": True,
    }


def _plain(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message without calls: the model's template knows none."""
    if message.get("role") == "tool":
        return {"role": "user", "content": f"[result of a tool]\n{message.get('content')}"}
    calls = [fields_of(call.get("function")) for call in list_of(message.get("tool_calls"))]
    if not calls:
        return message
    told = [f"[called {call.get('name')} with {call.get('arguments')}]" for call in calls]
    return {"role": "assistant", "content": "\n".join(filter(None, [text_of(message.get("content")), *told]))}


WIRE: Final = replace(COMPATIBLE, payload=_payload)


class LocalTalker:
    """The model on this machine; the first turn starts its server."""

    format: str = WIRE.format
    tools: bool = False

    def __init__(self, client: LocalClient) -> None:
        self.name = client.name
        self.model = client.model
        self.window: int | None = client.window
        self._client = client
        self._talker: HttpTalker | None = None

    def __repr__(self) -> str:
        return f"<talker {self.name}>"

    def talk(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] = (),  # noqa: ARG002  # it takes none and says so
        max_tokens: int | None = None,
    ) -> Iterator[Piece | Reply]:
        """Answer; an answer ends where a small model would only repeat itself."""
        server, client = self._client.serving()
        most = min(max_tokens or self._client.max_tokens, self._client.max_tokens)
        self._talker = HttpTalker(client, WIRE, tools=False)
        try:
            yield from self._talker.talk(messages, system=system, max_tokens=most)
        except AnswerFailed:
            SERVERS.stop_if_ill(self._client.setting, server)
            raise

    def user(self, text: str) -> Json:
        """What a person says."""
        return WIRE.user(text)

    def result(self, call: Called, text: str, *, failed: bool = False) -> Json:
        """What a tool gave."""
        return WIRE.result(call, text, failed)

    def results(self, given: Sequence[tuple[Called, str, bool]]) -> tuple[Json, ...]:
        """What the tools of one answer gave."""
        return tuple(WIRE.result(*each) for each in given)

    def close(self) -> None:
        """Drop what is coming and stop the server, unless others use it."""
        if self._talker is not None:
            self._talker.close()
        self._client.close()


def open_local(address: str, options: Mapping[str, Any]) -> LocalTalker:
    """Open the talker of a model on this machine."""
    client = opened_one(address, {**SECONDS, **options})
    if not isinstance(client, LocalClient):
        raise RefoldError(f"{address} answers questions, but nobody can talk to it: choose another model")
    return LocalTalker(client)
