"""Recognise what kind of text a tool printed, by its content alone, and choose its ranking."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

from refold.core.outputs.json_plan import cut_json_line, is_json_lines, parse_json
from refold.core.outputs.line_plan import LinePlan
from refold.core.outputs.rank_code import is_code, is_numbered, is_prose, rank_code, rank_prose
from refold.core.outputs.rank_diffs import is_diff, rank_diff
from refold.core.outputs.rank_lists import (
    is_listing,
    is_search,
    is_table,
    rank_listing,
    rank_search,
    rank_table,
)
from refold.core.outputs.rank_runs import is_diagnosis, is_log, is_status, rank_log, rank_tests
from refold.core.outputs.trouble import find_failures, find_traces, has_report, is_test_run, plain_line

SAMPLE: Final = 150
"""Lines from each end by which the kind is recognised; bounds the work on long outputs."""

Kind = Literal["code", "diff", "json lines", "listing", "log", "other", "prose", "search", "table", "tests"]


class Plan(Protocol):
    """A text that can be written in fewer characters."""

    def render(self, max_chars: int) -> str:
        """Return the text in about this many characters."""
        ...

    def best(self) -> str:
        """Return what matters most, for the case that nothing else fits."""
        ...


def make_plan(text: str) -> Plan:
    """Choose how a text is made shorter."""
    plan = parse_json(text)
    if plan is not None:
        return plan
    lines = text.split("\n")
    kind = recognise_kind(lines)
    if kind == "json lines":
        return LinePlan(lines, rank_log(lines).order, cut=cut_json_line)
    return _RANKINGS.get(kind, rank_log)(lines)


def recognise_kind(lines: Sequence[str]) -> Kind:
    """Return the kind of some lines; what nobody recognises is ranked like a log."""
    sample = lines if len(lines) <= 2 * SAMPLE else [*lines[:SAMPLE], *lines[-SAMPLE:]]
    plain = [plain_line(line) for line in sample]
    tests: tuple[tuple[Kind, Callable[[Sequence[str]], bool]], ...] = (
        ("diff", is_diff),
        ("code", is_numbered),
        ("tests", is_test_run),
        ("log", lambda _found: _has_trace(lines)),
        ("log", is_diagnosis),
        ("search", is_search),
        ("json lines", lambda _found: is_json_lines(sample)),
        ("table", is_table),
        ("log", is_log),
        ("log", is_status),
        ("listing", is_listing),
        ("code", lambda found: is_code(found) and not has_report(lines)),
        ("prose", lambda found: is_prose(found) and not find_failures([plain_line(line) for line in lines])),
    )
    return next((kind for kind, is_kind in tests if is_kind(plain)), "other")


_RANKINGS: Final[Mapping[Kind, Callable[[Sequence[str]], LinePlan]]] = {
    "code": rank_code,
    "diff": rank_diff,
    "listing": rank_listing,
    "prose": rank_prose,
    "search": rank_search,
    "table": rank_table,
    "tests": rank_tests,
}


def _has_trace(lines: Sequence[str]) -> bool:
    """True if a stack trace stands at the left margin: in code and documents it is indented."""
    return any(trace.start == 0 or not lines[trace.start].startswith(" ") for trace in find_traces(lines))
