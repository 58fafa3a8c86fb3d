"""Rank what a program printed while it ran: logs, test runs, and anything unknown.

In a log trouble comes first, then both ends; lines that repeat others come last. In a test run the first test
that failed and the summary come first, then the other ones and what their assertions found; tests that passed
come last.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice, pairwise
from typing import Final

from refold.core.outputs.line_plan import Describe, LazyPlaces, LinePlan, end_places, has_share, mix_places
from refold.core.outputs.trouble import (
    ASSERTION,
    LISTED,
    TEST_SUMMARY,
    Trace,
    find_failed_tests,
    find_failures,
    find_passed,
    find_traces,
    find_usual_warnings,
    find_warnings,
    is_test_run,
    plain_line,
)
from refold.patterns import read_pattern

FIRST_FAILURES: Final = 3
"""Failures from each end of a log that come before everything else; more would push out the context."""
AROUND: Final = 2
"""Lines shown around the first and the last failure."""
LEAST_RUN: Final = 40
"""Lines of a run among somebody's words from which on it is shortened by itself."""
EXAMPLE_CHARS: Final = 24
"""Characters of a repeated line that name it in a marker."""

# Both begin with a set of letters, which makes the search twice as fast as one for alternatives.
_VARIABLE: Final = read_pattern(__package__, "variable")
_SPACE: Final = re.compile(r"[^\S\n](?:[^\S\n]{1,399}|(?<! ))")
"""Blanks that are not one space."""
_MARKS: Final = re.compile(r"[#\[\]]")
_RULE: Final = re.compile(r"[\W_]{8,400}")
"""A line without a word, which only separates others."""
_HINT: Final = read_pattern(__package__, "hint")
_LEVELS: Final = ("DEBUG", "INFO", "WARN", "WARNING", "ERROR", "TRACE", "FATAL", "CRITICAL")
TIMED_LINE: Final = read_pattern(__package__, "timed_line")
_LOG_LINE: Final = re.compile(rf"{TIMED_LINE.pattern}|.{{0,80}}\b(?:{'|'.join(_LEVELS)})\b")
_CLOCK: Final = read_pattern(__package__, "clock")
CLOCK_LINES: Final = 150
"""Lines by which a runner's clock is recognised."""
_LABEL: Final = re.compile(r"\s{0,40}[A-Z][\w ./()-]{0,40}: {0,40}\S")
RECORD: Final = "-[ RECORD "
"""With what `psql -x` begins each record."""
_STATE: Final = read_pattern(__package__, "state", re.IGNORECASE)
_DIAGNOSIS: Final = read_pattern(__package__, "diagnosis")

# -- logs ---------------------------------------------------------------------------------------------------


def is_log(lines: Sequence[str]) -> bool:
    """True if a third of the lines begin with a time or name a level."""
    return has_share(lines, _choose_log_line("\n".join(lines)).match, 1, 3)


def _choose_log_line(text: str) -> re.Pattern[str]:
    """Return what the lines of a log in this text match; most texts name no level, which is faster."""
    return _LOG_LINE if any(level in text for level in _LEVELS) else TIMED_LINE


def drop_clock(lines: Sequence[str]) -> Sequence[str]:
    """Return lines without the time or service that a CI runner or a container put before each of them.

    A program's own log keeps its times. It has none before blank and indented lines; who puts a time before
    every line that another program printed does.

    >>> drop_clock(["10:02:11 FAIL: test_a", "10:02:11", "10:02:12 Ran 3 tests in 1s"])
    ['FAIL: test_a', '', 'Ran 3 tests in 1s']
    """
    first = [line for line in lines[:CLOCK_LINES] if line.strip()]
    if len(first) < 2 or not has_share(first, _CLOCK.match, 9, 10):
        return lines
    heads = list(map(_CLOCK.match, lines))
    bare = [line[head.end() :] if head else line for line, head in zip(lines, heads, strict=True)]
    services = {head["service"] for head in heads if head}
    said = [plain_line(line) for line, head in zip(bare, heads, strict=True) if head]
    gaps = sum(not line.strip() for line in said)  # a table of times and numbers has nothing else
    is_column = len(services) * 4 > max(4, len(first)) or gaps * 2 > len(said)
    indented = sum(line[:2].isspace() for line in said)  # all of them: numbers of a column
    is_other = gaps > 0 or 0 < indented * 3 <= len(said) * 2
    return bare if not is_column and (is_test_run(said) or (is_other and not is_log(said))) else lines


def is_diagnosis(lines: Sequence[str]) -> bool:
    """True if a fifth of the lines name a level as compilers and linters do; their code may stand between."""
    return has_share(lines, _DIAGNOSIS.match, 1, 5)


