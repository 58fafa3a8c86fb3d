"""Ctrl-C: interrupts the wait for a model, and is held back while something is written.

    interrupts = Interrupts()
    with interrupts.active():                # for as long as a turn takes
        with interrupts.interruptible():     # waiting for text: Ctrl-C ends it here
            piece = next(stream)
        session.say(...)                     # writing: Ctrl-C is held back until the next such place

Pressed twice it interrupts anywhere, so that a store that hangs does not hold the user.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupts:
    """Decides where Ctrl-C may interrupt."""

    def __init__(self) -> None:
        self._is_open = False
        self._is_pending = False

    @contextmanager
    def active(self) -> Iterator[None]:
        """Handle Ctrl-C for as long as this lasts; Python delivers signals to the main thread only."""
        self._is_pending = False
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, self._on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            self._is_pending = False

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Allow an interruption inside this block."""
        if self._is_pending:
            self._is_pending = False
            raise KeyboardInterrupt
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False

    def _on_signal(self, *_: Any) -> None:
        if self._is_open or self._is_pending:
            self._is_open = self._is_pending = False
            raise KeyboardInterrupt
        self._is_pending = True
