"""A refusal for size is answered by one harder fold and one more request, before a byte has gone out."""

import gzip
import importlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from client_bodies import ClaudeCode, Codex, Opencode
from recording_upstream import (
    LIMIT,
    Line,
    answer,
    answer_json,
    connect,
    running_gateway,
    running_upstream,
    send,
    stream,
    write_request,
)

import refold
from refold.gateway import HistoryOptions
from refold.stores import open_store

LIMIT_TOKENS = 20_000
STEPS = 26
"""Tool steps of a history of about 30,000 tokens, which fits the usual windows."""


@pytest.fixture
def gateway(upstream, store):
    with running_gateway(upstream, HistoryOptions(store=store)) as gateway:
        yield gateway


def event(value) -> bytes:
    return f"event: {value.get('type', '')}\ndata: {json.dumps(value)}\n\n".encode()


ANTHROPIC_TEXT = f"prompt is too long: {30_500} tokens > {LIMIT_TOKENS} maximum"
OPENAI_TEXT = (
    f"This model's maximum context length is {LIMIT_TOKENS} tokens. However, your messages resulted in 30500 tokens."
    " Please reduce the length of the messages."
)
ANTHROPIC = {"type": "error", "error": {"type": "invalid_request_error", "message": ANTHROPIC_TEXT}}
OPENAI = {
    "error": {
        "message": OPENAI_TEXT,
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
}
FAILED = {
    "type": "response.failed",
    "response": {"status": "failed", "error": {"code": "context_length_exceeded", "message": OPENAI_TEXT}},
}
CREATED = {"type": "response.created", "response": {"id": "r", "status": "in_progress", "usage": None}}
START = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 5}}}
REFUSALS = [
    pytest.param(ClaudeCode(words=500), answer_json(ANTHROPIC, status=400), id="anthropic-400"),
    pytest.param(ClaudeCode(words=500), answer_json(ANTHROPIC, status=413), id="anthropic-413"),
    pytest.param(
        ClaudeCode(words=500),
        stream(event(START), event({"type": "ping"}), event(ANTHROPIC)),
        id="anthropic-stream",
    ),
    pytest.param(Opencode(words=500), answer_json(OPENAI, status=400), id="chat-400"),
    pytest.param(
        Opencode(words=500), stream(b"data: " + json.dumps(OPENAI).encode() + b"\n\n"), id="chat-stream"
    ),
    pytest.param(Codex(words=500), answer_json(OPENAI, status=400), id="responses-400"),
    pytest.param(Codex(words=500), stream(event(CREATED) + event(FAILED)), id="responses-stream"),
    pytest.param(Codex(words=500), answer_json({**FAILED["response"], "id": "r"}), id="responses-200"),
]


def play(gateway, request):
    return send(gateway, "POST", request.path, request.bytes, list(request.headers.items()))


@pytest.mark.few_values(3)
@pytest.mark.parametrize(("client", "refuse"), REFUSALS)
def test_the_caller_sees_a_success(gateway, upstream, client, refuse):
    upstream.script = [refuse, answer_json({"fine": True})]
    request = client.request(STEPS)
    reply = play(gateway, request)
    assert (reply.status, reply.json) == (200, {"fine": True})
    assert reply.header("x-refold-fold") == "made"
    assert upstream.seen[0].body == request.bytes
    assert len(upstream.seen) == 2
    body = upstream.seen[1].json
    assert refold.count(body.get("messages", body.get("input"))) < LIMIT_TOKENS
    assert refold.validate(body.get("messages", body.get("input")), format=None) == []


def test_a_stream_that_repeats_long_instructions_is_read_to_its_refusal(gateway, upstream):
    """OpenAI sends instructions and tools back, twice, before it refuses."""
    request = Codex(words=500).request(STEPS)
    request.body["instructions"] = "Écris du code. " * 3_000
    echo = {"response": {**CREATED["response"], "instructions": request.body["instructions"]}}
    events = [event({"type": f"response.{what}", **echo}) for what in ("created", "in_progress")]
    error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window."}
    failed = event({"type": "response.failed", "response": {"status": "failed", "error": error}})
    upstream.script = [stream(*events, failed), answer_json({"fine": True})]
    assert play(gateway, request).json == {"fine": True}
    assert len(upstream.seen) == 2


