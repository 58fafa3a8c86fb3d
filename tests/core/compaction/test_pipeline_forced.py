"""The order of stages where somebody asked for a compaction, and which stages may not run."""

from collections.abc import Callable
from dataclasses import dataclass

from refold.core.compaction.flow import run
from refold.core.compaction.pipeline import shrink
from refold.core.compaction.task import Step, Task, replace_runs
from refold.core.messages.message_text import visible_text
from refold.core.tokens.counting import Counter
from refold.testing import Scripted, summary, user

COUNTER = Counter(name="length", text=len, visible=visible_text)


@dataclass
class Stage:
    """A stage that notes its name in `ran`."""

    name: str
    ran: list
    propose: Callable
    asks: bool = False
    tells: bool = False
    drops: bool = False

    def __call__(self, task):
        self.ran.append(self.name)
        return self.propose(task)


def tell(task):
    """Put a summary in the place of the oldest message."""
    return Step(replace_runs(task, (0,), (summary("s"),), "told", "told"), "told")


def drop(task):
    return Step(replace_runs(task, (0,), (), "dropped", "old"), "dropped")


def refuse(_task):
    return Step(note="no", failed=True)


def stages_run(*, ask=tell, goal=12, asks=True, **task):
    """The names of the stages that ran, and the tokens that are left."""
    ran = []
    stages = (
        Stage("thin", ran, refuse),
        Stage("ask", ran, ask, asks=asks, tells=True),
        Stage("digest", ran, tell, tells=True),
        Stage("slide", ran, drop, drops=True),
    )
    messages = tuple(user(letter * 10) for letter in "abc")
    it = Task(
        messages=messages,
        sizes=tuple(COUNTER.sizes(messages)),
        counter=COUNTER,
        window=100,
        room=80,
        goal=goal,
        **task,
    )
    done = run(shrink(it, stages), Scripted())
    return ran, done.tokens, done.tier


def test_by_itself_every_stage_runs_in_order_until_the_goal_holds():
    ran, tokens, tier = stages_run()
    assert ran == ["thin", "ask", "digest", "slide"]
    assert (tokens, tier) == (20, 4)


def test_where_there_is_room_only_the_model_is_asked():
    """Its summary is enough, although the goal is not reached."""
    assert stages_run(tells=True, due=False, model=True, untold_above=80) == (["ask"], 21, 2)


def test_where_there_is_room_and_the_model_fails_nothing_else_runs():
    assert stages_run(tells=True, due=False, model=True, untold_above=80, ask=refuse) == (["ask"], 30, 0)


def test_where_costs_are_limited_the_digest_stands_in():
    """No model may be asked, which is the same as no model."""

    def refuse_to_pay(_task):
        return Step(note="no model is asked", failed=True, capped=True)

    ran, tokens, _ = stages_run(tells=True, due=False, model=True, untold_above=80, ask=refuse_to_pay)
    assert (ran, tokens) == (["ask", "thin", "digest"], 21)


def test_where_it_is_due_the_others_follow_the_model():
    ran, tokens, tier = stages_run(tells=True, model=True, untold_above=15, ask=refuse)
    assert ran == ["ask", "thin", "digest", "slide"]
    assert (tokens, tier) == (20, 4)


def test_the_number_of_the_last_stage_is_its_place_in_the_list():
    """An early stage that runs late does not hide the later one."""
    ran, _, tier = stages_run(tells=True, model=True, untold_above=15, goal=0)
    assert (ran[0], tier) == ("ask", 4)


def test_without_a_model_the_digest_is_enough_and_nothing_is_dropped():
    ran, tokens, _ = stages_run(tells=True, due=False, untold_above=80, ask=refuse)
    assert (ran, tokens) == (["thin", "ask", "digest"], 21)


def test_a_policy_that_asks_nobody_runs_as_it_does():
    ran, _, _ = stages_run(tells=True, due=False, model=True, untold_above=80, ask=refuse, asks=False)
    assert ran == ["thin", "ask", "digest"]


def test_nothing_is_dropped_up_to_the_number_that_fits():
    """Also where a policy has an order of its own."""
    assert stages_run(untold_above=21)[0] == ["thin", "ask", "digest"]
    assert stages_run(untold_above=20)[0] == ["thin", "ask", "digest", "slide"]
