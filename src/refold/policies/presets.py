"""The five systems and the house's own default, each one Policy value; every knob by its document's name.

`get("ripple", keep_recent_messages=3)` gives Ripple's policy with one knob turned. A knob's default is the
number its document prints; the reasons are in the documents and in docs/systems/. The page is long because
six policies stand side by side, to be compared.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from refold.core.compaction.budget import Levels, Reserve, Target, Trigger
from refold.core.compaction.keep_rules import (
    LastMessages,
    RecentBytes,
    RecentRoom,
    RecentShare,
    RecentTurns,
    Thread,
)
from refold.core.compaction.policy import Paid, Policy
from refold.core.messages import file_operations, transcript
from refold.core.messages.message import Role
from refold.core.models.windows import TABLES, lookup
from refold.core.summaries import wrappers
from refold.errors import RefoldError
from refold.policies import counters
from refold.policies.knobs import OTHER_NAMES, codebuddy_chunk, neurolink_saver, window_of_codebuddy
from refold.policies.strategies import ByStrategy, find, list_strategies
from refold.stages import digest, notices
from refold.stages.arguments import TrimArguments
from refold.stages.clamp import Clamp
from refold.stages.clip import Clip
from refold.stages.dedupe import Dedupe
from refold.stages.offload import Offload
from refold.stages.prune import Prune
from refold.stages.slide import Slide
from refold.stages.strip import Strip
from refold.stages.summarize import Summarize
from refold.stages.thinking import DropThinking
from refold.stages.truncate import Truncate

if TYPE_CHECKING:
    from refold.core.compaction.task import Stage

CLAMP: Final = 4
"""Ripple clamps its summariser's input to so many characters a token."""


def ripple(
    *,
    trigger_fraction: float = 0.85,
    fallback_context_window: int = 32_768,
    keep_recent_messages: int = 6,
    keep_recent_fraction: float = 0.25,
    reserved_output_tokens: int = 4_096,
    summary_prompt: str | None = None,
    chars_per_token: int = 4,
) -> Policy:
    """Ripple: at 85 % of the window one prose summary, an acknowledgement, and the recent turns."""
    keep = RecentTurns(messages=keep_recent_messages, window_fraction=keep_recent_fraction)
    return Policy(
        name="ripple",
        counter=counters.ripple(chars_per_token),
        window=partial(lookup, table=TABLES["ripple"], fallback=fallback_context_window),
        trigger=Trigger(fraction=trigger_fraction, whole=True),
        stages=(
            Summarize(
                keep=keep,
                prompt="ripple",
                style=transcript.ripple,
                frame=wrappers.ripple,
                acknowledged=True,
                output_tokens=reserved_output_tokens,
                updates=False,
                too_long="clamp",
                clamp_chars=lambda task: max(1_024, task.window - reserved_output_tokens) * CLAMP,
                instructions=summary_prompt,
            ),
        ),
    )


