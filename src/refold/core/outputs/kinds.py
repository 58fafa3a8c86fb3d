"""Recognise what kind of text a tool printed, by its content alone, and choose its ranking."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final, Literal

from refold.core.outputs.json_plan import cut_json_line, is_json_lines, parse_json
from refold.core.outputs.line_plan import LinePlan, Plan, has_share
from refold.core.outputs.rank_code import is_code, is_numbered, is_prose, rank_code, rank_prose, split_number
from refold.core.outputs.rank_diffs import is_diff, rank_diff
from refold.core.outputs.rank_lists import (
    find_header,
    is_listing,
    is_search,
    is_table,
    rank_listing,
    rank_search,
    rank_table,
)
from refold.core.outputs.rank_runs import (
    RECORD,
    TIMED_LINE,
    drop_clock,
    is_diagnosis,
    is_log,
    is_status,
    rank_log,
    rank_tests,
)
from refold.core.outputs.trouble import find_failures, find_traces, has_report, is_test_run, plain_line

SAMPLE: Final = 150
"""Lines from each end by which the kind is recognised; bounds the work on long outputs."""
FEW_LINES: Final = 8
"""Lines of a value in data that is only cut; one with more is shortened like an output of its own."""

Kind = Literal["code", "diff", "json lines", "listing", "log", "other", "prose", "search", "table", "tests"]


def make_plan(text: str) -> Plan:
    """Choose how a text is made shorter."""
    data = parse_json(text, cache(lambda value: make_plan(value) if value.count("\n") > FEW_LINES else None))
    if data is not None:
        return data
    lines = text.split("\n")
    kind = recognise_kind(lines)
    if kind == "json lines":
        return LinePlan(lines, rank_log(lines).order, cut=cut_json_line)
    bare = drop_heads(lines, kind)
    plan = _RANKINGS.get(kind, rank_log)(bare)
    return plan if bare is lines else replace(plan, lines=lines)


def drop_heads(lines: Sequence[str], kind: Kind) -> Sequence[str]:
    """Return the lines of a program's run without line numbers, or a runner's clock, before them."""
    if kind not in {"log", "tests"}:
        return lines
    return [split_number(line) for line in lines] if is_numbered(lines[:SAMPLE]) else drop_clock(lines)


def recognise_kind(lines: Sequence[str]) -> Kind:
    """Return the kind of some lines; what nobody recognises is ranked like a log."""
    if (bare := drop_clock(lines)) is not lines:
        return "tests" if is_test_run([plain_line(line) for line in bare]) else "log"
    sample = lines if len(lines) <= 2 * SAMPLE else [*lines[:SAMPLE], *lines[-SAMPLE:]]
    plain = [plain_line(line) for line in sample if line.strip()] or [""]
    numbered = is_numbered(plain)
    tests: tuple[tuple[Kind, Callable[[Sequence[str]], object]], ...] = (
        ("diff", is_diff),
        ("code", lambda _: numbered),
        ("tests", is_test_run),
        # A stack trace at the left margin: in code and documents it is indented.
        ("log", lambda _: any(not at.start or lines[at.start][:1] != " " for at in find_traces(lines))),
        ("log", is_diagnosis),
        ("log", lambda found: found[0].startswith(RECORD)),
        ("search", is_search),
        ("json lines", lambda _found: is_json_lines(sample)),
        ("table", is_table),
        ("log", is_log),
        ("table", find_header),
        ("log", is_status),
        ("listing", is_listing),
        ("code", lambda found: is_code(found) and not has_report(lines)),
        ("prose", lambda found: is_prose(found) and not find_failures([plain_line(line) for line in lines])),
    )
    kind: Kind = next((kind for kind, is_kind in tests if is_kind(plain)), "other")
    if kind != "code" or not numbered:
        return kind
    bare = [line for line in map(split_number, plain) if line.strip()] or plain
    # No line of code begins with a time.
    is_run = has_share(bare, TIMED_LINE.match, 1, 3) or not (is_code(bare) or is_prose(bare))
    return "tests" if is_run and is_test_run(bare) else "log" if is_run and is_log(bare) else "code"


_RANKINGS: Final[Mapping[Kind, Callable[[Sequence[str]], LinePlan]]] = {
    "code": rank_code,
    "diff": rank_diff,
    "listing": rank_listing,
    "prose": rank_prose,
    "search": rank_search,
    "table": rank_table,
    "tests": rank_tests,
}
