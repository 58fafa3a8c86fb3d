"""Whether one more message leaves a sound history sound, by looking at that message alone."""

import copy
import json
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from history_strategies import MESSAGES
from refold import formats
from refold.core.messages.message import Message, Text, Thinking, ToolCall, ToolResult
from refold.core.messages.normalize import normalize
from refold.core.messages.validity import ValidityTracker
from refold.core.messages.wire_rules import CANONICAL, Shape
from refold.testing import (
    assistant,
    call,
    call_part,
    calls,
    result,
    result_part,
    system,
    thinking,
    user,
)

FORMATS = ("openai", "responses", "anthropic", "gemini", "interactions", "converse")
SHAPES = {name: formats.get(name).shape for name in FORMATS}
CHAT, ITEMS, BLOCKS, TURNS = (SHAPES[name] for name in FORMATS[:4])
MORE_SHAPES = [
    *SHAPES.values(),
    CANONICAL,
    Shape(name="blocks", results_in_user=True),
    Shape(name="spaced", results_anywhere=True, calls_behind_user=True, allows_empty=False),
]

IDS = st.sampled_from([*"abcdefgh", ""])
BLANK = st.builds(Text, st.sampled_from(["", " \n", "words", "words"]))
CALLS = st.builds(lambda name: ToolCall(name, "read", {"path": "a.py"}), IDS)
RESULTS = st.builds(
    lambda name, content: ToolResult(name, content, name="read"),
    IDS,
    st.sampled_from([(), (Text("out"),), (Text(""),)]),
)
THOUGHTS = st.just(Thinking("hm", signature="s"))


def said(role, parts, most):
    return st.lists(parts, max_size=most).map(lambda found: Message(role, tuple(found)))


CANDIDATES = st.one_of(
    MESSAGES,
    said("user", BLANK, 2),
    said("assistant", BLANK | CALLS | THOUGHTS, 3),
    said("assistant", CALLS, 3),
    said("assistant", THOUGHTS, 1),
    said("tool", RESULTS, 1),
    said("tool", RESULTS, 2),
    said("user", RESULTS | BLANK, 3),
    said("system", BLANK, 1),
)
MADE_OF = st.lists(CANDIDATES, max_size=16)

# -- yes means sound ---------------------------------------------------------------------------------------


def accepted(messages, shape):
    """The messages that follow, each behind those before it that did."""
    tracker = ValidityTracker(shape)
    return [message for message in messages if tracker.accepts(message)]


def answers(messages):
    """The messages, each behind results for the calls before it in the two ways providers have."""
    done = []
    for message in messages:
        done.append(message)
        found = tuple(ToolResult(one.id, (Text("out"),), name=one.name) for one in message.calls)
        done += [Message("tool", (part,)) for part in found]
        done += [Message("user", found)] if found else []
    return done


@pytest.mark.parametrize("shape", MORE_SHAPES, ids=lambda shape: shape.name)
@given(MADE_OF, st.booleans())
def test_there_is_nothing_to_settle_after_every_yes(shape, messages, answered):
    history = accepted(answers(messages) if answered else messages, shape)
    for count in range(len(history) + 1):
        before = history[:count]
        settled = normalize(before, shape=shape)
        assert settled.messages is before
        assert settled.changed == 0


CONTENT = {"invalid-arguments", "thinking-without-signature", "invalid-call-id"}
"""What a provider says about the inside of a message."""


def refused(name, messages):
    """The rules a provider would refuse a history by.

    A call that waits or a thought at the end is none. That people think is the caller's own mistake, which
    nobody can mend.
    """
    return {
        problem.rule
        for problem in formats.get(name).check(messages)
        if problem.rule != "open-call"
        and not (problem.rule == "reasoning-without-item" and problem.index == len(messages) - 1)
        and not (problem.rule == "wrong-role" and has_thoughts_of_people(messages[problem.index]))
    }


def has_thoughts_of_people(message):
    return message.role != "assistant" and any(isinstance(part, Thinking) for part in message.parts)


THOUGHTS_OF_PEOPLE = [Message(role, (Thinking("hm", signature="s"),)) for role in ("user", "system")]


@pytest.mark.parametrize("name", FORMATS)
@given(messages=MADE_OF, answered=st.booleans())
@example(messages=THOUGHTS_OF_PEOPLE, answered=False)
def test_a_provider_refuses_nothing_after_every_yes(name, messages, answered):
    history = accepted(answers(messages) if answered else messages, SHAPES[name])
    assert refused(name, history) <= CONTENT


@pytest.mark.parametrize("name", FORMATS)
@given(messages=MADE_OF, answered=st.booleans())
@example(messages=THOUGHTS_OF_PEOPLE, answered=False)
def test_a_provider_refuses_no_wire_values_after_every_yes(name, messages, answered):
    wire = formats.get(name)
    items = json.loads(json.dumps(wire.render(answers(messages) if answered else messages)))
    history = accepted(wire.parse(items), wire.shape)
    assert refused(name, history) <= {"invalid-call-id"}
    assert normalize(history, shape=wire.shape).messages is history


