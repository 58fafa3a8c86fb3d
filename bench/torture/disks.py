"""A disk that remembers what was done to it, and what may be left of that when the power goes.

What was synced is there. Of what was written since, each sector of 512 bytes may be there or not, in any
order; what was never written reads as zeros. A new name, a new place or the end of a name counts once its
folder was synced, and may count before. A name belongs to the content that was put under it.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

SECTOR: Final = 512
Loss: TypeAlias = Literal["all", "none", "in order", "any order"]
"""What becomes of that which was not synced: lost, kept, kept up to a sector, or any sectors of it."""
LOSSES: Final[tuple[Loss, ...]] = ("all", "none", "in order", "any order")


class Event(NamedTuple):
    """Something that was done to the disk."""

    what: Literal["write", "cut", "sync", "name", "unname", "rename", "sync names", "mark"]
    file: int = 0
    """Number of the content it was done to."""
    name: str = ""
    at: int = 0
    """Where it was written, the new length, or the number of a mark."""
    data: bytes = b""
    old: str = ""
    """The name before a rename."""


@dataclass(slots=True)
class Content:
    """One file's bytes: as they are for sure, and what was done to them since."""

    sure: bytearray = field(default_factory=bytearray)
    since: list[Event] = field(default_factory=list)

    def sync(self) -> None:
        """Everything done to it is there for good."""
        for event in self.since:
            _apply(self.sure, event)
        self.since.clear()

    def left(self, loss: Loss, chance: random.Random) -> bytes:
        """What may be there after a loss of power."""
        left = bytearray(self.sure)
        if loss == "all":
            return bytes(left)
        pieces = [piece for event in self.since for piece in _sectors(event)]
        if loss == "in order":
            pieces = pieces[: chance.randint(0, len(pieces))]
        elif loss == "any order":
            share = chance.choice((0.1, 0.5, 0.9))
            pieces = [piece for piece in pieces if chance.random() < share]
        for piece in pieces:
            _apply(left, piece)
        return bytes(left)


def _apply(content: bytearray, event: Event) -> None:
    if event.what == "cut":
        del content[event.at :]
        content.extend(bytes(event.at - len(content)))
        return
    if event.at > len(content):
        content.extend(bytes(event.at - len(content)))
    content[event.at : event.at + len(event.data)] = event.data


def _sectors(event: Event) -> list[Event]:
    """A write as writes of single sectors."""
    if event.what == "cut":
        return [event]
    pieces: list[Event] = []
    at, data = event.at, event.data
    while data:
        size = SECTOR - at % SECTOR
        pieces.append(event._replace(at=at, data=data[:size]))
        at, data = at + size, data[size:]
    return pieces


class Disk:
    """All files of a recording, at some moment of it."""

    def __init__(self) -> None:
        self.contents: dict[int, Content] = {}
        self.sure_names: dict[str, int] = {}
        self.since: list[Event] = []
        """What was done to names since they were synced."""
        self.mark = 0

    def take(self, event: Event) -> None:
        """Let something happen."""
        content = self.contents.setdefault(event.file, Content()) if event.file else None
        if event.what == "mark":
            self.mark = event.at
        elif event.what in ("name", "unname", "rename"):
            self.since.append(event)
        elif event.what == "sync names":
            self.sure_names = self.names(len(self.since))
            self.since.clear()
        elif content is not None and event.what == "sync":
            content.sync()
        elif content is not None:
            content.since.append(event)

    def names(self, count: int) -> dict[str, int]:
        """The names after so many of the changes that were not synced; a folder keeps their order."""
        names = dict(self.sure_names)
        for event in self.since[:count]:
            if event.what == "unname":
                names.pop(event.name, None)
                continue
            if event.what == "rename":
                names.pop(event.old, None)
            names[event.name] = event.file
        return names

    def image(self, into: Path, loss: Loss, chance: random.Random) -> None:
        """Write what may be left into a folder that is empty."""
        counts = {"all": 0, "none": len(self.since)}
        for name, file in self.names(counts.get(loss, chance.randint(0, len(self.since)))).items():
            (into / name).write_bytes(self.contents.setdefault(file, Content()).left(loss, chance))


class Recording:
    """What was done, in order; marks say how much the user was told is done."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._files = 0

    def new_file(self) -> int:
        """A number for a content that is new."""
        self._files += 1
        return self._files

    def add(self, event: Event) -> None:
        """Remember something."""
        self.events.append(event)

    def moments(self, chosen: Sequence[int]) -> "list[Callable[[], Disk]]":
        """The disk at some moments, which have to grow; each is to be asked for in turn."""
        disk = Disk()
        done = 0

        def until(moment: int) -> Disk:
            nonlocal done
            for event in self.events[done:moment]:
                disk.take(event)
            done = max(done, moment)
            return disk

        return [lambda moment=moment: until(moment) for moment in sorted(chosen)]  # type: ignore[misc]
