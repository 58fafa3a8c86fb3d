"""Clamp: the largest texts that are left are cut until the history fits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage_tasks import LETTERS, make_task

import refold
from refold import Document, Message, Opaque, Text, ToolCall
from refold.core.compaction.edits import apply_edits
from refold.core.messages.message_text import full_text, visible_text
from refold.core.summaries import wrappers
from refold.core.tokens.counting import Counter
from refold.stages.clamp import LEAST_TOKENS, Clamp, shorten_text
from refold.testing import assistant, call, image, result, summary, system, thinking, user

NEUROLINK = Clamp(margin=0.05, name="truncate")


def later(text):
    """NeuroLink's later counter for a provider without a factor."""
    base = -(-len(text) // 4)
    return math.ceil(base + base * 0.05)


LATER = Counter(name="later", text=later, visible=visible_text, per_message=4, per_conversation=24)


def clamped(messages, goal, stage=None, **more):
    return apply_edits(messages, (stage or Clamp())(make_task(messages, goal=goal, **more)).edits)


def sizes(messages):
    return [len(visible_text(message)) for message in messages]


class TestNeuroLink:
    """NeuroLink's page, "Emergency truncation" and case 17."""

    def test_both_messages_are_cut_by_the_same_share(self):
        """Case 17: 2 * 4000 characters (2132 tokens) into 1000: both cut to 1675 characters, 912 in all."""
        messages = [user("x" * 4_000), assistant("x" * 4_000)]
        assert LATER.conversation(messages) == 2_132
        done = clamped(messages, 1_000, NEUROLINK, counter=LATER, protected=frozenset({0}))
        assert sizes(done) == [1_675, 1_675]
        assert LATER.conversation(done) == 912
        assert all(message.text.endswith("x...") for message in done)

    def test_a_cut_prefers_the_end_of_a_sentence(self):
        """The document, "truncateToTokenBudget": cut behind a sentence, three dots behind it."""
        messages = [user("This is a sentence. " * 200)]
        (done,) = clamped(messages, 500, NEUROLINK, counter=LATER)
        assert done.text.endswith("sentence....")

    def test_what_cannot_be_cut_is_paid_for_by_what_can(self):
        """Small messages and the system prompt stay, so the large ones are cut by more than the mean share."""
        messages = [system("s" * 400), *(user("short") for _ in range(20)), assistant("x" * 4_000)]
        done = clamped(messages, 800, NEUROLINK, counter=LATER)
        assert done[:-1] == messages[:-1]
        assert LATER.conversation(done) <= 800

    def test_nothing_fits_into_nothing(self):
        """Case 17 gives up with an empty history; here a beginning of each message is left, and it says so."""
        messages = [user("x" * 4_000), assistant("x" * 4_000)]
        done = clamped(messages, 50, NEUROLINK, counter=LATER)
        assert LATER.conversation(done) == 82
        assert all(LEAST_TOKENS <= later(message.text) <= LEAST_TOKENS + 1 for message in done)


class TestOneHeight:
    """The house's floor (refold.md, "stages")."""

    def test_the_largest_give_first(self):
        """What is below the common height is not touched at all."""
        messages = [user("a" * 300), assistant("b" * 5_000), user("c" * 2_000), assistant("d" * 400)]
        done = clamped(messages, 2_700)
        assert done[0] is messages[0]
        assert done[3] is messages[3]
        assert sizes(done)[1] <= 1_000
        assert sizes(done)[2] <= 1_000
        assert 2_400 < LETTERS.conversation(done) <= 2_700

    def test_head_and_tail_stay(self):
        """The middle leaves, and how much of it is told."""
        (done,) = clamped([user("start" + "x" * 5_000 + "end")], 1_000)
        assert done.text.startswith("startx")
        assert done.text.endswith("xend")
        assert "characters left out" in done.text

    def test_a_short_rest_is_a_head(self):
        """Where there is no room for a marker the beginning stays."""
        (done,) = clamped([user("word " * 400)], 100)
        assert done.text == "word " * 19 + "word…"
        assert len(done.text) <= 100

    def test_short_texts_are_left_alone(self):
        messages = [user("x" * 199), user("y" * 199)]
        step = Clamp()(make_task(messages, goal=10))
        assert (step.edits, step.note) == ((), "nothing is left to clamp")

    def test_protected_messages_are_cut_last(self):
        """As long as cutting the others is enough, the user's words stay whole."""
        messages = [user("u" * 1_000), result("c", "r" * 5_000)]
        assert clamped(messages, 2_000, protected=frozenset({0}))[0] is messages[0]
        both = clamped(messages, 900, protected=frozenset({0}), target=900)
        assert LETTERS.conversation(both) <= 900
        assert 24 < sizes(both)[0] < 1_000

    def test_the_last_request_stays_whole_where_the_room_holds_it(self):
        """The goal is a wish, the user's request is not; only a target that somebody names counts more."""
        messages = [user("u" * 1_000), result("c", "r" * 5_000), user("v" * 1_000)]
        done = clamped(messages, 900, protected=frozenset({0, 2}))
        assert done[2] is messages[2]
        assert sizes(done)[0] < 100
        alone = [user("v" * 1_000)]
        assert Clamp()(make_task(alone, goal=900, protected=frozenset({0}))).edits == ()

    def test_pins_and_system_prompts_are_never_cut(self):
        messages = [system("s" * 1_000), user("p" * 1_000), user("u" * 1_000)]
        done = clamped(messages, 100, protected=frozenset({0, 1, 2}), pinned=frozenset({1}), target=100)
        assert done[:2] == messages[:2]
        assert sizes(done)[2] <= LEAST_TOKENS

    def test_a_summary_may_be_cut_though_it_is_a_system_message(self):
        (done,) = clamped([summary("s" * 1_000, role="system")], 300)
        assert len(done.text) <= 300

    def test_thinking_calls_and_opaque_parts_are_never_cut(self):
        """Only words, results and documents with a text are."""
        kept = (
            thinking("t" * 900),
            ToolCall("c", "write", {"text": "a" * 900}),
            Opaque("k", "o" * 900),
            image(),
        )
        counter = Counter(name="all", text=len, visible=full_text)
        (done,) = clamped([assistant(*kept, "w" * 900)], 100, counter=counter)
        assert done.parts[:4] == kept
        assert len(done.parts[4].text) <= LEAST_TOKENS

    def test_the_words_of_opaque_parts_are_cut(self):
        block = {"content": [{"text": "a" * 900}, {"text": "b"}], "source": "s" * 300}
        counter = Counter(name="all", text=len, visible=full_text)
        found = Opaque("found", block, "content.*.text")
        (done,) = clamped([user(found)], 600, counter=counter)
        assert done.parts[0].value["source"] == block["source"]
        first, second = done.parts[0].value["content"]
        assert first["text"].startswith("aaa")
        assert len(first["text"]) < 300
        assert second == {"text": "b"}

    def test_short_texts_are_cut_together(self):
        words = [f"line {number} of many" for number in range(300)]
        (done,) = clamped([user(*words, image())], 900)
        assert done.parts[0].text.startswith("line 0 of many\nline 1")
        assert len(done.parts[0].text) <= 900
        assert done.parts[1:] == (image(),)

    def test_a_document_with_a_text_is_cut(self):
        counter = Counter(name="all", text=len, visible=full_text)
        (done,) = clamped([user("look", Document(text="d" * 2_000, title="t"))], 500, counter=counter)
        assert done.parts[0] == Text("look")
        assert len(done.parts[1].text) < 500
        assert done.parts[1].title == "t"
        untold = [user(Document(data="AAAA", media_type="application/pdf"))]
        assert clamped(untold, 0, counter=counter) == untold

    def test_a_result_keeps_its_pictures(self):
        """The words of a result are cut, the picture beside them stays."""
        _, done = clamped([call("shot", id="c"), result("c", "x" * 900, image())], 300)
        words, picture = done.results[0].content
        assert picture == image()
        assert len(words.text) <= 300

    def test_without_a_goal_there_is_nothing_to_clamp_to(self):
        step = Clamp()(make_task([user("x" * 900)], goal=None))
        assert (step.edits, step.note) == ((), "there is no goal to clamp to")

    def test_within_the_goal_nothing_is_cut(self):
        assert Clamp()(make_task([user("x" * 900)], goal=900)).edits == ()


@pytest.mark.parametrize("height", [24, 60, 100, 130, 200, 999])
def test_shortened_is_never_over(height):
    for text in ("x" * 1_000, "words and words " * 80, "é" * 1_000, "👩‍👩‍👧" * 200):
        assert len(shorten_text(text, height, LETTERS)) <= height


@given(
    texts=st.lists(st.text(max_size=600), min_size=1, max_size=8),
    goal=st.integers(0, 3_000),
    protected=st.frozensets(st.integers(0, 7)),
    pinned=st.frozensets(st.integers(0, 7)),
    margin=st.sampled_from([None, 0.05]),
)
def test_laws(texts, goal, protected, pinned, margin):
    """As many messages as before, none larger, pins the same; within the goal where the floors allow it."""
    messages = [Message(("user", "assistant")[at % 2], text) for at, text in enumerate(texts)]
    stage = Clamp(margin=margin)
    done = clamped(messages, goal, stage, protected=protected | pinned, pinned=pinned)
    assert len(done) == len(messages)
    assert all(len(new.text) <= max(len(old.text), 27) for new, old in zip(done, messages, strict=True))
    assert all(done[at] is messages[at] for at in pinned if at < len(messages))
    floors = sum(
        len(text) if at in pinned or len(text) < 200 else LEAST_TOKENS + 3 for at, text in enumerate(texts)
    )
    if margin is None and goal >= floors:
        assert LETTERS.conversation(done) <= max(goal, floors)


def test_what_a_person_said_keeps_its_rules():
    """Also where a message is cut last of all."""
    notes = "It was written some years ago. " * 60
    (done,) = clamped([user(f"{notes}\nNever restart worker 3.\n{notes}")], 900)
    assert "Never restart worker 3." in done.text
    assert len(done.text) <= 900


def test_a_summary_keeps_the_tag_that_closes_it():
    text = "<refold-summary>\n" + "what was said " * 100 + "\n</refold-summary>"
    (done,) = clamped([summary(text)], 200)
    assert done.text.startswith("<refold-summary>\n")
    assert done.text.endswith("\n</refold-summary>")
    (done,) = clamped([summary("<one line of " + "words " * 200 + "and no tag>")], 200)
    assert len(done.text) <= 200


def test_a_summary_keeps_the_line_that_says_what_it_is():
    """Cut through its opening tag, a summary would not be known again in the next round."""
    words = wrappers.wrap_summary("fact " * 900, wrappers.Covered(messages=3, first=1, last=3))
    history = [Message("user", (Text(words),), source="summarization"), Message("user", (Text("go on"),))]
    outcome = refold.compact(history, target=120, policy="refold")
    assert outcome.messages[0].text.startswith(words[: words.index("\n\n")])


def test_a_summary_of_which_only_the_frame_is_left_is_not_cut_again():
    covered = wrappers.Covered(messages=3, first=1, last=3, state="awaiting user")
    words = wrappers.wrap_summary("", covered)
    assert len(words) >= 200
    assert clamped([summary(words)], 20) == [summary(words)]


@pytest.mark.parametrize(("room", "is_whole"), [(1_000, True), (600, False)])
def test_a_record_stays_where_a_named_goal_is_out_of_reach_and_the_room_is_not(room, is_whole):
    """It said "…" and nothing else, to save tokens of a goal that was missed all the same."""
    record = summary(
        wrappers.wrap_summary("Order 7 was sent. " * 9, wrappers.Covered(messages=3, first=1, last=3))
    )
    messages = [system("x" * 300), record, user("And order 8?")]
    done = clamped(messages, 200, target=200, fitting=room)
    assert (done[1] == record) is is_whole


class TestWhatWasCutBefore:
    """No text is cut twice: what is left of it would have a gap beside a gap."""

    def test_it_is_cut_from_the_whole(self):
        whole = "\n".join(f"line {number}" for number in range(400))
        cut = f"{whole[:900]}\n[... 200 lines left out; recall #7]\n{whole[-900:]}"
        (done,) = clamped([user(cut)], 500, uncut={7: user(whole)}, numbers=((7, 7),), recallable=True)
        assert done.text.count("left out") == 1
        assert "left out; recall #7" in done.text
        assert len(done.text) <= 500

    def test_a_summary_of_one_message_is_no_cut(self):
        text = "[... 3 lines left out]" + "x" * 900
        (done,) = clamped([summary(text)], 500, uncut={7: user("whole")}, numbers=((7, 7),))
        assert "whole" not in done.text
