"""The messages of a view in memory: wire values, parsed messages, sizes and sums, kept as the view grows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from refold.core.log.view import MessageRange, Replacement, ViewItem
from refold.core.messages.message import EMPTY, Message
from refold.core.messages.validity import ValidityTracker
from refold.core.tokens.counting import Counter
from refold.formats import Format


@dataclass(slots=True)
class LoadedView:
    """The messages that the model sees; the first `fixed` ones are system messages that no fold touches."""

    wire: Format
    counter: Counter
    fixed: int = 0
    view_items: list[ViewItem | None] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    units: int = 0
    characters: int = 0
    sound: ValidityTracker | None = None
    """None if the history has to be checked as a whole."""

    def __post_init__(self) -> None:
        self.sound = ValidityTracker(self.wire.shape)

    def add(
        self, view_items: Sequence[ViewItem | None], items: Sequence[Any], messages: Iterable[Message]
    ) -> None:
        """Append messages."""
        self.view_items += view_items
        self.items += items
        for view_item, read in zip(view_items, messages, strict=True):
            message = unmark_said(read) if isinstance(view_item, MessageRange) else read
            visible = self.counter.visible(message)
            size = self.counter.count_with_text(message, visible)
            self.messages.append(message)
            self.sizes.append(size)
            self.units += size
            self.characters += len(visible)
            if self.sound is not None and not self.sound.accepts(message):
                self.sound = None

    def read(self, items: Sequence[Any]) -> Sequence[Message]:
        """Parse new items; together with the items before them if the format needs that."""
        if self.wire.positional:
            return self.wire.parse([*self.items, *items])[len(self.items) :]
        return self.wire.parse(items)

    def with_system(self, system: Sequence[Any], messages: Sequence[Message]) -> "LoadedView":
        """Return the view with other system messages in front."""
        fresh = LoadedView(self.wire, self.counter, fixed=len(system))
        fresh.add([None] * len(system), system, messages)
        fresh.add(self.view_items[self.fixed :], self.body, self.messages[self.fixed :])
        return fresh

    def update_item(self, index: int, item: Any) -> None:
        """Replace the wire value of a said message by an equal one that differs in cache marks only."""
        self.items[index] = item
        (message,) = self.wire.parse([item])
        self.messages[index] = unmark_said(message)

    @property
    def system(self) -> list[Any]:
        """The wire values of the system messages."""
        return self.items[: self.fixed]

    @property
    def body(self) -> list[Any]:
        """The wire values behind the system messages."""
        return self.items[self.fixed :]

    @property
    def system_tokens(self) -> int:
        """Tokens of the system messages."""
        return self.counter.tokens(sum(self.sizes[: self.fixed]))

    @property
    def tokens(self) -> int:
        """Tokens of the history."""
        return self.counter.tokens(self.units + self.counter.per_conversation) if self.sizes else 0


def unmark_said(message: Message) -> Message:
    """Return a said message as somebody's own: the log knows the summaries, and a text may begin like one.

    System messages keep the mark: programs write them, and a summary that comes back must not become a rule.
    """
    by_text = message.is_summary and message.wire is not None and message.role != "system"
    return replace(message, source=None, meta=EMPTY) if by_text else message


def single_pieces(piece: ViewItem) -> Sequence[ViewItem]:
    """Split a piece into pieces of one message each."""
    if isinstance(piece, Replacement):
        return (piece,)
    return [MessageRange(number, number) for number in range(piece.first, piece.last + 1)]
