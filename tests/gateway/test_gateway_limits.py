"""Deadlines, limits, who may come in, and what becomes of a side that leaves."""

import asyncio
import importlib
import json
import logging
import socket
import threading
import tracemalloc
from contextlib import ExitStack

import msgspec
import pytest
from recording_upstream import (
    LIMIT,
    answer_json,
    connect,
    post,
    read_reply,
    running_gateway,
    running_upstream,
    send,
    stream,
    write_request,
)
from test_gateway_passing import EXAMPLES

import refold
from refold.gateway import Gateway, GatewayOptions


@pytest.fixture
def gateway(upstream):
    with running_gateway(upstream) as gateway:
        yield gateway


# -- deadlines and limits -----------------------------------------------------------------------------------


def test_a_half_sent_header_is_answered_and_closed(upstream):
    """Nobody waits for an answer on a connection that has sent nothing."""
    with (
        running_gateway(upstream, header_seconds=0.2) as gateway,
        connect(gateway) as idle,
        connect(gateway) as half,
    ):
        half.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: loc")
        reply = read_reply(half)
        assert (reply.status, reply.header("x-refold-error")) == (408, "header-deadline")
        assert half.recv(10) == idle.recv(10) == b""


def test_a_half_sent_header_is_closed_on_a_connection_that_was_answered(upstream):
    """One that begins no request is kept meanwhile: a 408 would be read as the answer to its next request."""
    behind = {"nothing": b"", "a body that nobody read": b"rest", "an empty line": b"\r\n"}
    with running_gateway(upstream, header_seconds=0.2) as gateway, ExitStack() as opened:
        idle = {name: opened.enter_context(connect(gateway)) for name in behind}
        half = opened.enter_context(connect(gateway))
        for name, connection in {**idle, "half": half}.items():
            size = [("Content-Length", "4")] * (behind.get(name) == b"rest")
            connection.sendall(write_request(gateway, "GET", "/healthz", b"", size))
            assert read_reply(connection).status == 200
        for name, connection in idle.items():
            connection.sendall(behind[name])
        half.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: loc")
        assert read_reply(half).status == 408
        assert half.recv(10) == b""
        for name, connection in idle.items():
            connection.sendall(write_request(gateway, "POST", "/v1/messages", b"{}", []))
            assert read_reply(connection).status == 200, name


def test_a_request_in_time_outlives_the_deadline_of_headers(upstream):
    waiting = threading.Event()
    upstream.script = [lambda line: (waiting.wait(LIMIT), answer_json({})(line))]
    with running_gateway(upstream, header_seconds=0.1) as gateway, connect(gateway) as connection:
        connection.sendall(write_request(gateway, "POST", "/v1/messages", b"{}", []))
        threading.Timer(0.4, waiting.set).start()
        assert read_reply(connection).status == 200


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_a_body_that_does_not_come_is_a_408(upstream, path):
    with running_gateway(upstream, body_seconds=0.2) as gateway, connect(gateway) as connection:
        connection.sendall(write_request(gateway, "POST", path, b"{", [("Content-Length", "10")]))
        reply = read_reply(connection)
    assert (reply.status, reply.header("x-refold-error")) == (408, "body-deadline")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_long_is_a_413(upstream, path, chunked):
    body = b"x" * 2000
    headers = [("x-api-key", "k")]
    if chunked:
        body, headers = b"7d0\r\n" + body + b"\r\n0\r\n\r\n", [*headers, ("Transfer-Encoding", "chunked")]
    with running_gateway(upstream, max_body=1000) as gateway:
        reply = send(gateway, "POST", path, body, headers)
    assert (reply.status, reply.header("x-refold-error")) == (413, "body-size")
    assert reply.json["type"] == "error"


