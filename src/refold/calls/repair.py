"""The calls that check and repair a history without shortening it: validate and repair."""

from collections.abc import Sequence
from typing import Any

from refold import formats
from refold.calls.conversation import choose_format
from refold.calls.outcome import Repaired
from refold.core.messages.normalize import normalize
from refold.core.messages.plain_values import to_plain_messages
from refold.core.messages.wire_rules import Problem
from refold.errors import FormatError
from refold.policies.systems.neurolink import FOLDED_TEXTS


def validate(messages: Sequence[Any], format: str | None = None) -> list[Problem]:  # noqa: A002  # the word users know
    """List the reasons why a provider would refuse this history; the list is empty if it would accept it.

    `format` is one of "openai", "responses", "anthropic", "gemini", "interactions", "converse"; where absent,
    it is recognised by shape.
    """
    try:
        messages = to_plain_messages(messages)
        wire = choose_format(messages, format)
        parsed = wire.parse(messages)
    except FormatError as error:
        if format is not None:
            formats.get(format)  # an unknown name is the caller's mistake, not a problem of the history
        return [Problem(None, "format", str(error))]
    return wire.check(parsed)


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
