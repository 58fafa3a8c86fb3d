"""What is not folded goes on byte for byte, and so does every answer."""

import gzip
import json
import os
import random
import string
import threading

import pytest
from recording_upstream import (
    answer,
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

import refold.gateway
from refold.gateway import HistoryOptions

EXAMPLES = int(os.environ.get("REFOLD_EXAMPLES", "300"))
"""Fuzzed bodies; the acceptance run sends 10,000."""


@pytest.fixture(scope="module")
def pair():
    with running_upstream() as upstream, running_gateway(upstream) as gateway:
        yield upstream, gateway


@pytest.fixture
def upstream(pair):
    upstream = pair[0]
    upstream.seen.clear()
    upstream.left.clear()
    upstream.script = [answer_json({"ok": True})]
    return upstream


@pytest.fixture
def gateway(pair, upstream):
    return pair[1]


def make_value(rng: random.Random, depth: int = 0):
    """A JSON value as nobody would write it."""
    kind = rng.randrange(8 if depth < 4 else 5)
    if kind == 0:
        return rng.choice([None, True, False, 0, -1, 1e300, 0.1, 12345678901234567890])
    if kind <= 3:
        letters = string.printable + "äß漢\u2028😀\x00"
        return "".join(rng.choices(letters, k=rng.randrange(30)))
    if kind == 4:
        return rng.randrange(10**9)
    if kind == 5:
        return [make_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {f"k{rng.randrange(50)}": make_value(rng, depth + 1) for _ in range(rng.randrange(4))}


def make_body(rng: random.Random) -> bytes:
    """A body of a request with unknown fields, odd blanks and odd order; some are no JSON at all."""
    value = {f"field_{n}": make_value(rng) for n in range(rng.randrange(4))}
    messages = [
        {
            "role": rng.choice(["user", "assistant", "system", "x"]),
            "content": make_value(rng),
            "odd": make_value(rng),
        }
        for _ in range(rng.randrange(5))
    ]
    value[rng.choice(["messages", "input", "prompt"])] = rng.choice([messages, "text", None, {}, messages])
    value["model"] = make_value(rng)
    indent, ascii_only = rng.choice([None, 0, 3]), rng.random() < 0.5
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    body = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        body = body[: rng.randrange(len(body))]
    if rng.random() < 0.05:
        body = rng.randbytes(rng.randrange(1, 200))
    return body


def test_fuzzed_bodies_and_answers_arrive_to_the_byte(gateway, upstream):
    rng = random.Random(17)
    paths = [
        "/v1/messages",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages/count_tokens",
        "/v1/embeddings",
    ]
    for _ in range(EXAMPLES):
        sent, answered = make_body(rng), make_body(rng)
        upstream.script = [answer(rng.choice([200, 400, 429, 500, 529]), answered)]
        reply = send(gateway, "POST", rng.choice(paths), sent)
        assert upstream.seen[-1].body == sent
        assert reply.body == answered


def test_events_cut_at_every_byte_arrive_as_they_were(gateway, upstream):
    events = b'event: ping\ndata: {"type": "ping"}\n\n: a comment\r\n\r\ndata: {"text": "\xc3\xa4"}\n\ndata: [DONE]\n\n'
    for cut in range(1, len(events)):
        upstream.script = [stream(events[:cut], events[cut:])]
        assert post(gateway, "/v1/messages", {}).body == events
    upstream.script = [stream(*(events[at : at + 1] for at in range(len(events))))]
    assert post(gateway, "/v1/chat/completions", {}).body == events


def test_headers_keep_their_order_and_spelling(gateway, upstream):
    headers = [
        ("Anthropic-Beta", "context-1m-2025-08-07,other"),
        ("anthropic-version", "2023-06-01"),
        ("X-Stainless-OS", "Linux"),
        ("OpenAI-Organization", "org"),
        ("X-Twice", "1"),
        ("Idempotency-Key", "k"),
        ("X-Twice", "2"),
        ("traceparent", "00-aa-bb-01"),
        ("x-refold-session", "mine"),
        ("Keep-Alive", "5"),
        ("TE", "trailers"),
        ("X-Secret-Hop", "gone"),
        ("Connection", "keep-alive, X-Secret-Hop"),
    ]
    upstream.script = [
        answer(
            200,
            b"{}",
            [
                ("request-id", "r1"),
                ("Retry-After", "3"),
                ("x-ratelimit-remaining", "7"),
                ("anthropic-ratelimit-x", "8"),
                ("Set-Cookie", "a=1"),
                ("Set-Cookie", "b=2"),
                ("Keep-Alive", "timeout=5"),
            ],
        )
    ]
    with connect(gateway) as connection:
        connection.sendall(write_request(gateway, "POST", "/v1/models?beta=true&x=%2F", b"{}", headers))
        reply = read_reply(connection)
    seen = upstream.seen[-1]
    assert seen.line == "POST /v1/models?beta=true&x=%2F HTTP/1.1"
    passed = [
        pair
        for pair in headers
        if pair[0].lower() not in {"x-refold-session", "keep-alive", "te", "x-secret-hop", "connection"}
    ]
    assert [pair for pair in seen.headers if pair[0] not in {"Host", "Content-Length"}] == passed
    assert seen.header("host") == upstream.url.removeprefix("http://")
    kept = [pair for pair in reply.headers if pair[0].lower() not in {"date", "server", "content-type"}]
    assert kept == [
        ("Content-Length", "2"),
        ("request-id", "r1"),
        ("Retry-After", "3"),
        ("x-ratelimit-remaining", "7"),
        ("anthropic-ratelimit-x", "8"),
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
    ]


def test_headers_beyond_ascii_go_through(gateway, upstream):
    """UTF-8 as it is; an older encoding becomes UTF-8."""
    head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Old: M\u00e4rz\r\n".encode("latin-1")
    upstream.script = [lambda line: line.send(head + "X-New: M\u00e4rz\r\n\r\n".encode())]
    with connect(gateway) as connection:
        start = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
        connection.sendall(
            start + "X-Old: M\u00e4rz\r\n".encode("latin-1") + "X-New: M\u00e4rz\r\n\r\n".encode()
        )
        reply = read_reply(connection)
    assert (reply.header("x-old"), reply.header("x-new")) == ("M\u00e4rz", "M\u00e4rz")
    seen = upstream.seen[-1]
    assert (seen.header("x-old"), seen.header("x-new")) == ("M\u00e4rz", "M\u00e4rz")


def test_only_paths_with_a_history_are_read_uncompressed(gateway, upstream):
    asked = ("Accept-Encoding", "gzip, br")
    send(gateway, "POST", "/v1/messages", b"{}", [asked])
    send(gateway, "GET", "/v1/models", b"", [asked])
    assert [seen.header("accept-encoding") for seen in upstream.seen] == ["identity", "gzip, br"]


def test_compressed_bodies_and_answers_stay_compressed(gateway, upstream):
    packed = gzip.compress(b'{"messages": [], "model": "m"}')
    upstream.script = [answer(200, packed, [("Content-Encoding", "gzip")])]
    reply = send(gateway, "POST", "/v1/messages", packed, [("Content-Encoding", "gzip")])
    assert upstream.seen[-1].body == packed
    assert (reply.body, reply.header("content-encoding")) == (packed, "gzip")


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize(
    ("text", "is_elsewhere"),
    [
        (b'{"messages": []}', False),
        (b'{"messages": []}' + b" " * 2_000_000, True),
        (random.Random(1).randbytes(1_500_000), True),
    ],
    ids=["small", "small until it is decoded", "large"],
)
def test_large_bodies_are_decoded_outside_of_the_event_loop(upstream, monkeypatch, text, is_elsewhere):
    """All other requests wait for what the event loop does."""
    decoded = []

    def decode(*arguments):
        result = decode_body(*arguments)
        decoded.append((len(result), threading.get_ident()))
        return result

    decode_body = refold.gateway.exchange.decode_body
    monkeypatch.setattr("refold.gateway.exchange.decode_body", decode)

    async def find_thread():
        return threading.get_ident()

    with running_gateway(upstream, HistoryOptions(store="memory:")) as gateway:
        headers = [("Content-Encoding", "gzip")]
        assert send(gateway, "POST", "/v1/messages", gzip.compress(text), headers).status == 200
        ((size, thread),) = decoded
        assert size == len(text)
        assert (thread != gateway.call(find_thread)) is is_elsewhere


@pytest.mark.parametrize(
    ("path", "headers", "arrives"),
    [
        ("/v1/chat/completions", [], "/v1/chat/completions"),
        ("/chat/completions", [], "/v1/chat/completions"),
        ("/openai/v1/responses", [], "/v1/responses"),
        ("/anthropic/v1/messages?beta=true", [], "/v1/messages?beta=true"),
        ("/messages/count_tokens", [], "/v1/messages/count_tokens"),
        ("/v1/responses/resp_1", [], "/v1/responses/resp_1"),
        ("/v1/responses/compact", [], "/v1/responses/compact"),
        ("/v1/models/a%2Fb/c", [("x-api-key", "k")], "/v1/models/a%2Fb/c"),
        ("/v1", [], "/v1"),  # the base address that SDKs are given
        ("/anthropic", [], "/"),
        ("/api/event_logging/batch", [("anthropic-version", "v")], "/api/event_logging/batch"),
        ("//elsewhere.example/v1/messages", [("anthropic-version", "v")], "//elsewhere.example/v1/messages"),
        (
            "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
            [],
            "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
        ),
        ("/gemini/v1beta/models", [], "/v1beta/models"),
        ("/@elsewhere.example/x", [("anthropic-version", "v")], "/@elsewhere.example/x"),
    ],
)
def test_paths_arrive_at_the_configured_upstream(gateway, upstream, path, headers, arrives):
    assert send(gateway, "POST", path, b"{}", headers).status == 200
    assert upstream.seen[-1].path == arrives


def test_each_wire_has_its_own_upstream():
    with running_upstream() as one, running_upstream() as two, running_upstream() as three:
        addresses = {"upstream_openai": f"{one.url}/base/v1", "upstream_anthropic": f"{two.url}/proxy"}
        addresses["upstream_gemini"] = three.url
        with running_gateway(**addresses) as gateway:
            send(gateway, "POST", "/v1/chat/completions", b"{}")
            send(gateway, "POST", "/v1/messages", b"{}")
            send(gateway, "GET", "/v1/models")
            send(gateway, "GET", "/v1/models", b"", [("x-api-key", "k")])
            send(gateway, "GET", "/upload/v1beta/files", b"", [("x-goog-api-key", "k")])
            assert [seen.path for seen in one.seen] == ["/base/v1/chat/completions", "/base/v1/models"]
            assert [seen.path for seen in two.seen] == ["/proxy/v1/messages", "/proxy/v1/models"]
            assert [seen.path for seen in three.seen] == ["/upload/v1beta/files"]


@pytest.mark.parametrize(
    ("base", "root"),
    [
        ("", "/v1"),
        ("/", "/v1"),
        ("/v1/", "/v1"),
        ("/api/paas/v4", "/api/paas/v4"),
        ("/v1beta/openai/", "/v1beta/openai"),  # Gemini
        ("/inference", "/inference"),  # GitHub Models
        ("/openai/deployments/gpt-4o", "/openai/deployments/gpt-4o"),  # Azure
        ("/v1/account/gateway/compat", "/v1/account/gateway/compat"),  # Cloudflare
    ],
)
def test_a_path_of_an_openai_upstream_is_the_root_of_its_interface(base, root):
    asked = ("/v1/chat/completions", "/chat/completions", "/openai/v1/models", "/v1/rerank")
    with running_upstream() as upstream:
        with running_gateway(upstream_openai=upstream.url + base) as gateway:
            for path in asked:
                send(gateway, "POST", path, b"{}")
        arrived = [seen.path for seen in upstream.seen]
    assert arrived == [
        root + path for path in ("/chat/completions", "/chat/completions", "/models", "/rerank")
    ]


def test_no_field_header_or_query_names_an_upstream(gateway, upstream):
    """Where a key goes is the operator's matter: whoever listens elsewhere hears nothing."""
    names = ("api_base", "base_url", "api-base", "x-api-base", "x-forwarded-host", "x-original-url")
    with running_upstream() as canary:
        for path in ("/v1/messages", "/v1/chat/completions", "/v1/responses"):
            query = "&".join(f"{name}={canary.url}" for name in names)
            body = {"model": f"openai/{canary.url}", **dict.fromkeys(names, canary.url), "messages": []}
            headers = {name.replace("-", "_"): canary.url for name in names}
            assert post(gateway, f"{path}?{query}", body, **headers).status == 200
            assert upstream.seen[-1].json == body
        assert canary.seen == []


def test_a_redirect_is_passed_on_and_not_followed(gateway, upstream):
    upstream.script = [answer(307, b"", [("Location", "http://elsewhere.example/")])]
    reply = post(gateway, "/v1/messages", {})
    assert (reply.status, reply.header("location")) == (307, "http://elsewhere.example/")
    assert len(upstream.seen) == 1


def test_an_upload_in_chunks_is_passed_on_as_it_comes(gateway, upstream):
    body = b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    reply = send(gateway, "POST", "/v1/files", body, [("Transfer-Encoding", "chunked")])
    assert (reply.status, upstream.seen[-1].body) == (200, b"hello world")


def test_a_caller_that_waits_to_send_its_body_is_told_to_go_on(gateway, upstream):
    head = write_request(
        gateway, "POST", "/v1/messages", b"", [("Expect", "100-continue"), ("Content-Length", "2")]
    )
    with connect(gateway) as connection:
        connection.sendall(head)
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert read_reply(connection).status == 200
    assert upstream.seen[-1].header("expect") is None


def test_one_connection_serves_many_requests(gateway, upstream):
    with connect(gateway) as connection:
        for number in range(5):
            connection.sendall(write_request(gateway, "POST", "/v1/messages", b"%d" % number, []))
            assert read_reply(connection).status == 200
    assert [seen.body for seen in upstream.seen] == [b"0", b"1", b"2", b"3", b"4"]


def test_the_head_of_an_answer_without_a_body_keeps_its_length(gateway, upstream):
    upstream.script = [lambda line: line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n")]
    reply = send(gateway, "HEAD", "/v1/models")
    assert (reply.status, reply.header("content-length"), reply.body) == (200, "12", b"")
