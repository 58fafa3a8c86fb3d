"""The messages of a view in memory: wire values, parsed messages, sizes and sums, kept as the view grows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from refold.core.compaction.bound_thinking import has_bound
from refold.core.log.normal_form import PRIVATE, may_have_marks, split_cache_marks
from refold.core.log.view import MessageRange, Replacement, ViewItem
from refold.core.messages.message import EMPTY, Message, ToolCall, ToolResult
from refold.core.messages.message_text import full_text
from refold.core.messages.unread import hides_before, is_compaction, is_native, lasts_one_turn
from refold.core.messages.validity import ValidityTracker
from refold.core.tokens.counting import Counter, count_guessed
from refold.core.tokens.findings import Findings
from refold.formats import Format
from refold.formats.shared.positions import Positions, is_position
from refold.session.state.thinking_prefixes import ShownThinking, ThinkingPrefixes


@dataclass(slots=True)
class Sums:
    """What the messages of a view have together."""

    units: int = 0
    characters: int = 0
    guessed: int = 0
    """Tokens of documents of which nothing can be read."""

    def add(self, message: Message, size: int, visible: str, *, sign: int = 1) -> None:
        """Add a message, or take it away."""
        self.units += sign * size
        self.characters += sign * len(visible)
        self.guessed += sign * count_guessed(message)


@dataclass(slots=True)
class WireReader:
    """Reads new items of a view in its format, behind those that it has already."""

    wire: Format
    positions: Positions = field(default_factory=Positions)
    """The calls without a result among the items that were looked at."""
    source: list[Any] | None = None
    """The list of these items; while a view has the same one, it has only grown."""
    count: int = 0
    """Their number."""

    def read(self, before: list[Any], items: Sequence[Any]) -> Sequence[Message]:
        """Parse items; with a look at those before them if these tell their ids, at each of them once."""
        if not has_positions(messages := self.wire.parse(items)):
            return messages
        if self.wire.parse_behind is None:
            return self.wire.parse([*before, *items])[len(before) :]
        if self.source is not before:
            self.positions, self.source, self.count = Positions(), before, 0
        first, self.count = self.count, len(before)
        return self.wire.parse_behind(before[first:], items, self.positions)


@dataclass(slots=True)
class LoadedView:
    """The messages that the model sees; the first `fixed` ones are system messages that no fold touches."""

    reader: WireReader
    counter: Counter
    fixed: int = 0
    view_items: list[ViewItem | None] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)
    """Another list whenever a message that is here already changes: the same one has only grown."""
    messages: list[Message] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    has_private: bool = False
    """True if a message came with a key that is not sent."""
    marked: set[int] = field(default_factory=set)
    """Places of messages with cache marks; most have none, and every turn asks for them."""
    last_block: int = -1
    """Place of the last compaction of a provider that no fold has put there; -1 if there is none."""
    sound: ValidityTracker | None = None
    """None if the history has to be checked as a whole."""
    bound: ShownThinking = field(default_factory=ShownThinking)
    """Which thinking is shown, where the model binds it to what stands before it."""
    found: Findings = field(default_factory=Findings, compare=False, repr=False)
    """What folds have found in single messages and texts, for the next one."""

    def __post_init__(self) -> None:
        self.sound = ValidityTracker(self.wire.shape)

    def add(
        self,
        view_items: Sequence[ViewItem | None],
        items: Sequence[Any],
        messages: Iterable[Message],
        texts: Sequence[str] = (),
    ) -> None:
        """Append messages; their full texts, if those are known, are the very ones that a count remembers."""
        known = texts if texts and self.counter.visible is full_text else [None] * len(items)
        self.view_items += view_items
        for view_item, given, read, text in zip(view_items, items, messages, known, strict=True):
            message = unmark_said(read) if read.source and isinstance(view_item, MessageRange) else read
            item, shown = given, message
            is_object = isinstance(given, dict)
            if is_object and PRIVATE in given:
                self.has_private, item = True, without_private(given)
            if self.bound.thinking is not None:
                item, shown = self.bound.show(len(self.messages), item, message, self.wire.render)
            if is_object and may_have_marks(item) and split_cache_marks(item)[1]:
                self.marked.add(len(self.items))
            self.items.append(item)
            visible = self.counter.visible(shown) if text is None or shown is not message else text
            size = self.counter.count_with_text(shown, visible)
            self.messages.append(shown)
            self.sizes.append(size)
            self.sums.add(shown, size, visible)
            if shown.role == "user" or is_compaction(shown):
                self._drop_unread(shown)
            if self.sound is not None and not self.sound.accepts(shown):
                self.sound = None

    def bind(self, thinking: ThinkingPrefixes | None) -> bool:
        """Show the messages behind what is sent before them now; return whether that changes any."""
        bound, before = self.bound, dict(self.bound.whole)
        if not bound.begin_again(thinking, self.items):
            return False
        self.items = list(self.items)
        if thinking is None:
            bound.whole.clear()
            for index, (item, message) in before.items():
                self._put_item(index, item)
                self._replace_message(index, message)
        self._show_from(0)
        return before.keys() != bound.whole.keys()

    def _show_from(self, first: int) -> None:
        """Decide again from a place on which thinking is shown."""
        self.items = list(self.items)
        for index in self.bound.go_back(first):
            item, message = self.get_whole(index)
            item, shown = self.bound.show(index, item, message, self.wire.render, self.items[index])
            if shown != self.messages[index]:
                self._replace_message(index, shown)
            self._put_item(index, item)

    def _put_item(self, index: int, item: Any) -> None:
        self.items[index] = item
        (self.marked.add if split_cache_marks(item)[1] else self.marked.discard)(index)

    def drop_marks(self, sent: list[Any], places: Sequence[int | None], newest: Sequence[int]) -> None:
        """Take the marks of earlier lists out of messages that have no place in the list of now.

        newest   the last places of copies: a caller may have put marks into those that it was given
        """
        changed = [at for at in newest if sent[at] != self.items[at]]
        for at in (*self.marked, *changed):
            if places[at] is None:
                sent[at], _ = split_cache_marks(sent[at])

    def put_items(self, items: Mapping[int, Any]) -> None:
        """Send messages in the JSON that the caller has now, by their places in the view."""
        if items:
            self.items = list(self.items)
        for index, item in items.items():
            self._put_item(index, item)
            self._read_again(index, item)
            if self.bound.is_changed(index, item):
                self.bound.forget(index)
        self._show_changed(items)

    def _show_changed(self, places: Iterable[int]) -> None:
        """Decide on thinking again behind the first of these messages that is not what it was."""
        changed = [index for index in places if self.bound.is_changed(index, self.items[index])]
        for index in changed:
            self.bound.hash_again(index, self.items[index])
        if changed:
            self._show_from(min(changed))

    def changes_bound(self, index: int, item: Any) -> bool:
        """True if a message has thinking that is bound to its place, and this JSON of it is another."""
        return has_bound(self.messages[index]) and self.bound.is_changed(index, item)

    def is_mended(self, index: int, item: Any) -> bool:
        """True if a fold has put other words for these: a result without content became an empty one."""
        if isinstance(self.view_items[index], MessageRange):
            return False
        own, given = (self.wire.parse([split_cache_marks(one)[0]]) for one in (self.items[index], item))
        return own != given

    def get_whole(self, index: int) -> tuple[Any, Message]:
        """Return a message with all of its thinking, as JSON and as a value."""
        return self.bound.whole.get(index) or (self.items[index], self.messages[index])

    def _drop_unread(self, message: Message) -> None:
        """Count nothing for messages that the provider does not read any more now that this one is here."""
        messages, last = self.messages, len(self.messages) - 1
        places: list[int] = []
        if is_compaction(message) and not is_native(message):
            self.last_block = last
            places += range(last) if hides_before(messages, last) else ()
        elif message.role == "user":
            for at in range(last - 1, -1, -1):
                if messages[at].role == "user":
                    break
                if messages[at].role == "system" and lasts_one_turn(messages[at]):
                    places.append(at)
        for at in places:
            if self.sizes[at]:
                message = self.messages[at]
                self.sums.add(message, self.sizes[at], self.counter.visible(message), sign=-1)
                self.sizes[at] = 0

    def is_positional(self, messages: Iterable[Message]) -> bool:
        """True if messages that were read alone read differently behind others: they have no ids."""
        return self.wire.positional or has_positions(messages)

    def read(self, items: Sequence[Any]) -> Sequence[Message]:
        """Parse new items."""
        return self.reader.read(self.items, items)

    def with_system(self, system: Sequence[Any], messages: Sequence[Message]) -> "LoadedView":
        """Return the view with other system messages in front."""
        bound = ShownThinking(self.bound.thinking)
        fresh = LoadedView(
            WireReader(self.wire), self.counter, fixed=len(system), bound=bound, found=self.found
        )
        fresh.add([None] * len(system), system, messages)
        whole = [self.get_whole(index) for index in range(self.fixed, len(self.items))]
        fresh.add(self.view_items[self.fixed :], [item for item, _ in whole], [read for _, read in whole])
        fresh.has_private = self.has_private or fresh.has_private
        return fresh

    def update_items(self, items: Mapping[int, Any]) -> None:
        """Show said messages in the JSON that the caller has now, by their numbers."""
        changed: list[int] = []
        self.has_private = self.has_private or any(map(has_private, items.values()))
        for index, given in self._find_places(items):
            item = without_private(given)
            if item == self.get_whole(index)[0]:
                continue
            self.items = self.items if changed else list(self.items)
            self._put_item(index, item)
            self.bound.forget(index)
            changed.append(index)
            self._read_again(index, item)
        self._show_changed(changed)

    def _find_places(self, items: Mapping[int, Any]) -> list[tuple[int, Any]]:
        """Return the place in the view of each of these said messages that is shown, and its new JSON."""
        last = self.view_items[-1] if self.view_items else None
        if isinstance(last, MessageRange):  # what was said last stands last, unless a fold is behind it
            behind = len(self.view_items) - 1 - last.first
            places = [(number + behind, item) for number, item in items.items()]
            known = range(self.fixed, len(self.view_items))
            if all(
                at in known and self.view_items[at] == MessageRange(at - behind, at - behind)
                for at, _ in places
            ):
                return places
        return [
            (index, items[shown.first])
            for index, shown in enumerate(self.view_items)
            if isinstance(shown, MessageRange) and shown.first in items
        ]

    def _read_again(self, index: int, item: Any) -> None:
        """Take a message from its other JSON, unless it is the same and its neighbours tell its ids."""
        (message,), known = self.wire.parse([item]), self.messages[index]
        if not self.is_positional([message]) or self.bound.is_changed(index, item):
            self._replace_message(index, replace(message, source=known.source, meta=known.meta))

    def _replace_message(self, index: int, message: Message) -> None:
        if not self.sizes[index]:  # the provider does not read it
            self.messages[index] = message
            return
        before, visible = self.messages[index], self.counter.visible(message)
        size = self.counter.count_with_text(message, visible)
        self.sums.add(before, self.sizes[index], self.counter.visible(before), sign=-1)
        self.sums.add(message, size, visible)
        self.messages[index], self.sizes[index] = message, size

    def count_guesses(self, counter: Counter) -> None:
        """Count documents of which nothing can be read as this counter does."""
        if counter.guess == self.counter.guess:
            return
        self.counter = counter
        for index, message in enumerate(self.messages):
            if count_guessed(message):
                self._replace_message(index, message)

    @property
    def wire(self) -> Format:
        """The format of the messages."""
        return self.reader.wire

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
        return self.counter.tokens(sum(self.sizes[: self.fixed])) if self.fixed else 0

    @property
    def tokens(self) -> int:
        """Tokens of the history."""
        units = self.sums.units + self.counter.per_conversation if self.sizes else 0
        return -(-units // self.counter.divisor)


def has_positions(messages: Iterable[Message]) -> bool:
    """True if a call or a result has no id but its position."""
    for message in messages:
        for part in message.parts:
            if type(part) is ToolCall and is_position(part.id, part.name):
                return True
            if type(part) is ToolResult and is_position(part.call_id, part.name):
                return True
    return False


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
