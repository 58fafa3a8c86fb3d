"""Other words for a summary: the same fold with them, whatever keeps the messages, and errors that change nothing."""

import pytest
from chat_desks import desk_of, do, say

import refold
from refold.chat.amending import amend
from refold.core.messages.message import Message
from refold.errors import RefoldError

LONG = "the quick brown fox jumps over the lazy dog " * 20


def folded():
    desk = desk_of([LONG], window=200_000)
    for number in range(6):
        say(desk, f"question {number}")
    do(desk, "/compact truncate")
    return desk


def run(desk, *args):
    return desk.session.drive(amend(desk.session.state, *args))


def test_the_size_of_the_fold_follows_its_words():
    desk = folded()
    before = desk.session.folds()[-1]
    run(desk, before.name, "Earlier conversation omitted", "Much was said: " + LONG)
    after = desk.session.folds()[-1]
    assert after.handle == before.handle
    assert after.tokens_before == before.tokens_before
    assert after.tokens_after > before.tokens_after + 100
    assert refold.validate(desk.session.view(), "openai") == []


def test_words_that_are_not_there_change_nothing():
    desk = folded()
    head = desk.store.head("talk")
    with pytest.raises(RefoldError, match="not where it was"):
        run(desk, desk.session.folds()[-1].name, "xyzzy", "plugh")
    assert desk.store.head("talk") == head


def test_a_fold_that_does_not_stand_is_not_changed():
    desk = folded()
    fold = desk.session.folds()[-1].name
    do(desk, "/unfold")
    with pytest.raises(RefoldError, match="does not stand"):
        run(desk, fold, "Earlier", "Later")
    with pytest.raises(RefoldError, match="does not stand"):
        run(desk, "b2:nonsense", "Earlier", "Later")


def test_messages_of_refolds_own_shape_are_amended_too():
    session = refold.open("own", store="memory:", window=200_000, policy="truncate")
    for number in range(6):
        session.say(Message("user", f"question {number}"))
        session.say(Message("assistant", LONG))
    session.compact()
    fold = session.folds()[-1].name
    session.drive(amend(session.state, fold, "Earlier conversation omitted", "Much was said"))
    assert any("Much was said" in message.text for message in session.state.shelf.messages)
