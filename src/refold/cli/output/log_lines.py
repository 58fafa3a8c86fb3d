"""The entries of a log, a line for each: what kind it is, its name, when it was made, and what it says."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.cli.input import stored
from refold.cli.output import costs, format_message
from refold.cli.output.screen import Screen, Style
from refold.core.log.entries import MARKS, Entry, Kind
from refold.core.log.view import Run, View
from refold.core.models.prices import Spent

VIEW: Final[frozenset[Kind]] = MARKS - {"usage", "attempt"}
"""The kinds that make a view."""
_COLOURS: Final[Mapping[Kind, Style]] = {
    "fold": "yellow",
    "unfold": "yellow",
    "checkpoint": "cyan",
    "pin": "cyan",
    "attempt": "red",
}
_WHEN: Final = len("59 minutes ago")


def line(entry: Entry, view: View, screen: Screen) -> str:
    """One entry in a line; a log is long, so every line stands for itself."""
    head = f"{stored.short(entry.name)}  {stored.ago(entry.at):<{_WHEN}}  "
    kind = f"{entry.kind:<10}"
    whole = entry.kind != "said" and not screen.live  # other programs get all of it
    room = 2_000 if whole else max(20, screen.width - len(head) - len(kind) - 2)
    said = screen.short(_told(entry, view), room)
    return (
        f"{screen.paint(head, 'dim')}{screen.paint(kind, _COLOURS.get(entry.kind, 'plain'))}  {said}".rstrip()
    )


def data(entry: Entry) -> dict[str, Any]:
    """An entry with every field, its JSON texts as values."""
    return {
        "kind": entry.kind,
        "name": entry.name,
        "parent": entry.parent,
        "said": entry.said,
        "at": entry.at,
        "value": entry.value,
        "about": dict(entry.beside),
    }


def span_of(name: str, view: View) -> str:
    """The messages that a fold took, from the first to the last; empty where there are none."""
    fold = view.fold(name)
    changes = fold.changes if fold else ()
    runs = [run for change in changes for piece in change.took for run in view.originals(piece)]
    return span(runs)


def span(runs: Sequence[Run]) -> str:
    """From the first to the last of some messages."""
    if not runs:
        return ""
    first, last = min(run.first for run in runs), max(run.last for run in runs)
    return f"#{first}" if first == last else f"#{first}-#{last}"


def _told(entry: Entry, view: View) -> str:
    if entry.kind == "said":
        message = format_message.read(entry)
        return f"#{entry.said} {message.role}  {format_message.start(message)}"
    value = entry.value
    if not isinstance(value, Mapping):
        count = len(value) if isinstance(value, list) else 1
        return f"{count} message{'s' * (count != 1)} from #{entry.said + 1} on"
    return _mark(entry, value, view)


def _mark(entry: Entry, value: Mapping[str, Any], view: View) -> str:
    match entry.kind:
        case "fold":
            sizes = f"{int(value.get('before', 0)):,} → {int(value.get('after', 0)):,} tokens"
            fold = view.fold(entry.name)
            undone = "" if fold is None or fold.standing else "unfolded"
            stages = ", ".join(map(str, value.get("stages", ())))
            parts = (span_of(entry.name, view), undone, sizes, stages or str(value.get("trigger", "")))
            return " · ".join(part for part in (*parts, _cost(entry)) if part)
        case "unfold":
            return stored.short(str(value.get("fold", "")))
        case "checkpoint":
            return f"{value.get('name', '')} at #{value.get('said', entry.said)}"
        case "pin":
            return f"#{value.get('said', '?')} {'pinned' if value.get('pinned') else 'no longer pinned'}"
        case "usage":
            counts = [f"{name.replace('_', ' ')} {size:,}" for name, size in value.items() if _counts(size)]
            return f"{value.get('model', '')}  {', '.join(counts)}".strip()
        case _:
            return " · ".join(part for part in (str(value.get("reason", value)), _cost(entry)) if part)


def _cost(entry: Entry) -> str:
    return costs.told(Spent.read(entry.beside.get("spent")))


def _counts(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size > 0