@given(st.sampled_from(MORE_SHAPES), MADE_OF)
def test_a_no_leaves_no_trace(shape, messages):
    tracker = ValidityTracker(shape)
    for message in messages:
        before = copy.deepcopy(tracker)
        if not tracker.accepts(message):
            assert tracker == before


# -- yes where it is ordinary ------------------------------------------------------------------------------


def chat_call(*ids):
    return [{"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ids]


def model_calls(*names):
    return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}} for name in names]}


def answered_by(*names):
    parts = [{"functionResponse": {"name": name, "response": {"output": "1"}}} for name in names]
    return {"role": "user", "parts": parts}


ORDINARY = {
    "openai": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": chat_call("a", "b")},
        {"role": "tool", "tool_call_id": "b", "content": "1"},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "2"}]},
        {"role": "assistant", "content": "more", "tool_calls": chat_call("c")},
        {"role": "tool", "tool_call_id": "c", "content": "2"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": None, "tool_calls": chat_call("d", "e")},
    ],
    "openai with ids used again": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": chat_call("call_0")},
        {"role": "tool", "tool_call_id": "call_0", "content": "1"},
        {"role": "assistant", "content": None, "tool_calls": chat_call("call_0")},
        {"role": "tool", "tool_call_id": "call_0", "content": "2"},
        {"role": "assistant", "content": "done"},
    ],
    "anthropic": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "b", "content": "1"},
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "2"}]},
                {"type": "text", "text": "and hurry"},
            ],
        },
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "thanks"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
    ],
    "responses": [
        {"role": "developer", "content": "You help."},
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "function_call_output", "call_id": "b", "output": "2"},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "content": [{"type": "output_text", "text": "done", "annotations": []}],
        },
        {"role": "user", "content": "more"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "go"}]},
        model_calls("f", "g"),
        answered_by("f", "g"),
        model_calls("f"),
        answered_by("f"),
        {"role": "model", "parts": [{"text": "done"}]},
        {"role": "user", "parts": [{"text": "more"}]},
        model_calls("f"),
    ],
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_histories_follow_to_the_end(kind):
    wire = formats.get(kind.split()[0])
    history = wire.parse(ORDINARY[kind])
    tracker = ValidityTracker(wire.shape)
    assert [tracker.accepts(message) for message in history] == [True] * len(ORDINARY[kind])
    assert tracker.waiting == {one.id for one in history[-1].calls}
    assert normalize(history, shape=wire.shape).messages is history
    assert refused(wire.name, history) == set()


def test_a_new_call_copies_no_ids_of_earlier_ones():
    tracker = ValidityTracker(BLOCKS, role="user", ids={f"call {number}" for number in range(20_000)})
    message = calls(call_part("f", id="new"))
    tracemalloc.start()
    try:
        assert tracker.accepts(message)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()


# -- no where it is not sure -------------------------------------------------------------------------------

BOTH = calls(call_part("f", id="a"), call_part("g", id="b"))


