"""A session as NeuroLink's tagged list: every message in it once; tags say which are hidden.

The first item is hidden and holds what tags cannot express (`refold`); with it `from_tagged` returns the very
same session. If the tags were changed since, the tags count. A list without that item is read by its tags
alone: the view is then the effective history of the list, whatever the tags say. The functions over such
lists are here under the document's names as well.
"""

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import accumulate, pairwise
from typing import Any, Final

from refold.core.log.entries import to_json_text
from refold.core.log.view import Change, MessageRange, Replacement, ViewItem, append_item
from refold.errors import FormatError
from refold.formats.shared import exported as form
from refold.formats.shared.exported import Exported, ExportedFold, subtract_ranges
from refold.formats.systems.neurolink_tags import (
    CONDENSED,
    FIELDS,
    IS_SUMMARY,
    MARKER,
    TRUNCATED,
    WHOLE,
    Kind,
    Tag,
    get_effective_history,
    own_tag,
    parent_tag,
    remove_condensation_tags,
    remove_tags,
    remove_truncation_tags,
    tag_for_condensation,
    tag_for_truncation,
)

_TRUNCATING_STAGES: Final = frozenset({"slide", "truncate"})
"""A fold of these stages alone is a truncation, any other one a condensation."""
_LEDGER: Final = "refold"
"""The parent that hides the first item, and the key of what it holds."""


getEffectiveHistory = get_effective_history  # noqa: N816  # the document's name
tagForCondensation = tag_for_condensation  # noqa: N816  # the document's name
tagForTruncation = tag_for_truncation  # noqa: N816  # the document's name
removeCondensationTags = remove_condensation_tags  # noqa: N816  # the document's name
removeTruncationTags = remove_truncation_tags  # noqa: N816  # the document's name


def to_tagged(exported: Exported) -> list[dict[str, Any]]:
    """Return a session as one tagged list with every message once."""
    form.check(exported)
    chain = _Chain(exported)
    for fold in exported.folds:
        if fold.standing:
            chain.add_fold(fold)
    front = {"role": "system", "content": "", CONDENSED.parent: _LEDGER, _LEDGER: form.to_json(exported)}
    return [front, *chain.to_items()]


class _Chain:
    """The messages of a session as a linked list in the order of the tagged list, and what hides each."""

    def __init__(self, exported: Exported) -> None:
        self.exported = exported
        self.folds = {fold.name: fold for fold in exported.folds}
        self.parents: dict[ViewItem, str] = {}
        self.ranks: dict[Replacement, tuple[int, int]] = {}
        numbers = range(1, len(exported.said) + 1)
        order: list[ViewItem | None] = [None, *(MessageRange(number, number) for number in numbers), None]
        self.next: dict[ViewItem | None, ViewItem | None] = dict(pairwise(order))
        self.previous: dict[ViewItem | None, ViewItem | None] = {two: one for one, two in pairwise(order)}

    def add_fold(self, fold: ExportedFold) -> None:
        """Hide the messages that a fold removed and insert its own."""
        for change in fold.changes:
            removed = [single for item in change.removed for single in self._split(item)]
            visible = [single for single in removed if single in self.next and single not in self.parents]
            if visible:
                self._insert(change.inserted, min(visible, key=self._rank))
                kept = {single for item in change.kept for single in self._split(item)}
                hidden = (single for single in visible if single not in kept)
                self.parents.update(dict.fromkeys(hidden, fold.name))

    def to_items(self) -> list[dict[str, Any]]:
        """Return the items of the list."""
        items = []
        node = self.next[None]
        while node is not None:
            tags: dict[str, Any] = {}
            if isinstance(node, Replacement):
                kind = _kind_of(self.folds[node.fold])
                tags[kind.id] = node.fold
                tags |= {"metadata": {IS_SUMMARY: True}} if kind is CONDENSED else {MARKER: True}
            if (parent := self.parents.get(node)) is not None:
                tags[_kind_of(self.folds[parent]).parent] = parent
            items.append(_add_tags(self.exported.messages(node)[0], tags))
            node = self.next[node]
        return items

    def _insert(self, inserted: Sequence[ViewItem], first: ViewItem) -> None:
        """Link a fold's messages before the first it removed, or behind the messages it put back before."""
        at = self.previous[first]
        number, level = self._rank(first)
        rank = (number, level - 1)
        for item in inserted:
            if isinstance(item, MessageRange):
                at, rank = MessageRange(item.last, item.last), (item.last, 1)
            else:
                self.ranks[item] = rank
                following = self.next[at]
                self.next[at], self.next[item] = item, following
                self.previous[following], self.previous[item] = item, at
                at = item

    def _rank(self, item: ViewItem) -> tuple[int, int]:
        """Return a key for the order of messages that one change removes."""
        return (item.first, 0) if isinstance(item, MessageRange) else self.ranks[item]

    def _split(self, item: ViewItem) -> list[ViewItem]:
        """Return the messages of an item one by one; an unfolded fold stands for those it had removed."""
        singles: list[ViewItem] = []
        waiting = [item]
        while waiting:
            part = waiting.pop()
            if isinstance(part, MessageRange):
                singles += [MessageRange(number, number) for number in range(part.first, part.last + 1)]
            elif self.folds[part.fold].standing:
                singles.append(part)
            else:
                waiting += reversed(self._removed_for(part))
        return singles

    def _removed_for(self, replacement: Replacement) -> list[ViewItem]:
        """Return the items that a change removed, for the first of its own messages; none for the others."""
        for change in self.folds[replacement.fold].changes:
            own = [item for item in change.inserted if isinstance(item, Replacement)]
            if own[:1] == [replacement]:
                return [
                    part
                    for item in change.removed
                    for part in (
                        subtract_ranges(item, change.kept) if isinstance(item, MessageRange) else [item]
                    )
                ]
        return []


