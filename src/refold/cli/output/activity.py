"""What a command is doing, in one line on standard error, from its second second on; knows no command.

The line is drawn by a thread, because the work itself may be one long call. Whatever else is printed erases
it first, and once the result is on the same terminal it does not come back. In a pipe or a file a line of its
own comes after ten seconds, then after twenty, forty and eighty, then each minute.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

CLEAR_LINE: Final = "\r\x1b[2K"
"""Back to the first column, and erase the line."""
DELAY_SECONDS: Final = 1.0
"""A shorter wait needs no explanation, and a line that comes and goes at once only flickers."""
LINE_SECONDS: Final = 10.0
"""The same where each line stays; the distance between two lines grows to a minute."""


class Activity:
    """The line about the work of one command, or nothing at all without a stream."""

    def __init__(
        self,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        redraws: bool = True,
    ) -> None:
        self.doing = ""
        """What is being done now; the name of the command where nothing else is known."""
        self._stream, self._clock = stream, clock
        self.redraws = redraws
        """False where each line stays, as in a pipe or a file."""
        self._lock = threading.RLock()
        self._is_drawn = self._is_over = False

    @contextmanager
    def watch(self, doing: str) -> Iterator[None]:
        """Draw the line while this lasts, from a second on."""
        self.doing, ended, begun = doing, threading.Event(), self._clock()
        ticks = threading.Thread(target=self.tick, args=(doing, begun, ended), daemon=True)
        ticks.start()
        try:
            yield
        finally:
            ended.set()
            ticks.join()
            self.erase()

    def tick(self, command: str, begun: float, ended: threading.Event) -> None:
        """Tell what is being done until it has ended."""
        due = LINE_SECONDS
        while not ended.wait(DELAY_SECONDS):
            doing, seconds = self.doing or command, self._clock() - begun
            if not self.redraws:
                if seconds < due or doing == command:  # which is no news in a log
                    continue
                due = seconds + min(seconds, 60)
            self.draw(f"{doing} ({seconds:.0f} s)")

    def draw(self, text: str) -> None:
        """Draw the line again, unless the result is being printed."""
        with self._lock, suppress(OSError, ValueError):  # nobody reads it any more
            if self._stream is not None and not self._is_over:
                self._stream.write(CLEAR_LINE + text if self.redraws else f"{text}\n")
                self._stream.flush()
                self._is_drawn = self.redraws

    def erase(self, *, for_good: bool = False) -> None:
        """Erase the line, if it is drawn; `for_good`: it does not come back."""
        with self._lock:
            self._is_over = self._is_over or for_good
            if self._is_drawn and self._stream is not None:
                self._stream.write(CLEAR_LINE)
                self._stream.flush()
                self._is_drawn = False

    @contextmanager
    def make_way(self, *, for_good: bool = False) -> Iterator[None]:
        """Erase the line, and keep it away while something else is printed."""
        with self._lock:
            self.erase(for_good=for_good)
            yield
