"""Draws the README's picture: real commands run on a pseudo-terminal, their output as SVG.

python scripts/make_picture.py docs/demo.svg
"""

import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from html import escape
from pathlib import Path
from typing import Final

COLUMNS: Final = 100
LINE: Final = 19
CHARACTER: Final = 8.4
COLOURS: Final = {
    "30": "#6e7681", "31": "#ff7b72", "32": "#7ee787", "33": "#f2cc60", "34": "#79c0ff", "35": "#d2a8ff",
    "36": "#76e3ea", "37": "#e6edf3", "90": "#8b949e", "91": "#ffa198", "92": "#7ee787", "93": "#f2cc60",
    "94": "#79c0ff", "95": "#d2a8ff", "96": "#76e3ea", "97": "#ffffff",
}  # fmt: skip
EXAMPLE: Final = "examples/long-agent-session.json"
COMMANDS: Final = (
    f"refold measure {EXAMPLE} --window 32k",
    f"refold plan {EXAMPLE} --window 32k --model gpt-4o",
)


def run(command: str) -> str:
    """What a command prints on a terminal of our width."""
    leader, follower = pty.openpty()
    ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "COLUMNS": str(COLUMNS)}
    env.pop("NO_COLOR", None)
    argv = [sys.executable, "-m", "refold.cli", *command.split()[1:]]
    with subprocess.Popen(argv, stdout=follower, stderr=follower, env=env, stdin=subprocess.DEVNULL):
        os.close(follower)
        said = b""
        while True:
            try:
                block = os.read(leader, 65_536)
            except OSError:  # the other end has closed
                break
            if not block:
                break
            said += block
    os.close(leader)
    return said.decode().replace("\r\n", "\n")


def line_svg(line: str, y: int) -> str:
    """One line of terminal output as SVG text."""
    spans: list[str] = []
    style = ""
    column = 0
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        code = re.fullmatch(r"\x1b\[([0-9;]*)m", piece)
        if code:
            style = styled(code[1], style)
        elif piece:
            x = 20 + column * CHARACTER
            spans.append(f'<tspan x="{x:.1f}"{style} xml:space="preserve">{escape(piece)}</tspan>')
            column += len(piece)
    return f'<text y="{y}">{"".join(spans)}</text>'


def styled(codes: str, before: str) -> str:
    """The attributes after a sequence of codes."""
    style = before
    for code in codes.split(";") if codes else ["0"]:
        if code in {"", "0"}:
            style = ""
        elif code == "1":
            style += ' font-weight="bold"'
        elif code == "2":
            style += ' opacity="0.65"'
        elif code in COLOURS:
            style = re.sub(r' fill="[^"]*"', "", style) + f' fill="{COLOURS[code]}"'
    return style


def picture() -> str:
    """The whole terminal as SVG."""
    lines: list[str] = []
    for command in COMMANDS:
        lines += [f"\x1b[92m$\x1b[0m \x1b[1m{command}\x1b[0m", *run(command).rstrip("\n").split("\n"), ""]
    height = 56 + LINE * len(lines)
    width = 40 + int(COLUMNS * CHARACTER)
    rows = "\n".join(line_svg(line, 52 + LINE * number) for number, line in enumerate(lines))
    dots = "".join(
        f'<circle cx="{22 + 18 * n}" cy="18" r="6" fill="{colour}"/>'
        for n, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">\n'
        f'<rect width="100%" height="100%" rx="10" fill="#0d1117"/>{dots}\n'
        '<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="#e6edf3">\n'
        f"{rows}\n</g>\n</svg>\n"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(), encoding="utf-8")
