"""Conversations are known by their messages, and what is not folded goes on byte for byte."""

import gzip
import json
import logging
import random

import pytest
from client_bodies import ClaudeCode, Codex, Opencode, Request
from recording_upstream import (
    LIMIT,
    answer_json,
    connect,
    post,
    running_gateway,
    send,
    stream,
    write_request,
)
from test_gateway_passing import EXAMPLES, make_body

import refold
from legacy_histories import make_legacy_talk
from refold.gateway import HistoryOptions


@pytest.fixture
def gateway(upstream, store):
    with running_gateway(upstream, HistoryOptions(store=store)) as gateway:
        yield gateway


def play(gateway, upstream, request: Request, **more: str):
    """Send a request of a client; whatever happens to its history, nothing is folded yet."""
    body = request.bytes
    reply = send(gateway, "POST", request.path, body, [*request.headers.items(), *more.items()])
    assert reply.status == 200
    assert upstream.seen[-1].body == body
    return reply


def sizes(store) -> dict[str, int]:
    """Messages of each session on all branches."""
    counts: dict[str, int] = {}
    for name, _, entry in store.salvage():
        counts[name] = counts.get(name, 0) + (entry.kind == "said")
    return counts


CLIENTS = [ClaudeCode(), ClaudeCode(opus=True), Codex(), Opencode()]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_conversation_is_one_session_without_branches(gateway, upstream, store, client):
    """Marks move, blocks become strings, arguments are written anew, ids are added; the chain holds."""
    names = {play(gateway, upstream, client.request(steps)).header("x-refold-session") for steps in range(6)}
    assert len(names - {None}) == 1
    last = client.request(5).body
    fixed = {"Codex": 2, "Opencode": 1}.get(type(client).__name__, 0)
    assert sizes(store) == {(names - {None}).pop(): len(last.get("messages", last.get("input"))) - fixed}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_new_gateway_finds_the_conversation_in_the_store(upstream, store, client):
    names = set()
    for steps in (2, 3, 4):
        with running_gateway(upstream, HistoryOptions(store=store)) as gateway:
            request = client.request(steps)
            headers = {
                name: value for name, value in request.headers.items() if "session" not in name.lower()
            }
            names.add(
                play(gateway, upstream, Request(request.path, headers, request.body)).header(
                    "x-refold-session"
                )
            )
    assert len(names) == 1
    assert len(sizes(store)) == 1


def test_a_user_turn_that_comes_back_as_a_string_is_no_branch(gateway, upstream, store):
    client = ClaudeCode()
    for request in (client.request(2), client.request(2, user_turn=True), client.continued(2, 1)):
        play(gateway, upstream, request)
    assert list(sizes(store).values()) == [len(client.continued(2, 1).body["messages"])]


def test_side_requests_and_counts_make_no_session(gateway, upstream, store):
    client = ClaudeCode()
    for request in (client.title(), client.request(0), client.count(0), client.count(3), Opencode().title()):
        reply = play(gateway, upstream, request)
        assert reply.header("x-refold-fold") == "none"
        assert reply.header("x-refold-session") is None
    assert sizes(store) == {}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_first_turn_tells_its_tokens_and_the_session_that_it_names(gateway, upstream, store, client):
    """No session takes it in, but clients read these headers on every answer."""
    first, second = client.request(0), client.request(1)
    reply = play(gateway, upstream, first, **{"x-refold-session": "mine"})
    assert reply.header("x-refold-session") == "mine"
    assert sizes(store) == {}
    came, sent = map(int, reply.header("x-refold-tokens").split(";"))
    grown = int(play(gateway, upstream, second).header("x-refold-tokens").split(";")[0]) - came
    assert came == sent > 0
    assert 0 < grown < len(second.bytes) - len(first.bytes)


def test_sub_agents_are_sessions_of_their_own(gateway, upstream, store):
    """All of them carry the session id of the main conversation."""
    clients = [
        ClaudeCode(),
        ClaudeCode(agent="a15ab9c5", task="Look at the tests"),
        ClaudeCode(agent="ae5ef2b8", task="Look at the docs"),
    ]
    for steps in range(3):
        for client in clients:
            play(gateway, upstream, client.request(steps))
    session = clients[0].session
    assert set(sizes(store)) == {
        f"claude-code:{session}",
        f"claude-code:{session}:a15ab9c5",
        f"claude-code:{session}:ae5ef2b8",
    }
    assert set(sizes(store).values()) == {5}


