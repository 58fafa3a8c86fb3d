"""What a provider reports it has read and written, in any of the four shapes; hostile numbers are ignored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST: Final = 100_000_000
"""A report of more tokens than any window has is no report."""

_WHOLE: Final = (
    "prompt_tokens",
    "promptTokenCount",
    "prompt_token_count",
    "promptTokens",
    "prompt_eval_count",
)
"""Names under which all that was read is reported, cached or not."""
_PARTLY: Final = ("input_tokens", "inputTokens")
"""Names beside which cached tokens are reported (Anthropic, Bedrock), or within which (Responses)."""
_OUTPUT: Final = (
    "output_tokens",
    "completion_tokens",
    "candidatesTokenCount",
    "candidates_token_count",
    "outputTokens",
    "completionTokens",
    "eval_count",
)
_BESIDE: Final = ("cache_read_input_tokens", "cacheReadInputTokens")
_WRITTEN: Final = ("cache_creation_input_tokens", "cacheWriteInputTokens")
_WITHIN: Final = (
    "cachedContentTokenCount",
    "cached_content_token_count",
    "cachedInputTokens",
    "prompt_cache_hit_tokens",
    "cache_read_tokens",
)
_OUTPUT_DETAILS: Final = ("completion_tokens_details", "output_tokens_details")
_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_REPORTS: Final = ("usage", "usageMetadata", "usage_metadata", "tokens")
"""Where in a response the report stands."""
_PASSES: Final = ("iterations", "request_usage_entries")
"""Where a report of several passes lists them; only the last one is what fills the context now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one request, as reported."""

    input: int
    """All that was read, cached or not."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    messages: int | None = None
    """How many messages of the history were in the request, where that is known."""
    said: int | None = None
    """What of the output goes on in the history: all but the reasoning, where that is told apart."""

    @property
    def context(self) -> int:
        """The size of the context that was sent."""
        return self.input


def reported(usage: Any) -> Usage | None:
    """Read a report; None where it says nothing usable.

    Anthropic reports cached tokens beside the input, the others within it.

    >>> reported({"input_tokens": 10, "cache_read_input_tokens": 90}).context
    100
    """
    if isinstance(usage, Usage):
        return usage
    if isinstance(usage, int) and not isinstance(usage, bool):
        return Usage(input=usage) if 0 < usage <= MOST else None
    fields = _fields(usage)
    beside, write = _number(fields, _BESIDE), _number(fields, _WRITTEN)
    total = _number(fields, _WHOLE) or _number(fields, _PARTLY) + beside + write
    if not 0 < total <= MOST:
        return None
    output = _number(fields, _OUTPUT)
    within = [_number(_fields(fields.get(key)), ("cached_tokens", "cache_read")) for key in _DETAILS]
    return Usage(
        input=total,
        output=output,
        cache_read=beside or max(within) or _number(fields, _WITHIN),
        cache_write=write,
        messages=_number(fields, ("messages",)) or None,
        said=_said(fields, output),
    )


def _said(fields: Mapping[str, Any], output: int) -> int | None:
    """The output without its reasoning, where the report tells them apart."""
    if "thoughtsTokenCount" in fields or "thoughts_token_count" in fields:
        return output
    details = [_of(fields[key]) for key in _OUTPUT_DETAILS if key in fields]
    told = next((each for each in details if "reasoning_tokens" in each), None)
    return None if told is None else max(0, output - _number(told, ("reasoning_tokens",)))


def _fields(value: Any) -> Mapping[str, Any]:
    """The fields of a report, wherever in a response it stands."""
    for _ in range(4):  # a hostile value may be nested without end
        fields = _of(value)
        reports = [fields[key] for key in _REPORTS if key in fields]
        reports += [fields[key][-1] for key in _PASSES if isinstance(fields.get(key), list) and fields[key]]
        inner = next((report for report in reports if _of(report)), None)
        if inner is None:
            return fields
        value = inner
    return _of(value)


def _of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else getattr(value, "__dict__", None) or {}


def _number(fields: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST:
            return int(value)
    return 0
