"""A real terminal for the chat: the program runs on a pseudo-terminal, and a screen shows what a person sees."""

import contextlib
import os
import re
import time

import pexpect
import pyte
from cli_running import PROGRAM

PATIENCE = 300.0
"""Seconds after which a test gives up; only a hang takes so long, also on a busy machine."""


class Terminal:
    """A chat on a terminal of so many columns and lines."""

    def __init__(self, *args, columns=100, rows=30, env=None, program=PROGRAM):
        self.screen = pyte.HistoryScreen(columns, rows, history=2_000, ratio=0.5)
        self.stream = pyte.Stream(self.screen)
        self.raw = ""
        self.program = pexpect.spawn(
            program[0],
            [*program[1:], *map(str, args)],
            dimensions=(rows, columns),
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            encoding="utf-8",
            codec_errors="replace",
            timeout=PATIENCE,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.close(force=True)

    def read(self, seconds=0.05):
        """Let the screen show what has come."""
        with contextlib.suppress(pexpect.TIMEOUT):
            while True:
                data = self.program.read_nonblocking(65_536, seconds)
                self.raw += data
                for number, part in enumerate(data.split("\x1b[6n")):
                    if number:  # a terminal that is asked where its cursor is answers
                        self.program.send(f"\x1b[{self.screen.cursor.y + 1};{self.screen.cursor.x + 1}R")
                    self.stream.feed(part)

    @property
    def shown(self) -> list[str]:
        """The lines on the screen."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def everything(self) -> str:
        """What has left the screen at the top, and what is on it."""
        gone = [
            "".join(line[column].data for column in range(self.screen.columns)).rstrip()
            for line in self.screen.history.top
        ]
        return "\n".join([*gone, *self.shown])

    def expect(self, pattern, *, where="screen", seconds=PATIENCE):
        """Wait until something is seen; what is seen then comes back."""
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(pexpect.EOF):
                self.read()
            text = "\n".join(self.shown) if where == "screen" else self.everything
            if re.search(pattern, text):
                return text
            if time.monotonic() > end:
                raise AssertionError(f"{pattern!r} was not seen on\n{text}")

    def type(self, text):
        """Type keys."""
        self.program.send(text)

    def enter(self, text):
        """Type a line."""
        self.program.send(f"{text}\r")

    def resize(self, columns, rows):
        self.screen.resize(rows, columns)
        self.program.setwinsize(rows, columns)

    def ended(self) -> int:
        """The status with which the program ended."""
        with contextlib.suppress(pexpect.EOF):
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                self.read(0.1)
        self.program.wait()
        return self.program.exitstatus if self.program.exitstatus is not None else -self.program.signalstatus