def test_an_upstream_that_is_not_there_is_a_502_in_the_shape_of_the_wire():
    addresses = {"upstream_openai": "http://127.0.0.1:9/v1", "upstream_anthropic": "http://127.0.0.1:9"}
    with running_gateway(**addresses) as gateway:
        openai = post(gateway, "/v1/chat/completions", {})
        anthropic = post(gateway, "/v1/messages", {})
    text = (
        "refold: the upstream http://127.0.0.1:9 cannot be reached (Connection refused):"
        " check that it runs, that this machine may reach it, and the address in upstream_"
    )
    assert (openai.status, openai.header("x-refold-error")) == (502, "connect")
    assert openai.json == {
        "error": {"message": f"{text}openai", "type": "api_error", "param": None, "code": "connect"}
    }
    assert anthropic.json == {
        "type": "error",
        "error": {"type": "api_error", "message": f"{text}anthropic"},
    }


def test_the_log_names_an_upstream_that_cannot_be_reached_once(upstream, caplog):
    """One line until it is reached again; the path and the query stay out, which may hold a key."""
    path = "/v1/models/sk-canary?key=sk-canary"
    away = {"upstream_openai": "http://127.0.0.1:9/sk-base", "first_byte_seconds": LIMIT}
    with running_gateway(upstream, **away) as gateway:
        replies = [send(gateway, "GET", path) for _ in range(3)]
    assert [reply.json["error"]["code"] for reply in replies] == ["connect"] * 3
    lines = [record.getMessage() for record in caplog.records if record.name == "refold.gateway"]
    assert [line.partition(": ")[0] for line in lines] == [
        "the upstream http://127.0.0.1:9 cannot be reached (Connection refused)"
    ]
    assert "sk-" not in lines[0] + replies[0].body.decode()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("https://127.0.0.1:{port}", "it does not speak TLS"),
        ("http://nowhere.invalid:{port}", "its name is not found"),
    ],
)
def test_the_reason_why_an_upstream_cannot_be_reached_is_told(upstream, monkeypatch, address, reason):
    real = socket.getaddrinfo

    def resolve(host, *arguments, **options):
        if host == "nowhere.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with running_gateway(upstream) as plain:  # answers at once where others wait for more
        address = address.format(port=plain.port)
        with running_gateway(upstream, upstream_anthropic=address) as gateway:
            reply = post(gateway, "/v1/messages", {})
    assert f"the upstream {address} cannot be reached ({reason})" in reply.json["error"]["message"]


def test_an_upstream_that_is_silent_is_a_504(upstream):
    upstream.script = [lambda line: line.wait_until_left()]
    with running_gateway(upstream, first_byte_seconds=0.2) as gateway:
        reply = post(gateway, "/v1/messages", {})
    assert (reply.status, reply.header("x-refold-error")) == (504, "first-byte-deadline")
    assert upstream.left.wait(LIMIT)


def test_an_upstream_that_closes_without_an_answer_is_a_502_and_asked_once(gateway, upstream):
    def leave(line):
        raise ConnectionAbortedError

    upstream.script = [leave]
    reply = post(gateway, "/v1/messages", {})
    assert (reply.status, reply.header("x-refold-error")) == (502, "upstream")
    assert upstream.url in reply.json["error"]["message"]
    assert len(upstream.seen) == 1


@pytest.mark.parametrize(
    ("path", "event"),
    [
        ("/v1/messages", b'event: error\ndata: {"type": "error", "error": {"type": "api_error"'),
        ("/v1/responses", b'event: error\ndata: {"type": "error", "code": "upstream-lost"'),
        ("/v1/chat/completions", b'data: {"error": {"message": "refold: the upstream was lost'),
    ],
)
def test_a_stream_that_is_lost_ends_with_an_error_event(gateway, upstream, path, event):
    upstream.script = [stream(b"data: {}\n\n", end=False)]
    reply = post(gateway, path, {})
    assert reply.body.startswith(b"data: {}\n\n" + event)
    assert reply.complete
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses", "/v1/chat/completions"])
@pytest.mark.parametrize(
    "cut", [b"data: {", b"da", b"event: ping\nda", b"data: {}\n", b"id: 1\ndata: {\ndata: \n"]
)
def test_a_stream_that_is_lost_inside_an_event_ends_with_an_error_event(gateway, upstream, path, cut):
    """Half an event is not passed on, so that no reader takes it for a whole one."""
    upstream.script = [stream(b"data: 1\n\n", cut, end=False)]
    reply = post(gateway, path, {})
    *events, last = (event for event in reply.body.decode().split("\n\n") if event)
    assert events == ["data: 1"]
    assert "the upstream was lost" in str(json.loads(last.rpartition("\ndata: ")[2].removeprefix("data: ")))
    assert reply.complete


