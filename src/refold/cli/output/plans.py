"""Plans and outcomes in words: why nothing changes, and how much is saved."""

from typing import Final

from refold.calls.outcome import Outcome, Plan

EARLY: Final = "not yet: "
"""The beginning of a reason if it is not time to compact."""


def explain_no_change(result: Plan | Outcome) -> str:
    """Return why nothing changes; if it is only too early, also when it starts and how to do it now."""
    start = result.budget.trigger_tokens
    if not result.reason.startswith(EARLY):
        return result.reason
    why, *mended = result.reason.removeprefix(EARLY).split("; ")
    if start is not None:
        why = f"at {result.budget.used:,} tokens it is too early, it starts at {start:,}"
    return "; ".join([why, "--force does it now", *mended])


def format_saving(before: int, after: int) -> str:
    """Return the saving in percent; never "100%" while something is left.

    >>> format_saving(200, 50), format_saving(100_000, 60)
    ('75% less', '99.9% less')
    """
    share = (before - after) / before if before else 0.0
    return f"{int(share * 1000) / 10}% less" if share > 0.99 else f"{share:.0%} less"
