"""Log entries as lines: the kind, the name, the age and the content of each."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from time import time
from typing import Any, Final

from refold.cli.output.costs import format_spent
from refold.cli.output.format_message import first_words
from refold.cli.output.screen import LAST_WIDTH, Screen, Style
from refold.core.log.entries import Entry, Kind, bare_name
from refold.core.log.view import MessageRange, View
from refold.core.models.prices import Spent
from refold.core.tokens.units import format_count
from refold.stores.reading.stored_messages import parse_entry

NOTHING_FOLDED: Final = "nothing is folded on this branch"
SHORT_NAME: Final = 8
"""Characters of a name that are shown. Two of 16 million folds of one session are expected to look alike."""
_COLOURS: Final[Mapping[Kind, Style]] = {
    "fold": "yellow",
    "unfold": "yellow",
    "checkpoint": "cyan",
    "pin": "cyan",
    "attempt": "red",
}
_AGE_WIDTH: Final = len("59 minutes ago")
_STEPS: Final = ((60, "second"), (60, "minute"), (24, "hour"), (14, "day"))
"""For each unit, the number that makes the next one; after fourteen days a date says more than an age."""


def short_name(name: str) -> str:
    """Return the beginning of an entry's name, enough to identify it."""
    return bare_name(name)[:SHORT_NAME]


def format_age(at: float, now: float | None = None) -> str:
    """Return the age of an event in words; the date if it is more than two weeks old.

    >>> format_age(1_000.0, 1_030.0), format_age(1_000.0, 8_500.0), format_age(0.0, 1e9)
    ('just now', '2 hours ago', '1970-01-01')
    """
    left = (time() if now is None else now) - at
    if left < _STEPS[0][0]:
        return "just now"
    for size, unit in _STEPS:
        if left < size:
            return f"{format_count(int(left), unit)} ago"
        left /= size
    try:
        return datetime.fromtimestamp(at, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):  # a number that is no time at all
        return "?"


def entry_line(entry: Entry, view: View, screen: Screen) -> str:
    """One entry in one line; on a narrow terminal its content stands below."""
    head = f"{short_name(entry.name)}  {format_age(entry.at):<{_AGE_WIDTH}}  "
    kind = f"{entry.kind:<10}"
    is_whole = entry.kind != "said" and not screen.live  # other programs get all of it
    left = screen.width - len(head) - len(kind) - 2
    gap = "  " if is_whole or left >= LAST_WIDTH else "\n  "
    room = 2_000 if is_whole else left if left >= LAST_WIDTH else screen.width - 2
    text = screen.short(_entry_text(entry, view), room)
    kind = screen.paint(kind, _COLOURS.get(entry.kind, "plain"))
    return f"{screen.paint(head, 'dim')}{kind}{gap}{text}".rstrip()


def entry_data(entry: Entry) -> dict[str, Any]:
    """Return an entry with every field."""
    return {
        "kind": entry.kind,
        "name": entry.name,
        "parent": entry.parent,
        "said": entry.said,
        "at": entry.at,
        "value": entry.value,
        "about": dict(entry.beside),
    }


def fold_span(name: str, view: View) -> str:
    """Return the messages that a fold removed, from the first to the last; empty if there are none."""
    fold = view.fold(name)
    changes = fold.changes if fold else ()
    return format_span(
        [run for change in changes for piece in change.removed for run in view.originals(piece)]
    )


def format_span(runs: Sequence[MessageRange]) -> str:
    """Return the first and the last number of some messages."""
    if not runs:
        return ""
    first, last = min(run.first for run in runs), max(run.last for run in runs)
    return f"#{first}" if first == last else f"#{first}-#{last}"


def _entry_text(entry: Entry, view: View) -> str:
    value = entry.value
    if entry.kind == "said":
        message = parse_entry(entry)
        return f"#{entry.said} {message.role}  {first_words(message)}"
    if not isinstance(value, Mapping):
        count = len(value) if isinstance(value, list) else 1
        return f"{format_count(count, 'message')} from #{entry.said + 1} on"
    cost = format_spent(Spent.read(entry.beside.get("spent")))
    match entry.kind:
        case "fold":
            sizes = f"{int(value.get('before', 0)):,} → {int(value.get('after', 0)):,} tokens"
            fold = view.fold(entry.name)
            undone = "" if fold is None or fold.standing else "unfolded"
            stages = ", ".join(map(str, value.get("stages", ()))) or str(value.get("trigger", ""))
            return " · ".join(filter(None, (fold_span(entry.name, view), undone, sizes, stages, cost)))
        case "unfold":
            return short_name(str(value.get("fold", "")))
        case "checkpoint":
            return f"{value.get('name', '')} at #{value.get('said', entry.said)}"
        case "pin":
            return f"#{value.get('said', '?')} {'pinned' if value.get('pinned') else 'no longer pinned'}"
        case "usage":
            counts = {name: size for name, size in value.items() if type(size) is int and size > 0}
            listed = ", ".join(f"{name.replace('_', ' ')} {size:,}" for name, size in counts.items())
            return f"{value.get('model', '')}  {listed}".strip()
        case _:
            return " · ".join(filter(None, (str(value.get("reason", value)), cost)))
