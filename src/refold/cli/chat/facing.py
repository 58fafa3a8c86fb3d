"""What every way of showing a chat has in common: what is told at the end of a turn, and the contract."""

from contextlib import AbstractContextManager
from typing import Protocol

from refold.chat.desk import Desk
from refold.chat.happenings import Happening
from refold.chat.showing import Note, Person


class Face(Person, Protocol):
    """How a chat meets a person: a terminal, or lines."""

    @property
    def lasting(self) -> bool:
        """Whether the chat goes on after a failure: somebody sits there."""
        ...

    def sit(self, desk: Desk) -> None:
        """Meet somebody at this desk."""
        ...

    def read(self) -> str | None:
        """The next words or command; None where there are no more."""
        ...

    def happen(self, happening: Happening) -> None:
        """See something happen in a turn."""
        ...

    def turning(self) -> AbstractContextManager[None]:
        """See a turn begin and end, however it ends."""
        ...

    def beside(self, note: Note) -> None:
        """See a word that is no part of the answer."""
        ...
