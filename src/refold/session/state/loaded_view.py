"""The messages of a view in memory: wire values, parsed messages, sizes and sums, kept as the view grows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from refold.core.log.normal_form import PRIVATE
from refold.core.log.view import MessageRange, Replacement, ViewItem
from refold.core.messages.message import EMPTY, Message
from refold.core.messages.unread import is_compaction, is_native, lasts_one_turn
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
    has_private: bool = False
    """True if a message came with a key that is not sent."""
    last_block: int = -1
    """Place of the last compaction of a provider that no fold has put there; -1 if there is none."""
    sound: ValidityTracker | None = None
    """None if the history has to be checked as a whole."""

    def __post_init__(self) -> None:
        self.sound = ValidityTracker(self.wire.shape)

    def add(
        self, view_items: Sequence[ViewItem | None], items: Sequence[Any], messages: Iterable[Message]
    ) -> None:
        """Append messages."""
        self.view_items += view_items
        self.items += map(without_private, items)
        self.has_private = self.has_private or any(map(has_private, items))
        for view_item, read in zip(view_items, messages, strict=True):
            message = unmark_said(read) if isinstance(view_item, MessageRange) else read
            visible = self.counter.visible(message)
            size = self.counter.count_with_text(message, visible)
            self.messages.append(message)
            self.sizes.append(size)
            self.units += size
            self.characters += len(visible)
            self._drop_unread(message)
            if self.sound is not None and not self.sound.accepts(message):
                self.sound = None

    def _drop_unread(self, message: Message) -> None:
        """Count nothing for messages that the provider does not read any more now that this one is here."""
        last = len(self.messages) - 1
        places: Iterable[int]
        if is_compaction(message) and not is_native(message):
            self.last_block = last
            places = range(last)
        elif message.role == "user":
            behind_user = takewhile(lambda at: self.messages[at].role != "user", range(last - 1, -1, -1))
            places = [at for at in behind_user if lasts_one_turn(self.messages[at])]
        else:
            return
        for at in places:
            if self.sizes[at]:
                self.units -= self.sizes[at]
                self.characters -= len(self.counter.visible(self.messages[at]))
                self.sizes[at] = 0

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
        fresh.has_private = self.has_private or fresh.has_private
        return fresh

    def update_items(self, items: Mapping[int, Any]) -> None:
        """Show said messages in the JSON that the caller has now, by their numbers.

        A message is parsed again unless the format needs its neighbours for that.
        """
        for index, shown in enumerate(self.view_items):
            given = items.get(shown.first) if isinstance(shown, MessageRange) else None
            item = without_private(given)
            if item is None or item == self.items[index]:
                continue
            self.items[index] = item
            if not self.wire.positional:
                (message,) = self.wire.parse([item])
                self._replace_message(index, unmark_said(message))

    def _replace_message(self, index: int, message: Message) -> None:
        if not self.sizes[index]:  # the provider does not read it
            self.messages[index] = message
            return
        visible, before = self.counter.visible(message), self.counter.visible(self.messages[index])
        size = self.counter.count_with_text(message, visible)
        self.units += size - self.sizes[index]
        self.characters += len(visible) - len(before)
        self.messages[index], self.sizes[index] = message, size

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


def has_private(item: Any) -> bool:
    """True if a message has a key for an adapter's own data."""
    return isinstance(item, dict) and PRIVATE in item


def without_private(item: Any) -> Any:
    """Return a message without an adapter's own data: the log keeps it, nobody sends it."""
    return {key: value for key, value in item.items() if key != PRIVATE} if has_private(item) else item


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
