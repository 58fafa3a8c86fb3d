"""Rank the lines of a diff: files, then hunks with their changes, context last."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Final

from refold.core.outputs.line_plan import LinePlan

_FILE: Final = re.compile(r"diff --git |diff -|Index: |\*\*\* (?:Add|Update|Delete) File: ")
_HEADER: Final = re.compile(r"diff --git |index [0-9a-f]{3,64}\.\.|--- |\+\+\+ ")
"""Lines around the one that names a file; they repeat its name."""
_OLD, _NEW, _HUNK = "--- ", "+++ ", "@@"


def rank_diff(lines: Sequence[str]) -> LinePlan:
    """Rank the lines of a diff in the unified format."""
    files = _find_files(lines)
    changed = [_is_change(lines, place) for place in range(len(lines))]
    hunks = [place for place, line in enumerate(lines) if _is_hunk(line)]
    first = next((place for place, line in enumerate(lines) if _FILE.match(line) or line.startswith(_OLD)), 0)
    order = chain(
        files,
        range(min(first, 3)),
        _rank_hunks(files, hunks, changed),
        _near(changed, 1),
        _near(changed, 2),
        _near(changed, 3),
        range(len(lines)),
    )
    named = frozenset(files)
    headers = (place for place, line in enumerate(lines) if not changed[place] and _HEADER.match(line))

    def describe(start: int, stop: int) -> str:
        added = sum(changed[place] and lines[place][0] == "+" for place in range(start, stop))
        removed = sum(changed[start:stop]) - added
        number = sum(place in named for place in range(start, stop))
        where = f" in {number} files" if number > 1 else ""
        return f"+{added} -{removed}{where}" if added or removed else ""

    return LinePlan(lines, order, describe, redundant=frozenset(headers) - named)


def is_diff(lines: Sequence[str]) -> bool:
    """True if lines are a diff."""
    has_hunk = "\n@@ " in "\n".join(("", *lines))
    return has_hunk and any(line.startswith((_NEW, "diff --git ", "*** ")) for line in lines)


def count_changes(lines: Sequence[str]) -> tuple[int, int, int]:
    """Return the numbers of files, of lines added and of lines removed."""
    changed = [line[0] for place, line in enumerate(lines) if _is_change(lines, place)]
    return len(_find_files(lines)), changed.count("+"), changed.count("-")


def _find_files(lines: Sequence[str]) -> list[int]:
    """Return one line for each file: the shortest that names it, `+++ b/path` where there is one."""
    files: list[int] = []
    for place, line in enumerate(lines):
        if _FILE.match(line):
            files.append(place)
        elif line.startswith(_NEW) and place and lines[place - 1].startswith(_OLD):
            named = place - 1 if line.startswith("+++ /dev/null") else place
            if files and not any(map(_is_hunk, lines[files[-1] : place])):
                files.pop()
            files.append(named)
    return files


def _is_hunk(line: str) -> bool:
    return line.startswith(_HUNK)


def _is_change(lines: Sequence[str], place: int) -> bool:
    line = lines[place]
    if not line.startswith(("+", "-")):
        return False
    if line.startswith(_OLD):
        return not (place + 1 < len(lines) and lines[place + 1].startswith(_NEW))
    return not (line.startswith(_NEW) and place > 0 and lines[place - 1].startswith(_OLD))


def _rank_hunks(files: Sequence[int], hunks: Sequence[int], changed: Sequence[bool]) -> Iterator[int]:
    """Yield each hunk with its changes: the first hunk of every file, then the second ones, and so on."""
    starts = sorted({*files, *hunks, len(changed)})
    stop_of = dict(pairwise(starts))
    turns: list[list[int]] = []
    turn, next_file = 0, 0
    for hunk in hunks:
        while next_file < len(files) and files[next_file] < hunk:
            turn, next_file = 0, next_file + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(hunk)
        turn += 1
    for hunk in (hunk for turn_hunks in turns for hunk in turn_hunks):
        yield hunk
        yield from (place for place in range(hunk, stop_of[hunk]) if changed[place])


def _near(changed: Sequence[bool], distance: int) -> Iterator[int]:
    """Yield the lines at a distance from a change."""
    for place, is_changed in enumerate(changed):
        if is_changed:
            yield from (near for near in (place - distance, place + distance) if 0 <= near < len(changed))
