"""Measuring plain data: how large a conversation is and how full its window; asks nobody."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import ceil
from typing import Any, TypedDict, Unpack

from refold import formats
from refold.core.compaction import file_budget as file_texts
from refold.core.compaction.budget import Breakdown, Budget, judge
from refold.core.compaction.file_budget import FileText, FittedFile
from refold.core.compaction.policy import Policy
from refold.core.messages import text_cutting
from refold.core.messages.message import Message
from refold.core.models.windows import Window, provider_of
from refold.core.tokens.counting import Counter, Memo
from refold.core.tokens.estimate import FAMILY
from refold.core.tokens.units import tokens
from refold.core.tokens.usage import Usage, reported
from refold.errors import FormatError
from refold.formats import Format
from refold.policies import presets
from refold.tokenizers import exact

Count = Callable[[str], int] | str | None
Tokens = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Plain data, read: the messages, how they are counted, and how full the window is."""

    wire: Format
    given: Sequence[Any]
    messages: tuple[Message, ...]
    sizes: tuple[int, ...]
    policy: Policy
    counter: Counter
    window: Window
    budget: Budget
    sound: bool = False
    """Whether it is known that a provider takes it as it is."""


class Options(TypedDict, total=False):
    """What every call that looks at a conversation takes besides the messages."""

    model: str | None
    """`"gpt-4o"`, `"anthropic:claude-sonnet-4-20250514"`: finds the window and the way to count."""
    window: Tokens | None
    """The window, where the caller knows better: 200000 or "200k"."""
    system: Any
    """The system prompt, as text or in the provider's shape."""
    tools: Sequence[Any] | None
    """Tool definitions, as they are sent."""
    prompt: str | None
    """What will be said next and is not in the messages."""
    files: Sequence[Any] | None
    """Attachments: texts, or `{"content": text, "path": name}`."""
    policy: str | Policy
    """A name, or what `presets.get` gives; `refold` by default."""
    count: Count
    """A callable from text to tokens, or `"exact"`; the policy's own way by default."""
    usage: Any
    """What the provider reported for the last request; the estimate starts from it."""
    format: str | None
    """`"openai"`, `"responses"`, `"anthropic"`, `"gemini"`; recognised by shape where absent."""


def measure(messages: Sequence[Any], **options: Unpack[Options]) -> Budget:
    """Tell how full the context is, what fills it, and whether it is time to compact.

    model    finds the window and the way to count: "gpt-4o", "anthropic:claude-sonnet-4-20250514"
    window   the window, where you know better: 200000 or "200k"
    system   the system prompt, if it is not in the messages
    tools    tool definitions, as they are sent
    prompt   what will be said next and is not in the messages
    files    attachments: texts, or {"content": text, "path": name}
    policy   a name or what `presets.get` gives; "refold" by default
    count    a callable from text to tokens, or "exact" (needs refold[exact])
    usage    what the provider reported for the last request; the estimate starts from it
    format   "openai", "responses", "anthropic", "gemini"; recognised by shape where absent

    >>> budget = measure([{"role": "user", "content": "hi"}], window="8k")
    >>> budget.level, budget.room, budget.should_compact
    ('none', 6000, False)
    """
    refuse_unknown(options, Options.__annotations__)
    return read(messages, **options).budget


def refuse_unknown(given: Iterable[str], known: Collection[str]) -> None:
    """Refuse names of options that nobody knows; a typing error must not be taken for a default."""
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise TypeError(f"there is no option {name!r}" + (f"; did you mean {near[0]}?" if near else ""))


def read(messages: Sequence[Any], **options: Unpack[Options]) -> Conversation:
    """Read plain data and measure it."""
    chosen = presets.get(options.get("policy") or "refold")
    wire = wire_for(messages, options.get("format"))
    parsed = wire.parse(messages)
    counter = counter_for(chosen, options.get("model"), options.get("count"))
    visible = [counter.visible(message) for message in parsed]
    sizes = tuple(map(counter.sized, parsed, visible))
    window = _window(chosen, options)
    breakdown = _breakdown(counter, sizes, options)
    reserve = chosen.reserve.tokens(window.tokens, chosen.output, window.output_tokens)
    usage = reported(options.get("usage"))
    used = None if usage is None else hybrid(usage, parsed, sizes, breakdown, counter, learns=chosen.learns)
    budget = judge(
        breakdown,
        window=window.tokens,
        reserve=reserve,
        room=window.usable(reserve),
        trigger=chosen.trigger,
        levels=chosen.levels,
        messages=len(parsed),
        characters=sum(map(len, visible)),
        used=used,
        count_source=counter.name if usage is None else "usage+estimate",
        window_source=window.source,
    )
    return Conversation(
        wire=wire,
        given=messages,
        messages=parsed,
        sizes=sizes,
        policy=chosen,
        counter=counter,
        window=window,
        budget=budget,
    )


def wire_for(messages: Sequence[Any], format: str | None) -> Format:  # noqa: A002  # the word users know
    """The format that was named, or the one the messages show."""
    return formats.get(format) if format is not None else formats.detect(messages)


def _window(policy: Policy, options: Options) -> Window:
    given = options.get("window")
    return policy.window(options.get("model")) if given is None else Window(tokens(given), None, "given")


