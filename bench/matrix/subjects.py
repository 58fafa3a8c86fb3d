"""What a case is given: one subject to fold with, and the ways in which a case can end."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.matrix.scripts import Script
from bench.peering import Peer

from refold.tokenizers import exact

Messages = list[dict[str, Any]]

BUDGET = 4_000
"""Tokens a view may have in most cases."""
WINDOW = 32_000
"""Tokens the summariser takes in most cases: more than a conversation has."""
MOST = 200
"""Calls of the model in one fold after which the subject is ended: it would go on."""
LOOP = 50
"""Calls of the model in one case from which on an error at the end is no excuse."""


class Stopped(Exception):
    """The subject raised an error."""


class NotApplicable(Exception):
    """The subject has no such feature, or does not claim what the case asks."""


class Unfolded(Exception):
    """The subject gave back what it was given: no damage, but nothing is smaller either."""


@dataclass
class Subject:
    """A peer in one of its ways, or one of our policies."""

    peer: Peer
    calls: int = 0
    """How often the model was asked since the case began."""
    requests: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As the table's column says it."""
        return self.peer.name

    @property
    def asks(self) -> bool:
        """Whether it ever asks a model."""
        return self.peer.way in self.peer.pin.asks

    @property
    def ours(self) -> bool:
        """Whether it is a policy of this project."""
        return self.peer.pin.name == "refold"

    def needs_model(self) -> None:
        """Leave a case that is about the summariser where none is asked."""
        if not self.asks:
            raise NotApplicable("asks no model")

    def keeps(self, view: Messages, what: str, *parts: str) -> str:
        """Whether these words are in a view that was folded; a window that drops what is old is not asked."""
        if all(part in words(view) for part in parts):
            return "" if self.peer.way in self.peer.pin.no_budget else self.within(view)
        return self.gone(what)

    def gone(self, what: str) -> str:
        """Something old is not in the view: how it broke; for a window it is what was asked of it."""
        if self.peer.way in self.peer.pin.drops:
            raise NotApplicable(f"drops what is old, as documented: {what} is gone")
        return f"{what} is gone"

    def fold(
        self, messages: Messages, *, model: Script | None = None, budget: int = BUDGET, window: int = WINDOW
    ) -> Messages:
        """What the subject makes of a conversation at once."""
        return self._view("fold", messages, model, budget, window)

    def start(self) -> None:
        """Begin a conversation that goes on."""
        self.peer.call("start")

    def turn(
        self, messages: Messages, *, model: Script | None = None, budget: int = BUDGET, window: int = WINDOW
    ) -> Messages:
        """What the subject sends after these were said."""
        return self._view("turn", messages, model, budget, window)

    def kept(self) -> str:
        """What can still be fetched back, as one text."""
        reply = self.peer.call("kept")
        if reply.get("offered") is False:
            raise NotApplicable("a function: the caller keeps the list")
        return str(reply.get("text", ""))

    def within(self, view: Messages, budget: int = BUDGET) -> str:
        """How much a view has over its budget, by the kinder of two counts; "" for at most a tenth."""
        tokens = min(size(view), exactly(view))
        return self._over(f"{tokens:,} tokens for a budget of {budget:,}") if tokens > budget * 1.1 else ""

    def counted(self, view: Messages, budget: int = BUDGET) -> str:
        """The same by an exact count alone."""
        tokens = exactly(view)
        over = f"{tokens:,} tokens (o200k) for a budget of {budget:,}"
        return self._over(over) if tokens > budget * 1.1 else ""

    def _over(self, how: str) -> str:
        if self.peer.way in self.peer.pin.no_budget:
            raise NotApplicable(f"promises no number of tokens: {how}")
        return how

    def _view(
        self, what: str, messages: Messages, model: Script | None, budget: int, window: int
    ) -> Messages:
        script = model or Script()
        reply = self.peer.call(
            what, model=script, messages=messages, budget=budget, window=window, seconds=300, most=MOST
        )
        self.calls += len(self.peer.asked)
        self.requests += self.peer.asked
        if "error" in reply:
            raise Stopped(str(reply["error"]).splitlines()[0][:120])
        view: Messages = reply["messages"]
        return view


@dataclass(frozen=True)
class Case:
    """One row of the matrix."""

    name: str
    title: str
    must: str
    """What must happen, and so how it is judged."""
    issues: Sequence[str]
    """Where it happened: owner/repository#number."""
    run: Callable[[Subject], str]
    """Gives "" where the subject survives, else how it broke."""


CASES: list[Case] = []


def case(
    name: str, title: str, must: str, *issues: str
) -> Callable[[Callable[[Subject], str]], Callable[[Subject], str]]:
    """Register a function as a case."""

    def registered(run: Callable[[Subject], str]) -> Callable[[Subject], str]:
        CASES.append(Case(name, title, must, issues, run))
        return run

    return registered


def judged(this: Case, subject: Subject) -> dict[str, Any]:
    """Run one case against one subject: verdict, how, and the calls of the model."""
    subject.calls, subject.requests = 0, []
    try:
        how = this.run(subject)
        verdict = "breaks" if how else "survives"
    except NotApplicable as why:
        verdict, how = "n/a", str(why)
    except Unfolded:
        verdict, how = "stops", "the conversation is passed on as it came, unfolded"
    except Stopped as error:
        verdict, how = "stops", str(error)
        if subject.calls > LOOP:
            verdict, how = "breaks", f"a loop, {subject.calls:,} calls: {error}"
    return {"verdict": verdict, "how": how, "calls": subject.calls}


def size(messages: Any) -> int:
    """Four characters a token, over everything that is sent: what most peers count with."""
    return sum(len(_text(message)) // 4 for message in messages)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    for call in message.get("tool_calls", ()):
        text += call["function"]["name"] + call["function"]["arguments"]
    return text


def exactly(messages: Any) -> int:
    """Tokens by the o200k vocabulary."""
    return exact.make_counter("o200k")(words(messages))


def words(messages: Any) -> str:
    """Everything that is said in a view, as one text."""
    return "\n".join(_text(message) for message in messages)
