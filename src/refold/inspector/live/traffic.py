"""The last requests of a gateway, in memory: sizes, times, the reason for each fold; no bodies, no keys.

Written and read in the event loop of the gateway.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from statistics import median
from typing import Any, Final

KEPT: Final = 2_000
"""Requests that are remembered; a row has about 1 kB."""
_RATE_SECONDS: Final = 10.0
"""Over which requests a second are counted; folds are counted over a minute."""
_MINUTE: Final = 60.0
_ADDED: Final = ("read", "identify", "fold")
"""Phases that the gateway adds to a request, not the upstream."""
_HEADER_CHARS: Final = 200
_SHOWN_HEADERS: Final = frozenset(
    {
        *("user-agent", "anthropic-version", "anthropic-beta", "openai-beta", "content-type", "accept"),
        *("content-encoding", "x-stainless-lang", "x-stainless-package-version", "x-stainless-retry-count"),
        *("x-refold-session", "x-refold-policy", "x-refold-bypass", "x-app", "originator"),
    }
)
"""Headers that say what a client is. All others may hold a key, and are not kept."""
FOLD_CLAUSES: Final[Mapping[str, str]] = {
    "ready": "an earlier fold stands in it",
    "made": "folded now",
    "bypassed;crowded": "not folded: system prompt and tools leave too little room",
    "bypassed;store": "not folded: the store does not answer",
    "bypassed;deadline": "not folded: its history was not ready in time",
    "bypassed;fault": "not folded: a fault of the gateway, its log has the place",
    "ready;store": "the last fold stands, although the store does not answer",
    "ready;deadline": "the last fold stands: a new one was not ready in time",
    "ready;fault": "the last fold stands, after a fault of the gateway",
}
"""What became of a history, as the header `x-refold-fold` says it, in words."""
_AGENTS: Final = (
    ("claude-cli", "claude-code"),
    ("codex", "codex"),
    ("opencode", "opencode"),
    ("geminicli", "gemini-cli"),
    ("anthropic/", "anthropic-sdk"),
    ("openai/", "openai-sdk"),
    ("asyncopenai/", "openai-sdk"),
    ("asyncanthropic/", "anthropic-sdk"),
)
"""Beginnings and parts of the header User-Agent, and who sends them."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A request as it came, without what may be a secret."""

    id: int = 0
    """Its number; 0 for one that stands in no ring."""
    at: float = 0.0
    method: str = ""
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Sizes:
    """What a request and its answer weigh."""

    bytes_in: int = 0
    bytes_sent: int = 0
    bytes_out: int = 0
    tokens: tuple[int, int] | None = None
    """The history with system prompt and tools: as it came, and as it went on."""
    usage: dict[str, int] | None = None


@dataclass(slots=True)
class Times:
    """How long a request takes, phase by phase, in milliseconds."""

    began: float = field(default_factory=time.perf_counter)
    last: float = field(default_factory=time.perf_counter)
    """When the last phase ended."""
    phases: dict[str, int] = field(default_factory=dict)
    first_ms: int | None = None
    total_ms: int | None = None

    def end_phase(self, name: str) -> None:
        """Note that a phase is over; the next one begins now."""
        now = time.perf_counter()
        self.phases[name] = self.phases.get(name, 0) + round((now - self.last) * 1000)
        self.last = now
        if name == "first_byte":
            self.first_ms = round((now - self.began) * 1000)

    def end(self) -> None:
        """Note that the request has ended."""
        self.end_phase("last_byte")
        self.total_ms = round((time.perf_counter() - self.began) * 1000)


