"""A deadline for each wait of an answer: one timer that is set anew only when it has run out.

A stream has thousands of waits of some milliseconds, and a deadline of minutes for each of them. A timer for
each would cost more than passing the piece on.
"""

import asyncio
from collections.abc import Callable


class IdleTimer:
    """Calls somebody if a wait lasts for too long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._end_wait: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, end_wait: Callable[[], None]) -> None:
        """Begin a wait.

        end_wait   called if it lasts for too long
        """
        self._since, self._end_wait = self._loop.time(), end_wait
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._check)

    def end(self) -> None:
        """Note that what was waited for has come."""
        self._end_wait = None

    def close(self) -> None:
        """Stop the timer."""
        self._end_wait = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        """End a wait that is too long; else look again when the newest one would be."""
        self._timer = None
        if self._end_wait is None:
            return  # the next wait sets the timer again
        left = self._since + self._seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check)
        else:
            end_wait, self._end_wait = self._end_wait, None
            end_wait()
