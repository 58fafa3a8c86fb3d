"""Pictures as SVG text, by the standard library alone: a light panel that reads on light and dark pages."""

from collections.abc import Sequence
from html import escape
from typing import Final

INK: Final = "#1f2933"
DIM: Final = "#64748b"
GRID: Final = "#e2e8f0"
COLOURS: Final = {
    "system": "#475569",
    "user": "#0f766e",
    "assistant": "#2563eb",
    "call": "#93c5fd",
    "tool": "#f59e0b",
    "summary": "#7c3aed",
    "good": "#0f766e",
    "bad": "#b91c1c",
    "other": "#94a3b8",
    "third": "#2563eb",
}
WIDTH: Final = 760
FONT: Final = 'font-family="system-ui,Segoe UI,Helvetica,Arial,sans-serif"'


class Picture:
    """A panel of one size that shapes are added to; `svg` gives the file."""

    def __init__(self, title: str, height: int) -> None:
        self.title = title
        self.height = height
        self.parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, colour: str, *, tip: str = "") -> None:
        """Add a filled rectangle; `tip` is shown by a browser under the pointer."""
        inside = f"<title>{escape(tip)}</title>" if tip else ""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}" rx="1.5"'
            f' fill="{colour}">{inside}</rect>'
        )

    def line(
        self, points: Sequence[tuple[float, float]], colour: str, width: float = 2, dash: str = ""
    ) -> None:
        """Add a line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}'
            ' stroke-linejoin="round"/>'
        )

    def dot(self, x: float, y: float, colour: str, radius: float = 4) -> None:
        """Add a filled circle."""
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: int = 12,
        colour: str = INK,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """Add one line of text; `anchor` is start, middle or end."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
            f"{weight}>{escape(text)}</text>"
        )

    def legend(self, x: float, y: float, entries: Sequence[tuple[str, str]]) -> None:
        """Add coloured squares with their meaning, in one row."""
        for name, colour in entries:
            self.box(x, y - 9, 10, 10, colour)
            self.text(x + 15, y, name, colour=DIM)
            x += 15 + 6.6 * len(name) + 18

    def svg(self) -> str:
        """Return the whole picture."""
        size = f'viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}"'
        title = escape(self.title)
        panel = f'width="{WIDTH - 1}" height="{self.height - 1}" rx="8" fill="#ffffff" stroke="{GRID}"'
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}" {FONT}>',
                f"<title>{title}</title>",
                f'<rect x="0.5" y="0.5" {panel}/>',
                *self.parts,
                "</svg>\n",
            )
        )


class Axes:
    """A plot area inside a picture, both axes from zero and linear."""

    def __init__(
        self, picture: Picture, corners: tuple[float, float, float, float], most: tuple[float, float]
    ) -> None:
        self.picture = picture
        self.left, self.top, self.right, self.bottom = corners
        self.most = most

    def x(self, value: float) -> float:
        """Return where a value stands from left to right."""
        return self.left + value / self.most[0] * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return where a value stands from top to bottom."""
        return self.bottom - value / self.most[1] * (self.bottom - self.top)

    def draw(self, across: Sequence[tuple[float, str]], up: Sequence[tuple[float, str]], name: str) -> None:
        """Draw the grid, its numbers and the name of the axis from left to right."""
        for value, label in up:
            self.picture.line([(self.left, self.y(value)), (self.right, self.y(value))], GRID, 1)
            self.picture.text(self.left - 8, self.y(value) + 4, label, size=11, colour=DIM, anchor="end")
        for value, label in across:
            self.picture.text(self.x(value), self.bottom + 18, label, size=11, colour=DIM, anchor="middle")
        self.picture.text(self.right, self.bottom + 34, name, size=11, colour=DIM, anchor="end")

    def plot(self, points: Sequence[tuple[float, float]], colour: str, width: float = 2) -> None:
        """Draw a line through values."""
        self.picture.line([(self.x(x), self.y(y)) for x, y in points], colour, width)
