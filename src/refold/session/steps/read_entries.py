"""Read values from entries of the log: messages of folds, system messages, usage, attempts to compact."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from refold import formats
from refold.core.compaction import circuit_breaker
from refold.core.log.entries import Entry, to_json_text
from refold.core.log.normal_form import split_cache_marks
from refold.core.messages.message import EMPTY, Message
from refold.core.messages.unread import NATIVE, is_native
from refold.core.models.prices import Spent
from refold.core.tokens.usage import Usage
from refold.formats.shared import canonical
from refold.session.results import Totals
from refold.session.state.accounting import Doubted, UsageReport

_BREAKER_EVENTS: Final[Mapping[Any, circuit_breaker.BreakerEvent | None]] = {
    "repair": None,
    "arrival": None,
    "carried": None,
    "native": None,
    "forced": None,
    "emergency": "emergency",
}
"""Circuit breaker events of folds, by the fold's trigger; any other trigger is a "fold". Folds that people
ask for do not count: they may fold as often as they like."""
_TURNED_DOWN: Final = re.compile(r'"turned_down":\s?([1-9]\d{0,9})')
"""The number in a receipt."""
TAUGHT: Final = "taught"
"""Fact beside an attempt that begins a branch: the last report of another branch."""
BEGAN: Final = "began"
"""Fact beside a fold for which a model was asked: when the attempt began."""
_BEGAN: Final = re.compile(rf'"{BEGAN}":\s?([0-9]+(?:\.[0-9]+)?)')


def breaker_event(entry: Entry, value: Any = None) -> circuit_breaker.BreakerEvent | None:
    """Return the circuit breaker event of an entry; None if it does not count.

    value   its body, if that was decoded already; of a fold, what the log says of it is enough
    """
    if entry.kind == "usage":
        return "turn"
    if entry.kind == "fold":
        value = entry.value if value is None else value
        event = _BREAKER_EVENTS.get(value.get("trigger"), "fold")
        # A stage that needs no model stood in, but to ask so often in vain is a loop as well.
        return "failed" if event == "fold" and value.get("unanswered") else event
    return "failed" if entry.kind == "attempt" and entry.value.get("counted") else None


def find_began(entry: Entry) -> float | None:
    """Return when the attempt began for which a model was asked; None if none was."""
    match = _BEGAN.search(entry.about)
    return None if match is None else float(match[1])


def find_turned_down(newest: Iterable[Entry]) -> int:
    """Return the number of the last message of which a summary was turned down; 0 for none."""
    # Receipts are long, and to parse them all would take long.
    found = (_TURNED_DOWN.search(entry.about) for entry in newest)
    return next((int(match[1]) for match in found if match), 0)


def fold_messages(entry: Entry, value: Any = None, wire: formats.Format | None = None) -> tuple[Message, ...]:
    """Return the messages that a fold inserted; `value` and `wire`: its body and its format, if known."""
    wire = wire or formats.get(entry.beside.get("format", formats.DEFAULT))
    messages = (entry.value if value is None else value)["messages"]
    return tuple(read_fold_message(message, wire) for message in messages)


def read_fold_message(value: Mapping[str, Any], wire: formats.Format) -> Message:
    """Return one message of a fold from its body."""
    if "message" in value:
        return canonical.from_json(value["message"])
    # A mark belongs to the request that it came with; folds of older versions hold some.
    (message,) = wire.parse([split_cache_marks(value["wire"])[0]])
    source, meta = value.get("source"), value.get("meta")
    if source is None and not meta:
        return message
    meta = canonical.from_json({"role": "user", "meta": meta or {}}).meta
    return replace(message, source=source, meta=meta or EMPTY)


def read_block(entry: Entry) -> Message | None:
    """Return the provider's own block that a fold inserted; None for any other fold."""
    if f'"{NATIVE}":' not in entry.body:  # parsing the messages of every fold takes long
        return None
    return next((message for message in fold_messages(entry) if is_native(message)), None)


def system_items(entry: Entry) -> list[Any]:
    """Return the system messages of an entry."""
    own = entry.beside.get("format") == canonical.FORMAT.name
    return [canonical.from_json(item) for item in entry.value] if own else list(entry.value)


def fold_sizes(value: Mapping[str, Any]) -> tuple[int, int]:
    """Return the tokens before and after a fold; 0 for what is no number, as imports may hold any."""
    before, after = value.get("before"), value.get("after")
    return before if type(before) is int else 0, after if type(after) is int else 0


def usage_report(entry: Entry) -> UsageReport:
    """Return the report of a usage entry."""
    value: Any = entry.value
    counts = {key: int(value.get(key, 0)) for key in ("input", "output", "cache_read", "cache_write")}
    said, guess = value.get("said"), entry.beside.get("guess")
    messages, fixed = (entry.beside.get(name) for name in ("messages", "fixed"))
    return UsageReport(
        usage=Usage(**counts, said=said if isinstance(said, int) else None),
        estimate=int(value.get("estimate", 0)),
        model=str(value.get("model", "")),
        at=entry.at,
        holds=entry.beside.get("stands") is not False,
        messages=messages if isinstance(messages, int) else None,
        fixed=fixed if isinstance(fixed, int) else None,
        grown=_read_numbers(entry, "grown", 2) or (0, 0),
        guess=guess if isinstance(guess, float) else 1.0,
    )


def write_report(report: UsageReport) -> dict[str, Any]:
    """Return what an attempt records of a report of another branch: how the provider counts."""
    facts = {name: getattr(report, name) for name in ("messages", "fixed", "grown", "guess")}
    value = {**report.usage.as_dict(), "estimate": report.estimate, "model": report.model}
    return {TAUGHT: {"value": value, "facts": {**facts, "stands": False}}}


def read_report(entry: Entry) -> list[Entry]:
    """Return the report that an attempt records as a usage entry; an empty list if it has none."""
    taught: Any = entry.beside.get(TAUGHT) if f'"{TAUGHT}":' in entry.about else None
    if not taught:
        return []
    value, facts = to_json_text(taught["value"]), to_json_text(taught["facts"])
    return [replace(entry, kind="usage", body=value, about=facts)]


def read_doubt(entry: Entry, model: str) -> Doubted | None:
    """Return the report that the next one of this model may confirm."""
    numbers = _read_numbers(entry, "doubted", len(Doubted._fields))
    return Doubted(*numbers) if numbers and entry.value.get("model") == model else None


def _read_numbers(entry: Entry, name: str, count: int) -> Any:
    """Return the numbers beside an entry as a tuple; None for anything else, as imports may hold any."""
    found: Any = entry.beside.get(name)
    is_whole = isinstance(found, list | tuple) and len(found) == count
    return tuple(found) if is_whole and all(isinstance(number, int) for number in found) else None


def is_believed(entry: Entry) -> bool:
    """True if the report of a usage entry was taken as the size of its request."""
    return entry.beside.get("believed") is not False


def usage_totals(entry: Entry) -> Totals:
    """Return the sums of all requests up to a usage entry."""
    return Totals(**entry.beside.get("totals", {}))


def usage_cost(entry: Entry) -> Spent:
    """Return the cost of all requests up to a usage entry; logs of older versions have their tokens only."""
    if "spent" in entry.beside:
        return Spent.read(entry.beside["spent"])
    totals = usage_totals(entry)
    counts = {name: number for name, number in asdict(totals).items() if name != "requests"}
    return Spent(calls=totals.requests, **counts, dollars=None, unpriced=totals.requests)
