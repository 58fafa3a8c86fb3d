"""Kept of all over many cases, with a confidence interval: resampled cases, seeded, so that runs agree."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

RESAMPLES: Final = 1_000
"""Enough for an interval that moves by less than a point from seed to seed."""
SEED: Final = 7


@dataclass(slots=True)
class Tally:
    """What one way kept, case by case, and the tokens it took."""

    cases: list[tuple[int, int]] = field(default_factory=list)
    """Kept and wanted of each case; cases are what is resampled, for things of one case stand together."""
    tokens: int = 0
    of: int = 0
    """The tokens that there were."""
    taken: int = 0
    allowed: int = 0
    """Tokens of the whole views, and those that they were allowed."""
    folds: int = 0
    asks: int = 0
    """How often the summariser was asked in all folds."""
    failed: int = 0
    """Folds that gave no view; they are said, and nothing is counted as kept or lost."""
    why: str = ""
    """Why the first of them failed."""

    def add(self, kept: int, wanted: int, *, tokens: int = 0, of: int = 0) -> None:
        """Count one case; one in which nothing was wanted says nothing about what was kept."""
        if wanted:
            self.cases.append((kept, wanted))
        self.tokens += tokens
        self.of += of

    def spent(self, taken: int, allowed: int) -> None:
        """Count the tokens of one whole view, and those that it was allowed."""
        self.taken += taken
        self.allowed += allowed

    def tried(self, asks: int, why: str = "") -> None:
        """Count one fold: how often it asked, and why it failed where it did."""
        self.folds += 1
        self.asks += asks
        self.failed += bool(why)
        self.why = self.why or why

    @property
    def kept(self) -> int:
        """How much was kept."""
        return sum(kept for kept, _ in self.cases)

    @property
    def wanted(self) -> int:
        """How much there was to keep."""
        return sum(wanted for _, wanted in self.cases)

    @property
    def share(self) -> float:
        """Kept of all."""
        return self.kept / max(1, self.wanted)

    @property
    def size(self) -> float | None:
        """Tokens of all; None where no share makes sense."""
        return self.tokens / self.of if self.of else None

    def interval(self, seed: int = SEED) -> tuple[float, float]:
        """The 95 % bootstrap interval of the share."""
        return bootstrap(self.cases, seed)


def bootstrap(cases: Sequence[tuple[int, int]], seed: int = SEED) -> tuple[float, float]:
    """The 95 % interval of kept over wanted when cases are drawn again.

    >>> bootstrap([(1, 1)] * 20)
    (1.0, 1.0)
    """
    if not cases:
        return 0.0, 0.0
    chance = random.Random(seed)  # noqa: S311  # no secret: the same interval for everybody
    shares = sorted(_share(chance.choices(cases, k=len(cases))) for _ in range(RESAMPLES))
    return shares[int(RESAMPLES * 0.025)], shares[int(RESAMPLES * 0.975) - 1]


def _share(cases: Sequence[tuple[int, int]]) -> float:
    return sum(kept for kept, _ in cases) / sum(wanted for _, wanted in cases)


def row(measure: str, way: str, tally: Tally, **more: Any) -> dict[str, Any]:
    """One line of a table, as data."""
    low, high = tally.interval()
    size = tally.size
    told: dict[str, Any] = {}
    if tally.allowed:
        told["of_budget"] = round(tally.taken / tally.allowed, 4)
    if tally.asks:
        told["asks"] = round(tally.asks / tally.folds, 2)
    if tally.failed:
        told |= {"failed": tally.failed, "folds_tried": tally.folds, "why": tally.why}
    return {
        "measure": measure,
        "way": way,
        "kept": round(tally.share, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "of": tally.wanted,
        "cases": len(tally.cases),
        "tokens": None if size is None else round(size, 4),
        **told,
        **more,
    }
