"""Recall by a question: words that tell nothing are passed over, and a neighbour of a hit may be the answer."""

import pytest

import refold


@pytest.fixture(params=["memory:", "jsonl:logs", "sqlite:log.db"])
def session(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refold.open("talk", store=request.param, window="32k") as opened:
        for number in range(30):
            opened.say(f"Nothing new in week {number}, the weather stays as it is.")
        opened.say("Which instrument did you buy in the old shop by the harbour?")
        opened.say({"role": "assistant", "content": "A violin, made by Marchetti."})
        opened.say("And what is the weather like where you are in this week?")
        yield opened


def test_words_that_stand_in_every_question_are_no_words(session):
    """Both words that remain must match; `what`, `is` and `in` may be missing."""
    (hit,) = session.recall("what is Marchetti in a violin?")
    assert hit.handle == "#32"


def test_the_answer_beside_a_question_is_found_though_it_shares_no_word(session):
    hits = session.recall("Which instruments were bought in the shop near the harbour?", limit=3)
    assert [hit.handle for hit in hits[:2]] == ["#31", "#32"]
    assert hits[0].score > hits[1].score > 0


def test_a_question_without_telling_words_is_taken_as_it_is(session):
    assert session.recall("what is it like")


def test_few_words_want_all_of_them(session):
    (hit,) = session.recall("violin Marchetti")
    assert hit.handle == "#32"
