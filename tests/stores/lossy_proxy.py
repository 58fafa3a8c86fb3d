"""A proxy in front of a PostgreSQL server that loses the answer to a COMMIT, or the COMMIT itself."""

import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, quote, urlsplit

_SOCKET = ".s.PGSQL.5432"
_BYTES = 1 << 16


class Proxy:
    """Passes everything on until it is told to lose something; then it is away until `come_back`."""

    def __init__(self, folder, server):
        self.server = str(Path(server) / _SOCKET)
        self.lost = threading.Event()
        self._losing = None
        self._away = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(folder) / _SOCKET))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, what):
        """Lose the COMMIT of the next append: its "answer", or the "request"."""
        self.lost.clear()
        self._losing = what

    def come_back(self):
        self._away = False

    def close(self):
        self._listener.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._away:
                    client.close()
                else:
                    threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client):
        server = socket.socket(socket.AF_UNIX)
        with client, server, suppress(OSError):
            server.connect(self.server)
            threading.Thread(target=self._pass_answers, args=[server, client], daemon=True).start()
            wrote = False
            while data := client.recv(_BYTES):
                wrote = wrote or b"UPDATE refold.sessions" in data
                if wrote and b"COMMIT" in data and self._losing:
                    losing, self._losing, self._away = self._losing, None, True
                    client.shutdown(socket.SHUT_RDWR)  # whatever the server says now, nobody hears it
                    if losing == "answer":
                        server.sendall(data)
                        server.sendall(b"X\x00\x00\x00\x04")  # the end of the connection, in order
                    server.shutdown(socket.SHUT_WR)
                    self.lost.set()
                    return
                wrote = wrote and b"COMMIT" not in data
                server.sendall(data)

    @staticmethod
    def _pass_answers(server, client):
        with suppress(OSError):
            while data := server.recv(_BYTES):
                client.sendall(data)


@contextmanager
def lossy(url):
    """Give a proxy and the address of the server behind it."""
    host = parse_qs(urlsplit(url).query)["host"][0]
    with TemporaryDirectory(prefix="refold-px-", dir="/tmp") as folder:
        proxy = Proxy(folder, host)
        try:
            yield proxy, url.replace(quote(host, safe=""), quote(folder, safe=""))
        finally:
            proxy.close()
