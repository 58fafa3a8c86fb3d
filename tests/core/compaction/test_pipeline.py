"""Stages run, cheapest first, until the history fits."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_strategies import revert_edits
from refold.core.compaction.edits import Edit, apply_edits, replace_message
from refold.core.compaction.flow import Answer, Ask, Failed, run
from refold.core.compaction.model_calls import ModelCall
from refold.core.compaction.pipeline import Report, shrink
from refold.core.compaction.task import Step, Task, replace_runs
from refold.core.messages.message_text import visible_text
from refold.core.messages.normalize import OPENING
from refold.core.messages.repair import MissingTexts
from refold.core.messages.wire_rules import Shape
from refold.core.tokens.counting import Counter
from refold.testing import Scripted, assistant, call, result, shape, summary, user

COUNTER = Counter(name="length", text=len, visible=visible_text, per_conversation=3)


@dataclass
class Fixed:
    """A stage that always proposes the same, and notes the tasks it was given."""

    propose: Callable
    name: str = "fixed"
    seen: list = field(default_factory=list)

    def __call__(self, task):
        self.seen.append(task)
        return self.propose(task)


def nothing(note=""):
    return Fixed(lambda _: Step(note=note), name="nothing")


def drop(index=0, name="drop"):
    """Take one message out."""
    return Fixed(
        lambda task: Step(replace_runs(task, (index,), (), name, "too old"), "dropped one"), name=name
    )


def halve(name="halve"):
    """Cut every message to half its text."""

    def propose(task):
        edits = [
            replace_message(task.messages, at, user(message.text[: len(message.text) // 2]), name, "long")
            for at, message in enumerate(task.messages)
            if len(message.text) > 1
        ]
        return Step(tuple(edits), "halved")

    return Fixed(propose, name=name)


def ask(*rounds, name="ask"):
    """Ask questions, round after round, and put the last answer in the place of everything."""

    def propose(task):
        def flow():
            replies = ()
            for questions in rounds:
                replies = yield tuple(questions)
            if isinstance(replies[-1], Failed):
                return Step(note="nobody answered", failed=True)
            return Step(
                replace_runs(task, range(len(task.messages)), (summary(replies[-1].text),), name, "told"),
                "told",
            )

        return flow()

    return Fixed(propose, name=name)


def task(*texts, goal=0, messages=None, **more):
    messages = tuple(messages or map(user, texts))
    sizes = tuple(COUNTER.sizes(messages))
    return Task(messages=messages, sizes=sizes, counter=COUNTER, window=1_000, room=800, goal=goal, **more)


def shrunk(it, *stages, model=None, **more):
    return run(shrink(it, stages, **more), model or Scripted())


# -- when it stops -----------------------------------------------------------------------------------------


def test_no_stage_runs_where_the_goal_holds_already():
    stage = drop()
    it = task("aaaa", "bb", goal=9)
    done = shrunk(it, stage)
    assert stage.seen == []
    assert (done.messages, done.edits, done.reports, done.tier, done.tokens) == (it.messages, (), (), 0, 9)


def test_it_stops_as_soon_as_the_goal_holds():
    last = drop(name="last")
    done = shrunk(task("aaaa", "bbbb", "cccc", goal=11), drop(), last)
    assert [message.text for message in done.messages] == ["bbbb", "cccc"]
    assert (done.tokens, done.tier, last.seen) == (11, 1, [])


def test_one_token_over_the_goal_is_not_there_yet():
    done = shrunk(task("aaaa", "bbbb", "cccc", goal=10), drop(), drop(name="last"))
    assert [message.text for message in done.messages] == ["cccc"]
    assert (done.tokens, done.tier) == (7, 2)


def test_turns_that_mending_puts_in_need_room_too():
    """Where speakers take turns, the reply that leaves between two messages of the user is put in again."""
    turns = Shape(name="turns", takes_turns=True)
    said = (user("aaaa"), assistant("b" * 90), user("cccc"), assistant("dd"))
    goal = 20  # the three others have 13
    assert shrunk(task(messages=said, goal=goal), drop(1), drop(0)).tokens == 13
    done = shrunk(task(messages=said, goal=goal, shape=turns), drop(1), last := drop(0))
    assert (done.tokens, done.repaired) == (9, 0)
    assert last.seen[0].goal == 0
    assert shrunk(task(messages=said, goal=13 + len(OPENING), shape=turns), drop(1), drop(0)).repaired == 1


def test_where_there_is_no_goal_one_success_is_enough():
    last = drop(name="last")
    done = shrunk(task("aaaa", "bbbb", "cccc", goal=None), nothing(), drop(), last)
    assert len(done.messages) == 2
    assert (done.tier, last.seen) == (2, [])
    assert shrunk(task("aaaa", "bbbb", goal=None), drop(), last).tier == 1
    assert last.seen == []


def test_where_there_is_no_goal_and_no_success_every_stage_is_tried():
    stages = [nothing(), nothing()]
    done = shrunk(task("aaaa", goal=None), *stages)
    assert [len(stage.seen) for stage in stages] == [1, 1]
    assert done.tier == 0


def test_it_never_loops():
    """Each stage runs once, whatever the goal."""
    stages = [halve(), nothing(), halve()]
    shrunk(task("a" * 100, goal=0), *stages)
    assert [len(stage.seen) for stage in stages] == [1, 1, 1]


def test_it_ends_without_stages():
    done = shrunk(task("aaaa", goal=0))
    assert (done.tier, done.reports) == (0, ())


# -- what it accepts ---------------------------------------------------------------------------------------


def test_a_stage_that_proposes_nothing_is_passed_over():
    done = shrunk(task("aaaa", "bbbb", goal=7), nothing("too few"), nothing(), drop())
    assert [(report.accepted, report.reason) for report in done.reports] == [
        (False, "too few"),
        (False, "nothing to do"),
        (True, "dropped one"),
    ]
    assert done.tier == 3


def test_a_proposal_that_makes_the_history_larger_is_turned_down():
    larger = Fixed(
        lambda it: Step((replace_message(it.messages, 0, user("a" * 50), "larger"),), "grown"), name="larger"
    )
    it = task("aaaa", "bbbb", goal=0)
    done = shrunk(it, larger)
    assert done.messages == it.messages
    assert done.edits == ()
    assert done.reports == (
        Report(stage="larger", accepted=False, reason="not smaller", tokens_before=11, tokens_after=57),
    )


def test_a_proposal_that_does_not_make_it_smaller_is_turned_down():
    same = Fixed(lambda it: Step((replace_message(it.messages, 0, user("zzzz"), "same"),)), name="same")
    done = shrunk(task("aaaa", goal=0), same)
    assert (done.reports[0].accepted, done.reports[0].reason, done.tier) == (False, "not smaller", 0)


def test_one_token_smaller_is_smaller():
    less = Fixed(lambda it: Step((replace_message(it.messages, 0, user("zzz"), "less"),)), name="less")
    done = shrunk(task("aaaa", goal=6), less)
    assert (done.reports[0].accepted, done.tokens) == (True, 6)


def test_the_next_stage_sees_the_smaller_history():
    last = nothing()
    shrunk(task("aaaa", "bbbbbb", goal=0), drop(), last)
    (seen,) = last.seen
    assert (shape(seen.messages), seen.sizes, seen.tokens) == ("user: bbbbbb", (6,), 9)


def test_after_a_stage_that_was_turned_down_the_next_sees_what_was_before():
    larger = Fixed(
        lambda it: Step((replace_message(it.messages, 0, user("a" * 50), "larger"),)), name="larger"
    )
    last = nothing()
    it = task("aaaa", goal=0)
    shrunk(it, larger, last)
    assert last.seen == [it]


def test_a_stage_that_raises_raises():
    def broken(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shrunk(task("aaaa"), Fixed(broken))


def test_edits_that_overlap_are_refused():
    twice = Fixed(
        lambda it: Step((*replace_runs(it, (0,), (), "a", ""), *replace_runs(it, (0,), (), "b", "")))
    )
    with pytest.raises(ValueError, match="overlaps"):
        shrunk(task("aaaa"), twice)


# -- what must stay ----------------------------------------------------------------------------------------


def test_a_stage_that_would_take_what_must_stay_is_turned_down():
    """House law 13, whatever a stage proposes."""
    it = task("aaaa", "bbbb", goal=0, protected=frozenset({0}))
    done = shrunk(it, drop(0), drop(1))
    assert [(report.accepted, report.reason) for report in done.reports] == [
        (False, "it would take what must stay"),
        (True, "dropped one"),
    ]
    assert done.reports[0].tokens_after == done.reports[0].tokens_before == 11
    assert [message.text for message in done.messages] == ["aaaa"]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_summary_that_its_stage_keeps_is_not_taken_by_a_later_one(keeps):
    def propose(task):
        return Step(replace_runs(task, (0, 1), (summary("s"),), "tell", "told"), "told")

    tell = Fixed(propose, name="tell")
    tell.keeps_summary = keeps
    done = shrunk(task("a" * 40, "bbbb", "cccc"), tell, drop(0))
    assert [report.accepted for report in done.reports] == [True, not keeps]
    assert [message.text for message in done.messages] == (["s", "cccc"] if keeps else ["cccc"])


def test_what_must_stay_may_be_rewritten_unless_it_is_pinned():
    it = task("aaaa", "bbbb", goal=0, protected=frozenset({0}))
    assert shrunk(it, halve()).reports[0].accepted
    it = task("aaaa", "bbbb", goal=0, protected=frozenset({0}), pinned=frozenset({0}))
    assert shrunk(it, halve()).reports[0].reason == "it would take what must stay"


def test_what_must_stay_does_not_stay_in_two_messages_or_in_one_with_others():
    it = task("a" * 20, "b" * 20, goal=0, protected=frozenset({0}))

    def stage(start, end, *put):
        return Fixed(lambda it: Step((Edit(start, end, put, "s", "", it.messages[start:end]),)))

    assert not shrunk(it, stage(0, 1, user("a"), user("b"))).reports[0].accepted
    assert not shrunk(it, stage(0, 2, user("a"))).reports[0].accepted
    assert shrunk(it, stage(1, 2, user("a"), user("b"))).reports[0].accepted


def test_what_must_stay_is_known_under_its_new_position():
    last = nothing()
    it = task("aaaa", "bbbb", "cccc", goal=0, protected=frozenset({1}), pinned=frozenset({2}))
    shrunk(it, drop(), last)
    assert (last.seen[0].protected, last.seen[0].pinned) == ({0}, {1})


def test_a_rewritten_message_that_must_stay_must_stay():
    last = nothing()
    shrunk(task("aaaa", "bbbb", goal=0, protected=frozenset({1})), halve(), last)
    assert last.seen[0].protected == {1}


def test_a_later_stage_can_look_at_a_message_as_it_came():
    last = nothing()
    it = task("a" * 40, "b", "c" * 40, goal=0)
    shrunk(it, halve("once"), drop(1), halve("twice"), last)
    (seen,) = last.seen
    assert [message.text for message in seen.messages] == ["a" * 10, "c" * 10]
    assert [seen.original(index) for index in (0, 1)] == [it.messages[0], it.messages[2]]
    assert it.original(1) is it.messages[1]


# -- limits on arrival -------------------------------------------------------------------------------------


@dataclass
class OnArrival(Fixed):
    """A stage that limits each message on its arrival."""

    on_arrival: bool = True


def limit(most):
    """Cut every message to so many characters, on its arrival."""

    def propose(task):
        edits = [
            replace_message(task.messages, at, assistant(message.text[:most]), "limit")
            for at, message in enumerate(task.messages)
            if len(message.text) > most
        ]
        return Step(tuple(edits), "limited")

    return OnArrival(propose, name="limit")


def test_limits_on_arrival_come_first_and_are_no_tier():
    last = drop(name="last")
    done = shrunk(task("aaaa", "bbbb", goal=None), last, limit(2))
    assert [report.stage for report in done.reports] == ["limit", "last"]
    assert [message.text for message in last.seen[0].messages] == ["aa", "bb"]
    assert done.tier == 1
    alone = shrunk(task("aaaa", "bbbb", goal=None), limit(2))
    assert (alone.tier, alone.tokens) == (0, 7)


def test_limits_on_arrival_may_reach_the_goal():
    """They end a run that nobody asked for; a forced one asks the model all the same."""
    told = ask([Ask("q")])
    assert [report.stage for report in shrunk(task("aaaa", goal=5), limit(2), told).reports] == ["limit"]
    forced = task("aaaa", goal=5, force=True, model=True)
    done = shrunk(forced, limit(2), told, model=Scripted("c"))
    assert [report.stage for report in done.reports] == ["limit", "ask"]


# -- the user's last message -------------------------------------------------------------------------------


def test_the_last_request_is_whole_where_cutting_it_does_not_reach_the_goal():
    it = task(messages=[user("aaaa"), assistant("bbbb"), user("cccc")], goal=8)
    done = shrunk(it, halve())
    assert [message.text for message in done.messages] == ["aa", "bb", "cccc"]
    assert [(edit.start, edit.end) for edit in done.edits] == [(0, 1), (1, 2)]
    assert (done.tier, done.tokens) == (1, 11)


def test_the_last_request_is_cut_where_that_reaches_the_goal_or_makes_it_fit():
    messages = [user("aaaa"), assistant("bbbb"), user("cccc")]
    reached = shrunk(task(messages=messages, goal=9), halve())
    assert [message.text for message in reached.messages] == ["aa", "bb", "cc"]
    fits = shrunk(task(messages=messages, goal=8, fitting=9), halve())
    assert [message.text for message in fits.messages] == ["aa", "bb", "cc"]
    too_small = shrunk(task(messages=messages, goal=8, fitting=8), halve())
    assert [message.text for message in too_small.messages] == ["aa", "bb", "cccc"]


def test_after_a_refusal_the_last_request_is_whole_where_it_fits_easily():
    """Nine tenths of what fits are too much, eight tenths are not."""
    messages = [user("aaaa"), assistant("bbbb"), user("cccc")]
    easy = shrunk(task(messages=messages, goal=9, fitting=14, refused=True), halve())
    assert [message.text for message in easy.messages] == ["aa", "bb", "cccc"]
    tight = shrunk(task(messages=messages, goal=9, fitting=12, refused=True), halve())
    assert [message.text for message in tight.messages] == ["aa", "bb", "cc"]


def test_without_a_goal_the_last_request_is_cut_where_it_fits():
    """One success is enough there, so a cut is not in vain."""
    done = shrunk(task("aaaa", goal=None), halve())
    assert (done.messages[0].text, done.tier) == ("aa", 1)


def test_a_stage_whose_only_edit_was_undone_was_not_accepted():
    it = task("aaaa", goal=1)
    done = shrunk(it, nothing("why not"), halve())
    assert (done.messages, done.edits, done.tier, done.tokens) == (it.messages, (), 0, 7)
    assert [(report.accepted, report.reason) for report in done.reports] == [
        (False, "why not"),
        (False, "cutting the user's last message is not enough"),
    ]


def test_other_messages_of_the_user_may_be_cut():
    done = shrunk(task(messages=[user("aaaa"), user("bb")], goal=1), halve())
    assert [message.text for message in done.messages] == ["aa", "bb"]
    only_first = Fixed(
        lambda it: Step((replace_message(it.messages, 0, user("a"), "less"),)), name="only first"
    )
    done = shrunk(task(messages=[user("aaaa"), user("bb")], goal=1), only_first)
    assert [message.text for message in done.messages] == ["a", "bb"]


# -- questions ---------------------------------------------------------------------------------------------


def test_questions_are_passed_on_and_noted():
    model = Scripted([Answer(text="ab", model="m", input_tokens=70, output_tokens=9), "c"])
    rounds = [[Ask("question", system="sys", purpose="chunk 1")], [Ask("merge", purpose="merge")]]
    done = shrunk(task("a" * 50, goal=0), ask(*rounds), model=model)
    assert model.asked == ["question", "merge"]
    assert done.reports[0].calls == (
        ModelCall(purpose="chunk 1", prompt_tokens=70, answer_tokens=9, model="m"),
        ModelCall(purpose="merge", prompt_tokens=5, answer_tokens=1, estimated=True),
    )
    assert shape(done.messages) == "user (summary): c"


def test_the_prompt_counts_with_its_system_prompt_where_nobody_told_its_size():
    done = shrunk(task("a" * 50, goal=0), ask([Ask("question", system="sys")]), model=Scripted("abcd"))
    (noted,) = done.reports[0].calls
    assert (noted.prompt_tokens, noted.answer_tokens) == (11, 4)


def test_a_report_of_no_tokens_is_believed():
    model = Scripted(Answer(text="abcd", input_tokens=0, output_tokens=0))
    done = shrunk(task("a" * 50, goal=0), ask([Ask("question")]), model=model)
    (noted,) = done.reports[0].calls
    assert (noted.prompt_tokens, noted.answer_tokens) == (0, 0)


def test_a_question_that_failed_is_noted_with_its_error():
    """House law 11: a summariser that fails leaves the history and moves on to the next stage."""
    model = Scripted(TimeoutError("x" * 1_000))
    done = shrunk(task("a" * 50, "b", goal=0), ask([Ask("question", purpose="initial")]), drop(), model=model)
    (noted,) = done.reports[0].calls
    assert (noted.purpose, noted.prompt_tokens, noted.answer_tokens, noted.model) == ("initial", 8, 0, "")
    assert noted.failed.startswith("TimeoutError: xxx")
    assert len(noted.failed) == 500
    assert (done.reports[0].accepted, done.reports[0].reason, done.tier) == (False, "nobody answered", 2)


def test_questions_of_a_stage_that_was_turned_down_are_noted():
    done = shrunk(task("aaaa", goal=0), ask([Ask("question")]), model=Scripted("larger than before"))
    assert (done.reports[0].accepted, len(done.reports[0].calls)) == (False, 1)


def test_ctrl_c_closes_the_stage():
    closed = []

    def propose(_):
        def flow():
            try:
                yield (Ask("question"),)
            finally:
                closed.append(True)

        return flow()

    with pytest.raises(KeyboardInterrupt):
        shrunk(task("aaaa", goal=0), Fixed(propose), model=Scripted(KeyboardInterrupt()))
    assert closed == [True]


# -- afterwards --------------------------------------------------------------------------------------------


def test_pairs_are_mended_afterwards():
    it = task(messages=[user("a"), call("f", id="a"), result("a", "x" * 20), user("bb")], goal=3)
    done = shrunk(it, drop(2), missing=MissingTexts("gone"))
    assert shape(done.messages) == "user: a\nassistant: -> f() #a\ntool #a failed: gone\nuser: bb"
    assert [(edit.start, edit.end, edit.stage) for edit in done.edits] == [(2, 3, "drop+repair")]


def test_what_was_mended_is_counted_and_part_of_the_edits():
    it = task(messages=[user("a" * 20), call("f", id="a"), user("bb")], goal=10)
    done = shrunk(it, drop(0), missing=MissingTexts("gone"))
    assert shape(done.messages) == "assistant: -> f() #a\ntool #a failed: gone\nuser: bb"
    assert (done.repaired, done.tokens) == (1, COUNTER.conversation(done.messages))
    assert [(edit.start, edit.end, edit.stage) for edit in done.edits] == [(0, 1, "drop"), (2, 2, "repair")]


def test_a_history_that_needs_no_stage_is_mended_all_the_same():
    it = task(messages=[call("f", id="a"), user("bb")], goal=100)
    done = shrunk(it)
    assert (done.repaired, done.tier, len(done.messages)) == (1, 0, 3)
    assert done.tokens == COUNTER.conversation(done.messages)


def test_strays_leave_where_a_system_drops_them():
    it = task(messages=[user("a"), result("x", "stray")], goal=100)
    done = shrunk(it, orphans="drop")
    assert shape(done.messages) == "user: a"
    assert done.edits == (Edit(1, 2, (), "repair", "", (it.messages[1],)),)


def test_the_demands_of_the_shape_are_met():
    it = task(messages=[assistant("a")], goal=100, shape=Shape(name="first", starts_with_user=True))
    assert shrunk(it).messages[0].role == "user"


def test_a_pointer_to_a_read_that_left_is_cleared():
    """Issue 2: "refer to the latest read below" must be true."""
    pointer = "[File a.py - refer to latest read below]"
    history = [
        call("read_file", id="1", path="a.py"),
        result("1", pointer),
        call("read_file", id="2", path="a.py"),
        result("2", "x" * 90),
        user("on"),
    ]
    stage = Fixed(lambda it: Step(replace_runs(it, (2, 3), (), "slide", ""), "slid"), name="slide")
    done = shrunk(task(messages=history, goal=60), stage)
    assert "[Tool result cleared]" in shape(done.messages)
    assert apply_edits(history, done.edits) == list(done.messages)
    untouched = shrunk(task(messages=history, goal=1_000), stage)
    assert untouched.messages == tuple(history)


# -- laws --------------------------------------------------------------------------------------------------

LONG = "words " * 10
POOL = [user(LONG), assistant(LONG), call("f", id="a"), result("a", LONG), call("g", id="b"), summary(LONG)]


def random_stage(draw, number):
    """A stage that takes out, rewrites or puts in whatever it likes."""

    def propose(it):
        cuts = sorted(draw(st.lists(st.integers(0, len(it.messages)), max_size=4)))
        edits = []
        for start, end in zip(cuts[::2], cuts[1::2], strict=False):
            put = draw(st.lists(st.sampled_from([user("n"), assistant("m")]), max_size=2))
            edits.append(Edit(start, end, tuple(put), f"s{number}", "why", it.messages[start:end]))
        return Step(tuple(edits))

    return Fixed(propose, name=f"s{number}")


@given(st.data())
def test_the_edits_lead_from_the_first_list_to_the_last_and_back(data):
    history = data.draw(st.lists(st.sampled_from(POOL), max_size=8))
    stages = [random_stage(data.draw, number) for number in range(3)]
    protected = data.draw(st.frozensets(st.integers(0, 7), max_size=2))
    it = task(messages=history or [user("a")], goal=0, protected=protected)
    done = shrunk(it, *stages, orphans=data.draw(st.sampled_from(["call", "drop"])))
    assert apply_edits(it.messages, done.edits) == list(done.messages)
    assert revert_edits(done.messages, done.edits) == list(it.messages)
    assert done.tokens == COUNTER.conversation(done.messages)


@given(st.data())
def test_each_accepted_stage_makes_it_smaller_and_each_other_leaves_it(data):
    history = data.draw(st.lists(st.sampled_from(POOL), min_size=1, max_size=8))
    stages = [random_stage(data.draw, number) for number in range(4)]
    done = shrunk(task(messages=history, goal=data.draw(st.sampled_from([0, 100]))), *stages)
    size = COUNTER.conversation(history)
    for report in done.reports:
        assert report.tokens_before == size
        assert not report.accepted or report.tokens_after < size
        # A cut of the last request that turns out to be in vain is taken back when all stages have run.
        was_accepted = report.accepted or "is not enough" in report.reason
        size = report.tokens_after if was_accepted else size
    assert done.tier == max((n for n, report in enumerate(done.reports, 1) if report.accepted), default=0)
