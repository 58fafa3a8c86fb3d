"""Replay real usage traces under prices: every preset, the default, and the best policy that a search finds.

Rows exist for each price table, for all data and for each kind of it. A policy counts as best only if no
single replay of any kind costs more than without compaction, with summaries by a model or without.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

from refold.core.compaction.policy import Policy
from refold.core.models.prices import find_price, request_cost
from refold.core.models.windows import Price
from refold.core.tokens.usage import Usage
from refold.errors import RefoldError
from refold.evals.traces import SECONDS, read_traces
from refold.policies import presets
from refold.replay import NONE, Recorded, Run, play
from refold.replay.player import Summaries

PRICES: Final = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5", "gemini": "gemini-2.5-pro"}
"""The model whose prices are used for each maker; the ratios are the same for its other models."""
ALL: Final = "all"
"""The row of all kinds together."""
JUDGED: Final = (ALL, "anthropic")
"""The row that decides: all data, at the prices of the most expensive cache."""
WITHIN: Final = 0.05
"""The largest allowed distance of `thrifty` from the best."""
_SLACK: Final = 1e-9
_MISCOUNT: Final = {"refold": 1.1, "thrifty": 1.1}
_MISCOUNT_ELSEWHERE: Final = 1.6
"""Factor by which a policy's own count may be larger than ours; other systems count differently."""

HISTORY: Final = (16_000, 24_000, 32_000, 40_000, 48_000, 64_000, 96_000)
TARGETS: Final = (5_000, 8_000, 12_000, 16_000, 20_000)
_DEEPEST: Final = 0.55
"""The largest target as a share of the trigger; a larger one folds again at once."""


def iter_knobs() -> Iterator[dict[str, Any]]:
    """Yield the knobs of the search: when to fold, and to which size."""
    for history, target in product(HISTORY, TARGETS):
        if target <= history * _DEEPEST:
            yield {"history_tokens": history, "target_tokens": target}
    for fraction, share in product((0.5, 0.85), (0.2, 0.55)):
        yield {"trigger_fraction": fraction, "target_fraction": share}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The cost of one policy over all conversations of a kind, at one price."""

    policy: str
    dollars: float
    against_none: float
    """Relative extra cost; negative if cheaper."""
    folds: int
    facts: float | None
    """The share of re-used facts still in view; None if nothing was folded."""
    dearer: int
    """Conversations that cost more than without compaction."""
    worst: float
    """The largest cost of one conversation relative to no compaction."""
    knobs: Mapping[str, Any] = field(default_factory=dict)
    never_dearer: bool = True
    """True if no conversation of any kind costs more, with summaries by a model or without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of data at one price, with or without summaries by a model."""

    kind: str
    price: str
    summaries: str
    none: float
    """Dollars without compaction."""
    bills: tuple[Bill, ...]
    default: Bill
    thrifty: Bill
    best: Bill
    cheapest: Bill
    """The cheapest of the search, whatever it forgets."""
    curve: tuple[Bill, ...] = ()
    """Every policy of the search."""

    @property
    def gap(self) -> float:
        """Extra cost of `thrifty` relative to the best."""
        return self.thrifty.dollars / self.best.dollars - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationError:
    """The error of the replay without compaction, compared with the providers' reports."""

    requests: int
    size_error: float
    """The mean relative error of the size of a request."""
    cached_reported: float
    cached_simulated: float
    """Shares of the input that came from the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All rows, and how accurate the replay is."""

    window: int
    conversations: Mapping[str, int]
    rows: tuple[Row, ...]
    simulated: Mapping[str, SimulationError]

    @property
    def never_dearer(self) -> bool:
        """True if no conversation costs more under the default or thrifty, at Anthropic's prices."""
        return not any(row.default.dearer or row.thrifty.dearer for row in self._judged)

    @property
    def within(self) -> bool:
        """True if `thrifty` is close enough to the best over all data, at Anthropic's prices."""
        return all(row.gap <= WITHIN for row in self._judged)

    @property
    def _judged(self) -> list[Row]:
        return [row for row in self.rows if (row.kind, row.price) == JUDGED]

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        rows = [{**asdict(row), "gap": row.gap} for row in self.rows]
        return {**asdict(self), "rows": rows, "never_dearer": self.never_dearer, "within": self.within}


Progress = Callable[[str, int, int], None]


