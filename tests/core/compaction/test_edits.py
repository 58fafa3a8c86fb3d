"""Edits: applied, undone and joined; the task that stages get, and the policy as a value."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_strategies import revert_edits
from refold.core.compaction.budget import Levels, Reserve, Trigger
from refold.core.compaction.edits import (
    Edit,
    Slot,
    apply_edits,
    apply_to_slots,
    compose_edits,
    match_slots,
    replace_message,
)
from refold.core.compaction.keep_rules import MeasuredHistory, Segment
from refold.core.compaction.policy import Policy, make_stages_later
from refold.core.compaction.task import Step, Task, replace_runs
from refold.core.messages.message import Message
from refold.core.messages.message_text import visible_text
from refold.core.models.windows import Window
from refold.core.tokens.counting import ESTIMATE_COUNTER, Counter
from refold.testing import assistant, result_part, shape, summary, system, user

pytestmark = pytest.mark.traced


def numbered(count, word="m"):
    return [user(f"{word}{number}") for number in range(count)]


def edit(messages, start, end, *put, stage="stage", why=""):
    return Edit(start, end, put, stage, why, tuple(messages[start:end]))


@st.composite
def edits_of(draw, messages, word="new"):
    """Edits of a list that do not overlap, in any order."""
    cuts = sorted(draw(st.lists(st.integers(0, len(messages)), max_size=8)))
    made = []
    for number, (start, end) in enumerate(zip(cuts[::2], cuts[1::2], strict=False)):
        put = [assistant(f"{word}{number}.{place}") for place in range(draw(st.integers(0, 3)))]
        made.append(edit(messages, start, end, *put, stage=f"{word}{number}"))
    return draw(st.permutations(made))


@st.composite
def rounds_of_edits(draw, most=4):
    """A list, and several rounds of edits, each of the list that the one before left."""
    first = numbered(draw(st.integers(0, 12)))
    lists, rounds = [first], []
    for number in range(draw(st.integers(1, most))):
        rounds.append(draw(edits_of(lists[-1], word=f"r{number}.")))
        lists.append(apply_edits(lists[-1], rounds[-1]))
    return lists, rounds


def test_a_swap_puts_one_message_in_the_place_of_another_and_remembers_it():
    messages = numbered(3)
    done = replace_message(messages, 1, assistant("new"), "stage", "why")
    assert done == Edit(1, 2, (assistant("new"),), "stage", "why", (messages[1],))
    assert shape(apply_edits(messages, [done])) == "user: m0\nassistant: new\nuser: m2"


def test_edits_apply_in_order_of_place_whatever_order_they_come_in():
    messages = numbered(6)
    done = apply_edits(
        messages,
        [edit(messages, 4, 6), edit(messages, 0, 2, assistant("a")), edit(messages, 3, 3, assistant("b"))],
    )
    assert [message.text for message in done] == ["a", "m2", "b", "m3"]


def test_insertions_at_one_place_stand_in_the_order_given():
    messages = numbered(1)
    done = apply_edits(messages, [edit(messages, 1, 1, assistant("a")), edit(messages, 1, 1, assistant("b"))])
    assert [message.text for message in done] == ["m0", "a", "b"]


def test_no_edits_give_the_same_messages_in_a_new_list():
    messages = numbered(2)
    assert apply_edits(messages, []) == messages
    assert apply_edits(messages, []) is not messages


@pytest.mark.parametrize(("start", "end"), [(2, 4), (1, 2), (3, 2), (-1, 1), (5, 7), (7, 7)], ids=str)
def test_edits_that_overlap_or_leave_the_list_are_refused(start, end):
    """The first edit takes [1, 3) of six messages."""
    messages = numbered(6)
    both = [edit(messages, 1, 3), edit(messages, start, end)]
    with pytest.raises(ValueError, match="overlaps another or leaves the list"):
        apply_edits(messages, both)
    slots = [Slot(message, 1, index) for index, message in enumerate(messages)]
    with pytest.raises(ValueError, match="overlaps another or leaves the list"):
        apply_to_slots(slots, both, lambda _: 1, {})


@pytest.mark.parametrize(("start", "end"), [(3, 4), (0, 1), (6, 6), (1, 1), (3, 3)])
def test_edits_that_touch_are_none_that_overlap(start, end):
    messages = numbered(6)
    assert len(apply_edits(messages, [edit(messages, 1, 3), edit(messages, start, end)])) == 4 - (end - start)


@given(st.data())
def test_to_revert_is_to_undo(data):
    messages = numbered(data.draw(st.integers(0, 12)))
    edits = data.draw(edits_of(messages))
    assert revert_edits(apply_edits(messages, edits), edits) == messages


@given(rounds_of_edits())
def test_the_edits_of_several_rounds_joined_are_the_rounds_one_after_another(made):
    lists, rounds = made
    slots = [Slot(message, 1, index) for index, message in enumerate(lists[0])]
    gone = {}
    for edits in rounds:
        slots = apply_to_slots(slots, edits, lambda _: 1, gone)
    joined = compose_edits(lists[0], slots, gone)
    assert apply_edits(lists[0], joined) == lists[-1]
    assert revert_edits(lists[-1], joined) == lists[0]


@given(rounds_of_edits())
def test_joined_edits_are_in_order_and_each_changes_something(made):
    lists, rounds = made
    slots = [Slot(message, 1, index) for index, message in enumerate(lists[0])]
    gone = {}
    for edits in rounds:
        slots = apply_to_slots(slots, edits, lambda _: 1, gone)
    joined = compose_edits(lists[0], slots, gone)
    assert all(before.end <= after.start for before, after in itertools.pairwise(joined))
    assert all(one.put or one.took for one in joined)
    assert all(one.took == tuple(lists[0][one.start : one.end]) for one in joined)


def test_a_joined_edit_names_each_stage_and_each_reason_once():
    messages = numbered(4)
    slots = [Slot(message, 1, index) for index, message in enumerate(messages)]
    gone = {}
    slots = apply_to_slots(
        slots,
        [edit(messages, 1, 3, assistant("a"), assistant("b"), stage="clip", why="huge")],
        lambda _: 1,
        gone,
    )
    now = [slot.message for slot in slots]
    both = [edit(now, 2, 3, stage="prune", why="old"), edit(now, 3, 4, stage="prune", why="old")]
    slots = apply_to_slots(slots, both, lambda _: 1, gone)
    (joined,) = compose_edits(messages, slots, gone)
    assert (joined.start, joined.end) == (1, 4)
    assert joined.stage == "clip+prune"
    assert joined.why == "huge; old"
    assert joined.put == (assistant("a"),)
    assert joined.took == (messages[1], messages[2], messages[3])


def test_a_rewritten_message_has_an_edit_of_its_own():
    messages = numbered(5)
    slots = [Slot(message, 1, index) for index, message in enumerate(messages)]
    gone = {}
    changes = [
        edit(messages, 0, 2, assistant("told"), stage="digest"),
        *(edit(messages, n, n + 1, assistant(f"short {n}"), stage="shorten") for n in (2, 3)),
    ]
    slots = apply_to_slots(slots, changes, lambda _: 1, gone)
    again = [edit([slot.message for slot in slots], 2, 3, assistant("shorter 3"), stage="clip")]
    joined = compose_edits(messages, apply_to_slots(slots, again, lambda _: 1, gone), gone)
    assert [(one.start, one.end, one.stage) for one in joined] == [
        (0, 2, "digest"),
        (2, 3, "shorten"),
        (3, 4, "clip"),
    ]
    assert [one.put for one in joined] == [
        (assistant("told"),),
        (assistant("short 2"),),
        (assistant("shorter 3"),),
    ]


def test_what_was_only_put_in_names_its_stage():
    messages = numbered(2)
    slots = [Slot(message, 1, index) for index, message in enumerate(messages)]
    slots = apply_to_slots(
        slots, [edit(messages, 1, 1, assistant("a"), stage="slide", why="room")], lambda _: 1, {}
    )
    assert compose_edits(messages, slots, {}) == (Edit(1, 1, (assistant("a"),), "slide", "room", ()),)


def test_an_edit_without_a_reason_adds_none():
    messages = numbered(1)
    gone = {}
    slots = apply_to_slots([Slot(messages[0], 1, 0)], [edit(messages, 0, 1)], lambda _: 1, gone)
    assert compose_edits(messages, slots, gone)[0].why == ""


def test_messages_that_left_without_an_edit_leave_a_joined_edit_without_a_stage():
    messages = numbered(2)
    assert compose_edits(messages, [Slot(messages[1], 1, 1)], {}) == (Edit(0, 1, (), "", "", (messages[0],)),)


def test_slots_know_the_size_the_origin_and_the_edit_of_each_message():
    messages = numbered(3)
    slots = [Slot(message, 7, index) for index, message in enumerate(messages)]
    change = edit(messages, 1, 2, assistant("new"))
    gone = {}
    done = apply_to_slots(slots, [change], lambda message: len(message.text), gone)
    assert done == [
        slots[0],
        Slot(assistant("new"), 3, None, False, change, original=messages[1], original_place=1),
        slots[2],
    ]
    assert gone == {1: change}


def test_what_takes_the_place_of_one_guarded_message_is_guarded():
    messages = numbered(4)
    slots = [Slot(message, 1, index, index in (1, 2)) for index, message in enumerate(messages)]

    def guarded(*edits):
        return [slot.guarded for slot in apply_to_slots(slots, edits, lambda _: 1, {})]

    assert guarded(edit(messages, 1, 2, assistant("a"))) == [False, True, True, False]
    assert guarded(edit(messages, 0, 1, assistant("a"))) == [False, True, True, False]
    assert guarded(edit(messages, 1, 2, assistant("a"), assistant("b"))) == [False, False, False, True, False]
    assert guarded(edit(messages, 1, 3, assistant("a"))) == [False, False, False]


def test_a_message_that_an_edit_put_and_another_took_is_no_message_of_the_first_list():
    messages = numbered(2)
    gone = {}
    slots = apply_to_slots(
        [Slot(message, 1, index) for index, message in enumerate(messages)],
        [edit(messages, 0, 1, assistant("a"), stage="one")],
        lambda _: 1,
        gone,
    )
    slots = apply_to_slots(slots, [edit([slots[0].message], 0, 1, stage="two")], lambda _: 1, gone)
    assert [gone[0].stage, len(gone), len(slots)] == ["two", 1, 1]
    assert compose_edits(messages, slots, gone) == (Edit(0, 1, (), "two", "", (messages[0],)),)


BY = Edit(0, 0, (), "repair")


def rearranged(messages, order):
    slots = [Slot(message, 1, index) for index, message in enumerate(messages)]
    return match_slots(slots, order, lambda message: len(message.text), BY)


def test_rearranging_keeps_the_slots_of_the_same_objects():
    messages = numbered(3)
    new = assistant("new")
    done = rearranged(messages, [messages[0], new, messages[2]])
    assert done == [Slot(messages[0], 1, 0), Slot(new, 3, None, False, BY), Slot(messages[2], 1, 2)]


def test_an_equal_message_that_is_another_object_is_new():
    messages = numbered(1)
    (slot,) = rearranged(messages, [user("m0")])
    assert slot.origin is None


def test_what_moved_before_others_is_new():
    messages = numbered(3)
    done = rearranged(messages, [messages[2], messages[0], messages[1]])
    assert [slot.origin for slot in done] == [2, None, None]


def test_one_object_may_stand_in_a_list_several_times():
    same, other = user("same"), user("other")
    done = rearranged([same, other, same], [other, same])
    assert [slot.origin for slot in done] == [1, 2]
    done = rearranged([same, same, other], [same, same, other])
    assert [slot.origin for slot in done] == [0, 1, 2]
    done = rearranged([same], [same, same])
    assert [slot.origin for slot in done] == [0, None]


@given(st.data())
def test_a_rearranged_list_is_told_by_edits_of_the_first(data):
    pool = numbered(4)
    first = data.draw(st.lists(st.sampled_from(pool), max_size=8))
    after = data.draw(st.lists(st.sampled_from([*pool, assistant("new")]), max_size=8))
    slots = [Slot(message, 1, index) for index, message in enumerate(first)]
    edits = compose_edits(first, match_slots(slots, after, lambda _: 1, BY), {})
    assert apply_edits(first, edits) == after
    assert revert_edits(after, edits) == first


def test_edits_are_values():
    assert edit([Message("user", "a")], 0, 1) == edit([Message("user", "a")], 0, 1)


def test_a_message_rewritten_twice_is_still_known_as_it_came():
    messages = numbered(1)
    slots = [Slot(messages[0], 1, 0)]
    for words in ("shorter", "short"):
        slots = apply_to_slots(slots, [edit([slots[0].message], 0, 1, assistant(words))], lambda _: 1, {})
    assert slots[0].message == assistant("short")
    assert slots[0].original is messages[0]


def test_the_edit_that_took_a_rewritten_message_is_the_one_that_counts():
    messages = numbered(2)
    slots = [Slot(message, 1, index) for index, message in enumerate(messages)]
    gone = {}
    rewritten = Edit(0, 1, (assistant("short"),), "clip", "", (messages[0],))
    slots = apply_to_slots(slots, [rewritten], lambda _: 1, gone)
    taken = Edit(0, 2, (assistant("summary"),), "digest", "", (messages[0], messages[1]))
    slots = apply_to_slots(slots, [taken], lambda _: 1, gone)
    assert [joined.stage for joined in compose_edits(messages, slots, gone)] == ["digest"]


# -- tasks and policies --------------------------------------------------------------------------------------


COUNTER = Counter(name="length", text=len, visible=visible_text, per_conversation=3)


def task(*messages, **fields):
    sizes = tuple(COUNTER.sizes(messages))
    return Task(messages=messages, sizes=sizes, counter=COUNTER, window=100, room=80, **fields)


def test_the_tokens_of_a_task_are_those_of_its_history():
    assert task(user("12345"), assistant("123")).tokens == 11


def test_a_keep_sees_the_history_and_the_numbers():
    it = task(user("12345"), target=7, force=True, checkpoint=1)
    assert it.measured == MeasuredHistory(it.messages, (5,), 100, 80, 7, True, 1)


def test_what_is_protected_does_not_leave_with_its_stretch():
    it = task(*(user(str(number)) for number in range(6)), protected=frozenset({0, 2, 4}))
    assert it.leaving(Segment(1, 5)) == (1, 3)
    assert it.leaving(Segment(3, 4)) == (3,)
    assert it.leaving(Segment(2, 3)) == ()


HISTORY = (
    system("s"),
    user("first"),
    assistant("a"),
    user("last"),
    assistant("b"),
    user(result_part("c1", "x")),
)


def test_the_last_request_is_told_where_it_leaves():
    """House law 13: the user's last words are in every view, quoted where they leave."""
    assert task(*HISTORY).request(Segment(1, 6)) == "last"
    assert task(*HISTORY).request(Segment(3, 4)) == "last"