def _kind_of(fold: ExportedFold) -> Kind:
    return TRUNCATED if fold.stages and _TRUNCATING_STAGES.issuperset(fold.stages) else CONDENSED


def _add_tags(message: Any, tags: dict[str, Any]) -> dict[str, Any]:
    """Return a message with tags; one that has such fields of its own is carried whole beside them."""
    own = message if isinstance(message, dict) else {}
    reserved = FIELDS | {WHOLE} | tags.keys()
    if own is message and not reserved & own.keys():
        return {**own, **tags}
    rest = {key: value for key, value in own.items() if key not in reserved}
    return {**rest, **tags, WHOLE: {"item": message}}


def from_tagged(items: Sequence[Any]) -> Exported:
    """Read a tagged list, ours or NeuroLink's own."""
    front = items[0] if items and isinstance(items[0], dict) else {}
    ledger = front.get(_LEDGER)
    if front.get(CONDENSED.parent) != _LEDGER or not isinstance(ledger, dict):
        return _TagReader(items).read()
    tagged = list(items[1:])
    if isinstance(version := ledger.get("refold"), int) and version > form.VERSION:
        raise FormatError(f"was written by a newer version (form {version}): upgrade refold", path="[0]")
    said = [remove_tags(item) for item in tagged if own_tag(item) is None]
    for obey_tags in (False, True):
        try:
            if obey_tags:  # only those folds stand that tags still name
                names = {tag[1] for item in tagged for tag in (parent_tag(item), own_tag(item)) if tag}
                folds = [{**fold, "standing": fold["name"] in names} for fold in ledger["folds"]]
                ledger = {**ledger, "folds": folds}
            exported = form.from_json(ledger, said, where="[0]")
        except FormatError:
            break
        if to_json_text(to_tagged(exported)[1:]) == to_json_text(tagged):
            return exported
    plain = _TagReader(tagged).read()
    return replace(plain, session=str(ledger.get("session", "")), format=str(ledger.get("format", "")))


