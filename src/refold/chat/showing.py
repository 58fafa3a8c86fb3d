"""What a chat shows, as values: notes, tables, meters; and numbers as people read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from refold.core.compaction.budget import Budget

Style: TypeAlias = Literal["plain", "bold", "dim", "cyan", "yellow", "red"]


@dataclass(frozen=True, slots=True)
class Note:
    """A line, or several."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under each other; `align` has a letter for each column: l or r. The last column may be cut."""

    rows: tuple[tuple[str, ...], ...]
    align: str
    header: bool = False


@dataclass(frozen=True, slots=True)
class Gauge:
    """How full the window is, as a bar."""

    budget: Budget


Shown: TypeAlias = Note | Table | Gauge


class Person(Protocol):
    """Who sits in front of the chat."""

    def show(self, *shown: Shown) -> None:
        """See something."""
        ...

    def choose(self, question: str, answers: Sequence[str], about: Shown | None = None) -> str:
        """Choose one of the answers, with this in view; the first one where nobody can be asked."""
        ...

    def edit(self, text: str) -> str | None:
        """Change a text; None to leave it."""
        ...


def rough(tokens: int) -> str:
    """A number of tokens as people say it.

    >>> rough(812), rough(8_190), rough(128_000), rough(1_500_000)
    ('812', '8.2K', '128K', '1.5M')
    """
    for size, letter in ((1_000_000, "M"), (1_000, "K")):
        if tokens >= size:
            return f"{tokens / size:.1f}".removesuffix(".0") + letter
    return str(tokens)


def size_line(budget: Budget) -> Note:
    """The size of the context in Umwelten's words."""
    messages = f"{budget.messages:,} message{'s' * (budget.messages != 1)}"
    return Note(f"[Context: {messages}, ~{rough(budget.used)} tokens]", "dim")


def warning(budget: Budget, *, compacts: bool) -> Note | None:
    """A word on how full the context is, in NeuroLink's; None below 60 %."""
    if budget.ratio < 0.6:
        return None
    share = f"{budget.ratio:.0%}"
    if budget.ratio < 0.8:
        return Note(f"  Context: {share} used", "dim")
    next_step = (
        "Auto-compaction will trigger to preserve conversation quality."
        if compacts
        else "Auto-compaction is off: /compact folds now."
    )
    numbers = f"{budget.used:,} / {budget.room:,} tokens"
    return Note(f"  Context usage: {share} of window ({numbers})\n  {next_step}", "yellow")
