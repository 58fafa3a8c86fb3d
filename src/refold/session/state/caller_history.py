"""The lists that the caller holds: its own list of messages, and the views that were sent to it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import is_not
from typing import Any, Final

from refold.core.log.view import MessageRange, ViewItem
from refold.core.messages.plain_values import PLAIN_TYPES, TOO_DEEP, to_plain_value
from refold.errors import FormatError
from refold.session.state.loaded_view import LoadedView
from refold.session.state.position import LogPosition
from refold.session.state.thinking_prefixes import ThinkingPrefixes

MAX_SENT_VIEWS: Final = 8
"""Sent views that are remembered. Each fold starts a new one, and a caller that goes on from an older
one is still understood: the log is read for it, which only takes longer."""
NEWEST_COPIES: Final = 32
"""Newest copies that are compared before they are sent again; of the older ones as many in turn. A caller
that changes an older copy in a longer view may get it back some times. More makes every turn costlier."""
FIRST_COPIES: Final = 8
"""First copies that are compared each time as well: programs put cache marks at both ends of a list."""
SHORT: Final = 1_024
"""Messages in another list of the caller's that are all compared by content. In a longer one that holds the
same objects an edit in place is noticed as in the caller's own list."""


@dataclass(frozen=True, slots=True)
class SentView:
    """A view as it was sent, without the system messages."""

    view_items: list[ViewItem | None]
    items: list[Any]
    said: int
    tip: str
    source: list[Any] | None = None
    """The list of the view in memory; while that has the same one, it has only grown."""


@dataclass(slots=True)
class SentCopies:
    """Copies of a view, and what was sent for each of its messages: the copy, or the caller's own object."""

    copies: list[Any] = field(default_factory=list)
    """Made again if a caller changed one."""
    source: list[Any] | None = None
    """The list of the view of which they are copies; while a view has the same one, it has only grown."""
    chosen: list[Any] | None = None
    """The same, with the caller's own objects where it has a message; None if it has other objects now."""
    made: list[int] = field(default_factory=list)
    """The places of those that are copies, because a fold made them."""

    def update(self, items: list[Any], stretch: tuple[int, int]) -> list[Any]:
        """Return the copies of these messages, in our own list; what a caller has changed is made anew.

        stretch   the older ones that are compared this time
        """
        replaced = self._find_replaced(items, stretch)
        if self.source is not items or replaced:
            self.chosen = None
        del self.copies[len(items) :]
        for at in replaced:
            self.copies[at] = copy_item(items[at])
        self.copies += [copy_item(item) for item in items[len(self.copies) :]]
        self.source = items
        return self.copies

    def _find_replaced(self, items: list[Any], stretch: tuple[int, int]) -> set[int]:
        """Return the places of copies that are no longer what the view has, or that a caller has changed."""
        copies, replaced = self.copies, set[int]()
        last = min(len(copies), len(items))
        for first, end in ((0, FIRST_COPIES), stretch, (max(0, last - NEWEST_COPIES), last)):
            if copies[first : min(end, last)] != items[first : min(end, last)]:
                replaced.update(at for at in range(first, min(end, last)) if copies[at] != items[at])
        if self.source is not None and self.source is not items:  # such as a cache mark that has moved
            moved = compress(range(last), map(is_not, self.source, items))
            replaced.update(at for at in moved if copies[at] != items[at])
        return replaced

    def choose(self, places: Sequence[int | None], messages: Sequence[Any]) -> list[Any]:
        """Return the copies with the caller's own objects in the place of those that it has itself.

        What was chosen for the last list is kept while the view and the caller's objects have only grown.

        places   where each message stands in the caller's list
        """
        if self.chosen is None:
            self.chosen, self.made = [], []
        first = len(self.chosen)
        new = places[first:]
        pairs = zip(self.copies[first:], new, strict=True)
        self.chosen += [copy if place is None else messages[place] for copy, place in pairs]
        self.made += [at for at, place in enumerate(new, first) if place is None]
        return self.chosen.copy()


