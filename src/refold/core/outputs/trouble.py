"""Recognise lines that tell of trouble, stack traces, test summaries and exit codes; ranks nothing.

Every pattern has bounded repetition, and lines are read up to `READ_CHARS`: hostile text costs linear time.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from refold.patterns import read_pattern

READ_CHARS: Final = 400
"""Characters of a line that are read to classify it: levels, names and messages stand at its start."""

MESSAGE_LINES: Final = 4
"""Lines above the frames of a stack in which its exception is sought."""
LEAST_TESTS: Final = 8
"""Lines of a test run that was cut off; in fewer nothing needs to be left out."""

ESCAPE: Final = read_pattern(__package__, "escape")
"""A colour, a link, or a time that Buildkite hides."""
STRONG: Final = read_pattern(__package__, "strong")
"""Words that nearly always tell of a failure. A false match only keeps a line that another could have had."""
WEAK: Final = read_pattern(__package__, "weak")
"""Words that often tell of trouble; not as parts of a path, as in `lib/error/error.ex`."""
_ODD_LETTERS: Final = ("i\u0307", "ı", "ſ")
"""Letters, in small ones, that a pattern takes for others."""
_STRONG_PARTS: Final = (
    *_ODD_LETTERS,
    *("error", "fail", "exception", "fatal", "panic", "critical", "severe", "killed", "caused by"),
    *("traceback", "crashed", "unhealthy", "command not found", "no such file", "permission denied"),
    *("segmentation fault", "connection refused", "core dumped", "undefined reference", "unhandled"),
    *("uncaught", "npm err!", "oomkilled", "backoff", "errimagepull", "http/", "conflict ("),
    *("status: nxdomain", "status: servfail", "status: refused", "invalid read", "invalid write"),
    "data race",
)
_WEAK_PARTS: Final = (
    *_ODD_LETTERS,
    *("error", "warn", "fail", "cannot", "could not", "unable to", "denied", "refused", "timed out"),
    *("timeout", "not found", "invalid", "unexpected", "missing", "deprecated"),
    *("be destroyed", "be replaced"),
)
"""Parts of which every match of the pattern has one, in small letters: ten times as fast to look for."""
_HARMLESS: Final = read_pattern(__package__, "harmless")
_COUNTED: Final = read_pattern(__package__, "counted")
"""What happened beside what did not: `Failures: 1, Errors: 0`."""
COMMIT: Final = read_pattern(__package__, "commit")
"""A line of `git log` or `git commit`: its subject may name a fault, but none happened now."""
_LOG: Final = re.compile(r"^commit [0-9a-f]{40}\b", re.MULTILINE)
"""The head of a commit; its message is indented below."""
_REPORT: Final = read_pattern(__package__, "report")
_REPORT_PARTS: Final = (
    *("ERROR", "FATAL", "CRITICAL", "FAIL", "error", "fatal", "panic", "ll be ", "st be "),
    *(":in ", " DONE ", " CACHED ", " [", " Time: "),
)
NO_FAILURE: Final = re.compile(r"(?i)\bwarn(?:ing)?s?\b|deprecated|\b(?:will|must) be (?:destroyed|replaced)")
"""A line that warns, or says what would be done: nothing has failed yet."""
# Behind an E it is what a test failed by.
_USUAL_WARNING: Final = re.compile(r"(?!E )[^\n]{0,200}\b(?:Pending)?(?:Deprecation|Future)Warning: ")


def plain_line(line: str) -> str:
    """Return the start of a line without colours."""
    line = line[:READ_CHARS]
    return ESCAPE.sub("", line) if "\x1b" in line else line


def is_failure(line: str) -> bool:
    """True if a plain line tells of a failure."""
    return bool(find_failures((line,)))


def find_failures(lines: Sequence[str]) -> list[int]:
    """Return the places of plain lines that tell of a failure."""
    return _find_places(lines, _STRONG_PARTS, STRONG)


def find_warnings(lines: Sequence[str]) -> list[int]:
    """Return the places of plain lines that may tell of trouble."""
    return _find_places(lines, _WEAK_PARTS, WEAK)


HARMLESS: Final = 2


def rank_trouble(line: str) -> int:
    """Return 0 for a line that warns of nothing, 1 for a warning that tells of a failure, else `HARMLESS`."""
    if not NO_FAILURE.search(line):
        return 0
    return 1 if is_failure(line) or find_warnings((NO_FAILURE.sub("", line),)) else HARMLESS


def _find_places(lines: Sequence[str], parts: Sequence[str], pattern: re.Pattern[str]) -> list[int]:
    """Return the places of lines with trouble; looks only at lines with a part that a match has."""
    text = "\n".join(lines).lower()
    here = [part for part in parts if part in text]
    if not here:
        return []
    found = [
        place
        for place in _find_parts(text.split("\n") if len(lines) > 1 else (text,), here)
        if pattern.search(lines[place])
        and (not _HARMLESS.search(lines[place]) or _COUNTED.search(lines[place]))
        and not COMMIT.match(lines[place])
    ]
    is_log = bool(found) and "commit " in text and _LOG.search(text)
    return [place for place in found if not is_log or not lines[place].startswith("    ")]


def _find_parts(lines: Sequence[str], parts: Iterable[str]) -> list[int]:
    """Return the places of lines with one of these parts; looks only for parts that are there."""
    text = "\n".join(lines)
    places = {place for part in parts if part in text for place, line in enumerate(lines) if part in line}
    return sorted(places)


def has_report(lines: Sequence[str]) -> bool:
    """True if a line begins with the level of a log, or tells of a plan, as no line of code does."""
    text = "\n".join(lines)
    is_spec = " (FAILED - 1)\n" in text  # RSpec
    return is_spec or (any(part in text for part in _REPORT_PARTS) and any(map(_REPORT.match, lines)))


def find_usual_warnings(lines: Sequence[str]) -> set[int]:
    """Return the places of warnings about old names, and of the code below them: they repeat in each run."""
    found = {place for place, line in enumerate(lines) if "Warning: " in line and _USUAL_WARNING.match(line)}
    below = {place + 1 for place in found if place + 1 < len(lines) and lines[place + 1].startswith("  ")}
    return found | below


# -- stack traces -------------------------------------------------------------------------------------------

_PYTHON_HEADER: Final = read_pattern(__package__, "python_header")
_NOTEBOOK_HEADER: Final = re.compile(r"(\w{1,80}) {2,80}Traceback \(most recent call last\)$")
"""The head of a trace in a notebook, with the name of the exception."""
_PYTHON_FRAME: Final = re.compile(r'\s{1,44}(?:[|+] {1,8})?File "([^"\n]{1,300})", line \d')
_STACK_FRAME: Final = re.compile(r"\s{1,40}at [^\n]{1,300}(?::(?:line )?\d{1,7}|\))$")
_LIBRARY: Final = read_pattern(__package__, "library")


@dataclass(frozen=True, slots=True)
class Trace:
    """A stack trace by the places of its lines."""

    start: int
    stop: int
    """First line behind the trace."""
    message: int
    """The line that names the exception."""
    frames: tuple[range, ...]
    """Frames of the user's code, the innermost first, then frames of libraries."""


