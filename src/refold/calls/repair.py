"""The calls that check and repair a history without shortening it: validate and repair."""

from collections.abc import Sequence
from typing import Any

from refold import formats
from refold.calls.conversation import choose_format
from refold.calls.outcome import Repaired
from refold.core.compaction.bound_thinking import find_prefixes
from refold.core.messages.normalize import normalize
from refold.core.messages.plain_values import to_plain_messages
from refold.core.messages.wire_rules import Problem
from refold.errors import FormatError
from refold.policies.systems.neurolink import FOLDED_TEXTS


def validate(
    messages: Sequence[Any],
    format: str | None = None,  # noqa: A002  # the word users know
    *,
    prefix: Sequence[Any] | None = None,
) -> list[Problem]:
    """List the reasons why a provider would refuse this history; the list is empty if it would accept it.

    format   one of "openai", "responses", "anthropic", "gemini", "interactions", "converse"; where absent, it
             is recognised by shape
    prefix   the history in which the thinking was made, for a model that binds thinking to what stands before
             it: a block behind anything else is the problem `thinking-bound`
    """
    try:
        messages = to_plain_messages(messages)
        wire = choose_format(messages, format)
        parsed = wire.parse(messages)
    except FormatError as error:
        if format is not None:
            formats.get(format)  # an unknown name is the caller's mistake, not a problem of the history
        return [Problem(None, "format", str(error))]
    problems = wire.check(parsed)
    if prefix is None:
        return problems
    known = to_plain_messages(prefix)
    made = {name: at for bound in find_prefixes(known, wire.parse(known)) for name, at in bound.items()}
    text = "thinking is bound to what stood before it, and that has changed: drop it whole"
    unbound = [
        Problem(index, "thinking-bound", text)
        for index, bound in enumerate(find_prefixes(messages, parsed))
        if any(made.get(name) != at for name, at in bound.items())
    ]
    return sorted([*problems, *unbound], key=lambda problem: problem.index or 0)


def repair(messages: Sequence[Any], format: str | None = None) -> Repaired:  # noqa: A002  # the word users know
    """Give every dead call a result and every stray result a call; calls that are still open are kept.

    It is meant for a list that some program has compacted, and the texts that it inserts say so.
    """
    messages = to_plain_messages(messages)
    wire = choose_format(messages, format)
    settled = normalize(wire.parse(messages), shape=wire.shape, missing=FOLDED_TEXTS)
    if not settled.changed:
        return Repaired(messages)
    return Repaired(wire.render(settled.messages), settled.calls, settled.results)
