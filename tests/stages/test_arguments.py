"""Trimmed arguments: still an object, long values told by their beginning; short and open calls stay."""

import json
from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from refold.core.compaction.edits import apply_edits
from refold.core.compaction.task import Task
from refold.core.messages.message import Message, Text, ToolCall, ToolResult
from refold.core.tokens.counting import ESTIMATE_COUNTER
from refold.policies.keep_rules import LastMessages
from refold.stages.arguments import TrimArguments

LONG = "x" * 3_000


def pair(arguments, call_id="1"):
    return (
        Message("assistant", (Text("writing"), ToolCall(call_id, "write", arguments))),
        Message("tool", (ToolResult(call_id, (Text("ok"),)),)),
    )


def work(*messages, protected=()):
    return Task(
        messages=messages,
        sizes=(1,) * len(messages),
        counter=ESTIMATE_COUNTER,
        window=1_000,
        room=1_000,
        protected=frozenset(protected),
    )


def trimmed(arguments, **knobs):
    """What becomes of a call's arguments."""
    messages = pair(arguments)
    (call,) = apply_edits(messages, TrimArguments(**knobs)(work(*messages)).edits)[0].calls
    return call.arguments


def test_long_values_are_told_by_their_beginning():
    """A path stays, a file's text becomes 80 characters and a count, in an object as in JSON text."""
    told = {
        "path": "a.py",
        "text": "x" * 80 + " [... 2920 characters left out]",
        "mode": 7,
        "new": True,
        "old": None,
    }
    value = {"path": "a.py", "text": LONG, "mode": 7, "new": True, "old": None}
    assert trimmed(value) == told
    assert json.loads(trimmed(json.dumps(value))) == told


def test_nested_values_are_told_as_json():
    """A long list or object inside becomes text; a short one stays as it is."""
    told = trimmed({"edits": [{"line": n} for n in range(400)], "tags": ["a", "b"]})
    assert told["tags"] == ["a", "b"]
    assert told["edits"].startswith('[{"line": 0}, {"line": 1}')
    assert told["edits"].endswith("characters left out]")


def test_arguments_that_are_no_object_become_one():
    """Broken JSON and lists are told under one key, so that the result is valid for every provider."""
    for text in ("{broken " + LONG, json.dumps([LONG])):
        told = json.loads(trimmed(text))
        assert list(told) == ["arguments"]
        assert f"{len(text) - 80} characters left out" in told["arguments"]


def test_many_short_values_become_one():
    """Where the keys alone are over the limit, the whole is told by its beginning."""
    told = trimmed({f"key{n}": "v" for n in range(500)})
    assert list(told) == ["arguments"]


def test_values_that_are_no_json_are_no_obstacle():
    """A program's own objects are shown as text for counting and stay where they are short."""
    told = trimmed({"when": date(2026, 1, 2), "text": LONG})
    assert told["when"] == date(2026, 1, 2)
    assert len(told["text"]) < 200


def test_a_cut_is_never_inside_a_character():
    """A family of emoji at the border stays whole or goes whole."""
    family = "👩‍👩‍👧‍👦"
    told = trimmed({"text": "x" * 78 + family + LONG})
    assert told["text"].startswith("x" * 78 + " [...")


def test_short_arguments_stay():
    """Up to the limit nothing changes, and a limit below 200 characters is 200."""
    messages = pair({"text": "x" * 1_900})
    assert TrimArguments()(work(*messages)).edits == ()
    assert TrimArguments()(work(*messages)).note == ""
    small = pair({"a": "x" * 150})
    assert TrimArguments(limit=10)(work(*small)).edits == ()
    assert len(TrimArguments(limit=400)(work(*messages)).edits) == 1


def test_open_and_protected_calls_stay():
    """A call that waits for its result is sent as it is, and so is what is guarded."""
    waiting = pair({"text": LONG}, "2")[0]
    messages = (*pair({"text": LONG}), waiting)
    step = TrimArguments()(work(*messages))
    assert [edit.start for edit in step.edits] == [0]
    assert step.note == "arguments of 1 message trimmed"
    assert TrimArguments()(work(*messages, protected={0, 1})).edits == ()


def test_only_what_is_not_recent():
    """With a `keep` only the stretch before the tail is trimmed; none where nothing may leave."""
    messages = (*pair({"text": LONG}), *pair({"text": LONG}, "2"))
    step = TrimArguments(keep=LastMessages(messages=2), name="args")(work(*messages))
    assert [(edit.start, edit.stage) for edit in step.edits] == [(0, "args")]
    assert TrimArguments(keep=LastMessages(messages=9))(work(*messages)).edits == ()


def test_parts_beside_a_call_stay():
    """Words and other calls of the message are the same objects."""
    messages = pair({"text": LONG})
    (changed, _) = apply_edits(messages, TrimArguments()(work(*messages)).edits)
    assert changed.parts[0] is messages[0].parts[0]


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=400)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.text(max_size=40), values, max_size=8),
    st.sampled_from([200, 400, 2_000]),
    st.booleans(),
)
def test_the_result_is_short_valid_and_final(value, limit, as_text):
    """Within the limit (or nearly), JSON of an object, and not trimmed again."""
    arguments = json.dumps(value) if as_text else value
    done = trimmed(arguments, limit=limit)
    text = done if isinstance(done, str) else json.dumps(done, ensure_ascii=False)
    assert isinstance(json.loads(text), dict)
    assert trimmed(done, limit=limit) == done
    before = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    assert len(text) <= max(limit, 300)
    assert len(text) <= max(len(before), 200)
