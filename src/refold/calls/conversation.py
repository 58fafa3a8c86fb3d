"""Reading the arguments of a call: plain provider messages become a measured conversation.

Knows the options that every call on plain data shares. Knows nothing of how a conversation is shortened, and
asks no model.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from numbers import Real
from typing import Any

from refold import formats
from refold.arguments import LARGEST
from refold.core.compaction.budget import Breakdown, Budget, make_budget
from refold.core.compaction.cuts import HistoryIndex
from refold.core.compaction.file_budget import FileText, FittedFile
from refold.core.compaction.keep_rules import count_system_messages
from refold.core.compaction.policy import Policy
from refold.core.messages.file_operations import PATH_CHARS
from refold.core.messages.message import SUMMARY, Message
from refold.core.messages.plain_values import to_plain_messages
from refold.core.messages.unread import count_read
from refold.core.models.model_facts import find_fact
from refold.core.models.windows import Window, choose_window, provider_of
from refold.core.tokens.calibration import Calibration, Counted, clamp_ratio
from refold.core.tokens.counting import Counter, count_guessed, remember_sizes
from refold.core.tokens.estimate import FAMILY
from refold.core.tokens.findings import Findings
from refold.core.tokens.units import parse_window
from refold.core.tokens.usage import Usage, read_usage
from refold.errors import FormatError
from refold.formats import Format
from refold.policies import presets

Count = Callable[[str], int] | str | None
"""A callable from text to tokens, `"exact"` or the name of an encoding; None: as the policy counts."""
Tokens = int | str
"""A number of tokens: 200000 or "200k"."""


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """The options of `measure`, which every call on plain data takes as well; described there."""

    model: str | None = None
    window: Tokens | None = None
    system: Any = None
    tools: Sequence[Any] | None = None
    prompt: str | None = None
    files: Sequence[Any] | None = None
    policy: str | Policy | None = "refold"
    count: Count = None
    usage: Any = None
    format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A measured conversation: the messages, how they are counted, and how full the window is."""

    wire: Format
    items: Sequence[Any]
    """The messages as the caller has them."""
    messages: tuple[Message, ...]
    """The same messages as values."""
    sizes: tuple[int, ...]
    """Units of each message, by the counter."""
    policy: Policy
    counter: Counter
    window: Window
    budget: Budget
    sound: bool = False
    """True if the provider is known to accept the messages as they are; nothing has to be repaired then."""
    calibration: Calibration = Calibration()
    """How the provider counts a compacted context."""
    binds_thinking: bool = False
    """True if the model refuses thinking behind a prefix that has changed."""
    bounds_guesses: bool = True
    """True if what nobody can read counts for half of the room at most; a report may tell what it takes."""
    index: HistoryIndex = field(default=None, compare=False, repr=False)  # type: ignore[assignment]
    """The tool links and legal cuts of the messages, computed at their first use; the task takes it over."""
    found: Findings = field(default_factory=Findings, compare=False, repr=False)
    """What was found in single messages and texts; a session keeps it from fold to fold."""

    def __post_init__(self) -> None:
        if self.index is None or self.index.messages is not self.messages:
            object.__setattr__(self, "index", HistoryIndex(self.messages))

    def counter_for(self, messages: Iterable[Message]) -> Counter:
        """Return the counter that measures these messages alone: fewer guesses count for more each."""
        if not self.bounds_guesses or self.counter.guess == 1.0:
            return self.counter
        guessed = sum(map(count_guessed, messages))
        return replace(self.counter, guess=1.0).bound_guesses(guessed, self.budget.room)


