"""A chat says why nothing is folded while the circuit breaker is open: once, with the time."""

from chat_builders import make_conversation, notes, say


def out_of_order(_question):
    raise RuntimeError("out of order")


def test_an_open_breaker_is_told_once():
    chat = make_conversation(["y" * 80], policy="ripple", window=2_000, ask=out_of_order, tools=False)
    shown = [notes(say(chat, f"q{turn} " + "x" * 80)) for turn in range(60)]
    told = [text for text in shown if "breaker" in text]
    assert len(told) == 1
    assert "nothing was folded: the circuit breaker is open until " in told[0]
    assert told[0].count("breaker") == 1
