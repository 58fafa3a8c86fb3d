"""A provider on a real socket that speaks four wires and misbehaves as it is told.

    with FakeProvider() as provider:
        provider.script = [status(500), says("Done.")]       # one behaviour a request; the last one stays
        ask(f"{provider.url}/v1#model")
        provider.seen[0].json["messages"]

A behaviour is a callable that is given the open connection and writes what it likes to it, byte by byte.
"""

import json
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

PATIENT = {"total_seconds": 30.0}
"""Deadlines for what answers or fails by itself, however busy the machine is."""
HURRIED = {"total_seconds": 0.6, "idle_seconds": 0.3}
"""Deadlines for what hangs."""

LLAMA_CPP = {
    "error": {
        "code": 400,
        "message": "request (6030 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 6030,
        "n_ctx": 4096,
    }
}
VLLM = {
    "error": {
        "message": "This model's maximum context length is 4096 tokens. However, you requested 6050 tokens (6030 in the messages, 20 in the completion). Please reduce the length of the messages or completion.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
}
ANTHROPIC = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "prompt is too long: 213462 tokens > 200000 maximum",
    },
}
"""How servers refuse a question for its size."""

WIRES = {
    "/chat/completions": "chat",
    "/v1/messages": "anthropic",
    "/responses": "responses",
    ":streamGenerateContent": "gemini",
}


@dataclass
class Seen:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    json: Any
    raw: bytes = field(default=b"", repr=False)

    @property
    def wire(self) -> str:
        return next((wire for end, wire in WIRES.items() if end in self.path), "")


@dataclass
class Connection:
    """What a behaviour writes to."""

    socket: socket.socket
    request: Seen
    stopping: threading.Event

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def head(self, status: int = 200, content_type: str = "text/event-stream", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", "connection: close"]
        lines += [f"content-type: {content_type}"] if content_type else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode())

    def wait(self, seconds: float = 60) -> None:
        """Do nothing, until the provider is closed."""
        self.stopping.wait(seconds)


Behaviour = Callable[[Connection], None]


@dataclass
class FakeProvider:
    """A server; `script` says how it behaves, the last behaviour for all further requests."""

    script: list[Behaviour] = field(default_factory=lambda: [says("A summary.")])
    seen: list[Seen] = field(default_factory=list)

    def __enter__(self):
        self._stopping = threading.Event()
        provider = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with suppress(OSError):  # the other side may leave at any moment
                    provider._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def environment(self, **more: str) -> dict[str, str]:
        """Variables that lead every provider's wire here."""
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "test-key-0123456789")
        bases = {"ANTHROPIC_BASE_URL": self.url, "GEMINI_BASE_URL": self.url}
        return {**keys, **bases, "OPENAI_BASE_URL": f"{self.url}/v1", **more}

    def address(self, wire: str, model: str = "m") -> str:
        scheme = {"chat": "openai"}.get(wire, wire)
        return f"{self.url}/v1#{model}" if wire == "compatible" else f"{scheme}:{model}"

    def _serve(self, connection):
        read = b""
        while b"\r\n\r\n" not in read:
            chunk = connection.recv(65536)
            if not chunk:
                return
            read += chunk
        top, _, body = read.partition(b"\r\n\r\n")
        first, *lines = top.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers.get("content-length", "0")):
            body += connection.recv(65536)
        request = Seen(first.split()[1], headers, json.loads(body), body)
        self.seen.append(request)
        behaviour = self.script[min(len(self.seen), len(self.script)) - 1]
        behaviour(Connection(connection, request, self._stopping))


# -- behaviours that answer --------------------------------------------------------------------------------


def says(
    text="", *, finish="stop", reasoning="", calls=0, refusal=False, usage=(12, 3), pieces=3
) -> Behaviour:
    """Answer properly, in the wire of the request."""

    def behave(connection):
        connection.head()
        connection.send(
            stream(connection.request.wire, text, finish, reasoning, calls, refusal, usage, pieces)
        )

    return behave


def whole(text="", *, finish="stop", reasoning="", calls=0, refusal=False, usage=(12, 3)) -> Behaviour:
    """Answer in one piece although a stream was asked for."""

    def behave(connection):
        connection.head(content_type="application/json; charset=utf-8")
        wire = connection.request.wire
        connection.send(
            json.dumps(BODIES[wire](text, words(wire, finish), reasoning, calls, refusal, usage)).encode()
        )

    return behave


