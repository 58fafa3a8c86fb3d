"""HTML with which results show themselves in a notebook: a meter and tables. Every text is escaped.

Style is inline and uses the notebook's own text colour, so that it reads on a dark and on a light page.
Knows no result: each gives its own title, numbers and rows.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

MOST_ROWS: Final = 20
"""Rows of a table that are shown; more would push the next cell off the screen."""

_COLOURS: Final = {"none": "#2e7d32", "notice": "#9e9d24", "warning": "#ef6c00", "critical": "#c62828"}
"""A colour for each level; the level also stands there as a word, for people who see no colours."""
_CELL: Final = "style='text-align:left;padding:1px 10px 1px 0;vertical-align:top'"


def escape(text: str) -> str:
    """Return a text that holds no markup."""
    import html  # 12 ms to load, and a program outside a notebook never asks

    return html.escape(text)


def card(title: str, *parts: str) -> str:
    """Return one block with a title; the parts are HTML already, the title is text."""
    return f"<div style='font-family:sans-serif'><b>{escape(title)}</b>{''.join(parts)}</div>"


def line(text: str) -> str:
    """Return a line of text."""
    return f"<div>{escape(text)}</div>"


def meter(used: int, room: int, level: str) -> str:
    """Return a bar that is as full as the room, with the numbers beside it."""
    share = used / room if room > 0 else 1.0
    width = round(100 * min(1.0, max(0.0, share)))
    colour = _COLOURS.get(level, _COLOURS["none"])
    words = f"{used:,} of {room:,} tokens, {share:.0%}" + ("" if level == "none" else f", {level}")
    bar = f"<div style='width:{width}%;height:8px;background:{colour}'></div>"
    frame = "width:320px;border:1px solid currentColor;border-radius:3px;overflow:hidden"
    return f"<div style='{frame}' title='{escape(words)}'>{bar}</div>{line(words)}"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table of texts and numbers; what is over the limit of rows is only counted."""
    listed = list(rows)
    if not listed:
        return ""
    titles = "".join(f"<th {_CELL}>{escape(title)}</th>" for title in head)
    cells = (
        "".join(
            f"<td {_CELL}>{escape(f'{cell:,}' if isinstance(cell, int) else str(cell))}</td>" for cell in row
        )
        for row in listed[:MOST_ROWS]
    )
    more = line(f"and {len(listed) - MOST_ROWS:,} more") if len(listed) > MOST_ROWS else ""
    return f"<table><tr>{titles}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>{more}"
