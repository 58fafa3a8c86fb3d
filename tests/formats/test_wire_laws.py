"""Laws that every wire format keeps, for whole and for broken input."""

import copy
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_cases import EXAMPLES, HISTORIES, ITEMS, JSON, NAMES, deep, encoded, valid_histories

from refold import Message, Opaque, Text, ToolCall, ToolResult, formats
from refold.errors import FormatError

pytestmark = pytest.mark.traced

EVERY = pytest.mark.parametrize("name", NAMES)


def parsed(name, items):
    try:
        return formats.get(name).parse(items)
    except FormatError as error:
        assert error.path.startswith("messages")  # noqa: PT017  # the alternative is no error at all
        return None


@EVERY
def test_every_example_comes_back_to_the_byte(name):
    wire = formats.get(name)
    before = encoded(EXAMPLES[name])
    after = wire.render(wire.parse(EXAMPLES[name]))
    assert encoded(after) == before
    assert all(left is right for left, right in zip(after, EXAMPLES[name], strict=True))
    assert encoded(EXAMPLES[name]) == before


@EVERY
def test_one_item_is_one_message_that_remembers_its_value(name):
    messages = formats.get(name).parse(EXAMPLES[name])
    assert len(messages) == len(EXAMPLES[name])
    for message, item in zip(messages, EXAMPLES[name], strict=True):
        assert message.wire.format == name
        assert message.wire.value is item
        assert message.wire.parts is message.parts
        assert len(message.wire.raws) in (0, len(message.parts))


@EVERY
def test_every_example_is_rebuilt_to_the_byte_from_its_own_parts(name):
    """A new tuple of the same parts counts as touched, and still every part is written as it was read."""
    wire = formats.get(name)
    touched = [replace(message, parts=(*message.parts,)) for message in wire.parse(EXAMPLES[name])]
    assert [encoded(item) for item in wire.render(touched)] == [encoded(item) for item in EXAMPLES[name]]


@pytest.mark.few_values(2)
@pytest.mark.slow
@EVERY
@given(data=st.data())
def test_any_items_round_trip_to_the_byte_or_are_refused_with_a_path(name, data):
    items = data.draw(HISTORIES[name])
    before = encoded(items)
    messages = parsed(name, items)
    if messages is not None:
        assert encoded(formats.get(name).render(messages)) == before
    assert encoded(items) == before


@pytest.mark.few_values(2)
@pytest.mark.slow
@EVERY
@given(data=st.data())
def test_any_item_is_rebuilt_from_its_own_parts(name, data):
    """A blank text is the exception: Anthropic takes none, so what is written anew says that."""
    item = data.draw(ITEMS[name])
    messages = parsed(name, [item])
    if messages is not None and not (name == "anthropic" and not messages[0].text.strip()):
        touched = replace(messages[0], parts=(*messages[0].parts,))
        assert [encoded(written) for written in formats.get(name).render([touched])] == [encoded(item)]


@pytest.mark.few_values(2)
@pytest.mark.slow
@EVERY
@given(data=st.data())
def test_checking_and_recognising_never_fail(name, data):
    items = data.draw(st.lists(st.one_of(ITEMS[name], JSON), max_size=4))
    messages = parsed(name, items)
    if messages is not None:
        problems = formats.get(name).check(messages)
        assert [problem.index for problem in problems] == sorted(problem.index for problem in problems)
        assert all(0 <= problem.index < len(messages) and problem.message for problem in problems)
    try:
        assert formats.detect(items).name in NAMES
    except FormatError as error:
        assert error.path.startswith("messages")  # noqa: PT017  # the alternative is no error at all


@pytest.mark.few_values(2)
@EVERY
@given(data=st.data())
def test_whatever_was_read_can_be_written_in_every_other_format(name, data):
    """Conversion loses what the other side cannot hold, never the conversation; nothing raises."""
    messages = parsed(name, data.draw(st.lists(ITEMS[name], max_size=4)))
    for other in NAMES:
        if messages is not None and other != name:
            wire = formats.get(other)
            items = wire.render(messages)
            encoded(items)
            wire.parse(json.loads(encoded(items)))


