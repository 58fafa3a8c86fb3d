"""The history of one request on its way: what is sent in its place, and what the caller is told of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from refold.core.messages.quick_init import quick_init
from refold.gateway.history.known_conversations import Conversation, Plan
from refold.gateway.history.split import Part, SplitBody, Written, write_message

if TYPE_CHECKING:
    import asyncio

    from refold.session.state.accounting import SentRequest

FOLD_HEADER: Final = "x-refold-fold"
TOKENS_HEADER: Final = "x-refold-tokens"
SESSION_HEADER: Final = "x-refold-session"


@dataclass(frozen=True, slots=True)
class View:
    """What a session wants to be sent."""

    messages: Sequence[Any]
    origins: Sequence[int | None]
    """For each message its place in the caller's list; None where a fold made or changed it."""
    tokens: tuple[int, int]
    """Tokens of the whole request, as it came and as it goes on."""
    fold: str
    """What the caller is told, if a fold stands in it."""
    tip: str
    """Name of the last message."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What became of the history of a request."""

    fold: str
    """none, ready, made, failed or bypassed, with the reason behind a semicolon."""
    body: bytes | None = None
    """The body with the folded history; None: the caller's own goes on."""
    tokens: tuple[int, int] | None = None
    """The size of the history with system prompt and tools: as it came, and as it goes on."""
    room: int = 0
    """Tokens that fit."""
    model: str = ""
    conversation: Conversation | None = None
    """The conversation that it belongs to; None if no session was made for it."""
    named: str = ""
    """The session that the caller named for a request that no session takes in."""
    split: SplitBody | None = None
    number: int = 0
    """Number of the request in its conversation: the places of its messages hold until the next one."""
    tip: str = ""
    """Name of its last message."""
    request: "SentRequest | None" = None
    """The request as its session counted it: answers may come in another order than requests."""
    late: "asyncio.Future[Turn] | None" = None
    """What was not ready in time: if the request is refused for its size, it is sent in its place."""
    undo: Callable[[], None] | None = None
    """Takes back the fold of a refusal that may mean anything, if a smaller request is refused, too."""

    @property
    def sent(self) -> int:
        """Its tokens as it goes on; 0 if they are not known."""
        return self.tokens[1] if self.tokens else 0

    @property
    def headers(self) -> dict[str, str]:
        """The headers that tell the caller of it."""
        headers = {FOLD_HEADER: self.fold}
        if self.tokens is not None:
            headers[TOKENS_HEADER] = f"{self.tokens[0]};{self.tokens[1]}"
        if self.conversation is not None:
            # a session of the library may have any name; a header takes few characters
            headers[SESSION_HEADER] = quote(self.conversation.name, safe=":")
        elif self.named:
            headers[SESSION_HEADER] = self.named
        return headers


def plan_view(view: View, written: Written) -> tuple[tuple[Part, ...], Written]:
    """Return how a view is written: by the caller's own bytes wherever a message is the caller's own.

    written   what was written for the view before; a session gives the same objects while nothing changed
    """
    plan: list[Part] = []
    now: Written = {}
    for message, place in zip(view.messages, view.origins, strict=True):
        if place is not None:
            plan.append(place)
            continue
        known = written.get(id(message)) or (message, write_message(message))
        now[id(message)] = known
        plan.append(known[1])
    return tuple(plan), now


def is_unchanged(plan: Sequence[Part], count: int) -> bool:
    """True if a view is the caller's own list of that length."""
    return len(plan) == count and all(part == place for place, part in enumerate(plan))


def write_turn(conversation: Conversation, split: SplitBody, view: View, *, has_folds: bool) -> Turn:
    """Return the turn for a view; where no fold shortens it, the caller's own bytes go on."""
    parts, conversation.written = plan_view(view, conversation.written) if has_folds else ((), {})
    is_folded = has_folds and not is_unchanged(parts, len(split.items))
    used = view.tokens[1]
    conversation.plan = Plan(parts, len(split.items), view.tip) if is_folded else None
    return Turn(
        fold=view.fold if is_folded else "none",
        body=split.write(parts) if is_folded else None,
        tokens=view.tokens if is_folded else (used, used),
        model=split.model,
        conversation=conversation,
        split=split,
        number=conversation.requests,
        tip=view.tip,
    )
