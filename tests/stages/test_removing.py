"""Stages that take messages out without asking a model: slide and truncate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage_tasks import LETTERS, make_task

from refold.core.compaction.edits import apply_edits
from refold.core.compaction.keep_rules import Segment
from refold.core.messages.message import SUMMARY, Message, ToolCall, ToolResult
from refold.policies.systems.codebuddy import CODEBUDDY_COUNTER
from refold.policies.systems.keep_rules import LastMessages
from refold.stages.slide import Slide
from refold.stages.truncate import Truncate
from refold.testing import assistant, call, loose_ends, result, shape, summary, system, user

NEUROLINK_MARKER_HEADER = "[Earlier conversation history was truncated to fit within context limits]"


def slid(messages, stage=None, **more):
    return apply_edits(messages, (stage or Slide())(make_task(messages, **more)).edits)


def talk(count, size=100):
    return [
        (user if number % 2 == 0 else assistant)(f"m{number}".ljust(size, ".")) for number in range(count)
    ]


def names(messages):
    return [
        "marker" if message.text == NEUROLINK_MARKER_HEADER else message.text.strip(".")[:8]
        for message in messages
    ]


class TestNeuroLink:
    """NeuroLink, "Stage 4: Sliding Window Truncation", and case 13 of its page."""

    def test_twenty_messages(self):
        """Case 13: of 20 messages half of 18, made even, is 8; 13 are left, the marker third."""
        done = slid(talk(20))
        assert names(done) == ["m0", "m1", "marker", *(f"m{number}" for number in range(10, 20))]

    @pytest.mark.parametrize(("count", "left"), [(4, 4), (5, 4), (6, 5), (8, 7), (20, 13), (50, 27)])
    def test_counts(self, count, left):
        """Case 13: four messages or fewer stay; the removed number is even, for five by the last resort."""
        done = slid(talk(count))
        assert len(done) == left
        assert left == count or (count - (left - 1)) % 2 == 0

    @pytest.mark.parametrize(
        ("fraction", "removed"), [(0.1, 2), (0.3, 4), (0.5, 8), (0.75, 12), (0.9, 16), (1.0, 16)]
    )
    def test_fraction(self, fraction, removed):
        """Section "TruncationConfig": the share of the messages behind the first pair, at most 95 %, made even."""
        done = slid(talk(20), Slide(fraction=fraction))
        assert len(done) == 20 - removed + 1

    def test_the_marker(self):
        """Section "Stage 4", behaviour: a system message with the document's words, known as no message of anybody."""
        marker = slid(talk(20))[2]
        assert marker.role == "system"
        assert marker.text == "[Earlier conversation history was truncated to fit within context limits]"
        assert marker.is_summary
        assert marker.meta == {"kind": "notice", "messages": 8}

    def test_more_leaves_until_the_goal_holds(self):
        """The page, "Stage 4": where the share is not enough, more leaves, two at a time."""
        sizes = []
        for goal in (2_000, 1_300, 1_100, 800, 700, 500, 400):
            done = slid(talk(20), goal=goal)
            assert LETTERS.conversation(done) <= goal
            sizes.append(len(done))
        assert sizes == [13, 13, 11, 7, 7, 5, 4]

    @pytest.mark.slow
    @pytest.mark.parametrize("count", [100, 1_000, 5_000])
    def test_no_more_leaves_than_the_goal_demands(self, count):
        """However long the history is, the share is only the beginning: two messages more would not fit."""
        done = slid(talk(count), goal=3_000)
        assert 3_000 - 2 * 100 < LETTERS.conversation(done) <= 3_000

    def test_the_largest_removal_where_no_removal_reaches_the_goal(self):
        """The newest message stays in any case, and so do the first two."""
        assert names(slid(talk(20), goal=10)) == ["m0", "m1", "marker", "m19"]

    def test_the_first_exchange_is_kept_with_its_results(self):
        """The page, faults: a first pair that calls a tool is kept up to the results."""
        messages = [user("go"), call("read", id="a"), result("a", "x" * 100), *talk(20)]
        done = slid(messages)
        assert shape(done[:4], limit=40).split("\n")[:3] == [
            "user: go",
            "assistant: -> read() #a",
            "tool #a: " + "x" * 37 + "...",
        ]
        assert done[3].text == NEUROLINK_MARKER_HEADER

    def test_cuts_never_split_a_pair(self):
        """The page, faults: cut by pairs, not by count."""
        messages = [user("go"), assistant("yes")]
        for number in range(9):
            messages += [call("t", id=f"{number}"), result(f"{number}", "x" * 100)]
        for fraction in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
            assert loose_ends(slid(messages, Slide(fraction=fraction))) == []


def test_system_messages_in_front_are_not_the_first_exchange():
    """The first exchange begins behind the system prompt."""
    assert names(slid([system("rules"), *talk(20)]))[:4] == ["rules", "m0", "m1", "marker"]


def test_guarded_messages_stay_where_they_are():
    """A pin in the middle survives; the marker stands behind what left last."""
    done = slid(talk(20), protected=frozenset({5}))
    assert names(done)[:5] == ["m0", "m1", "m5", "marker", "m10"]


def test_summaries_stay():
    """A summary stands for what left before; sliding over it would lose that for good."""
    messages = [*talk(2), summary("what was"), *talk(18)[2:]]
    assert names(slid(messages, goal=300))[:4] == ["m0", "m1", "what was", "marker"]


def test_old_markers_give_way_to_the_new_one():
    """Sliding twice leaves one marker."""
    once = slid(talk(20))
    twice = slid([*once, *talk(6)])
    assert names(twice).count("marker") == 1
    assert twice[2].meta["messages"] == 26 - (len(twice) - 1)
    assert twice[2].text == NEUROLINK_MARKER_HEADER


