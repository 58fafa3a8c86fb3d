"""Clip as a stage: tool outputs over the limits are cut and say so; everything else is the same object."""

from refold.core.compaction.edits import apply_edits
from refold.core.compaction.task import Task
from refold.core.messages.message import Image, Message, Text, ToolResult
from refold.core.tokens.counting import ESTIMATE_COUNTER
from refold.stages.clip import Clip


def told(text, call_id="1", *more):
    return Message("tool", (ToolResult(call_id, (Text(text), *more)),))


def work(*messages, protected=()):
    return Task(
        messages=messages,
        sizes=(1,) * len(messages),
        counter=ESTIMATE_COUNTER,
        window=1_000,
        room=1_000,
        protected=frozenset(protected),
    )


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
    assert done[2].results[0].text.startswith("line 1000\n")


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


def test_text_beside_a_result_stays():
    """A user message may hold results and words; the words are not tool output."""
    said = Text("z" * 60_000)
    messages = (Message("user", (ToolResult("1", (Text("y" * 60_000),)), said)),)
    (changed,) = apply_edits(messages, Clip()(work(*messages)).edits)
    assert changed.parts[1] is said
    assert len(changed.results[0].text) <= 51_200
