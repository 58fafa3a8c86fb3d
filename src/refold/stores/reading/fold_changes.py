"""What a fold removed and what stands there now, message by message, read from the store."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from refold import formats
from refold.core.log.entries import SAID, Entry
from refold.core.log.view import MessageRange, ViewItem
from refold.core.messages.message import Message
from refold.stores import Place, Store
from refold.stores.reading.stored_messages import parse_entry, parse_stored


@dataclass(frozen=True, slots=True)
class Side:
    """A message on one side of a change."""

    fold: str
    """The fold that inserted it; "" for one that was said."""
    number: int
    """Its number, or its place among the messages of its fold."""
    message: Message


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """Reads the messages of a view's pieces from the store."""

    store: Store
    session: str
    place: Place
    folds: Mapping[str, Entry]

    def read(self, pieces: Iterable[ViewItem]) -> Iterator[Side]:
        """Yield the messages of some pieces."""
        for piece in pieces:
            if isinstance(piece, MessageRange):
                first, last = piece.first, piece.last
                for entry in self.store.read(self.session, self.place, kinds=SAID, first=first, last=last):
                    yield Side("", entry.said, parse_entry(entry))
            else:
                yield Side(piece.fold, piece.place, read_inserted(self.folds[piece.fold], piece.place))


def read_inserted(fold: Entry, place: int) -> Message:
    """Return one of the messages that a fold inserted."""
    value = fold.value["messages"][place]
    wire = "refold" if "message" in value else str(fold.beside.get("format", formats.DEFAULT))
    return parse_stored(value["message" if "message" in value else "wire"], wire)
