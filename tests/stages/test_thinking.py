"""Thinking: reasoning of turns that are over leaves, each block whole; that of the latest turn stays."""

from hypothesis import given
from hypothesis import strategies as st

from refold import Text, Thinking
from refold.core.compaction.edits import apply_edits
from refold.core.compaction.task import Task
from refold.core.tokens.counting import ESTIMATE_COUNTER
from refold.stages.thinking import DropThinking
from refold.testing import assistant, call_part, calls, result, shape, summary, thinking, user


def task(messages, **more):
    return Task(
        messages=tuple(messages),
        sizes=tuple(ESTIMATE_COUNTER.sizes(messages)),
        counter=ESTIMATE_COUNTER,
        window=100_000,
        room=100_000,
        **more,
    )


def dropped(messages, **more):
    return apply_edits(messages, DropThinking()(task(messages, **more)).edits)


def test_golden():
    """What was thought before the user's last word is gone, with the calls of that turn intact."""
    messages = [
        user("one"),
        calls(thinking("plan"), call_part("read", id="a")),
        result("a", "x"),
        assistant(thinking("now"), Thinking("", redacted="enc"), "done"),
        user("two"),
        calls(thinking("again"), call_part("read", id="b")),
        result("b", "y"),
    ]
    step = DropThinking()(task(messages))
    assert step.note == "thinking of 2 messages dropped"
    assert shape(apply_edits(messages, step.edits)).split("\n") == [
        "user: one",
        "assistant: -> read() #a",
        "tool #a: x",
        "assistant: done",
        "user: two",
        "assistant: (thinks again) | -> read() #b",
        "tool #b: y",
    ]


def test_a_message_that_is_only_thinking_stays():
    """A reasoning item of its own belongs to the item behind it (wire facts, OpenAI Responses)."""
    messages = [user("one"), assistant(thinking("alone")), assistant("done"), user("two")]
    assert dropped(messages) == messages


def test_without_a_user_nothing_is_over():
    messages = [assistant(thinking("plan"), "go")]
    step = DropThinking()(task(messages))
    assert (step.edits, step.note) == ((), "")


def test_a_summary_is_no_turn_of_the_user():
    """Behind a summary the turn may still be going on: its thinking stays."""
    messages = [user("one"), assistant(thinking("plan"), "go"), summary("what was")]
    assert dropped(messages) == messages


def test_guarded_messages_keep_their_thinking():
    messages = [user("one"), assistant(thinking("plan"), "go"), user("two")]
    assert dropped(messages, protected=frozenset({1})) == messages


blocks = st.sampled_from(
    [Text("words"), thinking("a"), thinking("b", signature=None), call_part("t", id="c")]
)


@given(
    st.lists(
        st.one_of(st.just(user("u")), st.lists(blocks, min_size=1).map(lambda parts: assistant(*parts))),
        max_size=12,
    )
)
def test_blocks_are_there_verbatim_or_not_at_all(messages):
    """Law 7: never a part of a block; and everything that is no thinking stays."""
    done = dropped(messages)
    last = max((at for at, message in enumerate(messages) if message.role == "user"), default=0)
    for at, (new, old) in enumerate(zip(done, messages, strict=True)):
        assert [part for part in new.parts if not isinstance(part, Thinking)] == [
            part for part in old.parts if not isinstance(part, Thinking)
        ]
        left = [part for part in new.parts if isinstance(part, Thinking)]
        alone = all(isinstance(part, Thinking) for part in old.parts)
        assert left == (
            [part for part in old.parts if isinstance(part, Thinking)] if at >= last or alone else []
        )