@pytest.mark.parametrize(
    ("client", "said"),
    [
        (Codex(words=500), event(CREATED) + event({"type": "response.output_text.delta", "delta": "So"})),
        (
            ClaudeCode(words=500),
            event(START)
            + event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "So"}}),
        ),
    ],
    ids=["responses", "anthropic"],
)
def test_a_refusal_behind_words_helps_the_next_request(gateway, upstream, client, said):
    refusal = event(FAILED if isinstance(client, Codex) else ANTHROPIC)
    upstream.script = [stream(said, refusal), answer_json({"fine": True})]
    request = client.request(STEPS)
    first, second = (play(gateway, request) for _ in range(2))
    assert first.body == said + refusal
    assert (second.json, second.header("x-refold-fold")) == ({"fine": True}, "ready")
    assert len(upstream.seen) == 2
    assert len(upstream.seen[1].body) < LIMIT_TOKENS * 4 < len(request.bytes)


@pytest.mark.parametrize("error", ["Overloaded", "413 Payload Too Large"])
def test_another_failure_behind_words_changes_nothing(gateway, upstream, error):
    failed = event(START) + event({"type": "content_block_stop"}) + event({"type": "error", "error": error})
    upstream.script = [stream(failed), answer_json({"fine": True})]
    request = ClaudeCode(words=500).request(STEPS)
    assert play(gateway, request).body == failed
    assert play(gateway, request).header("x-refold-fold") == "none"


def test_a_second_request_has_no_key_of_the_first(gateway, upstream):
    """A server that knows the key would answer with the refusal again."""
    upstream.script = [answer_json(OPENAI, status=400), answer_json({"fine": True})]
    request = Opencode(words=500).request(STEPS)
    headers = [*request.headers.items(), ("Idempotency-Key", "stainless-1")]
    assert send(gateway, "POST", request.path, request.bytes, headers).json == {"fine": True}
    assert [seen.header("idempotency-key") for seen in upstream.seen] == ["stainless-1", None]


def test_a_limit_below_that_of_a_beta_header_is_learned(gateway, upstream):
    """Not every account has the window that the header asks for."""
    client = ClaudeCode(words=500, betas="context-1m-2025-08-07")
    upstream.script = [answer_json(ANTHROPIC, status=400), answer_json({"fine": True})]
    sizes = []
    for steps in range(STEPS, STEPS + 30):
        assert play(gateway, client.request(steps)).json == {"fine": True}
        sizes.append(refold.count(upstream.seen[-1].json["messages"]))
    assert max(sizes) < LIMIT_TOKENS


@pytest.mark.few_values(3)
@pytest.mark.parametrize(("client", "refuse"), REFUSALS)
def test_a_second_refusal_reaches_the_caller_in_the_upstreams_words(gateway, upstream, client, refuse):
    upstream.script = [refuse]
    with running_upstream() as bare, running_gateway(bare) as plain:
        bare.script = [refuse]
        expected = play(plain, client.request(STEPS))
    reply = play(gateway, client.request(STEPS))
    assert (reply.status, reply.body) == (expected.status, expected.body)
    assert reply.header("x-refold-fold") == "failed"
    assert len(upstream.seen) == 2


@pytest.mark.few_values(2)
@pytest.mark.parametrize(("client", "refuse"), [REFUSALS[0], REFUSALS[3], REFUSALS[5]])
def test_two_requests_of_a_conversation_that_are_refused_at_once_are_both_answered(
    gateway, upstream, client, refuse
):
    """The one that came first is prepared again, because the other one has changed the session."""
    both = threading.Barrier(2, timeout=LIMIT)

    def meet(line: Line):
        both.wait()
        refuse(line)

    upstream.script = [meet, meet, answer_json({"fine": True})]
    requests = [client.request(STEPS), client.request(STEPS + 1)]
    with ThreadPoolExecutor() as pool:
        replies = list(pool.map(lambda request: play(gateway, request), requests))
    assert [reply.status for reply in replies] == [200, 200]
    assert {reply.header("x-refold-fold") for reply in replies} <= {"made", "ready"}
    histories = [seen.json.get("messages", seen.json.get("input")) for seen in upstream.seen]
    assert max(map(refold.count, histories[2:])) < LIMIT_TOKENS
    ends = [json.dumps(history[-1]) for history in histories]
    assert set(ends[:2]) == set(ends[2:])


def rewrite(value, requested, limit):
    """The same refusal with other numbers."""
    text = json.dumps(value).replace("30500", str(requested)).replace(str(LIMIT_TOKENS), str(limit))
    return json.loads(text)