@pytest.mark.parametrize(
    ("shape", "history"),
    [
        pytest.param(CHAT, [assistant()], id="no-parts"),
        pytest.param(CHAT, [user("go"), call("f"), Message("tool", (ToolResult("c1", ()),))], id="no-answer"),
        pytest.param(CHAT, [user("go"), assistant(thinking("hm"))], id="nothing-but-thinking"),
        pytest.param(BLOCKS, [user("")], id="empty-text"),
        pytest.param(BLOCKS, [user(" \n")], id="blank-text"),
        pytest.param(BLOCKS, [system("obey")], id="system-in-front"),
        pytest.param(BLOCKS, [user("go"), system("obey")], id="system-inside"),
        pytest.param(BLOCKS, [assistant("hi")], id="assistant-first"),
        pytest.param(TURNS, [user("go"), assistant("I look"), call("f")], id="calls-behind-a-reply"),
        pytest.param(CHAT, [user("go"), call("f"), user("stop")], id="words-while-calls-wait"),
        pytest.param(ITEMS, [user("go"), call("f"), user("stop")], id="words-while-items-wait"),
        pytest.param(CHAT, [user("go"), call("f", id="a"), call("g", id="b")], id="calls-apart"),
        pytest.param(
            ITEMS, [user("go"), calls("look", call_part("f", id="a")), call("g", id="b")], id="words-in-unit"
        ),
        pytest.param(
            ITEMS,
            [user("go"), call("f", id="a"), call("g", id="b"), result("a", "1"), call("h", id="c")],
            id="calls-behind-some-results",
        ),
        pytest.param(
            ITEMS,
            [user("go"), call("f", id="a"), calls("look", call_part("g", id="b"))],
            id="words-join-unit",
        ),
        pytest.param(
            Shape(name="odd", results_anywhere=True),
            [user("go"), call("f"), call("f")],
            id="one-id-waits-twice",
        ),
        pytest.param(ITEMS, [user("go"), call("f"), assistant(thinking("hm"))], id="thoughts-while-waiting"),
        pytest.param(
            ITEMS, [user("go"), assistant(thinking("hm")), user("well?")], id="thoughts-for-nothing"
        ),
        pytest.param(CHAT, [user(call_part("f", id="a"))], id="calls-of-the-user"),
        pytest.param(CHAT, [user("go"), Message("tool", (Text("x"),))], id="tool-without-result"),
        pytest.param(CHAT, [user("go"), assistant(call_part("f"))], id="no-id"),
        pytest.param(
            CHAT, [user("go"), calls(call_part("f", id="a"), call_part("g", id="a"))], id="one-id-twice"
        ),
        pytest.param(
            BLOCKS, [user("go"), call("f"), result("c1", "1", role="user"), call("f")], id="an-id-used-again"
        ),
        pytest.param(ITEMS, [user("go"), call("f", id="a"), call("g", id="a")], id="an-id-that-waits"),
        pytest.param(CHAT, [user("go"), result("a", "1")], id="result-without-call"),
        pytest.param(CHAT, [user("go"), call("f"), result("c1", "1"), result("c1", "2")], id="two-results"),
        pytest.param(CHAT, [user("go"), call("f"), result("c1", "1", role="user")], id="result-in-user"),
        pytest.param(
            BLOCKS, [user("go"), call("f"), result("c1", "1", role="assistant")], id="result-in-assistant"
        ),
        pytest.param(
            CHAT,
            [user("go"), BOTH, Message("tool", (result_part("a", "1"), result_part("a", "2")))],
            id="one-result-twice",
        ),
        pytest.param(
            CHAT,
            [user("go"), call("f"), Message("tool", (result_part("c1", "1"), call_part("g", id="d")))],
            id="calls-beside-results",
        ),
        pytest.param(
            CHAT,
            [user("go"), BOTH, Message("tool", (result_part("a", "1"), Text("x")))],
            id="words-too-early",
        ),
        pytest.param(BLOCKS, [user("go"), BOTH, result("a", "1", role="user")], id="half-the-results"),
        pytest.param(
            BLOCKS, [user("go"), call("f"), user("here", result_part("c1", "1"))], id="results-behind-words"
        ),
    ],
)
def test_what_is_not_surely_sound_does_not_follow(shape, history):
    tracker = ValidityTracker(shape)
    assert [tracker.accepts(message) for message in history] == [True] * (len(history) - 1) + [False]


def test_system_messages_do_not_count_as_speakers():
    shape = Shape(name="odd", starts_with_user=True, calls_behind_user=True)
    tracker = ValidityTracker(shape)
    assert tracker.accepts(system("obey"))
    assert tracker.role == ""
    assert not tracker.accepts(assistant("hi"))
    assert tracker.accepts(user("go"))
    assert tracker.accepts(system("obey"))
    assert tracker.role == "user"
    assert tracker.accepts(call("f"))


def test_words_beside_the_last_result_are_taken():
    tracker = ValidityTracker(CHAT)
    history = [user("go"), BOTH, result("b", "1"), Message("tool", (result_part("a", "1"), Text("x")))]
    assert all(tracker.accepts(message) for message in history)
    assert tracker.waiting == set()


def count_accepted(name, *items):
    """How many items of a history are surely valid one behind the other."""
    tracker = ValidityTracker(SHAPES[name])
    return sum(1 for message in formats.get(name).parse(items) if tracker.accepts(message))


def test_a_system_message_between_a_users_turn_and_the_reply_is_valid():
    asked, rule = {"role": "user", "content": "go"}, {"role": "system", "content": "Be brief."}
    reply = {"role": "assistant", "content": "ok"}
    assert count_accepted("anthropic", asked, rule, reply, asked) == 4
    assert count_accepted("anthropic", asked, rule, asked) == 2
    assert count_accepted("anthropic", asked, rule, rule) == 2
    assert count_accepted("anthropic", rule, asked) == 1


def test_a_providers_compaction_may_be_first_and_a_signed_one_nowhere_else():
    block = {"type": "compaction", "content": "what was said", "signature": "s"}
    asked, compacted = {"role": "user", "content": "go"}, {"role": "assistant", "content": [block]}
    assert count_accepted("anthropic", compacted, asked) == 2
    assert count_accepted("anthropic", asked, compacted) == 1


def test_speakers_who_take_turns():
    tracker = ValidityTracker(formats.get("converse").shape)
    assert [
        tracker.accepts(message) for message in (user("a"), user("b"), assistant("c"), assistant("d"))
    ] == [
        True,
        False,
        True,
        False,
    ]
