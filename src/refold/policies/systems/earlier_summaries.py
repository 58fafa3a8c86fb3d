"""Summaries that leave again: a notice that is made without a model repeats them, so that nothing is lost."""

from collections.abc import Sequence

from refold.core.messages.message import Message
from refold.core.summaries.wrappers import unwrap_summary


def earlier_summaries(messages: Sequence[Message]) -> list[str]:
    """List the texts of the summaries among messages that leave."""
    return [
        unwrap_summary(message)
        for message in messages
        if message.is_summary and message.meta.get("kind") == "summary"
    ]
