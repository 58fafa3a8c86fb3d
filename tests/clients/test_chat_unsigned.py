"""Anthropic's wire spoken by others: thoughts that nobody signed and calls without ids do not go back so."""

import pytest

import refold
from fake_provider import FakeProvider, data
from refold.clients import Reply, open_chat_client


def stream(*blocks):
    events = [{"type": "message_start", "message": {"type": "message", "model": "m", "content": []}}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
    ended = {"stop_reason": "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"}
    events += [{"type": "message_delta", "delta": ended}, {"type": "message_stop"}]

    def behave(connection):
        connection.head()
        connection.send(data(*events, named=True))

    return behave


def answered(monkeypatch, *blocks):
    with FakeProvider() as provider:
        provider.script = [stream(*blocks)]
        for name, value in provider.environment().items():
            monkeypatch.setenv(name, value)
        client = open_chat_client("anthropic:claude-sonnet-4-5")
        reply = list(client.chat([client.user("hi")]))[-1]
        assert isinstance(reply, Reply)
        history = [client.user("hi"), *reply.messages]
        return reply, [*history, *client.results([(call, "there", False) for call in reply.calls])]


SIGNED = {"type": "thinking", "thinking": "hm", "signature": "abc"}


@pytest.mark.parametrize("thought", [{"type": "thinking", "thinking": "hm"}, SIGNED])
def test_a_thought_goes_back_only_with_its_signature(monkeypatch, thought):
    reply, history = answered(monkeypatch, thought, {"type": "text", "text": "Hello."})
    assert refold.validate(history, "anthropic") == []
    assert reply.reasoning == "hm"
    assert (thought in reply.message["content"]) == ("signature" in thought)


def test_a_call_without_an_id_is_named_by_that_of_its_result(monkeypatch):
    reply, history = answered(monkeypatch, {"type": "tool_use", "name": "list_dir", "input": {}})
    assert refold.validate(history, "anthropic") == []
    assert reply.message["content"][0]["id"] == reply.calls[0].id
