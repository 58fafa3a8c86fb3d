"""A window hardly larger than system prompt and tools: few folds, one warning, and the task stays."""

import warnings

import pytest

import refold
from chat_messages import user
from refold.testing import Scripted
from sample_sizes import few_or_all

WINDOW = 8_192
ROOM = 6_144
TURNS = few_or_all(40, 130)
TASK = "Port the parser of the harbour to Rust, and never touch the folder tests/."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": "Does one thing of many, and does it well. " * 4,
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for number in range(20)
]
TEXT = "use a larger window, fewer tools or a shorter system prompt"


def rules(share):
    """A system prompt that fills, with the tools, this share of the room."""
    tools = refold.measure([], window=WINDOW, tools=TOOLS).breakdown.tools
    return "rule " * int((ROOM * share - tools) * 5_000 / refold.count("rule " * 5_000))


class Talk:
    """A session of many turns; where the system prompt is sent is a choice of the caller."""

    def __init__(self, share, *, words=10, in_list=False, **options):
        self.session = refold.open("crowded", window=WINDOW, store="memory:", **options)
        self.events, self.gaps, self.ready, self.last = [], [], [], 0
        self.session.subscribe(self.events.append)
        self.system = None if in_list else rules(share)
        self.history = [{"role": "system", "content": rules(share)}] if in_list else []
        self.words = words

    def go(self, turns=TURNS):
        start = sum(message["role"] == "assistant" for message in self.history)
        for turn in range(start, start + turns):
            step = " ".join(f"w{turn * number}" for number in range(self.words))
            self.history.append(user(f"Step {turn}: {step}" if turn else TASK))
            ready = self.session.prepare(self.history, system=self.system, tools=TOOLS)
            assert ready.budget.used <= ready.budget.room
            assert ready.messages[-1] == self.history[-1]
            assert user(TASK) in ready.messages
            if ready.fold:
                self.gaps.append(turn - self.last)
                self.last = turn
            self.ready.append(ready)
            done = " ".join(f"x{turn * number}" for number in range(2 * self.words))
            self.history.append({"role": "assistant", "content": f"Done: {done}"})
        return self

    @property
    def warnings(self):
        return [event for event in self.events if event.kind == "context_warning" and TEXT in event.reason]


@pytest.mark.few_values(2)
@pytest.mark.parametrize("in_list", [False, True], ids=["system=", "in the list"])
@pytest.mark.parametrize("share", [0.75, 0.85, 0.92, 1.1])
@pytest.mark.filterwarnings("ignore::refold.RefoldWarning")
def test_folds_have_four_turns_between_them(share, in_list):
    """The request fits in every turn; the first and the last words of the user stay.

    Also where system prompt and tools take all that an answer of the usual length leaves of the window.
    """
    talk = Talk(share, in_list=in_list).go()
    assert talk.gaps
    assert min(talk.gaps[1:]) >= 4
    assert len(talk.gaps) <= TURNS // 4


@pytest.mark.filterwarnings("ignore::refold.RefoldWarning")
def test_turns_that_are_too_large_are_folded_as_often_as_they_need():
    """Nothing else would fit: 500 tokens are free, and a turn has 190."""
    talk = Talk(0.92, words=30).go()
    assert min(talk.gaps[1:]) >= 2


@pytest.mark.parametrize(("counts", "share"), [(0.8, 1.15), (1.25, 0.75), (1.4, 0.65)])
@pytest.mark.filterwarnings("ignore::refold.RefoldWarning")
def test_what_the_provider_counts_says_how_crowded_it_is(counts, share):
    """Where it counts less than we do, a fold is no hopeless case; where it counts more, folds wait as well."""
    session, history, folds = refold.open("crowded", window=WINDOW, store="memory:"), [], 0
    system = rules(share)
    for turn in range(TURNS):
        history.append(user(f"Step {turn}: go on with the next file." if turn else TASK))
        ready = session.prepare(history, system=system, tools=TOOLS)
        folds += bool(ready.fold)
        size = refold.measure(ready.messages, system=system, tools=TOOLS, window=WINDOW).used
        done = {"role": "assistant", "content": f"Done with file {turn}, and the tests of it passed. " * 4}
        usage = {"prompt_tokens": int(size * counts), "completion_tokens": 60}
        assert usage["prompt_tokens"] < WINDOW
        session.observe({"choices": [{"message": done}], "usage": usage})
        history.append(done)
    assert 1 <= folds <= TURNS // 4