@dataclass(slots=True)
class TrafficRow:
    """One request on its way; it changes until it ends."""

    begun: Begun = field(default_factory=Begun)
    sizes: Sizes = field(default_factory=Sizes)
    times: Times = field(default_factory=Times)
    client: str = ""
    tenant: str = ""
    statuses: list[int] = field(default_factory=list)
    outcome: str = ""
    fold: str = "none"
    session: str | None = None
    model: str = ""
    why: str = ""
    """One sentence: why its history was or was not folded."""

    def explain(self, text: str) -> None:
        """Add a clause to the sentence that says why a history was or was not folded."""
        self.why = f"{self.why}; {text}" if self.why else text

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data."""
        begun, sizes, times = self.begun, self.sizes, self.times
        fold, _, reason = self.fold.partition(";")
        usage = sizes.usage
        before, after = sizes.tokens or (None, None)
        return {
            **{name: getattr(begun, name) for name in ("id", "at", "method", "path", "headers")},
            **{name: getattr(self, name) for name in ("client", "tenant", "outcome", "session", "model")},
            **{name: getattr(sizes, name) for name in ("bytes_in", "bytes_sent", "bytes_out", "usage")},
            **{name: getattr(times, name) for name in ("first_ms", "total_ms", "phases")},
            "status": self.statuses[-1] if self.statuses else None,
            "statuses": list(self.statuses),
            "tokens_in": before,
            "tokens_sent": after,
            "cache_share": usage["cache_read"] / usage["input"] if usage and usage.get("input") else None,
            "fold": fold,
            "fold_reason": reason,
            "why": self.why,
        }


class Traffic:
    """A ring of requests."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.on_change = on_change
        self._rows: OrderedDict[int, TrafficRow] = OrderedDict()
        self._numbers = count(1)
        self.last = 0
        self.open = 0

    def begin(self, method: str, path: str, headers: Mapping[str, str]) -> TrafficRow:
        """Add the row of a request that begins."""
        self.last = next(self._numbers)
        shown = {
            name.lower(): value[:_HEADER_CHARS]
            for name, value in headers.items()
            if name.lower() in _SHOWN_HEADERS
        }
        row = TrafficRow(Begun(self.last, time.time(), method, path[:_HEADER_CHARS], shown))
        row.client = find_client(shown.get("user-agent", ""))
        self._rows[self.last] = row
        while len(self._rows) > KEPT:
            self._rows.popitem(last=False)
        self.open += 1
        self.on_change()
        return row

    def end(self, row: TrafficRow, status: int | None, outcome: str) -> None:
        """Note that a request has ended."""
        self.open -= 1
        row.times.end()
        row.outcome = outcome
        if status is not None and (not row.statuses or row.statuses[-1] != status):
            row.statuses.append(status)
        self.on_change()

    def list_rows(self, tenant: str | None, after: int, limit: int) -> dict[str, Any]:
        """Return the newest rows of a tenant, or of all where it is None, and how busy the gateway is."""
        rows = [row for row in self._rows.values() if tenant is None or row.tenant == tenant]
        listed = [row.as_dict() for row in reversed(rows) if row.begun.id > after][:limit]
        return {"rows": listed, "last": self.last, "rates": self._count_rates(rows)}

    def _count_rates(self, rows: list[TrafficRow]) -> dict[str, Any]:
        now = time.time()
        recent = [row for row in rows if now - row.begun.at < _RATE_SECONDS]
        minute = [row for row in rows if now - row.begun.at < _MINUTE]
        phases = [row.times.phases for row in minute if row.times.phases]
        added = [sum(one.get(phase, 0) for phase in _ADDED) for one in phases]
        return {
            "per_second": round(len(recent) / _RATE_SECONDS, 2),
            "open": sum(row.times.total_ms is None for row in rows),
            "added_p50_ms": median(added) if added else None,
            "folds_per_minute": sum(row.fold.startswith("made") for row in minute),
            "errors": sum(
                row.outcome == "upstream-lost" or (bool(row.statuses) and row.statuses[-1] >= 400)
                for row in minute
            ),
        }


def find_client(agent: str) -> str:
    """Return the program that sends a header User-Agent; "" for one that nobody knows.

    >>> find_client("claude-cli/2.1.197 (external, cli)")
    'claude-code'
    """
    low = agent.lower()
    return next((client for part, client in _AGENTS if part in low), "")
