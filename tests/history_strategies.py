"""Histories for the property tests of the core: short, with few ids, so that every kind of mishap happens."""

from hypothesis import strategies as st

from refold.core.messages.message import Message, Text, Thinking, ToolCall, ToolResult
from refold.core.messages.wire_rules import Shape
from refold.testing import summary

IDS = st.sampled_from(["a", "b", "c"])
CALLS = st.builds(ToolCall, IDS, st.sampled_from(["read", ""]))
RESULTS = st.builds(lambda name, text: ToolResult(name, (Text(text),)), IDS, st.sampled_from(["", "out"]))
WORDS = st.builds(Text, st.sampled_from(["", "words"]))
THOUGHTS = st.builds(lambda: Thinking("hm", signature="s"))

SAID = st.lists(WORDS | CALLS | THOUGHTS, max_size=3).map(lambda parts: Message("assistant", tuple(parts)))
ANSWERED = RESULTS.map(lambda part: Message("tool", (part,)))
IN_USER = st.lists(WORDS | RESULTS, max_size=3).map(lambda parts: Message("user", tuple(parts)))
ODD = st.builds(
    lambda role, parts: Message(role, tuple(parts)),
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(WORDS | CALLS | THOUGHTS | RESULTS, max_size=4),
)
SUMMARIES = st.sampled_from([summary("was"), summary("ok", role="assistant", kind="ack")])

MESSAGES = SAID | ANSWERED | IN_USER | ODD | SUMMARIES
HISTORIES = st.lists(MESSAGES, max_size=10)

SHAPES = st.sampled_from(
    [
        Shape(name="chat"),
        Shape(name="blocks", results_in_user=True),
        Shape(name="turns", results_in_user=True, alternates=True, system_inside=False, allows_empty=False),
    ]
)


def revert_edits(messages, edits):
    """Return the list before these edits: `revert_edits(apply_edits(x, edits), edits) == x`."""
    result, at, shift = [], 0, 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        start = edit.start + shift
        result += [*messages[at:start], *edit.took]
        at = start + len(edit.put)
        shift += len(edit.put) - (edit.end - edit.start)
    return [*result, *messages[at:]]
