"""Line plots as SVG, both axes logarithmic; the standard library alone, no style that a page could break."""

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final

COLOURS: Final = (
    "#0b6e99",
    "#b5542a",
    "#3f7f3f",
    "#7a4fa3",
    "#a08000",
    "#c2437a",
    "#4d6a7c",
    "#8a5a44",
    "#2f8f83",
    "#666666",
)
WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 230, 36, 48


def plot(
    title: str, lines: Mapping[str, Sequence[tuple[float, float]]], *, across: str, up: str, first: str = ""
) -> str:
    """One plot of several lines, each a row of points; the line named `first` is drawn bold."""
    points = [point for row in lines.values() for point in row if point[0] > 0 and point[1] > 0]
    if not points:
        return ""
    axes = _Axes([x for x, _ in points], [y for _, y in points])
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
            f' aria-label="{escape(title)}" font-family="sans-serif" font-size="12">'
        ),
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="14" font-weight="bold">{escape(title)}</text>',
        *axes.drawn(across, up),
    ]
    ends = _apart({name: axes.y(row[-1][1]) for name, row in lines.items() if row})
    for number, (name, row) in enumerate(lines.items()):
        if not row:
            continue
        colour, width = COLOURS[number % len(COLOURS)], 3 if name == first else 1.5
        path = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in row)
        weight = ' font-weight="bold"' if name == first else ""
        end = axes.x(row[-1][0])
        parts += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>',
            *(
                f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="{width}" fill="{colour}"/>'
                for x, y in row
            ),
            (
                f'<line x1="{end:.1f}" y1="{axes.y(row[-1][1]):.1f}" x2="{WIDTH - RIGHT + 8}"'
                f' y2="{ends[name]:.1f}"'
                f' stroke="{colour}" stroke-width="0.5"/>'
            ),
            (
                f'<text x="{WIDTH - RIGHT + 12}" y="{ends[name] + 4:.1f}"'
                f' fill="{colour}"{weight}>{escape(name)}</text>'
            ),
        ]
    return "\n".join([*parts, "</svg>", ""])


class _Axes:
    """Where a value stands on the paper."""

    def __init__(self, across: Sequence[float], up: Sequence[float]) -> None:
        self.x0, self.x1 = log10(min(across)), max(log10(max(across)), log10(min(across)) + 0.1)
        self.y0, self.y1 = floor(log10(min(up))), max(ceil(log10(max(up))), floor(log10(min(up))) + 1)
        self.marks = sorted(set(across))

    def x(self, value: float) -> float:
        """From the left."""
        return LEFT + (log10(value) - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """From the top."""
        return HEIGHT - BOTTOM - (log10(value) - self.y0) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)

    def drawn(self, across: str, up: str) -> list[str]:
        """The grid with its numbers and words."""
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        parts = []
        for power in range(self.y0, self.y1 + 1):
            at = self.y(10**power)
            parts += [
                f'<line x1="{LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="#dddddd"/>',
                f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10**power:g}</text>',
            ]
        for value in self.marks:
            at = self.x(value)
            parts += [
                f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{bottom}" stroke="#eeeeee"/>',
                f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{value:,.0f}</text>',
            ]
        middle = (TOP + bottom) / 2
        return [
            *parts,
            f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across)}</text>',
            (
                f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14'
                f' {middle})">{escape(up)}</text>'
            ),
        ]


def _apart(wanted: Mapping[str, float], gap: float = 15) -> dict[str, float]:
    """Places for names beside their lines so that no two stand on each other."""
    placed: dict[str, float] = {}
    last = TOP - gap
    for name, at in sorted(wanted.items(), key=lambda pair: pair[1]):
        last = max(at, last + gap)
        placed[name] = last
    over = last - (HEIGHT - BOTTOM + 20)
    return {name: at - max(0.0, over) for name, at in placed.items()}
