"""Stages that rewrite parts of messages: arguments, clip, strip, thinking, offload."""

import json
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage_tasks import make_task

import refold
from refold import Document, File, Image, Message, Text, Thinking, ToolCall, ToolResult
from refold.core.compaction.edits import apply_edits
from refold.core.compaction.task import Task
from refold.core.tokens.counting import ESTIMATE_COUNTER
from refold.policies.systems.codebuddy import CODEBUDDY_COUNTER
from refold.stages.arguments import TrimArguments
from refold.stages.clip import Clip
from refold.stages.offload import Offload, make_marker
from refold.stages.strip import Strip, strip_part
from refold.stages.thinking import DropThinking
from refold.testing import (
    assistant,
    call,
    call_part,
    calls,
    image,
    result,
    result_part,
    shape,
    summary,
    thinking,
    user,
)

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


# -- clip ----------------------------------------------------------------------------------------------------


def told(text, call_id="1", *more):
    return Message("tool", (ToolResult(call_id, (Text(text), *more)),))


def test_an_output_over_the_limits_keeps_its_tail_and_a_notice():
    """The defaults are NeuroLink's: 51,200 bytes, 2,000 lines, the tail."""
    assert (Clip().max_bytes, Clip().max_lines, Clip().keep) == (51_200, 2_000, "tail")
    lines = "\n".join(f"line {i}" for i in range(3_000))
    messages = (Message("user", "x" * 90_000), told("y" * 60_000), told(lines, "2"), told("short", "3"))
    step = Clip()(work(*messages))
    assert step.note == "2 outputs clipped"
    done = apply_edits(messages, step.edits)
    assert done[0] is messages[0]
    assert done[3] is messages[3]
    text = done[1].results[0].text
    assert len(text) <= 51_200
    assert "[Output truncated from 60000 bytes" in text
    assert done[2].results[0].text.startswith("line 1001\n")  # the notice is the last of 2,000 lines


def test_pictures_in_an_output_stay():
    """Only text is cut; what else a tool gave back stays behind it."""
    picture = Image(data="AAAA", media_type="image/png")
    messages = (told("y" * 60_000, "1", picture, Text("more")),)
    (changed,) = apply_edits(messages, Clip()(work(*messages)).edits)
    assert len(changed.results[0].content) == 2
    assert changed.results[0].content[1] is picture
    assert changed.results[0].call_id == "1"


def test_knobs():
    """Bytes, lines, which end, where the whole is stored, and the stage's name are fields."""
    saved = []

    def save(text):
        saved.append(text)
        return "store/1"

    stage = Clip(max_bytes=200, max_lines=10, keep="head", save_to=save, name="cut")
    messages = (told("ab" * 500),)
    step = stage(work(*messages))
    (changed,) = apply_edits(messages, step.edits)
    assert changed.results[0].text.startswith("abab")
    assert changed.results[0].text.endswith("[Full output saved to store/1]")
    assert saved == ["ab" * 500]
    assert step.edits[0].stage == "cut"
    both = Clip(max_bytes=200, keep="both")(work(told("a" * 500 + "z" * 500))).edits[0].put[0].results[0].text
    assert both.startswith("aa")
    assert both.endswith("zz")


def test_what_is_protected_stays_and_once_is_enough():
    """A guarded output is not cut; a cut one is not cut again."""
    messages = (told("y" * 60_000), told("y" * 60_000, "2"))
    step = Clip()(work(*messages, protected={0}))
    assert [edit.start for edit in step.edits] == [1]
    once = apply_edits(messages, Clip()(work(*messages)).edits)
    assert Clip()(work(*once)).edits == ()
    assert Clip()(work(told("short"))).note == ""


@pytest.mark.parametrize(
    ("message", "over"),
    [
        (told("y" * 60_000), True),
        (told("y\n" * 3_000), True),
        (told("y" * 51_200), False),
        (Message("user", "y" * 60_000), False),
    ],
)
def test_a_message_over_the_limits_is_known_before_anything_is_cut(message, over):
    assert Clip().limits(message) is over


