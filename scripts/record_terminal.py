"""Record `refold demo` on a pseudo-terminal and draw the recording as an animated SVG; make_pictures.py does.

A terminal emulator replays the bytes. Every line of the screen becomes one text, shown for as long as it was
on the screen. The animation begins with the last screen, so that a viewer that shows only the first frame
shows the result. A viewer without animation, or without style sheets, shows the last screen too.
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
from typing import Any, Final

import pyte

COLUMNS: Final = 100
ROWS: Final = 30
LINE: Final = 19
CHARACTER: Final = 8.4
MIN_SECONDS: Final = 0.35
"""The shortest time a screen is shown; a shorter one is not seen."""
LEAD_SECONDS: Final = 2.0
"""How long the last screen is shown first, as a title."""
REST_SECONDS: Final = 8.0
"""How long the last screen is shown at the end, before the animation repeats."""
COMMAND: Final = ("demo",)
COLOURS: Final = {
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#f2cc60",
    "cyan": "#76e3ea",
    "default": "#e6edf3",
}


@dataclass(frozen=True, slots=True)
class TimedLine:
    """A line of the screen, and when it is shown."""

    row: int
    line: str
    start: float
    end: float


def record_command() -> Iterator[tuple[float, bytes]]:
    """Yield what the command prints on a terminal of our size, with the second at which it came."""
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


def record_screens() -> list[tuple[float, list[str]]]:
    """Return the screens, each with the second at which it is shown; the last one is also the first."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    stream.feed(f"\x1b[1m$ refold {' '.join(COMMAND)}\x1b[0m\r\n".encode())
    screens: list[tuple[float, list[str]]] = [(LEAD_SECONDS, draw_lines(screen))]
    for at, block in record_command():
        stream.feed(block)
        if LEAD_SECONDS + at - screens[-1][0] >= MIN_SECONDS:
            screens.append((LEAD_SECONDS + at, draw_lines(screen)))
    last = draw_lines(screen)
    return [(0.0, last), *screens, (screens[-1][0] + MIN_SECONDS, last)]


def draw_lines(screen: pyte.Screen) -> list[str]:
    """Return every line of the screen as the inside of an SVG text."""
    return [draw_line(screen.buffer[row]) for row in range(ROWS)]


def draw_line(cells: Any) -> str:
    """Return one line as the inside of an SVG text: one tspan for each run of one style."""
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


def time_lines(screens: list[tuple[float, list[str]]], whole: float) -> list[TimedLine]:
    """Return every line with the time during which it is shown."""
    lines: list[TimedLine] = []
    for row in range(ROWS):
        line, since = "", 0.0
        for at, screen in [*screens, (whole, [""] * ROWS)]:
            if screen[row] != line:
                if line:
                    lines.append(TimedLine(row, line, since, at))
                line, since = screen[row], at
    return lines


def draw_svg(lines: list[TimedLine], whole: float) -> str:
    """Return the recording as one picture."""
    width, height = round(COLUMNS * CHARACTER) + 40, ROWS * LINE + 40
    rules, texts = [], []
    for number, one in enumerate(lines):
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
        hidden = "" if lasting else ' opacity="0"'  # for viewers that read no style sheet
        texts.append(f'<text class="k{number}"{hidden} x="20" y="{y}" xml:space="preserve">{one.line}</text>')
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


def record() -> str:
    """Return the recording of the demo as an SVG."""
    screens = record_screens()
    whole = screens[-1][0] + REST_SECONDS
    return draw_svg(time_lines(screens, whole), whole)