def find_traces(lines: Sequence[str]) -> list[Trace]:
    """Find the stack traces in plain lines, in order."""
    traces: list[Trace] = []
    stop = 0
    for at in [at for at, line in enumerate(lines) if "at " in line or "Traceback (most" in line]:
        trace = None
        if at < stop:
            continue
        if "Traceback (most" in lines[at]:
            trace = _read_python_trace(lines, at)
        elif _STACK_FRAME.match(lines[at]) and not (at and _STACK_FRAME.match(lines[at - 1])):
            trace = _read_stack(lines, at)
        if trace:
            traces.append(trace)
            stop = trace.stop
    return traces


def _read_python_trace(lines: Sequence[str], start: int) -> Trace | None:
    header = _PYTHON_HEADER.match(lines[start])
    if header is None:
        notebook = _NOTEBOOK_HEADER.match(lines[start].rstrip())
        below = range(start + 1, len(lines) if notebook else 0)
        message = next((at for at in below if notebook and lines[at].startswith(notebook[1])), None)
        return None if message is None else Trace(start, message + 1, message, ())
    indent = len(header[1])
    starts: list[int] = []
    at = start + 1
    while at < len(lines) and (lines[at][indent : indent + 1] in {"", " ", "\t", "|"}):
        if _PYTHON_FRAME.match(lines[at]):
            starts.append(at)
        elif not lines[at].strip() and not starts:
            break
        at += 1
    if at == len(lines) and starts:  # cut off: there is no line with the exception
        at = starts[-1]
    frames = [range(first, stop) for first, stop in pairwise((*starts, at)) if first < stop][::-1]
    return Trace(start, min(at + 1, len(lines)), min(at, len(lines) - 1), _sort_frames(lines, frames))


