"""Other systems take part as processes; whatever they do, the eval says it in one line."""

import sys
from pathlib import Path

import pytest

from refold.core.compaction.flow import Answer
from refold.errors import AnswerFailed, RefoldError
from refold.evals.peers import Peer, PeerFailed, _answer_peer, parse_peer

PROGRAM = str(Path(__file__).with_name("peer_example.py"))
TALK = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]


@pytest.fixture
def started():
    made = []

    def start(mode="good", patience=20.0):
        made.append(Peer("example", (sys.executable, PROGRAM, mode), patience))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_a_peer_folds_and_may_ask(started):
    other = started()
    asked = []

    def model(question):
        asked.append(str(question))
        return "short"

    assert other.fold(TALK, 100, model) == [TALK[0], {"role": "user", "content": "short"}]
    assert asked == ["Summarise: two"]
    assert other.about()["version"] == "1.2"


def test_a_peer_that_asks_nobody_is_told_so(started):
    assert started().fold(TALK, 100, None)[1]["content"] == "failed: no model was given"


def test_a_model_that_fails_is_told_to_the_peer(started):
    def model(_question):
        raise AnswerFailed("out of order")

    assert started().fold(TALK, 100, model)[1]["content"] == "failed: out of order"


@pytest.mark.few_values(2)
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("error", "no, thank you"),
        ("garbage", "no JSON object"),
        ("dies", "ended without"),
        ("silent", "gave no view in 1 seconds"),
        ("circles", "asked the summariser more than 100 times"),
    ],
)
def test_a_peer_that_misbehaves_is_one_line(started, mode, words):
    with pytest.raises(PeerFailed, match=words):
        started(mode, 1.0 if mode == "silent" else 20.0).fold(TALK, 100, None)


def test_parts_that_are_all_text_reach_a_peer_as_one_text(started):
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    image = [*parts, {"type": "image_url", "image_url": {"url": "data:,"}}]
    (told,) = started("late").fold([{"role": "user", "content": parts}], 100, None)
    assert told["content"] == "one\ntwo"
    (told,) = started("late").fold([{"role": "user", "content": image}], 100, None)
    assert told["content"] == image


def test_a_peer_may_count_as_everybody_is_counted_and_knows_the_window(started):
    class Model:
        window = 4_096

        def __call__(self, _question):
            return ""

    (told,) = started("counts").fold(TALK, 100, Model())
    assert told["content"] == "3 tokens, a window of 4096"


def test_how_an_answer_ended_is_told_to_the_peer():
    assert _answer_peer("?", lambda _question: Answer(text="cut", finish="length")) == {
        "answer": "cut",
        "finish": "length",
    }
    assert _answer_peer("?", lambda _question: Answer(text="whole")) == {"answer": "whole"}


def test_what_a_peer_says_about_something_else_is_passed_over(started):
    assert started("late").fold(TALK, 100, None) == TALK[:1]


def test_a_peer_is_named_on_the_command_line():
    made = parse_peer("lang='python -c 1'")
    assert (made.name, made.words) == ("lang", ("python -c 1",))
    for wrong in ("lang", "=x", "lang=", "lang='"):
        with pytest.raises(RefoldError, match="--peer"):
            parse_peer(wrong)


def test_a_program_that_is_not_there_is_said():
    with pytest.raises(PeerFailed, match="cannot be run"):
        Peer("x", ("/nowhere/at/all",)).fold(TALK, 1, None)
