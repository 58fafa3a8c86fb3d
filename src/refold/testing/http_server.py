"""A small HTTP server on 127.0.0.1; knows connections and bytes, and nothing of models."""

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

_POLL_SECONDS: Final = 0.02
"""How long closing waits at most for the loop that accepts connections."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request as it came over the socket."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """What is sent back: a JSON body, or the events of a stream."""

    status: int = 200
    body: Any = None
    events: Iterable[Mapping[str, Any]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    names_events: bool = False
    ends_with_done: bool = False


class LocalServer:
    """A server with a thread per connection; connections are kept open between requests, as providers do."""

    def __init__(self, respond: Callable[[Arrived], Response]) -> None:
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _make_handler(respond, self._open, self._lock))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="refold-provider", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that the system has chosen."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening and close what clients have left open."""
        self._server.shutdown()
        self._thread.join()
        with self._lock:
            left = list(self._open)
        for connection in left:
            with suppress(OSError):  # the client may have closed it just now
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Closing waits for the threads, so that no socket is left to the garbage collector.

    They are daemons all the same: a server that nobody closes must not keep the process from ending.
    """

    request_queue_size = 64

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._busy: list[threading.Thread] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread that is remembered; the library forgets threads that are daemons."""
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), daemon=True
        )
        self._busy = [*(busy for busy in self._busy if busy.is_alive()), thread]
        thread.start()

    def server_close(self) -> None:
        """Stop listening and wait for the connections to end."""
        super().server_close()
        for thread in self._busy:
            thread.join()


def _make_handler(
    respond: Callable[[Arrived], Response], open_now: set[socket.socket], lock: threading.Lock
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # small chunks go out at once
        wbufsize = -1  # head and body leave in one packet

        def setup(self) -> None:
            super().setup()
            with lock:
                open_now.add(self.connection)

        def finish(self) -> None:
            with lock:
                open_now.discard(self.connection)
            with suppress(OSError):  # what is unsent belongs to a client that has gone
                super().finish()

        def handle(self) -> None:
            with suppress(OSError):  # the other side may leave at any moment
                super().handle()

        def _serve(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            raw = self.rfile.read(size)
            if len(raw) < size:  # whoever sends it is gone
                self.close_connection = True
                return
            _send(self, respond(Arrived(self.command, self.path, headers, raw)))

        do_GET = do_POST = _serve  # noqa: N815  # the names that the library calls

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    return Handler


def _send(handler: BaseHTTPRequestHandler, response: Response) -> None:
    handler.send_response(response.status)
    for name, value in response.headers.items():
        handler.send_header(name, value)
    if response.events is None:
        raw = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)
    else:
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for event in response.events:
            name = f"event: {event['type']}\n" if response.names_events else ""
            _send_chunk(handler, f"{name}data: {json.dumps(event)}\n\n".encode())
        if response.ends_with_done:
            _send_chunk(handler, b"data: [DONE]\n\n")
        handler.wfile.write(b"0\r\n\r\n")
    handler.wfile.flush()


def _send_chunk(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    handler.wfile.flush()