def is_status(lines: Sequence[str]) -> bool:
    """True if most lines are a label and its value, as where a program tells the state of something."""
    return len(lines) > 1 and has_share(lines, _LABEL.match, 2, 3)


def find_run(text: str) -> range:
    """Return the lines of the longest log or test run among somebody's words; none if it is short."""
    lines = [plain_line(line) for line in text.split("\n")] if text.count("\n") >= LEAST_RUN - 1 else []

    # Of a log a third of the lines are logged, and of tests half passed: mostly the whole text has fewer.
    logged = sum(map(bool, map(_choose_log_line("\n".join(lines)).match, lines)))
    if logged * 3 < LEAST_RUN and not is_test_run(lines) and len(find_passed(lines)) * 2 < LEAST_RUN:
        return range(0)

    def is_logged(line: str) -> bool:
        is_level = line[:1].isspace() or line.lstrip("[").startswith(_LEVELS)
        return is_level or TIMED_LINE.match(line) is not None

    rest = ["" if line and is_logged(line) else line for line in lines]
    for place in find_failed_tests(rest):
        rest[place] = ""
    shown = {*find_passed(rest), *find_failures(rest)}
    printed = [place in shown or len(line) > len(rest[place]) for place, line in enumerate(lines)]
    stretches = [list(places) for is_one, places in groupby(range(len(lines)), printed.__getitem__) if is_one]
    longest = max(stretches, key=len, default=[])
    run = [lines[place] for place in longest]
    is_run = len(run) >= LEAST_RUN and (is_log(run) or is_test_run(run))
    return range(longest[0], longest[-1] + 1) if is_run else range(0)


def rank_log(lines: Sequence[str]) -> LinePlan:
    """Rank the lines of a log or of a program's output."""
    plain = [plain_line(line) for line in lines]
    shapes = shape_lines("\n".join(plain)).split("\n")
    new = find_first(shapes)
    traces = find_traces(plain)
    failures = _find_failures(plain, traces)
    # A request that failed may look like the ones that did not.
    unlike = find_first(shapes[place] for place in failures)
    distinct = [place for place, is_new in zip(failures, unlike, strict=True) if is_new]
    usual = _find_usual(plain)
    warnings = [place for place in find_warnings(plain) if new[place] and place not in usual]
    states = [place for place, line in enumerate(plain) if new[place] and _STATE.match(line)]

    def lead(place: int) -> range:
        """Return a line with the next, where it only leads to that: `COMPILATION ERROR :`."""
        return range(place, min(place + 1 + plain[place].rstrip().endswith(":"), len(lines)))

    unusual = (place for place in end_places(len(lines), 1, 2) if place not in usual)
    ends = LazyPlaces(chain(unusual, sorted(usual)))
    from_ends = [distinct[end] for end in islice(end_places(len(distinct)), 2 * FIRST_FAILURES)]
    order = chain(
        _rank_traces(traces[-1:]),
        # From both ends, the first one first: later failures often follow from it.
        chain.from_iterable(map(lead, from_ends)),
        failures[-1:],
        islice(ends, 2),
        _around(distinct, new),
        _rank_traces(traces[-2::-1]),
        mix_places(lines, ((3, (at for at in ends if new[at])), (2, distinct), (2, warnings), (2, states))),
        ends,
    )
    return LinePlan(lines, order, _tell_repeats(shapes, new))


def _find_usual(plain: Sequence[str]) -> set[int]:
    """Return the places of lines that tell nothing of a run: blank ones, rules, hints, and usual warnings."""

    def tells_nothing(line: str) -> bool:
        is_rule = not line[-1:].isalnum() and (not line.strip() or _RULE.fullmatch(line))
        return bool(is_rule or _HINT.match(line))

    return find_usual_warnings(plain) | {at for at, line in enumerate(plain) if tells_nothing(line)}


def _find_failures(plain: Sequence[str], traces: Sequence[Trace]) -> list[int]:
    """Return the places of lines that tell of a failure; of a trace only the exception."""
    in_trace = {place for trace in traces for place in range(trace.start, trace.stop)}
    alone = (place for place in find_failures(plain) if place not in in_trace)
    return sorted({*alone, *(trace.message for trace in traces)})


def shape_lines(text: str) -> str:
    """Return lines without what differs between repetitions: numbers, times, ids.

    >>> shape_lines("12:01:03 retry 4 of 0x7f")
    '#:#:# retry # of #'
    """
    return _SPACE.sub(" ", _VARIABLE.sub("#", text))


def find_first(shapes: Iterable[str]) -> list[bool]:
    """Return for each shape whether it stands here for the first time."""
    first: dict[str, int] = {}
    return [first.setdefault(shape, place) == place for place, shape in enumerate(shapes)]


