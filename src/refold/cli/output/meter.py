"""The bar that shows how full a window is; draws, and decides nothing."""

from dataclasses import dataclass
from typing import Final

from refold.cli.output.screen import Screen, Style
from refold.core.compaction.budget import Budget, Level

COLOURS: Final[dict[Level, Style]] = {
    "none": "green",
    "notice": "cyan",
    "warning": "yellow",
    "critical": "red",
}
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class _Ink:
    """The characters of a bar."""

    full: str
    free: str
    reserve: str
    line: str
    left: str = ""
    right: str = ""


_FANCY: Final = _Ink("█", "·", "░", "│")
_ASCII: Final = _Ink("#", ".", "-", "|", "[", "]")


def bar(budget: Budget, width: int, screen: Screen) -> str:
    """Return the window as a bar: used, free, the mark where compaction starts, the reserve."""
    ink = _FANCY if screen.fancy else _ASCII
    cells = width - len(ink.left) - len(ink.right)
    room = _cell(budget.room, budget.window, cells)
    drawn = list(ink.free * room + ink.reserve * (cells - room))
    used = _fill(drawn, budget.used / budget.window * cells, ink)
    mark = marker(budget, width, screen)
    if mark is not None:
        drawn[mark - len(ink.left)] = ink.line
    filled = screen.paint("".join(drawn[:used]), COLOURS[budget.level])
    return f"{ink.left}{filled}{screen.paint(''.join(drawn[used:]), 'dim')}{ink.right}"


def marker(budget: Budget, width: int, screen: Screen) -> int | None:
    """Return the column of the mark where compaction starts; None if it never starts by itself."""
    if budget.trigger_tokens is None:
        return None
    ink = _FANCY if screen.fancy else _ASCII
    cells = width - len(ink.left) - len(ink.right)
    return len(ink.left) + min(cells - 1, _cell(budget.trigger_tokens, budget.window, cells))


def strip(part: float, total: float, width: int, screen: Screen) -> str:
    """Return a share as a strip without a frame; anything above zero is visible."""
    if part <= 0 or total <= 0:
        return ""
    drawn = [" "] * width
    _fill(drawn, max(part / total * width, 1 / 8), _FANCY if screen.fancy else _ASCII)
    return "".join(drawn).rstrip()


def _fill(drawn: list[str], cells: float, ink: _Ink) -> int:
    """Fill the first cells, the last one in eighths if the screen can; returns how many are touched."""
    full = min(int(cells), len(drawn))
    drawn[:full] = ink.full * full
    part = int((cells - int(cells)) * 8)
    if full == len(drawn) or ink is _ASCII or not part:
        return full
    drawn[full] = _EIGHTHS[part]
    return full + 1


def _cell(tokens: int, window: int, cells: int) -> int:
    return min(cells, round(tokens / window * cells))
