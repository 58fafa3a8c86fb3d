"""Tasks for stages that are called by themselves."""

from refold.core.compaction.task import Task
from refold.core.messages.message_text import visible_text
from refold.core.tokens.counting import Counter

LETTERS = Counter(name="letters", text=len, visible=visible_text)
"""A token a letter, so that sizes can be read off the texts."""


def make_task(messages, counter=LETTERS, room=100_000, **more):
    """A history that was measured, in a window of which all is room."""
    messages = tuple(messages)
    sizes = tuple(counter.sizes(messages))
    return Task(messages=messages, sizes=sizes, counter=counter, window=room, room=room, **more)
