"""Records `refold demo` on a pseudo-terminal and draws the recording as a moving SVG for the README.

python scripts/make_picture.py docs/demo.svg

The picture is what the program printed, when it printed it: a terminal emulator replays the bytes, and every
line of the screen becomes a text that is shown for as long as it stood there. Where motion is not wanted the
last screen stands still.
"""

import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fcntl import ioctl
from html import escape
from pathlib import Path
from typing import Any, Final

import pyte

COLUMNS: Final = 100
ROWS: Final = 30
LINE: Final = 19
CHARACTER: Final = 8.4
LEAST: Final = 0.35
"""Seconds a screen stands at the least; what changes faster is not seen."""
REST: Final = 8.0
"""Seconds the last screen stands before the picture begins anew."""
COMMAND: Final = ("demo",)
COLOURS: Final = {
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#f2cc60",
    "cyan": "#76e3ea",
    "default": "#e6edf3",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A line of the screen, and from when to when it stood there."""

    row: int
    line: str
    start: float
    end: float


def recorded() -> Iterator[tuple[float, bytes]]:
    """What the command prints on a terminal of our size, and when."""
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "COLUMNS": str(COLUMNS)}
    env.pop("NO_COLOR", None)
    argv = [sys.executable, "-m", "refold.cli", *COMMAND]
    start = time.monotonic()
    with subprocess.Popen(argv, stdout=follower, stderr=follower, env=env, stdin=subprocess.DEVNULL):
        os.close(follower)
        while True:
            try:
                block = os.read(leader, 65_536)
            except OSError:  # the other end has closed
                break
            if not block:
                break
            yield time.monotonic() - start, block
    os.close(leader)


def screens() -> list[tuple[float, list[str]]]:
    """The screens one after the other, each with the second at which it came."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    stream.feed(f"\x1b[1m$ refold {' '.join(COMMAND)}\x1b[0m\r\n".encode())
    found: list[tuple[float, list[str]]] = [(0.0, _lines(screen))]
    for at, block in recorded():
        stream.feed(block)
        if at - found[-1][0] >= LEAST:
            found.append((at, _lines(screen)))
    found.append((found[-1][0] + LEAST, _lines(screen)))
    return found


def _lines(screen: pyte.Screen) -> list[str]:
    return [_line(screen.buffer[row]) for row in range(ROWS)]


def _line(cells: Any) -> str:
    """One line of the screen as the inside of an SVG text: runs of one style."""
    runs: list[tuple[str, str]] = []
    for column in range(COLUMNS):
        cell = cells[column]
        style = f'fill="{COLOURS.get(cell.fg, COLOURS["default"])}"' + ' font-weight="bold"' * cell.bold
        if runs and runs[-1][0] == style:
            runs[-1] = (style, runs[-1][1] + cell.data)
        else:
            runs.append((style, cell.data))
    while runs and not runs[-1][1].strip():
        runs.pop()
    return "".join(f"<tspan {style}>{escape(text)}</tspan>" for style, text in runs)


def stood(found: list[tuple[float, list[str]]]) -> list[Shown]:
    """Every line, and for how long it stood."""
    whole = found[-1][0] + REST
    done: list[Shown] = []
    for row in range(ROWS):
        line, since = "", 0.0
        for at, screen in [*found, (whole, [""] * ROWS)]:
            if screen[row] != line:
                if line:
                    done.append(Shown(row, line, since, at))
                line, since = screen[row], at
    return done


def svg(shown: list[Shown], whole: float) -> str:
    """The recording as one picture."""
    width, height = round(COLUMNS * CHARACTER) + 40, ROWS * LINE + 40
    rules, texts = [], []
    for number, one in enumerate(shown):
        first, last = one.start / whole * 100, one.end / whole * 100
        lasting = one.end >= whole
        if first > 0 or not lasting:
            frames = f"0%{{opacity:0}}{first:.2f}%{{opacity:1}}"
            frames += "" if lasting else f"{last:.2f}%{{opacity:0}}"
            rules.append(f"@keyframes k{number}{{{frames}}}")
            rules.append(
                f".k{number}{{animation:k{number} {whole:.1f}s step-end infinite;opacity:{+lasting}}}"
            )
        y = 36 + one.row * LINE
        texts.append(f'<text class="k{number}" x="20" y="{y}" xml:space="preserve">{one.line}</text>')
    still = "@media(prefers-reduced-motion:reduce){text{animation:none!important}}"
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
            "<title>refold demo: an agent's task in a small window, with folds, recall and undo</title>",
            f"<style>{''.join(rules)}{still}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            *texts,
            "</svg>\n",
        )
    )


def main() -> None:
    """Record and draw."""
    found = screens()
    Path(sys.argv[1]).write_text(svg(stood(found), found[-1][0] + REST), encoding="utf-8")


if __name__ == "__main__":
    main()
