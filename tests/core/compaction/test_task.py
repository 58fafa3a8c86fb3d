"""What a stage is given, and what a policy says by default."""

import pytest

from refold.core.compaction.budget import Levels, Reserve, Trigger
from refold.core.compaction.edits import Edit, apply_edits
from refold.core.compaction.keep_rules import MeasuredHistory, Segment
from refold.core.compaction.policy import Policy
from refold.core.compaction.task import Step, Task, replace_runs
from refold.core.messages.message_text import visible_text
from refold.core.models.windows import Window
from refold.core.tokens.counting import ESTIMATE_COUNTER, Counter
from refold.testing import assistant, result_part, summary, system, user

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
