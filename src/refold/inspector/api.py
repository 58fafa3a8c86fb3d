"""The routes of the inspector's data: which function answers which address, all of them in threads."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aiohttp import web

from refold.core.messages.message import read_json
from refold.inspector.http.answers import ApiError, answer_bytes, answer_json, answer_text
from refold.inspector.http.paths import Address
from refold.inspector.scopes import Scope, Scopes
from refold.inspector.views import changes, costs, entries, recall_page, session_list
from refold.inspector.views.fold_page import show_fold
from refold.inspector.views.plan_page import Wanted, show_plan
from refold.inspector.views.session_page import show_session
from refold.inspector.views.usage import MOST_POINTS, POINTS, show_usage
from refold.inspector.views.window_page import show_window

_LAST: Final = 10**15
_ATTACHED: Final = {"Content-Disposition": "attachment"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for data, and the scope that it may see."""

    address: Address
    scope: Scope
    scopes: Scopes
    tenants: tuple[str, ...]
    """All tenants that a list or a search is about."""

    @property
    def name(self) -> str:
        """The session that the path names."""
        return self.address.parts[2]


Answer: TypeAlias = Callable[[Asked], web.Response]


def _list_sessions(asked: Asked) -> web.Response:
    query, limit = (
        asked.address.query,
        asked.address.read_number("limit", session_list.PAGE, session_list.MOST),
    )
    found = session_list.list_sessions(
        asked.scopes,
        asked.tenants,
        after=query.get("after", ""),
        limit=max(1, limit),
        query=query.get("q", ""),
    )
    return answer_json({"store": asked.scope.store.address, **found})


def _show_session(asked: Asked) -> web.Response:
    measures = asked.address.query.get("measure") != "0"
    return answer_json(show_session(asked.scope, asked.name, measures=measures))


def _list_entries(asked: Asked) -> web.Response:
    first = asked.address.read_number("first", 1, _LAST)
    last = asked.address.read_number("last", first + entries.PAGE - 1, _LAST)
    is_log = asked.address.query.get("of") == "log"
    read = entries.list_log if is_log else entries.list_entries
    return answer_json(read(asked.scope, asked.name, first, last))


def _show_message(asked: Asked) -> web.Response:
    word, show = asked.address.parts[4], asked.address.shows_secrets
    return answer_json(entries.show_message(asked.scope, asked.name, word, show=show))


def _show_whole(asked: Asked) -> web.Response:
    word, show = asked.address.parts[4], asked.address.shows_secrets
    text = entries.read_whole(asked.scope, asked.name, word, show=show)
    return answer_text(text, headers={"Content-Disposition": "inline"})


def _show_image(asked: Asked) -> web.Response:
    word, index = asked.address.parts[4], asked.address.parts[6]
    if not index.isascii() or not index.isdecimal():
        raise ApiError("bad-request", "a picture is named by its number")
    body, kind = entries.read_image(asked.scope, asked.name, word, int(index[:9]))
    return answer_bytes(body, kind, headers=_ATTACHED)


def _show_usage(asked: Asked) -> web.Response:
    points = asked.address.read_number("points", POINTS, MOST_POINTS)
    return answer_json(show_usage(asked.scope, asked.name, points))


def _show_window(asked: Asked) -> web.Response:
    plans = asked.address.query.get("plan") == "1"
    return answer_json(show_window(asked.scope, asked.name, plans=plans))


def _show_plan(asked: Asked) -> web.Response:
    address = asked.address
    query, first = address.query, address.read_number("first", 0, _LAST)
    model = {"1": True, "0": False}.get(query.get("model", ""))
    last = max(first, address.read_number("last", first, _LAST))
    wanted = Wanted(query.get("policy", ""), model, first, last, query.get("fold", ""))
    return answer_json(show_plan(asked.scope, asked.name, wanted))