def _breakdown(counter: Counter, sizes: Sequence[int], options: Options) -> Breakdown:
    system, tools = plain_text(options.get("system")), options.get("tools") or ()
    return Breakdown(
        system=counter.plain(system),
        history=counter.total(sizes),
        prompt=counter.plain(options.get("prompt") or ""),
        tools=counter.tools([tools] if isinstance(tools, Mapping) else tools, system),
        files=sum(counter.plain(content_of(file)) for file in options.get("files") or ()),
    )


def hybrid(
    usage: Usage,
    messages: Sequence[Message],
    sizes: Sequence[int],
    breakdown: Breakdown,
    counter: Counter,
    *,
    learns: bool = True,
) -> int:
    """The reported size of what was sent, and an estimate of what came since, scaled by what was learned.

    What was sent are the first `usage.messages` of the history, or, where that is not told, all before the
    last reply of the model, because a report comes with the reply.
    """
    sent = usage.messages
    if sent is None:
        replies = [index for index, message in enumerate(messages) if message.role == "assistant"]
        sent = replies[-1] if replies else len(messages)
    sent = min(sent, len(messages))
    before = counter.total(sizes[:sent]) + breakdown.fixed
    since = counter.tokens(sum(sizes[sent:]))
    ratio = min(4.0, max(0.25, usage.context / before)) if before and learns else 1.0
    return usage.context + round(since * ratio)


def count(
    text_or_messages: Any,
    *,
    model: str | None = None,
    provider: str | None = None,
    code: bool = False,
    policy: str | Policy = "refold",
    format: str | None = None,  # noqa: A002  # the word users know
) -> int:
    """Count the tokens of a text or of messages."""
    counter = counter_for(_policy(policy, provider, code), _named(model, provider), None)
    if isinstance(text_or_messages, str):
        return counter.plain(text_or_messages)
    given = [text_or_messages] if isinstance(text_or_messages, Mapping | Message) else text_or_messages
    return counter.conversation(wire_for(given, format).parse(given))


def fit_text(
    text: str,
    max_tokens: int,
    *,
    model: str | None = None,
    provider: str | None = None,
    count: Count = None,
    policy: str | Policy = "refold",
) -> str:
    """Cut a text at a sentence or a word so that it has at most so many tokens."""
    counter = counter_for(_policy(policy, provider, False), _named(model, provider), count)
    return text_cutting.fit_text(text, max_tokens, count=counter.plain).text


def fit_files(
    files: Sequence[Any],
    *,
    model: str | None = None,
    window: Tokens | None = None,
    used: int = 0,
    max_tokens: int | None = None,
    policy: str | Policy = "refold",
    count: Count = None,
) -> tuple[FittedFile, ...]:
    """Clip, preview or leave out files so that together they stay within their share of what is left.

    `max_tokens` is what the answer may have; it is kept free like the reserve of the policy.
    """
    chosen = presets.get(policy)
    counter = counter_for(chosen, model, count)
    size = chosen.window(model).tokens if window is None else tokens(window)
    output = max_tokens if max_tokens is not None else chosen.reserve.tokens(size, chosen.output)
    budget = file_texts.file_budget(size, used, output, fraction=chosen.file_fraction)
    return file_texts.fit_files(files, budget_tokens=budget, count=counter.plain)


def counter_for(policy: Policy, model: str | None, count: Count) -> Counter:
    """The counter of a policy for a model, or with the caller's own measure of text."""
    counter = policy.counters(model) if policy.counters is not None else policy.counter
    if count is None:
        return counter
    if isinstance(count, str):
        return _exactly(counter, model, count)
    return counter.counting(Memo(count))


def _exactly(counter: Counter, model: str | None, count: str) -> Counter:
    """Exact counts; for a model whose tokenizer is not at hand o200k's, times what its provider adds."""
    own = exact.encoding_for(model or "") if count == "exact" else count
    factor = FAMILY.get(provider_of(model or "") or "", 1.0)
    if own is not None or factor == 1.0:
        name = own or "o200k"
        return counter.counting(Memo(exact.counter(name)), name=f"exact {name}")
    o200k = exact.counter("o200k")
    return counter.counting(Memo(lambda text: ceil(o200k(text) * factor)), name=f"o200k x {factor:g}")


def plain_text(system: Any) -> str:
    """A system prompt as text, whichever shape a provider gives it."""
    try:
        return _flat(system)
    except RecursionError:
        raise FormatError("is nested too deep", path="system") from None


def _flat(system: Any) -> str:
    if system is None or isinstance(system, str):
        return system or ""
    if isinstance(system, Message):
        return system.text
    if isinstance(system, Mapping):
        return _flat(next((system[key] for key in ("text", "content", "parts") if key in system), ""))
    if isinstance(system, Sequence):
        return "\n".join(_flat(block) for block in system)
    raise FormatError(f"expected text or blocks of text, found {type(system).__name__}", path="system")


def content_of(file: Any) -> str:
    """The text of an attachment."""
    content = file.get("content", "") if isinstance(file, Mapping) else file
    content = content.content if isinstance(content, FileText | FittedFile) else content
    if not isinstance(content, str):
        raise FormatError('a file is text or {"content": text, "path": name}', path="files")
    return content


def _policy(policy: str | Policy, provider: str | None, code: bool) -> Policy:  # noqa: FBT001  # passed on
    if policy == "neurolink":
        return presets.neurolink(provider=provider, is_code=code)
    return presets.get(policy)


def _named(model: str | None, provider: str | None) -> str | None:
    return f"{provider}:{model or 'any'}" if provider else model
