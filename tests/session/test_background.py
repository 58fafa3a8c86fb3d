"""Folds prepared while the conversation goes on."""

import asyncio
import os
import threading

import pytest
from talks import SUMMARY, Clock, dumped, kinds, opened, reply, talk, user

import refold
from refold.testing import Scripted


class Slow:
    """A model that answers when it is let."""

    def __init__(self, answer=SUMMARY):
        self.answer = answer
        self.asked = threading.Event()
        self.let = threading.Event()
        self.count = 0

    def __call__(self, _ask):
        self.count += 1
        self.asked.set()
        assert self.let.wait(60)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


HISTORY = talk(18, size=620)


@pytest.fixture
def slow():
    made = Slow()
    yield made
    made.let.set()


def test_from_the_soft_line_on_and_what_is_said_meanwhile_is_kept(slow):
    with opened(ask=slow, background=True) as session:
        quiet = session.prepare(HISTORY[:10])
        assert quiet.budget.ratio < 0.70
        assert session.state.pending_fold is None
        ready = session.prepare(HISTORY)
        assert 0.70 <= ready.budget.ratio < 0.85
        assert ready.messages is HISTORY
        assert slow.asked.wait(60)
        session.say(reply("said meanwhile"))
        session.prepare([*HISTORY, reply("said meanwhile"), user("and this too")])
        assert slow.count == 1  # single flight
        slow.let.set()
        session._thread.join(60)
        view = session.view()
        assert view[-2:] == [reply("said meanwhile"), user("and this too")]
        assert SUMMARY in dumped(view)
        assert session.folds()[0].receipt
        assert session.log(kinds=("fold",))[0].value["trigger"] == "background"
        assert session.state.pending_fold is None


def test_due_but_being_prepared_is_not_prepared_twice(slow):
    with opened(ask=slow, background=True) as session:
        session.prepare(HISTORY)
        assert slow.asked.wait(60)
        more = [*HISTORY, reply("omega psi " * 500), user("and?")]
        ready = session.prepare(more)
        assert 0.85 <= ready.budget.ratio < 0.95
        assert "being prepared" in ready.outcome.reason
        assert slow.count == 1
        slow.let.set()


@pytest.mark.parametrize("answer", [SUMMARY, RuntimeError("dead")])
def test_at_the_wall_the_caller_waits(answer):
    slow = Slow(answer)
    with opened(ask=slow, background=True) as session:
        session.prepare(HISTORY)
        assert slow.asked.wait(60)
        threading.Timer(0.05, slow.let.set).start()
        ready = session.prepare([*HISTORY, reply("omega psi " * 900), user("and?")])
        assert ready.messages[-1] == user("and?")
        assert ready.budget.ratio < 0.95
        assert session.folds()
        assert (SUMMARY in dumped(ready.messages)) == (answer == SUMMARY)


def check_sizes(ready, handed_in):
    """The outcome has the sizes of what was handed in and of what is sent."""
    outcome, budget = ready.outcome, ready.budget
    before = refold.measure(handed_in, window=8_000)
    assert outcome.compacted
    assert (outcome.messages_before, outcome.tokens_before) == (len(handed_in), before.used)
    assert outcome.messages_after == len(ready.messages) == budget.messages
    assert (
        outcome.tokens_after == outcome.used_after == budget.used == sum(outcome.breakdown.as_dict().values())
    )
    assert outcome.breakdown == budget.breakdown
    assert (outcome.budget, outcome.level) == (before, before.level)
    assert outcome.fits == (budget.used <= budget.room)


def test_the_outcome_of_a_fold_that_was_waited_for_has_the_sizes_of_this_turn(slow):
    """The fold was prepared for fewer messages; they are no sizes of what is sent."""
    with opened(ask=slow, background=True) as session:
        session.prepare(HISTORY)
        assert slow.asked.wait(60)
        threading.Timer(0.05, slow.let.set).start()
        more = [*HISTORY, reply("omega psi " * 900), user("and?")]
        ready = session.prepare(more)
        assert ready.fold == session.folds()[0].name
        check_sizes(ready, more)
        goal = ready.outcome.receipt.goal_tokens
        assert ready.outcome.met_target == (ready.outcome.breakdown.history <= goal)
        assert ready.outcome.summary == SUMMARY


def test_the_outcome_counts_what_others_said_while_a_model_answered():
    history = talk(20, size=800)
    session = opened(ask=lambda _ask: session.say(reply("said meanwhile")) and SUMMARY)
    ready = session.prepare(history)
    assert ready.messages[-1] == reply("said meanwhile")
    check_sizes(ready, history)


def test_what_was_waited_for_may_not_be_enough(slow):
    with opened(ask=slow, background=True) as session:
        session.prepare(HISTORY)
        assert slow.asked.wait(60)
        threading.Timer(0.05, slow.let.set).start()
        ready = session.prepare([*HISTORY, *talk(30, size=620)])
        assert ready.budget.used <= 0.56 * ready.budget.room
        assert len(session.folds()) == 2


@pytest.mark.parametrize("how", ["rewind", "edit", "unrelated fold"])
def test_a_stale_summary_is_not_installed(how, slow):
    with opened(ask=slow, background=True) as session:
        session.prepare(HISTORY)
        assert slow.asked.wait(60)
        if how == "rewind":
            session.rewind("#10")
        elif how == "edit":
            session.prepare([*HISTORY[:10], user("another way")])
        else:
            slow.let.set()
            session._thread.join(60)
            before = session.view()
            session.unfold()
            assert session.view() == HISTORY
            assert before != HISTORY
            return
        before = session.view()
        slow.let.set()
        session._thread.join(60)
        assert session.view() == before
        assert kinds(session, "fold") == []
        assert kinds(session, "attempt") == ["attempt"]


