"""Other words for a summary: the same fold with them, whatever keeps the messages, and errors that change nothing."""

import pytest
from chat_builders import do, make_conversation, say

import refold
from refold.core.messages.message import Message
from refold.errors import RefoldError
from refold.session.steps.edit_summary import edit_summary

LONG = "the quick brown fox jumps over the lazy dog " * 20


def folded():
    chat = make_conversation([LONG], window=200_000)
    for number in range(6):
        say(chat, f"question {number}")
    do(chat, "/compact truncate")
    return chat


def run(chat, *args):
    return chat.session.run_flow(edit_summary(chat.session.state, *args))


def test_the_size_of_the_fold_follows_its_words():
    chat = folded()
    before = chat.session.folds()[-1]
    run(chat, before.name, "Earlier conversation omitted", "Much was said: " + LONG)
    after = chat.session.folds()[-1]
    assert after.handle == before.handle
    assert after.tokens_before == before.tokens_before
    assert after.tokens_after > before.tokens_after + 100
    assert refold.validate(chat.session.view(), "openai") == []


@pytest.mark.parametrize("old", ["xyzzy", ""])
def test_words_that_are_not_there_change_nothing(old):
    """The empty text is in every text, and would put the new words before the summary."""
    chat = folded()
    head = chat.store.head("talk")
    with pytest.raises(RefoldError, match="not where it was"):
        run(chat, chat.session.folds()[-1].name, old, "plugh")
    assert chat.store.head("talk") == head


def test_a_fold_that_does_not_stand_is_not_changed():
    chat = folded()
    fold = chat.session.folds()[-1].name
    do(chat, "/unfold")
    with pytest.raises(RefoldError, match="does not stand"):
        run(chat, fold, "Earlier", "Later")
    with pytest.raises(RefoldError, match="does not stand"):
        run(chat, "b2:nonsense", "Earlier", "Later")


def test_messages_of_refolds_own_shape_are_amended_too():
    session = refold.open("own", store="memory:", window=200_000, policy="truncate")
    for number in range(6):
        session.say(Message("user", f"question {number}"))
        session.say(Message("assistant", LONG))
    session.compact()
    fold = session.folds()[-1].name
    session.run_flow(edit_summary(session.state, fold, "Earlier conversation omitted", "Much was said"))
    assert any("Much was said" in message.text for message in session.state.loaded.messages)