def test_a_stream_that_is_lost_where_no_event_can_follow_breaks_off(gateway, upstream):
    """A long event is passed on in pieces, and a length that was named ends before an error event."""
    long = b"data: 1\n\ndata: {" + b"x" * 70_000

    def name_length(line):
        line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 900\r\n\r\n")
        line.send(b"data: 1\n\n")
        raise ConnectionAbortedError

    upstream.script = [stream(long, end=False), name_length]
    replies = [post(gateway, "/v1/messages", {}) for _ in upstream.script[:]]
    assert [(reply.body, reply.complete) for reply in replies] == [(long, False), (b"data: 1\n\n", False)]


@pytest.mark.parametrize("size", [1, 3, 80_000])
def test_events_that_are_cut_come_whole(gateway, upstream, size):
    text = b"data: {}\r\n\r\n: a\ndata: 2\n\ndata: " + b"x" * 100 * size + b"\n\ndata: [DONE]"
    upstream.script = [stream(*(text[at : at + size] for at in range(0, len(text), size)))]
    assert post(gateway, "/v1/chat/completions", {}).body == text


def test_comments_are_passed_on_at_once(gateway, upstream):
    """They keep a caller awake, and an event may follow much later."""
    arrived = threading.Event()

    def wake(line):
        line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n: a\n")
        assert arrived.wait(LIMIT)
        raise ConnectionAbortedError

    upstream.script = [wake]
    with connect(gateway) as connection:
        connection.sendall(write_request(gateway, "POST", "/v1/messages", b"{}", []))
        head = connection.recv(65_536)
        while b": a\n" not in head:
            head += connection.recv(65_536)
        arrived.set()


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses", "/v1/chat/completions", "/v1/models"])
def test_an_upstream_that_is_lost_behind_its_headers_is_a_502(gateway, upstream, path):
    upstream.script = [stream(end=False)]
    reply = post(gateway, path, {})
    assert (reply.status, reply.header("x-refold-error")) == (502, "upstream-lost")
    assert "the upstream was lost" in reply.json["error"]["message"]
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
@pytest.mark.parametrize("kind", ["text/event-stream", "text/plain"])
def test_an_answer_that_is_lost_is_no_success(gateway, upstream, path, kind):
    upstream.script = [stream(b"data: {}\n\n", end=False, kind=kind)]
    assert post(gateway, path, {}).status == 200
    gateway.call(gateway.gateway.drain)
    (row,) = gateway.gateway.traffic.list_rows(None, 0, 9)["rows"]
    assert row["outcome"] == "upstream-lost"
    assert row["why"].endswith("the upstream was lost before the end of its answer")
    assert gateway.gateway.traffic.list_rows(None, 0, 9)["rates"]["errors"] == 1
    numbers = gateway.gateway.metrics.write().decode()
    assert 'outcome="upstream-lost"' in numbers
    assert 'outcome="2xx"' not in numbers


def test_a_stream_that_falls_silent_is_ended(upstream):
    def fall_silent(line):
        line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n")
        line.wait_until_left()

    upstream.script = [fall_silent]
    with running_gateway(upstream, idle_seconds=0.2) as gateway:
        reply = post(gateway, "/v1/messages", {})
    assert b"upstream-lost" not in reply.body.splitlines()[0]
    assert b"event: error" in reply.body
    assert upstream.left.wait(LIMIT)


