"""Search in everything that was ever said, in one session or in all; hits say whether the model sees them."""

import re
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from refold.core.log.entries import SAID, Entry
from refold.core.messages.message import Message, ToolCall, ToolResult
from refold.core.messages.text_cutting import find_telling_word
from refold.inspector.http.answers import ApiError
from refold.inspector.scopes import Scope, Scopes
from refold.inspector.views.session_page import MOST_LOADED, count_seen
from refold.inspector.views.shown import Redact, find_redactor
from refold.session.steps.recall import find_role, search_words
from refold.stores.reading.stored_messages import parse_entry

LIMIT: Final = 50
MOST: Final = 200
_MOST_SEARCHED: Final = 500
"""Hits that are looked at where filters leave some out."""
_BEFORE: Final = 60
"""Characters shown before the first match, enough to see the context."""
_SNIPPET: Final = 240
_CALLS_BACK: Final = 16
"""Messages before a tool's result that are searched for its call; parallel results stand in a row."""
_FILTERS: Final = ("session", "tool", "role", "folded", "before", "after")
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Query:
    """The words of a search box, and its filters."""

    words: str = ""
    phrases: tuple[str, ...] = ()
    terms: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> "Query":
        """Read `"connection pool" tool:Bash session:fix-parser`."""
        words: list[str] = []
        terms: dict[str, str] = {}
        for word in _split_words(text):
            name, colon, value = word.partition(":")
            if colon and name in _FILTERS and value:
                terms[name] = value
            else:
                words.append(word)
        if terms.get("folded", "yes") not in ("yes", "no"):
            raise ApiError("bad-request", "folded is yes or no")
        for name in ("before", "after"):
            if name in terms:
                _read_day(terms[name])
        return cls(" ".join(words), tuple(word for word in words if " " in word), terms)

    def takes(self, entry: Entry, message: Message, *, folded: bool) -> bool:
        """True if a message is as the filters say, but for its tool."""
        terms = self.terms
        text = _SPACES.sub(" ", entry.text).lower()
        role = find_role(message)
        return (
            all(_SPACES.sub(" ", phrase).lower() in text for phrase in self.phrases)
            and terms.get("role", role) == role
            and terms.get("folded", "yes" if folded else "no") == ("yes" if folded else "no")
            and ("before" not in terms or entry.at < _read_day(terms["before"]))
            and ("after" not in terms or entry.at >= _read_day(terms["after"]))
        )


def _split_words(text: str) -> list[str]:
    """Split a query at blanks, but not between double quotes; an open quote is just a character."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="")
    lexer.whitespace_split, lexer.commenters, lexer.quotes, lexer.escape = True, "", '"', ""
    try:
        return list(lexer)
    except ValueError:
        return text.replace('"', " ").split()


def _read_day(text: str) -> float:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        raise ApiError("bad-request", f"{text[:40]!r} is no day: write 2026-11-15") from None


@dataclass(frozen=True, slots=True)
class _Found:
    """An entry that a search found, and its score."""

    session: str
    entry: Entry
    score: float


def recall(scopes: Scopes, tenants: Sequence[str], text: str, limit: int) -> dict[str, Any]:
    """Return the best hits of a query, best first."""
    began, query = time.perf_counter(), Query.read(text)
    hits: list[dict[str, Any]] = []
    for tenant in tenants if query.words.strip() else ():
        with scopes.use(tenant) as scope:
            hits += _recall_in(scope, query, limit, skips_missing=len(tenants) > 1)
    hits = sorted(hits, key=lambda hit: -hit["score"])[:limit] if len(tenants) > 1 else hits
    seconds = round(time.perf_counter() - began, 6)
    return {"query": text, "hits": hits, "count": len(hits), "seconds": seconds}


def _recall_in(scope: Scope, query: Query, limit: int, *, skips_missing: bool) -> list[dict[str, Any]]:
    """Return the hits in one scope; a session that another one has may be missing there."""
    name, redact = query.terms.get("session"), find_redactor(show=False)
    if skips_missing and name is not None and scope.store.head(name) is None:
        return []
    wanted = min(_MOST_SEARCHED, limit * 5) if query.terms or query.phrases else limit
    described = (_describe_hit(scope, one, query, redact) for one in _search(scope, query, wanted))
    return list(islice((hit for hit in described if hit is not None), limit))


def _search(scope: Scope, query: Query, limit: int) -> Iterable[_Found]:
    """Search one session as `session.recall` does, or all of them by the store's own search."""
    name = query.terms.get("session")
    if name is None:
        hits = scope.store.search(" ".join(search_words(query.words)) or query.words, limit=limit)
        return [_Found(hit.session, hit.entry, hit.score) for hit in hits]
    stored = scope.read(name)
    if count_seen(stored) > MOST_LOADED:
        hits = scope.store.search(query.words, session=name, limit=limit)
        return [_Found(name, hit.entry, hit.score) for hit in hits]
    found = []
    for hit in scope.open(name).recall(query.words, limit=limit):
        is_here = hit.handle.startswith("#")
        entry = scope.read_message(stored, hit.number) if is_here else scope.find_entry(stored, hit.handle)
        if entry is not None:
            found.append(_Found(name, entry, hit.score))
    return found