@dataclass(slots=True)
class CallerHistory:
    """The lists that the caller may send back."""

    said_items: list[Any] | None = field(default_factory=list)
    """Every message said, as the caller holds it; None if they are not in memory."""
    caller_list: Sequence[Any] | None = None
    """The caller's own list, as it came last; of a long one its objects alone: to free it takes a while."""
    sent_list: list[Any] | None = None
    """The list that was sent for that one, if it is another with the same objects."""
    caller_objects: list[Any] = field(default_factory=list)
    """The caller's own objects for the messages said, as far as they are in memory; none of a caller that
    makes new ones for every list, because they are not met again."""
    last_object: Any = None
    """The last message of the caller's list, as it came last."""
    sent_views: dict[tuple[str, ...], SentView] = field(default_factory=dict)
    """The views that were sent last, by the names of their folds."""
    resumed_view: SentView | None = None
    """A caller's list that continued an earlier view, with all messages said by then."""
    sent_copies: SentCopies = field(default_factory=SentCopies)
    """The copies that were sent last."""
    handed_view: list[ViewItem | None] | None = field(default_factory=list)
    """What each message of the list is that was handed in last; None if it has all messages as said."""
    has_whole_view: bool = False
    """True if that list was a view, word for word."""
    said_places: tuple[list[ViewItem | None], list[int | None]] = field(default_factory=lambda: ([], []))
    """What a view shows, and where each of its messages stands in a list of everything said. While a view has
    the same list, that has only grown."""
    read_objects: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    """Objects of an SDK in the last list, each with its JSON, by their ids."""
    thinking: ThinkingPrefixes = field(default_factory=ThinkingPrefixes)
    """Behind what the thinking in those lists was made."""
    next_places: dict[str, int] = field(default_factory=dict)
    """Where the next comparison of older messages begins, by what is compared: each goes on by itself."""

    def copy_view(self, loaded: LoadedView, *, new_copies: bool = False) -> list[Any]:
        """Return what the model sees, as copies that the caller may change and continue, in our own list.

        The same copies are sent again while nobody has changed them, unless new ones are asked for.
        """
        if new_copies:
            self.sent_copies = SentCopies()
        newest = max(0, len(loaded.items) - NEWEST_COPIES)
        return self.sent_copies.update(loaded.items, self.next_stretch("copies", NEWEST_COPIES, newest))

    def note_view(self, position: LogPosition, loaded: LoadedView) -> None:
        """Note that the view is sent as it stands."""
        folds = tuple(fold.name for fold in position.view.standing)
        before = self.sent_views.pop(folds, None)
        self.sent_views[folds] = _extend_sent(before, position, loaded)
        while len(self.sent_views) > MAX_SENT_VIEWS:
            del self.sent_views[next(iter(self.sent_views))]

    def continues_view(self, loaded: LoadedView) -> bool:
        """True if the list that was handed in last is the view, word for word."""
        return self.has_whole_view and self.handed_view == loaded.view_items

    def hold_own(self, messages: Sequence[Any], sent: list[Any] | None = None) -> None:
        """Keep a list with the caller's own objects, and the list that is sent for it."""
        is_short = len(self.caller_objects) <= SHORT
        self.caller_list, self.sent_list = (messages, sent) if is_short else (self.caller_objects, None)

    def hold_said(self, items: list[Any] | None) -> None:
        """Keep these as every message said; None if they are not in memory."""
        self.said_items = items

    def add_said(self, items: Sequence[Any]) -> None:
        """Add messages that were just said."""
        if self.said_items is not None:
            self.said_items += items

    def hold_list(
        self, messages: list[Any], start: int, known: int, *, as_said: bool, same: bool = False
    ) -> None:
        """Keep the caller's own list.

        start     where its messages begin behind the system messages
        known     how many of them were known before; 0 if their objects have to be taken anew
        as_said   False if the list is a view and not the messages as they were said
        same      True if the known ones are the objects that are held already
        """
        if not (same and as_said):
            self.sent_copies.chosen = None
        are_new = as_said and known > 0 and self.last_object is not messages[start + known - 1]
        if not same or len(self.caller_objects) != known:
            self.caller_objects = [] if are_new else messages[start:]
        elif not are_new:
            self.caller_objects += messages[start + known :]
        self.caller_list, self.sent_list = (), None
        if as_said and not are_new:
            self.hold_own(messages)
        self.last_object = messages[-1] if messages else None
        self.handed_view, self.has_whole_view = None, False

    def hold_view(self, messages: Sequence[Any], loaded: LoadedView, said: int, *, is_whole: bool) -> None:
        """Note that the caller's list is a view: one that was sent, or one that ends as this one does.

        said       messages said by now
        is_whole   True if the list is known to be this view, word for word
        """
        if is_whole and len(messages) == len(loaded.view_items):
            self.handed_view, self.has_whole_view = loaded.view_items.copy(), True
            return
        body = messages[loaded.fixed :]
        for view in reversed(self.sent_views.values()):
            # The list continues that view if what follows in it is what was said since.
            if len(body) - len(view.items) == said - view.said and body[: len(view.items)] == view.items:
                new = (MessageRange(number, number) for number in range(view.said + 1, said + 1))
                handed = [*view.view_items, *new]
                # One of another branch, or one that is only as long, has other words by these numbers.
                shown = dict(zip(loaded.view_items, loaded.items, strict=True))
                if all(shown.get(item, own) == own for item, own in zip(handed, body, strict=True)):
                    self.handed_view = [*[None] * loaded.fixed, *handed]
                    return
        self.handed_view = [None] * len(messages)
        for back in range(1, min(len(messages), len(loaded.items)) + 1):
            if messages[-back] != loaded.items[-back]:
                break
            self.handed_view[-back] = loaded.view_items[-back]

    def hold_nothing(self) -> None:
        """Note that no list was handed in."""
        self.handed_view, self.has_whole_view = [], False

    def trace_view(self, loaded: LoadedView) -> list[int | None]:
        """Return for each message of the view its place in the list that was handed in last, or None."""
        fixed, handed = loaded.fixed, self.handed_view
        places: list[int | None]
        if handed == []:  # no list was handed in
            return [None] * len(loaded.view_items)
        if handed is None:
            places = self._trace_said(loaded).copy()
        elif handed == loaded.view_items:
            places = [*range(len(handed))]
        else:
            body = loaded.view_items[fixed:]
            known = {item: place for place, item in enumerate(handed) if item is not None}
            places = [*range(fixed), *(None if item is None else known.get(item) for item in body)]
        for place in loaded.bound.whole:  # shown without its thinking
            places[place] = None
        return places

    def _trace_said(self, loaded: LoadedView) -> list[int | None]:
        """Return for each message of the view its place behind the system messages in a list of all said."""
        shown, places = self.said_places
        if shown is not loaded.view_items:
            shown, places = self.said_places = loaded.view_items, [*range(loaded.fixed)]
        ahead, new = loaded.fixed - 1, shown[len(places) :]
        places += [item.first + ahead if isinstance(item, MessageRange) else None for item in new]
        return places

    def hold_resumed(self, items: list[Any], position: LogPosition) -> None:
        """Keep a caller's list that continued an earlier view and has all messages said.

        items   copies, because the next list is compared with them
        """
        self.resumed_view = SentView([], items, position.view.said, position.tip)

    def to_plain_list(self, messages: Sequence[Any], newest: int) -> list[Any]:
        """Return the caller's list as plain JSON; an object that was in the last list is not read again.

        newest   messages at the end whose objects are read anew, because programs still change them
        """
        used: dict[int, tuple[Any, Any]] = {}
        last = len(messages) - newest
        plain = [
            to_plain_value(item, self.read_objects if place < last else {}, used)
            for place, item in enumerate(messages)
        ]
        self.read_objects = used
        return plain

    def forget_objects(self) -> None:
        """Drop the caller's own objects: they are in the format before, and tell nothing any more."""
        self.caller_objects = []
        if self.said_items:  # an empty list holds in every format: nothing was said
            self.said_items = None

    def next_stretch(self, compared: str, length: int, last: int) -> tuple[int, int]:
        """Return the part of older messages that is compared next; behind the last one the first follows.

        compared   what is compared, such as copies; a stretch of it is never left out for another's sake
        last       where the older messages end
        """
        start = self.next_places.get(compared, 0)
        start = start if start < last else 0
        self.next_places[compared] = start + length
        return start, min(start + length, last)


