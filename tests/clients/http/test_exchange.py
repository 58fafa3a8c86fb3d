"""An exchange without a network: any cut of the bytes gives one answer, any bytes give an answer or a failure."""

import asyncio
import json
import signal
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_provider import BODIES, stream
from refold import Answer, Ask
from refold.clients.http.exchange import MAX_REFUSAL_BYTES, ask, fail, step
from refold.clients.http.failures import Failure, read_retry_after
from refold.clients.http.sse import Event, SseParser
from refold.clients.http.sync_bridge import BackgroundCall, Cancelled
from refold.clients.http.transport import _explain_network_error
from refold.clients.http.wire import Head, Request, Target
from refold.clients.providers import anthropic, gemini, openai_chat, openai_responses

WIRES = {
    "chat": openai_chat.WIRE,
    "anthropic": anthropic.WIRE,
    "responses": openai_responses.WIRE,
    "gemini": gemini.WIRE,
}
TARGET = Target(base="http://host/v1", model="m", key="secret", key_variable="KEY")
EVENTS, JSON = (
    Head(status=200, content_type="text/event-stream"),
    Head(status=200, content_type="application/json"),
)


def played(wire, head, *chunks):
    """What an exchange gives for a response in these pieces."""
    exchange = ask(wire, TARGET, Ask("What?", max_tokens=9))
    assert isinstance(step(exchange, None), Request)
    got = step(exchange, head)
    for chunk in (*chunks, b""):
        if got is None:
            got = step(exchange, chunk)
    return got


@pytest.mark.parametrize("name", WIRES)
@given(
    cuts=st.lists(st.integers(0, 2000), max_size=8), text=st.text(st.characters(exclude_categories=["Cs"]))
)
def test_any_cut_gives_the_same_answer(name, cuts, text):
    raw = stream(name, text)
    places = sorted(min(cut, len(raw)) for cut in cuts)
    chunks = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True) if a < b]
    assert played(WIRES[name], EVENTS, *chunks) == played(WIRES[name], EVENTS, raw)


WORDS = st.sampled_from(
    [
        *("type", "choices", "delta", "message", "content", "text", "tool_calls", "index", "finish_reason"),
        *("candidates", "parts", "finishReason", "usage", "usageMetadata", "output", "response", "status"),
        *("content_block", "stop_reason", "promptFeedback", "blockReason", "error", "refusal", "model"),
    ]
)
LEAVES = st.sampled_from(
    [
        *(None, True, 0, 7, -1.5, "", "x", "stop", "message_start", "content_block_start"),
        *("content_block_delta", "message_delta", "message_stop", "text_delta"),
        *("response.completed", "response.output_text.delta"),
    ]
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=6,
)


@pytest.mark.parametrize("name", WIRES)
@given(values=st.lists(VALUES, max_size=3), head=st.sampled_from([EVENTS, JSON]))
def test_whatever_comes_is_an_answer_or_a_failure(name, values, head):
    lines = [f"data: {json.dumps(value)}\n\n" for value in values]
    raw = "".join(lines) if head is EVENTS else json.dumps(values[0] if values else None)
    with suppress(Failure):
        assert isinstance(played(WIRES[name], head, raw.encode()), Answer)


@pytest.mark.parametrize("name", WIRES)
@given(values=st.data())
def test_a_body_with_a_wrong_value_anywhere_is_an_answer_or_a_failure(name, values):
    body = BODIES[name]("text", "stop", "hm", 1, False, (1, 2))
    place, depth = body, values.draw(st.integers(0, 4))
    for _ in range(depth):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = values.draw(st.sampled_from(keys)) if keys else None
        if key is None or not isinstance(place[key], dict | list):
            break
        place = place[key]
    if place:
        key = values.draw(
            st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place))))
        )
        place[key] = values.draw(VALUES)
    with suppress(Failure):
        assert isinstance(played(WIRES[name], JSON, json.dumps(body).encode()), Answer)


@given(st.binary(max_size=200), st.integers(100, 599))
def test_any_refusal_is_a_failure(raw, status):
    head = Head(status=status if status != 200 else 201)
    with pytest.raises(Failure):
        played(openai_chat.COMPATIBLE, head, raw)


def test_a_refusal_is_read_only_in_part():
    head = Head(status=500)
    exchange = ask(openai_chat.WIRE, TARGET, Ask("?"))
    step(exchange, None)
    step(exchange, head)
    with pytest.raises(Failure, match=r"failed \(500\)"):
        step(exchange, b"x " * MAX_REFUSAL_BYTES)


def test_a_refusal_that_breaks_off_is_still_a_refusal():
    exchange = ask(openai_chat.WIRE, TARGET, Ask("?"))
    step(exchange, None)
    step(exchange, Head(status=404))
    step(exchange, b'"no such')
    with pytest.raises(Failure, match="no such"):
        fail(exchange, Failure("broke"))