def test_threads_of_one_codex_session_are_sessions_of_their_own(gateway, upstream, store):
    """Both begin alike and carry one session id."""
    for thread, task in (("t-1", "Build it"), ("t-2", "Test it")):
        request = Codex(task=task).request(2)
        play(gateway, upstream, Request(request.path, {**request.headers, "thread-id": thread}, request.body))
    assert set(sizes(store)) == {"codex:t-1", "codex:t-2"}


def test_many_conversations_that_begin_alike_are_not_merged(gateway, upstream, store):
    """One system prompt, one first message, no ids: each is a session as soon as a model has answered."""
    count = max(40, EXAMPLES // 10)
    for number in range(count):
        messages = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": f"Hello, you are {number}."},
        ]
        for more in range(2):
            body = {"model": "gpt-4o", "messages": [*messages, {"role": "user", "content": "And now?"}]}
            play(gateway, upstream, Request("/v1/chat/completions", {}, body))
            messages += [
                {"role": "user", "content": "And now?"},
                {"role": "assistant", "content": f"This: {more}."},
            ]
    assert sorted(sizes(store).values()) == [5] * count


def make_talk(name, steps, *, edited=None, indent=None):
    """A long history without an id; all begin with the same words, and one step of it may be another."""
    client = Opencode(task="Build every module, please. " * 80, words=300, restless=False)
    messages = client.request(steps).body["messages"]
    messages[2] = {**messages[2], "content": f"I build the modules of {name}."}
    if edited is not None:
        messages[2 * edited + 1] = {**messages[2 * edited + 1], "content": "It was another output."}
    body = json.dumps({"model": "gpt-4o", "messages": messages}, indent=indent).encode()
    return body, messages[1:]


@pytest.mark.parametrize("has_id", [False, True])
def test_long_histories_that_begin_alike_grow_and_are_edited_are_kept_apart(gateway, upstream, store, has_id):
    """Their known beginning is not read again; whatever comes, the store has what was sent, once."""
    wanted = {"ann": set(), "bob": set()}
    turns = [(name, steps, None, None) for steps in (50, 51, 53) for name in ("ann", "bob")]
    turns += [("ann", 54, 30, None), ("ann", 40, 30, None), ("ann", 55, None, 1), ("bob", 54, None, None)]
    for name, steps, edited, indent in turns:
        body, messages = make_talk(name, steps, edited=edited, indent=indent)
        assert len(body) > 70_000
        reply = send(
            gateway, "POST", "/v1/chat/completions", body, [("x-session-id", name)] if has_id else []
        )
        assert (reply.status, upstream.seen[-1].body) == (200, body)
        assert reply.header("x-refold-fold") == "none"
        chain = [json.dumps(message, sort_keys=True) for message in messages]
        wanted[name] |= {tuple(chain[: at + 1]) for at in range(len(chain))}
    assert sorted(sizes(store).values()) == sorted(map(len, wanted.values()))


@pytest.mark.parametrize("field", ["messages", "m\\u0065ssages"])
def test_a_list_that_is_named_twice_is_the_last_one(gateway, upstream, store, field):
    """Its first list begins as the known one does; readers of JSON take the last."""
    headers = [("x-session-id", "ann")]
    for steps in (50, 51):
        body, messages = make_talk("ann", steps)
        send(gateway, "POST", "/v1/chat/completions", body, headers)
    other = json.dumps(make_talk("bob", 2)[1])
    send(
        gateway,
        "POST",
        "/v1/chat/completions",
        body.removesuffix(b"}") + f', "{field}": {other}}}'.encode(),
        headers,
    )
    assert sorted(sizes(store).values()) == [len(messages) + 4]  # a branch behind the first message


def test_another_day_is_the_same_conversation(gateway, upstream, store):
    play(gateway, upstream, ClaudeCode().request(4))
    play(gateway, upstream, ClaudeCode(date="2026-11-16").request(5))
    assert list(sizes(store).values()) == [len(ClaudeCode().request(5).body["messages"])]


def test_an_edit_is_a_branch_of_the_same_session(gateway, upstream, store):
    first = play(gateway, upstream, Opencode().request(3))
    edited = Opencode().request(3)
    edited.body["messages"][-1]["content"] = "It failed."
    second = play(gateway, upstream, Request(edited.path, {}, edited.body))
    assert first.header("x-refold-session") == second.header("x-refold-session")
    assert list(sizes(store).values()) == [8]  # seven, and one on the branch


