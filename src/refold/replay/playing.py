"""Plays a recorded conversation under a policy and a window, as a session would have met it.

Before each answer of the model the session prepares what was said so far; a provider with a prefix cache
reads it, and reports what it has read. Nobody is asked unless somebody is handed over: stages that need a
model are passed over, or get a stand-in as long as a summary is expected to be.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from refold import session
from refold.calls.compact import Asked
from refold.calls.outcome import Outcome
from refold.calls.plan import expected
from refold.core.compaction.budget import Trigger
from refold.core.compaction.policy import Policy
from refold.core.log.view import Put
from refold.core.log.view import Run as Shown
from refold.core.models.prices import Spent, break_even, cache_prices, cost, price_of
from refold.core.models.windows import Price
from refold.core.tokens.usage import Usage
from refold.errors import Overflow
from refold.policies import presets
from refold.replay.caching import MINUTES, Cache
from refold.replay.facts import held, shown, wanted
from refold.replay.recorded import Recorded
from refold.replay.values import NONE, Played, Run, Turn
from refold.session.facade import Session
from refold.session.shelf import Shelf
from refold.stores.memory.store import open_store

Summaries: TypeAlias = Literal["stand-in", "passed over"]
LEAST_CACHED: Final = 1_024
"""Tokens below which providers cache nothing."""
_BESIDE: Final = "beside"
"""The name of what is sent in front of the messages."""


def none() -> Policy:
    """No compaction at all."""
    return replace(presets.get("refold"), name=NONE, trigger=Trigger(enabled=False), stages=())


def play(
    recorded: Recorded,
    policy: str | Policy = "refold",
    *,
    window: int | None = None,
    price: Price | str | None = None,
    ask: Asked = None,
    asked: str = "",
    summaries: Summaries = "stand-in",
    cache_seconds: float = MINUTES,
    facts: bool = True,
    told: Callable[[int, int], None] | None = None,
) -> Run:
    """Play a conversation from its first request to its last.

    price           of the model, or the name of one; that of the recorded model by default
    ask, asked      who summarises, and what to call them; nobody by default
    summaries       without them: a stand-in of the expected length, or no summaries at all
    cache_seconds   how long the provider's cache lives without being read
    facts           whether to look for what the conversation comes back to
    told            is called with how many requests are done, of how many
    """
    chosen = none() if policy == NONE else presets.get(policy)
    found = price_of(price or recorded.model) if isinstance(price, str | None) else price
    chosen = chosen if found is None else chosen.where_paid
    who = ask if ask is not None else expected if summaries == "stand-in" else None
    kept = session.open(
        "replay",
        store=open_store(),
        policy=chosen,
        window=window,
        model=recorded.model,
        format=recorded.wire.name,
        ask=None if chosen.name == NONE else who,
        now=lambda: player.now,
    )
    player = Player(recorded, kept, chosen, found, Cache(cache_seconds), facts=facts)
    for number, at in enumerate(recorded.requests):
        player.request(number, at)
        if told is not None:
            told(number + 1, len(recorded.requests))
    kept.close()
    return player.run((asked or "asked") if ask is not None else summaries)


@dataclass(slots=True)
class _Sent:
    """A request: names and units of what stands in it."""

    names: list[Hashable]
    units: list[int]
    shelf: Shelf | None = None
    known: int = 0
    """How many messages of the shelf are in it."""
    total: int = 0
    """All units."""


@dataclass(slots=True)
class Player:
    """The state of one run."""

    recorded: Recorded
    session: Session
    policy: Policy
    price: Price | None
    cache: Cache
    facts: bool = True
    now: float = 0.0
    window: int = 0
    sent: _Sent = field(default_factory=lambda: _Sent([_BESIDE], [0]))
    history: list[Any] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    folds: list[Played] = field(default_factory=list)
    attempts: Spent = field(default_factory=Spent)
    put: dict[Put, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Tell the session what is sent beside the messages."""
        self.session.acts.around.more = self.recorded.scale.beside

    def request(self, number: int, at: int) -> None:
        """Prepare and send what stands before an answer."""
        recorded = self.recorded
        self.now = recorded.clock[number]
        before = self.sent.total + sum(recorded.sizes[len(self.history) : at])
        self.history += recorded.messages[len(self.history) : at]
        ready = self.session.prepare(self.history)
        self.window = ready.budget.window
        outcomes = [ready.outcome]
        new = self._now_sent()
        if self._tokens(new.total) > self.window and self.policy.name != NONE:
            outcomes += self._refused(self._tokens(new.total))
            new = new if self.session.keeper.shelf is new.shelf else self._now_sent()
        self._send(at, new, self._tokens(before), outcomes)

    def _refused(self, tokens: int) -> list[Outcome]:
        """Tell the session that a provider refused the request for its size."""
        limit = f"This model's maximum context length is {self.window} tokens"
        said = {"message": f"{limit}, but {tokens} were sent", "code": "context_length_exceeded"}
        try:
            seen = self.session.observe({"error": said})
        except Overflow:
            return []
        return [] if seen.outcome is None else [seen.outcome]

    def _send(self, at: int, new: _Sent, before: int, outcomes: Sequence[Outcome]) -> None:
        old, last = self.sent, self.turns[-1] if self.turns else None
        grown = new.names[: len(old.names)] == old.names if new.shelf is not old.shelf else True
        hit = self.cache.read(new.names, self.now, grown=grown)
        total = self._tokens(new.total)
        known = self._tokens(new.total - sum(new.units[hit.messages :])) if hit.messages else 0
        usage = self._usage(total, known, self.recorded.output(at))
        calls = self._calls(outcomes)
        number = None
        if any(outcome.compacted for outcome in outcomes):
            number = len(self.folds) + 1
            was = 0 if last is None or hit.cold else min(last.tokens, before)
            self.folds.append(self._fold(before, was, usage, outcomes, calls))
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
                dollars=None if self.price is None else cost(usage, self.price),
                cold=hit.cold,
                over=total > self.window,
                fold=number,
            )
        )
        self.sent = new
        if total <= self.window:
            self.session.observe({"usage": {"prompt_tokens": total, "completion_tokens": usage.output}})

    def _usage(self, total: int, known: int, output: int) -> Usage:
        """What a provider reads from its cache, and what it writes to it."""
        price = self.price
        known = known if known >= LEAST_CACHED and not (price and price.cache_read is None) else 0
        writes = total >= LEAST_CACHED and not (price and price.cache_write is None)
        return Usage(input=total, output=output, cache_read=known, cache_write=total - known if writes else 0)

    def _fold(self, before: int, was: int, usage: Usage, outcomes: Sequence[Outcome], calls: Spent) -> Played:
        """What a fold cost, and when it will have paid.

        before   tokens of the request without it
        was      those of them that the cache would have held
        """
        saved = before - usage.input
        without = self._usage(before, was, usage.output)
        dollars = needed = None
        if self.price is not None:
            later = saved * cache_prices(self.price)[0] / 1e6
            dollars = (calls.dollars or 0.0) + cost(usage, self.price) - cost(without, self.price) + later
            needed = break_even(max(0.0, dollars), self.price, saved=saved)
        reused, kept = self._kept()
        done = [outcome for outcome in outcomes if outcome.compacted]
        return Played(
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

    def _kept(self) -> tuple[int, int]:
        """How much is used again from here on, and how much of it the view holds."""
        if not self.facts:
            return 0, 0
        names = wanted(self.recorded.again, len(self.history))
        return len(names), held(shown(self.session.keeper.shelf.items), names) if names else 0

    def _calls(self, outcomes: Sequence[Outcome]) -> Spent:
        spent = Spent()
        for call in (call for outcome in outcomes for call in outcome.receipt.calls):
            usage = Usage(
                input=call.prompt_tokens,
                output=call.answer_tokens,
                cache_read=call.cache_read,
                cache_write=call.cache_write,
            )
            spent = spent.plus(Spent.of(usage, price_of(call.model) or self.price))
        return spent

    def _tokens(self, units: int) -> int:
        recorded = self.recorded
        return recorded.scale.tokens(recorded.counter.tokens(units + recorded.counter.per_conversation))

    def _now_sent(self) -> _Sent:
        """The request as the session's view has it now."""
        shelf, old = self.session.keeper.shelf, self.sent
        same = shelf is old.shelf
        names: list[Hashable] = old.names if same else [_BESIDE]
        units = old.units if same else [0]
        start, total = (old.known, old.total) if same else (0, 0)
        for index in range(start, len(shelf.atoms)):
            name, size = self._size(shelf, index)
            names.append(name)
            units.append(size)
            total += size
        return _Sent(names, units, shelf, len(shelf.atoms), total)

    def _size(self, shelf: Shelf, index: int) -> tuple[Hashable, int]:
        """The name of a message of the view, and its units, by the count that all policies share."""
        atom = shelf.atoms[index]
        if isinstance(atom, Put):
            if atom not in self.put:
                self.put[atom] = self.recorded.counter.message(shelf.messages[index])
            return atom, self.put[atom]
        if isinstance(atom, Shown):
            return atom, self.recorded.sizes[shelf.fixed + atom.first - 1]
        return ("system", index), self.recorded.sizes[index]

    def run(self, who: str) -> Run:
        """All of it, once the last request is sent."""
        starts = [fold.turn for fold in self.folds] + [len(self.turns) + 1]
        folds = tuple(
            replace(fold, turns_came=after - fold.turn)
            for fold, after in zip(self.folds, starts[1:], strict=True)
        )
        return Run(
            policy=self.policy.name,
            window=self.window,
            model=who if self.policy.name != NONE else "",
            price=self.price,
            turns=tuple(self.turns),
            folds=folds,
            attempts=self.attempts,
        )