def test_text_beside_a_result_stays():
    """A user message may hold results and words; the words are not tool output."""
    said = Text("z" * 60_000)
    messages = (Message("user", (ToolResult("1", (Text("y" * 60_000),)), said)),)
    (changed,) = apply_edits(messages, Clip()(work(*messages)).edits)
    assert changed.parts[1] is said
    assert len(changed.results[0].text) <= 51_200


# -- strip ---------------------------------------------------------------------------------------------------


TAIL = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"), Message("assistant", "d"))


def called(arguments, call_id="1"):
    return Message("assistant", (Text("look"), ToolCall(call_id, "read", arguments)))


def told_strip(text, call_id="1"):
    return Message("tool", (ToolResult(call_id, (Text(text),), name="read"),))


def work_strip(*messages, protected=()):
    return make_task(messages, CODEBUDDY_COUNTER, 1_000, protected=frozenset(protected))


def test_long_results_and_long_argument_texts_are_replaced():
    """Both halves of a call are rewritten in place; ids, names and visible text stay."""
    messages = (called("A" * 201), told_strip("R" * 201), *TAIL)
    step = Strip()(work_strip(*messages))
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
    long = told_strip("R" * 900)
    step = Strip()(work_strip(long, called("A" * 900), *TAIL, protected={0}))
    assert [edit.start for edit in step.edits] == [1]
    assert Strip()(work_strip(*TAIL[:3], long)).edits == ()
    assert Strip()(work_strip(long)).edits == ()
    assert Strip()(work_strip()) == Strip()(work_strip(*TAIL))
    assert Strip()(work_strip(*TAIL)).note == ""


def test_knobs_strip():
    """How many messages are recent and what is long are fields."""
    messages = (told_strip("R" * 50), told_strip("R" * 50, "2"), *TAIL)
    assert Strip()(work_strip(*messages)).edits == ()
    assert len(Strip(limit=49)(work_strip(*messages)).edits) == 2
    assert len(Strip(limit=49, keep_messages=5)(work_strip(*messages)).edits) == 1
    assert Strip(name="other", limit=49)(work_strip(*messages)).edits[0].stage == "other"


@given(st.lists(st.integers(0, 400), max_size=12), st.integers(0, 6))
def test_stripping_twice_is_stripping_once(sizes, keep):
    """A placeholder is never stripped again, and nothing grows."""
    messages = tuple(told_strip("R" * size, str(i)) for i, size in enumerate(sizes))
    stage = Strip(keep_messages=keep)
    once = apply_edits(messages, stage(work_strip(*messages)).edits)
    assert stage(work_strip(*once)).edits == ()
    assert sum(len(one.results[0].text) for one in once) <= sum(sizes)
    assert [one.results[0].call_id for one in once] == [str(i) for i in range(len(sizes))]


# -- thinking ------------------------------------------------------------------------------------------------


def dropped(messages, **more):
    return apply_edits(messages, DropThinking()(make_task(messages, ESTIMATE_COUNTER, **more)).edits)


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
    step = DropThinking()(make_task(messages, ESTIMATE_COUNTER))
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


def test_plain_reasoning_stays_beside_a_call():
    """Kimi and DeepSeek refuse a call of any turn whose `reasoning_content` is missing."""
    messages = [
        user("one"),
        calls(Thinking("First the plan."), call_part("read", id="a")),
        result("a", "x"),
        assistant(Thinking("Then the end."), "done"),
        user("two"),
    ]
    done = dropped(messages)
    assert done[1] == messages[1]
    assert [type(part) for part in done[3].parts] == [Text]
    said = {"role": "assistant", "content": None, "reasoning_content": "Look first."}
    talk = [{"role": "user", "content": "Go."}]
    for at in range(30):
        function = {
            "name": "write",
            "arguments": json.dumps({"path": f"{at}.py", "text": "line of code " * 60}),
        }
        talk += [{**said, "tool_calls": [{"id": f"c{at}", "type": "function", "function": function}]}]
        talk += [
            {"role": "tool", "tool_call_id": f"c{at}", "content": "ok"},
            {"role": "user", "content": "On."},
        ]
    view = refold.compact(talk, window=4_000).messages
    left = [message for message in view if message.get("tool_calls")]
    assert 2 < len(left) < 30
    assert all(message["reasoning_content"] == "Look first." for message in left)