def _describe_hit(scope: Scope, found: _Found, query: Query, redact: Redact) -> dict[str, Any] | None:
    """Return a hit as plain data; None if a filter leaves it out."""
    stored, entry = scope.read(found.session), found.entry
    here = scope.read_message(stored, entry.said)
    on_branch = here is not None and here.name == entry.name
    folded = not on_branch or not stored.is_visible(entry.said)
    message = parse_entry(entry)
    if not query.takes(entry, message, folded=folded):
        return None
    tool = _find_tool(scope, found, message) if on_branch else ""
    if query.terms.get("tool", tool).lower() != tool.lower():
        return None
    snippet, matches = cut_snippet(redact(entry.text)[0], query.words)
    return {
        "session": found.session,
        "tenant": scope.tenant,
        "number": entry.said,
        "handle": f"#{entry.said}" if on_branch else entry.name,
        "name": entry.name,
        "role": find_role(message),
        "tool": tool,
        "at": entry.at,
        "snippet": snippet,
        "matches": matches,
        "folded": folded,
        "fold": stored.find_hiding(entry.said) if on_branch and folded else None,
        "on_branch": on_branch,
        "score": found.score,
    }


def _find_tool(scope: Scope, found: _Found, message: Message) -> str:
    """Return the tool that a message calls, or whose result it is; "" if there is none."""
    calls = [part.name for part in message.parts if isinstance(part, ToolCall)]
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if calls or not results:
        return calls[0] if calls else ""
    if results[0].name:
        return results[0].name
    stored, number = scope.read(found.session), found.entry.said
    first = max(1, number - _CALLS_BACK)
    path = scope.store.read(found.session, stored.head.place, kinds=SAID, first=first, last=number - 1)
    before = [parse_entry(entry) for entry in path]
    made = (part for one in reversed(before) for part in one.parts if isinstance(part, ToolCall))
    return next((call.name for call in made if call.id == results[0].call_id), "")


def cut_snippet(text: str, query: str) -> tuple[str, list[list[int]]]:
    """Return the text around the rarest word of a query, and where its words stand in it.

    >>> cut_snippet("the connection   pool is exhausted", "pool")
    ('the connection pool is exhausted', [[15, 19]])
    """
    words = [re.escape(word) for word in re.findall(r"\w+", query)]
    pattern = re.compile(rf"\b(?:{'|'.join(words)})\w*" if words else r"(?!)", re.IGNORECASE)
    text = _SPACES.sub(" ", text)
    at = max(0, (find_telling_word(text, query) or 0) - _BEFORE)
    begin = text.rfind(" ", 0, at) + 1
    begin = begin if at - begin <= _BEFORE else at  # some languages have no blanks
    cut = text[begin : begin + _SNIPPET]
    front, end = "…" if begin else "", "…" if begin + _SNIPPET < len(text) else ""
    spans = [[m.start() + len(front), m.end() + len(front)] for m in pattern.finditer(cut)]
    return f"{front}{cut}{end}", spans
