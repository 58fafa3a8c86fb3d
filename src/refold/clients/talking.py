"""Talking to a model, with tools and word by word: the contract that every talker serves, and how one opens.

    talker = open_talker("anthropic:claude-sonnet-4-5")         # addresses as for `open_client`
    for part in talker.talk([talker.user("Which day is it?")], system="Be short.", tools=TOOLS):
        if isinstance(part, Piece):
            print(part.text, end="")                            # at once, as the provider sends it
        else:
            reply = part                                        # a `Reply`, always the last one

Messages are those of the provider's own wire. What the model said goes back word for word (`Reply.messages`),
its calls are answered with `talker.results([(call, text, failed), ...])`. Whoever leaves the loop early, by
`close()` on the iterator or by Ctrl-C, drops the connection at once. A failure is `AnswerFailed`; its
`partial` is a `Reply` with what had come by then, or None. `refold.overflow(error)` tells a refusal for size.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some words of an answer, as they came."""

    text: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Called:
    """A tool that the model wants to use."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    """Empty where what the model wrote is no JSON object; `raw` tells what it wrote."""
    raw: str = ""
    broken: bool = False
    """Whether the arguments cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole answer."""

    messages: tuple[Json, ...]
    """What to append to the history, in the wire's own shape: one message, or several items of Responses."""
    text: str
    calls: tuple[Called, ...] = ()
    finish: str = "stop"
    """"stop", "length", "tool_calls", "refusal", "overflow", or the provider's own word."""
    reasoning: str = ""
    usage: Mapping[str, Any] | None = None
    """As the provider reports it."""
    response: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The whole response as it comes without a stream; for `session.observe`."""

    @property
    def message(self) -> Json:
        """The message to append, where the wire has one message for an answer; else the last item."""
        return self.messages[-1] if self.messages else {}


@runtime_checkable
class Talker(Protocol):
    """Somebody to talk to."""

    @property
    def name(self) -> str:
        """Its address, without secrets."""
        ...

    @property
    def model(self) -> str:
        """The model that answers."""
        ...

    @property
    def window(self) -> int | None:
        """How many tokens history and answer may have together; None where that is not known."""
        ...

    @property
    def format(self) -> str:
        """The wire of its messages: "openai", "anthropic", "gemini" or "responses"."""
        ...

    @property
    def tools(self) -> bool:
        """Whether it takes tools; where not, those given are left out."""
        ...

    def talk(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        max_tokens: int | None = None,
    ) -> Iterator[Piece | Reply]:
        """Answer; tools are neutral: `{"name", "description", "parameters": JSON schema}`."""
        ...

    def user(self, text: str) -> Json:
        """What a person says, as a message of this wire."""
        ...

    def result(self, call: Called, text: str, *, failed: bool = False) -> Json:
        """What a tool gave, as a message of this wire."""
        ...

    def results(self, given: Sequence[tuple[Called, str, bool]]) -> tuple[Json, ...]:
        """What the tools of one answer gave (call, text, failed), as messages: Gemini wants one for all."""
        ...

    def close(self) -> None:
        """Drop what runs and let go of what is held; may be called twice and from another thread."""
        ...


def open_talker(address: str, **options: Any) -> Talker:
    """Open the talker at an address.

    window          tokens that the model takes, where its name does not tell
    first_seconds   until the first word (120); `idle_seconds` between two words (60); `connect_seconds` (10);
                    `total_seconds` for a whole answer (1800)
    """
    from refold.clients.talkers import opened  # keeps the contract's page short

    return opened(address, **options)
