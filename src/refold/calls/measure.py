"""The calls that count: measure, count, fit_text and fit_files. They ask no model and change no message."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from refold.arguments import Range, check_arguments
from refold.calls.conversation import (
    Count,
    MeasureOptions,
    Tokens,
    choose_counter,
    choose_format,
    file_text,
    read_conversation,
)
from refold.core.compaction import file_budget
from refold.core.compaction.budget import Budget
from refold.core.compaction.file_budget import FittedFile
from refold.core.compaction.policy import Policy
from refold.core.messages import text_cutting
from refold.core.messages.message import Message
from refold.core.messages.plain_values import to_plain_messages
from refold.core.tokens.counting import Counter
from refold.core.tokens.units import parse_window
from refold.policies import presets


@check_arguments
def measure(
    messages: Sequence[Any],
    *,
    model: str | None = None,
    window: Tokens | None = None,
    system: Any = None,
    tools: Sequence[Any] | None = None,
    prompt: str | None = None,
    files: Sequence[Any] | None = None,
    policy: str | Policy = "refold",
    count: Count = None,
    usage: Any = None,
    format: str | None = None,  # noqa: A002  # the word users know
) -> Budget:
    """Measure how full the context is, what fills it, and whether it is time to compact.

    model    finds the window and the way to count: "gpt-4o", "anthropic:claude-sonnet-4-20250514"
    window   the window, where you know better: 200000 or "200k"
    system   the system prompt, if it is not in the messages
    tools    tool definitions, as they are sent
    prompt   what will be said next and is not in the messages
    files    attachments: texts, or {"content": text, "path": name}
    policy   a name or what `presets.get` gives
    count    a callable from text to tokens, or "exact" (needs the extra exact)
    usage    what the provider reported for the last request; the estimate starts from it
    format   "openai", "responses", "anthropic", "gemini", "interactions" or "converse"; recognised by shape
             where absent

    >>> budget = measure([{"role": "user", "content": "hi"}], window="8k")
    >>> budget.level, budget.room, budget.should_compact
    ('none', 6000, False)
    """
    options = MeasureOptions(model, window, system, tools, prompt, files, policy, count, usage, format)
    return read_conversation(messages, options).budget


@check_arguments
def count(
    text_or_messages: Any,
    *,
    model: str | None = None,
    provider: str | None = None,
    code: bool = False,
    policy: str | Policy = "refold",
    format: str | None = None,  # noqa: A002  # the word users know
) -> int:
    """Count the tokens of a text or of messages.

    `provider` names who serves the model, where its name does not say so. `code` says that the text is source
    code; a policy that counts code like any other text refuses it.
    """
    counter = _text_counter(policy, model, provider)
    counter = counter.for_code() if code else counter
    if isinstance(text_or_messages, str):
        return counter.plain(text_or_messages)
    messages = [text_or_messages] if isinstance(text_or_messages, Mapping | Message) else text_or_messages
    messages = to_plain_messages(messages)
    return counter.conversation(choose_format(messages, format, model).parse(messages))


@check_arguments
def fit_text(
    text: str,
    max_tokens: Annotated[int, Range(0)],
    *,
    model: str | None = None,
    provider: str | None = None,
    count: Count = None,
    policy: str | Policy = "refold",
) -> str:
    """Cut a text at a sentence or a word so that it has at most `max_tokens` tokens."""
    counter = _text_counter(policy, model, provider, count)
    return text_cutting.fit_text(text, max_tokens, count=counter.plain).text


@check_arguments
def fit_files(
    files: Sequence[Any],
    *,
    model: str | None = None,
    window: Tokens | None = None,
    used: Annotated[int, Range(0)] = 0,
    max_tokens: Annotated[int, Range(0)] | None = None,
    policy: str | Policy = "refold",
    count: Count = None,
) -> tuple[FittedFile, ...]:
    """Clip, preview or leave out files so that together they stay within their share of the free window.

    `used` tokens of the window are taken already. `max_tokens` is what the answer may have; it is kept free
    like the reserve of the policy.
    """
    chosen = presets.get(policy)
    counter = choose_counter(chosen, model, count)
    size = chosen.window(model).tokens if window is None else parse_window(window)
    output = max_tokens if max_tokens is not None else chosen.reserve.tokens(size, chosen.output)
    budget = file_budget.file_budget(size, used, output, fraction=chosen.file_fraction)
    for file in files:
        file_text(file)  # refuses what is no file
    return file_budget.fit_files(files, budget_tokens=budget, count=counter.plain)


def _text_counter(
    policy: str | Policy, model: str | None, provider: str | None, count: Count = None
) -> Counter:
    """Return the counter for a model of a provider."""
    named = f"{provider}:{model or 'any'}" if provider else model
    return choose_counter(presets.get(policy), named, count)