def read_conversation(messages: Sequence[Any], options: MeasureOptions | None = None) -> Conversation:
    """Read plain messages and measure them."""
    options = options or MeasureOptions()
    policy = presets.get(options.policy or "refold")
    messages = to_plain_messages(messages)
    wire = choose_format(messages, options.format, options.model, options.tools)
    messages, parsed = _read_messages(policy, wire, messages)
    given = None if options.window is None else parse_window(options.window)
    window = choose_window(policy.window, options.model, given)
    counter, guessed = choose_counter(policy, options.model, options.count), sum(map(count_guessed, parsed))
    counter = counter.bound_guesses(guessed, policy.find_room(window)[1]) if guessed else counter
    visible = [counter.visible(message) for message in parsed]
    sizes = count_read(parsed, tuple(map(counter.count_with_text, parsed, visible)))
    usage, used = _read_usage(options.usage), None
    breakdown = _break_down(counter, sizes, options, usage)
    if usage is not None:
        used = estimate_used(usage, parsed, sizes, breakdown, counter=counter, learns=policy.learns)
    system = counter.tokens(sum(sizes[: count_system_messages(parsed)]))
    reserve, room = policy.find_room(window, breakdown, system, used)
    budget = make_budget(
        breakdown,
        window=window.tokens,
        reserve=reserve,
        room=room,
        trigger=policy.trigger,
        levels=policy.levels,
        system_messages=system,
        messages=len(parsed),
        characters=sum(map(len, visible)),
        used=used,
        count_source=counter.name if usage is None else "usage+estimate",
        window_source=window.source,
    )
    return Conversation(
        wire=wire,
        items=messages,
        messages=parsed,
        sizes=sizes,
        policy=policy,
        counter=counter,
        window=window,
        budget=budget,
        calibration=_calibrate(breakdown.total, used),
        binds_thinking=bool(options.model and find_fact("binds_thinking", options.model)),
    )


def _read_usage(value: Any) -> Usage | None:
    if isinstance(value, Sequence | bool):
        raise FormatError("expected a number of tokens, or what a provider reported", path="usage")
    return None if value is None else read_usage(value)


def _calibrate(estimate: int, used: int | None) -> Calibration:
    """Return how the provider counts, if it reported that an estimated size is truly `used` tokens."""
    if used is None or not estimate:
        return Calibration()
    ratio = used / estimate
    return Calibration(ratio=ratio, scale=clamp_ratio(ratio), last=Counted(estimate, used))


def _read_messages(
    policy: Policy, wire: Format, items: Sequence[Any]
) -> tuple[Sequence[Any], tuple[Message, ...]]:
    """Return the messages of a list that the model sees: as the caller has them, and as values."""
    if policy.read_list is None:
        return items, wire.parse(items)
    shown = policy.read_list(items)
    if len(shown) < len(items):
        items = [item for item, _ in shown]
    parsed = (
        message
        if about is None or message.is_summary
        else replace(message, source=SUMMARY, meta={**about, "text": message.text})
        for message, (_, about) in zip(wire.parse(items), shown, strict=True)
    )
    return items, tuple(parsed)


def _break_down(
    counter: Counter, sizes: Sequence[int], options: MeasureOptions, usage: Usage | None
) -> Breakdown:
    system, tools = system_text(options.system), options.tools or ()
    beside = usage.beside if usage is not None and not (system or tools) else 0
    return Breakdown(
        system=counter.plain(system) + beside,
        history=counter.total(sizes),
        prompt=counter.plain(options.prompt or ""),
        tools=counter.tools([tools] if isinstance(tools, Mapping) else tools, system),
        files=sum(counter.plain(file_text(file)) for file in options.files or ()),
    )


def choose_format(
    messages: Sequence[Any],
    format: str | None,  # noqa: A002  # the word users know
    model: str | None = None,
    tools: Any = None,
) -> Format:
    """Return the named wire format, or the one that the request shows; refuses a list in another format."""
    if format is None:
        return formats.detect(messages, model, tools)
    wire = formats.get(format)
    formats.refuse_other(wire, messages)
    return wire


def estimate_used(
    usage: Usage,
    messages: Sequence[Message],
    sizes: Sequence[int],
    breakdown: Breakdown,
    *,
    counter: Counter,
    learns: bool,
) -> int:
    """Add an estimate of what came since to the reported size of what was sent.

    The first `usage.messages` of the history were sent. Without that number it is all before the model's last
    reply, because a report comes with the reply. If the policy learns, the estimate is scaled by how far it
    was off for what was sent.
    """
    sent = usage.messages
    if sent is None:
        replies = [index for index, message in enumerate(messages) if message.role == "assistant"]
        sent = replies[-1] if replies else len(messages)
    sent = min(sent, len(messages))
    before = counter.total(sizes[:sent]) + breakdown.fixed
    scale = clamp_ratio(usage.context / before) if before else 1.0
    replied = sent < len(messages) and messages[sent].role == "assistant"
    reply = counter.tokens(sizes[sent]) if replied else None
    return add_since(usage, breakdown.total - before, reply=reply, scale=scale if learns else None)