@pytest.mark.few_values(2)
@pytest.mark.parametrize(("requested", "limit"), [(2_100_000, 2_000_000), (6_000, 3_000)])
@pytest.mark.parametrize(
    ("client", "make"),
    [
        (ClaudeCode(words=500), lambda *sizes: answer_json(rewrite(ANTHROPIC, *sizes), 400)),
        (Opencode(words=500), lambda *sizes: answer_json(rewrite(OPENAI, *sizes), 400)),
        (Codex(words=500), lambda *sizes: stream(event(CREATED) + event(rewrite(FAILED, *sizes)))),
    ],
)
def test_a_refusal_with_numbers_unlike_ours_is_recovered_and_teaches_nothing(
    gateway, upstream, client, make, requested, limit
):
    """It is the upstream's own word on this request, however it counts."""
    upstream.script = [make(requested, limit), answer_json({"fine": True})]
    reply = play(gateway, client.request(STEPS))
    assert (reply.status, reply.header("x-refold-fold"), len(upstream.seen)) == (200, "made", 2)
    came, sent = (refold.count(b.get("messages", b.get("input"))) for b in (s.json for s in upstream.seen))
    assert sent < came * min(0.8, limit / requested)
    other = replace(client, session="other", task="Something else")
    assert play(gateway, other.request(STEPS)).header("x-refold-fold") == "none"


@pytest.mark.few_values(3)
@pytest.mark.parametrize(
    "refuse",
    [
        answer(413, b""),
        answer(413, b"<html>413 Request Entity Too Large</html>", [("Content-Type", "text/html")]),
        answer_json({"error": {"message": "too large"}}, 413),
        answer(400, b""),
        answer(400, gzip.compress(json.dumps(ANTHROPIC).encode()), [("Content-Encoding", "gzip")]),
    ],
)
@pytest.mark.parametrize(("window", "before"), [(60_000, 0), (None, 1)])
def test_a_refusal_by_its_status_or_compressed_is_recovered(upstream, store, refuse, window, before):
    """A status alone is believed of a request that fills half of its window, or is larger than one answered."""
    fine = answer_json({"fine": True})
    upstream.script = [*[fine] * before, refuse, fine]
    with running_gateway(upstream, HistoryOptions(store=store, window=window)) as gateway:
        for step in range(STEPS - before, STEPS):
            play(gateway, ClaudeCode(words=500).request(step))
        reply = play(gateway, ClaudeCode(words=500).request(STEPS))
    assert (reply.status, reply.header("x-refold-fold"), len(upstream.seen)) == (200, "made", before + 2)
    assert len(upstream.seen[-1].body) < len(upstream.seen[-2].body) * 0.8


@pytest.mark.few_values(2)
@pytest.mark.parametrize(
    ("window", "refuse", "sent"),
    [
        (None, answer(400, b""), 1),
        (None, answer_json({"error": {"message": "no"}}, 413), 1),
        (60_000, answer(400, b" "), 1),
        (60_000, answer(400, b'""'), 1),
        (60_000, answer(400, b""), 2),
        (60_000, answer(413, b"<html>413 Request Entity Too Large</html>"), 2),
    ],
)
def test_refusals_that_may_mean_anything_leave_no_fold_behind(upstream, store, window, refuse, sent):
    """They are no refusals for size, since a small request is refused as a large one is."""
    client = ClaudeCode(words=500)
    with running_gateway(upstream, HistoryOptions(store=store, window=window)) as gateway:
        upstream.script = [refuse]
        replies = [play(gateway, client.request(step)) for step in range(STEPS, STEPS + 3)]
        assert {reply.header("x-refold-fold") for reply in replies} == {"none" if sent == 1 else "failed"}
        assert len(upstream.seen) == 3 * sent
        upstream.script = [answer_json({})]
        request = client.request(STEPS + 3)
        assert play(gateway, request).header("x-refold-fold") == "none"
        assert upstream.seen[-1].body == request.bytes
        later = (play(gateway, client.request(step)).header("x-refold-fold") for step in range(30, 60, 2))
        assert ("made" in later) == (window is not None)


TOO_LARGE = {
    "type": "error",
    "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"},
}


