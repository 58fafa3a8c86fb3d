"""Usage, cost and circuit breaker of one session; they decide on the next request and compaction.

The sums of money are stored in the log: every fold and every failed attempt records its own cost and the sum
of all costs by then, and so does every report of usage. A session that is opened again reads the newest ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from refold.core.compaction import circuit_breaker
from refold.core.compaction.model_calls import ModelCall
from refold.core.log.entries import Entry
from refold.core.log.remade_folds import AGAIN
from refold.core.messages.quick_init import quick_init, quick_replace
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import HOUR, Allowance, Bill, Caps, remaining_allowance, total_spent
from refold.core.models.window_table import Window
from refold.core.tokens.calibration import LEAST_SHARE, MOST_RATIO, Calibration, Counted, clamp_ratio
from refold.core.tokens.usage import Usage
from refold.session.results import Totals

PRIOR_TOKENS: Final = 400
"""Tokens of growth that the ratio of the whole request is worth in `UsageReport.scale`. Less lets one short
reply decide the scale, more hides that new text counts otherwise than the system prompt."""
GROWTH_MEMORY: Final = 50_000
"""Tokens of growth after which older growth counts half, so that the scale follows a change of content.
More reacts later, less lets single messages decide."""
LEAST_TAUGHT: Final = 2_000
"""Tokens of the least window that a summariser's refusal teaches for the rest of the session, unless it has
answered questions that fit into less: a misread number would end all summaries."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
    """A list that the caller was given to send, and its size."""

    estimate: int
    """Tokens by our own count."""
    expected: int
    """Tokens by our own count and the reports before it."""
    messages: int
    fixed: int = 0
    """Tokens of its system prompt and tools, by our own count."""
    folds: tuple[str, ...] = ()
    """Names of the folds that stood in the view."""
    said: int = 0
    holds: bool = True
    """True if its messages still stand at the front of the view."""
    overtaken: bool = False
    """True if another request was prepared before its answer came."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """The provider's last report that was believed, and our estimate for the request."""

    usage: Usage
    estimate: int
    model: str = ""
    at: float = 0.0
    """When the report came, in seconds since the epoch."""
    holds: bool = True
    """True if the same messages still stand at the front, so that the report can be built upon."""
    messages: int | None = None
    """Number of messages in the request, if it is known; the reply follows them."""
    fixed: int | None = None
    """Tokens of its system prompt and tools, by our own count; None if it is not known."""
    grown: tuple[int, int] = (0, 0)
    """Tokens that requests grew by from one to the next: as reported, and as estimated."""
    guess: float = 1.0
    """Share of sizes that are guesses that is counted, as the reports by then have shown."""
    _calibration: Calibration | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def ratio(self) -> float:
        """Reported tokens for one estimated token, in the whole request.

        More than any text has lies in parts that are not listed, and nothing is known of the others then.
        """
        ratio = self.usage.input / self.estimate if self.estimate > 0 else 1.0
        if ratio > MOST_RATIO:
            return 1.0
        # In a small request a hidden prompt of a few words has as much as all the rest.
        return clamp_ratio(ratio if self.estimate >= PRIOR_TOKENS else min(ratio, 1 / LEAST_SHARE))

    @property
    def scale(self) -> float:
        """Reported tokens for one estimated token, in new messages.

        It differs from `ratio`, because a system prompt may count otherwise than tool output.
        """
        reported, estimated = self.grown
        scale = (reported + PRIOR_TOKENS * self.ratio) / (estimated + PRIOR_TOKENS)
        return clamp_ratio(scale)

    @property
    def calibration(self) -> Calibration:
        """How the provider counts; found once, because a turn asks for it several times."""
        if (found := self._calibration) is None:
            last = Counted(self.estimate, self.usage.input)
            found = Calibration(ratio=self.ratio, scale=self.scale, last=last)
            object.__setattr__(self, "_calibration", found)
        return found

    def after(self, last: "UsageReport | None") -> "UsageReport":
        """Return the report with the growth since the last one added."""
        if last is None or last.model != self.model:
            return self
        reported, estimated = self.usage.input - last.usage.input, self.estimate - last.estimate
        listed = 0 if last.fixed is None or self.fixed is None else max(0, self.fixed - last.fixed)
        # Behind a fold growth is none of new messages. Tools that are named now may have been counted before.
        if not last.holds or reported <= LEAST_SHARE * listed or estimated <= 0 or self.guess != last.guess:
            return quick_replace(self, grown=last.grown)
        old = last.grown if last.grown[1] <= GROWTH_MEMORY else (last.grown[0] // 2, last.grown[1] // 2)
        return quick_replace(self, grown=(old[0] + reported, old[1] + estimated))


class Doubted(NamedTuple):
    """What was reported for a request and not believed, beside its sizes; the next report may confirm it."""

    reported: int
    estimate: int
    expected: int
    fixed: int

    @property
    def counted(self) -> Counted:
        """What was expected and what was reported."""
        return Counted(self.expected, self.reported)


@dataclass(frozen=True, slots=True)
class TrialFold:
    """A fold that the next report has to justify."""

    fold: str
    used_before: int
    """Tokens in the context before the fold."""
    history_after: int
    """Tokens of the history after the fold."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingTotals:
    """Cost of requests and summaries so far."""

    own: Spent = Spent()
    """Cost of the conversation's own requests."""
    summaries: Spent = Spent()
    """Cost of the summariser's calls."""
    bills: tuple[Bill, ...] = ()
    """Cost of each attempt in the last hour."""
    missed: bool = False
    """True if a question behind the conversation was answered without the provider's cache."""
    warned: bool = False
    """True if listeners know that a cap is reached."""

    def allowance_left(self, caps: Caps, at: float) -> Allowance | None:
        """Return what may still be spent on summaries; None if there is no cap."""
        return remaining_allowance(caps, self.summaries, self.bills, at) if caps.any else None

    def add_attempt(self, spent: Spent, at: float) -> "SpendingTotals":
        """Return the sums after an attempt that cost `spent`."""
        if not spent.calls:
            return self
        recent = tuple(bill for bill in self.bills if abs(at - bill.at) < HOUR)
        return replace(self, summaries=self.summaries.plus(spent), bills=(*recent, Bill(at=at, spent=spent)))

    @property
    def recorded_sum(self) -> dict[str, Any]:
        """The sum of all summaries, as an entry records it."""
        return {"summaries": self.summaries.as_dict()} if self.summaries.calls else {}

    def record_attempt(self, spent: Spent) -> dict[str, Any]:
        """Return the cost of one attempt and the sum with it, as an entry records them."""
        total = self.summaries.plus(spent)
        return {"spent": spent.as_dict(), "summaries": total.as_dict()} if total.calls else {}

    def without_sums(self) -> "SpendingTotals":
        """Return empty sums, to learn what a branch records by itself."""
        return replace(self, own=Spent(), summaries=Spent(), bills=())

    def merge(self, known: "SpendingTotals") -> "SpendingTotals":
        """Return the larger of these sums and those of another branch."""
        more = known.summaries.calls > self.summaries.calls
        ours = replace(self, summaries=known.summaries, bills=known.bills) if more else self
        return replace(ours, own=max(ours.own, known.own, key=_calls))

    def missing_from(self, there: "SpendingTotals") -> dict[str, Any]:
        """Return what an entry has to record on a branch whose sums are smaller; empty if nothing."""
        about = {"own": self.own.as_dict()} if self.own.calls > there.own.calls else {}
        if self.summaries.calls <= there.summaries.calls:
            return about
        recent = total_spent(bill.spent for bill in self.bills if bill not in there.bills)
        spent = {"spent": recent.as_dict()} if recent.calls else {}
        return {**about, **spent, "summaries": self.summaries.as_dict()}

    def restore(self, newest: Sequence[Entry]) -> "SpendingTotals":
        """Return the larger of these sums and those that the newest entries record.

        Other branches do not record what was spent here, so the log may say less.
        """
        sums = (entry.beside.get("summaries") for entry in newest if '"summaries":' in entry.about)
        total = Spent.read(next(sums, None))
        # Parsing is expensive and most entries record no cost, so their text is looked at first.
        costs = [e for e in reversed(newest) if e.kind != "usage" and '"spent":' in e.about]
        costs = [e for e in costs if f'"{AGAIN}":' not in e.about]  # to make a fold again costs nothing
        bills = tuple(Bill(at=e.at, spent=s) for e in costs if (s := Spent.read(e.beside.get("spent"))).calls)
        attempts = (entry for entry in newest if entry.kind == "attempt" and '"own":' in entry.about)
        own = (entry.beside.get("own") for entry in attempts)
        return replace(
            self,
            own=max(self.own, Spent.read(next(own, None)), key=_calls),
            summaries=max(self.summaries, total, key=_calls),
            bills=max(self.bills, bills, key=len),
        )


def _calls(sums: Spent) -> int:
    return sums.calls


@dataclass(slots=True)
class Accounting:
    """Usage, spending and the circuit breaker of one session."""

    report: UsageReport | None = None
    spending: SpendingTotals = field(default_factory=SpendingTotals)
    breaker: circuit_breaker.Breaker = field(default_factory=circuit_breaker.Breaker)
    fold_sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Tokens before and after each fold."""
    trial: TrialFold | None = None
    prepared: SentRequest | None = None
    """The request that was prepared last."""
    shown: SentRequest | None = None
    """The view that the caller was given since; it may be sent as well."""
    doubted: Doubted | None = None
    """The last report, if it was not believed."""
    refused: bool = False
    """True if the provider has refused this turn for its size."""
    learned_window: int | None = None
    """The window that refusals have taught; 0 for none, None if the store was not asked yet."""
    given_window: Window | None = None
    """The window that was given, with what is known of its model; None if nobody has looked yet."""
    ask_window: int | None = None
    """The window of the summariser that its refusals have taught; None for none."""
    crowded: bool = False
    """True if the caller was warned that system prompt and tools leave little room."""
    turned_down: int = 0
    """The number of the last message of which a summary was turned down; 0 for none."""

    @property
    def totals(self) -> Totals:
        """Tokens of all requests: those that the sums of money count."""
        own = self.spending.own.as_dict()
        return Totals(requests=own["calls"], **{name: own[name] for name in Totals.__slots__[1:]})

    def record_breaker_event(
        self, event: circuit_breaker.BreakerEvent, at: float, began: float | None = None
    ) -> None:
        """Tell the circuit breaker what happened, and when that began if it took its time."""
        self.breaker = circuit_breaker.record_event(self.breaker, event, at, began)

    def note_request(self, request: SentRequest) -> None:
        """Note the request that the caller sends next."""
        self.prepared, self.shown = request, None

    def note_shown(self, request: SentRequest) -> None:
        """Note a list that the caller was given and may send."""
        self.shown = request

    def find_request(self, reported: int | None) -> SentRequest | None:
        """Return the request that a report belongs to; None if no list was given out.

        A view may be sent or only looked at, so of the two the one is taken that comes closer to the report.
        Without a number it is the newer one.
        """
        shown, prepared = self.shown, self.prepared
        if reported is None or shown is None or prepared is None:
            return prepared if shown is None else shown
        return min((shown, prepared), key=lambda request: abs(reported - request.expected))

    def renew_request(self, request: SentRequest) -> SentRequest:
        """Return a prepared request as it stands to the view now."""
        last = self.prepared
        if last is not None and (last is request or replace(last, holds=request.holds) == request):
            return last
        return replace(request, holds=False, overtaken=True)

    def check_requests(self, folds: tuple[str, ...], said: int) -> None:
        """Note which requests still stand at the front of a view with these folds and this many messages."""
        self.prepared, self.shown = (
            request
            and replace(request, holds=request.holds and request.folds == folds and request.said <= said)
            for request in (self.prepared, self.shown)
        )

    def end_requests(self) -> None:
        """Note that other messages stand at the front now than in the requests that were given out."""
        self.prepared, self.shown = (
            request and replace(request, holds=False) for request in (self.prepared, self.shown)
        )

    def note_refusal(self, *, refused: bool) -> None:
        """Note whether this turn was refused for its size."""
        self.refused = refused

    def note_window(self, tokens: int) -> None:
        """Note the window that refusals have taught; 0 for none."""
        self.learned_window = tokens

    def note_given_window(self, window: Window) -> None:
        """Note the window that was given: it is the same until the settings change."""
        self.given_window = window

    def note_crowding(self) -> None:
        """Note that the caller was warned that system prompt and tools leave little room."""
        self.crowded = True

    def note_turned_down(self, number: int) -> None:
        """Note the number of the last message of which a summary was turned down."""
        self.turned_down = number

    def note_questions(self, calls: Sequence[ModelCall]) -> None:
        """Note the window that the summariser showed by refusing questions for their size."""
        least = min([LEAST_TAUGHT, *(call.prompt_tokens for call in calls if not call.failed)])
        taught = [call.next_window for call in calls if call.next_window and call.next_window >= least]
        known = [] if self.ask_window is None else [self.ask_window]
        self.ask_window = min(known + taught, default=None)

    def replace_report(self, report: UsageReport | None) -> None:
        """Take over what the log says about usage."""
        self.report = report

    def add_usage(self, report: UsageReport, own: Spent) -> None:
        """Add a report of usage, with all sums by then."""
        self.report, self.doubted = report, None
        self.spending = quick_replace(self.spending, own=own)

    def restore_doubt(self, doubted: Doubted | None) -> None:
        """Take over a report from the log that the next one may confirm; None for none."""
        self.doubted = doubted

    def add_doubted_usage(self, doubted: Doubted | None, own: Spent) -> None:
        """Add what a request cost whose report is not believed as its size; the next one may confirm it."""
        self.doubted = doubted
        self.spending = quick_replace(self.spending, own=own)

    def invalidate_report(self) -> None:
        """Build no further on the last report: other messages stand at the front now."""
        self.end_requests()
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

    def end_trial(self, request: SentRequest) -> TrialFold | None:
        """Return the fold that a report of a request judges, and forget it.

        A fold that came while the request was under way waits for the next one: this report is not about it.
        An overtaken request may be longer than the view for other reasons.
        """
        if self.trial is None or request.overtaken or self.trial.fold not in request.folds:
            return None
        trial, self.trial = self.trial, None
        return trial

    def forget_model(self) -> None:
        """Forget what only holds for the former model: its window, its way to count, its cache."""
        self.learned_window = self.given_window = None
        self.trial = self.doubted = None
        self.note_cache_miss(missed=False)
