"""The same with a real model: rules and facts in short talks, folded once, each library with the same model.

A model on a processor reads tens of tokens a second, so the talks are short and there are as many as the time
allows: a talk is folded under every way before the next begins, and the rows tell how many talks there were.
"""

import random
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, Self

from bench.extractive import opened

from refold.clients import open_client
from refold.core.compaction.flow import Answer, Ask
from refold.evals.datasets import Dataset
from refold.evals.measures import planted_facts
from refold.evals.methods import Comparison, count_tokens
from refold.evals.tables import Tally, make_row

FIRST_TOKENS, LATER_TOKENS = 250, 500
"""Of the talk in which rules and facts are said, and of what is said after them, about: more than a view
may have, so that no tail reaches back to them."""
SHARE: Final = 0.4
"""Tokens of a view, as a share of the talk."""
SUMMARY_TOKENS: Final = 160
"""Of an answer at most, whoever asks."""
MOST_ASKS: Final = 12
"""How often a library may ask in one fold; each question takes a minute or more."""
GROUP: Final = 5
"""Rules in a talk, and as many facts."""
MOST: Final = 40
"""Talks."""


class Model:
    """A model on this machine that answers everybody in the same way."""

    def __init__(self, file: str) -> None:
        self._client = open_client(file if file == "local" else f"local:{file}")
        self.model, self.window = self._client.model, self._client.window

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def __call__(self, asked: Ask) -> Answer:
        """Answer: a request's own system prompt stays one, and no answer is longer than any other may be."""
        system, text = opened(asked.text)
        most = min(asked.max_tokens or SUMMARY_TOKENS, SUMMARY_TOKENS)
        return self._client.ask(
            Ask(text, system=asked.system or system, max_tokens=most, purpose=asked.purpose)
        )


def measured(
    found: Dataset, comparison: Comparison, seed: int, minutes: float
) -> Iterator[list[dict[str, Any]]]:
    """All rows so far, after every talk and every way."""
    until = time.monotonic() + minutes * 60
    pool = planted_facts.collect_talks(found, seed, FIRST_TOKENS)
    chance = random.Random(seed)  # noqa: S311  # the same talks for everybody
    order = chance.sample(range(len(pool)), min(MOST, len(pool)))
    tallies = {(kind, way.name): Tally() for kind in ("rules", "facts") for way in comparison.methods}
    rules, facts = planted_facts.read_rules("fresh"), planted_facts.make_facts(MOST * GROUP, seed)
    for number, at in enumerate(order):
        if time.monotonic() > until:
            return
        mine = {
            "rules": [rules[(number * GROUP + place) % len(rules)] for place in range(GROUP)],
            "facts": facts[number * GROUP : (number + 1) * GROUP],
        }
        said = [one.text for pair in zip(*mine.values(), strict=True) for one in pair]
        talk, later = planted_facts.next_talk(pool, at, FIRST_TOKENS * 2 // 3)
        rest, _ = planted_facts.next_talk(pool, later, LATER_TOKENS)
        history = planted_facts.with_system_prompt([*planted_facts.insert_statements(talk, said), *rest])
        size = count_tokens(history)
        for way in comparison.methods:
            comparison.progress(f"talk {number + 1}, {size:,} tokens, {way.name}", number, len(order))
            begun = time.monotonic()
            trial = comparison.trial(way, history, int(size * SHARE))
            print(
                f"talk {number + 1} ({size:,} tokens), {way.name}: {trial.asks} asks,"
                f" {time.monotonic() - begun:.0f} s {trial.why}",
                flush=True,
            )
            for kind, planted in mine.items():
                seen = planted_facts.FoldedView(trial, size, int(size * SHARE))
                planted_facts.count_kept(planted, seen, tallies[kind, way.name])
        yield [
            make_row(f"planted {kind}, one fold", way, tally, talks=number + 1)
            for (kind, way), tally in tallies.items()
        ]
