"""Play a recorded conversation under a policy and a window, as a session would have met it.

Before each answer of the model, a session prepares what was said so far. A simulated provider with a prefix
cache reads it and reports usage. Without `ask` no model is asked: stages that need one are passed over, or
get a stand-in as long as a summary is expected to be.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from refold import session
from refold.calls.outcome import Outcome
from refold.calls.plan import expected_answer
from refold.calls.summariser import AskTarget
from refold.core.compaction.budget import Trigger
from refold.core.compaction.policy import Policy
from refold.core.log.view import MessageRange, Replacement
from refold.core.models.prices import Spent, break_even, cache_prices, find_price, request_cost
from refold.core.models.windows import Price, Window, choose_window
from refold.core.tokens.usage import Usage
from refold.errors import Overflow
from refold.policies import presets
from refold.replay.prefix_cache import DEFAULT_SECONDS, PrefixCache
from refold.replay.recorded import Recorded
from refold.replay.results import NONE, PlayedFold, Run, Turn
from refold.replay.reused_names import count_present, join_texts, names_needed_after
from refold.session.session import Session
from refold.session.state.loaded_view import LoadedView
from refold.stores.memory import open_store

Summaries: TypeAlias = Literal["stand-in", "passed over"]
LEAST_CACHED: Final = 1_024
"""Tokens below which OpenAI and Anthropic cache nothing, as both document."""
_BESIDE: Final = "beside"
"""The name of the part that is sent before the messages: system prompt and tools."""


def no_compaction() -> Policy:
    """Return a policy that never compacts."""
    return replace(presets.get("refold"), name=NONE, trigger=Trigger(enabled=False), stages=())


def play(
    recorded: Recorded,
    policy: str | Policy = "refold",
    *,
    window: int | Window | None = None,
    price: Price | str | None = None,
    ask: AskTarget = None,
    asked: str = "",
    summaries: Summaries = "stand-in",
    cache_seconds: float = DEFAULT_SECONDS,
    facts: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Play a conversation from its first request to its last.

    window          the window or its size; the policy's window of the recorded model by default
    price           the price of the model, or a model's name; the recorded model's price by default
    ask, asked      the summariser, and its name in the result; none by default
    summaries       without `ask`: a stand-in of the expected length, or no summaries at all
    cache_seconds   how long the provider's cache lives without being read
    facts           if true, measure how many re-used names each fold keeps
    progress        called with the number of requests done, and their number in all
    """
    chosen = no_compaction() if policy == NONE else presets.get(policy)
    price = find_price(price or recorded.model) if isinstance(price, str | None) else price
    row = window if isinstance(window, Window) else choose_window(chosen.window, recorded.model, window)
    answerer = ask if ask is not None else expected_answer if summaries == "stand-in" else None
    session_played = session.open(
        "replay",
        store=open_store(),
        policy=replace(chosen, window=lambda _model: row),
        window=row.tokens,
        model=recorded.model,
        format=recorded.wire.name,
        ask=None if chosen.name == NONE else answerer,
        now=lambda: player.now,
    )
    player = Player(recorded, session_played, chosen, row, price, PrefixCache(cache_seconds), facts=facts)
    for number, at in enumerate(recorded.requests):
        player.request(number, at)
        if progress is not None:
            progress(number + 1, len(recorded.requests))
    session_played.close()
    return player.finish((asked or "asked") if ask is not None else summaries)


@dataclass(slots=True)
class SentRequest:
    """A request: the names and sizes of its messages."""

    names: list[Hashable]
    units: list[int]
    loaded: LoadedView | None = None
    known: int = 0
    """Number of messages of the loaded view that the request has."""
    total: int = 0
    """The sum of the sizes."""


