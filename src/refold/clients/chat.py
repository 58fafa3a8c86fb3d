"""Conversations with a model, with tools and streamed: the contract of a chat client, and how to open one.

    client = open_chat_client("anthropic:claude-sonnet-4-6")    # addresses as for `open_client`
    for part in client.chat([client.user("Which day is it?")], system="Be short.", tools=TOOLS):
        if isinstance(part, Delta):
            print(part.text, end="")                            # at once, as the provider sends it
        else:
            reply = part                                        # a `Reply`, always the last one

Messages have the shape of the provider's own wire. Append `Reply.messages` to the history unchanged, and
answer its calls with `client.results([(call, text, failed), ...])`. To leave the loop early, close the
iterator or press Ctrl-C: the connection is dropped at once. A failure raises `AnswerFailed`; its `partial` is
a `Reply` with the text so far, or None. `refold.overflow(error)` tells if the request was too large.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from refold.clients.addresses import open_one, split_addresses
from refold.errors import RefoldError

Json: TypeAlias = dict[str, Any]

_SECONDS: Final = {"total_seconds": 1_800.0, "first_seconds": 120.0, "idle_seconds": 60.0}
"""Deadlines of one reply. They are far longer than those of a summary: a person sees the reply grow and can
stop it at any moment, so that too long costs little."""
_LOCAL_SECONDS: Final = {**_SECONDS, "first_seconds": 900.0, "idle_seconds": 300.0}
"""A busy processor reads tens of tokens a second: a window of 6,000 tokens may take minutes to be read."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Some text of a reply, as it arrives."""

    text: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A tool call that the model requests."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    """Empty if the model wrote no JSON object; `raw` has what it wrote."""
    raw: str = ""
    broken: bool = False
    """True if the arguments cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole reply."""

    messages: tuple[Json, ...]
    """Append these to the history. They have the wire's shape: one message, or several items of Responses."""
    text: str
    calls: tuple[RequestedCall, ...] = ()
    finish: str = "stop"
    """"stop", "length", "tool_calls", "refusal", "overflow", or the provider's own word."""
    reasoning: str = ""
    usage: Mapping[str, Any] | None = None
    """The usage as the provider reports it."""
    response: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The response as it would come without streaming; pass it to `session.observe`."""

    @property
    def message(self) -> Json:
        """The message to append, if the wire has one message per reply; else the last item."""
        return self.messages[-1] if self.messages else {}


@runtime_checkable
class ChatClient(Protocol):
    """A model that holds a conversation."""

    @property
    def name(self) -> str:
        """The address, without secrets."""

    @property
    def model(self) -> str:
        """The name of the model."""

    @property
    def window(self) -> int | None:
        """Tokens that history and reply may have together; None if unknown."""

    @property
    def format(self) -> str:
        """The wire of its messages: "openai", "anthropic", "gemini" or "responses"."""

    @property
    def tools(self) -> bool:
        """True if the model takes tools; if not, tools are left out of the request."""

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        max_tokens: int | None = None,
    ) -> Iterator[Delta | Reply]:
        """Stream a reply; tools are neutral: `{"name", "description", "parameters": JSON schema}`."""

    def user(self, text: str) -> Json:
        """Make a user message of this wire."""

    def result(self, call: RequestedCall, text: str, *, failed: bool = False) -> Json:
        """Make the message that answers one tool call."""

    def results(self, outcomes: Sequence[tuple[RequestedCall, str, bool]]) -> tuple[Json, ...]:
        """Make the messages that answer all calls of a reply (call, text, failed); Gemini wants one."""

    def close(self) -> None:
        """Drop running replies and release resources; may be called twice and from another thread."""


def open_chat_client(address: str, **options: Any) -> ChatClient:
    """Open the chat client at an address.

    window          tokens that the model takes, if its name does not say
    first_seconds   until the first word (120); `idle_seconds` between two words (60); `connect_seconds` (10);
                    `total_seconds` for a whole reply (1800)
    """
    places = split_addresses(address) if isinstance(address, str) else []
    if len(places) != 1:
        raise RefoldError(f"one talks to one model at a time: give a single address, not {address!r}")
    seconds = _LOCAL_SECONDS if places[0].partition(":")[0] == "local" else _SECONDS
    client = open_one(places[0], {**seconds, **options})
    if not isinstance(client, ChatClient):
        raise RefoldError(f"{places[0]} answers questions, but nobody can talk to it: choose another model")
    return client
