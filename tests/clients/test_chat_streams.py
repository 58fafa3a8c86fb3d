"""Words arrive as they are sent; what breaks is told with what had come; whoever leaves drops the line."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

import fake_provider as fake
import refold
from fake_provider import HURRIED, LLAMA_CPP, PATIENT, VLLM, FakeProvider, data, says, sends, status, stream
from refold.clients import Delta, open_chat_client
from refold.errors import AnswerFailed, Overflow

WAIT = 10.0
"""Seconds after which something that should have happened has not, on a busy machine."""


@pytest.fixture
def connect(provider):
    def open_(wire, **options):
        return open_chat_client(
            provider.address(wire), environment=provider.environment(), **{**PATIENT, **options}
        )

    return open_


def ask(client, **more):
    return client.chat([client.user("?")], **more)


class Paced:
    """Sends a stream one event at a time, each only when it is told to."""

    def __init__(self, text="One two three four."):
        self.text = text
        self.go = threading.Semaphore(0)
        self.said = ""
        self.sent = threading.Event()
        self.gone = threading.Event()

    def step(self):
        """Let one event be sent, and wait until it is."""
        self.sent.clear()
        self.go.release()
        assert self.sent.wait(WAIT)

    def __call__(self, connection):
        connection.head()
        events = stream(connection.request.wire, self.text, pieces=4).split(b"\n\n")
        try:
            for event in events[:-1]:
                while not self.go.acquire(timeout=0.01):
                    self._look(connection)
                connection.send(event + b"\n\n")
                words = re.findall(rb'"(?:text|content|delta)": "(.)"', event)
                self.said += b"".join(words).decode()
                self.sent.set()
        except OSError:
            self.gone.set()

    def _look(self, connection):
        """Notice that the other side has left: it sends nothing, so that reading means the end."""
        if connection.stopping.is_set():
            raise OSError
        connection.socket.setblocking(False)
        try:
            if connection.socket.recv(1, socket.MSG_PEEK) == b"":
                raise OSError("left")
        except BlockingIOError:
            pass
        finally:
            connection.socket.setblocking(True)


def test_words_arrive_as_they_are_sent(provider, connect, wire):
    """Each word is there before the provider is allowed to send the next event."""
    paced = Paced("abcd")
    provider.script = [paced]
    got, came = [], threading.Event()

    def listen():
        for part in ask(connect(wire)):
            got.append(part)
            came.set()

    thread = threading.Thread(target=listen)
    thread.start()
    for word in "abcd":
        while not paced.said.endswith(word):
            paced.step()
        assert came.wait(WAIT)
        came.clear()
        assert got[-1] == Delta(word)
    while thread.is_alive():
        paced.go.release()
        thread.join(0.01)
    assert got[-1].text == "abcd"


def _next(replying, paced):
    """The next part, however many events it takes."""
    got = []
    thread = threading.Thread(target=lambda: got.append(next(replying)))
    thread.start()
    while thread.is_alive():
        paced.go.release()
        thread.join(0.05)
    return got[0]


# -- failures ----------------------------------------------------------------------------------------------

ERROR = {"error": {"message": "it is broken", "type": "server_error"}}
FAILURES = {
    "401": (status(401), "check", False),
    "500": (status(500, ERROR, retry_after="0"), "500): it is broken", False),
    "hangs before headers": (fake.hang_before_headers, "did not answer within 0.6 seconds", False),
    "hangs mid-stream": (fake.hang_mid_stream, "said nothing for 0.3 seconds", True),
    "pings for ever": (fake.pings_for_ever, "did not answer within 0.6 seconds", False),
    "hangs up": (fake.hang_up, "broke off without an answer", False),
    "cut": (fake.cut_stream, "broke off in the middle", True),
    "short": (fake.short_stream, "before the answer was complete", True),
    "html": (sends(b"<html>Login</html>", "text/html"), "answered with text/html", False),
    "empty stream": (sends(b""), "empty stream", False),
    "not json": (sends(b"data: {oops\n\n"), "not JSON", False),
    "error after 200": (fake.fails_after_200(ERROR), "failed while answering: it is broken", None),
    "unknown shape": (sends(b'{"hello": 1}', "application/json"), "unknown shape", False),
}
HANGS = ("hangs before headers", "hangs mid-stream", "pings for ever")


@pytest.mark.each_value
@pytest.mark.parametrize("name", FAILURES)
def test_every_failure_is_told_with_what_had_come(provider, connect, wire, name):
    behaviour, why, begun = FAILURES[name]
    provider.script = [behaviour]
    pieces = []
    with pytest.raises(AnswerFailed) as caught:
        pieces.extend(ask(connect(wire, **(HURRIED if name in HANGS else PATIENT))))
    error = caught.value
    assert why in str(error)
    assert "\n" not in str(error)
    assert refold.overflow(error) is None
    assert error.__context__ is None
    said = "".join(piece.text for piece in pieces)
    assert said == (error.partial.text if error.partial else "")
    assert begun is None or bool(said) == begun
    if said:
        assert error.partial.finish == "cut"
        assert "Half of an answer".startswith(said)
        client = connect(wire)
        assert refold.validate([client.user("?"), *error.partial.messages], client.format) == []


@pytest.mark.parametrize(
    ("behaviour", "limit"),
    [
        (status(400, LLAMA_CPP), 4_096),
        (status(400, VLLM), 4_096),
        (status(413), None),
        (fake.fails_after_200(fake.ANTHROPIC), 200_000),
    ],
)
def test_a_refusal_for_size_is_seen(provider, connect, wire, behaviour, limit):
    provider.script = [behaviour]
    with pytest.raises(AnswerFailed, match="for its size") as caught:
        list(ask(connect(wire)))
    assert isinstance(caught.value.cause, Overflow)
    assert refold.overflow(caught.value).limit == limit
    assert len(provider.seen) == 1  # never sent again as it was


def test_a_session_recovers_from_it(provider, connect):
    """The loop that a program writes: prepare, client, observe, and again where that says so."""
    provider.script = [status(400, VLLM), says("Here.")]
    client = connect("compatible")
    session = refold.open("chat", store="memory:", window="16k", format=client.format)
    for number in range(60):
        session.say(client.user(f"question {number} " + "words " * 100))
        session.say({"role": "assistant", "content": f"answer {number} " + "words " * 100})
    session.say(client.user("and now?"))
    messages = session.prepare().messages
    with pytest.raises(AnswerFailed) as caught:
        list(client.chat(messages))
    again = session.observe(caught.value)
    assert again
    *_, reply = client.chat(again.messages)
    session.observe(reply.response)
    session.say(list(reply.messages))
    assert reply.text == "Here."
    assert len(provider.seen[1].json["messages"]) < len(provider.seen[0].json["messages"])


def test_what_may_pass_is_tried_again_before_any_word(provider, connect, wire):
    provider.script = [status(503, ERROR, retry_after="0"), says("Now.")]
    client = connect(wire)
    *pieces, reply = ask(client)
    assert "".join(piece.text for piece in pieces) == reply.text == "Now."
    assert len(provider.seen) == 2


@pytest.mark.parametrize(("code", "requests"), [(500, 3), (400, 1)])
def test_a_turn_is_tried_three_times_where_that_may_help(code, requests, provider, connect, wire):
    provider.script = [status(code, ERROR, retry_after="0")]
    with pytest.raises(AnswerFailed):
        list(ask(connect(wire)))
    assert len(provider.seen) == requests


def test_nothing_is_tried_again_after_a_word(provider, connect, wire):
    provider.script = [fake.cut_stream, says("A second time.")]
    with pytest.raises(AnswerFailed):
        list(ask(connect(wire)))
    assert len(provider.seen) == 1


def test_a_failure_does_not_shut_the_client(provider, connect):
    """People try again at once; summaries are another matter."""
    provider.script = [fake.hang_before_headers, says("Here.")]
    client = connect("compatible", **HURRIED)
    with pytest.raises(AnswerFailed):
        list(ask(client))
    assert list(ask(connect("compatible")))[-1].text == "Here."


# -- leaving -----------------------------------------------------------------------------------------------


def begun(provider, connect, wire="compatible"):
    """An answer that has begun and waits."""
    paced = Paced()
    provider.script = [paced]
    replying = ask(connect(wire))
    first = _next(replying, paced)
    assert isinstance(first, Delta)
    return paced, replying


def test_closing_the_iterator_drops_the_line(provider, connect, wire):
    paced, replying = begun(provider, connect, wire)
    replying.close()
    assert paced.gone.wait(WAIT)
    with pytest.raises(StopIteration):
        next(replying)


def test_forgetting_the_iterator_drops_the_line(provider, connect):
    paced, replying = begun(provider, connect)
    del replying
    assert paced.gone.wait(WAIT)


def test_an_iterator_that_nobody_began_sends_nothing(provider, connect):
    ask(connect("compatible")).close()
    assert provider.seen == []


def test_closing_the_client_from_another_thread(provider, connect):
    paced = Paced()
    provider.script = [paced]
    client = connect("compatible")
    replying = ask(client)
    assert isinstance(_next(replying, paced), Delta)
    threading.Timer(0.05, client.close).start()
    with pytest.raises(AnswerFailed, match="was left") as caught:
        list(replying)
    assert caught.value.partial.text
    assert paced.gone.wait(WAIT)
    client.close()


PROGRAM = """
import sys
from refold.clients import open_chat_client
client = open_chat_client(sys.argv[1])
try:
    for part in client.chat([client.user("?")]):
        print(part.text, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_drops_the_line(tmp_path):
    """Ctrl-C while the provider is silent: a real process, a real signal."""
    paced = Paced()
    with FakeProvider(script=[paced]) as provider:
        command = [sys.executable, "-c", PROGRAM, f"{provider.url}/v1#m"]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            for _ in range(2):
                paced.go.release()
            assert process.stdout.readline().strip()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            assert paced.gone.wait(WAIT)
            assert process.wait(WAIT) == 0
        finally:
            process.kill()
            process.stdout.close()
            process.wait()


# -- size --------------------------------------------------------------------------------------------------


def test_a_long_answer_arrives_whole(provider, connect):
    """Twenty thousand events."""
    words = [{"choices": [{"index": 0, "delta": {"content": f"word{at} "}}]} for at in range(20_000)]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    provider.script = [sends(data(*words, end))]
    *pieces, reply = ask(connect("compatible"))
    assert len(pieces) == 20_000
    assert len(reply.text.split()) == 20_000


def test_an_endless_answer_ends(provider, connect, monkeypatch):
    monkeypatch.setattr("refold.clients.http.exchange.MAX_REPLY_BYTES", 1_000_000)
    provider.script = [fake.huge]
    with pytest.raises(AnswerFailed, match="more than 1,000,000 bytes") as caught:
        list(ask(connect("compatible")))
    assert json.dumps(caught.value.partial.text).count("x") > 500_000