def test_too_many_requests_at_once_are_refused(upstream):
    waiting, begun = threading.Event(), threading.Event()
    upstream.script = [lambda line: (begun.set(), waiting.wait(LIMIT), answer_json({})(line))]
    with running_gateway(upstream, max_requests=1) as gateway, connect(gateway) as first:
        first.sendall(write_request(gateway, "POST", "/v1/messages", b"{}", []))
        assert begun.wait(LIMIT)
        reply = post(gateway, "/v1/messages", {})
        waiting.set()
        assert read_reply(first).status == 200
    assert (reply.status, reply.header("x-refold-error"), reply.header("retry-after")) == (503, "busy", "1")


# -- who leaves ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begins", [False, True])
def test_the_upstream_is_closed_when_the_caller_leaves(gateway, upstream, begins):
    begun = threading.Event()

    def think(line):
        if begins:
            line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n")
        begun.set()
        line.wait_until_left()

    upstream.script = [think]
    connection = connect(gateway)
    connection.sendall(write_request(gateway, "POST", "/v1/messages", b"{}", []))
    assert begun.wait(LIMIT)
    connection.close()
    assert upstream.left.wait(LIMIT)


def test_callers_who_leave_leave_nothing_behind(gateway, upstream):
    begun = threading.Event()
    upstream.script = [lambda line: (begun.set(), line.wait_until_left())]
    for _ in range(max(60, EXAMPLES // 10)):
        connection = connect(gateway)
        connection.sendall(write_request(gateway, "POST", "/v1/messages", b"{}", []))
        assert begun.wait(LIMIT)
        connection.close()
        assert upstream.left.wait(LIMIT)
        begun.clear()
        upstream.left.clear()
    upstream.script = [answer_json({})]
    assert post(gateway, "/v1/messages", {}).status == 200

    async def count():
        return len(asyncio.all_tasks())

    gateway.call(gateway.gateway.drain)
    open_now = gateway.gateway.metrics.registry.get_sample_value("refold_gateway_open_requests")
    assert (open_now, upstream.connections <= 1) == (0, True)
    assert gateway.call(count) <= 2  # this one, and a connection that is just being closed


# -- who may come in ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8377", 200),
        ("evil.example", 403),
        ("localhost/#@evil.example", 400),
        ("localhost evil", 400),
        ("localhost:99999999", 400),
    ],
)
def test_only_known_hosts_are_answered(gateway, upstream, host, status):
    assert send(gateway, "POST", "/v1/messages", b"{}", [("Host", host)]).status == status
    assert len(upstream.seen) == (status == 200)


@pytest.mark.parametrize(("host", "status"), [("Gate.example:8443", 200), ("gate.example:8444", 403)])
def test_a_host_may_be_allowed_with_its_port(upstream, host, status):
    """The page /inspect takes the same list, and compares ports."""
    with running_gateway(upstream, allow_hosts=("gate.example:8443",)) as gateway:
        assert send(gateway, "POST", "/v1/messages", b"{}", [("Host", host)]).status == status


@pytest.mark.parametrize(
    ("name", "word", "advice"),
    [
        ("allow_internal", "http://vllm.corp", "NAME"),
        ("allow_internal", "Vllm.Corp", "small letters"),
        ("allow_hosts", "", "NAME"),
        ("allow_hosts", "2001:db8::1", r"\[IPV6\]"),
        ("allow_origins", "", "https://NAME"),
        ("allow_origins", "https://b\u00fccher.example", "https://NAME"),
    ],
)
def test_words_that_let_in_nobody_are_refused(name, word, advice):
    """A browser writes a name with other letters in ASCII; an IPv6 address stands in brackets."""
    with pytest.raises(refold.RefoldError, match=f"{name}: has .*{advice}"):
        Gateway(GatewayOptions(**{name: (word,)}))


