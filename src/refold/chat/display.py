"""The output of a chat as values: notes, tables, gauges; and the interface that shows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from refold.calls.outcome import Receipt
from refold.core.compaction.budget import Budget
from refold.core.compaction.task import NO_MODEL

FILLING: Final = 0.6
NEARLY_FULL: Final = 0.8
"""Shares of the room at which the user is warned."""
NOTHING_MAY_LEAVE: Final = "nothing may leave yet"
_TOO_LITTLE: Final = ("not smaller", "not be smaller", NOTHING_MAY_LEAVE, "summarize: nothing to do")
"""Ends of the reasons of stages that fold any text of which there is enough."""
Style: TypeAlias = Literal["plain", "bold", "dim", "cyan", "yellow", "red"]


@dataclass(frozen=True, slots=True)
class Note:
    """One or more lines of text."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; `align` has a letter for each column, l or r; a last L may be cut."""

    rows: tuple[tuple[str, ...], ...]
    align: str
    header: bool = False


@dataclass(frozen=True, slots=True)
class Gauge:
    """A bar that shows how full the window is."""

    budget: Budget


Displayable: TypeAlias = Note | Table | Gauge


class UserInterface(Protocol):
    """The user interface of a chat; a terminal, or a stand-in for tests."""

    def show(self, *shown: Displayable) -> None:
        """Show something."""

    def choose(
        self,
        question: str,
        answers: Sequence[str],
        about: Displayable | None = None,
        *,
        takes_lines: bool = False,
    ) -> str:
        """Let the user choose an answer with `about` in view; the first one if nobody can be asked.

        takes_lines   return any other line that is typed, in place of asking again
        """

    def edit(self, text: str) -> str | None:
        """Let the user edit a text; None if the user gives up and leaves it as it was."""


def format_tokens(tokens: int) -> str:
    """Return a number of tokens, rounded for people.

    >>> format_tokens(812), format_tokens(8_190), format_tokens(128_000), format_tokens(1_500_000)
    ('812', '8.2K', '128K', '1.5M')
    """
    for size, letter in ((1_000_000, "M"), (1_000, "K")):
        if tokens >= size:
            return f"{tokens / size:.1f}".removesuffix(".0") + letter
    return str(tokens)


def format_share(budget: Budget) -> str:
    """Return how full the room is, and how large it is.

    The room is what may go in: the window less what is kept free for the answer.
    """
    return f"{budget.ratio:.0%} of the {format_tokens(budget.room)} room"


def context_line(budget: Budget) -> Note:
    """Return the size of the context in one line, which stands out where the room is nearly full."""
    messages = f"{budget.messages:,} message{'s' * (budget.messages != 1)}"
    size = f"~{format_tokens(budget.used)} tokens, {format_share(budget)}"
    return Note(f"[Context: {messages}, {size}]", "dim" if budget.ratio < NEARLY_FULL else "yellow")


def context_warning(budget: Budget, *, compacts: bool, paused: str = "") -> Note | None:
    """Return a warning that the context is filling; None below 60 %, more urgent from 80 %.

    80 % is where the policies that name a share fold by themselves; 60 % leaves some turns before that.

    paused   until when nothing is folded by itself
    """
    if budget.ratio < FILLING:
        return None
    share = f"{budget.ratio:.0%} of the room"
    if budget.ratio < NEARLY_FULL:
        return Note(f"  Context: {share} used", "dim")
    next_step = "Auto-compaction will trigger to preserve conversation quality."
    if paused:
        next_step = f"Auto-compaction pauses until {paused}: /compact folds now."
    elif not compacts:
        next_step = "Auto-compaction is off: /compact folds now."
    numbers = f"{budget.used:,} / {budget.room:,} tokens"
    return Note(f"  Context usage: {share} ({numbers})\n  {next_step}", "yellow")


def explain_no_summary(receipt: Receipt) -> str:
    """Return why no model has written the summary of a fold; "" if one has, or nobody was to be asked."""
    missed = (stage for stage in receipt.stages if (stage.calls or stage.capped) and not stage.accepted)
    return next((stage.reason for stage in missed), "")


def explain_no_fold(reason: str, tokens: int | None = None) -> str:
    """Return the reason of an outcome behind words that say already that nothing was folded.

    tokens   the size of what was said; None if something else than its size may keep it in view, as pins do

    >>> explain_no_fold("nothing to compact: summarize: the model failed: AnswerFailed: m failed (500)")
    'summarize: the model failed: m failed (500)'
    >>> explain_no_fold("nothing to compact: thinking: nothing to do; digest: not smaller", 16)
    'there is too little to fold yet (16 tokens)'
    """
    listed = reason.removeprefix("nothing to compact: ")
    found_little = any(part.endswith(_TOO_LITTLE) for part in listed.split("; "))
    if tokens is not None and found_little and listed != reason and "the model failed" not in reason:
        return f"there is too little to fold yet ({tokens:,} tokens)"
    listed = listed.replace("the model failed: AnswerFailed: ", "the model failed: ")
    # Somebody who chats has a model: it only does not write the summaries.
    return listed.replace(NO_MODEL, "no summariser was named (--ask names one)")
