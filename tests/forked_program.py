"""The program `refold` in a process of its own, with real pipes and signals, that imports nothing anew.

Starting Python and importing the program takes longer than most of what tests ask of it. So one process
imports it once and forks for each run; the child takes over the pipes, the folder and the environment and
runs the program to its end. What depends on the start itself (the locale, what is imported) is tested with
`subprocess`.
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from typing import Any

MESSAGE = 1 << 20
"""Bytes of a request at most: arguments and environment."""
ROOMS = (
    *("refold.cli", "refold.calls", "refold.session", "refold.stores", "refold.remote", "refold.policies"),
    *("refold.clients", "refold.replay"),
)
NOT_LOADED = {"refold.cli.__main__", "refold.clients.local.__main__", "refold.clients.local.host"} | {
    "refold.remote.mcp_server"
}
"""Programs, which run once, and what needs a library that takes a second to import."""
LIBRARY = "httpx2"
"""What every client imports when it asks, where it is installed."""
SERVERS = ("refold.gateway.running", "refold.inspector.running")
"""What to preload for a program that serves: libraries that take half a second to import."""
LOCALE = ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONIOENCODING", "PYTHONUTF8")
"""What decides, when Python starts, how characters are written."""


class Forked(subprocess.Popen[bytes]):
    """`subprocess.Popen` of the program with these arguments; `preload` names libraries it will import."""

    def __init__(self, arguments: Any, *, preload: tuple[str, ...] = (), **options: Any) -> None:
        self._preload = preload
        super().__init__([str(word) for word in arguments], **options)

    def _execute_child(self, args: Any, *options: Any) -> None:  # type: ignore[override]
        """Ask the process that forks; `options` are those of CPython's method, in its order."""
        cwd, env = options[4], options[5]
        pipes = options[9:15]  # p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite
        new_session = options[20]
        self._told, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        streams = [own if given == -1 else given for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = {
            "arguments": args,
            "folder": os.fspath(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "new_session": new_session,
            "preload": self._preload,
        }
        with theirs:
            socket.send_fds(_forking_process(), [json.dumps(request).encode()], [*streams, theirs.fileno()])
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = int(self._told.recv(32))
        self._child_created = True

    def _internal_poll(self, _deadstate: Any = None) -> int | None:  # type: ignore[override]
        return self._read_status(0)

    def _wait(self, timeout: float | None) -> int:  # type: ignore[override]
        if self._read_status(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def _read_status(self, timeout: float | None) -> int | None:
        """The status, once the child has ended; a socket that does not wait is one of no seconds."""
        if self.returncode is None:
            self._told.settimeout(timeout)
            with contextlib.suppress(BlockingIOError, TimeoutError):
                self.returncode = os.waitstatus_to_exitcode(int(self._told.recv(32)))
                self._told.close()
        return self.returncode


def run_forked(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run the program to its end; `options` are those of `Forked`, its output is kept."""
    with Forked(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def forking_command(*preload: str) -> list[str]:
    """The words that run the program in a fork from a shell or a library; its arguments go behind them."""
    _forking_process()
    client = str(Path(__file__).with_name("forked_client.py"))
    return [sys.executable, "-I", "-S", client, str(_client_socket()), ",".join(preload)]


def is_forkable(environment: dict[str, str]) -> bool:
    """Whether a program with this environment is like one that is forked: it writes UTF-8 and has the same modules."""
    found = [environment.get(name) for name in LOCALE]
    is_utf8 = found in ([None] * 5, ["C.UTF-8", None, None, None, None])
    return is_utf8 and environment.get("PYTHONPATH") == os.environ.get("PYTHONPATH")


@functools.cache
def _client_socket() -> Path:
    """Where the process that forks hears those who are no child of the tests: in a folder of its own."""
    folder = tempfile.mkdtemp(prefix="refold-fork-", dir="/tmp")  # a socket's path has 107 bytes at most
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / "socket"


@functools.cache
def _forking_process() -> socket.socket:
    """Start it; it ends with the process that asked for it, whose end of the socket closes."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kept = {name: value for name, value in os.environ.items() if name not in LOCALE}
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    heard.bind(str(_client_socket()))
    heard.listen()
    with theirs, heard:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), str(heard.fileno())],
            pass_fds=[theirs.fileno(), heard.fileno()],
            env={**kept, "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
        )

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours


def serve(asked: socket.socket, heard: socket.socket) -> None:
    """Fork for each request of the tests, and of whoever connects; returns in a child, which runs the program."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    load_rooms()
    while True:
        (ready, *_), _, _ = select.select([asked, heard], [], [])
        with heard.accept()[0] if ready is heard else contextlib.nullcontext(asked) as line:
            message, passed, _, _ = socket.recv_fds(line, MESSAGE, 4)
        if not message and ready is asked:
            os._exit(0)
        if not message:
            continue
        request = json.loads(message)
        for name in request["preload"]:
            importlib.import_module(name)
        if os.fork() == 0:
            asked.close()
            heard.close()
            watch(request, passed)
            return
        for number in passed:
            os.close(number)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def load_rooms() -> None:
    """Import what the program may need."""
    for name in ROOMS:
        room = importlib.import_module(name)
        for module in pkgutil.walk_packages(room.__path__, f"{name}."):
            if module.name not in NOT_LOADED:
                importlib.import_module(module.name)
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module(LIBRARY)
    gc.freeze()  # pages that no collection touches stay shared


def watch(request: dict[str, Any], passed: list[int]) -> None:
    """Fork once more: the child tells who it is and is to run the program, the parent tells how it ended."""
    *streams, told = passed
    child = os.fork()
    if child:
        for number in streams:
            os.close(number)
        os.write(told, b"%d" % os.waitpid(child, 0)[1])
        os._exit(0)
    take_over(request, streams)
    os.write(told, b"%d" % os.getpid())  # from now on signals reach the program
    os.close(told)


def take_over(request: dict[str, Any], streams: list[int]) -> None:
    """Have what a new process would have: streams, folder, environment, arguments."""
    if request["new_session"]:
        os.setsid()
        if os.isatty(streams[0]):  # its terminal sends it signals, as when the window is closed
            fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for place, number in enumerate(streams):
        os.dup2(number, place)
        os.close(number)
    # ruff: noqa: SIM115  # they last as long as the process
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stderr = sys.__stderr__ = open(
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    sys.path[0] = request["folder"]
    sys.argv = ["refold", *request["arguments"]]


def leave_quickly(status: Any) -> None:
    """End as Python does, but do not free a hundred megabytes object by object, which takes as long as the work.

    Returns where Python itself has to tell something: a status in words, or an output that takes nothing.
    """
    if not isinstance(status, int | None):
        return
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(status or 0)


if __name__ == "__main__":
    serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
    try:
        runpy.run_module("refold.cli", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        leave_quickly(end.code)
        raise