def test_a_message_that_is_only_thinking_stays():
    """A reasoning item of its own belongs to the item behind it (wire facts, OpenAI Responses)."""
    messages = [user("one"), assistant(thinking("alone")), assistant("done"), user("two")]
    assert dropped(messages) == messages


def test_without_a_user_nothing_is_over():
    messages = [assistant(thinking("plan"), "go")]
    step = DropThinking()(make_task(messages, ESTIMATE_COUNTER))
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
        left, thought = ([part for part in each.parts if isinstance(part, Thinking)] for each in (new, old))
        stays = at >= last or len(thought) == len(old.parts)
        plain = [part for part in thought if part.signature is None and old.calls]  # needed beside a call
        assert left == (thought if stays else plain)


# -- offload -------------------------------------------------------------------------------------------------


PICTURE = Text("[image image/png was here; left out to make room]")


def offloaded(messages, **more):
    return apply_edits(messages, Offload()(make_task(messages, ESTIMATE_COUNTER, **more)).edits)


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (image(), PICTURE.text),
        (image(url="http://x/y.png"), "[image was here; left out to make room]"),
        (Document(data="AA", title="spec"), "[file spec was here; left out to make room]"),
        (
            Document(url="http://x", media_type="application/pdf"),
            "[file application/pdf was here; left out to make room]",
        ),
        (File(data="AA", name="a.wav"), "[file a.wav was here; left out to make room]"),
        (File(url="http://x"), "[file without a name was here; left out to make room]"),
    ],
)
def test_what_a_marker_says(part, text):
    """Refold.md, "summariser sees" and "stages": media as markers that name what was there."""
    assert make_marker(part) == Text(text)


@pytest.mark.parametrize(
    "part", [Text("hi"), Document(text="words"), File(file_id="f1"), result_part("c", "hi")]
)
def test_what_takes_no_room_stays(part):
    """Words stay, and so does what is only a name."""
    assert make_marker(part) is part


def test_media_in_a_tool_result_leave_and_its_words_stay():
    assert make_marker(result_part("c", "seen", image())) == result_part("c", "seen", PICTURE.text)


def test_golden_offload():
    """Messages without media are the same objects."""
    messages = [
        user("what is this?", image()),
        assistant("a cat"),
        call("shot", id="c"),
        result("c", "screen", image()),
        user("and this?", image()),
        assistant("a dog"),
    ]
    step = Offload()(make_task(messages, ESTIMATE_COUNTER))
    done = apply_edits(messages, step.edits)
    assert step.note == "media of 3 messages offloaded"
    assert done[0].parts == (Text("what is this?"), PICTURE)
    assert done[3].results[0].content == (Text("screen"), PICTURE)
    assert [new is old for new, old in zip(done, messages, strict=True)] == [
        False,
        True,
        True,
        False,
        False,
        True,
    ]


def test_as_a_floor_all_media_leave_but_pinned_ones():
    """Even the newest picture gives way, so that a request that is only pictures fits."""
    messages = [user(image()), user("look", image()), user(image())]
    done = offloaded(messages, protected=frozenset({0, 1}), pinned=frozenset({0}))
    assert done[0] is messages[0]
    assert done[1].parts == (Text("look"), PICTURE)
    assert done[2].parts == (PICTURE,)


def test_a_marker_is_much_smaller_than_what_it_stands_for():
    before, after = (
        Message("user", (Image(data="A" * 4_000_000, media_type="image/png"),)),
        Message("user", (PICTURE,)),
    )
    assert ESTIMATE_COUNTER.message(after) < 30 < ESTIMATE_COUNTER.message(before)


def test_a_document_that_is_words_stays_in_place():
    """It is looked at and left alone."""
    messages = [user(Document(text="words")), assistant("a"), user("b"), assistant("c")]
    assert offloaded(messages) == messages
