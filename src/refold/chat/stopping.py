"""Ctrl-C: interrupts where one waits for a model, and waits where something is being written.

    stops = Stops()
    with stops.heeded():                 # for as long as a turn takes
        with stops.breakable():          # waiting for words: an interruption ends it here
            piece = next(stream)
        session.say(...)                 # writing: an interruption is kept until the next such place

Pressed twice it interrupts anywhere: a store that hangs does not hold the person.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stops:
    """Where an interruption may come through."""

    def __init__(self) -> None:
        self._open = False
        self._wanted = False

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Take interruptions here for as long as this lasts; only the main thread gets any."""
        self._wanted = False
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._interrupted)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            self._wanted = False

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """A place where one waits, and may stop waiting."""
        if self._wanted:
            self._wanted = False
            raise KeyboardInterrupt
        self._open = True
        try:
            yield
        finally:
            self._open = False

    def _interrupted(self, *_: Any) -> None:
        if self._open or self._wanted:
            self._open = self._wanted = False
            raise KeyboardInterrupt
        self._wanted = True