def _recall(asked: Asked) -> web.Response:
    limit = asked.address.read_number("limit", recall_page.LIMIT, recall_page.MOST)
    query = asked.address.query.get("q", "")
    return answer_json(recall_page.recall(asked.scopes, asked.tenants, query, max(1, limit)))


def _show_costs(asked: Asked) -> web.Response:
    days = asked.address.read_number("days", costs.DAYS, costs.MOST_DAYS)
    today = int(time.time() // costs.DAY) * costs.DAY
    midnight = asked.address.read_number("midnight", today, _LAST)
    begins = asked.address.read_numbers("begins", costs.MOST_DAYS, _LAST)
    begins = begins or [midnight - day * costs.DAY for day in range(max(1, days))]
    return answer_json(costs.show_costs(asked.scopes, asked.tenants, sorted(set(begins))))


def _export(asked: Asked) -> web.Response:
    return answer_bytes(changes.export(asked.scope, asked.name), "application/zip", headers=_ATTACHED)


ANY: Final = "*"
READS: Final[Mapping[tuple[str, ...], Answer]] = {
    ("api", "sessions"): _list_sessions,
    ("api", "recall"): _recall,
    ("api", "costs"): _show_costs,
    ("api", "sessions", ANY): _show_session,
    ("api", "sessions", ANY, "entries"): _list_entries,
    ("api", "sessions", ANY, "entries", ANY): _show_message,
    ("api", "sessions", ANY, "entries", ANY, "whole"): _show_whole,
    ("api", "sessions", ANY, "entries", ANY, "images", ANY): _show_image,
    ("api", "sessions", ANY, "usage"): _show_usage,
    ("api", "sessions", ANY, "window"): _show_window,
    ("api", "sessions", ANY, "plan"): _show_plan,
    ("api", "sessions", ANY, "export"): _export,
    ("api", "sessions", ANY, "folds", ANY): lambda asked: answer_json(
        show_fold(asked.scope, asked.name, asked.address.parts[4])
    ),
}
"""What is read: the parts of a path, of which `*` is any, and who answers."""
_OVER_ALL: Final = frozenset({("api", "sessions"), ("api", "recall"), ("api", "costs")})
"""What is about all sessions that a visitor may see."""
WRITES: Final[frozenset[tuple[str, ...]]] = frozenset(
    ("api", "sessions", ANY, verb) for verb in changes.VERBS
)


def match_route(parts: tuple[str, ...], routes: "Mapping[tuple[str, ...], Any] | frozenset[Any]") -> Any:
    """Return the route of a path; None if there is none."""
    for route in routes:
        if len(route) == len(parts) and all(
            want in (ANY, part) for want, part in zip(route, parts, strict=True)
        ):
            return route
    return None


@contextmanager
def choose_scope(scopes: Scopes, address: Address, tenant: str, *, is_operator: bool) -> Iterator[Asked]:
    """Yield what a visitor asks for: in its own scope; the operator in the one that is named, or in all."""
    tenants: tuple[str, ...] = (tenant,)
    named = address.query.get("tenant", "") if is_operator else ""
    if named:
        if named not in scopes.list_tenants():
            raise ApiError("not-found", "there is no such tenant")
        tenants = (named,)
    elif is_operator and match_route(address.parts, _OVER_ALL) is not None:
        tenants = ("", *scopes.list_tenants())
    with scopes.use(tenants[0]) as scope:
        yield Asked(address, scope, scopes, tenants)


def answer_read(asked: Asked) -> web.Response:
    """Answer a request for data whose route is known, in a thread."""
    return READS[match_route(asked.address.parts, READS)](asked)


def answer_write(asked: Asked, body: bytes) -> web.Response:
    """Do what a write says, in a thread."""
    value = read_json(body)
    if not isinstance(value, dict):
        raise ApiError("bad-request", "the body of a write is a JSON object")
    return answer_json(changes.change(asked.scope, asked.name, asked.address.parts[3], value))
