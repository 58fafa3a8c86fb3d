"""The messages of a view, at hand: wire values, read messages, sizes and sums, kept as the view grows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from refold.core.log.view import ViewItem
from refold.core.messages.message import Message
from refold.core.messages.validity import ValidityTracker
from refold.core.tokens.counting import Counter
from refold.formats import Format


@dataclass(slots=True)
class LoadedView:
    """What the model sees; the first `fixed` messages are system messages that no fold touches."""

    wire: Format
    counter: Counter
    fixed: int = 0
    atoms: list[ViewItem | None] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    units: int = 0
    characters: int = 0
    sound: ValidityTracker | None = None
    """None where the history has to be looked at as a whole."""

    def __post_init__(self) -> None:
        self.sound = ValidityTracker(self.wire.shape)

    def add(self, atoms: Sequence[ViewItem | None], items: Sequence[Any], messages: Iterable[Message]) -> None:
        """Put messages behind the others."""
        self.atoms += atoms
        self.items += items
        for message in messages:
            visible = self.counter.visible(message)
            size = self.counter.sized(message, visible)
            self.messages.append(message)
            self.sizes.append(size)
            self.units += size
            self.characters += len(visible)
            if self.sound is not None and not self.sound.follows(message):
                self.sound = None

    def read(self, items: Sequence[Any]) -> Sequence[Message]:
        """Read new items; where the format needs it, together with those before them."""
        if self.wire.positional:
            return self.wire.parse([*self.items, *items])[len(self.items) :]
        return self.wire.parse(items)

    @property
    def tokens(self) -> int:
        """Tokens of the history."""
        return self.counter.tokens(self.units + self.counter.per_conversation) if self.sizes else 0

    @property
    def body(self) -> list[Any]:
        """The wire values behind the system messages."""
        return self.items[self.fixed :]
