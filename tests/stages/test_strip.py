"""Strip: long tool traffic before the last few messages gives way to a line; the rest is the same object."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.compaction.edits import apply_edits
from refold.core.compaction.task import Task
from refold.core.messages.message import Image, Message, Text, ToolCall, ToolResult
from refold.policies.systems.codebuddy import CODEBUDDY_COUNTER
from refold.stages.strip import Strip, strip_part

TAIL = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"), Message("assistant", "d"))


def called(arguments, call_id="1"):
    return Message("assistant", (Text("look"), ToolCall(call_id, "read", arguments)))


def told(text, call_id="1"):
    return Message("tool", (ToolResult(call_id, (Text(text),), name="read"),))


def work(*messages, protected=()):
    return Task(
        messages=messages,
        sizes=tuple(CODEBUDDY_COUNTER.sizes(messages)),
        counter=CODEBUDDY_COUNTER,
        window=1_000,
        room=1_000,
        protected=frozenset(protected),
    )


def test_long_results_and_long_argument_texts_are_replaced():
    """Both halves of a call are rewritten in place; ids, names and visible text stay."""
    messages = (called("A" * 201), told("R" * 201), *TAIL)
    step = Strip()(work(*messages))
    assert step.note == "2 messages stripped"
    assert [(edit.start, edit.end, edit.stage, edit.took) for edit in step.edits] == [
        (0, 1, "strip", messages[:1]),
        (1, 2, "strip", messages[1:2]),
    ]
    done = apply_edits(messages, step.edits)
    assert done[0].parts == (Text("look"), ToolCall("1", "read", "[args truncated]"))
    assert done[1].parts == (
        ToolResult("1", (Text("[Tool result truncated — originally 201 chars]"),), name="read"),
    )
    assert done[2:] == list(TAIL)


@pytest.mark.parametrize(
    "part", [Text("x" * 900), ToolCall("1", "f", "A" * 200), ToolCall("1", "f", {"a": "x" * 900})]
)
def test_other_parts_stay(part):
    """Text, short argument texts and argument objects are not touched."""
    assert strip_part(part, limit=200) is part


def test_a_result_is_judged_by_its_text():
    """Pictures in a result do not make it long; a long text takes them along."""
    picture = Image(data="A" * 9_000, media_type="image/png")
    small = ToolResult("1", (Text("ok"), picture))
    assert strip_part(small, limit=200) is small
    large = ToolResult("1", (Text("x" * 300), picture), is_error=True)
    assert strip_part(large, limit=200).content == (Text("[Tool result truncated — originally 300 chars]"),)
    assert strip_part(large, limit=200).is_error


def test_what_is_protected_or_recent_stays():
    """Neither guarded messages nor the last few are stripped; with no older ones there is nothing to do."""
    long = told("R" * 900)
    step = Strip()(work(long, called("A" * 900), *TAIL, protected={0}))
    assert [edit.start for edit in step.edits] == [1]
    assert Strip()(work(*TAIL[:3], long)).edits == ()
    assert Strip()(work(long)).edits == ()
    assert Strip()(work()) == Strip()(work(*TAIL))
    assert Strip()(work(*TAIL)).note == ""


def test_knobs():
    """How many messages are recent and what is long are fields."""
    messages = (told("R" * 50), told("R" * 50, "2"), *TAIL)
    assert Strip()(work(*messages)).edits == ()
    assert len(Strip(limit=49)(work(*messages)).edits) == 2
    assert len(Strip(limit=49, keep_messages=5)(work(*messages)).edits) == 1
    assert Strip(name="other", limit=49)(work(*messages)).edits[0].stage == "other"


@given(st.lists(st.integers(0, 400), max_size=12), st.integers(0, 6))
def test_stripping_twice_is_stripping_once(sizes, keep):
    """A placeholder is never stripped again, and nothing grows."""
    messages = tuple(told("R" * size, str(i)) for i, size in enumerate(sizes))
    stage = Strip(keep_messages=keep)
    once = apply_edits(messages, stage(work(*messages)).edits)
    assert stage(work(*once)).edits == ()
    assert sum(len(one.results[0].text) for one in once) <= sum(sizes)
    assert [one.results[0].call_id for one in once] == [str(i) for i in range(len(sizes))]
