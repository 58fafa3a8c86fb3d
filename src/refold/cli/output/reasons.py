"""Why nothing was changed, in the words of a person at a terminal."""

from typing import Final

from refold.calls.outcome import Outcome, Plan

EARLY: Final = "not yet: "
"""How a reason begins where it is not time to compact."""


def why_not(told: Plan | Outcome) -> str:
    """Why nothing happens; where it is only too early, from where on it does, and how to have it now."""
    line = told.budget.trigger_tokens
    if not told.reason.startswith(EARLY):
        return told.reason
    if line is None:
        return f"{told.reason.removeprefix(EARLY)}; --force does it now"
    return f"at {told.budget.used:,} tokens it is too early, it starts at {line:,}; --force does it now"