def _rank_traces(traces: Iterable[Trace]) -> Iterator[int]:
    """Yield the lines of traces: the exception, the innermost frame of the user's code, then the rest."""
    for trace in traces:
        yield trace.message
        for frame in trace.frames[:1]:
            yield from reversed(frame)  # the line of code stands beside the exception
        yield trace.start
        for frame in trace.frames[1:]:
            yield from reversed(frame)


def _around(failures: Sequence[int], new: Sequence[bool]) -> Iterator[int]:
    """Yield the lines around the first and the last failure: others than the one before only if new."""
    for failure in dict.fromkeys((*failures[:1], *failures[-1:])):
        for step in range(1, AROUND + 1):
            near = (failure + step, failure - step)
            yield from (at for at in near if 0 <= at < len(new) and (new[at] or at == failure - 1))


def _tell_repeats(shapes: Sequence[str], new: Sequence[bool]) -> Describe:
    """Say which line a gap repeats, if one makes up a quarter of it."""

    def describe(start: int, stop: int) -> str:
        repeated = Counter(shapes[place] for place in range(start, stop) if not new[place])
        shape, number = repeated.most_common(1)[0] if repeated else ("", 0)
        # A bracket would look like the end of the marker: `nginx[811]:`.
        example = " ".join(_MARKS.sub("", shape).strip(" :.-()|,").split())[:EXAMPLE_CHARS].rstrip()
        is_clear = number > 2 and number * 4 >= stop - start and len(example) > 3 and example.isprintable()
        return f'{number} like "{example}"' if is_clear else ""

    return describe


# -- test runs ----------------------------------------------------------------------------------------------


def rank_failed(failed: Sequence[int], plain: Sequence[str]) -> list[int]:
    """Rank lines that name failed tests: a list at the end, then tests, then those of which a part failed."""
    # A list at the end gives path and reason; read upwards it stands beside the summary.
    listed = [place for place in reversed(failed) if plain[place].startswith(LISTED)]
    # In go a test fails with its subtest, of which the name begins with its own.
    names = {place: plain[place].partition("--- FAIL: ")[2].partition(" (")[0] for place in failed}
    outer = {at for at, below in pairwise(failed) if names[at] and names[below].startswith(f"{names[at]}/")}
    return list(dict.fromkeys((*listed, *(at for at in failed if at not in outer), *failed)))


def rank_tests(lines: Sequence[str]) -> LinePlan:
    """Rank the lines of a test run."""
    plain = [plain_line(line).rstrip() for line in lines]
    every = range(len(lines))
    named = {*find_passed(plain)}
    passed = [place in named for place in every]
    new = find_first(shape_lines("\n".join(plain)).split("\n"))
    summaries = [place for place in every if TEST_SUMMARY.match(plain[place])]
    # The packages that passed come last.
    summaries = [place for place in summaries if not passed[place]] or summaries
    failed = rank_failed([at for at in find_failed_tests(plain) if not passed[at]], plain)
    traces = find_traces(plain)
    usual = _find_usual(plain)
    first_time = find_first(plain)  # one reason may stand below each of many tests
    asserted = [at for at in every if first_time[at] and at not in usual and ASSERTION.match(plain[at])]
    # What came out says more than the line of code that was run.
    beside = ("code:", "assertion ", "thread '")
    asserted.sort(key=lambda at: (not plain[at].startswith("E "), plain[at].lstrip().startswith(beside)))
    found = [*(trace.message for trace in traces), *asserted]
    known = {*failed, *found}
    telling = [new[place] and not passed[place] and place not in usual for place in every]
    other = [at for at in find_failures(plain) if first_time[at] and not passed[at] and at not in known]
    around = (place for place in _around(sorted(found or other), telling) if not passed[place])
    streams = (
        (3, failed),
        (4, found),
        (3, chain.from_iterable(_rank_traces((trace,)) for trace in traces)),
        (1, [*other, *around]),
        (1, summaries[::-1]),
    )
    # Which test failed and why says more than how many did; where they are listed, the reason is beside it.
    why = [at for at in found[:2] if at in {found[0], found[0] + 1}]
    is_listed = any(plain[place].startswith(LISTED) for place in failed[:1])
    first = (failed[:1], why[is_listed * 2 :], summaries[-1:], why, mix_places(lines, streams))
    ends = (place for place in end_places(len(lines), 1, 3) if telling[place])

    def describe(start: int, stop: int) -> str:
        number = sum(passed[start:stop])
        return f"{number} passed or skipped" if number > 1 else ""

    # A run that was cut off tells by its last lines how far it came.
    rest = sorted(every, key=passed.__getitem__) if summaries else end_places(len(lines))
    brief = frozenset((*failed, *summaries, *(at for at in asserted if "' panicked at" in plain[at])))
    return LinePlan(lines, chain(*first, ends, rest), describe, brief=brief)
