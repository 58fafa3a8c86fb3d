"""A breaker for the store: while it fails, requests do not wait for it, and it is tried again by and by."""

from typing import Final

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 30.0
"""Seconds after which a failed store is tried again: at first soon, then more and more rarely."""


class StoreBreaker:
    """Says whether the store may be asked now."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._until = 0.0

    @property
    def is_open(self) -> bool:
        """True since the store has failed, until it answers again."""
        return self._seconds > 0

    def allows(self, now: float) -> bool:
        """True if the store may be asked; once the time is over, one request tries it."""
        if not self.is_open or now < self._until:
            return not self.is_open
        self._until = now + self._seconds
        return True

    def note_failure(self, now: float) -> None:
        """Note that the store has failed."""
        self._seconds = min(max(FIRST_SECONDS, self._seconds * 2), LONGEST_SECONDS)
        self._until = now + self._seconds

    def note_success(self) -> None:
        """Note that the store has answered."""
        self._seconds = 0.0