@pytest.mark.few_values(2)
@EVERY
@given(data=st.data())
def test_parts_without_their_wire_can_be_written(name, data):
    """Messages that come back from a log have no wire value; they are written from their parts."""
    messages = parsed(name, data.draw(st.lists(ITEMS[name], max_size=4)))
    if messages is not None:
        wire = formats.get(name)
        items = wire.render([replace(message, wire=None) for message in messages])
        assert len(wire.parse(items)) == len(items)


@pytest.mark.few_values(2)
@pytest.mark.slow
@EVERY
@given(history=valid_histories())
def test_a_valid_history_of_ours_is_valid_on_every_wire(name, history):
    wire = formats.get(name)
    items = wire.render(history)
    assert wire.check(wire.parse(items)) == []
    if name != "openai":
        assert formats.detect(items).name in (name, "openai")


@pytest.mark.few_values(2)
@pytest.mark.slow
@EVERY
@given(history=valid_histories())
def test_texts_calls_and_results_survive_the_wire_in_order(name, history):
    wire = formats.get(name)
    back = wire.parse(wire.render(history))

    def told(messages):
        return [
            part.text
            if isinstance(part, Text)
            else (part.name, part.id)
            if isinstance(part, ToolCall)
            else part.text
            for message in messages
            for part in message.parts
        ]

    assert told(back) == told(history)


@pytest.mark.few_values(2)
@pytest.mark.slow
@EVERY
@given(history=valid_histories(), other=st.sampled_from(NAMES))
def test_a_valid_history_stays_valid_when_converted(name, history, other):
    source, target = formats.get(other), formats.get(name)
    read = source.parse(source.render(history))
    assert target.check(target.parse(target.render(read))) == []


@pytest.mark.few_values(2)
@pytest.mark.slow
@EVERY
@given(history=valid_histories(), data=st.data())
def test_cleared_results_keep_a_history_valid(name, history, data):
    """Replacing the content of any result leaves its pair, its place and everything else alone."""
    wire = formats.get(name)
    read = wire.parse(wire.render(history))
    cleared = [
        replace(
            message,
            parts=tuple(
                replace(part, content=(Text("[cleared]"),))
                if isinstance(part, ToolResult) and data.draw(st.booleans())
                else part
                for part in message.parts
            ),
        )
        for message in read
    ]
    back = wire.parse(wire.render(cleared))
    assert len(back) == len(read)
    assert wire.check(back) == []
    assert [result.text for message in back for result in message.results] == [
        result.text for message in cleared for result in message.results
    ]


DEEP_ITEMS = {
    "openai": [
        {"role": "user", "content": [{"type": "new", "value": deep()}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "function": {"name": "a", "arguments": {"x": deep()}}}],
        },
        {"role": "user", "content": "x", "unknown": deep()},
        {"role": "critic", "content": deep()},
    ],
    "responses": [
        {"type": "web_search_call", "action": deep()},
        {"type": "local_shell_call", "call_id": "1", "action": {"x": deep()}},
        {"role": "user", "content": [{"type": "new", "value": deep()}]},
    ],
    "anthropic": [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "1", "name": "a", "input": {"x": deep()}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "new", "v": deep()}]}
            ],
        },
        {"role": "user", "content": [{"type": "server_tool_use", "input": deep()}]},
    ],
    "gemini": [
        {"role": "model", "parts": [{"functionCall": {"name": "a", "args": {"x": deep()}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "a", "response": {"x": deep()}}}]},
        {"role": "user", "parts": [{"new": deep()}]},
    ],
    "interactions": [
        {"type": "function_call", "id": "1", "name": "a", "arguments": {"x": deep()}},
        {"type": "function_result", "call_id": "1", "result": {"x": deep()}},
        {"type": "google_search_result", "call_id": "2", "result": deep()},
        {"type": "user_input", "content": [{"type": "new", "value": deep()}]},
    ],
    "converse": [
        {"role": "user", "content": [{"text": "go"}]},
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "1", "name": "a", "input": {"x": deep()}}}],
        },
        {"role": "user", "content": [{"toolResult": {"toolUseId": "1", "content": [{"json": deep()}]}}]},
        {"role": "assistant", "content": [{"new": deep()}]},
    ],
}