def _read_stack(lines: Sequence[str], start: int) -> Trace | None:
    """Read the frames of JavaScript or Java, which stand below the exception; None if there is none."""
    stop = start
    while stop < len(lines) and _STACK_FRAME.match(lines[stop]):
        stop += 1
    above = range(start - 1, max(-1, start - 1 - MESSAGE_LINES), -1)
    message = next((place for place in above if is_failure(lines[place])), None)
    if message is None:
        return None
    frames = [range(place, place + 1) for place in range(start, stop)]
    return Trace(message, stop, message, _sort_frames(lines, frames))


def _sort_frames(lines: Sequence[str], frames: list[range]) -> tuple[range, ...]:
    """Return the frames of the user's code first; both groups keep their order."""
    own = [frame for frame in frames if not _LIBRARY.search(lines[frame.start])]
    return (*own, *(frame for frame in frames if _LIBRARY.search(lines[frame.start])))


# -- test runs ----------------------------------------------------------------------------------------------

TEST_SUMMARY: Final = read_pattern(__package__, "test_summary")
"""The line with which a test runner ends, matched at its start."""
_SUMMARY_START: Final = re.compile(
    r"=*\s{0,4}(?:\d|tests f|no t|Exec)|\s{1,12}(?:Test|Summary)|[nRFOTtoPSA[#]"
)
"""With what each of them begins; most lines do not, which is found out faster."""
FAILED_TEST: Final = read_pattern(__package__, "failed_test")
"""A line that names a test that failed."""
LISTED: Final = ("FAILED ", "ERROR ", "rspec ")
"""With what the tests that failed begin where a run lists them at its end."""
PASSED_TEST: Final = read_pattern(__package__, "passed_test")
"""A line that names a test that passed, or shows nothing but dots."""
_PASSED_PARTS: Final = (
    *(" ... ", "PASS", "SKIP", "=== ", "%]", "✓ ", "✔ ", "√ ", "◇ ", "Passed ", "Test Case"),
    *("ok ", "ok\t", " OK ]", " RUN ", "Start ", "no test files"),
)
_FAILED_PARTS: Final = (
    *("FAIL", "ERROR", "XPASS", "____", "● ", "✕ ", "✖ ", "✗ ", "× ", "✘ ", "failed", "Failed ", "TIMEOUT"),
    *(" stdout ----", ") ", "rspec ", "***", "not ok ", "Failure (", "Error (", " [E]"),
)
ASSERTION: Final = read_pattern(__package__, "assertion")
"""A line that says what an assertion found."""


def find_passed(lines: Sequence[str]) -> list[int]:
    """Return the places of plain lines that name a test that passed."""
    # Most lines have nothing of what every such line has, and this is found out faster.
    places = {place for place, line in enumerate(lines) if line.startswith((".", "s", "x"))}
    places.update(_find_parts(lines, _PASSED_PARTS))
    return sorted(place for place in places if PASSED_TEST.match(lines[place]))


def find_failed_tests(lines: Sequence[str]) -> list[int]:
    """Return the places of plain lines that name a test that failed."""
    return [place for place in _find_parts(lines, _FAILED_PARTS) if FAILED_TEST.match(lines[place])]


def drop_passed(lines: Sequence[str]) -> list[str]:
    """Return the lines of a test run without those of tests that passed, and counts without a failure."""
    passed = {*find_passed(lines)}
    other = [line for place, line in enumerate(lines) if place not in passed]
    bad = {*find_failures(other), *find_warnings(other)}
    return [line for place, line in enumerate(other) if place in bad or not TEST_SUMMARY.match(line)]


def is_test_run(lines: Sequence[str]) -> bool:
    """True if a plain line is that with which a test runner ends, or half of them are tests that passed."""
    begin_alike = filter(_SUMMARY_START.match, (line.rstrip() for line in lines))
    if any(map(TEST_SUMMARY.match, begin_alike)):
        return True
    text = "\n".join(lines)
    may_be = len(lines) >= LEAST_TESTS and 2 * sum(map(text.count, _PASSED_PARTS)) >= len(lines)
    return may_be and 2 * len(find_passed(lines)) >= len(lines)
