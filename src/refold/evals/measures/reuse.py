"""Re-use: measure how much of what an agent saw before a cut, and writes after it, is still in the view.

Paths, identifiers and values count. The system prompt and the first message do not: every view has them.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from refold.evals.datasets import Run
from refold.evals.methods import Comparison, Method, Wire, count_head, count_tokens
from refold.evals.tables import Tally, make_row
from refold.replay.reused_names import find_entities, has_name, join_texts

CUTS: Final = (0.4, 0.6, 0.8)
"""Places where histories are cut, as shares of their messages."""
OWN: Final = "its own summary"
"""The row of the summaries that the recorded agents wrote themselves."""


def find_reused(history: Wire, cut: int) -> set[str]:
    """Find the names seen before the cut that the model writes after it before it sees them again."""
    head = find_entities(join_texts(history[: count_head(history)]))
    seen = find_entities(join_texts(history[:cut])) - head
    again: set[str] = set()
    reused: set[str] = set()
    for message in history[cut:]:
        known = find_entities(join_texts([message])) & seen
        if message["role"] == "assistant":
            reused |= known - again
        again |= known
    return reused


def measure_reuse(
    name: str, runs: Sequence[Run], comparison: Comparison, shares: Sequence[float]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of each method at each share of the tokens behind the head."""
    cases: list[tuple[Run, int]] = []
    for run in runs:
        places = [*((run.boundary,) if run.boundary else ()), *(int(len(run.messages) * cut) for cut in CUTS)]
        cases += [(run, _next_assistant(run.messages, at)) for at in places]
    for share in shares:
        comparison.begin()
        tallies = {method.name: Tally() for method in comparison.methods}
        for number, (run, cut) in enumerate(cases):
            comparison.progress(f"re-use, {name}, {share:.0%}", number, len(cases))
            before, wanted = run.messages[:cut], find_reused(run.messages, cut)
            budget = int(count_tokens(before[count_head(before) :]) * share)
            for method in comparison.methods:
                _fold_once(method, (before, wanted), budget, comparison, tallies[method.name])
        for method_name, tally in tallies.items():
            yield make_row(f"re-use, {name}, {share:.0%}", method_name, tally)
    own = [run for run in runs if run.boundary]
    if own:
        yield from _compare_own_compactions(name, own, comparison)


def _fold_once(
    method: Method, case: tuple[Wire, set[str]], budget: int, comparison: Comparison, tally: Tally
) -> None:
    """Fold the history before a cut once, with a budget on top of the head, and count what is kept."""
    before, wanted = case
    head = count_head(before)
    size, fixed = count_tokens(before[head:]), count_tokens(before[:head])
    trial = comparison.trial(method, before, fixed + budget)
    tally.count_fold(trial.asks, trial.why)
    if trial.view is not None:
        text = join_texts(trial.view)
        kept = sum(has_name(text, entity) for entity in wanted)
        taken = count_tokens(trial.view)
        tally.add(kept, len(wanted), tokens=max(0, taken - fixed), of=size)  # some methods also lose the head
        tally.count_tokens(taken, fixed + budget)


def _compare_own_compactions(
    name: str, runs: Sequence[Run], comparison: Comparison
) -> Iterator[dict[str, Any]]:
    """Yield the rows at the agents' own compactions, with as many tokens as their summaries have."""
    comparison.begin()
    tallies = {OWN: Tally()} | {method.name: Tally() for method in comparison.methods}
    for run in runs:
        cut = run.boundary or 0
        before = run.messages[:cut]
        head = count_head(before)
        wanted = find_reused(run.messages, cut)
        size = count_tokens(before[head:])
        own = count_tokens([{"role": "user", "content": run.summary}])
        kept = sum(has_name(run.summary, entity) for entity in wanted)
        tallies[OWN].add(kept, len(wanted), tokens=own, of=size)
        for method in comparison.methods:
            _fold_once(method, (before, wanted), own, comparison, tallies[method.name])
    for method_name, tally in tallies.items():
        yield make_row(f"re-use, {name}, at their own compactions", method_name, tally)


def _next_assistant(history: Wire, at: int) -> int:
    while at < len(history) - 1 and history[at]["role"] != "assistant":
        at += 1
    return at
