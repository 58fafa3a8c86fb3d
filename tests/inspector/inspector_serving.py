"""An inspector, or a gateway with one, in a thread of its own; a raw client; sessions to look at."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import refold
from refold.gateway import Gateway, GatewayOptions, HistoryOptions
from refold.inspector import InspectorOptions, InspectorServer

LIMIT = 60.0
"""Seconds after which a test gives up; nothing is measured by it."""
TOKEN = "a-token-of-the-tests-that-nobody-can-guess-1234"


@dataclass
class Reply:
    """An answer, to the byte."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error."""
        return self.json["error"]["code"]


@dataclass
class Running:
    """A server in its own thread and event loop."""

    server: Any
    loop: asyncio.AbstractEventLoop
    port: int = 0
    token: str = TOKEN

    def call(self, make: Callable[[], Any]) -> Any:
        """Run a coroutine in the server's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(make(), self.loop).result(LIMIT)

    @property
    def cookie(self) -> str:
        return f"refold-inspect-{self.port}={self.token}"

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send_raw(self, rows: list[str], body: bytes = b"") -> Reply:
        """Send these rows as they are, and read the answer."""
        with socket.create_connection(("127.0.0.1", self.port), LIMIT) as connection:
            connection.sendall("\r\n".join([*rows, "", ""]).encode("utf-8", "surrogateescape") + body)
            return read_reply(connection)

    def send(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        cookie: bool = True,
    ) -> Reply:
        """Send a request with a good Host, and the cookie unless it must not have one."""
        own = {"Host": f"127.0.0.1:{self.port}", **({"Cookie": self.cookie} if cookie else {})}
        own |= (
            {"Connection": "close"} | ({"Content-Length": str(len(body))} if body else {}) | (headers or {})
        )
        return self.send_raw([f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in own.items())], body)

    def get(self, path: str) -> Any:
        """Return the data at a path below the API."""
        reply = self.send("GET", f"/inspect/api/{path}")
        assert reply.status == 200, reply.body[:300]
        return reply.json

    def post(self, path: str, value: Any, **headers: str) -> Reply:
        """Write as the page does."""
        own = {"Content-Type": "application/json", "x-refold-inspect": "1", "Origin": self.origin}
        return self.send("POST", f"/inspect/api/{path}", own | headers, json.dumps(value).encode())


def read_reply(connection: socket.socket) -> Reply:
    reader = connection.makefile("rb")
    line = reader.readline().decode()
    if not line:
        return Reply(0)
    headers: dict[str, str] = {}
    while row := reader.readline().decode("latin-1").rstrip("\r\n"):
        name, _, value = row.partition(": ")
        headers[name.lower()] = value
    size = headers.get("content-length")
    return Reply(int(line.split(" ")[1]), headers, reader.read(int(size)) if size else reader.read())


@contextmanager
def running(server: Any) -> Iterator[Running]:
    """Run a server that has `start`, `close` and a port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    served = Running(server, loop)
    try:
        served.call(server.start)
        try:
            yield served
        finally:
            served.call(server.close)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT)
        loop.close()


@contextmanager
def inspecting(store: Any, **options: Any) -> Iterator[Running]:
    """Run an inspector alone."""
    given = InspectorOptions(store=store, port=0, **{"token": TOKEN, **options})
    with running(InspectorServer(given)) as served:
        served.port = served.server.port
        yield served


@contextmanager
def gatewaying(histories: HistoryOptions, **options: Any) -> Iterator[Running]:
    """Run a gateway with its inspector."""
    given = GatewayOptions(port=0, **{"inspect_token": TOKEN, **options})
    with running(Gateway(given, histories)) as served:
        served.port = int(served.server.address.rpartition(":")[2])
        yield served


def say_task(store: Any, name: str = "task", turns: int = 40) -> refold.Session:
    """Begin a session of an agent that reads files, with a rule of the user and usage of every request."""
    session = refold.open(name, store=store, model="claude-sonnet-4-5", window=40_000)
    session.say("Fix the parser in src/parse.py. Never touch vendor/.")
    for turn in range(turns):
        call = {"type": "tool_use", "id": f"t{turn}", "name": "Read", "input": {"path": f"src/file{turn}.py"}}
        session.say(
            {"role": "assistant", "content": [{"type": "text", "text": f"Look at file {turn}."}, call]}
        )
        lines = "\n".join(f"def function_{turn}_{line}(): return {line}" for line in range(60))
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": lines}
        session.say({"role": "user", "content": [result]})
        session.prepare()
        size = session.budget().used
        session.observe({"usage": {"input_tokens": size, "output_tokens": 20, "cache_read_input_tokens": 0}})
    return session


class Listening:
    """A page that listens to events, over a raw socket."""

    def __init__(self, served, last=None):
        self.socket = socket.create_connection(("127.0.0.1", served.port), LIMIT)
        rows = [
            "GET /inspect/api/events HTTP/1.1",
            f"Host: 127.0.0.1:{served.port}",
            f"Cookie: {served.cookie}",
        ]
        rows += [f"Last-Event-ID: {last}"] if last else []
        self.socket.sendall("\r\n".join([*rows, "", ""]).encode())
        self.reader = self.socket.makefile("rb")
        self.status = int(self.reader.readline().split()[1])
        self.headers = {}
        while row := self.reader.readline().decode().strip():
            name, _, value = row.partition(": ")
            self.headers[name.lower()] = value

    def next(self):
        """The next event: its id, its kind and its data."""
        event = {}
        while "data" not in event:
            line = self.reader.readline().decode().strip()
            name, colon, value = line.partition(": ")
            if colon and name in ("id", "event", "data"):
                event[name] = value
        return event["id"], event["event"], json.loads(event["data"])

    def next_of(self, name):
        """The data of the next event about a session."""
        while True:
            number, kind, data = self.next()
            if kind == "session" and data["name"] == name:
                return number, data

    def close(self):
        self.socket.close()
        self.reader.close()
