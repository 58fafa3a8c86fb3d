"""The default policy, `refold`: cheapest stages first, floors that need no model and always end.

Its knobs, and its counter for each provider. docs/systems/refold.md explains it; decision 15 tells how the
numbers of when to fold were found.
"""

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from refold.arguments import check_arguments
from refold.core.compaction.budget import Reserve, Target, Trigger
from refold.core.compaction.policy import Policy, make_stages_later
from refold.core.models.windows import lookup, provider_of
from refold.core.tokens.counting import ESTIMATE_COUNTER, Counter, count_media_tokens, remember_sizes
from refold.core.tokens.estimate import FAMILY, estimate
from refold.policies.knobs import PositiveTokens, Share, Tokens

if TYPE_CHECKING:
    from refold.core.compaction.task import Stage


@check_arguments
def refold(
    *,
    trigger_fraction: Share = 0.85,
    trigger_tokens: PositiveTokens | None = 200_000,
    history_tokens: PositiveTokens | None = None,
    target_fraction: Share = 0.55,
    target_tokens: PositiveTokens | None = 16_000,
    keep_tokens: Tokens | None = None,
    keep_user_tokens: Tokens = 10_000,
    reserve_tokens: Tokens = 16_384,
    reserve_fraction: Share = 0.25,
    max_output: Tokens | None = None,
    summary_tokens: PositiveTokens = 4_096,
    ledger_tokens: Tokens = 1_500,
    least_gain: Share = 0.10,
    unknown_window: PositiveTokens | None = 128_000,
) -> Policy:
    """Return the default policy: it folds to 55 % of what system prompt and tools leave of the room.

    `keep_tokens` says how much of the newest messages stays whole; by default that follows from the target.
    With `history_tokens` a large window is not filled, because every turn pays for what is carried on: the
    policy `thrifty` has a number there.
    """
    large = int((history_tokens or 0) / max(trigger_fraction, 0.01))  # a smaller room is full before
    stages = partial(
        _make_stages,
        keep_tokens=keep_tokens,
        summary_tokens=summary_tokens,
        least_gain=least_gain,
        ledger_tokens=ledger_tokens,
    )
    return Policy(
        name="refold",
        counter=default_counter(None),
        counters=default_counter,
        window=partial(lookup, fallback=unknown_window),
        reserve=Reserve(fraction=reserve_fraction, most=reserve_tokens, by_model=True, by_fixed=True),
        output=max_output,
        trigger=Trigger(fraction=trigger_fraction, cap=trigger_tokens, history=history_tokens, of_free=True),
        target=Target(
            fraction=target_fraction,
            of_free=True,
            cap=trigger_tokens,
            most=None if history_tokens is None else target_tokens,
            most_from=large,
        ),
        forced_share=0.5,
        stages=make_stages_later(stages),
        guards=frozenset(
            {"system", "pins", "last user", "first user", "open calls", "user words", "provider's fold"}
        ),
        user_words=keep_user_tokens,
        user_words_fraction=0.125,
    )


def _make_stages(**knobs: Any) -> "tuple[Stage, ...]":
    from refold.policies.default_stages import make_stages  # slow to import; whoever only measures has no use

    return make_stages(**knobs)


def add_floor(policy: Policy) -> Policy:
    """Return a policy that reaches any size without a model, and loses no request: for what must be sent."""
    from refold.policies.default_stages import DIGEST, FLOORS  # the same

    behind = tuple(stage for stage in (DIGEST, *FLOORS) if stage not in policy.stages)
    return replace(policy, stages=(*policy.stages, *behind), guards=policy.guards | {"last user"})


def default_counter(model: str | None) -> Counter:
    """Return the calibrated estimate, times what the provider's tokenizer is known to add."""
    return _provider_counter((provider_of(model) if model else None) or "")


@cache
def _provider_counter(provider: str) -> Counter:
    # One counter for each provider, so that its memory of counted texts is shared by all policies.
    if not provider:
        return ESTIMATE_COUNTER
    factor = FAMILY.get(provider, 1.0)
    scaled = remember_sizes(lambda text: -int(-estimate(text) * factor // 1))
    text = ESTIMATE_COUNTER.text if factor == 1.0 else scaled
    return replace(ESTIMATE_COUNTER, text=text, media=partial(count_media_tokens, provider=provider))