def _extend_sent(before: SentView | None, position: LogPosition, loaded: LoadedView) -> SentView:
    """Return the view as it is sent now; one that was sent before and has grown is not copied again."""
    if before is None or before.source is not loaded.items:
        return view_to_send(position, loaded)
    start = loaded.fixed + len(before.items)
    before.items.extend(loaded.items[start:])
    before.view_items.extend(loaded.view_items[start:])
    return SentView(before.view_items, before.items, position.view.said, position.tip, before.source)


def view_to_send(position: LogPosition, loaded: LoadedView) -> SentView:
    """Return the view as it stands now, without the system messages."""
    view_items = loaded.view_items[loaded.fixed :]
    return SentView(view_items, loaded.body, position.view.said, position.tip, loaded.items)


def copy_item(item: Any) -> Any:
    """Copy a JSON value: callers change their messages in place, and what was said must stay as it was."""
    try:
        return _copy_value(item)
    except RecursionError:
        raise FormatError(TOO_DEEP) from None


def _copy_value(item: Any) -> Any:
    if type(item) is dict or isinstance(item, dict):  # most values in it are plain, which costs no call
        return {
            key: value if type(value) in PLAIN_TYPES else _copy_value(value) for key, value in item.items()
        }
    return list(map(_copy_value, item)) if isinstance(item, list) else item
