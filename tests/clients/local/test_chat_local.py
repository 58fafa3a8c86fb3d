"""Talking to the real small model: words as they come, turns, a left answer, a refusal for size."""

import pytest

import refold
from local_model import model_path
from refold.clients import ChatClient, Delta, Reply, RequestedCall, open_chat_client
from refold.errors import AnswerFailed


@pytest.fixture(scope="module")
def client():
    made = open_chat_client(f"local:{model_path()}", window=1_500, threads=1)
    yield made
    made.close()


def test_it_answers_word_by_word(client):
    assert isinstance(client, ChatClient)
    assert (client.format, client.tools, client.window) == ("openai", False, 1_500)
    tool = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
    pieces = []
    for part in client.chat([client.user("Write a long story about the sea.")], tools=[tool], max_tokens=12):
        if isinstance(part, Delta):
            pieces.append(part.text)
    assert isinstance(part, Reply)
    text = "".join(pieces)
    assert part.text == text
    assert text.strip()
    assert len(pieces) > 5  # not in one piece at the end
    assert part.finish in ("stop", "length")
    assert part.usage["completion_tokens"] <= 12
    assert part.message == {"role": "assistant", "content": text}


def test_a_talk_of_several_turns_with_calls_of_another_model(client):
    """Somebody who changes the model in the middle brings calls along."""
    call = RequestedCall("c1", "look", {"path": "a"}, '{"path": "a"}')
    asked = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": call.raw}}
    history = [
        client.user("What is in a?"),
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        *client.results([(call, "The word is plum.", False)]),
        {"role": "assistant", "content": "It says plum."},
        client.user("Which word was it?"),
    ]
    *_, reply = client.chat(history, system="You answer in one word.", max_tokens=4)
    assert reply.text.strip()


def test_a_left_answer_frees_the_model(client):
    replying = client.chat([client.user("Tell a long story of a fox.")], max_tokens=125)
    assert isinstance(next(replying), Delta)
    replying.close()
    *_, reply = client.chat([client.user("Say hello.")], max_tokens=3)
    assert isinstance(reply, Reply)


def test_it_refuses_what_is_too_large(client):
    with pytest.raises(AnswerFailed, match="for its size") as caught:
        list(client.chat([client.user("word " * 4_000)]))
    assert refold.overflow(caught.value).limit >= 1_500
    *_, reply = client.chat([client.user("Say hello.")], max_tokens=3)
    assert reply.text