@pytest.mark.parametrize("segment", [Segment(1, 3), Segment(4, 6), Segment(0, 1)])
def test_the_last_request_is_not_told_where_it_stays(segment):
    assert task(*HISTORY).request(segment) == ""


def test_a_last_request_that_is_protected_stays_and_is_not_told():
    assert task(*HISTORY, protected=frozenset({3})).request(Segment(1, 6)) == ""


def test_where_nobody_spoke_there_is_no_request():
    assert task(system("s"), assistant("a"), summary("was")).request(Segment(0, 3)) == ""


def test_what_leaves_in_several_runs_is_replaced_where_the_last_run_stood():
    messages = tuple(user(str(number)) for number in range(8))
    edits = replace_runs(task(*messages), (1, 2, 4, 6, 7), (assistant("S"),), "stage", "why")
    assert [(edit.start, edit.end, edit.put) for edit in edits] == [
        (1, 3, ()),
        (4, 5, ()),
        (6, 8, (assistant("S"),)),
    ]
    assert edits[0] == Edit(1, 3, (), "stage", "why", messages[1:3])
    assert [message.text for message in apply_edits(messages, edits)] == ["0", "3", "5", "S"]


def test_one_run_is_one_edit_and_none_is_none():
    messages = tuple(user(str(number)) for number in range(3))
    (edit,) = replace_runs(task(*messages), (0, 1, 2), (), "stage", "")
    assert (edit.start, edit.end, edit.took) == (0, 3, messages)
    assert replace_runs(task(*messages), (), (assistant("S"),), "stage", "") == ()


def test_a_step_proposes_nothing_by_default():
    assert Step() == Step((), "", failed=False)


def test_a_policy_needs_a_name_a_window_and_a_trigger():
    policy = Policy(name="mine", window=lambda model: Window(1_000, None, "given"), trigger=Trigger())
    assert policy.counter is ESTIMATE_COUNTER
    assert (policy.reserve, policy.levels, policy.target, policy.stages) == (Reserve(), Levels(), None, ())
    assert policy.guards == {"system", "pins", "last user", "open calls"}


def test_stages_may_be_made_when_they_are_first_looked_at():
    made = []
    stages = make_stages_later(lambda: made.append("once") or (Step,))
    policy = Policy(
        name="mine", window=lambda model: Window(1_000, None, "given"), trigger=Trigger(), stages=stages
    )
    assert made == []
    assert policy.stages is policy.stages
    assert made == ["once"]
    assert Policy.stages is vars(Policy)["stages"]
