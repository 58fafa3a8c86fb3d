"""What the calls give back."""

import json
from dataclasses import FrozenInstanceError

import pytest

import refold
from refold.calls.outcome import Receipt, Repaired
from refold.core.compaction.pipeline import Call, Report
from refold.core.messages.file_operations import FileOps
from refold.testing import call, result, summary, user


def report(stage, *calls):
    return Report(stage=stage, accepted=True, reason="", tokens_before=2, tokens_after=1, calls=calls)


def asked(purpose):
    return Call(purpose=purpose, prompt_tokens=1, answer_tokens=1)


RECEIPT = Receipt(
    policy="refold",
    trigger="forced",
    window=1_000,
    window_source="given",
    count_source="estimate",
    estimated_tokens=900,
    stages=(
        report("clip"),
        report("summarize", asked("one"), asked("two")),
        report("digest", asked("three")),
    ),
)


def test_a_receipt_lists_every_question_of_every_stage():
    assert [one.purpose for one in RECEIPT.calls] == ["one", "two", "three"]


def test_a_receipt_is_plain_data():
    plain = RECEIPT.as_dict()
    assert plain["stages"][1]["calls"][0]["purpose"] == "one"
    assert (plain["policy"], plain["reported_tokens"], plain["goal_tokens"]) == ("refold", None, None)
    assert json.loads(json.dumps(plain))["trigger"] == "forced"


def test_an_outcome_tells_the_files_of_the_whole_conversation():
    history = [
        summary("was", modified_files=("old.py",)),
        call("read_file", path="a.py"),
        result("c1", "text"),
        user("on"),
    ]
    outcome = refold.compact(history, window=1_000)
    assert outcome.files == FileOps(read=("a.py",), modified=("old.py",))
    assert outcome.tokens_saved == outcome.tokens_before - outcome.tokens_after == 0


def test_outcomes_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        refold.compact([user("hi")], window=1_000).fits = False


def test_an_outcome_shows_no_history_when_it_is_printed():
    assert "history=(" not in repr(refold.compact([user("hi")], window=1_000))


def test_a_list_that_needed_no_repair_says_so():
    assert Repaired([]) == Repaired([], 0, 0)
