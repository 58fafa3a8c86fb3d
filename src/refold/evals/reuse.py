"""Re-use: how much of what an agent saw before a cut, and writes after it, is still in the view.

Paths, identifiers and values count. What is in the system prompt and in the first message counts for nobody:
it is in every view.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from refold.evals.layouts import Run
from refold.evals.tallies import Tally, row
from refold.evals.ways import Contest, Way, Wire, head_of, texts, tokens
from refold.replay.facts import ENTITY

CUTS: Final = (0.4, 0.6, 0.8)
"""Where histories are cut, as shares of their messages."""
OWN: Final = "its own summary"
"""The row of what a transcript's own agent wrote when it compacted."""


def shown(messages: Sequence[Any]) -> str:
    """A view as one text; arguments that travel as JSON text are opened."""
    return "\n".join(_opened(text) for text in texts(list(messages)))


def _opened(text: str) -> str:
    if text.startswith("{"):
        try:
            return "\n".join(texts(json.loads(text)))
        except ValueError:
            return text
    return text


def entities(text: str) -> set[str]:
    """Paths, identifiers and values of a text."""
    return {found.rstrip(".,:;-") for found in ENTITY.findall(text)}


def reused(history: Wire, cut: int) -> set[str]:
    """What was seen before the cut and is written after it before it is seen again."""
    head = entities(shown(history[: head_of(history)]))
    seen = entities(shown(history[:cut])) - head
    again: set[str] = set()
    found: set[str] = set()
    for message in history[cut:]:
        here = entities(shown([message])) & seen
        if message["role"] == "assistant":
            found |= here - again
        again |= here
    return found


def has(view: str, entity: str) -> bool:
    """Whether a view has a name as a whole word."""
    at = view.find(entity)
    while at >= 0:
        before, after = view[at - 1 : at] if at else "", view[at + len(entity) : at + len(entity) + 1]
        if not (before.isalnum() or before == "_") and not (after.isalnum() or after == "_"):
            return True
        at = view.find(entity, at + 1)
    return False


def measured(
    name: str, runs: Sequence[Run], contest: Contest, shares: Sequence[float]
) -> Iterator[dict[str, Any]]:
    """The rows of each way at each share of the tokens behind the head."""
    cases = [(run, _at_assistant(run.messages, at)) for run in runs for at in _cuts(run)]
    for share in shares:
        contest.begin()
        tallies = {way.name: Tally() for way in contest.ways}
        for number, (run, cut) in enumerate(cases):
            contest.told(f"re-use, {name}, {share:.0%}", number, len(cases))
            _count(run, cut, share, contest, tallies)
        for who, tally in tallies.items():
            yield row(f"re-use, {name}, {share:.0%}", who, tally)
    own = [run for run in runs if run.boundary]
    if own:
        yield from _beside_their_own(name, own, contest)


def _count(run: Run, cut: int, share: float, contest: Contest, tallies: dict[str, Tally]) -> None:
    before = run.messages[:cut]
    head = head_of(before)
    wanted = reused(run.messages, cut)
    budget = int(tokens(before[head:]) * share)
    for way in contest.ways:
        _fold(way, (before, wanted), budget, contest, tallies[way.name])


def _fold(way: Way, case: tuple[Wire, set[str]], budget: int, contest: Contest, tally: Tally) -> None:
    """One fold of what stands before a cut and is wanted, with so many tokens beside the head's."""
    before, wanted = case
    head = head_of(before)
    size, fixed = tokens(before[head:]), tokens(before[:head])
    trial = contest.trial(way, before, fixed + budget)
    tally.tried(trial.asks, trial.why)
    if trial.view is not None:
        text = shown(trial.view)
        kept = sum(has(text, entity) for entity in wanted)
        taken = tokens(trial.view)
        tally.add(kept, len(wanted), tokens=max(0, taken - fixed), of=size)  # some lose the head as well
        tally.spent(taken, fixed + budget)


def _beside_their_own(name: str, runs: Sequence[Run], contest: Contest) -> Iterator[dict[str, Any]]:
    """At the agents' own compactions, with as many tokens as their own summaries have."""
    contest.begin()
    tallies = {OWN: Tally()} | {way.name: Tally() for way in contest.ways}
    for run in runs:
        cut = run.boundary or 0
        before = run.messages[:cut]
        head = head_of(before)
        wanted = reused(run.messages, cut)
        size = tokens(before[head:])
        own = tokens([{"role": "user", "content": run.summary}])
        kept = sum(has(run.summary, entity) for entity in wanted)
        tallies[OWN].add(kept, len(wanted), tokens=own, of=size)
        for way in contest.ways:
            _fold(way, (before, wanted), own, contest, tallies[way.name])
    for who, tally in tallies.items():
        yield row(f"re-use, {name}, at their own compactions", who, tally)


def _cuts(run: Run) -> list[int]:
    own = [run.boundary] if run.boundary else []
    return [*own, *(int(len(run.messages) * cut) for cut in CUTS)]


def _at_assistant(history: Wire, at: int) -> int:
    while at < len(history) - 1 and history[at]["role"] != "assistant":
        at += 1
    return at
