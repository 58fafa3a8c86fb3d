"""The methods that evals compare: our policies, two plain baselines, and other systems.

A method takes messages in OpenAI chat shape, a token budget and a summariser, and returns the view. Budget
and summariser are the same for all methods.
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
AskFunction: TypeAlias = Callable[[Any], Any] | None
"""The summariser: from an `Ask` to an answer; None if no model is asked."""
Fold: TypeAlias = Callable[[Wire, int, AskFunction], Wire]

TAIL, WINDOW = "tail", "sliding window"
ROOMY: Final = 2
"""Window size as a multiple of the history, so that the budget decides and never the window."""
MOST_LATE: Final = 2
"""Late folds in a row after which a method is given up; its other folds count as failed."""
_MARKS: Final = frozenset({"role", "type", "id", "tool_use_id", "tool_call_id", "signature", "data"})


Progress: TypeAlias = Callable[[str, int, int], None]
"""A progress callback: the work, how much is done, how much there is."""


@dataclass(frozen=True, slots=True)
class Method:
    """A named method to make a history fit."""

    name: str
    fold: Fold


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one fold: a view, or the reason for its absence, and the number of questions asked."""

    view: Wire | None
    asks: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The methods of one measure, their summariser, and the progress callback."""

    methods: Sequence[Method]
    ask: AskFunction
    progress: Progress
    late: dict[str, int] = field(default_factory=dict)
    """Late folds in a row, by the name of the method."""

    def begin(self) -> None:
        """Begin another measure; methods that were given up get another chance."""
        self.late.clear()

    def trial(self, method: Method, messages: Wire, budget: int) -> Trial:
        """Fold once with one method; a system that fails does not stop the others."""
        if self.late.get(method.name, 0) >= MOST_LATE:
            return Trial(None, why=f"given up after {MOST_LATE} folds that ended late")
        counted = None if self.ask is None else CountingAsk(self.ask)
        try:
            view = method.fold(messages, budget, counted)
        except PeerFailed as failed:
            late = self.late.get(method.name, 0) + 1 if isinstance(failed, PeerLate) else 0
            self.late[method.name] = late
            return Trial(None, counted.asks if counted else 0, str(failed))
        self.late[method.name] = 0
        return Trial(view, counted.asks if counted else 0)


@dataclass(slots=True)
class CountingAsk:
    """A summariser that counts its questions."""

    ask: Callable[[Any], Any]
    asks: int = 0

    @property
    def window(self) -> int | None:
        """The summariser's window in tokens, if known."""
        return getattr(self.ask, "window", None)

    @property
    def model(self) -> str:
        """The summariser's model, if it has a name."""
        return str(getattr(self.ask, "model", ""))

    @property
    def name(self) -> str:
        """The summariser's name, if it has one."""
        return str(getattr(self.ask, "name", ""))

    def __call__(self, question: Any) -> Any:
        """Ask once."""
        self.asks += 1
        return self.ask(question)


def make_tool_use(call_id: str, function: dict[str, str], output: str, said: str | None = None) -> Wire:
    """Return a call of a tool and its result."""
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": said, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": output},
    ]


def iter_texts(value: Any) -> Iterator[str]:
    """Yield every string that a model would read in a message or a list of messages."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _MARKS:
                yield from iter_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from iter_texts(item)


def count_tokens(messages: Sequence[Any]) -> int:
    """Count the tokens of a history with one estimate for all methods."""
    return sum(estimate("\n".join(iter_texts(message))) + 4 for message in messages)


def count_head(history: Wire) -> int:
    """Count the messages that are in every view: the system prompt and the first request."""
    for index, message in enumerate(history):
        if message["role"] == "user":
            return index + 1
    return 0


def fold_with_policy(policy: Policy) -> Fold:
    """Return a fold function that uses one of our policies."""

    def fold(history: Wire, budget: int, ask: AskFunction) -> Wire:
        window = max(8_000, count_tokens(history) * ROOMY)
        done = compact(
            history, ask=ask, policy=policy, window=window, target=budget, force=True, must_fit=False
        )
        return list(done.messages)

    return fold


def fold_to_tail(history: Wire, budget: int, _ask: AskFunction) -> Wire:
    """Keep the head and as much of the end as fits."""
    head = count_head(history)
    left = budget - count_tokens(history[:head])
    kept: Wire = []
    for message in reversed(history[head:]):
        left -= count_tokens([message])
        if left < 0:
            whole = "\n".join(iter_texts(message))
            share = max(0, len(whole) + left * len(whole) // max(1, count_tokens([message])))
            kept.append({"role": "user", "content": whole[len(whole) - share :]})
            break
        kept.append(message)
    return [*history[:head], *reversed(kept)]


def open_methods(policies: Sequence[str], peers: Sequence[Peer] = ()) -> list[Method]:
    """Return the named policies, the two baselines, and other systems."""
    names = list(presets.PRESETS) if "all" in policies else list(dict.fromkeys(policies)) or ["refold"]
    methods = [Method(name, fold_with_policy(presets.get(name))) for name in names]
    sliding_window = replace(  # the oldest messages leave, and a marker says so
        presets.get("refold"),
        stages=(Slide(fraction=None, keep_first=0, least=1, role="user"), Clamp()),
        guards=frozenset({"system", "pins", "last user", "first user", "open calls"}),
    )
    methods += [Method(TAIL, fold_to_tail), Method(WINDOW, fold_with_policy(sliding_window))]
    return [*methods, *(Method(peer.name, peer.fold) for peer in peers)]
