"""Draws the curve of decision 15 and writes its tables, from what `refold eval cost DATA --json` wrote.

python scripts/plot_cost.py [bench/results/cost.json] [docs/decisions/0015-when-to-fold.md]
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from refold import presets

BEGIN, END = "<!-- written by scripts/plot_cost.py -->", "<!-- end -->"
ROOT: Final = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 300, 56, 16, 150, 44
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")


def curves(row: Mapping[str, Any]) -> dict[int, list[tuple[int, float, bool]]]:
    """By target: where folding starts, the cost against none, and whether nothing became dearer."""
    found: dict[int, list[tuple[int, float, bool]]] = {}
    for each in row["curve"]:
        knobs = each["knobs"]
        if "history_tokens" in knobs:
            point = (knobs["history_tokens"], each["against_none"], each["never_dearer"])
            found.setdefault(knobs["target_tokens"], []).append(point)
    return {target: sorted(line) for target, line in sorted(found.items())}


def svg(row: Mapping[str, Any], ring: tuple[int, float]) -> str:
    """The curves of one row, with `thrifty` marked."""
    lines = curves(row)
    points = [point for line in lines.values() for point in line]
    left, right = min(p[0] for p in points), max(p[0] for p in points)
    low = min(0.0, *(p[1] for p in points)) * 1.1

    def place(history: float, cost: float) -> tuple[str, str]:
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return (
            f"{LEFT + (history - left) / (right - left) * wide:.1f}",
            f"{TOP + cost / low * high:.1f}",
        )

    style = "text{font:12px sans-serif;fill:#444}.axis{stroke:#999}"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"><style>{style}</style>']
    parts.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>')
    parts += _axes(place, left, right, low)
    for number, (target, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        spots = [(*place(history, cost), good) for history, cost, good in line]
        path = " ".join(f"{x},{y}" for x, y, _ in spots)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for x, y, good in spots:
            fill = colour if good else "#fff"
            parts.append(f'<circle cx="{x}" cy="{y}" r="3.5" fill="{fill}" stroke="{colour}"/>')
        at = TOP + 14 + number * 18
        parts.append(f'<text x="{WIDTH - RIGHT + 14}" y="{at}" style="fill:{colour}">to {target:,}</text>')
    x, y = place(*ring)
    parts.append(f'<circle cx="{x}" cy="{y}" r="8" fill="none" stroke="#000"/>')
    note = TOP + 14 + len(lines) * 18
    parts.append(f'<text x="{WIDTH - RIGHT + 14}" y="{note}">ring: thrifty</text>')
    parts.append(f'<text x="{WIDTH - RIGHT + 14}" y="{note + 18}">filled: never dearer</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axes(place: Any, left: int, right: int, low: float) -> Sequence[str]:
    parts = []
    for cost in [round(-step / 10, 1) for step in range(int(-low * 10) + 1)]:
        x, y = place(left, cost)
        parts.append(
            f'<line class="axis" x1="{x}" x2="{place(right, cost)[0]}" y1="{y}" y2="{y}" stroke-width=".4"/>'
        )
        parts.append(f'<text x="{LEFT - 6}" y="{y}" dy="4" text-anchor="end">{cost:+.0%}</text>')
    for history in range(left, right + 1, 16_000):
        x, y = place(history, low)
        parts.append(f'<text x="{x}" y="{HEIGHT - 26}" text-anchor="middle">{history // 1000}k</text>')
    middle = (WIDTH - RIGHT + LEFT) // 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">history at which it is folded</text>'
    )
    return parts


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the default, thrifty, the best and the cheapest come to, at Anthropic's prices."""
    heads = "data, summaries, none, default, thrifty, best never dearer, cheapest, thrifty to best"
    lines = [f"| {heads.replace(', ', ' | ')} |", "|---" * 8 + "|"]
    for row in rows:
        if row["price"] == "anthropic":
            how = "no model" if row["summaries"] == "passed over" else "expected length"
            cells = [_cell(row[name]) for name in ("default", "thrifty", "best", "cheapest")]
            cells = [row["kind"], how, f"${row['none']:.2f}", *cells, f"{row['gap']:+.1%}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(each: Mapping[str, Any]) -> str:
    facts = "" if each["facts"] is None else f", facts {each['facts']:.0%}"
    dearer = f", {each['dearer']} dearer (worst {each['worst'] - 1:+.0%})" if each["dearer"] else ""
    knobs = each["knobs"]
    sizes = [knobs.get(name) for name in ("history_tokens", "target_tokens")]
    what = "; " + " / ".join(f"{size / 1000:g}k" for size in sizes) if all(sizes) else ""
    return f"{each['against_none']:+.1%}{facts}{dearer}{what}"


def main(source: Path, target: Path) -> None:
    """Draw the row over all data at Anthropic's prices without a model, and write the table of all rows."""
    rows = json.loads(source.read_text(encoding="utf-8"))["rows"]
    row = next(
        row
        for row in rows
        if (row["kind"], row["price"], row["summaries"]) == ("all", "anthropic", "passed over")
    )
    ring = (presets.THRIFTY["history_tokens"], row["thrifty"]["against_none"])
    target.with_suffix(".svg").write_text(svg(row, ring), encoding="utf-8")
    text = target.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    target.write_text(f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:]]
    main(
        given[0] if given else ROOT / "bench" / "results" / "cost.json",
        given[1] if len(given) > 1 else ROOT / "docs" / "decisions" / "0015-when-to-fold.md",
    )
