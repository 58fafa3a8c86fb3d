"""Model servers in processes of their own: started when first asked, shared in this process, never left over.

A crash of the runtime ends its own process; the next question starts another. A server ends with the process
that started it, however that ends. A forked child starts its own.
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
from typing import IO, Any, Final
from urllib.parse import urlsplit

from refold.clients.troubles import Trouble

START_SECONDS: Final = 120.0
"""How long loading a model may take; a large one on a slow disk takes a minute."""
HEALTH_SECONDS: Final = 10.0
"""How long a server may take to say that it is well; too short would end those of a busy machine."""
_HOST: Final = Path(__file__).with_name("local_host.py")
_MOST_WORDS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Which model is served, and how; clients with equal ones share a server."""

    model: Path
    context: int
    """Tokens that question and answer may have together, in the model's own count."""
    threads: int | None = None
    """Processors to use; None for all, or half where the machine is overloaded."""

    @property
    def alias(self) -> str:
        """The model's name in answers; its path is nobody's business."""
        return self.model.stem


class Server:
    """A server that runs."""

    def __init__(self, setting: Setting, start_seconds: float) -> None:
        self.key = secrets.token_urlsafe(24)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the server stops
        try:
            self._process = _started(self._errors)
        except OSError as error:
            self._errors.close()
            raise Trouble(f"could not be started ({error.strerror})") from None
        try:
            self.url = self._ready(setting, start_seconds)
        except BaseException:
            self.stop()
            raise

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    @property
    def process_id(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def well(self) -> bool:
        """Whether it says so itself."""
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
                with suppress(OSError):  # what was not yet sent has nobody to read it
                    pipe.close()

    def _ready(self, setting: Setting, seconds: float) -> str:
        """Where it listens, as soon as it does."""
        wish = {
            "model": str(setting.model),
            "context": setting.context,
            "threads": setting.threads or processors(),
        }
        told: list[bytes] = []
        asking = Thread(
            target=_told, args=(self._process, {**wish, "alias": setting.alias, "key": self.key}, told)
        )
        asking.start()
        asking.join(seconds)
        if asking.is_alive():
            self._process.kill()  # ends the thread as well
            asking.join()
            raise Trouble(f"was not ready within {seconds:g} seconds", late=True)
        answer = _answer(told)
        if "url" in answer:
            return str(answer["url"])
        raise Trouble(f"could not load {setting.alias}: {answer.get('error') or self._last_words()}"[:400])

    def _last_words(self) -> str:
        code = self._process.wait()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 4_096))
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"its process ended with {code}" + (f" ({last[:_MOST_WORDS]})" if last else "")


def processors() -> int:
    """All processors that this process may use; half of them where the machine is overloaded already.

    Threads wait for each other at every step, and one that gets no processor holds up the rest.
    """
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return usable if busy < usable else max(1, usable // 2)


def _started(errors: IO[bytes]) -> subprocess.Popen[bytes]:
    # -P: beside the program lie modules named as those of the standard library
    program = [sys.executable, "-P", str(_HOST)]
    pipe = subprocess.PIPE
    return subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=errors)  # noqa: S603  # our own program


def _told(process: "subprocess.Popen[bytes]", wish: dict[str, Any], told: list[bytes]) -> None:
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018  # both are pipes
    with suppress(OSError, ValueError):  # it has ended already
        process.stdin.write(json.dumps(wish).encode() + b"\n")
        process.stdin.flush()
        told.append(process.stdout.readline())


def _answer(told: list[bytes]) -> dict[str, Any]:
    try:
        answer = json.loads(told[0])
    except (IndexError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}


class Servers:
    """The servers of this process, by what they serve."""

    def __init__(self) -> None:
        self._servers: dict[Setting, Server] = {}
        self._locks: dict[Setting, Lock] = {}
        self._lock = Lock()
        atexit.register(self.stop_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def serving(self, setting: Setting, start_seconds: float = START_SECONDS) -> Server:
        """The server of a model, started if none runs; `Trouble` where it does not start."""
        with self._lock:
            lock = self._locks.setdefault(setting, Lock())
        with lock:
            server = self._servers.get(setting)
            if server is not None and server.alive:
                return server
            if server is not None:
                server.stop()
            self._servers[setting] = server = Server(setting, start_seconds)
            return server

    def stop_if_ill(self, setting: Setting, server: Server) -> None:
        """End a server that has failed and does not say that it is well."""
        if not server.alive or not server.well:
            self.stop(setting, server)

    def stop(self, setting: Setting, server: Server | None = None) -> None:
        """End the server of a model, if it is this one."""
        with self._lock:
            running = self._servers.get(setting)
            if running is None or server not in (None, running):
                return
            del self._servers[setting]
        running.stop()

    def stop_all(self) -> None:
        """End all."""
        for setting in list(self._servers):
            self.stop(setting)

    def _forget(self) -> None:
        """After a fork: the servers are the parent's, and its locks may have been held."""
        for server in self._servers.values():
            server._process.returncode = 0  # noqa: SLF001  # nobody waits for a process that is not one's own
        self._servers, self._locks, self._lock = {}, {}, Lock()


SERVERS: Final = Servers()