def test_another_process_that_holds_the_lease(memory, slow):
    lease = memory.claim("talk", holder="somebody else", seconds=100)
    with opened(store=memory, ask=slow, background=True) as session:
        session.prepare(HISTORY)
        session._thread.join(60)
        assert slow.count == 0
        assert session.state.pending_fold is None
        memory.release(lease)
        session.prepare(HISTORY)
        assert slow.asked.wait(60)
        assert memory.claim("talk", holder="somebody else", seconds=1) is None
        slow.let.set()
        session._thread.join(60)
        assert memory.claim("talk", holder="somebody else", seconds=1)


def test_what_another_process_folds_is_not_summarised_here_too(memory):
    """Below the wall the request goes on; at the wall it is folded without a model."""
    memory.claim("talk", holder="somebody else", seconds=100)
    model = Scripted(SUMMARY)
    with opened(store=memory, ask=model, background=True) as session:
        due = session.prepare([*HISTORY, reply("omega psi " * 500), user("and?")])
        assert 0.85 <= due.budget.ratio < 0.95
        assert "another process" in due.outcome.reason
        assert due.fold is None
        full = session.prepare([*HISTORY, reply("omega psi " * 500), user("and?" + " more" * 900)])
        assert full.fold is not None
        reasons = [report.reason for report in full.outcome.receipt.stages]
        assert any("another process" in reason for reason in reasons)
    assert model.asked == []


def test_a_due_fold_keeps_others_from_summarising(memory):
    """The lease is held while the model is asked, and given back."""
    held = []

    def ask(_ask):
        held.append(memory.claim("talk", holder="somebody else", seconds=1))
        return SUMMARY

    with opened(store=memory, ask=ask, background=True) as session:
        session.prepare([*HISTORY, reply("omega psi " * 500), user("and?")])
    assert held == [None] * len(held) != []
    assert memory.claim("talk", holder="somebody else", seconds=1)


def test_a_fold_that_fails_for_good_is_logged_and_frees_the_lease(memory, caplog):
    with opened(store=memory, ask=Scripted(SUMMARY), background=True) as session:
        real = memory.append

        def broken(*args, **kwargs):
            if threading.current_thread().name == "refold-fold":
                raise OSError("the disk is on fire")
            return real(*args, **kwargs)

        memory.append = broken
        session.prepare(HISTORY)
        session._thread.join(60)
        assert "as it was" in caplog.text
        memory.append = real
        assert session.state.pending_fold is None
        assert session.view() == HISTORY
        assert memory.claim("talk", holder="somebody else", seconds=1)


def test_without_a_model_or_a_wish_nothing_is_prepared():
    for choices in ({"ask": None, "background": True}, {"ask": Scripted(SUMMARY)}):
        with opened(**choices) as session:
            session.prepare(HISTORY)
            assert session._thread is None


def test_the_breaker_holds_in_the_background_too():
    clock = Clock()
    model = Scripted(RuntimeError("dead"))
    with opened(ask=model, background=True, policy="ripple", now=clock, window=6_200) as session:
        for _ in range(6):
            session.prepare(HISTORY)
            if session._thread:
                session._thread.join(60)
        assert len(model.asked) <= 3


def test_in_an_event_loop():
    async def run():
        gate = asyncio.Event()
        asked = asyncio.Event()

        async def model(_ask):
            asked.set()
            await gate.wait()
            return SUMMARY

        async with refold.aopen("talk", store="memory:", window=8_000, ask=model, background=True) as session:
            await session.prepare(HISTORY)
            await asyncio.wait_for(asked.wait(), 5)
            await session.say("meanwhile")
            asyncio.get_running_loop().call_later(0.02, gate.set)
            ready = await session.prepare(
                [*HISTORY, user("meanwhile"), reply("omega psi " * 900), user("and?")]
            )
            assert SUMMARY in dumped(ready.messages)
            assert ready.messages[-1] == user("and?")
            assert user("meanwhile") in ready.messages
        return True

    assert asyncio.run(run())


def test_in_an_event_loop_a_failure_is_logged(caplog):
    async def run():
        store = refold.open_store("memory:")
        session = refold.aopen(
            "talk", store=store, window=8_000, ask=Scripted(SUMMARY).later, background=True
        )
        await session.prepare(HISTORY)
        real, store.append = store.append, None
        await asyncio.wait([session._task])
        store.append = real
        assert await session.view() == HISTORY
        await session.close()

    asyncio.run(run())
    assert "as it was" in caplog.text


def test_many_processes_have_holders_of_their_own(memory):
    one, two = opened(store=memory), opened(store=memory)
    assert f"{os.getpid()}-{id(one.state):x}" != f"{os.getpid()}-{id(two.state):x}"


def test_a_thread_that_does_not_start_is_done_without(monkeypatch):
    """The system may have no more threads for a moment: the fold is made when it is due."""
    start, failed = threading.Thread.start, []

    def fail_once(thread):
        if thread.name == "refold-fold" and not failed:
            failed.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_once)
    with opened(ask=Scripted(SUMMARY), background=True) as session:
        for turns in range(5, 40):
            session.prepare(talk(turns, size=620))
        assert session.folds()
    assert failed
