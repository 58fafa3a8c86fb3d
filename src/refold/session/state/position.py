"""The place of a session in its log: the head, the view at that place, and branches that were left."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from refold.arguments import LARGEST
from refold.core.log.entries import ROOT, Entry, to_json_text
from refold.core.log.view import Replacement, View, extend_view, step
from refold.core.messages.message import Message
from refold.core.messages.unread import is_native
from refold.session.state.message_keys import MessageKeys
from refold.stores import START, Head, Place

MAX_LEFT_BRANCHES: Final = 64
"""Left branches that are remembered; the ends of others are looked up in the store."""
_WITHOUT_EFFECT: Final = frozenset({"usage", "attempt"})
"""Entries that change no view; their bodies are not read for it."""
NOW: Final = "head"
"""Fact beside system messages: messages as the caller has them now, by their numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsureWrite:
    """A write to the store whose answer was lost, until the next operation that writes."""

    names: tuple[str, ...]
    """Names of the entries."""
    at: Place | None
    before: Head | None
    """The head behind which they were to stand."""
    settle: Callable[[], Head | None]
    """Asks the store what became of it."""
    stored: Head | None = None
    """The head that it left, once it is known that it was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """A stored branch that a session walks along: the last place there before it began one of its own."""

    place: Place
    name: str
    """Name of the entry there."""
    view: View
    """The view there; while a session has the same one, nothing has changed it since."""
    end: tuple[Place, int] = (START, 0)
    """The end of the stored branch and the messages said there, as far as they are known."""
    attempts: Sequence[Entry] | None = None
    """The attempts to compact up to there, newest first, if they were read."""


class LeftBranch(NamedTuple):
    """A branch that a session has left: its end, and where it began beside a stored one."""

    head: Head
    trail: Trail


@dataclass(slots=True)
class LogPosition:
    """The place of a session in its log.

    Every change is first appended to the store and then made here. If that is interrupted in between, the
    position stays *stale* and the session reads itself again before the next operation. So nothing in memory
    is ever newer than the log (`SessionLog`: the store and, while that fails, what waits for it).
    """

    head: Head | None = None
    view: View = field(default_factory=View)
    tip: str = ROOT
    """Name of the last message."""
    fold_messages: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    """The messages that each visible fold inserted, by the fold's name."""
    edited: Mapping[int, Entry] = field(default_factory=dict)
    """The messages that are shown as the caller has them now, by their numbers; the log has other words."""
    blocks: frozenset[Replacement] = frozenset()
    """Those among them that are a provider's own block; every turn asks for them, and most logs have none."""
    stale: bool = True
    behind: bool = False
    """True if it is stale only because others have written: all in memory is that of the head."""
    may_have_successors: bool = True
    """True if messages may already stand behind this place in the store."""
    left_branches: dict[str, LeftBranch] = field(default_factory=dict)
    """The branches that were left, by their last message."""
    trail: Trail | None = None
    keys: MessageKeys = field(default_factory=MessageKeys)
    unsure: UnsureWrite | None = None
    """The last write, if nobody knows whether it was stored."""
    archived: tuple[tuple[str, bool], ...] = ()
    """The folds with which the archive was written in this process, and whether they stood."""

    def mark_stale(self) -> None:
        """Have the state read again before the next operation."""
        self.stale, self.behind = True, False

    def fall_behind(self) -> None:
        """Have what others wrote behind the head read before the next operation."""
        self.stale = self.behind = True

    def note_archived(self) -> bool:
        """Note that the archive has the folds of this view; False if it had them before."""
        before, self.archived = self.archived, tuple((fold.name, fold.standing) for fold in self.view.folds)
        return self.archived != before

    def set_unsure(self, write: UnsureWrite | None) -> None:
        """Note a write whose answer was lost; None if it is settled."""
        self.unsure = write

    def go_before(self, write: UnsureWrite, stored: Head) -> None:
        """Stand where an unsure write began, to see whether it is repeated; it is known to be stored."""
        self.unsure = replace(write, stored=stored)
        self.stale = True
        self.head = write.before

    def move_to(self, head: Head | None) -> None:
        """Stand at another head; the view is that of the old one until it is restored or follows."""
        self.head = head

    def follow(self, entries: Sequence[Entry], first_view: View | None = None) -> None:
        """Update the view by entries that were just appended at the head.

        `first_view` is the view after the first entry, if the caller has computed it already.
        """
        said = 0  # messages change a view together
        for index, entry in enumerate(entries):
            if index == 0 and first_view is not None:
                self.view = first_view
            elif entry.kind == "said":
                said = entry.said
            elif entry.kind not in _WITHOUT_EFFECT:
                self.view = step(extend_view(self.view, said), entry)
                self.edited = read_edited(entry, self.edited)
        if said:
            self.view = extend_view(self.view, said)
        self.stale = False

    def begin_again(self) -> None:
        """Stand before the first message, in a log of which nothing is known."""
        self.head, self.view, self.tip = None, View(), ROOT
        self.fold_messages, self.edited, self.blocks, self.unsure = {}, {}, frozenset(), None
        self.stale = self.may_have_successors = False

    def stay(self) -> None:
        """Note that a write failed and changed nothing."""
        self.stale = False

    def restore(
        self, view: View, fold_messages: dict[str, tuple[Message, ...]], edited: Mapping[int, Entry]
    ) -> None:
        """Take over the view that was read from the log."""
        self.view, self.fold_messages, self.edited, self.blocks = view, {}, edited, frozenset()
        for name, messages in fold_messages.items():
            self.add_fold(name, messages)

    def finish_loading(self) -> None:
        """Note that everything in memory is that of the head."""
        self.may_have_successors = True
        self.stale = False

    def set_tip(self, tip: str) -> None:
        """Note the name of the last message."""
        self.tip = tip

    def end_with(self, tip: str) -> None:
        """Note the name of a message that was just appended: nothing stands behind it yet."""
        self.tip = tip
        self.may_have_successors = False

    def add_fold(self, name: str, messages: tuple[Message, ...]) -> None:
        """Keep the messages of a fold."""
        self.fold_messages[name] = messages
        self.blocks |= {Replacement(name, at) for at, message in enumerate(messages) if is_native(message)}

    def leave_for(self, said: int, tip: str) -> None:
        """Leave this branch for a place after `said` messages, and remember where the branch ends.

        The position is stale until that place is loaded.
        """
        self.stale = True
        if self.head is not None:
            trail = self.trail if self.trail is not None and self.trail.view is self.view else None
            own = Trail(place=self.head.place, name=self.head.name, view=self.view)
            self.left_branches[self.tip] = LeftBranch(self.head, trail or own)
            while len(self.left_branches) > MAX_LEFT_BRANCHES:
                del self.left_branches[next(iter(self.left_branches))]
        self.view, self.tip = View(said=said), tip

    def find_trail(self, place: Place, name: str, tip: str) -> Trail:
        """Return the stored branch that is left at a place; its view is that of now until it is loaded."""
        left = self.left_branches.get(tip)
        is_left = left is not None and left.head.place == place
        return left.trail if left and is_left else Trail(place=place, name=name, view=self.view)

    def note_trail(self, trail: Trail | None) -> None:
        """Note where the stored branch was left that the next messages may stand on."""
        self.trail = trail

    def return_to(self, view: View, tip: str) -> None:
        """Have the view again that was left in vain; it is stale, but who cannot read goes on from it."""
        self.view, self.tip = view, tip


def read_edited(mark: Entry, before: Mapping[int, Entry]) -> Mapping[int, Entry]:
    """Return the messages that the caller has edited, by their numbers, behind a mark and those before it."""
    facts = mark.beside if mark.kind == "system" and f'"{NOW}":' in mark.about else {}
    edited = drop_edits(facts).get(NOW)
    if edited is None:
        return before
    return {int(number): replace(mark, body=to_json_text(item)) for number, item in edited.items()}


def drop_edits(facts: Mapping[str, Any], last: int = LARGEST) -> dict[str, Any]:
    """Return the edited messages beside a mark up to a number; on another branch others are behind it."""
    if not isinstance(edited := facts.get(NOW), dict):  # a log may hold anything
        return {}
    kept = {word: item for word, item in edited.items() if word.isdecimal() and isinstance(item, dict)}
    return {NOW: {word: item for word, item in kept.items() if int(word) <= last}}
