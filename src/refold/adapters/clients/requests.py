"""Requests of the `openai` and `anthropic` clients: where the history stands in them, and their answers."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from refold.adapters.watched_streams import IsHidden, is_usage_chunk
from refold.session.turns import View

_RAW: Final = "X-Stainless-Raw-Response"
"""The header by which both clients ask themselves for a raw response."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where the history stands in the requests of one path."""

    history: str
    system: str = ""
    reports_usage: bool = True
    """False if the usage of a stream must be asked for."""


DOORS: Final = {
    "/chat/completions": Door("messages", reports_usage=False),
    "/responses": Door("input", "instructions"),
    "/v1/messages": Door("messages", "system"),
}


def is_at_provider(body: Mapping[str, Any]) -> bool:
    """True if a part of the history is at the provider; the request that starts a thread has all of it."""
    thread = body.get("thread")
    continues = isinstance(thread, Mapping) and thread.get("type") == "continue"
    return continues or any(body.get(name) for name in ("previous_response_id", "conversation"))


def join_extra_body(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of `post` with what the caller gave as `extra_body` in the body, as it is sent."""
    options, body = arguments.get("options") or {}, arguments.get("body")
    extra = options.get("extra_json")
    if not extra or not isinstance(body, Mapping):
        return arguments
    joined = {name: value for name, value in {**body, **extra}.items() if type(value).__name__ != "Omit"}
    others = {name: value for name, value in options.items() if name != "extra_json"}
    return {**arguments, "body": joined, "options": others}


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """One request of a client."""

    arguments: dict[str, Any]
    """The arguments of `post` beside the path."""
    field: str
    """The name of the history in the body."""
    items: list[Any]
    beside: dict[str, Any]
    """System prompt and tools, as `prepare` takes them."""
    hides_usage: bool
    """True if the chunk with the usage was asked for by us, so that it is not shown."""

    @classmethod
    def of(cls, door: Door, sent: Mapping[str, Any], arguments: dict[str, Any]) -> "ClientRequest":
        """Read a request; a history that is no list is made one, since it is read twice."""
        body = {**sent}
        history, tools = body[door.history], body.get("tools") or None
        items = history
        if isinstance(history, str):
            items = [{"role": "user", "content": history}]
        elif not isinstance(history, list):
            items = body[door.history] = list(history)
        if tools is not None and not isinstance(tools, list):
            tools = body["tools"] = list(tools)
        options = body.get("stream_options") or {}
        adds_usage = arguments.get("stream") and not door.reports_usage and "include_usage" not in options
        asked = body.get("usage")  # as OpenRouter has it
        hides_usage = bool(adds_usage and not (isinstance(asked, Mapping) and asked.get("include")))
        if adds_usage:
            body["stream_options"] = {**options, "include_usage": True}
        beside = {"system": body.get(door.system) or None, "tools": tools}
        arguments = {**arguments, "body": body, "options": _keep_unread(arguments.get("options") or {})}
        return cls(arguments, door.history, items, beside, hides_usage)

    @property
    def is_streamed(self) -> bool:
        """True if the answer comes as events."""
        return bool(self.arguments.get("stream"))

    @property
    def is_hidden(self) -> IsHidden | None:
        """What the caller is not shown of a stream."""
        return is_usage_chunk if self.hides_usage else None

    @property
    def raw(self) -> str:
        """How a raw response is asked for; "stream" if its body is not read yet, "" if none is asked for."""
        return _read_raw(self.arguments["options"])

    def with_view(self, view: View) -> dict[str, Any]:
        """Return the arguments with a view as the history."""
        if view.messages is self.items:
            return self.arguments  # also a text as it was given
        return {**self.arguments, "body": {**self.arguments["body"], self.field: view.messages}}


@dataclass(frozen=True, slots=True)
class Unread:
    """An answer that the client could not parse for its caller, such as JSON that was cut off."""

    answer: Any
    error: Exception


def _keep_unread(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a request with a parser that returns `Unread` where the client's own raises."""
    parse: Callable[[Any], Any] | None = options.get("post_parser")
    if parse is None or _read_raw(options) not in ("", "stream"):  # then the caller parses a counted answer
        return options

    def parse_or_keep(answer: Any) -> Any:
        try:
            return parse(answer)
        except Exception as error:  # noqa: BLE001  # `give_back` raises it
            return Unread(answer, error)

    return {**options, "post_parser": parse_or_keep}


def _read_raw(options: Mapping[str, Any]) -> str:
    return str((options.get("headers") or {}).get(_RAW) or "")


def read_answer(response: Any) -> Any:
    """Return what is observed of a response."""
    if isinstance(response, Unread):
        return response.answer
    body = getattr(response, "http_response", None)
    if body is None:
        return response
    with suppress(ValueError):  # a body that is no JSON has no usage
        return body.json()
    return None


def give_back(response: Any) -> Any:
    """Return a response to the client; raises the client's error for an answer that it could not parse."""
    if isinstance(response, Unread):
        raise response.error
    return response