def test_an_old_marker_alone_is_nothing_new():
    """Where nothing but a marker could leave, nothing leaves."""
    messages = [
        *talk(2),
        summary(NEUROLINK_MARKER_HEADER, kind="notice"),
        summary("a"),
        summary("b"),
        user("now"),
    ]
    step = Slide()(make_task(messages))
    assert (step.edits, step.note) == ((), "nothing may leave")


def test_too_few_messages():
    assert Slide()(make_task(talk(4))).note == "too few messages"


def test_the_house_takes_no_more_than_the_goal_demands():
    """Without a fraction the smallest removal that reaches the goal wins."""
    house = Slide(fraction=None, keep_first=0, least=1, role="user")
    done = slid(talk(20), house, goal=1_000)
    assert names(done) == ["marker", *(f"m{number}" for number in range(11, 20))]
    assert done[0].role == "user"


def test_the_newest_exchange_stays():
    """What a tool just answered is still needed, however large: cutting it is somebody else's work."""
    messages = [
        user("go"),
        call("t", id="a"),
        result("a", "x" * 50),
        call("t", id="b"),
        result("b", "y" * 5_000),
    ]
    house = Slide(fraction=None, keep_first=0, least=1)
    done = slid(messages, house, goal=10, protected=frozenset({0}))
    assert [message.results[0].call_id for message in done if message.results] == ["b"]


@given(
    count=st.integers(0, 40),
    goal=st.one_of(st.none(), st.integers(0, 4_000)),
    fraction=st.one_of(st.none(), st.floats(0, 1)),
    guarded=st.frozensets(st.integers(0, 39)),
)
def test_laws(count, goal, fraction, guarded):
    """The first two, the guarded and the last message stay, in order; a removal is never undone by the marker."""
    messages = talk(count)
    done = slid(messages, Slide(fraction=fraction), goal=goal, protected=guarded)
    kept = [message for message in done if not message.is_summary]
    assert [message for message in messages if message in kept] == kept
    assert set(messages[:2] + messages[-1:]) <= set(kept)
    assert all(messages[index] in kept for index in guarded if index < count)
    assert len(done) - len(kept) <= 1


# -- truncate ------------------------------------------------------------------------------------------------


SEEN = []


def words(messages, covered, task):
    SEEN.append((messages, covered, task))
    return f"{len(messages)} left"


def work(*messages, protected=()):
    return make_task(messages, CODEBUDDY_COUNTER, 1_000, protected=frozenset(protected))


def stage(keep=2, **more):
    return Truncate(keep=LastMessages(messages=keep), words=words, **more)


def talk_truncate(count):
    return tuple(Message("user" if i % 2 == 0 else "assistant", f"message {i}") for i in range(count))


def test_a_notice_takes_the_place_of_the_stretch():
    """One message, marked as put by a fold, with what it stands for."""
    messages = talk_truncate(6)
    step = stage(role="system")(work(*messages))
    (edit,) = step.edits
    (put,) = edit.put
    assert (edit.start, edit.end, edit.stage, edit.took) == (0, 4, "truncate", messages[:4])
    assert (put.role, put.text, put.source) == ("system", "4 left", SUMMARY)
    assert (put.meta["kind"], put.meta["messages"], put.meta["generation"]) == ("notice", 4, 1)
    assert step.note == edit.why == "4 messages told in a few words"
    assert apply_edits(messages, step.edits)[1:] == list(messages[4:])


def test_what_is_protected_stays_and_the_notice_stands_behind_it():
    """A guarded message in the stretch stays; the notice stands where the last ones left."""
    messages = talk_truncate(6)
    step = stage(name="digest")(work(*messages, protected={1}))
    assert [(edit.start, edit.end, len(edit.put), edit.stage) for edit in step.edits] == [
        (0, 1, 0, "digest"),
        (2, 4, 1, "digest"),
    ]
    assert [one.text for one in apply_edits(messages, step.edits)] == [
        "message 1",
        "3 left",
        "message 4",
        "message 5",
    ]


def test_where_nothing_may_leave():
    """Too few messages, nothing but guarded ones, nothing but summaries: no edit, and a word why."""
    assert stage(keep=6)(work(*talk_truncate(6))).note == "nothing may leave yet"
    assert stage()(work(*talk_truncate(4), protected={0, 1})).note == "nothing new would leave"
    old = Message("user", "told", source=SUMMARY)
    step = stage()(work(old, *talk_truncate(2)))
    assert (step.edits, step.note, step.failed) == ((), "nothing new would leave", False)


def test_files_and_generation_are_carried_on():
    """What an earlier summary knew, and what the stretch did to files, is in the notice's facts."""
    old = Message(
        "user", "told", source=SUMMARY, meta={"kind": "summary", "generation": 3, "read_files": ("a.py",)}
    )
    call = Message("assistant", (ToolCall("1", "write_file", {"path": "b.py", "content": "x"}),))
    result = Message("tool", (ToolResult("1", ()),))
    (edit,) = stage()(work(old, call, result, *talk_truncate(2))).edits
    meta = edit.put[0].meta
    assert (meta["generation"], meta["read_files"], meta["modified_files"]) == (4, ("a.py",), ("b.py",))


def test_the_users_last_request_is_handed_to_the_words():
    """Where the last request itself leaves, the words are told of it."""

    class All:
        def segment(self, measured):
            return Segment(0, len(measured.messages))

    Truncate(keep=All(), words=words)(work(*talk_truncate(2)))
    messages, covered, _ = SEEN[-1]
    assert covered.request == "message 0"
    assert [message.text for message in messages] == ["message 0", "message 1"]