@dataclass(slots=True)
class Player:
    """The state of one replay."""

    recorded: Recorded
    session: Session
    policy: Policy
    window: Window
    price: Price | None
    cache: PrefixCache
    facts: bool = True
    now: float = 0.0
    sent: SentRequest = field(default_factory=lambda: SentRequest([_BESIDE], [0]))
    history: list[Any] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    folds: list[PlayedFold] = field(default_factory=list)
    attempts: Spent = field(default_factory=Spent)
    replacement_sizes: dict[Replacement, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Tell the session the size of the system prompt and tools."""
        self.session.state.request.more = self.recorded.scale.beside

    def request(self, number: int, at: int) -> None:
        """Prepare and send the request before one answer."""
        recorded = self.recorded
        self.now = recorded.clock[number]
        before = self.sent.total + sum(recorded.sizes[len(self.history) : at])
        self.history += recorded.messages[len(self.history) : at]
        ready = self.session.prepare(self.history)
        outcomes = [ready.outcome]
        new = self._build_request()
        if self._tokens(new.total) > self.window.usable() and self.policy.name != NONE:
            outcomes += self._report_refusal(self._tokens(new.total))
            new = new if self.session.state.loaded is new.loaded else self._build_request()
        self._send(at, new, self._tokens(before), outcomes)

    def _report_refusal(self, tokens: int) -> list[Outcome]:
        """Report to the session that the provider refused the request for its size."""
        limit = f"This model's maximum context length is {self.window.usable()} tokens"
        said = {"message": f"{limit}, but {tokens} were sent", "code": "context_length_exceeded"}
        try:
            seen = self.session.observe({"error": said})
        except Overflow:
            return []
        return [] if seen.outcome is None else [seen.outcome]

    def _send(self, at: int, new: SentRequest, before: int, outcomes: Sequence[Outcome]) -> None:
        old, last = self.sent, self.turns[-1] if self.turns else None
        grown = new.names[: len(old.names)] == old.names if new.loaded is not old.loaded else True
        hit = self.cache.read(new.names, self.now, grown=grown)
        total = self._tokens(new.total)
        known = self._tokens(new.total - sum(new.units[hit.messages :])) if hit.messages else 0
        usage = self._simulate_usage(total, known, self.recorded.output(at))
        calls = self._spent_on_calls(outcomes)
        number = None
        if any(outcome.compacted for outcome in outcomes):
            number = len(self.folds) + 1
            was = 0 if last is None or hit.cold else min(last.tokens, before)
            self.folds.append(self._make_fold(before, was, usage, outcomes, calls))
        else:
            self.attempts = self.attempts.plus(calls)
        self.turns.append(
            Turn(
                number=len(self.turns) + 1,
                at=at,
                tokens=total,
                cache_read=usage.cache_read,
                cache_write=usage.cache_write,
                fresh=usage.input - usage.cache_read - usage.cache_write,
                output=usage.output,
                dollars=None if self.price is None else request_cost(usage, self.price),
                cold=hit.cold,
                over=total > self.window.usable(),
                fold=number,
            )
        )
        self.sent = new
        if total <= self.window.usable():
            self.session.observe({"usage": {"prompt_tokens": total, "completion_tokens": usage.output}})

    def _simulate_usage(self, total: int, known: int, output: int) -> Usage:
        """Return the usage that a provider would report: what it reads from its cache and writes to it."""
        price = self.price
        known = known if known >= LEAST_CACHED and not (price and price.cache_read is None) else 0
        writes = total >= LEAST_CACHED and not (price and price.cache_write is None)
        return Usage(input=total, output=output, cache_read=known, cache_write=total - known if writes else 0)

    def _make_fold(
        self, before: int, was: int, usage: Usage, outcomes: Sequence[Outcome], calls: Spent
    ) -> PlayedFold:
        """Return what a fold cost, and after how many turns it pays.

        before   tokens of the request without the fold
        was      the part of them that the cache would have held
        """
        saved = before - usage.input
        without = self._simulate_usage(before, was, usage.output)
        dollars = needed = None
        if self.price is not None:
            later = saved * cache_prices(self.price)[0] / 1e6
            dollars = (
                (calls.dollars or 0.0)
                + request_cost(usage, self.price)
                - request_cost(without, self.price)
                + later
            )
            needed = break_even(max(0.0, dollars), self.price, saved=saved)
        reused, kept = self._count_facts()
        done = [outcome for outcome in outcomes if outcome.compacted]
        return PlayedFold(
            number=len(self.folds) + 1,
            turn=len(self.turns) + 1,
            trigger=done[-1].receipt.trigger,
            stages=tuple(stage for outcome in done for stage in outcome.stages),
            tokens_before=before,
            tokens_after=usage.input,
            anew=max(0, was - usage.cache_read - saved) if saved < was else 0,
            calls=calls,
            dollars=dollars,
            turns_needed=needed,
            turns_came=0,
            reused=reused,
            kept=kept,
        )

    def _count_facts(self) -> tuple[int, int]:
        """Count the names that are used again later, and those of them in the view."""
        if not self.facts:
            return 0, 0
        names = names_needed_after(self.recorded.again, len(self.history))
        return len(names), count_present(join_texts(self.session.state.loaded.items), names) if names else 0

    def _spent_on_calls(self, outcomes: Sequence[Outcome]) -> Spent:
        spent = Spent()
        for call in (call for outcome in outcomes for call in outcome.receipt.calls):
            usage = Usage(
                input=call.prompt_tokens,
                output=call.answer_tokens,
                cache_read=call.cache_read,
                cache_write=call.cache_write,
            )
            spent = spent.plus(Spent.of(usage, find_price(call.model) or self.price))
        return spent

    def _tokens(self, units: int) -> int:
        recorded = self.recorded
        return recorded.scale.tokens(recorded.counter.tokens(units + recorded.counter.per_conversation))

    def _build_request(self) -> SentRequest:
        """Return the request that the session's view makes now."""
        loaded, old = self.session.state.loaded, self.sent
        same = loaded is old.loaded
        names: list[Hashable] = old.names if same else [_BESIDE]
        units = old.units if same else [0]
        start, total = (old.known, old.total) if same else (0, 0)
        for index in range(start, len(loaded.view_items)):
            name, size = self._item_size(loaded, index)
            names.append(name)
            units.append(size)
            total += size
        return SentRequest(names, units, loaded, len(loaded.view_items), total)

    def _item_size(self, loaded: LoadedView, index: int) -> tuple[Hashable, int]:
        """Return the name and the size of one item of the view, by the counter that all policies share."""
        item = loaded.view_items[index]
        if isinstance(item, Replacement):
            if item not in self.replacement_sizes:
                self.replacement_sizes[item] = self.recorded.counter.message(loaded.messages[index])
            return item, self.replacement_sizes[item]
        if isinstance(item, MessageRange):
            return item, self.recorded.sizes[loaded.fixed + item.first - 1]
        return ("system", index), self.recorded.sizes[index]

    def finish(self, summariser: str) -> Run:
        """Return the finished replay."""
        starts = [fold.turn for fold in self.folds] + [len(self.turns) + 1]
        folds = tuple(
            replace(fold, turns_came=after - fold.turn)
            for fold, after in zip(self.folds, starts[1:], strict=True)
        )
        return Run(
            policy=self.policy.name,
            window=self.window.tokens,
            model=summariser if self.policy.name != NONE else "",
            price=self.price,
            turns=tuple(self.turns),
            folds=folds,
            attempts=self.attempts,
        )
