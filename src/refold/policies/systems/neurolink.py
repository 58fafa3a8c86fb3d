"""NeuroLink: at 80 % of the input room prune, deduplicate, summarise in ten sections, slide.

All that is known of this system: its knobs and their other names, how it counts, how it shows a conversation
to its summariser, and how it wraps a summary. Sources: its document, and docs/systems/neurolink.md.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from refold.arguments import check_arguments
from refold.core.compaction.budget import Levels, Reserve, Target, Trigger
from refold.core.compaction.policy import Policy
from refold.core.messages.message import Message
from refold.core.messages.message_text import arguments_text, visible_text_and_large_calls
from refold.core.messages.repair import MissingTexts
from refold.core.messages.summary_headers import HEADERS
from refold.core.messages.transcript import neutralise, text_and_markers
from refold.core.models.model_names import canonical_provider
from refold.core.models.windows import lookup, provider_of
from refold.core.summaries.wrappers import Covered, quote_request
from refold.core.tokens.counting import Counter, count_images, scaled_counter
from refold.formats.systems.neurolink_tags import read_shown
from refold.policies.clip_files import saver
from refold.policies.knobs import Count, PositiveTokens, Share, Tokens
from refold.policies.systems.keep_rules import RecentShare
from refold.policies.systems.window_tables import neurolink_table
from refold.stages.clamp import Clamp
from refold.stages.clip import Clip
from refold.stages.dedupe import Dedupe
from refold.stages.prune import Prune
from refold.stages.slide import Slide
from refold.stages.summarize import Summarize

if TYPE_CHECKING:
    from refold.core.compaction.task import Stage

OTHER_KNOB_NAMES: Final[Mapping[str, str]] = {
    "compaction_threshold": "threshold",
    "compact_threshold": "threshold",
    "protect_tokens": "prune_protect_tokens",
    "minimum_savings": "prune_minimum_savings",
    "protected_tools": "prune_protected_tools",
    "fraction": "truncation_fraction",
    "max_bytes": "max_tool_output_bytes",
    "max_lines": "max_tool_output_lines",
    "model": "summarization_model",
    "summarization_enabled": "enable_summarization",
}
"""Other names of a knob in the document: its stages and its command line have words of their own."""

PROVIDER_FACTORS: Final[Mapping[str, float]] = {
    "anthropic": 1.23,
    "google": 1.18,
    "vertex": 1.18,
    "mistral": 1.26,
    "bedrock": 1.23,
}
"""Its document, "Provider Multipliers", by our names of providers; all others are 1.0."""

IMAGE_TOKENS: Final = 1_024
"""Its document, IMAGE_TOKEN_ESTIMATE: flat, whatever the size, so that large pictures count too little."""

FOLDED_TEXTS: Final = MissingTexts(
    "[Tool result unavailable - conversation was compacted]",
    "[Tool call for {tool} - conversation was compacted]",
)
"""Its document, "Tool Pair Repair": the repair runs after a compaction, and its texts say so."""


@check_arguments
def neurolink(
    *,
    enabled: bool = True,
    disable_compaction: bool = False,
    threshold: Share = 0.80,
    token_threshold: PositiveTokens | None = None,
    enable_pruning: bool = True,
    enable_prune: bool = True,
    enable_deduplication: bool = True,
    enable_deduplicate: bool = True,
    enable_summarization: bool = True,
    enable_summarize: bool = True,
    enable_sliding_window: bool = True,
    enable_truncate: bool = True,
    max_tool_output_bytes: Count = 51_200,
    max_tool_output_lines: Count = 2_000,
    direction: Literal["head", "tail", "both"] = "tail",
    save_to_disk: bool | Callable[[str], str] = False,
    save_dir: str | None = None,
    file_read_budget_percent: Share = 0.60,
    prune_protect_tokens: Tokens = 40_000,
    prune_minimum_savings: Tokens = 20_000,
    prune_protected_tools: Sequence[str] = ("skill",),
    keep_recent_ratio: Share = 0.3,
    truncation_fraction: Share = 0.5,
    max_tokens: Tokens | None = None,
    provider: str | None = None,
    is_code: bool = False,
    summarization_provider: str = "vertex",
    summarization_model: str = "gemini-2.5-flash",
    summary_role: Literal["system", "user", "assistant"] = "system",
) -> Policy:
    """NeuroLink: at 80 % of the input room prune, deduplicate, summarise in ten sections, slide."""
    stages: list[Stage] = [
        Clip(
            max_bytes=max_tool_output_bytes,
            max_lines=max_tool_output_lines,
            keep=direction,
            save_to=_output_saver(save_to_disk, save_dir),
            on_arrival=True,
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
                prompt="refold.policies.systems:prompts/neurolink.md",
                style=neurolink_layout,
                frame=wrap_for_neurolink,
                role=summary_role,
            )
        )
    if enable_sliding_window and enable_truncate:
        stages += [
            Slide(fraction=truncation_fraction, role=summary_role, name="truncate"),
            Clamp(margin=0.05, name="truncate"),
        ]
    counter = partial(neurolink_counter, provider=provider, is_code=is_code)
    line = threshold if token_threshold is None else 1.0
    return Policy(
        name="neurolink",
        counter=counter(None),
        counters=counter,
        window=partial(lookup, table=neurolink_table(), provider=provider),
        reserve=Reserve(fraction=0.35, most=64_000),
        output=max_tokens,
        trigger=Trigger(fraction=line, cap=token_threshold, enabled=enabled and not disable_compaction),
        # The document warns above 60 %, not at 60 %, so the line is the next number after it.
        levels=Levels(notice=math.nextafter(0.60, 1), warning=threshold, critical=None),
        target=Target(fraction=line, cap=token_threshold, below=True),
        forced_once=True,
        stages=tuple(stages),
        missing=MissingTexts(folded=FOLDED_TEXTS),
        tokens_of_all=False,
        file_fraction=file_read_budget_percent,
        read_list=read_shown,
        summariser=f"{summarization_provider}:{summarization_model}",
    )


def _output_saver(save: bool | Callable[[str], str], folder: str | None) -> Callable[[str], str] | None:  # noqa: FBT001  # a knob
    """Return what saves full tool outputs: nothing, a folder of the document's name, or the caller's own."""
    if callable(save) or not save:
        return save or None
    from tempfile import gettempdir  # slow to load, and few save

    return saver(folder or f"{gettempdir()}/neurolink-tool-output")


def neurolink_counter(model: str | None, *, provider: str | None = None, is_code: bool = False) -> Counter:
    """Count characters by four (code: three), times the provider's factor and a margin of 1.15."""
    served = canonical_provider(provider) if provider else provider_of(model) if model else None
    scaled = partial(scaled_counter, PROVIDER_FACTORS.get(served or "", 1.0), margin=1.15)
    return Counter(
        name="neurolink",
        text=scaled(chars_per_token=3 if is_code else 4),
        code=scaled(chars_per_token=3),
        visible=visible_text_and_large_calls,
        media=lambda message: IMAGE_TOKENS * count_images(message),
        per_message=4,
        per_conversation=24,
        # As the document's `JSON.stringify` writes a definition, without a blank.
        tool=lambda tool: json.dumps(tool, ensure_ascii=False, separators=(",", ":")),
    )


def neurolink_layout(_index: int, message: Message) -> str:
    """Lay out role and text, and the calls."""
    role = "tool_result" if message.results else message.role
    lines = [f"{role}: {text_and_markers(message)}"]
    lines += [f"tool_call: {call.name} {arguments_text(call)}" for call in message.calls]
    return neutralise("\n".join(lines))


def wrap_for_neurolink(text: str, covered: Covered) -> str:
    """Say that this is a summary."""
    return f"{HEADERS['neurolink'].text}\n\n{quote_request(text, covered)}"
