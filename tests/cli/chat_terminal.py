"""A real terminal for the chat: the program runs on a pseudo-terminal, and a screen shows what a person sees."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
import time

import pexpect
import pyte
from cli_running import start
from pexpect.fdpexpect import fdspawn

PATIENCE = 300.0
"""Seconds after which a test gives up; only a hang takes so long, also on a busy machine."""


class _Program(fdspawn):
    """The program `refold` on a terminal of its own; it ends with that."""

    def __init__(self, args, env, rows, columns, out):
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (rows, columns))
        streams = {"stdin": slave, "stdout": slave if out is None else out, "stderr": slave}
        self.terminal = os.ttyname(slave)
        self.process = start(args, env, start_new_session=True, **streams)
        os.close(slave)
        super().__init__(master, encoding="utf-8", codec_errors="replace", timeout=PATIENCE)

    def close(self):
        """Close the window and wait for the program."""
        super().close()
        self.process.wait(PATIENCE)


def _count_waiting(keyboard):
    """The bytes that a terminal holds for its program."""
    return struct.unpack("i", fcntl.ioctl(keyboard, termios.FIONREAD, bytes(4)))[0]


class Terminal:
    """A chat on a terminal of so many columns and lines; `out` is the file that takes its standard output."""

    def __init__(self, *args, columns=100, rows=30, env=None, out=None):
        self.screen = pyte.HistoryScreen(columns, rows, history=2_000, ratio=0.5)
        self.stream = pyte.Stream(self.screen)
        self.raw = ""
        self.program = _Program(args, {**os.environ, **(env or {})}, rows, columns, out)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.close()

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

    def type_ahead(self, text):
        """Type keys that nobody reads yet, and wait until the terminal holds them."""
        keyboard = os.open(self.program.terminal, os.O_RDONLY | os.O_NOCTTY)
        try:
            self.type(text)
            for _ in range(round(PATIENCE / 0.05)):  # each look takes so long at least
                if _count_waiting(keyboard) >= len(text.encode()):
                    return
                self.read()
            raise AssertionError(f"{text!r} did not arrive")
        finally:
            os.close(keyboard)

    def enter(self, text):
        """Type a line."""
        self.program.send(f"{text}\r")

    def resize(self, columns, rows):
        self.screen.resize(rows, columns)
        termios.tcsetwinsize(self.program.child_fd, (rows, columns))

    def ended(self) -> int:
        """The status with which the program ended."""
        with contextlib.suppress(pexpect.EOF):
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                self.read(0.1)
        return self.program.process.wait(PATIENCE)
