"""A client of `refold rpc` in a process of its own, over real pipes."""

import contextlib
import json
import os
import queue
import subprocess
import threading
from time import sleep

from forked_program import Forked

WAIT = 120.0
"""Seconds after which something hangs; nothing takes nearly as long, on a busy machine either."""

_ENDED = object()
"""Comes last, where the program has closed its output."""


def wait_until(happened):
    """Look again and again until something happened."""
    for _ in range(int(WAIT * 100)):
        if happened():
            return
        sleep(0.01)
    raise AssertionError("it did not happen")


class Client:
    """Sends calls and keeps answers and events apart."""

    def __init__(self, *options, framed=False, env=None):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("REFOLD_")}
        self.process = Forked(
            ["rpc", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, **(env or {})},
        )
        self.framed = framed
        self.events = queue.Queue()
        self.answers = queue.Queue()
        self.parked = {}
        self.number = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self._reader.join(WAIT)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()

    def _read(self):
        stream = self.process.stdout
        while line := stream.readline():
            if self.framed:
                size = int(line.split(b":")[1])
                stream.readline()
                line = stream.read(size)
            value = json.loads(line)
            (self.events if isinstance(value, dict) and "method" in value else self.answers).put(value)
        self.events.put(_ENDED)
        self.answers.put(_ENDED)

    def _take(self, told):
        """The next answer or event; fails at once, with the reason, where the program has ended."""
        value = told.get(timeout=WAIT)
        if value is _ENDED:
            status = self.process.wait(WAIT)
            raise AssertionError(f"it ended with {status}: {self.process.stderr.read().decode()}")
        return value

    def raw(self, data: bytes):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, value):
        body = json.dumps(value).encode()
        self.raw(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) if self.framed else body + b"\n")

    def begin(self, method, params=None):
        """Send a call; gives its id."""
        self.number += 1
        call = {"jsonrpc": "2.0", "id": self.number, "method": method}
        self.send(call if params is None else {**call, "params": params})
        return self.number

    def answer(self, number=None):
        """The next answer, or the one to this call."""
        while number not in self.parked:
            got = self._take(self.answers)
            if number is None:
                return got
            self.parked[got.get("id") if isinstance(got, dict) else None] = got
        return self.parked.pop(number)

    def call(self, method, **params):
        """The result of a call."""
        answer = self.answer(self.begin(method, params))
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, params=None):
        """The error of a call."""
        return self.answer(self.begin(method, params))["error"]

    def event(self, kind):
        """The next event of a kind; others are passed over."""
        while True:
            told = self._take(self.events)
            assert told["method"] == "session/event"
            if told["params"]["kind"] == kind:
                return told["params"]

    def end(self):
        """Close the input and wait; gives the status and what stands on standard error."""
        self.process.stdin.close()
        status = self.process.wait(WAIT)
        return status, self.process.stderr.read().decode()
