"""The meter over time: what each request held, what it would have held without folds, and what happened."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from refold.core.log.entries import MARKS, Entry, Kind
from refold.inspector.scopes import Scope
from refold.inspector.stored import StoredSession
from refold.inspector.views.branches import list_branches
from refold.inspector.views.session_list import find_size
from refold.inspector.views.shown import find_redactor
from refold.session.steps.read_entries import fold_sizes, is_believed, usage_report

POINTS: Final = 400
MOST_POINTS: Final = 5_000
EMERGENCY: Final = "emergency"
"""Trigger of folds and attempts that follow a refusal for size."""
CLIENT: Final = "client-compaction"
"""Name of the checkpoint that the gateway sets where a client compacted by itself."""
_KINDS: Final[frozenset[Kind]] = MARKS - {"system", "pin"}


@dataclass(slots=True)
class _Meter:
    """Reads the marks of a branch one after another."""

    stored: StoredSession
    rows: list[tuple[int, int, float, int, int, float | None]] = field(default_factory=list)
    marks: list[dict[str, Any]] = field(default_factory=list)
    standing: dict[str, int] = field(default_factory=dict)
    """Tokens that each fold took out which stands, also under a name that it no longer has."""
    model: str = ""
    requests: int = 0
    said: list[int] = field(default_factory=list)
    """For each request how many messages had been said."""

    def take(self, entry: Entry) -> None:
        """Take in one entry."""
        if entry.kind == "usage":
            self._take_usage(entry)
            return
        value = entry.value
        match entry.kind:
            case "fold":
                if entry.name in self.stored.labels:
                    before, after = fold_sizes(value)
                    self.standing[entry.name] = before - after
                    kind = "overflow" if value.get("trigger") == EMERGENCY else "fold"
                    self._mark(entry, kind, self.stored.labels[entry.name], entry.name)
            case "unfold":
                name = str(value.get("fold"))
                self.standing.pop(name, None)
                if name in self.stored.labels:
                    self._mark(entry, "unfold", self.stored.labels[name], name)
            case "checkpoint":
                name = str(value.get("name", ""))
                kind = CLIENT if name == CLIENT else "checkpoint"
                self._mark(entry, kind, find_redactor(show=False)(name)[0])
            case "attempt":
                if value.get("trigger") == EMERGENCY:
                    self._mark(entry, "overflow", "")

    def _take_usage(self, entry: Entry) -> None:
        self.requests += 1
        self.said.append(entry.said)
        report = usage_report(entry)
        if self.model and report.model != self.model:
            self._mark(entry, "model", report.model)
        self.model = report.model
        if not is_believed(entry):
            return
        usage = report.usage
        cached = usage.cache_read / usage.input if usage.input else None
        uncut = usage.context + sum(self.standing.values())
        self.rows.append((self.requests, entry.said, entry.at, usage.context, uncut, cached))

    def mark_branches(self, branches: list[dict[str, Any]]) -> None:
        """Mark where other branches leave this one; those of one place are one mark."""
        leaving = {branch["from"]: branch["at"] for branch in branches if branch["depth"] == 1}
        for said, at in leaving.items():
            where = {"n": bisect_right(self.said, said), "said": said, "at": at}
            self.marks.append({**where, "kind": "branch", "label": f"#{said}", "fold": None})
        self.marks.sort(key=lambda mark: (mark["n"], mark["said"]))

    def _mark(self, entry: Entry, kind: str, label: str, fold: str | None = None) -> None:
        where = {"n": self.requests, "said": entry.said, "at": entry.at}
        self.marks.append({**where, "kind": kind, "label": label, "fold": fold})


def show_usage(scope: Scope, name: str, points: int) -> dict[str, Any]:
    """Return the requests of this branch as columns, at most about so many, and the marks between them."""
    stored = scope.read(name)
    meter = _Meter(stored)
    for entry in scope.store.read(name, stored.head.place, kinds=_KINDS):
        meter.take(entry)
    meter.mark_branches(list_branches(scope, stored))
    rows = thin(meter.rows, max(2, min(points, MOST_POINTS)))
    columns = zip(*rows, strict=True) if rows else [()] * 6
    names = ("n", "said", "at", "sent", "without", "cached")
    size = find_size(scope, stored)
    return {
        "requests": meter.requests,
        "thinned": len(rows) < len(meter.rows),
        "window": size["window"],
        "room": size["room"],
        **{key: list(column) for key, column in zip(names, columns, strict=True)},
        "marks": meter.marks,
    }


def thin(rows: Sequence[tuple[Any, ...]], points: int) -> list[tuple[Any, ...]]:
    """Return at most so many rows: of each bucket the least and the largest, so that peaks stay.

    >>> thin([(n, 0, 0, size) for n, size in enumerate([1, 9, 2, 3, 8, 1])], 4)
    [(0, 0, 0, 1), (1, 0, 0, 9), (4, 0, 0, 8), (5, 0, 0, 1)]
    """
    if len(rows) <= points:
        return list(rows)
    buckets = points // 2
    kept: list[tuple[Any, ...]] = []
    for bucket in range(buckets):
        first, end = bucket * len(rows) // buckets, (bucket + 1) * len(rows) // buckets
        inside = range(first, end)
        least, most = min(inside, key=lambda at: rows[at][3]), max(inside, key=lambda at: rows[at][3])
        kept += [rows[at] for at in sorted({least, most})]
    return kept
