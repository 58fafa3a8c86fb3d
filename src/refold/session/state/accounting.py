"""What requests and summaries took so far, and what that means for the next request and compaction."""

from dataclasses import dataclass, field, replace
from typing import Final

from refold.core.compaction import circuit_breaker
from refold.core.models.prices import Spent
from refold.core.tokens.usage import Usage
from refold.session.results import Totals
from refold.session.state.spending_totals import SpendingTotals

PRIOR_TOKENS: Final = 400
"""Tokens of growth that the ratio of the whole request is worth in `UsageReport.scale`. Less lets one short
reply decide the scale, more hides that new text counts otherwise than the system prompt."""
GROWTH_MEMORY: Final = 50_000
"""Tokens of growth after which older growth counts half, so that the scale follows a change of content.
More reacts later, less lets single messages decide."""
_LEAST_RATIO, _MOST_RATIO = 0.25, 4.0
"""Bounds of a learned ratio: a count that is further off is no count of this request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """The provider's last report of the size of a request, and our estimate for it."""

    usage: Usage
    estimate: int
    model: str = ""
    at: float = 0.0
    """When it came."""
    holds: bool = True
    """True if the same messages still stand at the front, so that the report can be built upon."""
    messages: int | None = None
    """How many messages the request had, if this process made it; the reply follows them."""
    grown: tuple[int, int] = (0, 0)
    """By how many tokens requests grew from one to the next: as reported, and as estimated."""

    @property
    def ratio(self) -> float:
        """Reported tokens for one estimated token, in the whole request."""
        if self.estimate <= 0:
            return 1.0
        return min(_MOST_RATIO, max(_LEAST_RATIO, self.usage.context / self.estimate))

    @property
    def scale(self) -> float:
        """Reported tokens for one estimated token, in new messages.

        It differs from `ratio`, because a system prompt may count otherwise than tool output.
        """
        reported, estimated = self.grown
        scale = (reported + PRIOR_TOKENS * self.ratio) / (estimated + PRIOR_TOKENS)
        return min(_MOST_RATIO, max(_LEAST_RATIO, scale))

    def after(self, last: "UsageReport | None") -> "UsageReport":
        """Return the report with the growth since the last one added."""
        if last is None or not last.holds or last.model != self.model:
            return self
        reported, estimated = self.usage.context - last.usage.context, self.estimate - last.estimate
        if reported <= 0 or estimated <= 0:
            return replace(self, grown=last.grown)
        old = last.grown if last.grown[1] <= GROWTH_MEMORY else (last.grown[0] // 2, last.grown[1] // 2)
        return replace(self, grown=(old[0] + reported, old[1] + estimated))


@dataclass(frozen=True, slots=True)
class TrialFold:
    """A fold that the next report has to justify."""

    fold: str
    used_before: int
    """How full the context was before it."""
    history_after: int
    """Tokens of the history after it."""


@dataclass(slots=True)
class Accounting:
    """Usage, spending and the circuit breaker of one session."""

    report: UsageReport | None = None
    totals: Totals = Totals()
    spending: SpendingTotals = field(default_factory=SpendingTotals)
    breaker: circuit_breaker.Breaker = field(default_factory=circuit_breaker.Breaker)
    fold_sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Tokens before and after each fold."""
    trial: TrialFold | None = None
    sent_estimate: int | None = None
    """Our estimate for the request that was prepared last."""
    sent_messages: int | None = None
    """How many messages it had."""
    refused: bool = False
    """True if the provider has refused this turn for its size."""
    learned_window: int | None = None
    """The window that refusals have taught; 0 for none, None if the store was not asked yet."""

    def record_breaker_event(self, event: circuit_breaker.BreakerEvent, at: float) -> None:
        """Tell the circuit breaker what happened."""
        self.breaker = circuit_breaker.record_event(self.breaker, event, at)

    def note_request(self, estimate: int, messages: int | None = None) -> None:
        """Note the size of the request that the caller sends next."""
        self.sent_estimate = estimate
        if messages is not None:
            self.sent_messages = messages

    def note_refusal(self, *, refused: bool) -> None:
        """Note whether this turn was refused for its size."""
        self.refused = refused

    def note_window(self, tokens: int) -> None:
        """Note the window that refusals have taught; 0 for none."""
        self.learned_window = tokens

    def replace_report(self, report: UsageReport | None, totals: Totals) -> None:
        """Take over what the log says about usage."""
        self.report, self.totals = report, totals

    def add_usage(self, report: UsageReport, totals: Totals, own: Spent) -> None:
        """Add a report of usage, with all sums by then."""
        self.report, self.totals = report, totals
        self.spending = replace(self.spending, own=own)

    def invalidate_report(self) -> None:
        """Build no further on the last report: other messages stand at the front now."""
        if self.report is not None:
            self.report = replace(self.report, holds=False)

    def add_spending(self, spent: Spent, at: float) -> None:
        """Add the cost of one attempt to compact."""
        self.spending = self.spending.add_attempt(spent, at)

    def note_cap_warning(self, *, warned: bool) -> None:
        """Note whether listeners know that a cap is reached."""
        self.spending = replace(self.spending, warned=warned)

    def note_cache_miss(self, *, missed: bool) -> None:
        """Note whether a question behind the conversation was answered without the provider's cache."""
        self.spending = replace(self.spending, missed=missed)

    def replace_spending(self, spending: SpendingTotals) -> SpendingTotals:
        """Put other sums in place and return the old ones."""
        old, self.spending = self.spending, spending
        return old

    def add_fold(self, name: str, tokens_before: int, tokens_after: int) -> None:
        """Keep the sizes of a fold that was just made."""
        self.fold_sizes[name] = (tokens_before, tokens_after)

    def restore_folds(self, sizes: dict[str, tuple[int, int]]) -> None:
        """Take over the sizes of the folds from the log."""
        self.fold_sizes = sizes

    def restore_breaker(self, breaker: circuit_breaker.Breaker) -> None:
        """Take over a breaker from the log, unless this one remembers more: other branches know less."""
        if len(breaker.attempts) >= len(self.breaker.attempts):
            self.breaker = breaker

    def start_trial(self, trial: TrialFold | None) -> None:
        """Have the next report judge a fold; None for no fold."""
        self.trial = trial

    def end_trial(self) -> TrialFold | None:
        """Return the fold that a report is about to judge, and forget it."""
        trial, self.trial = self.trial, None
        return trial

    def forget_model(self) -> None:
        """Forget what only holds for the former model: its window, its way to count, its cache."""
        self.learned_window = None
        self.trial = None
        self.note_cache_miss(missed=False)
