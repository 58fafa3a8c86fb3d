"""Offload: pictures and files older than the tail leave, and a marker stands for each."""

import pytest

from refold import Document, File, Image, Message, Text
from refold.core.compaction.edits import apply_edits
from refold.core.compaction.task import Task
from refold.core.tokens.counting import ESTIMATE_COUNTER
from refold.policies.keep_rules import LastMessages
from refold.stages.offload import Offload, make_marker
from refold.testing import assistant, call, image, result, result_part, user

OLD = Offload(keep=LastMessages(messages=2))
PICTURE = Text("[image image/png was here; left out to make room]")


def task(messages, **more):
    return Task(
        messages=tuple(messages),
        sizes=tuple(ESTIMATE_COUNTER.sizes(messages)),
        counter=ESTIMATE_COUNTER,
        window=100_000,
        room=100_000,
        **more,
    )


def offloaded(messages, stage=OLD, **more):
    return apply_edits(messages, stage(task(messages, **more)).edits)


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


def test_golden():
    """Only what stands before the tail changes; untouched messages are the same objects."""
    messages = [
        user("what is this?", image()),
        assistant("a cat"),
        call("shot", id="c"),
        result("c", "screen", image()),
        user("and this?", image()),
        assistant("a dog"),
    ]
    step = OLD(task(messages))
    done = apply_edits(messages, step.edits)
    assert step.note == "media of 2 messages offloaded"
    assert done[0].parts == (Text("what is this?"), PICTURE)
    assert done[3].results[0].content == (Text("screen"), PICTURE)
    assert [new is old for new, old in zip(done, messages, strict=True)] == [
        False,
        True,
        True,
        False,
        True,
        True,
    ]


def test_guarded_messages_keep_their_pictures():
    messages = [user(image()), assistant("a"), user("b"), assistant("c")]
    assert offloaded(messages, protected=frozenset({0})) == messages


def test_nothing_leaves_where_everything_is_recent():
    messages = [user(image()), assistant("a")]
    step = OLD(task(messages))
    assert (step.edits, step.note) == ((), "")


def test_as_a_floor_all_media_leave_but_pinned_ones():
    """Without a tail even the newest picture gives way, so that a request that is only pictures fits."""
    messages = [user(image()), user("look", image()), user(image())]
    done = offloaded(messages, Offload(), protected=frozenset({0, 1}), pinned=frozenset({0}))
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
