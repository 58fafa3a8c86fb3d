"""Model servers in processes of their own: started by the first question, shared inside this process.

A crash of the runtime ends only its own process; the next question starts another server. A server ends with
the process that started it, however that ends. A forked child starts its own servers.
"""

import atexit
import json
import os
import secrets
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Lock, Thread
from typing import Final
from urllib.parse import urlsplit

from refold.clients.http.failures import MAX_MESSAGE_CHARS, Failure

START_SECONDS: Final = 120.0
"""Seconds that loading a model may take. The default model takes 2 (decision 0013), a large one on a slow
disk a minute; too short would make it unusable, too long only delays the report of a hang."""
HEALTH_SECONDS: Final = 10.0
"""Seconds that a server may take to report its health; too few would end the servers of a busy machine."""
_HOST: Final = Path(__file__).with_name("host.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The model that is served, and the server's options; clients with equal settings share a server."""

    model: Path
    context: int
    """Tokens that question and answer may have together, in the model's own count."""
    threads: int | None = None
    """Processors to use; None for all, or half of them if the machine is overloaded."""

    @property
    def alias(self) -> str:
        """The model's name in answers; its path stays private."""
        return self.model.stem


class Server:
    """A running server."""

    def __init__(self, settings: ServerSettings, start_seconds: float) -> None:
        self.key = secrets.token_urlsafe(24)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the server stops
        # -P: modules beside the program have the names of modules of the standard library.
        program = [sys.executable, "-P", str(_HOST)]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own program
                program, stdin=pipe, stdout=pipe, stderr=self._errors
            )
        except OSError as error:
            self._errors.close()
            raise Failure(f"could not be started ({error.strerror})") from None
        try:
            self.url = self._wait_for_url(settings, start_seconds)
        except BaseException:
            self.stop()
            raise

    @property
    def is_alive(self) -> bool:
        """True if its process runs."""
        return self._process.poll() is None

    @property
    def process_id(self) -> int:
        """The id of its process."""
        return self._process.pid

    @property
    def is_healthy(self) -> bool:
        """True if the server itself reports that it is well."""
        parts = urlsplit(self.url)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=HEALTH_SECONDS)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """End its process; may be called twice."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                with suppress(OSError):  # nobody is left to read what was not yet sent
                    pipe.close()

    def disown(self) -> None:
        """Forget the process in a forked child: only the parent may wait for it."""
        self._process.returncode = 0

    def _wait_for_url(self, settings: ServerSettings, seconds: float) -> str:
        """Tell the process what to serve; return its address as soon as it listens."""
        order = {
            "model": str(settings.model),
            "context": settings.context,
            "threads": settings.threads or usable_processors(),
            "alias": settings.alias,
            "key": self.key,
        }
        lines: list[bytes] = []

        def exchange_lines() -> None:
            stdin, stdout = self._process.stdin, self._process.stdout
            assert stdin is not None and stdout is not None  # noqa: S101, PT018  # both are pipes
            with suppress(OSError, ValueError):  # the process has ended already
                stdin.write(json.dumps(order).encode() + b"\n")
                stdin.flush()
                lines.append(stdout.readline())

        # A thread, because reading a pipe has no time-out on every platform.
        thread = Thread(target=exchange_lines)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            self._process.kill()  # ends the thread as well
            thread.join()
            raise Failure(f"was not ready within {seconds:g} seconds", is_timeout=True)
        try:
            answer = json.loads(lines[0])
        except (IndexError, ValueError):
            answer = {}
        answer = answer if isinstance(answer, dict) else {}
        if "url" in answer:
            return str(answer["url"])
        raise Failure(f"could not load {settings.alias}: {answer.get('error') or self._last_error()}"[:400])

    def _last_error(self) -> str:
        """Return the exit code of the process in words, with the last line that it wrote."""
        code = self._process.wait()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 4_096))
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"its process ended with {code}" + (f" ({last[:MAX_MESSAGE_CHARS]})" if last else "")


def usable_processors() -> int:
    """Return the number of processors that this process may use; half of it on an overloaded machine.

    The threads of llama.cpp wait for each other at every step, so one that gets no processor holds up the
    rest: at a load of 6, two threads wrote 3 tokens a second and one wrote 34 (decision 0013, Threads).
    """
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return usable if load < usable else max(1, usable // 2)


class Servers:
    """The servers of this process, by their settings."""

    def __init__(self) -> None:
        self._servers: dict[ServerSettings, Server] = {}
        self._locks: dict[ServerSettings, Lock] = {}
        self._lock = Lock()
        atexit.register(self.stop_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def get(self, settings: ServerSettings, start_seconds: float = START_SECONDS) -> Server:
        """Return the server of a model, started if none runs; raises `Failure` if it does not start."""
        # One lock per model: loading one model does not hold up the others.
        with self._lock:
            lock = self._locks.setdefault(settings, Lock())
        with lock:
            server = self._servers.get(settings)
            if server is not None and server.is_alive:
                return server
            if server is not None:
                server.stop()
            self._servers[settings] = server = Server(settings, start_seconds)
            return server

    def stop_if_unhealthy(self, settings: ServerSettings, server: Server) -> None:
        """End a server that has failed and does not report that it is well."""
        if not server.is_alive or not server.is_healthy:
            self.stop(settings, server)

    def stop(self, settings: ServerSettings, server: Server | None = None) -> None:
        """End the server of a model, if it is this one."""
        with self._lock:
            running = self._servers.get(settings)
            if running is None or server not in (None, running):
                return
            del self._servers[settings]
        running.stop()

    def stop_all(self) -> None:
        """End all servers."""
        for settings in list(self._servers):
            self.stop(settings)

    def _forget(self) -> None:
        """After a fork: the servers are the parent's, and its locks may have been held."""
        for server in self._servers.values():
            server.disown()
        self._servers, self._locks, self._lock = {}, {}, Lock()


SERVERS: Final = Servers()
