"""Sessions whose system prompt, tools and files leave little room: warn once, and fold less often."""

import warnings
from typing import Final

from refold.core.compaction.budget import CROWDED, Budget
from refold.core.tokens.units import format_count
from refold.errors import RefoldWarning
from refold.session.state.session_state import SessionState
from refold.session.steps.context import warn_listeners

LEAST_TURNS: Final = 4
"""Turns of the model between two folds where system prompt and tools leave little room. Fewer fold so often
that every second request is read anew at the full price; more keep less of the history at each fold."""


def is_crowded(state: SessionState, budget: Budget) -> bool:
    """True if system prompt, tools and files take so much of the room that little else fits."""
    return find_fixed_tokens(state, budget) > CROWDED * budget.room


def find_fixed_tokens(state: SessionState, budget: Budget) -> int:
    """Return the tokens of system prompt, tools and files, system messages in the history included."""
    parts = budget.breakdown
    return parts.system + parts.tools + parts.files + state.loaded.system_tokens


def warn_of_crowding(state: SessionState, budget: Budget) -> None:
    """Tell the caller and the listeners, once in a session, that little of the conversation fits."""
    if state.accounting.crowded:
        return
    fixed = find_fixed_tokens(state, budget)
    text = (
        f"system prompt, tools and files take {fixed:,} of the {budget.room:,} tokens that fit"
        f" ({fixed / budget.room:.0%}), so that little of the conversation stays:"
        " use a larger window, fewer tools or a shorter system prompt"
    )
    state.accounting.note_crowding()
    warn_listeners(state, budget, text)
    warnings.warn(text, RefoldWarning, stacklevel=2)


def explain_wait(state: SessionState, budget: Budget) -> str:
    """Return why the next fold of a crowded session has to wait; "" if it may be made."""
    # A policy that leaves no room for the answer cannot wait until the room is full.
    if not budget.used <= budget.room < budget.window:
        return ""
    folds = state.shortening_folds()
    if not folds:
        return ""
    new = min(state.view.said - folds[-1].said, len(state.loaded.messages))
    since = state.loaded.messages[-new:] if new > 0 else ()
    turns = sum(message.role == "assistant" for message in since)
    if turns >= LEAST_TURNS:
        return ""
    return f"the last fold was {format_count(turns, 'turn')} ago, and the context still fits"


def measure_next_turns(state: SessionState) -> int:
    """Return the tokens of the newest turns, as many as should fit behind the next fold."""
    loaded, turns, units = state.loaded, 0, 0
    for place in range(len(loaded.messages) - 1, loaded.fixed - 1, -1):
        units += loaded.sizes[place]
        turns += loaded.messages[place].role == "assistant"
        if turns == LEAST_TURNS:
            break
    return loaded.counter.tokens(units * LEAST_TURNS // turns) if turns else 0
