"""Pure code asks by yielding; two drivers answer."""

import asyncio
import copy
import pickle
import subprocess
import sys

import pytest

from refold.core.compaction.flow import MOST_CHARS, Answer, Ask, Failed, arun, run, run_together
from refold.errors import AnswerFailed, RefoldError
from refold.testing import Scripted


def one(text="question"):
    """A flow of one question that gives back the reply."""
    (reply,) = yield (Ask(text),)
    return reply


def rounds(*sizes):
    """A flow that asks so many questions at once, round after round, and gives back all replies."""
    replies = []
    for number, size in enumerate(sizes):
        replies += yield tuple(Ask(f"{number}.{place}") for place in range(size))
    return replies


class Guarded:
    """A flow that tells whether it was closed."""

    def __init__(self):
        self.closed = False

    def flow(self):
        try:
            yield (Ask("question"), Ask("another"))
        finally:
            self.closed = True


# -- the question ------------------------------------------------------------------------------------------


def test_a_question_is_its_own_text():
    ask = Ask("Shorten this", system="You shorten.", max_tokens=200, purpose="merge")
    assert ask == "Shorten this"
    assert ask.text == "Shorten this"
    assert type(ask.text) is str
    assert (ask.system, ask.max_tokens, ask.purpose) == ("You shorten.", 200, "merge")


def test_a_question_needs_nothing_but_its_text():
    ask = Ask("hi")
    assert (ask.system, ask.max_tokens, ask.purpose) == ("", None, "summary")


def test_a_question_survives_copying_and_pickling_with_all_it_carries():
    ask = Ask("Shorten this", system="You shorten.", max_tokens=200, purpose="merge")
    for twin in (copy.copy(ask), copy.deepcopy(ask), pickle.loads(pickle.dumps(ask))):
        assert (twin, twin.system, twin.max_tokens, twin.purpose) == (ask, "You shorten.", 200, "merge")
        assert type(twin) is Ask


# -- the driver without an event loop ----------------------------------------------------------------------


def test_a_flow_that_asks_nothing_gives_its_value():
    def flow():
        return 7
        yield

    assert run(flow(), Scripted()) == 7


def test_text_becomes_an_answer():
    assert run(one(), Scripted("said")) == Answer(text="said")


@pytest.mark.parametrize(
    ("said", "text", "reasoning"),
    [
        ("<think>hm</think>\n\nIt is done.", "It is done.", "hm"),
        ("\n<thinking>\nhm</think>\n</thinking>It is done.", "It is done.", "\nhm</think>\n"),
        ("<think>hm</think>", "", "hm"),
        ("<think>cut off in the mid", "", "cut off in the mid"),
        ("It is done. <think>hm</think>", "It is done. <think>hm</think>", ""),
        ("<thinker>hm</thinker>", "<thinker>hm</thinker>", ""),
    ],
)
def test_reasoning_before_the_answer_is_told_apart(said, text, reasoning):
    """House law 11: only reasoning is no summary; open models write theirs into the text."""
    assert run(one(), lambda _: said) == Answer(text=text, reasoning=reasoning)


def test_an_answer_needs_nothing_but_its_text():
    assert Answer(text="said") == Answer(
        text="said", finish="stop", calls=0, reasoning="", model="", input_tokens=None, output_tokens=None
    )


def test_an_answer_is_passed_on_as_it_is():
    answer = Answer(text="said", finish="length", output_tokens=3)
    assert run(one(), Scripted(answer)) is answer


def test_questions_are_asked_in_order_and_replies_come_in_the_same_order():
    model = Scripted(["a", "b", "c"])
    replies = run(rounds(2, 1), model)
    assert model.asked == ["0.0", "0.1", "1.0"]
    assert [reply.text for reply in replies] == ["a", "b", "c"]


def test_a_model_that_raises_is_a_value_for_the_flow():
    error = TimeoutError("slow")
    assert run(one(), Scripted(error)) == Failed(error)


def test_after_a_failure_the_rest_of_the_round_is_not_asked():
    """All questions of a round are parts of one summary, which fails with any of them."""
    error, model = TimeoutError("slow"), Scripted(["a", TimeoutError("slow"), "c", "d"])
    first, failed, skipped, *second_round = run(rounds(3, 1), model)
    assert (first, failed.reason, failed.asked) == (Answer(text="a"), f"TimeoutError: {error}", True)
    assert (skipped.reason, skipped.asked) == (
        "AnswerFailed: not asked: the question before it failed",
        False,
    )
    assert second_round == [Answer(text="c")]
    assert model.asked == ["0.0", "0.1", "1.0"]


@pytest.mark.slow
def test_an_answer_longer_than_any_is_not_read():
    assert isinstance(run(one(), lambda _: "x" * (MOST_CHARS + 1)), Failed)
    assert run(one(), lambda _: "x" * MOST_CHARS) == Answer(text="x" * MOST_CHARS)


@pytest.mark.parametrize("said", [None, 3, b"bytes", ["text"], {"text": "x"}])
def test_what_is_no_text_is_a_failure_that_names_its_type(said):
    reply = run(one(), lambda _: said)
    assert isinstance(reply.error, AnswerFailed)
    assert type(said).__name__ in str(reply.error)