@EVERY
def test_values_of_any_depth_are_carried_by_reference(name):
    """100,000 levels inside arguments, results, unknown blocks and unknown fields."""
    wire = formats.get(name)
    messages = wire.parse(DEEP_ITEMS[name])
    assert all(left is right for left, right in zip(wire.render(messages), DEEP_ITEMS[name], strict=True))
    touched = [replace(message, parts=(*message.parts, Text("more"))) for message in messages]
    assert len(wire.render(touched)) >= len(messages)
    wire.check(messages)
    assert formats.detect(DEEP_ITEMS[name]).name == name
    for other in NAMES:
        formats.get(other).render(messages)


@pytest.mark.slow
def test_nested_results_do_not_recurse():
    """A tool result inside a tool result, 100,000 times, is one opaque block."""
    block = {"type": "tool_result", "tool_use_id": "x", "content": "in"}
    for _ in range(100_000):
        block = {"type": "tool_result", "tool_use_id": "x", "content": [block]}
    (message,) = formats.get("anthropic").parse([{"role": "user", "content": [block]}])
    (result,) = message.results
    assert [type(part) for part in result.content] == [Opaque]


@EVERY
@pytest.mark.parametrize("items", [None, 5, "text", b"bytes", bytearray(b"x"), {"role": "user"}, {1, 2}])
def test_what_is_no_list_is_refused(name, items):
    with pytest.raises(FormatError) as caught:
        formats.get(name).parse(items)
    assert caught.value.path == "messages"
    assert "expected a list of" in str(caught.value)


@EVERY
@pytest.mark.parametrize(
    ("item", "word"),
    [
        (3, "a number"),
        (1.5, "a number"),
        (True, "a boolean"),
        (None, "null"),
        ("x", "a string"),
        ([], "a list"),
        (object(), "object"),
    ],
)
def test_an_item_that_is_no_object_is_refused_with_its_place(name, item, word):
    good = EXAMPLES[name][0]
    with pytest.raises(FormatError) as caught:
        formats.get(name).parse([good, item])
    assert caught.value.path == "messages[1]"
    assert str(caught.value) == f"messages[1]: expected an object, found {word}"


@EVERY
def test_tuples_are_lists_too(name):
    wire = formats.get(name)
    assert wire.render(wire.parse(tuple(EXAMPLES[name]))) == EXAMPLES[name]


@EVERY
def test_an_empty_history_is_nothing_and_valid(name):
    wire = formats.get(name)
    assert wire.parse([]) == ()
    assert wire.render(()) == []
    assert wire.check(()) == []


@EVERY
def test_parsing_changes_nothing_it_was_given(name):
    items = copy.deepcopy(EXAMPLES[name])
    wire = formats.get(name)
    touched = [replace(message, parts=(*message.parts, Text("more"))) for message in wire.parse(items)]
    wire.render(touched)
    assert items == EXAMPLES[name]


@EVERY
def test_rendering_a_summary_and_its_acknowledgement(name):
    """What a fold puts into the view is plain text on every wire, and known again afterwards."""
    wire = formats.get(name)
    ours = [
        Message(
            "user", '<refold-summary generation="2">\nGoal: x\n</refold-summary>', source="summarization"
        ),
        Message("assistant", "Understood. I'll continue from the summary above.", source="summarization"),
    ]
    back = wire.parse(wire.render(ours))
    assert [message.role for message in back] == ["user", "assistant"]
    assert [message.source for message in back] == ["summarization", "summarization"]
    assert back[0].meta == {"kind": "summary", "by": "refold", "generation": 2}
    assert back[1].meta == {"kind": "ack"}
    assert wire.check(back) == []