def test_two_hosts_are_refused(gateway, upstream):
    headers = [("Host", "localhost"), ("Host", "localhost")]
    assert send(gateway, "POST", "/v1/messages", b"{}", headers).status == 400
    assert not upstream.seen


def test_pages_of_other_origins_are_refused(upstream):
    with running_gateway(
        upstream, allow_origins=("http://good.example",), allow_hosts=("gate.example",)
    ) as gateway:
        bad = send(gateway, "POST", "/v1/messages", b"{}", [("Origin", "http://evil.example")])
        good = [("Origin", "http://good.example"), ("Host", "gate.example")]
        assert send(gateway, "POST", "/v1/messages", b"{}", good).status == 200
    assert (bad.status, bad.header("x-refold-error")) == (403, "origin")
    assert bad.header("access-control-allow-origin") is None


def test_a_request_line_cannot_name_a_host(gateway, upstream):
    with connect(gateway) as connection:
        connection.sendall(
            b"POST http://evil.example/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
        )
        reply = read_reply(connection)
    assert (reply.status, reply.header("x-refold-error")) == (400, "target")
    assert not upstream.seen


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/models/..", "/v1/models/../files", "/v1/./models", "/../models", "/v1/messages/%2E%2e/files"),
        *("/v1/models/..%2ffiles", "/v1/models/a%5C..%5cfiles", "/v1/models/..;a=1/files", "/v1/models/..#a"),
        *("/v1/models\\..\\files", "/v1/models/%252e%252e/files", "/v1/models/..?a=1"),
    ],
)
def test_no_path_leads_upwards(gateway, upstream, path):
    """A server behind the upstream's address would go there, out of the path of that address."""
    reply = send(gateway, "GET", path, b"", [("x-api-key", "k")])
    assert (reply.status, reply.header("x-refold-error")) == (400, "target")
    assert reply.json["type"] == "error"
    assert not upstream.seen


@pytest.mark.parametrize(
    "path", ["/v1/models/gpt-4.1", "/v1/models/...", "/v1/models/a..b?at=/../x", "/v1/.a"]
)
def test_other_dots_are_passed_on(gateway, upstream, path):
    assert send(gateway, "GET", path).status == 200
    assert upstream.seen[0].path == path


CANARY = b"sk-ant-CANARY"
START = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n"
END = b"\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    "request_bytes",
    [
        START + b"x-api-key: " + CANARY + b"\x01" + END,
        (START + b"x-api-key: " + CANARY + END).replace(b"\r\n", b"\n"),
        START + b"Authorization: Bearer\r\n " + CANARY + END,
        START + b"x-api-key: " + CANARY + b"a" * 70_000 + END,
        b"GET /v1beta/models?key=" + CANARY + b"\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["control character", "LF", "folded line", "long", "query"],
)
def test_what_is_no_http_gets_a_fixed_answer(gateway, upstream, caplog, request_bytes):
    """Neither the answer nor a log quotes the request, which may hold a key."""
    caplog.set_level(logging.DEBUG)
    with connect(gateway) as connection:
        connection.sendall(request_bytes)
        reply = read_reply(connection)
    assert (reply.status, reply.header("x-refold-error")) == (400, "request")
    assert reply.json["error"]["type"] == "invalid_request_error"
    assert CANARY.decode() not in caplog.text + reply.body.decode() + str(reply.headers)
    assert not upstream.seen


def test_two_lengths_are_refused(gateway, upstream):
    for headers in (
        [("Content-Length", "2"), ("Content-Length", "3")],
        [("Content-Length", "2"), ("Transfer-Encoding", "chunked")],
    ):
        assert send(gateway, "POST", "/v1/messages", b"{}", headers).status == 400
    assert not upstream.seen


