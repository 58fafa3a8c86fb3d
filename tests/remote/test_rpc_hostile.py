"""`refold rpc` and what no client should send: numbers that cannot be written, ids of every kind."""

import json

import pytest
from rpc_client import Client


@pytest.fixture(scope="module")
def client():
    with Client("--store", "memory:") as made:
        made.call("session/open", session_id="there")
        yield made


def test_what_comes_back_is_json(client):
    client.raw(
        b'{"jsonrpc": "2.0", "id": 1e999, "method": "agent/state", "params": {"session_id": "there"}}\n'
    )
    answer = client.answer()
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    json.dumps(answer, allow_nan=False)


def test_an_empty_list_of_messages_is_a_slip_and_empties_nothing(client):
    client.call("session/open", session_id="kept")
    client.call("session/say", session_id="kept", message="hello")
    error = client.error("session/prepare", {"session_id": "kept", "messages": []})
    assert error["code"] == -32602
    assert error["message"].startswith("messages: is empty: leave it out to send what was said")
    assert len(client.call("session/view", session_id="kept")["messages"]) == 1
    assert len(client.call("session/prepare", session_id="kept")["messages"]) == 1


@pytest.mark.parametrize("named", [[], {}, True, [1]])
def test_cancelling_what_is_no_id_is_a_wrong_parameter(client, named):
    client.send({"jsonrpc": "2.0", "id": 77, "method": "$/cancelRequest", "params": {"id": named}})
    answer = client.answer()
    assert (answer["id"], answer["error"]["code"]) == (77, -32602)


def test_a_folder_that_has_no_name_is_told(client):
    params = {"session_id": "there", "directory": "a\0b"}
    client.send({"jsonrpc": "2.0", "id": 78, "method": "session/export", "params": params})
    answer = client.answer()
    assert (answer["id"], answer["error"]["code"]) == (78, -32006)