def test_a_plain_text_may_be_asked():
    request = step(ask(openai_chat.WIRE, TARGET, "What?"), None)
    assert json.loads(request.body)["messages"] == [{"role": "user", "content": "What?"}]
    assert "secret" not in repr(request)
    assert "secret" not in repr(TARGET)


# -- waiting in a thread -----------------------------------------------------------------------------------


def wait(start, seconds):
    """Wait in this thread for what a coroutine returns."""
    return BackgroundCall(lambda _emit: start(), "test").wait(seconds)


class Hanging:
    """A coroutine that sleeps, and an event that tells that it was cancelled."""

    def __init__(self):
        self.begun, self.left = threading.Event(), threading.Event()

    async def __call__(self, _emit=None):
        self.begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.left.set()


def test_a_thread_gets_what_a_coroutine_returns_or_raises():
    async def gives():
        return await asyncio.sleep(0, "given")

    async def raises():
        raise ValueError("raised")

    assert wait(gives, 5) == "given"
    with pytest.raises(ValueError, match="raised"):
        wait(raises, 5)


def test_a_thread_leaves_a_coroutine_that_takes_too_long():
    hangs = Hanging()
    assert wait(hangs, 0.1) is None
    assert hangs.left.wait(60)


def test_an_interrupt_cancels_the_coroutine():
    """A real signal, while the main thread waits."""
    hangs = Hanging()

    def interrupt():
        hangs.begun.wait(30)
        # To the main thread: a signal of another thread does not end its wait.
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        wait(hangs, 60)
    assert hangs.left.wait(60)


@pytest.mark.parametrize("method", ["wait", "pieces"])
def test_an_interrupt_while_the_thread_starts_cancels_too(method, monkeypatch):
    hangs = Hanging()
    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        hangs.begun.wait(30)
        raise KeyboardInterrupt

    call = BackgroundCall(hangs, "test")
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call.wait(60) if method == "wait" else next(call.pieces())
    assert hangs.left.wait(60)


def test_an_interrupt_before_the_thread_runs_is_raised(monkeypatch):
    def interrupted(_thread):
        raise KeyboardInterrupt

    call = BackgroundCall(Hanging(), "test")
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(call.pieces())


def test_a_thread_may_be_waited_for_inside_an_event_loop():
    async def gives():
        return "given"

    async def outer():
        return wait(gives, 5)

    assert asyncio.run(outer()) == "given"


def test_a_call_that_is_cancelled_before_it_runs():
    async def never(_emit):
        raise AssertionError("it was cancelled before it began")

    call = BackgroundCall(never, "test")
    call.cancel()
    with pytest.raises(Cancelled):
        next(call.pieces())


# -- events out of bytes -------------------------------------------------------------------------------------


def read(*chunks):
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + list(parser.close())


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        (b"data: one\n\ndata: two\n\n", [Event("one"), Event("two")]),
        (b"data: one\r\rdata: two\r\n\r\n", [Event("one"), Event("two")]),
        (b"data: one\ndata:two\ndata\n\n", [Event("one\ntwo\n")]),
        (b"event: error\ndata: x\n\ndata: y\n\n", [Event("x", "error"), Event("y")]),
        (b": hello\n\ndata: x\n: there\n\n", [Event("x")]),
        (b"\xef\xbb\xbfdata: x\n\n", [Event("x")]),
        (b"data: \xef\xbb\xbfx\n\n", [Event("\ufeffx")]),
        (b"id: 7\nretry: 10\nfoo: bar\ndata:  two blanks\n\n", [Event(" two blanks")]),
        (b"event: ping\n\n", []),
        (b"data:\n\n", []),
        (b"data: no end", [Event("no end")]),
        (b"data: \xff\n\n", [Event("\ufffd")]),
        (b"", []),
    ],
)
def test_framing(raw, events):
    assert read(raw) == events
    assert read(*[bytes([byte]) for byte in raw]) == events


ENDS = st.sampled_from(["\n", "\r\n", "\r"])
TEXTS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=3), max_size=4), ENDS, st.data())
def test_cuts_change_nothing(texts, end, cuts):
    raw = "".join("".join(f"data: {line}{end}" for line in lines) + end for lines in texts).encode()
    places = sorted(cuts.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    chunks = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
    assert read(*chunks) == [Event("\n".join(lines)) for lines in texts]


# -- errors and waits ----------------------------------------------------------------------------------------


def test_a_certificate_that_is_not_trusted_is_told_and_not_tried_again():
    class ConnectError(Exception):
        """As the library raises it."""

    failure = _explain_network_error(
        ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"), has_begun=False
    )
    assert "certificate" in failure.reason
    assert not failure.is_transient


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "x", "retry-after": "1"}, 1.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "Thu, 01 Jan 99999 00:00:00 GMT"}, None),
    ],
)
def test_what_a_provider_says_about_waiting(headers, wait):
    assert read_retry_after(headers, 10.0) == wait