@pytest.mark.parametrize(
    "refuse", [answer_json(TOO_LARGE, 413), answer(413, b"<html>413 Request Entity Too Large</html>")]
)
def test_a_refusal_that_may_be_about_bytes_teaches_no_window(gateway, upstream, refuse):
    """Screenshots have many bytes and few tokens: 32 MB of them fill a fifth of the window."""
    client, fine = ClaudeCode(words=500), answer_json({})
    upstream.script = [fine, refuse, fine]
    play(gateway, client.request(STEPS - 1))
    assert play(gateway, client.request(STEPS)).header("x-refold-fold") == "made"
    folds = [play(gateway, client.request(step)).header("x-refold-fold") for step in range(STEPS + 1, 60, 3)]
    assert set(folds) == {"ready"}
    assert refold.count(upstream.seen[-1].json["messages"]) > refold.count(upstream.seen[1].json["messages"])


def test_a_fold_is_taken_back_if_the_caller_leaves(upstream, store):
    client, begun = ClaudeCode(words=500), threading.Event()
    request = client.request(STEPS)
    with running_gateway(upstream, HistoryOptions(store=store, window=60_000)) as gateway:
        upstream.script = [answer(413, b""), lambda line: (begun.set(), line.wait_until_left())]
        with connect(gateway) as connection:
            headers = list(request.headers.items())
            connection.sendall(write_request(gateway, "POST", request.path, request.bytes, headers))
            assert begun.wait(LIMIT)
        assert upstream.left.wait(LIMIT)
        upstream.script = [answer_json({})]
        assert play(gateway, client.request(STEPS + 1)).header("x-refold-fold") == "none"


def test_a_compressed_error_of_any_size_is_passed_on(gateway, upstream):
    page = gzip.compress(b" " * 2_000_000)
    upstream.script = [answer(400, page, [("Content-Encoding", "gzip")])]
    reply = play(gateway, ClaudeCode(words=500).request(STEPS))
    assert (reply.status, reply.body, len(upstream.seen)) == (400, page, 1)


def test_the_next_request_begins_with_the_harder_fold(gateway, upstream):
    upstream.script = [answer_json(ANTHROPIC, status=400), answer_json({})]
    client = ClaudeCode(words=500)
    play(gateway, client.request(STEPS))
    reply = play(gateway, client.request(STEPS + 1))
    assert reply.header("x-refold-fold") == "ready"
    last, now = (seen.json["messages"] for seen in upstream.seen[1:])
    assert now[: len(last) - 1] == last[:-1]
    assert len(upstream.seen) == 3


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_other_errors_are_passed_on_and_not_repeated(gateway, upstream, status):
    error = b'{"type": "error", "error": {"type": "x", "message": "Number of request tokens has exceeded your rate limit"}}'
    upstream.script = [answer(status, error, [("retry-after", "7"), ("Content-Type", "application/json")])]
    reply = play(gateway, ClaudeCode(words=500).request(STEPS))
    assert (reply.status, reply.body, reply.header("retry-after")) == (status, error, "7")
    assert len(upstream.seen) == 1


def test_html_errors_are_passed_on(gateway, upstream):
    page = b"<html><body>502 Bad Gateway</body></html>"
    upstream.script = [answer(502, page, [("Content-Type", "text/html")])]
    reply = play(gateway, ClaudeCode().request(3))
    assert (reply.status, reply.body, reply.header("content-type")) == (502, page, "text/html")


def test_side_requests_are_not_recovered(gateway, upstream):
    upstream.script = [answer_json(ANTHROPIC, status=400)]
    assert play(gateway, ClaudeCode().title()).status == 400
    assert len(upstream.seen) == 1


def test_words_in_an_answer_are_no_refusal(gateway, upstream):
    """A model may speak of such errors."""
    text = event(START) + event(
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": ANTHROPIC_TEXT}}
    )
    upstream.script = [stream(text, event(ANTHROPIC))]
    reply = play(gateway, ClaudeCode(words=500).request(STEPS))
    assert reply.body == text + event(ANTHROPIC)
    assert len(upstream.seen) == 1


def test_the_first_events_are_held_for_a_moment_only(gateway, upstream):
    """A model that thinks long after its first event: the event arrives before the words."""
    arrived = threading.Event()

    def think(line: Line):
        line.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + event(START)
        )
        assert arrived.wait(LIMIT)
        line.send(event({"type": "message_stop"}))
        raise ConnectionAbortedError

    upstream.script = [think]
    request = ClaudeCode().request(3)
    with connect(gateway) as connection:
        headers = list(request.headers.items())
        connection.sendall(write_request(gateway, "POST", request.path, request.bytes, headers))
        head = connection.recv(65_536)
        while b"message_start" not in head:
            head += connection.recv(65_536)
        arrived.set()
        while b"message_stop" not in head:
            head += connection.recv(65_536)


