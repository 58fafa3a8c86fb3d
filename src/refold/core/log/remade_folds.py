"""Make folds again so that messages which they hide are in view: the same folds, around these messages.

All of them in one pass, the oldest fold first. A later fold that removed a shorter form of such a message
removes the message itself and puts it back. So a tool call and its results are put back by the same change,
and no message of a fold comes between them, whichever folds are undone afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from refold.core.log.entries import Entry, Kind, make_entry
from refold.core.log.view import Folded, MessageRange, View, expand_items, read_word, write_word

AGAIN: Final = "again"
"""Fact beside a fold: the name of the fold that it makes again."""
_Words = dict[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFold:
    """A fold's entry, and what is known of the messages that it inserted, by their places."""

    entry: Entry
    summaries: frozenset[int] = frozenset()
    """They tell of several messages, so they stay beside a message that is shown again."""
    stand_ins: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """By the number of a message: the other forms of it, which leave when it is shown again."""
    sizes: Mapping[int, int] = field(default_factory=dict)
    """Tokens of the messages that it inserted, by their places."""
    has_block: bool = False
    """True if the first message is a provider's own block, which stays first."""


def find_hiding(view: View, numbers: Sequence[int]) -> tuple[Folded, ...]:
    """Return the standing folds from the first on that hides one of these messages."""
    undone = {fold.name: fold for fold in view.folds if not fold.standing}
    for place, fold in enumerate(view.standing):
        gone = [item for change in fold.changes for item in expand_items(change.gone(), undone)]
        ranges = [item for item in gone if isinstance(item, MessageRange)]
        if any(item.first <= number <= item.last for number in numbers for item in ranges):
            return view.standing[place:]
    return ()


def remake_folds(
    view: View,
    parent: str,
    known: Sequence[KnownFold],
    numbers: Mapping[int, int],
    *,
    beside: Mapping[str, object],
    at: float,
) -> list[Entry]:
    """Return the marks that undo these folds, newest first, and make them again around the messages.

    parent    the name of the last entry of the log
    known     the folds of `find_hiding`, oldest first
    numbers   of hidden messages, rising, with their tokens; calls and results come together
    beside    facts that stand beside each fold now
    """
    marks: list[Entry] = []

    def add(kind: Kind, value: object, about: Mapping[str, object] | None = None) -> str:
        last = marks[-1].name if marks else parent
        marks.append(make_entry(kind, value, parent=last, said=view.said, about=about, at=at))
        return marks[-1].name

    for fold in reversed(known):
        add("unfold", {"fold": fold.entry.name})
    remaking = _Remaking(numbers, {fold.name: fold for fold in view.folds if not fold.standing})
    for fold in known:
        body, replaced = remaking.make_again(fold)
        name = add("fold", body, {**fold.entry.beside, **beside, AGAIN: fold.entry.name})
        remaking.note_name(fold, name, replaced)
    return marks


@dataclass(slots=True)
class _Remaking:
    """Folds that are made again one after another: what stands now for the messages of the earlier ones."""

    numbers: Mapping[int, int]
    undone: Mapping[str, Folded]
    now: _Words = field(default_factory=dict)
    grown: dict[int, int] = field(default_factory=dict)
    """By how many tokens the view is larger now, for each message."""

    def make_again(self, fold: KnownFold) -> tuple[dict[str, Any], _Words]:
        """Return the body of a fold around the messages, and what stands in place of its own messages."""
        value, replaced, more_before = fold.entry.value, dict[str, list[str]](), sum(self.grown.values())
        changes = [
            self._show_in_change(
                {side: _rewrite(words, self.undone, self.now) for side, words in change.items()},
                fold,
                replaced,
            )
            for change in value["changes"]
        ]
        body = carry_value(value, changes)
        for key, more in (("before", more_before), ("after", sum(self.grown.values()))):
            if more and type(body.get(key)) is int:
                body[key] += more
        return body, replaced

    def note_name(self, fold: KnownFold, name: str, replaced: _Words) -> None:
        """Note under which name the messages of a fold stand now."""
        words = (word for change in fold.entry.value["changes"] for word in change["put"])
        for word in (word for word in words if word.startswith("+")):
            self.now[f"{fold.entry.name}/{word[1:]}"] = replaced.get(word, [f"{name}/{word[1:]}"])

    def _show_in_change(
        self, change: Mapping[str, list[str]], fold: KnownFold, replaced: _Words
    ) -> dict[str, list[str]]:
        """Return a change that puts back those of the messages which it hides, in place of their other forms.

        replaced   is told what stands in place of a message of the fold
        """
        took, put = change["took"], list(change["put"])
        for number, tokens in self.numbers.items():
            if not _holds(took, number) or _holds(put, number):
                continue
            word, others = f"{number}-{number}", fold.stand_ins.get(number, frozenset())
            if took == [word]:  # then a message in its place is another form of it, unless it tells of more
                others |= {_place(own) for own in put if own.startswith("+")} - fold.summaries
            forms = [own for own in put if own.startswith("+") and _place(own) in others]
            at = put.index(forms[0]) if forms else _find_place(change, put, number, fold)
            put.insert(at, word)
            self.grown[number] = tokens - sum(fold.sizes.get(_place(own), 0) for own in forms)
            for place, own in enumerate(forms):
                put.remove(own)
                replaced[own] = [] if place else [word]
        return {"took": list(took), "put": put}


def carry_value(value: Mapping[str, Any], changes: Sequence[Mapping[str, Sequence[str]]]) -> dict[str, Any]:
    """Return the body of a fold that is made again with other changes; a repair stays one."""
    is_repair = value.get("trigger") == "repair"
    return {**value, "trigger": "repair" if is_repair else "carried", "changes": list(changes)}


def _rewrite(words: Sequence[str], undone: Mapping[str, Folded], now: _Words) -> list[str]:
    """Return what stands now for the items of a change: undone folds and earlier remade ones are gone."""
    done: list[str] = []
    for word in words:
        own = word.startswith("+")
        parts = [word] if own else [write_word(part) for part in expand_items([read_word(word)], undone)]
        for part in parts:
            done += now.get(part, [part])
    return done


def _find_place(change: Mapping[str, list[str]], put: Sequence[str], number: int, fold: KnownFold) -> int:
    """Return where a message stands among those put back: behind older ones, and behind a summary.

    A message that was the first of all stands before the summary of those behind it, if that is no block.
    """
    first = read_word(change["took"][0])
    is_first = isinstance(first, MessageRange) and first.first == number and not fold.has_block
    least = 0
    while not is_first and least < len(put) and put[least].startswith("+"):
        least += 1
    items = enumerate(map(read_word, put))
    before = [at for at, item in items if isinstance(item, MessageRange) and item.last < number]
    return max(least, before[-1] + 1 if before else 0)


def _place(word: str) -> int:
    return int(word[1:])


def _holds(words: Sequence[str], number: int) -> bool:
    items = (read_word(word) for word in words)
    return any(isinstance(item, MessageRange) and item.first <= number <= item.last for item in items)