def test_beyond_this_machine_a_token_is_needed(upstream):
    with pytest.raises(refold.RefoldError, match="REFOLD_SERVE_TOKEN"):
        Gateway(GatewayOptions(host="0.0.0.0"))
    with pytest.raises(refold.RefoldError, match="too short"):
        Gateway(GatewayOptions(host="0.0.0.0", token="short"))
    for odd in ("schlüssel-der-anrufer", "0123456789abcdef\udcff", "0123456789\n0123456789"):
        with pytest.raises(refold.RefoldError, match="REFOLD_SERVE_TOKEN holds characters that no token has"):
            Gateway(GatewayOptions(token=odd))
    token = "0123456789abcdef"
    with running_gateway(upstream, host="0.0.0.0", token=token) as gateway:
        without = post(gateway, "/v1/messages", {})
        wrong = post(gateway, "/v1/messages", {}, x_refold_token=token[:-1])
        right = post(gateway, "/v1/messages", {}, x_refold_token=token, Host="any.example")
        assert [reply.status for reply in (without, wrong, right)] == [401, 401, 200]
        assert send(gateway, "GET", "/metrics").status == 401
        assert send(gateway, "GET", "/").status == 401
        assert send(gateway, "GET", "/healthz").status == 200
        assert send(gateway, "HEAD", "/").status == 200
    assert len(upstream.seen) == 1
    assert upstream.seen[0].header("x-refold-token") is None


@pytest.mark.parametrize(
    "address",
    [
        "api.openai.com",
        "ftp://a",
        "http://user:pw@a/",
        "http://a/?key=1",
        "http://a b",
        "http://a:0",
        "http://a:x",
        "http://a..b",
        "http://a/v1/chat/completions",
    ],
)
def test_an_upstream_is_an_address(address):
    with pytest.raises(refold.RefoldError, match="upstream_openai"):
        Gateway(GatewayOptions(upstream_openai=address))


def test_unknown_paths_are_refused_where_that_is_wanted(upstream):
    with running_gateway(upstream, strict_paths=True) as gateway:
        statuses = [send(gateway, "GET", path).status for path in ("/v1/models", "/v1/nothing", "/admin")]
    assert statuses == [200, 404, 404]


# -- paths of the gateway's own -----------------------------------------------------------------------------


def test_the_gateway_answers_its_own_paths(gateway, upstream):
    assert send(gateway, "HEAD", "/").status == 200
    assert send(gateway, "GET", "/healthz").body == b"ok\n"
    assert send(gateway, "GET", "/readyz").status == 200
    post(gateway, "/v1/messages", {})
    numbers = send(gateway, "GET", "/metrics").body.decode()
    assert 'refold_gateway_requests_total{model="",outcome="2xx",wire="anthropic"} 1.0' in numbers
    assert len(upstream.seen) == 1


def test_a_person_who_opens_the_address_is_told_what_this_is(gateway, upstream):
    reply = send(gateway, "GET", "/?from=browser", headers=[("Host", "localhost:8377")])
    assert (reply.status, reply.header("content-type")) == (200, "text/plain; charset=utf-8")
    text = reply.body.decode()
    assert text.startswith(f"refold {refold.__version__}, a gateway for clients of OpenAI")
    assert "\nClaude Code: ANTHROPIC_BASE_URL=http://localhost:8377 claude\n" in text
    assert all(path in text for path in ("/healthz", "/readyz", "/metrics", "/inspect"))
    assert send(gateway, "HEAD", "/").body == b""
    assert not upstream.seen
    send(gateway, "POST", "/")
    assert [seen.path for seen in upstream.seen] == ["/v1/"], "only looking is the gateway's own"


def test_a_websocket_is_answered_with_426(gateway, upstream):
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "Bmx+9BvRetEOj5av3dpUww=="),
    ]
    with connect(gateway) as connection:
        connection.sendall(write_request(gateway, "GET", "/v1/responses", b"", headers))
        reply = read_reply(connection)
    assert (reply.status, reply.header("x-refold-error")) == (426, "websocket")
    assert not upstream.seen


