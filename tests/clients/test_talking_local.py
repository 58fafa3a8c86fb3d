"""Talking to the real small model: words as they come, turns, a left answer, a refusal for size."""

import time

import pytest

import refold
from local_model import model_path
from refold.clients.talking import Called, Piece, Reply, Talker, open_talker
from refold.errors import AnswerFailed


@pytest.fixture(scope="module")
def talker():
    made = open_talker(f"local:{model_path()}", window=1_500, threads=1)
    yield made
    made.close()


def test_it_answers_word_by_word(talker):
    assert isinstance(talker, Talker)
    assert (talker.format, talker.tools, talker.window) == ("openai", False, 1_500)
    tool = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
    times, text = [], ""
    for part in talker.talk([talker.user("Count to ten.")], tools=[tool], max_tokens=24):
        if isinstance(part, Piece):
            times.append(time.monotonic())
            text += part.text
    assert isinstance(part, Reply)
    assert part.text == text
    assert text.strip()
    assert len(times) > 5
    assert times[-1] > times[0]  # the first word was there before the last was written
    assert part.finish in ("stop", "length")
    assert part.usage["completion_tokens"] <= 24
    assert part.message == {"role": "assistant", "content": text}


def test_a_talk_of_several_turns_with_calls_of_another_model(talker):
    """Somebody who changes the model in the middle brings calls along."""
    call = Called("c1", "look", {"path": "a"}, '{"path": "a"}')
    asked = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": call.raw}}
    history = [
        talker.user("What is in a?"),
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        *talker.results([(call, "The word is plum.", False)]),
        {"role": "assistant", "content": "It says plum."},
        talker.user("Which word was it?"),
    ]
    *_, reply = talker.talk(history, system="You answer in one word.", max_tokens=12)
    assert reply.text.strip()


def test_a_left_answer_frees_the_model(talker):
    talking = talker.talk([talker.user("Tell a long story of a fox.")], max_tokens=125)
    assert isinstance(next(talking), Piece)
    talking.close()
    started = time.monotonic()
    *_, reply = talker.talk([talker.user("Say hello.")], max_tokens=3)
    assert isinstance(reply, Reply)
    assert time.monotonic() - started < 60


def test_it_refuses_what_is_too_large(talker):
    with pytest.raises(AnswerFailed, match="for its size") as caught:
        list(talker.talk([talker.user("word " * 4_000)]))
    assert refold.overflow(caught.value).limit >= 1_500
    *_, reply = talker.talk([talker.user("Say hello.")], max_tokens=3)
    assert reply.text
