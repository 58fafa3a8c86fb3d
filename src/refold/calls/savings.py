"""What the policy `thrifty` would save by folding now, computed from sizes and prices; nothing is folded."""

from dataclasses import dataclass
from typing import Final

from refold.core.compaction.budget import Budget
from refold.core.models.prices import MILLION, break_even, cache_prices, request_cost
from refold.core.models.window_table import Price
from refold.core.tokens.usage import Usage
from refold.policies import presets

TURNS: Final = 10
"""Turns that a saving is told for. A fold without a model pays after about six; with one, after about ten."""
EXPECTED_SHARE: Final = 0.12
"""Assumed length of a summary, as a share of what is summarised; real ones are 5 to 15 per cent. If it is too
high, a plan looks more expensive than it is and seems to pay later."""
SUMMARY_TOKENS: Final = 4_096
"""Tokens that a summary has at most: `summary_tokens` of the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Money that the policy `thrifty` saves if it folds now, compared with carrying everything on."""

    dollars: float
    """US dollars saved over the next turns, the cost of the fold taken off; negative if it costs more."""
    turns: int
    break_even_turns: float
    """Turns after which the fold has paid for itself."""
    tokens_after: int
    """Tokens in the context after the fold."""

    def __str__(self) -> str:
        if self.dollars <= 0:
            return f"thrifty would fold now and pay for itself after {self.break_even_turns:,.0f} turns"
        amount = f"{self.dollars:,.2f}" if self.dollars >= 0.1 else f"{self.dollars:.4f}"
        return f"thrifty would fold now and save about ${amount} over the next {self.turns} turns"


def find_saving(
    budget: Budget, price: Price | None, *, summariser: Price | None = None, summary_in_cache: bool = False
) -> Saving | None:
    """Return what `thrifty` would save; None if no price is known, or if it would not fold now.

    None as well if the policy of the budget folds now: then there is nothing that `thrifty` does earlier.

    summariser         the price of the model that summarises; None if no model does
    summary_in_cache   the summary is asked for as one more turn of the cached conversation
    """
    thrifty, fixed = presets.get("thrifty"), budget.breakdown.fixed
    line = thrifty.trigger.line(budget.room, fixed)
    if price is None or budget.should_compact or line is None or budget.used < line or thrifty.target is None:
        return None
    history = thrifty.target.history(budget.window, budget.room, fixed)
    saved = budget.used - fixed - history
    read, write = cache_prices(price)
    cost = history * (write - read) / MILLION
    if summariser is not None:
        summary = min(round(saved * EXPECTED_SHARE), SUMMARY_TOKENS)
        question = Usage(input=saved, output=summary)
        if summary_in_cache:
            question = Usage(input=budget.used, cache_read=budget.used, output=summary)
        cost += request_cost(question, summariser)
    turns = break_even(cost, price, saved=saved)
    if turns is None:
        return None
    dollars = TURNS * saved * read / MILLION - cost
    return Saving(dollars=dollars, turns=TURNS, break_even_turns=turns, tokens_after=fixed + history)