def add_since(usage: Usage, since: int, *, reply: int | None, scale: float | None) -> int:
    """Return the reported size and the estimated tokens since then, `reply` of them the model's reply.

    scale   reported tokens for one estimated token; None if the policy does not learn
    """
    if scale is None:
        return max(0, usage.input + since)
    if reply is None or usage.said is None:
        return max(0, usage.input + round(since * scale))
    # The provider has counted the reply as output, so it need not be estimated.
    return max(0, usage.input + usage.said + round((since - reply) * scale))


def choose_counter(policy: Policy, model: str | None, count: Count) -> Counter:
    """Return the counter of a policy for a model, with the caller's own measure of text if there is one.

    "exact" for a model without a public tokenizer counts with o200k, times what the provider is known to add.
    """
    counter = policy.counters(model) if policy.counters is not None else policy.counter
    if count is None:
        return counter
    if not isinstance(count, str):
        return counter.with_text_count(remember_sizes(_check_count(count)))
    from refold.tokenizers import exact  # most people estimate

    encoding = exact.encoding_for(model or "") if count == "exact" else count
    factor = FAMILY.get(provider_of(model or "") or "", 1.0)
    if encoding is not None or factor == 1.0:
        name = encoding or "o200k"
        return counter.with_text_count(remember_sizes(exact.make_counter(name)), name=f"exact {name}")
    o200k = exact.make_counter("o200k")
    scaled = remember_sizes(lambda text: ceil(o200k(text) * factor))
    return counter.with_text_count(scaled, name=f"o200k x {factor:g}")


def _is_file_name(text: str) -> bool:
    """True for a single word that has the shape of a path, or is the name of a file that is there."""
    from refold.core.facts.entities import FILE, PATH, entity_kind  # slow to import, and few hand files in

    is_word = 0 < len(text) <= PATH_CHARS and len(text.split()) == 1
    return is_word and (entity_kind(text) in {PATH, FILE} or os.path.isfile(text))  # noqa: PTH113  # no text is too odd for it


def _check_count(count: Callable[[str], int]) -> Callable[[str], int]:
    """Return a caller's count of text that refuses what is no number."""

    def counted(text: str) -> int:
        number = count(text)
        if isinstance(number, Real) and 0 <= number <= LARGEST:
            return number
        raise FormatError(f"expected a number of tokens from it, found {number!r}", path="count")

    return counted


def system_text(system: Any) -> str:
    """Return the text of a system prompt in any provider's shape."""
    try:
        return _join_blocks(system)
    except RecursionError:
        raise FormatError("is nested too deep", path="system") from None


def _join_blocks(system: Any) -> str:
    if system is None or isinstance(system, str):
        return system or ""
    if isinstance(system, Message):
        return system.text
    if isinstance(system, Mapping):
        return _join_blocks(next((system[key] for key in ("text", "content", "parts") if key in system), ""))
    if isinstance(system, Sequence):
        return "\n".join(_join_blocks(block) for block in system)
    raise FormatError(f"expected text or blocks of text, found {type(system).__name__}", path="system")


def file_text(file: Any) -> str:
    """Return the text of an attachment; refuses a name of a file, which would be counted as its text."""
    if isinstance(file, os.PathLike) or (isinstance(file, str) and _is_file_name(file)):
        name = os.fspath(file)
        raise FormatError(
            f'names a file: give its text, or {{"content": text, "path": {name!r}}}', path=f"files: {name!r}"
        )
    content = file.get("content", "") if isinstance(file, Mapping) else file
    content = content.content if isinstance(content, FileText | FittedFile) else content
    if not isinstance(content, str):
        raise FormatError('a file is text or {"content": text, "path": name}', path="files")
    return content