def stream(wire, text, finish="stop", reasoning="", calls=0, refusal=False, usage=(12, 3), pieces=3) -> bytes:
    """The bytes of a whole stream."""
    size = max(1, -(-len(text) // pieces))
    cut = [text[at : at + size] for at in range(0, len(text), size)]
    return STREAMS[wire](cut, words(wire, finish), reasoning, calls, refusal, usage)


FINISHES = {
    "anthropic": {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"},
    "gemini": {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "refusal": "SAFETY"},
}


def words(wire, finish):
    """How a wire says that an answer has ended."""
    return FINISHES.get(wire, {}).get(finish, finish)


def data(*values, named=False) -> bytes:
    lines = [
        (f"event: {value['type']}\n" if named else "") + f"data: {json.dumps(value)}\n\n" for value in values
    ]
    return "".join(lines).encode()


def _counts(usage, asked, answered):
    """A report of two numbers, or the wire's own report as it is."""
    return usage if isinstance(usage, dict) else {asked: usage[0], answered: usage[1]}


def _chat_stream(cut, finish, reasoning, calls, refusal, usage):
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": reasoning}] if reasoning else []
    deltas += [{"refusal" if refusal else "content": piece} for piece in cut]
    for index in range(calls):
        deltas += [
            {"tool_calls": [{"index": index, "id": "c", "function": {"name": "f", "arguments": "{"}}]},
            {"tool_calls": [{"index": index, "function": {"arguments": "}"}}]},
        ]
    events = [
        {"model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    events.append({"model": "m-1", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage:
        counts = _counts(usage, "prompt_tokens", "completion_tokens")
        events.append({"model": "m-1", "choices": [], "usage": counts})
    return data(*events) + b"data: [DONE]\n\n"


def _anthropic_stream(cut, finish, reasoning, calls, refusal, usage):
    start = {"type": "message", "model": "m-1", "content": [], "stop_reason": None}
    told = _counts(usage, "input_tokens", "output_tokens") if usage else {}
    start["usage"] = {**told, "output_tokens": 1} if usage else {}
    events = [{"type": "message_start", "message": start}, {"type": "ping"}]
    blocks = [("thinking", [reasoning])] if reasoning else []
    blocks += [("text", cut)] if cut else []
    for index, (kind, pieces) in enumerate(blocks):
        events.append(
            {"type": "content_block_start", "index": index, "content_block": {"type": kind, kind: ""}}
        )
        events += [
            {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", kind: piece}}
            for piece in pieces
        ]
        events.append({"type": "content_block_stop", "index": index})
    for index in range(calls):
        block = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        part = {"type": "input_json_delta", "partial_json": "{}"}
        events.append({"type": "content_block_delta", "index": index, "delta": part})
    ended = {"stop_reason": "refusal" if refusal else finish}
    counts = {"output_tokens": told["output_tokens"]} if usage else None
    events += [{"type": "message_delta", "delta": ended, "usage": counts}, {"type": "message_stop"}]
    return data(*events, named=True)


def _responses_stream(cut, finish, reasoning, calls, refusal, usage):
    body = _responses_body("".join(cut), finish, reasoning, calls, refusal, usage)
    events = [
        {"type": "response.created", "response": {"status": "in_progress", "output": [], "error": None}}
    ]
    events += [{"type": "response.output_text.delta", "delta": piece} for piece in cut]
    events.append({"type": f"response.{body['status']}", "response": body})
    return data(*events, named=True)


def _gemini_stream(cut, finish, reasoning, calls, refusal, usage):
    pieces = [{"text": reasoning, "thought": True}] if reasoning else []
    pieces += [{"text": piece} for piece in cut]
    pieces += [{"functionCall": {"name": "f", "args": {}}}] * calls
    events = [
        {"candidates": [{"content": {"role": "model", "parts": [piece]}}], "modelVersion": "m-1"}
        for piece in pieces
    ]
    last = {"candidates": [{"finishReason": "SAFETY" if refusal else finish}], "modelVersion": "m-1"}
    if usage:
        last["usageMetadata"] = _counts(usage, "promptTokenCount", "candidatesTokenCount")
    return data(*events, last)


def _chat_body(text, finish, reasoning, calls, refusal, usage):
    message = {
        "role": "assistant",
        "content": None if refusal else text,
        "refusal": text if refusal else None,
    }
    message |= {"reasoning_content": reasoning} if reasoning else {}
    message |= {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}] * calls}
    counts = _counts(usage, "prompt_tokens", "completion_tokens") if usage else None
    return {"model": "m-1", "choices": [{"message": message, "finish_reason": finish}], "usage": counts}


def _anthropic_body(text, finish, reasoning, calls, refusal, usage):
    content = [{"type": "thinking", "thinking": reasoning}] if reasoning else []
    content += [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": "c", "name": "f", "input": {}}] * calls
    counts = _counts(usage, "input_tokens", "output_tokens") if usage else {}
    ended = "refusal" if refusal else finish
    return {"type": "message", "model": "m-1", "content": content, "stop_reason": ended, "usage": counts}


def _responses_body(text, finish, reasoning, calls, refusal, usage):
    output = []
    if reasoning:
        output.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": reasoning}]})
    if text:
        part = {"type": "refusal", "refusal": text} if refusal else {"type": "output_text", "text": text}
        output.append({"type": "message", "role": "assistant", "content": [part]})
    output += [{"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}] * calls
    counts = _counts(usage, "input_tokens", "output_tokens") if usage else None
    cut = finish == "length"
    return {
        "object": "response",
        "model": "m-1",
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "output": output,
        "usage": counts,
    }


def _gemini_body(text, finish, reasoning, calls, refusal, usage):
    parts = [{"text": reasoning, "thought": True}] if reasoning else []
    parts += [{"text": text}] if text else []
    parts += [{"functionCall": {"name": "f", "args": {}}}] * calls
    ended = "SAFETY" if refusal else finish
    counts = _counts(usage, "promptTokenCount", "candidatesTokenCount") if usage else {}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": ended}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "m-1"}


STREAMS = {
    "chat": _chat_stream,
    "anthropic": _anthropic_stream,
    "responses": _responses_stream,
    "gemini": _gemini_stream,
}
BODIES = {
    "chat": _chat_body,
    "anthropic": _anthropic_body,
    "responses": _responses_body,
    "gemini": _gemini_body,
}


# -- behaviours that do not --------------------------------------------------------------------------------


def status(code, body=b"", content_type="application/json", **headers) -> Behaviour:
    """Refuse."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    def behave(connection):
        connection.head(code, content_type, content_length=str(len(raw)), **headers)
        connection.send(raw)

    return behave


def sends(raw: bytes, content_type="text/event-stream", **headers) -> Behaviour:
    """Send these bytes and close."""

    def behave(connection):
        connection.head(200, content_type, **headers)
        connection.send(raw)

    return behave


def hang_before_headers(connection):
    connection.wait()


def hang_up(connection):
    """Close without a word."""


def slow_headers(connection):
    """Send the headers a byte now and then: every single read succeeds in time."""
    for byte in b"HTTP/1.1 200 OK\r\nx-long: " + b"a" * 10_000:
        connection.send(bytes([byte]))
        connection.wait(0.05)


def hang_mid_stream(connection):
    connection.head()
    raw = stream(connection.request.wire, "Half of an answer")
    connection.send(raw[: len(raw) // 2])
    connection.wait()


def cut_stream(connection):
    """Promise more than comes."""
    raw = stream(connection.request.wire, "Half of an answer")
    connection.head(content_length=str(len(raw)))
    connection.send(raw[: len(raw) // 2])


def short_stream(connection):
    """End properly, but before the answer does."""
    raw = stream(connection.request.wire, "Half of an answer")
    connection.head()
    connection.send(raw[: len(raw) // 2].rpartition(b"\n\n")[0] + b"\n\n")


def pings_for_ever(connection):
    """Show life, and say nothing."""
    connection.head()
    for _ in range(2000):
        connection.send(b": ping\n\n")
        connection.wait(0.03)


def huge(connection):
    connection.head()
    piece = data({"choices": [{"index": 0, "delta": {"content": "x" * 100_000}}]})
    for _ in range(200):
        connection.send(piece)


def slowly(text, pause=0.002) -> Behaviour:
    """Answer, a byte at a time."""

    def behave(connection):
        connection.head()
        for byte in stream(connection.request.wire, text):
            connection.send(bytes([byte]))
            connection.wait(pause)

    return behave


def fails_after_200(error) -> Behaviour:
    """Begin well, then tell of an error as an event."""

    def behave(connection):
        connection.head()
        raw = stream(connection.request.wire, "Half of an answer")
        begun = raw[: len(raw) // 3].rpartition(b"\n\n")[0] + b"\n\n"
        connection.send((begun if begun.strip() else b"") + b"event: error\n" + data(error))

    return behave


def finished_but_open(connection):
    """Say everything, then keep the connection open."""
    connection.head()
    raw = stream(connection.request.wire, "All of it.")
    connection.send(raw.replace(b"data: [DONE]\n\n", b""))
    connection.wait()
