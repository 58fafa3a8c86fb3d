"""Read the usage that a provider or a framework reports, in any shape; ignores hostile numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from refold.core.messages.quick_init import quick_init

MAX_REPORTED_TOKENS: Final = 100_000_000
"""Ten times the largest window in use. A larger number is no report, so an error would lose nothing."""
_LARGEST_SHOWN: Final = 10**15
"""A number beyond it is shown as this: Python refuses to write one of some hundred digits."""

_NUMBERS: Final = (int, float)
_ALL_INPUT: Final = (
    "prompt_tokens",
    "promptTokenCount",
    "prompt_token_count",
    "promptTokens",
    "prompt_eval_count",
    "total_input_tokens",
)
"""Names for all tokens that were read, cached or not."""
_INPUT: Final = ("input_tokens", "inputTokens", "input_token_count", "input")
"""Names beside which cached tokens are reported (Anthropic, Bedrock), or which include them (Responses)."""
_OUTPUT: Final = (
    "output_tokens",
    "completion_tokens",
    "candidatesTokenCount",
    "candidates_token_count",
    "outputTokens",
    "completionTokens",
    "eval_count",
    "total_output_tokens",
    "output_token_count",
    "output",
)
_THOUGHTS: Final = ("thoughtsTokenCount", "thoughts_token_count", "total_thought_tokens")
"""Gemini reports its thoughts beside the output, and bills them as output."""
_TOOL_PROMPTS: Final = ("toolUsePromptTokenCount", "tool_use_prompt_token_count", "total_tool_use_tokens")
"""What Gemini's own tools gave the model to read: it is billed as input, but the next request lacks it."""
_CACHED_BESIDE: Final = (
    "cache_read_input_tokens",
    "cacheReadInputTokens",
    "input_tokens_cache_read",
    "anthropic.cache_read_input_tokens",
)
_CACHE_WRITTEN: Final = (
    "cache_creation_input_tokens",
    "cacheWriteInputTokens",
    "input_tokens_cache_write",
    "anthropic.cache_creation_input_tokens",
)
_FOR_HOUR: Final = ("ephemeral_1h_input_tokens",)
_CACHED_WITHIN: Final = (
    "cachedContentTokenCount",
    "cached_content_token_count",
    "cachedInputTokens",
    "prompt_cache_hit_tokens",
    "cache_read_tokens",
    "total_cached_tokens",
)
_CACHED_ANY: Final = ("cache_read_input_token_count",)
_WRITTEN_ANY: Final = ("cache_creation_input_token_count",)
"""Agent Framework's names: as the provider has it, beside the input or within it."""
_JUDGED: Final = ("usage", *_ALL_INPUT, *_INPUT, *_OUTPUT, *_CACHED_BESIDE, *_CACHE_WRITTEN)
_OUTPUT_DETAILS: Final = ("completion_tokens_details", "output_tokens_details")
_INPUT_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_MORE: Final = ("details", "token_details")
"""Keys under which llm keeps the fields of a report that are no sums."""
_REPORTS: Final = (
    "usage",
    "usageMetadata",
    "usage_metadata",
    "tokens",
    "usage_details",
    "token_usage",
    "raw",
)
"""Keys of a response that hold the report, or the provider's own response: providers, Agent Framework,
smolagents, LlamaIndex."""
_PASSES: Final = ("iterations", "request_usage_entries")
"""Keys that list the passes of one report; only the last pass is the context as it is now."""
_HOLDERS: Final = frozenset({*_REPORTS, *_PASSES})
_COSTS_MORE: Final = _HOLDERS.union(_TOOL_PROMPTS)
_ASIDE: Final = frozenset({"compaction", "advisor_message"})
"""Types of passes that read something else than the context: a compaction, another model's advice."""
_NAMES: Final = {
    "all input": _ALL_INPUT,
    "input": _INPUT,
    "output": _OUTPUT,
    "thoughts": _THOUGHTS,
    "cached beside": _CACHED_BESIDE,
    "cached within": _CACHED_WITHIN,
    "cached any": _CACHED_ANY,
    "written": _CACHE_WRITTEN,
    "written any": _WRITTEN_ANY,
    "messages": ("messages",),
    "total": ("total_token_count",),
}
_KINDS: Final = {name: kind for kind, names in _NAMES.items() for name in names}
_ORDER: Final = [*_KINDS].index
_NO_NUMBERS: Final = dict.fromkeys(_NAMES, 0)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one request, as reported."""

    input: int
    """All tokens that were read, cached or not."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    messages: int | None = None
    """Number of messages of the history in the request, if known."""
    said: int | None = None
    """Output that stays in the history: all but the reasoning, if the report separates them."""
    written_for_hour: int = 0
    """The part of `cache_write` that the provider keeps for an hour, at a higher price (Anthropic)."""
    beside: int = 0
    """Tokens of ours for what is not in the messages, such as a system prompt, as far as reports show it."""

    @property
    def context(self) -> int:
        """The size of the context that was sent."""
        return self.input

    def as_dict(self) -> dict[str, int | None]:
        """Return the report as plain data."""
        cached = {"cache_read": self.cache_read, "cache_write": self.cache_write}
        history = {"messages": self.messages, "said": self.said}
        return {"input": self.input, "output": self.output, **cached, **history}


