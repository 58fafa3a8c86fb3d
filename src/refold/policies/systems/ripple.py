"""Ripple: at 85 % of the window one prose summary, an acknowledgement, and the recent turns.

All that is known of this system: its knobs, how it counts, how it shows a conversation to its summariser, and
how it wraps a summary. Sources: its document, and docs/systems/ripple.md for what its program does beside it.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from refold.arguments import check_arguments
from refold.core.compaction.budget import Trigger
from refold.core.compaction.policy import Policy
from refold.core.messages.message import Message, ToolCall, json_text
from refold.core.messages.message_text import visible_text
from refold.core.messages.summary_headers import HEADERS
from refold.core.messages.transcript import neutralise, parse_arguments, role_label, text_and_markers
from refold.core.models.windows import lookup
from refold.core.summaries.wrappers import Covered, quote_request
from refold.core.tokens.counting import Counter, chars_per_token_counter
from refold.formats.systems.ripple_archive import name_history
from refold.policies.knobs import Count, PositiveTokens, Share, Tokens
from refold.policies.systems.keep_rules import RecentTurns
from refold.policies.systems.window_tables import ripple_table
from refold.stages.summarize import Summarize

_DEEPEST = 20
"""Levels of nested arguments that are written out; JSON of a real tool call has fewer."""


@check_arguments
def ripple(
    *,
    trigger_fraction: Share = 0.85,
    fallback_context_window: PositiveTokens = 32_768,
    keep_recent_messages: Count = 6,
    keep_recent_fraction: Share = 0.25,
    reserved_output_tokens: Tokens = 4_096,
    summary_prompt: str | None = None,
    chars_per_token: Count = 4,
) -> Policy:
    """Ripple: at 85 % of the window one prose summary, an acknowledgement, and the recent turns."""
    keep = RecentTurns(messages=keep_recent_messages, window_fraction=keep_recent_fraction)
    return Policy(
        name="ripple",
        counter=ripple_counter(chars_per_token),
        window=partial(lookup, table=ripple_table(), fallback=fallback_context_window),
        trigger=Trigger(fraction=trigger_fraction, whole=True),
        stages=(
            Summarize(
                keep=keep,
                prompt="refold.policies.systems:prompts/ripple.md",
                style=ripple_layout,
                frame=wrap_for_ripple,
                acknowledged=True,
                output_tokens=reserved_output_tokens,
                updates=False,
                too_long="clamp",
                # Its program clamps the input to four characters a token of the window, less the answer.
                clamp_chars=lambda task: max(1_024, task.window - reserved_output_tokens) * 4,
                instructions=summary_prompt,
            ),
        ),
    )


def ripple_counter(chars_per_token: int) -> Counter:
    """Count four characters a token, calls with their arguments; thinking and pictures count nothing."""
    return Counter(
        name="ripple",
        text=chars_per_token_counter(chars_per_token),
        visible=_counted_text,
        tool=_tool_text,
        joins_tools=True,
    )


def _counted_text(message: Message) -> str:
    lines = [visible_text(message)] if visible_text(message) else []
    for call in message.calls:
        lines.append(call.name)
        if arguments := format_arguments(call):
            lines.append(arguments)
    return "\n".join(lines)


def _tool_text(tool: Mapping[str, Any]) -> str:
    """Return name, description, and each parameter with its description; a tool of another shape as JSON."""
    several = tool.get("functionDeclarations") or tool.get("function_declarations")
    if isinstance(several, list):  # Gemini puts all functions into one tool
        return "\n".join(_tool_text(function) for function in several if isinstance(function, Mapping))
    inner = tool.get("function")
    inner = inner if isinstance(inner, Mapping) else tool
    schema = inner.get("parameters") or inner.get("input_schema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    words = [inner.get("name"), inner.get("description")]
    for name, parameter in (properties if isinstance(properties, Mapping) else {}).items():
        words += [name, parameter.get("description") if isinstance(parameter, Mapping) else None]
    return " ".join(str(word) for word in words if word) or json_text(tool)


def format_arguments(call: ToolCall) -> str:
    """Write the arguments of a call as `key: value`, sorted by key, nested ones alike.

    >>> format_arguments(ToolCall("1", "find", {"q": "readme"}))
    'q: readme'
    """
    return _format(parse_arguments(call.arguments) if isinstance(call.arguments, str) else call.arguments)


def _format(value: object, depth: int = 0) -> str:
    too_deep = depth > _DEEPEST
    if isinstance(value, Mapping):
        pairs = () if too_deep else sorted(value.items(), key=lambda pair: str(pair[0]))
        text = ", ".join(f"{key}: {_format(item, depth + 1)}" for key, item in pairs)
        text = "…" if too_deep else text
        return "{" + text + "}" if depth else text
    if isinstance(value, list | tuple):
        text = "…" if too_deep else ", ".join(_format(item, depth + 1) for item in value)
        return f"[{text}]" if depth else text
    if too_deep:
        return "…"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def ripple_layout(_index: int, message: Message) -> str:
    """Lay out label and text, then the calls on a line; a summary's acknowledgement is left out."""
    if message.is_summary and message.role == "assistant":
        return ""
    label = "Earlier summary" if message.is_summary else role_label(message)
    text = text_and_markers(message)
    lines = [f"{label}: {text}"] if text else []
    if message.calls:
        calls = "; ".join(f"{call.name}({format_arguments(call)})" for call in message.calls)
        lines.append(f"Called: {calls}")
    return neutralise("\n".join(lines))


def wrap_for_ripple(text: str, covered: Covered) -> str:
    """Say that the conversation goes on from a summary."""
    header = f"{HEADERS['ripple'].text} to make room."
    if covered.archive:
        header += f" {name_history(covered.archive)}"
    return f"{header} A condensed summary of them follows:\n\n{quote_request(text, covered)}"
