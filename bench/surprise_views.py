"""The ways to make a view of a prefix: ours, plain baselines, mixtures, sessions, and other libraries.

Every way gets the same number of tokens, counted by the reader's own tokenizer.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.surprise_cases import (
    LONG,
    Case,
    Wire,
    count_messages,
    find_head,
    find_system,
    make_case,
    message_text,
    speaker,
)
from bench.surprise_model import TokenCounter

import refold
from refold.evals.datasets import Run
from refold.evals.peers import Peer, PeerFailed

REFOLD, TAIL, HEAD_AND_TAIL = "refold", "tail", "head and tail"
MIXTURES: Final = {"digest 50 and tail 50": 0.5, "digest 30 and tail 70": 0.7}
"""Share of the tail; the rest is a view of what is before it, made by `refold`."""
PLAIN_METHODS: Final = (REFOLD, TAIL, HEAD_AND_TAIL, *MIXTURES)
SLACK: Final = 1.03
"""A view may have so much of its budget: an estimate cannot hit another tokenizer's count."""
FULL: Final = 0.85
"""A view of so much of its budget needs no other try."""
TRIES: Final = 4
PEER_TRIES: Final = 10
"""Some libraries keep a quarter of what they may, and everything below a trigger: little is between."""
MOST_GROWTH: Final = 4
"""A target grows by this factor at most: an almost empty view says little about the next."""


@dataclass(frozen=True, slots=True)
class ViewMaker:
    """What is compared: the methods, the sizes, and other libraries."""

    counter: TokenCounter
    methods: Sequence[str] = PLAIN_METHODS
    shares: Sequence[float] = (0.1, 0.25)
    windows: Sequence[int] = (16_000, 24_000, 64_000, 200_000)
    peers: Sequence[Peer] = ()

    def make_views(self, case: Case) -> dict[str, Wire]:
        """Return the views of a case, by method and size."""
        views: dict[str, Wire] = {}
        for share in self.shares:
            budget = int(case.tokens * share)
            for method in self.methods:
                views[f"{method}, {share:.0%}"] = make_view(self.counter, case.prefix, budget, method)
            for peer in self.peers:
                if view := fold_with_peer(self.counter, peer, case.prefix, budget):
                    views[f"{peer.name}, {share:.0%}"] = view
        for window in self.windows:
            view = play_session(case.prefix, window)
            if count_messages(self.counter, view) < case.tokens:
                views |= self.compare_session(case.prefix, view, window)
        return views

    def compare_session(self, prefix: Wire, view: Wire, window: int) -> dict[str, Wire]:
        """Return what a session left, beside baselines of the same size."""
        size, budget = name_session(window), count_messages(self.counter, view)
        plain = [method for method in self.methods if method in {TAIL, HEAD_AND_TAIL}]
        views = {f"{REFOLD}, {size}": view} if REFOLD in self.methods else {}
        return views | {
            f"{method}, {size}": make_view(self.counter, prefix, budget, method) for method in plain
        }


def name_session(window: int) -> str:
    """Return the name of a session's size."""
    return f"session {window // 1_000}k"


def make_view(counter: TokenCounter, messages: Wire, budget: int, method: str) -> Wire:
    """Return the view of one method without a model."""
    head = find_head(messages)
    if method == REFOLD:
        return fold_to_target(counter, messages, budget)
    if method in MIXTURES:
        return mix_digest_and_tail(counter, messages, budget, MIXTURES[method])
    has_room = method == HEAD_AND_TAIL and count_messages(counter, head) < budget * 0.8
    return keep_tail(counter, messages, budget, head if has_room else find_system(messages))


def keep_tail(counter: TokenCounter, messages: Wire, budget: int, head: Wire) -> Wire:
    """Keep the head and as much of the end as fits; the message at the edge is cut."""
    kept: Wire = []
    left = budget - count_messages(counter, head)
    for message in reversed(messages[len(head) :]):
        size = count_messages(counter, [message])
        if size > left:
            # about 3 characters a token: code and output have fewer than prose
            if left > 100:
                text = message_text(message)
                kept.append({"role": speaker(message), "content": "…" + text[-left * 3 :]})
            break
        kept.append(message)
        left -= size
    return [*head, *reversed(kept)]


def mix_digest_and_tail(counter: TokenCounter, messages: Wire, budget: int, tail_share: float) -> Wire:
    """Fold what is before a plain tail into the rest of the budget."""
    tail = keep_tail(counter, messages, int(budget * tail_share), [])
    while tail and tail[0]["role"] == "tool":
        tail = tail[1:]  # its call is in the part that is folded
    before = messages[: len(messages) - len(tail)]
    return [*fold_to_target(counter, before, budget - int(budget * tail_share)), *tail] if before else tail


