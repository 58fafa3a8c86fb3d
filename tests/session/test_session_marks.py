"""Names of checkpoints that mean something else already, and numbers that were taken."""

import pytest

import refold
from refold.errors import RefoldError, StoreError


def talk(*words):
    session = refold.open("marks", store="memory:", window=8_000)
    for word in words:
        session.say(word)
    return session


@pytest.mark.parametrize("name", ["#5", "12", "#1-#2", "[#3]", "b2:abc", " ", "\n"])
def test_a_checkpoint_is_not_named_like_a_message_or_an_entry(name):
    session = talk("one")
    with pytest.raises(RefoldError, match="another name"):
        session.checkpoint(name)
    assert not session.state.view.checkpoints


def test_a_checkpoint_that_is_called_start_is_found_by_its_name():
    session = talk("one")
    session.checkpoint("start")
    session.say("two")
    assert session.rewind("start") == 1
    assert session.rewind("#0") == 0


def test_a_checkpoint_without_a_name_takes_no_other_place():
    session = talk("one")
    session.checkpoint("checkpoint-2")
    session.say("two")
    assert session.checkpoint() == "checkpoint-3"
    assert session.state.view.checkpoints == {"checkpoint-2": 1, "checkpoint-3": 2}


def test_a_folder_that_has_no_name_is_told():
    with pytest.raises(StoreError, match="cannot be written"):
        talk("one").export("a\0b")
