"""A chat that goes on with somebody else: what one wire allows and the other refuses is mended on the way."""

import pytest
from chat_builders import make_conversation, say

import refold
from refold.stores import open_store


def used(number):
    """A turn of a server that gives every call the same id."""
    function = {"name": "list_dir", "arguments": "{}"}
    call = {"id": "call_0", "type": "function", "function": function}
    return [
        {"role": "user", "content": f"look {number}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "content": f"file {number}"},
        {"role": "assistant", "content": f"seen {number}"},
    ]


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
def test_ids_that_were_used_again_are_told_apart_where_that_is_needed(wire):
    store = open_store("memory:")
    with refold.open("talk", store=store, window=8_000, format="openai") as session:
        session.say([*used(1), *used(2)])
    chat = make_conversation(["Done."], store=store, format=wire)
    say(chat, "and now?")
    (request,) = chat.client.seen
    assert refold.validate(request.messages, wire) == []
    assert len(request.messages) == 9
    if wire == "openai":
        assert request.messages[:8] == [*used(1), *used(2)]
    assert refold.validate(chat.session.view(), "openai") == []
