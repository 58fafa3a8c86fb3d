"""Rows of an eval: counts with a confidence interval, a table on the screen, JSON in a file."""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from refold.errors import RefoldError
from refold.evals import Screen


def print_rows(
    rows: Iterable[dict[str, Any]], screen: Screen, file: str | None, *, about: dict[str, Any]
) -> int:
    """Print rows as they come, each measure under its name; return the exit status."""
    done: list[dict[str, Any]] = []
    last = ""
    for row in rows:
        if row["measure"] != last:
            last = row["measure"]
            screen.line(screen.paint(last, "bold"))
        screen.line(f"  {format_row(row)}")
        done.append(row)
    write_json(screen, file, {**about, "rows": done})
    return 0


def format_row(row: dict[str, Any]) -> str:
    """Return one row as text."""
    size = f"  {row['tokens']:.1%} of the tokens" if row.get("tokens") is not None else ""
    share = f"{row['kept']:6.1%}  ({row['low']:.1%} to {row['high']:.1%})"
    return f"{row['way']:<22} {share:<26} of {row['of']:,}{size}"


def write_json(screen: Screen, file: str | None, value: dict[str, Any]) -> None:
    """Write a result as JSON, if a file is named; print it for `-`."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    if file == "-":
        screen.data(text)
    if file in (None, "-"):
        return
    try:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RefoldError(f"{file} cannot be written: {error.strerror}") from None


RESAMPLES: Final = 1_000
"""Enough samples for an interval that moves by less than one point between seeds."""
SEED: Final = 7


@dataclass(slots=True)
class Tally:
    """The share that one method kept, case by case, and the tokens it used."""

    cases: list[tuple[int, int]] = field(default_factory=list)
    """Kept and wanted of each case. Cases are resampled, because things of one case depend on each other."""
    tokens: int = 0
    of: int = 0
    """The tokens of the histories."""
    taken: int = 0
    allowed: int = 0
    """Tokens of the whole views, and their budgets."""
    folds: int = 0
    asks: int = 0
    """Questions to the summariser in all folds."""
    failed: int = 0
    """Folds without a view. They are reported, and count as neither kept nor lost."""
    why: str = ""
    """Why the first of these failed."""

    def add(self, kept: int, wanted: int, *, tokens: int = 0, of: int = 0) -> None:
        """Count one case; a case in which nothing was wanted is left out."""
        if wanted:
            self.cases.append((kept, wanted))
        self.tokens += tokens
        self.of += of

    def count_tokens(self, taken: int, allowed: int) -> None:
        """Count the tokens of one view, and its budget."""
        self.taken += taken
        self.allowed += allowed

    def count_fold(self, asks: int, why: str) -> None:
        """Count one fold: its questions, and the reason if it failed."""
        self.folds += 1
        self.asks += asks
        self.failed += bool(why)
        self.why = self.why or why

    @property
    def kept(self) -> int:
        """The number of things kept."""
        return sum(kept for kept, _ in self.cases)

    @property
    def wanted(self) -> int:
        """The number of things that should be kept."""
        return sum(wanted for _, wanted in self.cases)

    @property
    def share(self) -> float:
        """The share that was kept."""
        return self.kept / max(1, self.wanted)


def bootstrap_interval(cases: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the 95 % interval of kept over wanted when cases are drawn again.

    >>> bootstrap_interval([(1, 1)] * 20)
    (1.0, 1.0)
    """
    if not cases:
        return 0.0, 0.0
    chance = random.Random(SEED)  # noqa: S311  # no secret: the same interval for everybody
    draws = (chance.choices(cases, k=len(cases)) for _ in range(RESAMPLES))
    shares = sorted(sum(kept for kept, _ in drawn) / sum(wanted for _, wanted in drawn) for drawn in draws)
    return shares[int(RESAMPLES * 0.025)], shares[int(RESAMPLES * 0.975) - 1]


def make_row(measure: str, method: str, tally: Tally, **more: Any) -> dict[str, Any]:
    """Return one line of a table as data."""
    low, high = bootstrap_interval(tally.cases)
    extra: dict[str, Any] = {}
    if tally.allowed:
        extra["of_budget"] = round(tally.taken / tally.allowed, 4)
    if tally.asks:
        extra["asks"] = round(tally.asks / tally.folds, 2)
    if tally.failed:
        extra |= {"failed": tally.failed, "folds_tried": tally.folds, "why": tally.why}
    return {
        "measure": measure,
        "way": method,
        "kept": round(tally.share, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "of": tally.wanted,
        "cases": len(tally.cases),
        "tokens": round(tally.tokens / tally.of, 4) if tally.of else None,
        **extra,
        **more,
    }
