"""An upstream on a real socket that records every byte, a gateway in a thread of its own, and a raw client.

with running_upstream() as upstream, running_gateway(upstream) as gateway:
upstream.script = [answer_json({"ok": True})]        # one a request; the last one stays
reply = send(gateway, "POST", "/v1/messages", body=b"{}")
upstream.seen[0].body == b"{}"
"""

import asyncio
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from client_bodies import Request

from refold.gateway import Gateway, GatewayOptions, HistoryOptions

LIMIT = 60.0
"""Seconds after which a test gives up; nothing is measured by it."""


@dataclass
class Seen:
    """A request as it came, to the byte."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def path(self) -> str:
        return self.line.split(" ")[1]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@dataclass
class Line:
    """The connection that a behaviour writes to."""

    socket: socket.socket
    seen: Seen
    left: threading.Event
    """Set as soon as the gateway has closed the connection."""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def wait_until_left(self) -> bool:
        """Wait for the gateway to close; True if it did."""
        self.socket.settimeout(LIMIT)
        try:
            gone = self.socket.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            gone = True
        if gone:
            self.left.set()
        return gone


Behaviour = Callable[[Line], None]


def answer(status: int, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> Behaviour:
    """Answer with a whole body."""

    def behave(line: Line) -> None:
        rows = [f"HTTP/1.1 {status} Fine", f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in headers)]
        line.send(("\r\n".join(rows) + "\r\n\r\n").encode() + body)

    return behave


def answer_json(value: Any, status: int = 200, **headers: str) -> Behaviour:
    pairs = [("Content-Type", "application/json"), *((k.replace("_", "-"), v) for k, v in headers.items())]
    return answer(status, json.dumps(value).encode(), pairs)


def stream(*pieces: bytes, end: bool = True, kind: str = "text/event-stream") -> Behaviour:
    """Send these pieces, each as a chunk of its own; without `end` break off behind them."""

    def behave(line: Line) -> None:
        line.send(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for piece in pieces:
            line.send(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if not end:
            raise ConnectionAbortedError
        line.send(b"0\r\n\r\n")

    return behave


@dataclass
class Upstream:
    """What the upstream does and has seen."""

    script: list[Behaviour] = field(default_factory=lambda: [answer_json({"ok": True})])
    seen: list[Seen] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)
    connections: int = 0
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, connection: socket.socket) -> None:
        reader = connection.makefile("rb")
        with self.lock:
            self.connections += 1
        try:
            while (seen := read_request(reader)) is not None:
                with self.lock:
                    self.seen.append(seen)
                    behaviour = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                behaviour(Line(connection, seen, self.left))
        finally:
            with self.lock:
                self.connections -= 1


def read_request(reader: Any) -> Seen | None:
    line = reader.readline().decode("latin-1").strip()
    if not line:
        return None
    headers = []
    while row := reader.readline().decode("utf-8", "surrogateescape").rstrip("\r\n"):
        name, _, value = row.partition(": ")
        headers.append((name, value))
    seen = Seen(line, headers, b"")
    if (seen.header("transfer-encoding") or "") == "chunked":
        while size := int(reader.readline(), 16):
            seen.body += reader.read(size)
            reader.readline()
        reader.readline()
    else:
        seen.body = reader.read(int(seen.header("content-length") or 0))
    return seen


@contextmanager
def running_upstream() -> Iterator[Upstream]:
    upstream = Upstream()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            with suppress(OSError):  # the other side may leave at any moment
                upstream.serve(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as server:
        upstream.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield upstream
        server.shutdown()
        thread.join()


@dataclass
class Running:
    """A gateway in its own thread and event loop."""

    gateway: Gateway
    loop: asyncio.AbstractEventLoop
    port: int

    def call(self, make: Callable[[], Any]) -> Any:
        """Run a coroutine in the gateway's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(make(), self.loop).result(LIMIT)


@contextmanager
def running_gateway(
    upstream: Upstream | None = None, histories: HistoryOptions | None = None, **options: Any
) -> Iterator[Running]:
    if upstream is not None:
        addresses = {"upstream_openai": f"{upstream.url}/v1", "upstream_anthropic": upstream.url}
        options = {**addresses, "upstream_gemini": upstream.url, **options}
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    running = Running(Gateway(GatewayOptions(port=0, **options), histories), loop, 0)
    running.call(running.gateway.start)
    running.port = int(running.gateway.address.rpartition(":")[2])
    try:
        yield running
    finally:
        running.call(running.gateway.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT)
        loop.close()


@dataclass
class Reply:
    """An answer of the gateway, to the byte."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    complete: bool = True
    """False if the connection broke before the end."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


def connect(gateway: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), LIMIT)


def write_request(
    gateway: Running, method: str, path: str, body: bytes, headers: Sequence[tuple[str, str]]
) -> bytes:
    rows = [f"{method} {path} HTTP/1.1"]
    if not any(name.lower() == "host" for name, _ in headers):
        rows.append(f"Host: 127.0.0.1:{gateway.port}")
    rows += [f"{name}: {value}" for name, value in headers]
    if body and not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in headers):
        rows.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(rows) + "\r\n\r\n").encode("utf-8", "surrogateescape") + body


def send(
    gateway: Running, method: str, path: str, body: bytes = b"", headers: Sequence[tuple[str, str]] = ()
) -> Reply:
    """Send one request over a connection of its own, and read the whole answer."""
    with connect(gateway) as connection:
        connection.sendall(write_request(gateway, method, path, body, [*headers, ("Connection", "close")]))
        return read_reply(connection, method)


def play_request(gateway: Running, request: Request) -> Reply:
    """Send a client's request, which has to be answered."""
    reply = send(gateway, "POST", request.path, request.bytes, list(request.headers.items()))
    assert reply.status == 200
    return reply


def post(gateway: Running, path: str, value: Any, **headers: str) -> Reply:
    """Post a JSON value; `x_refold_session` is the header `x-refold-session`."""
    pairs = [("Content-Type", "application/json"), *((k.replace("_", "-"), v) for k, v in headers.items())]
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return send(gateway, "POST", path, body, pairs)


def read_reply(connection: socket.socket, method: str = "GET") -> Reply:
    reader = connection.makefile("rb")
    status_line = reader.readline().decode()
    if not status_line:
        return Reply(0, [], b"", complete=False)
    status = int(status_line.split(" ")[1])
    headers = []
    while row := reader.readline().decode("utf-8", "surrogateescape").rstrip("\r\n"):
        name, _, value = row.partition(": ")
        headers.append((name, value))
    reply = Reply(status, headers, b"")
    try:
        _read_body(reader, reply, method)
    except (OSError, ValueError):
        reply.complete = False
    return reply


def _read_body(reader: Any, reply: Reply, method: str) -> None:
    if method == "HEAD" or reply.status in (204, 304):
        return
    if (reply.header("transfer-encoding") or "") == "chunked":
        while size := int(reader.readline(), 16):
            reply.body += reader.read(size)
            reader.readline()
        reader.readline()
        return
    length = reply.header("content-length")
    reply.body = reader.read() if length is None else reader.read(int(length))
    reply.complete = length is None or len(reply.body) == int(length)
