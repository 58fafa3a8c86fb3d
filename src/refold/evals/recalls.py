"""Recall: a real session with a SQLite store, and whether its search finds the turn that holds the answer."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from refold import session as sessions
from refold.evals.layouts import Talk
from refold.evals.tallies import Tally, row
from refold.evals.ways import Told

FIRST: Final = 10
"""Hits that are looked at."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What the search gave for each question of a talk."""

    places: tuple[tuple[int, ...], ...]
    texts: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, talk: Talk, told: Told) -> "Recalled":
        """Say a talk in a session of its own and ask it every question."""
        told(f"searching {talk.name}", 0, 0)
        places: list[tuple[int, ...]] = []
        texts: list[tuple[str, ...]] = []
        with (
            tempfile.TemporaryDirectory() as folder,
            sessions.open("talk", store=f"sqlite:{Path(folder) / 'log.db'}") as session,
        ):
            session.say(talk.messages)
            for question in talk.questions:
                hits = session.recall(question.text, limit=FIRST)
                places.append(tuple(hit.number - 1 for hit in hits))
                texts.append(tuple(hit.text for hit in hits))
        return cls(tuple(places), tuple(texts))


def measured(name: str, talks: Sequence[Talk], told: Told) -> Iterator[dict[str, Any]]:
    """How often a turn of the evidence is among the first ten hits."""
    tally = Tally()
    for talk in talks:
        found = Recalled.of(talk, told)
        for question, places in zip(talk.questions, found.places, strict=True):
            if question.evidence:
                tally.add(int(not set(question.evidence).isdisjoint(places)), 1)
    yield row(f"recall, evidence in the first {FIRST}, {name}", "refold", tally)