def codebuddy(
    *,
    context_window: str | int | None = None,
    chunk_tokens: int | None = None,
    keep_recent_messages: int = 4,
    tool_result_limit: int = 200,
    reserved_tokens: int = 4_096,
    safety_margin: float = 1.2,
) -> Policy:
    """CodeBuddy: at 90 % four tiers: strip tool traffic, summarise in chunks, the older half, plain words."""
    recent = LastMessages(messages=keep_recent_messages)
    older = LastMessages(messages=keep_recent_messages, least=6, least_older=2)
    half = LastMessages(messages=keep_recent_messages, least=6, least_older=2, oldest_half=True)
    chunked = partial(
        Summarize,
        prompt="codebuddy",
        style=transcript.codebuddy,
        role="system",
        updates=False,
        output_fraction=0.1,
        chunk_tokens=partial(codebuddy_chunk, chunk_tokens),
        oversize=lambda task: max(1, (task.goal or task.window) // 2),
    )
    return Policy(
        name="codebuddy",
        counter=counters.CODEBUDDY,
        window=partial(window_of_codebuddy, context_window),
        trigger=Trigger(fraction=0.9),
        levels=Levels(notice=None, warning=0.8, critical=0.9),
        target=Target(of_window=True, spare=reserved_tokens, margin=safety_margin, least=1 / 8),
        stages=(
            Strip(keep_messages=keep_recent_messages, limit=tool_result_limit),
            chunked(keep=older, frame=wrappers.codebuddy, name="chunks"),
            chunked(keep=half, frame=wrappers.codebuddy_partial, name="partial"),
            Truncate(keep=recent, words=notices.codebuddy, role="system", name="plain"),
        ),
        orphans="drop",
        tokens_of_all=False,
    )


def umwelten(
    *,
    strategy: str = "through-line-and-facts",
    from_checkpoint: bool | int = True,
    checkpoint: int | None = None,
    keep_turns: int = 0,
    merge: bool = True,
    strategy_options: Mapping[str, Any] | None = None,
) -> Policy:
    """Umwelten: when somebody asks for it, the thread since the checkpoint through a strategy by id."""
    options = dict(strategy_options or {})
    keep_turns = int(options.get("keep_turns", options.get("keepTurns", keep_turns)))
    if isinstance(from_checkpoint, int) and not isinstance(from_checkpoint, bool):
        checkpoint = from_checkpoint
    keep = Thread(
        from_checkpoint=bool(from_checkpoint),
        keep_turns=keep_turns,
        merge=bool(options.get("merge", merge)),
    )
    return Policy(
        name="umwelten",
        counter=counters.UMWELTEN,
        window=lookup,
        trigger=Trigger(on_call=True),
        stages=(ByStrategy(id=strategy, keep=keep, options=options | {"keep_turns": keep_turns}),),
        guards=frozenset({"system", "pins", "open calls"}),
        tokens_of_all=False,
        checkpoint=checkpoint,
    )


def neurolink(
    *,
    enabled: bool = True,
    disable_compaction: bool = False,
    threshold: float = 0.80,
    token_threshold: int | None = None,
    enable_pruning: bool = True,
    enable_prune: bool = True,
    enable_deduplication: bool = True,
    enable_deduplicate: bool = True,
    enable_summarization: bool = True,
    enable_summarize: bool = True,
    enable_sliding_window: bool = True,
    enable_truncate: bool = True,
    max_tool_output_bytes: int = 51_200,
    max_tool_output_lines: int = 2_000,
    direction: Literal["head", "tail", "both"] = "tail",
    save_to_disk: bool | Callable[[str], str] = False,
    save_dir: str | None = None,
    file_read_budget_percent: float = 0.60,
    prune_protect_tokens: int = 40_000,
    prune_minimum_savings: int = 20_000,
    prune_protected_tools: Sequence[str] = ("skill",),
    keep_recent_ratio: float = 0.3,
    truncation_fraction: float = 0.5,
    max_tokens: int | None = None,
    provider: str | None = None,
    is_code: bool = False,
    summarization_provider: str = "vertex",
    summarization_model: str = "gemini-2.5-flash",
    summary_role: Role = "system",
) -> Policy:
    """NeuroLink: at 80 % of the input room prune, deduplicate, summarise in ten sections, slide."""
    stages: list[Stage] = [
        Clip(
            max_bytes=max_tool_output_bytes,
            max_lines=max_tool_output_lines,
            keep=direction,
            save_to=neurolink_saver(save_to_disk, save_dir),
        )
    ]
    if enable_pruning and enable_prune:
        stages.append(
            Prune(
                protect_tokens=prune_protect_tokens,
                least_savings=prune_minimum_savings,
                protected_tools=frozenset(prune_protected_tools),
            )
        )
    if enable_deduplication and enable_deduplicate:
        stages.append(Dedupe(name="deduplicate"))
    if enable_summarization and enable_summarize:
        stages.append(
            Summarize(
                keep=RecentShare(share=keep_recent_ratio),
                prompt="neurolink",
                style=transcript.neurolink,
                frame=wrappers.neurolink,
                role=summary_role,
            )
        )
    if enable_sliding_window and enable_truncate:
        stages += [
            Slide(fraction=truncation_fraction, role=summary_role, name="truncate"),
            Clamp(margin=0.05, name="truncate"),
        ]
    counter = partial(counters.neurolink, provider=provider, is_code=is_code)
    line = threshold if token_threshold is None else 1.0
    return Policy(
        name="neurolink",
        counter=counter(None),
        counters=counter,
        window=partial(lookup, table=TABLES["neurolink"], provider=provider),
        reserve=Reserve(fraction=0.35, most=64_000),
        output=max_tokens,
        trigger=Trigger(fraction=line, cap=token_threshold, enabled=enabled and not disable_compaction),
        levels=Levels(notice=math.nextafter(0.60, 1), warning=threshold, critical=None),  # over 60 %
        target=Target(fraction=line, cap=token_threshold, below=True),
        forced_once=True,
        stages=tuple(stages),
        tokens_of_all=False,
        file_fraction=file_read_budget_percent,
        summariser=f"{summarization_provider}:{summarization_model}",
    )


def opal(
    *,
    threshold: float = 0.80,
    keep_recent_tokens: int | None = None,
    keep_recent: int | None = None,
    strategy: Literal["summarize", "truncate"] = "summarize",
    fallback_context_window: int = 128_000,
    split_turn_minimum: int = 5,
    instructions: str = "",
) -> Policy:
    """Opal: at 80 % of the window a structured summary that is updated each time, split turns told in two."""
    kept = keep_recent_tokens if keep_recent_tokens is not None else keep_recent
    keep = RecentBytes(tokens=kept, split_least=split_turn_minimum)
    summarize = Summarize(
        keep=keep,
        prompt="opal",
        style=transcript.opal,
        frame=wrappers.opal,
        vocabulary=file_operations.OPAL,
        focus=instructions,
    )
    truncate = Truncate(keep=keep, words=notices.opal, vocabulary=file_operations.OPAL)
    return Policy(
        name="opal",
        counter=counters.OPAL,
        window=partial(lookup, fallback=fallback_context_window),
        trigger=Trigger(fraction=threshold),
        stages=(summarize, truncate) if strategy == "summarize" else (truncate,),
        guards=frozenset({"system", "pins", "open calls"}),
        orphans="drop",
        missing="[Aborted by user]",
        learns=False,
    )


def refold(
    *,
    trigger_fraction: float = 0.85,
    trigger_tokens: int | None = 200_000,
    paid_history_tokens: int | None = 48_000,
    history_tokens: int | None = None,
    history_tokens_asking: int | None = None,
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
    """The house: cheapest stages first, to 55 % of the room; the floors need no model and always end.

    With `history_tokens` a large window is not filled: what is carried on is paid for in every turn. That is
    what a session does by itself where its model has a price, with `paid_history_tokens`.
    """
    knobs = locals()
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
        style=transcript.house,
        frame=wrappers.house,
        output_tokens=summary_tokens,
        least_gain=least_gain,
        originals=True,
        ledger_tokens=ledger_tokens,
    )
    policy = Policy(
        name="refold",
        counter=counters.house(None),
        counters=counters.house,
        window=partial(lookup, fallback=unknown_window),
        reserve=Reserve(fraction=reserve_fraction, most=reserve_tokens, by_model=True),
        output=max_output,
        trigger=Trigger(
            fraction=trigger_fraction,
            cap=trigger_tokens,
            history=history_tokens,
            history_asking=history_tokens_asking,
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
            Truncate(keep=keep, words=digest.words, name="digest"),
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
    if (trigger_fraction, trigger_tokens, history_tokens) != (0.85, 200_000, None) or not paid_history_tokens:
        return policy  # somebody has said when to fold
    other = refold(**{**knobs, "history_tokens": paid_history_tokens})
    now = (policy.trigger, policy.target, policy.stages)
    paid = Paid(trigger=other.trigger, target=other.target, stages=other.stages, instead_of=now)
    return replace(policy, paid=paid)


THRIFTY: Final[Mapping[str, int]] = {
    "history_tokens": 40_000,
    "history_tokens_asking": 64_000,
    "target_tokens": 8_000,
    "tail_tokens": 3_000,
    "keep_user_tokens": 3_000,
}
"""Knobs of the house for people who pay by the token: the cheapest way that forgets little (decision 15)."""

PRESETS: Final[Mapping[str, Callable[..., Policy]]] = {
    "ripple": ripple,
    "codebuddy": codebuddy,
    "umwelten": umwelten,
    "neurolink": neurolink,
    "opal": opal,
    "refold": refold,
}


def get(name: str | Policy = "refold", **knobs: Any) -> Policy:
    """A policy by name, with knobs turned; a strategy's id gives Umwelten's policy with that strategy."""
    if isinstance(name, Policy):
        if knobs:
            raise RefoldError("a policy that is made has no knobs: give its name, or use dataclasses.replace")
        return name
    make = PRESETS.get(str(name).lower())
    if make is None and find(name) is not None:
        make, knobs = umwelten, {"strategy": name} | knobs
    if make is None:
        known = [*PRESETS, *(strategy.id for strategy in list_strategies())]
        near = get_close_matches(str(name), known, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are: {', '.join(known)}"
        raise RefoldError(f"there is no policy {name!r}; {hint}")
    allowed = inspect.signature(make).parameters
    other = OTHER_NAMES.get(make.__name__, {})
    knobs = {other.get(knob, knob): value for knob, value in knobs.items()}
    for knob in knobs:
        if knob not in allowed:
            near = get_close_matches(knob, allowed, 1)
            hint = f"did you mean {near[0]}?" if near else f"it has: {', '.join(allowed)}"
            raise RefoldError(f"policy {name} has no knob {knob!r}; {hint}")
    return make(**knobs)