@pytest.mark.parametrize(("window", "counts"), [(32_768, 1.5), (4_096, 1.3)])
@pytest.mark.filterwarnings("ignore::refold.RefoldWarning")
def test_what_the_provider_counts_limits_what_stays(window, counts):
    """The system prompt takes 95 % of the window by its count: the user's older words must leave, too."""
    session, history = refold.open("crowded", window=window, store="memory:"), []
    system = "rule " * int(0.95 * window / counts * 5_000 / refold.count("rule " * 5_000))
    for turn in range(80):
        history.append(user(f"Step {turn}: " + f"file {turn} is next, then the tests. " * 3))
        ready = session.prepare(history, system=system)
        size = int(refold.measure(ready.messages, system=system, window=window).used * counts)
        assert size <= window
        assert f"Step {turn}:" in ready.messages[-1]["content"]
        done = {"role": "assistant", "content": f"Done with file {turn}, and the tests of it passed. " * 2}
        session.observe(
            {"choices": [{"message": done}], "usage": {"prompt_tokens": size, "completion_tokens": 30}}
        )
        history.append(done)


@pytest.mark.filterwarnings("ignore::refold.RefoldWarning")
def test_a_fold_that_waits_says_so():
    talk = Talk(0.92, words=30).go(few_or_all(70, 130))
    reasons = [ready.outcome.reason for ready in talk.ready if not ready.fold]
    waiting = [reason for reason in reasons if reason.startswith("not now: the last fold was ")]
    assert any(reason.endswith(" ago, and the context still fits") for reason in waiting)
    assert {"1 turn", "2 turns"} & {reason.split(" was ")[1].split(" ago")[0] for reason in waiting}


@pytest.mark.filterwarnings("ignore::refold.RefoldWarning")
def test_with_a_model_it_is_asked_at_most_every_fourth_turn():
    model = Scripted("The parser is half ported; the tests are untouched.")
    talk = Talk(0.85, ask=model).go()
    assert 1 <= len(model.asked) <= TURNS // 4
    assert min(talk.gaps[1:]) >= 4


@pytest.mark.filterwarnings("ignore::refold.RefoldWarning")
def test_folds_in_the_background_are_no_more():
    """A share of the whole room is always reached here."""
    model = Scripted("The parser is half ported; the tests are untouched.")
    talk = Talk(0.85, ask=model, background=True)
    for _ in range(60):
        talk.go(1)
        if talk.session._thread:
            talk.session._thread.join(60)
    assert 1 <= len(talk.session.folds()) <= 60 // 4
    talk.session.close()


def test_people_are_warned_once_with_what_to_do():
    talk = Talk(0.75)
    with pytest.warns(refold.RefoldWarning, match=TEXT) as caught:
        talk.go(40)
    assert len(caught) == 1
    assert "(75%)" in str(caught[0].message)
    assert [event.reason for event in talk.warnings] == [str(caught[0].message)]


def test_nobody_is_warned_while_there_is_room():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        talk = Talk(0.65).go(40)
    assert talk.warnings == []


@pytest.mark.filterwarnings("ignore::refold.RefoldWarning")
def test_measure_and_the_session_name_the_same_trigger():
    talk = Talk(0.8, in_list=True).go(20)
    ready = talk.ready[-1]
    measured = refold.measure(ready.messages, window=WINDOW, tools=TOOLS)
    assert measured.trigger_tokens == ready.budget.trigger_tokens
    assert measured.should_compact == ready.budget.should_compact


def test_the_warning_names_the_line_of_the_caller():
    """However many calls of this package lie between: argument checks, drivers, steps."""
    with refold.open("lines", window=2_000, store="memory:") as session:
        system = {"role": "system", "content": "rule " * 1_500}
        with pytest.warns(refold.RefoldWarning, match="little of the conversation") as caught:
            session.prepare([system, {"role": "user", "content": "hi"}])
    assert [each.filename for each in caught] == [__file__]