class _TagReader:
    """Reads a list by its tags alone: which messages were said, which folds hid them; loses no item.

    A summary or marker that stands apart from everything it hides, hides nothing, hides itself, or is in a
    circle with others is read as a message that was said. If an item has parents of both kinds, the
    condensation counts.
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items
        self.hidden_by = [parent_tag(item) for item in items]
        self.put_by = [
            None if own == hidden else own
            for own, hidden in zip(map(own_tag, items), self.hidden_by, strict=True)
        ]
        self.visible_before = [0, *accumulate(hidden is None for hidden in self.hidden_by)]
        """Number of items before each place that are not hidden."""
        self.places: dict[Tag, list[int]] = {}
        """Places of the items of each fold, those it put and those it hides."""
        for index, tags in enumerate(zip(self.hidden_by, self.put_by, strict=True)):
            for tag in tags:
                if tag is not None:
                    self.places.setdefault(tag, []).append(index)

    def read(self) -> Exported:
        """Return the session."""
        groups = {tag: self._group(tag) for tag in self.places}
        names: dict[Tag, str] = {}
        used: set[str] = set()
        for tag in self._sort_folds():
            if groups[tag]:
                name = tag[1]
                while name in used:  # one id may name a condensation and a truncation
                    name += "~"
                names[tag] = name
                used.add(name)
        view_items = self._to_view_items(names)
        folds: dict[str, ExportedFold] = {}
        for tag, name in names.items():
            changes = tuple(self._to_change(tag, group, view_items) for group in groups[tag])
            removed = [item for change in changes for item in change.removed]
            folds[name] = ExportedFold(
                name=name,
                changes=changes,
                put=tuple(
                    remove_tags(self.items[index]) for index in self.places[tag] if self.put_by[index] == tag
                ),
                said=max(
                    item.last if isinstance(item, MessageRange) else folds[item.fold].said for item in removed
                ),
                stages=tag[0].stages,
            )
        said = tuple(
            remove_tags(item, said=True)
            for item, put in zip(self.items, self.put_by, strict=True)
            if put is None
        )
        return Exported(said=said, folds=tuple(folds.values()))

    def _group(self, tag: Tag) -> list[list[int]]:
        """Return the items of a fold in groups, split where a visible item stands between them.

        A group that hides nothing is no fold's; its items become messages that were said.
        """
        groups: list[list[int]] = []
        for index in self.places[tag]:
            if groups and self.visible_before[index] == self.visible_before[groups[-1][-1] + 1]:
                groups[-1].append(index)
            else:
                groups.append([index])
        hiding: list[list[int]] = []
        for group in groups:
            if any(self.hidden_by[index] == tag for index in group):
                hiding.append(group)
            else:
                for index in group:
                    self.put_by[index] = None
        return hiding

    def _sort_folds(self) -> list[Tag]:
        """Return the folds, each behind those whose messages it hides; circles are cut."""
        tags = list(self.places)
        ranks = {tag: rank for rank, tag in enumerate(tags)}
        waits = dict.fromkeys(tags, 0)
        hidden_in: dict[Tag, list[Tag]] = {tag: [] for tag in tags}
        for put, hidden in zip(self.put_by, self.hidden_by, strict=True):
            if put is not None and hidden is not None:
                waits[hidden] += 1
                hidden_in[put].append(hidden)
        ready = [ranks[tag] for tag in tags if not waits[tag]]
        done: list[Tag] = []
        while ready:
            tag = tags[heappop(ready)]
            done.append(tag)
            for later in hidden_in[tag]:
                waits[later] -= 1
                if not waits[later]:
                    heappush(ready, ranks[later])
        circling = set(tags) - set(done)
        self.put_by = [
            None if put in circling and hidden is not None else put
            for put, hidden in zip(self.put_by, self.hidden_by, strict=True)
        ]
        return done + [tag for tag in tags if tag in circling]

    def _to_view_items(self, names: dict[Tag, str]) -> list[ViewItem]:
        view_items: list[ViewItem] = []
        put_counts = dict.fromkeys(names, 0)
        number = 0
        for put in self.put_by:
            if put is None:
                number += 1
                view_items.append(MessageRange(number, number))
            else:
                view_items.append(Replacement(names[put], put_counts[put]))
                put_counts[put] += 1
        return view_items

    def _to_change(self, tag: Tag, group: Sequence[int], view_items: Sequence[ViewItem]) -> Change:
        removed: list[ViewItem] = []
        for index in group:
            if self.hidden_by[index] == tag:
                append_item(removed, view_items[index])
        return Change(
            tuple(removed), tuple(view_items[index] for index in group if self.put_by[index] == tag)
        )