def test_a_name_that_came_once_does_not_take_over_the_client_s_session(gateway, upstream):
    request = ClaudeCode().request(3)
    own = play(gateway, upstream, request).header("x-refold-session")
    named = play(gateway, upstream, request, **{"x-refold-session": "mine"}).header("x-refold-session")
    again = play(gateway, upstream, request).header("x-refold-session")
    later = play(gateway, upstream, ClaudeCode().request(4)).header("x-refold-session")
    assert (named, again, later) == ("mine", own, own)


def test_a_caller_may_name_its_session(gateway, upstream, store):
    reply = play(gateway, upstream, Opencode().request(2), **{"x-refold-session": "my.task:1"})
    assert reply.header("x-refold-session") == "my.task:1"
    assert set(sizes(store)) == {"my.task:1"}
    assert upstream.seen[-1].header("x-refold-session") is None
    refused = post(gateway, "/v1/messages", {}, x_refold_session="../etc/passwd")
    assert (refused.status, refused.header("x-refold-error")) == (400, "session")
    refused = post(gateway, "/v1/messages", {}, x_refold_policy="/etc/passwd")
    assert (refused.status, refused.header("x-refold-error")) == (400, "policy")
    assert " refold, thrifty" in refused.json["error"]["message"]


def test_a_session_of_the_library_is_gone_on_with_whatever_its_name_is(gateway, upstream, store):
    name = "Martas Notizen: M\u00e4rz\r\nx-evil: 1"
    client = Opencode(restless=False)
    refold.open(name, store=store, format="openai", model="gpt-4o").prepare(
        client.request(2).body["messages"]
    )
    request = client.request(3)
    reply = play(gateway, upstream, Request(request.path, {}, request.body))
    assert reply.header("x-refold-session") == "Martas%20Notizen:%20M%C3%A4rz%0D%0Ax-evil:%201"
    assert reply.header("x-evil") is None
    assert sizes(store) == {name: 7}


@pytest.mark.parametrize("named", [{}, {"x_refold_session": "task"}], ids=["found", "named"])
def test_a_talk_that_changes_its_wire_goes_on_in_every_one(gateway, upstream, store, named):
    """The words in front are one message in all wires; calls of tools are not."""
    begun = [{"role": "user", "content": "Look."}, {"role": "assistant", "content": "I begin to look now."}]
    asked = {"role": "user", "content": "Go on."}
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    chat = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    chat += [{"role": "tool", "tool_call_id": "c1", "content": "A lamp."}]
    items = [{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}]
    items += [{"type": "function_call_output", "call_id": "c1", "output": "A lamp."}]
    wires = {"/v1/chat/completions": ("messages", chat), "/v1/responses": ("input", items)}
    names = {path: set() for path in wires}
    post(gateway, "/v1/chat/completions", {"messages": [*begun, asked]}, **named)
    for turn in range(3):
        told = [{"role": "assistant", "content": f"Seen {turn}."}, asked] * turn
        for path, (key, looked) in reversed(wires.items()):
            reply = post(gateway, path, {key: [*begun, asked, *looked, *told]}, **named)
            assert (reply.status, reply.header("x-refold-fold")) == (200, "none")
            names[path].add(reply.header("x-refold-session"))
    assert [len(found) for found in names.values()] == [1, 1]
    assert set.union(*names.values()) == set(sizes(store))
    assert len(sizes(store)) == 2


