"""A session as its log records it: the view, the folds with their labels, and what hides which message.

Only the marks of the log are read, so that a session of a million messages costs what its folds cost.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from refold import formats
from refold.calls.conversation import choose_counter
from refold.core.compaction.policy import Policy
from refold.core.log.entries import SAID, USAGE, Entry
from refold.core.log.remade_folds import AGAIN
from refold.core.log.view import Folded, MessageRange, Replacement, View, extend_view, step
from refold.core.messages.message import Message
from refold.core.models.prices import Spent
from refold.core.summaries.wrappers import unwrap_summary
from refold.core.tokens.counting import Counter
from refold.inspector.http.answers import ApiError
from refold.session.steps.read_entries import fold_sizes, read_fold_message, system_items
from refold.session.steps.recall import find_removed
from refold.session.steps.shared_folds import TAKEN_FROM
from refold.stores import SESSION_NOTE, Head, Store
from refold.stores.reading.stored_messages import first_words, parse_stored
from refold.stores.reading.stored_views import VIEW_KINDS, make_is_visible

REPAIR: Final = "repair"
"""Trigger of folds that repair a history; they are not for people to undo."""
LINE_CHARS: Final = 400
"""Characters of a message in a list: more than a row of a wide screen shows."""


@dataclass(frozen=True, slots=True)
class FoldMark:
    """A fold, as lists show it; its messages are read when somebody opens it."""

    label: str
    name: str
    at: float
    said: int
    """Messages that had been said when it was made."""
    stages: tuple[str, ...]
    trigger: str
    policy: str
    tokens_before: int
    tokens_after: int
    spent: Spent
    line: str
    facts: int = 0
    """Facts of what left that stand in its text."""
    earlier: tuple[str, ...] = ()
    """The names that it had before: it is made again where a message of it is brought back."""
    taken_from: str = ""
    """The session that made it; "" for this one."""

    @property
    def first_name(self) -> str:
        """The name under which it was made."""
        return self.earlier[0] if self.earlier else self.name

    @property
    def saved(self) -> int:
        """Tokens that it took out."""
        return self.tokens_before - self.tokens_after


@dataclass(frozen=True, slots=True)
class SessionNote:
    """What a gateway noted of a session: a log does not record it."""

    client: str = ""
    model: str = ""
    window: int | None = None
    policy: str = ""
    endpoint: str = ""


@dataclass(frozen=True)
class StoredSession:
    """One session at one head; a value that holds until the head moves."""

    name: str
    head: Head
    view: View
    folds: tuple[FoldMark, ...]
    """Those that people can undo, oldest first: F1, F2 and so on."""
    note: SessionNote
    model: str
    wire: str
    system: Entry | None = None
    others: frozenset[str] = field(default_factory=frozenset)
    """Names of the folds without a label."""

    @cached_property
    def is_visible(self) -> Callable[[int], bool]:
        """A quick test whether a message is in the view as it was said."""
        return make_is_visible(self.view)

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label of each fold, by its name."""
        return {name: fold.label for fold in self.folds for name in (*fold.earlier, fold.name)}

    @cached_property
    def _hidden(self) -> list[tuple[int, int, str]]:
        """The ranges that standing folds hide, each with the first fold that hides it."""
        hidden: list[tuple[int, int, str]] = []
        for fold in self.view.standing:
            label = self.labels.get(fold.name, "")
            removed = find_removed(self.view, fold) if label else []
            hidden += [(run.first, run.last, label) for run in removed]
        return hidden

    def find_hiding(self, number: int) -> str | None:
        """Return the label of the fold that hides a message."""
        return next((label for first, last, label in self._hidden if first <= number <= last), None)

    def find_fold(self, word: str) -> FoldMark:
        """Return a fold by its label or its name."""
        for fold in self.folds:
            if word in (fold.label, fold.name, *fold.earlier):
                return fold
        raise ApiError("not-found", f"there is no fold {word[:80]!r} on this branch of the session")

    def folded(self, name: str) -> Folded:
        """Return a fold as the view knows it."""
        fold = self.view.fold(name)
        if fold is None:
            raise ApiError("not-found", "there is no such fold on this branch of the session")
        return fold

    def read_system(self) -> list[Message]:
        """Return the system messages of the log."""
        if self.system is None:
            return []
        wire = str(self.system.beside.get("format", self.wire))
        return [parse_stored(item, wire) for item in system_items(self.system)]

    def count_tokens(self, policy: Policy) -> Counter:
        """Return the way in which the session counts."""
        return choose_counter(policy, self.model or None, None)


