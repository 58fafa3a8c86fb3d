"""The list of sessions: what is there, what is busy, what folds saved and what it all cost."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Final

from refold.core.models.prices import Spent
from refold.errors import LogCorrupt
from refold.inspector.http.answers import ApiError
from refold.inspector.scopes import Scope, Scopes
from refold.inspector.stored import StoredSession
from refold.session.steps.read_entries import is_believed, usage_report
from refold.stores import SessionInfo
from refold.stores.reading.stored_views import LOOKED_AT, read_spent

PAGE: Final = 100
MOST: Final = 200
_MOST_FILTERED: Final = 2_000
"""Sessions that a filter on their content looks at, the newest first; each has to be read once."""
_CLIENTS: Final = re.compile(r"(claude-code|codex|opencode)(?:-\w+)?:(.+)", re.DOTALL)
"""Names that the gateway gives sessions of clients who name their own: the client, and its ids."""
_FILTERS: Final = ("model", "client", "folded")


@dataclass(frozen=True, slots=True)
class Names:
    """What the name of a session tells of the program that holds it."""

    client: str = ""
    parent: str | None = None
    """The session of the agent that this sub-agent works for."""
    agent: str | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """The words of a filter box."""

    words: tuple[str, ...] = ()
    terms: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> "Filter":
        """Read `model:opus folded:yes parser`."""
        words: list[str] = []
        terms: dict[str, str] = {}
        for word in text.lower().split():
            name, colon, value = word.partition(":")
            if colon and name in _FILTERS:
                terms[name] = value
            else:
                words.append(word)
        if terms.get("folded", "yes") not in ("yes", "no"):
            raise ApiError("bad-request", "folded is yes or no")
        return cls(tuple(words), terms)

    def takes_name(self, name: str) -> bool:
        """True if a name has every word."""
        low = name.lower()
        return all(word in low for word in self.words)

    def takes_row(self, row: dict[str, Any]) -> bool:
        """True if a session is as the terms say."""
        is_folded = "yes" if row["folds"] else "no"
        return (
            self.terms.get("model", "") in row["model"].lower()
            and self.terms.get("client", "") in row["client"].lower()
            and self.terms.get("folded", is_folded) == is_folded
        )


def read_names(name: str, client: str = "") -> Names:
    """Read the name of a session.

    >>> read_names("claude-code:01a1dffd-7e:a15ab9")
    Names(client='claude-code', parent='claude-code:01a1dffd-7e', agent='a15ab9', label='agent a15ab9')
    """
    match = _CLIENTS.fullmatch(name)
    if match is None:
        return Names(client, label=name)
    session, colon, agent = match[2].rpartition(":")
    if colon and session and match[1] == "claude-code":
        return Names(match[1], f"{match[1]}:{session}", agent, f"agent {agent}")
    return Names(match[1], label=match[2])


def list_sessions(
    scopes: Scopes, tenants: Iterable[str], *, after: str, limit: int, query: str
) -> dict[str, Any]:
    """Return a page of sessions, the newest change first; sub-agents stand behind their parents."""
    wanted = Filter.read(query)
    every: list[tuple[str, SessionInfo]] = []
    for tenant in tenants:
        with scopes.use(tenant) as scope:
            every += [(tenant, info) for info in scope.store.sessions()]
    every.sort(key=lambda pair: -pair[1].changed)
    named = [pair for pair in every if wanted.takes_name(pair[1].name)]
    if wanted.terms:
        looked_at = (_describe(scopes, *pair) for pair in named[:_MOST_FILTERED])
        rows = [row for row in looked_at if wanted.takes_row(row)]
        matching = len(rows)
        start = _find_start([(row["tenant"], row["name"]) for row in rows], after)
        page = rows[start : start + limit]
    else:
        matching = len(named)
        start = _find_start([(tenant, info.name) for tenant, info in named], after)
        page = [_describe(scopes, *pair) for pair in named[start : start + limit]]
    more = matching > start + len(page) and bool(page)
    return {
        "total": len(every),
        "matching": matching,
        "next": page[-1]["name"] if more else None,
        "sessions": group_rows(page),
    }


def _find_start(names: list[tuple[str, str]], after: str) -> int:
    """Return the place behind a session; a list that has changed meanwhile begins anew."""
    return next((at + 1 for at, (_, name) in enumerate(names) if name == after), 0) if after else 0


def group_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put sub-agents right behind their parents, if these are on the page."""
    here = {(row["tenant"], row["name"]) for row in rows}
    children: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if (row["tenant"], row["parent"]) in here:
            children.setdefault((row["tenant"], row["parent"]), []).append(row)
    grouped: list[dict[str, Any]] = []
    for row in rows:
        if (row["tenant"], row["parent"]) not in here:
            grouped += [row, *children.get((row["tenant"], row["name"]), [])]
    return grouped


def _describe(scopes: Scopes, tenant: str, info: SessionInfo) -> dict[str, Any]:
    with scopes.use(tenant) as scope:
        return _describe_row(scope, info)


def _describe_row(scope: Scope, info: SessionInfo) -> dict[str, Any]:
    stored = _read_listed(scope, info.name)
    about = {"entries": info.entries, "created": info.created, "changed": info.changed}
    if stored is None:
        sizes = {"used": None, "window": None, "room": None, "share": None}
        empty = {"model": "", **sizes, "folds": 0, "unfolded": 0, "saved": 0, "spent": Spent().as_dict()}
        return {**describe_names(info.name, "", scope.tenant), "said": info.said, **about, **empty}
    standing = {fold.name for fold in stored.view.standing}
    saved = sum(fold.saved for fold in stored.folds if fold.name in standing)
    folds = sum(fold.name in standing for fold in stored.folds)
    return {
        **describe_names(info.name, stored.note.client, scope.tenant),
        "model": stored.model,
        "said": info.said,
        **about,
        **find_size(scope, stored),
        "folds": folds,
        "unfolded": len(stored.folds) - folds,
        "saved": saved,
        "spent": read_spent(scope.store, info.name, stored.head).as_dict(),
    }


def _read_listed(scope: Scope, name: str) -> StoredSession | None:
    """Return a session of a list; None if it is gone meanwhile or damaged: the others are shown."""
    try:
        return scope.read(name)
    except (ApiError, LogCorrupt):
        return None


def describe_names(name: str, client: str, tenant: str) -> dict[str, Any]:
    """Return what the name of a session tells, as plain data."""
    return {"name": name, **asdict(read_names(name, client)), "tenant": tenant}


def find_size(scope: Scope, stored: StoredSession) -> dict[str, Any]:
    """Return how full the window is by the last report; nothing is opened for a list."""
    tokens, room = scope.find_window(stored)
    used = read_last_size(scope, stored)
    share = None if used is None else used / room
    return {"used": used, "window": tokens, "room": room, "share": share}


def read_last_size(scope: Scope, stored: StoredSession) -> int | None:
    """Return the context as it was reported last, less what was folded since."""
    sizes = {fold.name: fold.saved for fold in stored.folds}
    since = 0
    place = stored.head.place
    entries = scope.store.read(stored.name, place, kinds=("usage", "fold", "unfold"), newest=True)
    for entry in islice(entries, LOOKED_AT):
        if entry.kind == "fold":
            since -= sizes.get(entry.name, 0)
        elif entry.kind == "unfold":
            since += sizes.get(str(entry.value.get("fold")), 0)
        elif is_believed(entry):
            return max(0, usage_report(entry).usage.context + since)
    return None
