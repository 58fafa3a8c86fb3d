"""The keys under which messages of this branch were said, so that a repeated `say` finds the first one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from refold.stores import Head

KEY = "key"
"""Name of the fact beside an entry that holds its key."""


@dataclass(slots=True)
class MessageKeys:
    """Keys and the numbers of their messages, as far as the line of the log was read."""

    line: int = -1
    read: int = 0
    """Number of the last message that was looked at."""
    numbers: dict[str, int] = field(default_factory=dict)

    def first_unread(self, head: Head) -> int:
        """Return the first message on the path to a head that was not looked at; on another line all are."""
        if head.place.line != self.line:
            self.line, self.read, self.numbers = head.place.line, 0, {}
        return self.read + 1

    def add(self, found: Mapping[str, int], last: int) -> None:
        """Note the keys of the messages up to `last`; the first message of a key counts."""
        self.read = max(self.read, last)
        for key, number in found.items():
            self.numbers.setdefault(key, number)

    def find(self, key: str, last: int) -> int | None:
        """Return the number of the message with a key among the first `last`, or None."""
        number = self.numbers.get(key)
        return None if number is None or number > last else number
