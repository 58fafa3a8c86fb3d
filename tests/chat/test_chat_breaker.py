"""A chat says why nothing is folded while the circuit breaker is open: once, with the time."""

import pytest
from chat_builders import do, make_conversation, notes, say


def out_of_order(_question):
    raise RuntimeError("out of order")


def test_an_open_breaker_is_told_once():
    chat = make_conversation(["y" * 80], policy="ripple", window=2_000, ask=out_of_order, tools=False)
    shown = [notes(say(chat, f"q{turn} " + "x" * 80)) for turn in range(60)]
    told = [text for text in shown if "breaker" in text]
    assert len(told) == 1
    assert "nothing was folded: the circuit breaker is open until " in told[0]
    assert told[0].count("breaker") == 1


def test_one_failure_is_told_once_however_often_it_is_met():
    chat = make_conversation(["y" * 80], policy="ripple", window=2_000, ask=out_of_order, tools=False)
    shown = "\n".join(notes(say(chat, f"q{turn} " + "x" * 80)) for turn in range(60))
    assert shown.count("out of order") == 1
    assert "nothing was folded: summarize: the model failed: RuntimeError: out of order" in shown
    assert "nothing to compact" not in shown


def test_a_fold_without_the_model_says_so_once():
    chat = make_conversation(["y " * 300], policy="codebuddy", window=3_000, ask=out_of_order, tools=False)
    shown = "\n".join(notes(say(chat, f"q{turn} " + "x " * 80)) for turn in range(24))
    assert shown.count("folded ") > 1
    assert shown.count("without a summary by the model: the model failed: RuntimeError: out of order") == 1


@pytest.mark.parametrize("policy", ["refold", "codebuddy"])
def test_a_cap_that_lets_no_model_be_asked_is_told_once(policy):
    """Whoever named a summariser wants to know why there is a digest in its place."""
    chat = make_conversation(
        ["y " * 300],
        policy=policy,
        window=3_000,
        ask=out_of_order,
        tools=False,
        caps={"max_summary_tokens_per_hour": 0},
    )
    shown = "\n".join(notes(say(chat, f"q{turn} " + "x " * 80)) for turn in range(24))
    assert shown.count("folded ") > 1
    cap = "without a summary by the model: no model is asked: the cap of 0 tokens an hour is reached"
    assert shown.count(cap) == 1
    assert "out of order" not in shown
    chat.session.use(window=1_500)
    assert "no model is asked: the cap of 0 tokens an hour is reached" in do(chat, "/compact refold")