def measure(
    folder: Path,
    *,
    window: int = 200_000,
    summaries: Sequence[Summaries] = ("passed over", "stand-in"),
    sample: int | None = None,
    search: Sequence[Mapping[str, Any]] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Replay every conversation of a folder under every policy."""
    traces = {kind: recorded[:sample] for kind, recorded in read_traces(folder).items()}
    if not traces:
        raise RefoldError(f"{folder} holds no usage traces: agent runs, Claude Code transcripts, tau-bench")
    points = list(iter_knobs()) if search is None else list(search)
    policies = {name: presets.get(name) for name in presets.PRESETS}
    policies |= {_format_knobs(knobs): presets.get("refold", **knobs) for knobs in points}
    total = len(traces) * len(summaries) * len(policies)
    played: dict[tuple[str, str], PlayedRuns] = {}
    simulated = {}
    for kind, recorded in traces.items():
        none = [_play(trace, NONE, window, "passed over", kind) for trace in recorded]
        if checked := compare_with_reports(recorded, none):
            simulated[kind] = checked
        for summary_mode in summaries:
            runs: dict[str, list[Run]] = {}
            for name, policy in policies.items():
                if progress is not None:
                    done = len(played) * len(policies) + len(runs)
                    progress(f"{kind}, summaries {summary_mode}: {name}", done, total)
                runs[name] = [
                    _play(trace, policy, window, summary_mode, kind)
                    if _may_fold(policy, window, plain)
                    else plain
                    for trace, plain in zip(recorded, none, strict=True)
                ]
            played[summary_mode, kind] = PlayedRuns(none, runs)
    never_dearer = {price: _find_never_dearer(price, played) for price in PRICES}
    rows = [
        _make_row(summary_mode, price, kinds, played, points, never_dearer=never_dearer[price])
        for summary_mode in summaries
        for price in PRICES
        for kinds in (tuple(traces), *((kind,) for kind in traces if len(traces) > 1))
    ]
    sizes = {kind: len(recorded) for kind, recorded in traces.items()}
    return Report(window=window, conversations=sizes, rows=tuple(rows), simulated=simulated)


@dataclass(frozen=True, slots=True)
class PlayedRuns:
    """The runs of one kind: without compaction, and under each policy."""

    none: Sequence[Run]
    runs: Mapping[str, Sequence[Run]]


def _format_knobs(knobs: Mapping[str, Any]) -> str:
    return " ".join(f"{knob}={value}" for knob, value in knobs.items())


def _play(recorded: Recorded, policy: Policy | str, window: int, summary_mode: Summaries, kind: str) -> Run:
    return play(
        recorded, policy, window=window, summaries=summary_mode, cache_seconds=SECONDS.get(kind, 300.0)
    )


def _may_fold(policy: Policy, window: int, none: Run) -> bool:
    """True if a policy can reach its trigger; most short runs need no replay."""
    line = policy.trigger.line(window // 2)
    return line is not None and none.peak * _MISCOUNT.get(policy.name, _MISCOUNT_ELSEWHERE) >= line


def price_run(run: Run, price: Price) -> float:
    """Return the cost of a run in dollars."""
    calls = run.calls
    spent = request_cost(Usage(input=calls.input, output=calls.output), price)
    for turn in run.turns:
        usage = Usage(
            input=turn.tokens, output=turn.output, cache_read=turn.cache_read, cache_write=turn.cache_write
        )
        spent += request_cost(usage, price)
    return spent


def _make_row(
    summary_mode: str,
    price: str,
    kinds: Sequence[str],
    played: Mapping[tuple[str, str], PlayedRuns],
    points: Sequence[Mapping[str, Any]],
    *,
    never_dearer: Collection[str],
) -> Row:
    """Make one row of the report for these kinds together."""
    played_kinds = [played[summary_mode, kind] for kind in kinds]
    knobs = {_format_knobs(point): point for point in points}
    none = [run for runs in played_kinds for run in runs.none]
    bills = {
        name: _make_bill(name, [run for runs in played_kinds for run in runs.runs[name]], none, price)
        for name in played_kinds[0].runs
    }
    bills = {
        name: replace(each, knobs=knobs.get(name, {}), never_dearer=name in never_dearer)
        for name, each in bills.items()
    }
    nothing = _make_bill(NONE, none, none, price)
    curve = [bill for name, bill in bills.items() if name in knobs]
    candidates = [bill for bill in (*curve, bills["refold"], bills["thrifty"]) if bill.never_dearer]
    return Row(
        kind=kinds[0]
        if len(kinds) == 1 and len(played) > len({summary_mode for summary_mode, _ in played})
        else ALL,
        price=price,
        summaries=summary_mode,
        none=nothing.dollars,
        bills=tuple(bills[name] for name in presets.PRESETS),
        default=bills["refold"],
        thrifty=bills["thrifty"],
        best=min((nothing, *candidates), key=lambda bill: bill.dollars),
        cheapest=min((nothing, *curve), key=lambda bill: bill.dollars),
        curve=tuple(curve),
    )


def _find_never_dearer(price: str, played: Mapping[tuple[str, str], PlayedRuns]) -> set[str]:
    """Return the policies under which no single conversation costs more than without compaction."""
    return {
        name
        for name in next(iter(played.values())).runs
        if not any(_make_bill(name, each.runs[name], each.none, price).dearer for each in played.values())
    }


def _make_bill(name: str, runs: Sequence[Run], none: Sequence[Run], price: str) -> Bill:
    table = find_price(PRICES[price])
    if table is None:
        raise RefoldError(f"the model table has no price for {PRICES[price]}")
    paid, plain = [price_run(run, table) for run in runs], [price_run(run, table) for run in none]
    reused = sum(fold.reused for run in runs for fold in run.folds)
    ratios = [each / before for each, before in zip(paid, plain, strict=True) if before]
    return Bill(
        policy=name,
        dollars=sum(paid),
        against_none=sum(paid) / sum(plain) - 1,
        folds=sum(len(run.folds) for run in runs),
        facts=sum(fold.kept for run in runs for fold in run.folds) / reused if reused else None,
        dearer=sum(ratio > 1 + _SLACK for ratio in ratios),
        worst=max(ratios, default=1.0),
    )


def compare_with_reports(recorded: Sequence[Recorded], none: Sequence[Run]) -> SimulationError | None:
    """Compare the replay without compaction with what was reported, up to the recorder's own compaction."""
    errors: list[float] = []
    reported = simulated = read = cached = 0
    for each, run in zip(recorded, none, strict=True):
        last = 0
        for turn in run.turns:
            usage = each.usages.get(turn.at)
            if usage is None or usage.context < last * 0.7:
                break
            last = usage.context
            errors.append(abs(turn.tokens - usage.context) / usage.context)
            reported, read = reported + usage.context, read + usage.cache_read
            simulated, cached = simulated + turn.tokens, cached + turn.cache_read
    if not errors:
        return None
    return SimulationError(
        requests=len(errors),
        size_error=sum(errors) / len(errors),
        cached_reported=read / reported,
        cached_simulated=cached / simulated,
    )