def test_draining_refuses_new_requests_and_lets_open_ones_end(gateway, upstream):
    waiting, begun = threading.Event(), threading.Event()
    upstream.script = [lambda line: (begun.set(), waiting.wait(LIMIT), answer_json({"late": 1})(line))]
    with connect(gateway) as connection:
        connection.sendall(write_request(gateway, "POST", "/v1/messages", b"{}", []))
        assert begun.wait(LIMIT)
        draining = asyncio.run_coroutine_threadsafe(gateway.gateway.drain(), gateway.loop)
        while send(gateway, "GET", "/readyz").status != 503:
            pass
        refused = post(gateway, "/v1/messages", {})
        assert not draining.done()
        waiting.set()
        assert read_reply(connection).json == {"late": 1}
        draining.result(LIMIT)
    assert (refused.status, refused.header("x-refold-error")) == (503, "draining")


def test_other_options_hold_for_the_requests_to_come(gateway, upstream):
    with running_upstream() as other:
        good = GatewayOptions(
            port=gateway.gateway.options.port, upstream_openai=other.url, upstream_anthropic=other.url
        )
        assert gateway.gateway.use(good) == ""
        post(gateway, "/v1/messages", {})
        with pytest.raises(refold.RefoldError, match="upstream_openai"):
            gateway.gateway.use(GatewayOptions(upstream_openai="nowhere"))
        post(gateway, "/v1/messages", {})
        assert (len(other.seen), len(upstream.seen)) == (2, 0)
        assert "restart" in gateway.gateway.use(GatewayOptions(port=1))


def test_keys_are_written_nowhere(gateway, upstream, caplog):
    """Canary keys in three headers and the query, also in requests that fail."""
    caplog.set_level(logging.DEBUG)
    canary = "sk-canary-0123456789"
    headers = [("Authorization", f"Bearer {canary}"), ("x-api-key", canary), ("Cookie", canary)]
    path = f"/v1/messages?key={canary}"
    replies = [send(gateway, "POST", path, b"{}", headers)]
    gateway.gateway.use(GatewayOptions(upstream_anthropic="http://127.0.0.1:9", first_byte_seconds=1))
    replies.append(send(gateway, "POST", path, b"{}", headers))
    with connect(gateway) as connection:  # a header that the parser refuses
        connection.sendall(
            f"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization\x00: {canary}\r\n\r\n".encode()
        )
        read_reply(connection)
    assert upstream.seen[0].header("authorization") == f"Bearer {canary}"
    numbers = send(gateway, "GET", "/metrics").body.decode()
    assert (
        canary
        not in caplog.text + numbers + str([reply.headers for reply in replies]) + replies[1].body.decode()
    )


# -- slow readers -------------------------------------------------------------------------------------------


def test_a_slow_reader_slows_its_upstream_and_fills_no_memory(gateway, upstream):
    sent = []

    def pour(line):
        line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        line.socket.settimeout(0.5)  # longer than anybody needs who still reads
        piece = b"data: " + b"x" * 65_528 + b"\n\n"
        try:
            while sum(sent) < 100_000_000:
                line.send(piece)
                sent.append(len(piece))
        except TimeoutError:
            pass
        line.wait_until_left()

    upstream.script = [pour]
    connection = connect(gateway)
    connection.sendall(write_request(gateway, "POST", "/v1/messages", b"{}", []))
    assert connection.recv(10)
    connection.settimeout(LIMIT)
    while not upstream.left.is_set():
        before = len(sent)
        upstream.left.wait(1.0)
        if len(sent) == before:
            break
    connection.close()
    assert upstream.left.wait(LIMIT)
    assert sum(sent) < 50_000_000


def test_a_stream_whose_event_does_not_end_fills_no_memory():
    """What is read for its usage is kept until the event ends; the next one is read as any other."""
    usage = importlib.import_module("refold.gateway.history.usage")
    reader, most = usage.UsageReader(is_stream=True), 0
    for _ in range(200):
        reader.feed(b"x" * 65_536)
        most = max(most, sum(map(len, reader._pieces)))
    assert most <= usage.MAX_BYTES
    reader.feed(b"\n\n")
    reader.feed(b'data: {"usage": {"prompt_tokens": 7}}\n\n')
    assert reader.finish() == {"usage": {"prompt_tokens": 7}}


