"""The default policy, `refold`: cheapest stages first, floors that need no model and always end.

Its knobs, and its counter for each provider. docs/systems/refold.md explains it; decision 15 tells how the
numbers of when to fold were found.
"""

from dataclasses import replace
from functools import cache, partial

from refold.core.compaction.budget import Reserve, Target, Trigger
from refold.core.compaction.keep_rules import RecentRoom
from refold.core.compaction.policy import Policy
from refold.core.messages.transcript import default_layout
from refold.core.models.windows import lookup, provider_of
from refold.core.summaries.wrappers import wrap_summary
from refold.core.tokens.counting import ESTIMATE_COUNTER, Counter, MemoizedCount, count_media_tokens
from refold.core.tokens.estimate import FAMILY, estimate
from refold.stages import digest
from refold.stages.arguments import TrimArguments
from refold.stages.clamp import Clamp
from refold.stages.clip import Clip
from refold.stages.dedupe import Dedupe
from refold.stages.offload import Offload
from refold.stages.prune import Prune
from refold.stages.slide import Slide
from refold.stages.summarize import Summarize
from refold.stages.thinking import DropThinking
from refold.stages.truncate import Truncate


def refold(
    *,
    trigger_fraction: float = 0.85,
    trigger_tokens: int | None = 200_000,
    history_tokens: int | None = None,
    target_fraction: float = 0.55,
    target_tokens: int | None = 16_000,
    tail_tokens: int | None = 6_000,
    keep_tokens: int = 20_000,
    keep_fraction: float = 0.25,
    keep_user_tokens: int = 10_000,
    reserve_tokens: int = 16_384,
    reserve_fraction: float = 0.25,
    max_output: int | None = None,
    clip_bytes: int = 51_200,
    clip_lines: int = 2_000,
    prune_protect_tokens: int = 40_000,
    prune_minimum_savings: int = 20_000,
    summary_tokens: int = 4_096,
    ledger_tokens: int = 1_500,
    least_gain: float = 0.10,
    unknown_window: int | None = 128_000,
) -> Policy:
    """Return the default policy: cheapest stages first, to 55 % of the room; the last ones need no model.

    With `history_tokens` a large window is not filled, because every turn pays for what is carried on: the
    policy `thrifty` has a number there.
    """
    large = int((history_tokens or 0) / max(trigger_fraction, 0.01))  # a smaller room is full before
    keep = RecentRoom(
        tokens=keep_tokens,
        room_fraction=keep_fraction,
        lean_tokens=None if history_tokens is None else tail_tokens,
        lean_from=large,
    )
    summarize = Summarize(
        keep=keep,
        prompt="refold",
        style=default_layout,
        frame=wrap_summary,
        output_tokens=summary_tokens,
        least_gain=least_gain,
        originals=True,
        ledger_tokens=ledger_tokens,
    )
    return Policy(
        name="refold",
        counter=default_counter(None),
        counters=default_counter,
        window=partial(lookup, fallback=unknown_window),
        reserve=Reserve(fraction=reserve_fraction, most=reserve_tokens, by_model=True),
        output=max_output,
        trigger=Trigger(
            fraction=trigger_fraction,
            cap=trigger_tokens,
            history=history_tokens,
        ),
        target=Target(
            fraction=target_fraction,
            cap=trigger_tokens,
            most=None if history_tokens is None else target_tokens,
            most_from=large,
        ),
        forced_share=0.5,
        direct=True,
        stages=(
            Offload(keep=keep),
            Clip(max_bytes=clip_bytes, max_lines=clip_lines, keep="both"),
            TrimArguments(keep=keep),
            Prune(
                handles=True,
                protect_tokens=prune_protect_tokens,
                protect_fraction=keep_fraction,
                least_savings=prune_minimum_savings,
                least_fraction=0.1,
            ),
            Dedupe(),
            DropThinking(),
            summarize,
            Truncate(keep=keep, words=digest.write_digest, name="digest"),
            # The floors: they need no model, keep less and less, and end below any room that can be met.
            Slide(fraction=None, keep_first=0, least=1, role="user"),
            Offload(name="offload all"),
            TrimArguments(limit=400, name="arguments of all"),
            Clamp(),
        ),
        guards=frozenset(
            {"system", "pins", "last user", "first user", "open calls", "user words", "provider's fold"}
        ),
        user_words=keep_user_tokens,
        user_words_fraction=0.125,
    )


def default_counter(model: str | None) -> Counter:
    """Return the calibrated estimate, times what the provider's tokenizer is known to add."""
    return _provider_counter((provider_of(model) if model else None) or "")


@cache
def _provider_counter(provider: str) -> Counter:
    # One counter for each provider, so that its memory of counted texts is shared by all policies.
    if not provider:
        return ESTIMATE_COUNTER
    factor = FAMILY.get(provider, 1.0)
    text = (
        ESTIMATE_COUNTER.text
        if factor == 1.0
        else MemoizedCount(lambda text: -int(-estimate(text) * factor // 1))
    )
    return replace(ESTIMATE_COUNTER, text=text, media=partial(count_media_tokens, provider=provider))