def test_a_model_that_raises_stop_iteration_does_not_end_the_flow():
    assert isinstance(run(one(), Scripted(StopIteration("x"))), Failed)


def test_a_flow_that_raises_raises():
    def flow():
        yield (Ask("question"),)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(flow(), Scripted("said"))


def test_ctrl_c_passes_through_and_closes_the_flow():
    guarded = Guarded()
    with pytest.raises(KeyboardInterrupt):
        run(guarded.flow(), Scripted(KeyboardInterrupt()))
    assert guarded.closed


def test_after_ctrl_c_nothing_more_is_asked():
    model = Scripted(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(rounds(3), model)
    assert len(model.asked) == 1


def test_an_asynchronous_model_without_a_loop_is_refused_with_the_way_out():
    guarded = Guarded()
    with pytest.raises(RefoldError, match="acompact"):
        run(guarded.flow(), Scripted("said").later)
    assert guarded.closed


def test_any_awaitable_without_a_loop_is_refused():
    class Later:
        def __await__(self):
            yield

    with pytest.raises(RefoldError, match="asynchronous"):
        run(one(), lambda _: Later())


# -- the driver with an event loop -------------------------------------------------------------------------


def test_the_same_flow_runs_in_an_event_loop():
    model = Scripted(["a", TimeoutError("slow"), "c"])
    replies = asyncio.run(arun(rounds(2, 1), model.later))
    assert model.asked == ["0.0", "0.1", "1.0"]
    assert [type(reply) for reply in replies] == [Answer, Failed, Answer]


def test_a_plain_callable_works_in_an_event_loop():
    assert asyncio.run(arun(one(), Scripted("said"))) == Answer(text="said")
    assert isinstance(asyncio.run(arun(one(), Scripted(ValueError()))), Failed)


def test_questions_of_one_round_are_asked_in_parallel():
    """Each of three answers waits until all three have been asked."""

    async def main():
        asked, all_asked = [], asyncio.Event()

        async def model(ask):
            asked.append(ask)
            if len(asked) == 3:
                all_asked.set()
            await all_asked.wait()
            return f"to {ask}"

        return await asyncio.wait_for(arun(rounds(3), model), 5)

    assert [reply.text for reply in asyncio.run(main())] == ["to 0.0", "to 0.1", "to 0.2"]


def test_rounds_are_asked_one_after_another():
    async def main():
        running, most = 0, 0

        async def model(_):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return "x"

        await arun(rounds(1, 1, 1), model)
        return most

    assert asyncio.run(main()) == 1


def test_cancellation_passes_through_closes_the_flow_and_cancels_every_question():
    guarded, cancelled = Guarded(), []

    async def main():
        started = asyncio.Event()

        async def model(ask):
            started.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.append(ask)
                raise

        task = asyncio.create_task(arun(guarded.flow(), model))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert guarded.closed
    assert sorted(cancelled) == ["another", "question"]


def test_where_one_question_is_cancelled_the_others_do_not_run_on():
    guarded, ended = Guarded(), []

    async def main():
        async def model(ask):
            if ask == "question":
                raise asyncio.CancelledError
            try:
                await asyncio.sleep(3600)
            finally:
                ended.append(ask)

        with pytest.raises(asyncio.CancelledError):
            await arun(guarded.flow(), model)
        await asyncio.sleep(0)
        assert ended == ["another"]

    asyncio.run(main())
    assert guarded.closed


def test_a_round_without_questions_gets_no_replies():
    assert run(rounds(0, 1), Scripted("a")) == [Answer(text="a")]
    assert asyncio.run(arun(rounds(0, 1), Scripted("a"))) == [Answer(text="a")]


def test_the_event_loop_is_imported_only_where_it_is_used():
    """Asyncio costs more to import than all of the core."""
    program = "import sys, refold.core.compaction.flow; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# -- flows side by side ------------------------------------------------------------------------------------


def test_flows_side_by_side_ask_together_and_each_gets_its_own_replies():
    seen = []

    def model(ask):
        return f"to {ask}"

    def watched(flow):
        replies = None
        while True:
            try:
                asks = flow.send(replies)
            except StopIteration as stop:
                return stop.value
            seen.append(asks)
            replies = yield asks

    def two():
        (first,) = yield (Ask("a1"),)
        (second, third) = yield (Ask("a2"), Ask("a3"))
        return [first.text, second.text, third.text]

    def other():
        (first, second) = yield (Ask("b1"), Ask("b2"))
        return [first.text, second.text]

    done = run(watched(run_together([two(), other()])), model)
    assert done == [["to a1", "to a2", "to a3"], ["to b1", "to b2"]]
    assert seen == [("a1", "b1", "b2"), ("a2", "a3")]


def test_results_stand_in_the_order_of_the_flows_not_of_their_ends():
    done = run(run_together([rounds(1, 1), rounds(1)]), Scripted(["a", "b", "c"]))
    assert [[reply.text for reply in replies] for replies in done] == [["a", "c"], ["b"]]


def test_no_flows_give_no_results():
    assert run(run_together([]), Scripted()) == []


def test_flows_that_ask_nothing_end_at_once():
    assert run(run_together([rounds(), rounds()]), Scripted()) == [[], []]