def test_a_list_that_mixes_two_wires_goes_on_as_it_came(gateway, upstream, store, caplog):
    """The caller's mistake, and for the provider to judge: no fault of the gateway's."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    mixed = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "A lamp."}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "A lamp."},
    ]
    body = json.dumps({"model": "gpt-4o", "messages": mixed}).encode()
    with caplog.at_level(logging.WARNING, logger="refold"):
        reply = post(gateway, "/v1/chat/completions", body)
    assert (reply.status, reply.header("x-refold-fold"), caplog.messages) == (200, "none", [])
    assert (upstream.seen[-1].body, sizes(store)) == (body, {})


def test_a_bypass_leaves_no_trace(gateway, upstream, store):
    reply = play(gateway, upstream, ClaudeCode().request(3), **{"x-refold-bypass": "1"})
    assert reply.header("x-refold-fold") == "bypassed"
    assert sizes(store) == {}


def test_a_history_at_the_provider_is_not_ours(gateway, upstream, store):
    for field, value in (("previous_response_id", "resp_1"), ("conversation", {"id": "conv_1"})):
        request = Codex().request(3)
        play(gateway, upstream, Request(request.path, request.headers, {**request.body, field: value}))
    for reference in ({"type": "item_reference", "id": "rs_0"}, {"id": "rs_0"}, {"type": None, "id": "rs_0"}):
        request = Codex().request(3)
        request.body["input"].insert(4, reference)
        play(gateway, upstream, request)
    request = ClaudeCode().request(3)
    request.body["thread"] = {"type": "continue", "previous_message_id": "msg_1"}
    play(gateway, upstream, request)
    assert sizes(store) == {}
    request.body["thread"] = {"type": "create"}  # the whole list
    play(gateway, upstream, request)
    assert list(sizes(store).values()) == [7]


def test_compressed_histories_are_read_and_passed_on_as_they_came(gateway, upstream, store):
    zstandard = pytest.importorskip("zstandard")
    plain = ClaudeCode().request(2).bytes
    for encoding, packed in (("gzip", gzip.compress(plain)), ("zstd", zstandard.compress(plain))):
        headers = [("Content-Encoding", encoding), *ClaudeCode().headers.items()]
        reply = send(gateway, "POST", "/v1/messages", packed, headers)
        assert reply.header("x-refold-session") == f"claude-code:{ClaudeCode().session}"
        assert upstream.seen[-1].body == packed
    assert list(sizes(store).values()) == [5]


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_small_body_cannot_fill_the_memory(upstream, encoding):
    zstandard = pytest.importorskip("zstandard")
    pack = gzip.compress if encoding == "gzip" else zstandard.compress
    with running_gateway(upstream, HistoryOptions(store="memory:"), max_body=1_000_000) as gateway:
        reply = send(
            gateway, "POST", "/v1/messages", pack(b" " * 50_000_000), [("Content-Encoding", encoding)]
        )
    assert (reply.status, reply.header("x-refold-error")) == (413, "body-size")
    assert not upstream.seen


@pytest.mark.filterwarnings("default::refold.errors.RefoldWarning")  # models that nobody knows
def test_fuzzed_bodies_arrive_to_the_byte_beside_a_store(gateway, upstream):
    rng = random.Random(18)
    paths = ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/messages/count_tokens"]
    for _ in range(EXAMPLES):
        body = make_body(rng)
        reply = send(gateway, "POST", rng.choice(paths), body)
        assert (reply.status, upstream.seen[-1].body) == (200, body)
        assert reply.header("x-refold-fold") == "none"


def test_talks_in_the_old_form_of_calls_arrive_to_the_byte_and_are_one_session(gateway, upstream, store):
    """Calls and results without ids, and empty lists of calls."""
    for seed in range(12):
        talk, name = make_legacy_talk(seed, 12), f"old-{seed}"
        for end in (5, 9, len(talk)):
            body = json.dumps({"model": "gpt-4o", "messages": talk[:end]}).encode()
            reply = send(gateway, "POST", "/v1/chat/completions", body, [("x-refold-session", name)])
            assert (reply.status, upstream.seen[-1].body) == (200, body)
        assert sizes(store)[name] == len(talk) - (talk[0]["role"] == "system")


def test_deep_nesting_goes_through(gateway, upstream, store):
    body = b'{"messages": [{"role": "assistant", "content": ' + b"[" * 5000 + b"]" * 5000 + b"}]}"
    assert send(gateway, "POST", "/v1/messages", body).status == 200
    assert upstream.seen[-1].body == body
    assert sizes(store) == {}


# -- usage --------------------------------------------------------------------------------------------------

ANTHROPIC = [
    {
        "type": "message_start",
        "message": {
            "model": "claude-sonnet-4-5",
            "usage": {"input_tokens": 700, "cache_read_input_tokens": 50, "output_tokens": 1},
        },
    },
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": 'the word "usage" in a text'}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 33}},
]
RESPONSES = [
    {"type": "response.created", "response": {"model": "gpt-5", "usage": None}},
    {
        "type": "response.completed",
        "response": {
            "model": "gpt-5",
            "status": "completed",
            "usage": {"input_tokens": 750, "output_tokens": 33},
        },
    },
]
CHAT = [
    {"model": "gpt-4o", "choices": [{"delta": {"content": "x"}}], "usage": None},
    {"model": "gpt-4o", "choices": [], "usage": {"prompt_tokens": 750, "completion_tokens": 33}},
]


@pytest.mark.parametrize(
    ("client", "events"), [(ClaudeCode(), ANTHROPIC), (Codex(), RESPONSES), (Opencode(), CHAT)]
)
@pytest.mark.parametrize("form", ["whole", "bytes", "crlf"])
def test_usage_is_read_from_a_stream_however_it_is_cut(upstream, store, client, events, form):
    text = "".join(f"event: {event.get('type', '')}\ndata: {json.dumps(event)}\n\n" for event in events)
    data = text.replace("\n", "\r\n").encode() if form == "crlf" else text.encode()
    pieces = [data[at : at + 1] for at in range(len(data))] if form == "bytes" else [data]
    upstream.script = [stream(*pieces)]
    with running_gateway(upstream, HistoryOptions(store=store)) as gateway:
        reply = play(gateway, upstream, client.request(3))
        assert reply.body == data
        name = reply.header("x-refold-session")
    totals = refold.open(name, store=store).stats().totals
    assert (totals.requests, totals.input, totals.output) == (1, 750, 33)


def test_the_usage_of_a_stream_is_kept_if_its_caller_leaves(upstream, store):
    """Anthropic says at the start what a request took; the rest of the stream is not waited for."""
    data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in ANTHROPIC[:2])

    def begin(line):
        line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + data.encode())
        line.wait_until_left()

    upstream.script = [begin]
    request = ClaudeCode().request(3)
    with running_gateway(upstream, HistoryOptions(store=store)) as gateway, connect(gateway) as connection:
        headers = list(request.headers.items())
        connection.sendall(write_request(gateway, "POST", request.path, request.bytes, headers))
        received = b""
        while b"content_block_delta" not in received:
            received += connection.recv(65_536)
        connection.close()
        assert upstream.left.wait(LIMIT)
    (name,) = sizes(store)
    totals = refold.open(name, store=store).stats().totals
    assert (totals.requests, totals.input) == (1, 750)


def test_usage_is_read_from_json_and_not_from_errors(upstream, store):
    usage = {"model": "gpt-4o", "choices": [], "usage": {"prompt_tokens": 750, "completion_tokens": 33}}
    upstream.script = [answer_json(usage), answer_json(usage, status=429)]
    with running_gateway(upstream, HistoryOptions(store=store)) as gateway:
        name = play(gateway, upstream, Opencode().request(3)).header("x-refold-session")
        limited = send(gateway, "POST", "/v1/chat/completions", Opencode().request(3).bytes)
        assert limited.status == 429
    assert refold.open(name, store=store).stats().totals.requests == 1


def test_texts_and_keys_are_written_to_no_log(gateway, upstream, store, caplog):
    caplog.set_level(logging.DEBUG)
    client = ClaudeCode(task="canary-words")
    headers = [*client.headers.items(), ("Authorization", "Bearer canary-key")]
    path = "/v1/messages?key=canary-query"
    for steps in (1, 2):
        assert send(gateway, "POST", path, client.request(steps).bytes, headers).status == 200
    bad = {"model": "claude-sonnet-4-5", "messages": [{"role": "assistant", "content": {"canary-words": 1}}]}
    post(gateway, "/v1/messages", bad)
    assert "canary" not in caplog.text
    assert b"canary" not in send(gateway, "GET", "/metrics").body
    stored = str([entry for _, _, entry in store.salvage()])
    assert "canary-words" in stored
    assert "canary-key" not in stored
    assert "canary-query" not in stored


def test_the_store_is_part_of_being_ready(upstream, tmp_path):
    with running_gateway(upstream, HistoryOptions(store=f"sqlite:{tmp_path}/sessions.db")) as gateway:
        assert send(gateway, "GET", "/readyz").status == 200
    (tmp_path / "file").write_text("")
    with running_gateway(upstream, HistoryOptions(store=f"sqlite:{tmp_path}/file/sessions.db")) as gateway:
        assert send(gateway, "GET", "/readyz").status == 503
        reply = play(gateway, upstream, ClaudeCode().request(2))
        assert reply.header("x-refold-fold") == "bypassed;store"