def test_tiny_messages_fill_no_memory():
    """What an entry takes beside its text counts as well, so that the bound holds for `{"content": "a"}`."""
    memo_module = importlib.import_module("refold.gateway.history.memo")
    chat = importlib.import_module("refold.formats").get("openai")
    call = '{"id": "%d", "type": "function", "function": {"name": "f", "arguments": "{}"}}'
    shapes = '{"role": "user", "content": "%d"}', f'{{"role": "assistant", "tool_calls": [{call}]}}'
    for shape in shapes:
        memo = memo_module.MessageMemo(64 * 1024)
        memo.read_history(chat, [msgspec.Raw(shape.encode() % 0)], "")  # what loads once does not count
        tracemalloc.start()
        try:
            for number in range(2_500):
                memo.read_history(chat, [msgspec.Raw(shape.encode() % number)], "")
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert taken < 6 * 64 * 1024


@pytest.mark.parametrize("holder", ["x_groq", "interaction"])
def test_usage_that_stands_in_a_field_of_its_own_is_read(holder):
    usage = importlib.import_module("refold.gateway.history.usage")
    reader = usage.UsageReader(is_stream=True)
    reader.feed(b'data: {"' + holder.encode() + b'": {"usage": {"prompt_tokens": 7}}}\n\n')
    assert reader.finish() == {"usage": {"prompt_tokens": 7}}


def test_a_reader_who_reads_nothing_is_left(upstream):
    def pour(line):
        line.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        try:
            while True:
                line.send(b"data: " + b"x" * 65_528 + b"\n\n")
        except OSError:
            line.left.set()
            raise

    upstream.script = [pour]
    with running_gateway(upstream, idle_seconds=0.5) as gateway, connect(gateway) as connection:
        connection.sendall(write_request(gateway, "POST", "/v1/messages", b"{}", []))
        assert upstream.left.wait(LIMIT)


# -- where a name leads -------------------------------------------------------------------------------------


@pytest.fixture
def named_here(monkeypatch):
    """Every name in `.example` leads to this machine."""
    real = socket.getaddrinfo

    def resolve(host, port, *arguments, **options):
        is_ours = str(host).endswith(".example")
        return real("127.0.0.1" if is_ours else host, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def test_a_public_name_that_leads_inside_is_refused(upstream, named_here):
    """Nothing of a request arrives there, in no wire and on no path, unless the operator wants it."""
    port = upstream.url.rpartition(":")[2]
    names = {f"upstream_{name}": f"http://models.example:{port}" for name in ("openai", "anthropic")}
    with running_gateway(upstream, **names) as gateway:
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/models"):
            reply = post(gateway, path, {})
            assert (reply.status, reply.header("x-refold-error")) == (502, "upstream-address")
    assert upstream.seen == []
    with running_gateway(upstream, allow_internal=("models.example",), **names) as gateway:
        assert post(gateway, "/v1/messages", {}).status == 200


def test_an_internal_name_leads_inside(upstream):
    port = upstream.url.rpartition(":")[2]
    with running_gateway(upstream, upstream_anthropic=f"http://localhost:{port}") as gateway:
        assert post(gateway, "/v1/messages", {}).status == 200


def test_headers_that_are_too_long_are_refused(gateway, upstream):
    """Up to 64 kB go through, in one header or in all of them together."""
    for sizes, status in (([60_000], 200), ([70_000], 400), ([30_000] * 2, 200), ([30_000] * 3, 400)):
        headers = [("x-long", "a" * size) for size in sizes]
        reply = send(gateway, "POST", "/v1/messages", b"{}", headers)
        assert (reply.status, reply.header("x-refold-error")) == (
            status,
            "request" if status == 400 else None,
        )
    assert len(upstream.seen) == 2