def read_usage(usage: Any) -> Usage | None:
    """Read a report; None if it holds nothing usable.

    Anthropic reports cached tokens beside the input, the others within it.

    >>> read_usage({"input_tokens": 10, "cache_read_input_tokens": 90}).context
    100
    """
    if type(usage) is not dict and isinstance(usage, Usage):
        return usage
    if type(usage) is not dict and isinstance(usage, int) and not isinstance(usage, bool):
        return Usage(input=usage) if 0 < usage <= MAX_REPORTED_TOKENS else None
    fields = _find_report(usage)
    for key in _MORE:
        if key in fields:
            fields = {**_to_fields(fields[key]), **fields}
    numbers = _read_numbers(fields)
    beside, write = numbers["cached beside"], numbers["written"]
    within = [
        _first_number(_find_report(fields[key]), ("cached_tokens", "cache_read"))
        for key in _INPUT_DETAILS
        if key in fields
    ]
    cached, written = numbers["cached any"], numbers["written any"]
    read = beside or max(within, default=0) or numbers["cached within"] or cached
    total = numbers["all input"] or numbers["input"] + beside + write
    # Agent Framework's may stand beside the input or within it; other names for them were added already.
    if (more := cached + written) and fields.keys().isdisjoint(_CACHED_BESIDE):
        whole = numbers["input"] + more + numbers["output"]
        total += more if more > numbers["input"] or numbers["total"] >= whole else 0
    write = write or written
    if read + write > total:  # more than all that was read can only stand beside it
        total += read + write
    if not 0 < total <= MAX_REPORTED_TOKENS:
        return None
    output, split = numbers["output"], fields.get("cache_creation")
    return Usage(
        input=total,
        output=output + numbers["thoughts"],
        cache_read=read,
        cache_write=write,
        written_for_hour=_first_number(_to_fields(split), _FOR_HOUR) if split else 0,
        messages=numbers["messages"] or None,
        said=_output_without_reasoning(fields, output),
    )


def read_cost(usage: Any) -> Usage | None:
    """Read what all passes of a report took together, and what only this request has read.

    A provider that compacts by itself reports that pass beside the others, and nowhere else.

    >>> passes = [{"type": "compaction", "input_tokens": 900}, {"type": "message", "input_tokens": 100}]
    >>> read_cost({"usage": {"input_tokens": 100, "iterations": passes}}).input
    1000
    """
    if isinstance(usage, Usage | int):
        return read_usage(usage)
    report = _open_report(usage)
    passes = [*filter(None, map(read_usage, _list_passes(report)))] or [*filter(None, [read_usage(usage)])]
    if not passes:
        return None
    return Usage(
        input=sum(each.input for each in passes) + _first_number(report, _TOOL_PROMPTS),
        output=sum(each.output for each in passes),
        cache_read=sum(each.cache_read for each in passes),
        cache_write=sum(each.cache_write for each in passes),
        written_for_hour=sum(each.written_for_hour for each in passes),
    )


def read_block_size(usage: Any) -> int | None:
    """Read how many tokens the compaction of a report has written: its passes of that type, if it lists any.

    >>> read_block_size({"usage": {"iterations": [{"type": "compaction", "output_tokens": 40}]}})
    40
    """
    passes = [_to_fields(one) for one in _list_passes(_open_report(usage))]
    made = [_first_number(one, _OUTPUT) for one in passes if one.get("type") == "compaction"]
    return made[-1] or None if made else None


def costs_more(usage: Any) -> bool:
    """True if a report lists passes, or tokens beside the context; else `read_cost` is `read_usage`."""
    if type(usage) is dict and _COSTS_MORE.isdisjoint(usage):
        return False  # as in most reports
    report = _open_report(usage)
    return bool(_list_passes(report)) or _first_number(report, _TOOL_PROMPTS) > 0


