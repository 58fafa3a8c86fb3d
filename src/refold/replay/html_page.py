"""Render a replay as one HTML page: tables and SVG plots, no script, nothing fetched, all text escaped."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, Final

from refold.replay.results import PlayedFold, Run

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 860, 260, 64, 28, 10
COLOURS: Final = ("#777777", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""A palette for colour-blind readers (Okabe and Ito); grey is for no compaction."""
DASHES: Final = ("5 4", "", "", "", "2 2", "8 3", "4 2")
STYLE: Final = """\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child, td.word { text-align: left; }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.grid { stroke: #8885; } .limit { stroke: #c00; stroke-dasharray: 3 3; } caption { text-align: left; }
p.note { opacity: .75; }
.key { display: inline-block; width: 1.4rem; height: .25rem; vertical-align: middle; }
"""


def render_page(runs: Sequence[Run], about: Mapping[str, Any]) -> str:
    """Return the page of some runs."""
    title = escape(f"Replay of {about.get('file', 'a conversation')}")
    facts = [
        f"{key.replace('_', ' ')}: {value}" for key, value in about.items() if value not in (None, "", 0)
    ]
    parts = [f"<h1>{title}</h1>", f"<p>{escape(' · '.join(facts))}</p>"]
    for window, group in groupby(runs, key=lambda run: run.window):
        same_window = list(group)
        parts += [
            f"<h2>Window {window:,}</h2>",
            _render_totals(same_window),
            draw_tokens(same_window, window),
            _draw_dollars(same_window),
        ]
        parts += [_render_folds(run) for run in same_window if run.folds]
    models = sorted({run.model for run in runs if run.model})
    note = (
        f"Summaries: {', '.join(models) or 'none'}. Dots are folds. "
        "Came: turns until the next fold or the end. "
        "Facts kept: names and values that the model uses again and that were still in its view."
    )
    parts.append(f'<p class="note">{escape(note)}</p>')
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return f"<!doctype html>\n<html lang=en><head>{head}<style>{STYLE}</style></head>\n<body>\n" + (
        "\n".join(parts) + "\n</body></html>\n"
    )


def draw_tokens(runs: Sequence[Run], window: int | None) -> str:
    """Draw the size of each request under each policy."""
    lines = [[float(turn.tokens) for turn in run.turns] for run in runs]
    folds = [[fold.turn - 1 for fold in run.folds] for run in runs]
    return _draw_lines("tokens of each request", lines, folds, limit=window)


def _draw_dollars(runs: Sequence[Run]) -> str:
    """Draw the dollars spent up to each request, if prices are known."""
    if runs[0].price is None:
        return ""
    lines = []
    for run in runs:
        calls = {fold.turn: fold.calls.dollars or 0.0 for fold in run.folds}
        spent, line = 0.0, []
        for turn in run.turns:
            spent += (turn.dollars or 0.0) + calls.get(turn.number, 0.0)
            line.append(spent)
        lines.append(line)
    return _draw_lines("dollars spent so far", lines, [[] for _ in runs])


def _draw_lines(
    title: str, lines: Sequence[Sequence[float]], folds: Sequence[Sequence[int]], limit: float | None = None
) -> str:
    most = max((max(line, default=0) for line in lines), default=0) or 1
    top = most * 1.05
    count = max((len(line) for line in lines), default=1)
    wide, high = _WIDTH - _LEFT - 10, _HEIGHT - _BOTTOM - _TOP

    def x(place: float) -> str:
        return f"{_LEFT + place / max(1, count - 1) * wide:.1f}"

    def y(value: float) -> str:
        return f"{_TOP + (1 - value / top) * high:.1f}"

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">']
    for share in (0, 0.25, 0.5, 0.75, 1):
        at, word = y(most * share), _format_number(most * share)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{at}" text-anchor="end" dy="4">{word}</text>')
    if limit is not None and limit <= top:
        parts.append(f'<line class="limit" x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y(limit)}" y2="{y(limit)}"/>')
    for number, line in enumerate(lines):
        look = f'stroke="{COLOURS[number % len(COLOURS)]}" stroke-dasharray="{DASHES[number % len(DASHES)]}"'
        points = " ".join(f"{x(place)},{y(value)}" for place, value in enumerate(line))
        parts.append(f'<polyline points="{points}" fill="none" stroke-width="1.6" {look}/>')
        fill = COLOURS[number % len(COLOURS)]
        parts += [f'<circle cx="{x(at)}" cy="{y(line[at])}" r="3" fill="{fill}"/>' for at in folds[number]]
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 8}">request 1</text>')
    parts.append(f'<text x="{_WIDTH - 10}" y="{_HEIGHT - 8}" text-anchor="end">{count}</text>')
    return f"<figure>{''.join(parts)}</svg><figcaption>{escape(title)}</figcaption></figure>"


def _format_number(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"


def _render_totals(runs: Sequence[Run]) -> str:
    names = (
        "policy",
        "tokens sent",
        "cache read",
        "written or fresh",
        "dollars",
        "against none",
        "folds",
        "paid",
    )
    rows = [_total_cells(number, run, runs[0]) for number, run in enumerate(runs)]
    return _render_table((*names, "facts kept", "largest request"), rows)


def _total_cells(number: int, run: Run, none: Run) -> list[str]:
    key = f'<span class="key" style="background:{COLOURS[number % len(COLOURS)]}"></span> '
    written = run.cache_write + sum(turn.fresh for turn in run.turns)
    than = "" if not run.dollars or not none.dollars else f"{run.dollars / none.dollars - 1:+.1%}"
    return [
        key + escape(run.policy),
        f"{run.sent:,}",
        f"{run.cache_read:,}",
        f"{written:,}",
        "" if run.dollars is None else f"{run.dollars:,.4f}",
        than,
        f"{len(run.folds):,}",
        f"{run.paid:,}" if run.price else "",
        "" if run.facts is None else f"{run.facts:.0%}",
        f"{run.peak:,}" + (" (over the window)" if run.over else ""),
    ]


def _render_folds(run: Run) -> str:
    names = (
        "turn",
        "tokens before",
        "after",
        "dollars",
        "pays after turns",
        "came",
        "paid",
        "facts",
        "stages",
    )
    caption = f"<caption>Folds of {escape(run.policy)}</caption>"
    return _render_table(names, [_fold_cells(fold) for fold in run.folds], caption)


def _fold_cells(fold: PlayedFold) -> list[str]:
    return [
        f"{fold.turn:,}",
        f"{fold.tokens_before:,}",
        f"{fold.tokens_after:,}",
        "" if fold.dollars is None else f"{fold.dollars:,.4f}",
        "" if fold.turns_needed is None else f"{fold.turns_needed:,.1f}",
        f"{fold.turns_came:,}",
        "" if fold.paid is None else "yes" if fold.paid else "no",
        f"{fold.kept} of {fold.reused}" if fold.reused else "",
        escape(", ".join(fold.stages)),
    ]


def _render_table(names: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
