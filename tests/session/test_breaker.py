"""The circuit breaker in a session: good folds do not open it; an open one says so, and until when."""

import re

import pytest

import refold
from chat_messages import assistant, user
from refold.testing import Scripted
from sample_sizes import few_or_all

OPEN = re.compile(r"the circuit breaker is open until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: ")


def numbered(word, turn, count):
    return " ".join(f"{word}{turn * i}" for i in range(count))


@pytest.mark.parametrize(("policy", "times"), [("ripple", 1), ("refold", 2)])
def test_a_busy_session_in_a_small_window_asks_at_every_fold(policy, times):
    """A turn stands between them, however fast they come; who tells little is asked once more."""
    asked = []
    session = refold.open(
        "busy",
        model="gpt-4o",
        window="4k",
        store="memory:",
        now=lambda: 1_000_000.0,
        policy=policy,
        ask=lambda ask: asked.append(ask) or "Summary: files were read; all is fine.",
    )
    history = []
    for turn in range(few_or_all(62, 90)):
        history.append(user(f"question {turn} " + numbered("w", turn, 50)))
        ready = session.prepare(history)
        history.append(assistant(numbered("x", turn, 200)))
        session.observe({"usage": {"prompt_tokens": ready.budget.used, "completion_tokens": 600}})
    assert len(session.folds()) > 6
    assert len(session.folds()) <= len(asked) <= times * len(session.folds())
    assert {fold.stages for fold in session.folds()} == {("summarize",)}


def say_turns(session, turns):
    """Say questions and answers; no answer is observed."""
    for turn in turns:
        session.say(user(f"question {turn} " + numbered("w", turn, 50)))
        yield session.prepare().outcome.reason
        session.say(assistant(numbered("x", turn, 200)))


def test_an_answer_that_is_said_is_a_turn_of_the_model():
    """Who holds no list and reports no usage has turns between folds, too; also in another process."""
    store = refold.open_store("memory:")
    settings = {"window": "4k", "store": store, "now": lambda: 1_000_000.0, "model": "gpt-4o"}
    first, second = (refold.open("talk", **settings) for _ in range(2))
    reasons = [
        reason for turn in range(16) for session in (first, second) for reason in say_turns(session, [turn])
    ]
    for part in range(8):  # opened again between two folds
        reasons += say_turns(refold.open("alone", **settings), range(part * 3, part * 3 + 3))
    assert min(len(first.folds()), len(refold.open("alone", **settings).folds())) > 2
    assert not [reason for reason in reasons if "breaker" in reason]


def test_a_session_that_is_opened_again_without_an_answer_has_no_turn():
    """A process that folds and ends before the model answers, again and again, is a loop."""
    settings = {"window": "4k", "store": refold.open_store("memory:"), "now": lambda: 1_000_000.0}
    history = []
    for turn in range(3):
        history.append(user(f"question {turn} " + numbered("w", turn, 500)))
        session = refold.open("loop", **settings)
        session.prepare(history)
    assert session.state.accounting.breaker.opened == 1_000_000.0


def test_a_model_that_always_fails_is_left_alone_and_the_reason_says_until_when():
    """Below the room nothing is folded; over it the reason is not that no model was given."""
    asked, seen, reasons = [], [], []
    session = refold.open(
        "broken",
        window=2_000,
        policy="ripple",
        store="memory:",
        now=lambda: 1_000_000.0,
        ask=lambda ask: asked.append(ask) or 1 / 0,
    )
    session.subscribe(seen.append)
    history = []
    for turn in range(60):
        history.append(user(f"q{turn} " + "x" * 80))
        reasons.append(session.prepare(history).outcome.reason)
        history.append(assistant("y" * 80))
    assert len(asked) == 6
    after = reasons[reasons.index(next(reason for reason in reasons if "breaker" in reason)) :]
    assert all(OPEN.search(reason) for reason in after)
    assert after[0].startswith("not now: ")
    assert after[-1].startswith("nothing to compact: summarize: no model is asked: ")
    skipped = [event for event in seen if event.kind == "compaction_skipped"]
    assert skipped
    assert all(OPEN.search(event.reason) for event in skipped)
    assert skipped[0].until == 1_000_600.0


def test_a_digest_that_stands_in_for_a_broken_model_says_why_no_model_is_asked():
    asked = []
    session = refold.open(
        "digest",
        window=8_000,
        store="memory:",
        now=lambda: 1_000_000.0,
        ask=lambda ask: asked.append(ask) or 1 / 0,
    )
    history, reasons = [], []
    for turn in range(90):
        history.append(user(f"question {turn} " + numbered("w", turn, 100)))
        ready = session.prepare(history)
        assert ready.budget.used <= ready.budget.room
        reasons.append(ready.outcome.reason if ready.fold else "")
        history.append(assistant(numbered("x", turn, 300)))
    assert sum("the model failed" in reason for reason in reasons) == 6
    last = [reason for reason in reasons if reason][-1]
    assert "digest" in last
    assert "no model is asked: the circuit breaker is open until " in last
    assert session.folds()[-1].receipt["reason"] == last  # the log has the words of the outcome


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_folds_that_were_asked_for_in_vain_are_counted_after_reopening(kind, tmp_path):
    options = {"window": 8_000, "store": f"{kind}:{tmp_path / 'place'}", "now": lambda: 1_000_000.0}
    history = []
    with refold.open("digest", **options, ask=Scripted(RuntimeError("dead"))) as session:
        while sum("unanswered" in entry.value for entry in session.log(kinds=("fold",))) < 6:
            history += [user(numbered("w", len(history), 100)), assistant(numbered("x", len(history), 300))]
            session.prepare(history)
    model = Scripted("fine")
    with refold.open("digest", **options, ask=model) as session:
        session.view()
        history += [user(numbered("w", len(history), 900)), assistant(numbered("x", len(history), 900))]
        ready = session.prepare(history)
        assert OPEN.search(ready.outcome.reason)
        assert model.asked == []
