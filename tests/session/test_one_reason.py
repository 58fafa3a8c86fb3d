"""One reason for each attempt: the outcome, its receipt, the log and the event have the same words."""

import pytest

import refold
from refold.testing import assistant, user

POLICIES = ["refold", "ripple", "opal", "neurolink", "codebuddy", "umwelten"]


def broken(_question):
    raise RuntimeError("out of order")


def long_summary(_question):
    return "a summary that is longer than the whole talk " * 400


def open_talk(turns, **options):
    session = refold.open("t", **{"store": "memory:", "window": 8000, **options})
    events = []
    session.subscribe(events.append)
    for number in range(turns):
        session.say([user(f"question {number} " + "word " * 60), assistant("term " * 60)])
    return session, events


def reasons_of(session, events, outcome):
    """Where the reason of the last attempt stands; the receipt in the log may not be there for an idle one."""
    entries = session.log(kinds=["attempt"])
    told = [event.reason for event in events if event.kind in ("compaction_failed", "compaction_skipped")]
    stored = [entries[-1].value["reason"], entries[-1].beside["receipt"]["reason"]] if entries else []
    return {outcome.reason, outcome.receipt.reason, *told[-1:], *stored}


@pytest.mark.few_values(3)
@pytest.mark.parametrize("ask", [None, broken, long_summary])
@pytest.mark.parametrize("turns", [1, 12])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_fold_by_hand_that_fails_has_one_reason(policy, turns, ask):
    session, events = open_talk(turns, policy=policy, ask=ask)
    outcome = session.compact()
    if outcome.compacted:
        assert session.folds()[-1].receipt["reason"] == outcome.reason == outcome.receipt.reason
    else:
        assert len(reasons_of(session, events, outcome)) == 1


def test_a_fold_that_would_save_too_little_has_one_reason():
    """All but a little of the history is pinned; the stages shorten the rest, and the session leaves it."""
    session, events = open_talk(9, window=2_600)
    for number in range(1, 19):
        session.pin(f"#{number}")
    outcome = session.prepare().outcome
    assert not outcome.compacted
    assert len(reasons_of(session, events, outcome)) == 1


@pytest.mark.parametrize(("policy", "skips"), [("ripple", True), ("codebuddy", False)])
def test_attempts_behind_an_open_breaker_have_one_reason_each(policy, skips):
    """Below the room they are skipped, over it folds are made without a model; all name the time."""
    session, events = open_talk(0, window=2_000, policy=policy, ask=broken, now=lambda: 1_000_000.0)
    history, kinds = [], set()
    for turn in range(60):
        history += [user(f"q{turn} " + "x" * 80)]
        events.clear()
        outcome = session.prepare(history).outcome
        history += [assistant("y" * 80)]
        assert outcome.reason == outcome.receipt.reason
        for event in events:
            if event.kind in ("compaction_failed", "compaction_skipped"):
                assert event.reason == outcome.reason
            elif event.kind == "compaction_end":
                assert event.receipt.reason == outcome.reason
            if "circuit breaker is open until " in outcome.reason:
                kinds.add(event.kind)
                assert event.kind != "compaction_skipped" or event.reason == outcome.reason
    assert ("compaction_skipped" in kinds) == skips


def test_a_receipt_names_its_session_and_its_fold():
    session, events = open_talk(40, ask=lambda question: "The words and the terms.")
    outcome = session.compact()
    (fold,) = session.folds()
    ids = {"session": "t", "fold": fold.name}
    for receipt in (outcome.receipt.as_dict(), events[-1].receipt.as_dict(), fold.receipt):
        assert {name: receipt[name] for name in ids} == ids
    failing, events = open_talk(12, policy="ripple", ask=broken)
    assert failing.compact().receipt.as_dict()["session"] == events[-1].receipt.session == "t"
    assert events[-1].receipt.fold == ""
    assert "session" not in refold.compact([user("hi")], window=8000).receipt.as_dict()