def find_impossible(usage: Any) -> str:
    """Return in words the first number of a report that no request has; "" if there is none.

    >>> find_impossible({"usage": {"prompt_tokens": -5}})
    'prompt_tokens is -5'
    """
    is_number = type(usage) is not dict and isinstance(usage, _NUMBERS)
    fields = {"usage": usage} if is_number else _find_report(usage)
    odd = [
        name
        for name, value in fields.items()
        if name in _JUDGED and isinstance(value, _NUMBERS) and not 0 <= value <= MAX_REPORTED_TOKENS
    ]
    if not odd:
        return ""
    name = min(odd, key=_JUDGED.index)
    return f"{name} is {max(min(fields[name], _LARGEST_SHOWN), -_LARGEST_SHOWN):.12g}"


def _output_without_reasoning(fields: Mapping[str, Any], output: int) -> int | None:
    for name in _THOUGHTS:
        if name in fields:
            return output
    for key in _OUTPUT_DETAILS:
        if key in fields and "reasoning_tokens" in (split := _to_fields(fields[key])):
            return max(0, output - _first_number(split, ("reasoning_tokens",)))
    return None


def _find_report(value: Any) -> Mapping[str, Any]:
    """Return the fields of a report, wherever in a response it stands."""
    for _ in range(4):  # a hostile value may be nested without end
        fields = value if type(value) is dict else _to_fields(value)
        if _HOLDERS.isdisjoint(fields):
            return fields
        for key in _REPORTS:
            if key in fields and _to_fields(fields[key]):
                value = fields[key]
                break
        else:
            value = _last_pass(fields)
            if not _to_fields(value):
                return fields
    return _to_fields(value)


def _open_report(usage: Any) -> Mapping[str, Any]:
    """Return the fields of the report that a response holds, or of a report alone."""
    fields = _to_fields(usage)
    if _HOLDERS.isdisjoint(fields):
        return fields
    return next((inner for key in _REPORTS if (inner := _to_fields(fields.get(key)))), fields)


def _list_passes(report: Mapping[str, Any]) -> list[Any]:
    """Return the passes that a report lists; a number alone is none."""
    listed: list[Any] = next((report[key] for key in _PASSES if isinstance(report.get(key), list)), [])
    return [one for one in listed if _to_fields(one)]


def _last_pass(report: Mapping[str, Any]) -> Any:
    """Return the pass that read the context as it is now; None if the report itself tells more."""
    passes = [one for one in _list_passes(report) if _tells_input(_to_fields(one))]
    own = [one for one in passes if str(_to_fields(one).get("type")) not in _ASIDE]
    if own or not passes or _tells_input(report):
        return own[-1] if own else None
    return passes[-1]


def _tells_input(fields: Mapping[str, Any]) -> bool:
    """True if a report has a number of tokens that were read, or holds another report."""
    names = (*_ALL_INPUT, *_INPUT, *_CACHED_BESIDE, *_CACHE_WRITTEN, *_CACHED_ANY)
    return _first_number(fields, names) > 0 or any(_to_fields(fields.get(key)) for key in (*_REPORTS, *_MORE))


def _to_fields(value: Any) -> Mapping[str, Any]:
    if type(value) is dict:  # most values are; to ask an abstract class takes ten times as long
        return value
    return value if isinstance(value, Mapping) else getattr(value, "__dict__", None) or {}


def _read_numbers(fields: Mapping[str, Any]) -> dict[str, int]:
    """Return the first number of a report for each kind of tokens, 0 where it has none.

    A report has few of the names that are known, so that only those are looked at.
    """
    numbers = _NO_NUMBERS.copy()
    for name in sorted([name for name in fields if name in _KINDS], key=_ORDER):
        kind = _KINDS[name]
        numbers[kind] = numbers[kind] or _to_number(fields[name])
    return numbers


def _first_number(fields: Mapping[str, Any], names: tuple[str, ...]) -> int:
    if fields.keys().isdisjoint(names):
        return 0
    return next(filter(None, (_to_number(fields[name]) for name in names if name in fields)), 0)


def _to_number(value: Any) -> int:
    """Return the tokens that a field of a report names; 0 if that is no number of a request."""
    is_number = type(value) is int or (isinstance(value, _NUMBERS) and not isinstance(value, bool))
    return int(value) if is_number and 0 < value <= MAX_REPORTED_TOKENS else 0