def test_the_headers_of_a_slow_stream_wait_once(gateway, upstream, monkeypatch):
    """What was waited for a refusal is not waited again for the first piece."""
    answers = importlib.import_module("refold.gateway.http.forwarding").Answer
    waits, hold = [], answers.hold

    def record(self, *, seconds, **options):
        waits.append(seconds)
        return hold(self, seconds=seconds, **options)

    def think(line: Line):
        line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        assert began.wait(LIMIT)
        line.send(event(START))
        raise ConnectionAbortedError

    began, upstream.script = threading.Event(), [think]
    monkeypatch.setattr(answers, "hold", record)
    request = ClaudeCode().request(3)
    with connect(gateway) as connection:
        headers = list(request.headers.items())
        connection.sendall(write_request(gateway, "POST", request.path, request.bytes, headers))
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        began.set()
    assert len(waits) == 2
    assert sum(waits) < 2.5


def test_words_are_not_held_at_all(gateway, upstream):
    """The first words pass while the upstream is still busy with the next."""
    arrived = threading.Event()
    words = event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hello"}})

    def speak(line: Line):
        line.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            + event(START)
            + words
        )
        line.seen.headers.append(("arrived", str(arrived.wait(LIMIT))))
        raise ConnectionAbortedError

    upstream.script = [speak]
    request = ClaudeCode().request(3)
    with connect(gateway) as connection:
        connection.sendall(
            write_request(gateway, "POST", request.path, request.bytes, list(request.headers.items()))
        )
        text = b""
        while b"Hello" not in text:
            text += connection.recv(65_536)
        arrived.set()
        connection.recv(65_536)


def test_a_caller_who_leaves_while_events_are_held_closes_the_upstream(gateway, upstream):
    begun = threading.Event()

    def think(line: Line):
        line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + event(START))
        begun.set()
        line.wait_until_left()

    upstream.script = [think]
    request = ClaudeCode().request(3)
    connection = connect(gateway)
    connection.sendall(
        write_request(gateway, "POST", request.path, request.bytes, list(request.headers.items()))
    )
    assert begun.wait(LIMIT)
    connection.close()
    assert upstream.left.wait(LIMIT)


def test_a_limit_is_learned_for_the_next_conversation(upstream, store):
    """The window of a model at an upstream is remembered, so that the next history is folded before it is sent."""
    upstream.script = [answer_json(ANTHROPIC, status=400), answer_json({})]
    with running_gateway(upstream, HistoryOptions(store=store)) as gateway:
        play(gateway, ClaudeCode(words=500).request(STEPS))
        other = ClaudeCode(words=500, session="other", task="Something else")
        assert play(gateway, other.request(STEPS)).header("x-refold-fold") == "made"
    assert len(upstream.seen) == 3


class WaitingStore:
    """A store in memory whose first append waits."""

    def __init__(self):
        self.inner = open_store("memory:")
        self.goes_on = threading.Event()

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def append(self, *args, **options):
        assert self.goes_on.wait(LIMIT)
        return self.inner.append(*args, **options)


def test_what_was_late_is_sent_once_the_whole_history_is_refused(upstream):
    """The deadline passes, the history goes on as it came and is refused: by then it is folded."""
    store, request = WaitingStore(), ClaudeCode(words=500).request(STEPS)

    def refuse(line):
        store.goes_on.set()
        error = {
            "type": "invalid_request_error",
            "message": "prompt is too long: 53399 tokens > 30000 maximum",
        }
        answer_json({"type": "error", "error": error}, 400)(line)

    upstream.script = [refuse, answer_json({"ok": True})]
    with running_gateway(upstream, HistoryOptions(store=store, window=30_000, fold_seconds=4.0)) as gateway:
        reply = send(gateway, "POST", request.path, request.bytes, list(request.headers.items()))
    assert (reply.status, reply.json) == (200, {"ok": True})
    assert reply.header("x-refold-fold") == "made"
    assert upstream.seen[0].body == request.bytes
    assert len(upstream.seen[1].body) < len(request.bytes) / 2