def read_stored(store: Store, name: str) -> StoredSession:
    """Read a session by its marks; refuses a name that the store does not have."""
    head = store.head(name)
    if head is None:
        raise ApiError("not-found", f"there is no session {name[:80]!r}")
    view, system = View(), None
    folds: list[FoldMark] = []
    others: set[str] = set()
    for entry in store.read(name, head.place, kinds=VIEW_KINDS):
        view = step(extend_view(view, entry.said), entry)
        if entry.kind == "system":
            system = entry
        elif entry.kind == "fold":
            if entry.value.get("trigger") == REPAIR:
                others.add(entry.name)
                continue
            again = entry.beside.get(AGAIN) if f'"{AGAIN}":' in entry.about else None
            place = next((at for at, fold in enumerate(folds) if fold.name == again), None)
            if place is None:
                folds.append(_read_fold(entry, f"F{len(folds) + 1}"))
            else:  # people see one fold, around what was brought back
                others.add(folds[place].name)
                folds[place] = _make_again(folds[place], entry)
    note = read_note(store, name)
    usage = next(iter(store.read(name, head.place, kinds=USAGE, newest=True)), None)
    model = note.model or ("" if usage is None else str(usage.value.get("model", "")))
    newest = next(iter(store.read(name, head.place, newest=True)), None)
    wire = formats.DEFAULT if newest is None else _find_wire(store, name, head)
    view = extend_view(view, head.said)
    return StoredSession(name, head, view, tuple(folds), note, model, wire, system, frozenset(others))


def _find_wire(store: Store, name: str, head: Head) -> str:
    """Return the format of the newest message."""
    entry = next(iter(store.read(name, head.place, kinds=SAID, first=head.said, newest=True)), None)
    return formats.DEFAULT if entry is None else str(entry.beside.get("format", formats.DEFAULT))


def _make_again(fold: FoldMark, entry: Entry) -> FoldMark:
    """Return a fold as it stands since it was made again."""
    again = _read_fold(entry, fold.label)
    names = (*fold.earlier, fold.name)
    return replace(again, at=fold.at, said=fold.said, trigger=fold.trigger, earlier=names)


def _read_fold(entry: Entry, label: str) -> FoldMark:
    value = entry.value
    before, after = fold_sizes(value)
    line = describe_inserted_line(FoldBody(entry).read(0)) if value.get("messages") else ""
    return FoldMark(
        label=label,
        name=entry.name,
        at=entry.at,
        said=entry.said,
        stages=tuple(map(str, value.get("stages", ()))),
        trigger=str(value.get("trigger", "")),
        policy=str(value.get("policy", "")),
        tokens_before=before,
        tokens_after=after,
        spent=Spent.read(entry.beside.get("spent")),
        line=line,
        facts=count_facts(entry.beside.get("receipt"))[0],
        taken_from=str(entry.beside.get(TAKEN_FROM, "")),
    )


def count_facts(receipt: Any) -> tuple[int, int, int]:
    """Return how many facts a fold kept, how many of them it added itself, and to how many a handle leads."""
    stages = receipt.get("stages", ()) if isinstance(receipt, dict) else ()
    counts = [stage["facts"] for stage in stages if stage.get("accepted") and stage.get("facts")]
    kept, repaired, by_handle = (sum(column) for column in zip(*counts, (0, 0, 0), strict=True))
    return kept, repaired, by_handle


class FoldBody:
    """The messages that a fold inserted; its JSON is long, so it is decoded once."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self._wire = formats.get(entry.beside.get("format", formats.DEFAULT))
        self._values: Any = entry.value["messages"]

    def __len__(self) -> int:
        return len(self._values)

    def read(self, place: int) -> Message:
        """Return one of the messages."""
        return read_fold_message(self._values[place], self._wire)

    def count_bytes(self, place: int) -> int:
        """Return the size of one of the messages as JSON."""
        return len(json.dumps(self._values[place], ensure_ascii=False).encode("utf-8", "surrogatepass"))


def describe_inserted_line(message: Message) -> str:
    """Return the first words of a fold's message; those of a summary without what stands around every one."""
    if message.is_summary:
        return " ".join(unwrap_summary(message).split())[: LINE_CHARS * 4]
    return first_words(message, LINE_CHARS * 4)[: LINE_CHARS * 4]


def read_note(store: Store, name: str) -> SessionNote:
    """Return what a gateway noted of a session; what cannot be read counts as not noted."""
    text = store.note(f"{SESSION_NOTE}{name}")
    if text is None:
        return SessionNote()
    try:
        value: Any = json.loads(text)
        window = value.get("window")
        texts = {key: str(value.get(key) or "") for key in ("client", "model", "policy", "endpoint")}
    except (ValueError, AttributeError):
        return SessionNote()
    return SessionNote(window=window if isinstance(window, int) else None, **texts)


def describe_ranges(ranges: Iterable[MessageRange]) -> list[list[int]]:
    """Return ranges as plain data."""
    return [[run.first, run.last] for run in ranges]


def name_item(item: Replacement, stored: StoredSession) -> str:
    """Return the handle of a message that a fold inserted, such as `F1/0`."""
    return f"{stored.labels.get(item.fold, item.fold)}/{item.place}"