def fold_to_target(
    counter: TokenCounter, messages: Wire, budget: int, ask: Callable[[Any], Any] | None = None
) -> Wire:
    """Compact to a named target; the target is lowered until the reader's own count fits the budget."""
    estimate = refold.count(messages)
    target = int(budget * estimate / max(1, count_messages(counter, messages)))
    view = messages
    for _ in range(TRIES):
        outcome = refold.compact(
            messages, window=2 * estimate + 4_000, target=max(200, target), ask=ask, force=True
        )
        view = list(outcome.messages)
        tokens = count_messages(counter, view)
        if tokens <= budget * SLACK or getattr(ask, "is_waiting", False):
            break
        target = int(target * budget / tokens * 0.98)
    return view


def fold_with_peer(counter: TokenCounter, peer: Peer, messages: Wire, budget: int) -> Wire | None:
    """Return the largest view of another library within the budget; None where it fails or stays larger.

    Some libraries keep half of what they may, others overshoot: the target follows what came out.
    """
    target = int(budget * refold.count(messages) / max(1, count_messages(counter, messages)))
    best: Wire | None = None
    bounds = (0, 0)
    for _ in range(PEER_TRIES):
        try:
            view = list(peer.fold(messages, target, None))
        except PeerFailed as failed:
            print(failed, file=sys.stderr, flush=True)
            break
        tokens = count_messages(counter, view)
        if tokens <= budget * SLACK and tokens > count_messages(counter, best or ()):
            best = view
        if FULL * budget <= tokens <= budget * SLACK:
            break
        low, high = bounds
        bounds = (target, high) if tokens < budget else (low, target)
        growth = min(MOST_GROWTH, budget / max(1, tokens) * 0.98)
        target = choose_target(bounds, int(target * growth))
        if target in {0, *bounds}:
            break
    return best


def choose_target(bounds: tuple[int, int], scaled: int) -> int:
    """Return the next target: in proportion to what came out, or the mean where that is known not to fit.

    Bounds are the largest target that gave too little and the smallest that gave too much; 0 is none yet.
    """
    low, high = bounds
    # a step of less than a tenth would not leave the bound
    if high and not low * 1.1 < scaled < high * 0.9:
        return round((low * high) ** 0.5) if low else min(scaled, high - 1)
    return scaled


def play_session(messages: Wire, window: int, ask: Callable[[Any], Any] | None = None) -> Wire:
    """Play the prefix through a session, turn by turn, and return what it would send at the cut."""
    with refold.open("surprise", store="memory:", window=window, ask=ask) as session:
        for at, message in enumerate(messages):
            if message["role"] == "assistant":
                session.prepare(messages[:at])
        return list(session.prepare(messages).messages)


def find_folds(messages: Wire, window: int) -> Iterator[tuple[int, Wire]]:
    """Play a whole conversation through a session; yield the cuts at which it folded, and what it left."""
    with refold.open("surprise", store="memory:", window=window) as session:
        for at, message in enumerate(messages):
            if message["role"] == "assistant":
                ready = session.prepare(messages[:at])
                if ready.outcome.compacted:
                    yield at, list(ready.messages)


@dataclass(frozen=True, slots=True)
class PreparedCase:
    """A cut with its views, ready to be scored."""

    case: Case
    views: Mapping[str, Wire]
    reference: Wire
    """What counts as 100 %: the whole prefix, or its newest part where the reader takes no more."""


def prepare_long(
    maker: ViewMaker, runs: Sequence[Run], window: int, most_tokens: int
) -> tuple[list[PreparedCase], str]:
    """Return the folds of whole recordings in one window whose views the reader takes, and what was found."""
    prepared: list[PreparedCase] = []
    folds = 0
    for run in runs:
        for cut, view in find_folds(run.messages, window):
            prefix = run.messages[:cut]
            tokens = count_messages(maker.counter, prefix)
            folds += 1
            if count_messages(maker.counter, view) > most_tokens:
                continue
            case = make_case(maker.counter, LONG, run, slice(0, cut), tokens)
            views = maker.compare_session(prefix, view, window)
            reference = keep_tail(maker.counter, prefix, most_tokens, find_system(prefix))
            prepared.append(PreparedCase(case, views, reference))
    return prepared, describe_long(folds, len(prepared), most_tokens)


def describe_long(folds: int, fitting: int, most_tokens: int) -> str:
    """Say what was found, where nothing can be measured."""
    if not folds:
        return "nothing folds: the recordings are shorter than the window"
    return "" if fitting else f"{folds} folds, but no view fits the reader's {most_tokens:,} tokens"
