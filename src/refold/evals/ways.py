"""The ways to make a history fit that are measured side by side: policies, plain ways, other systems.

A way gets messages in OpenAI chat shape, the tokens that its view may have and who answers, and gives the
view. Budget and summariser are the same for all; what a way does with them is its own affair.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from refold.calls.compact import compact
from refold.core.compaction.policy import Policy
from refold.core.tokens.estimate import estimate
from refold.evals.peers import Peer, PeerFailed, PeerLate
from refold.policies import presets
from refold.stages.clamp import Clamp
from refold.stages.slide import Slide

Wire: TypeAlias = list[dict[str, Any]]
Asker: TypeAlias = Callable[[Any], Any] | None
"""Who answers, from an `Ask` to an answer; None where no model is asked."""
Fold: TypeAlias = Callable[[Wire, int, Asker], Wire]

TAIL, WINDOW = "tail", "sliding window"
ROOMY: Final = 2
"""The window, in sizes of the history: what decides is the budget, never the window."""
MOST_LATE: Final = 2
"""Folds in a row that may end late; then a way is given up, and its other folds fail unmeasured."""
_MARKS: Final = frozenset({"role", "type", "id", "tool_use_id", "tool_call_id", "signature", "data"})


Told: TypeAlias = Callable[[str, int, int], None]
"""Hears how far the work is: what is done, how much of it, how much there is."""


@dataclass(frozen=True, slots=True)
class Way:
    """A name, and what it does to a history."""

    name: str
    made: Fold

    def fold(self, messages: Wire, budget: int, ask: Asker = None) -> Wire:
        """The view of these messages within a budget."""
        return self.made(messages, budget, ask)


@dataclass(frozen=True, slots=True)
class Trial:
    """One fold: its view, or why there is none, and how often the summariser was asked."""

    view: Wire | None
    asks: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Contest:
    """Who is measured, with whose answers, and who hears how far it is."""

    ways: Sequence[Way]
    ask: Asker
    told: Told
    late: dict[str, int] = field(default_factory=dict)
    """How many folds in a row ended late, by the name of a way."""

    def begin(self) -> None:
        """Begin another measure: whoever was given up gets another chance."""
        self.late.clear()

    def trial(self, way: Way, messages: Wire, budget: int) -> Trial:
        """One fold under one way; where another system fails, the others go on."""
        if self.late.get(way.name, 0) >= MOST_LATE:
            return Trial(None, why=f"given up after {MOST_LATE} folds that ended late")
        counted = None if self.ask is None else Counted(self.ask)
        try:
            view = way.fold(messages, budget, counted)
        except PeerFailed as failed:
            late = self.late.get(way.name, 0) + 1 if isinstance(failed, PeerLate) else 0
            self.late[way.name] = late
            return Trial(None, counted.asks if counted else 0, str(failed))
        self.late[way.name] = 0
        return Trial(view, counted.asks if counted else 0)


@dataclass(slots=True)
class Counted:
    """Who answers, and how often it was asked."""

    ask: Callable[[Any], Any]
    asks: int = 0

    @property
    def window(self) -> int | None:
        """How many tokens it takes, where that is known."""
        return getattr(self.ask, "window", None)

    @property
    def model(self) -> str:
        """The model that is asked, where it has a name."""
        return str(getattr(self.ask, "model", ""))

    @property
    def name(self) -> str:
        """Who it is, where it has a name."""
        return str(getattr(self.ask, "name", ""))

    def __call__(self, question: Any) -> Any:
        """Ask once."""
        self.asks += 1
        return self.ask(question)


def texts(value: Any) -> Iterator[str]:
    """Every string that a model would read in a message or a list of them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _MARKS:
                yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def tokens(messages: Sequence[Any]) -> int:
    """Tokens of a history, by the same estimate for everybody."""
    return sum(estimate("\n".join(texts(message))) + 4 for message in messages)


def head_of(history: Wire) -> int:
    """How many messages are in every view: the system prompt and the first request."""
    for index, message in enumerate(history):
        if message["role"] == "user":
            return index + 1
    return 0


def by_policy(policy: Policy) -> Fold:
    """What one of our policies makes of it."""

    def fold(history: Wire, budget: int, ask: Asker) -> Wire:
        window = max(8_000, tokens(history) * ROOMY)
        done = compact(
            history, ask=ask, policy=policy, window=window, target=budget, force=True, must_fit=False
        )
        return list(done.messages)

    return fold


def by_tail(history: Wire, budget: int, _ask: Asker) -> Wire:
    """The head, and as much of the end as fits."""
    head = head_of(history)
    left = budget - tokens(history[:head])
    kept: Wire = []
    for message in reversed(history[head:]):
        left -= tokens([message])
        if left < 0:
            whole = "\n".join(texts(message))
            share = max(0, len(whole) + left * len(whole) // max(1, tokens([message])))
            kept.append({"role": "user", "content": whole[len(whole) - share :]})
            break
        kept.append(message)
    return [*history[:head], *reversed(kept)]


def _window() -> Policy:
    """A sliding window: the oldest leave, a marker says so."""
    return replace(
        presets.get("refold"),
        stages=(Slide(fraction=None, keep_first=0, least=1, role="user"), Clamp()),
        guards=frozenset({"system", "pins", "last user", "first user", "open calls"}),
    )


def open_ways(policies: Sequence[str], peers: Sequence[Peer] = ()) -> list[Way]:
    """The policies of these names, the two plain ways, and other systems."""
    names = list(presets.PRESETS) if "all" in policies else list(dict.fromkeys(policies)) or ["refold"]
    ways = [Way(name, by_policy(presets.get(name))) for name in names]
    ways += [Way(TAIL, by_tail), Way(WINDOW, by_policy(_window()))]
    return [*ways, *(Way(peer.name, peer.fold) for peer in peers)]
