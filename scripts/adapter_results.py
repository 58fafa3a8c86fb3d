"""Read what the tests of adapters report, and write the support matrix; pure functions."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

MARKERS: Final = ("<!-- matrix: written by scripts/adapters.py -->", "<!-- end of matrix -->")
MOST_LOAD: Final = 4
"""Load up to which CPU times are published: on a busy machine they are several times as long."""
COLUMNS: Final = {
    "1": "valid requests, folds",
    "2": "folds inside a turn",
    "3": "history untouched",
    "4": "usage",
    "5": "refusal recovered",
    "6": "kill and resume",
    "7": "recall, undo, pin",
    "8": "several at once",
    "9": "rewind",
    "10": "reasoning, images, documents, failed tools",
    "11": "off switch",
}
"""The checks of the conformance suite, in the words of the matrix."""


def read_report(text: str) -> dict[str, Any]:
    """Return a run from its JUnit XML: checks and figures of each case, and the other tests."""
    cases: dict[str, dict[str, Any]] = {}
    others: dict[str, Any] = {"passed": 0, "failed": [], "skipped": []}
    for test in ET.fromstring(text).iter("testcase"):  # noqa: S314  # our own file
        found = re.match(r"test_(\d\d)_(\w+)", test.get("name") or "")
        place = (test.get("classname") or "").rpartition(".")[2]
        if not found or not place.startswith("Test"):
            _count(others, test, test.get("name") or place)
            continue
        case = cases.setdefault(place, {"checks": {}})
        check = case["checks"].setdefault(str(int(found[1])), {"passed": 0, "failed": [], "skipped": []})
        _count(check, test, found[2])
        for each in test.iter("property"):
            case[str(each.get("name"))] = _read_value(each.get("value") or "")
    return {"cases": cases, "other_tests": others}


def _count(check: dict[str, Any], test: ET.Element, name: str) -> None:
    skipped = test.find("skipped")
    if test.find("failure") is not None or test.find("error") is not None:
        check["failed"].append(name)
    elif skipped is not None:
        check["skipped"].append({"test": name, "reason": skipped.get("message") or ""})
    else:
        check["passed"] += 1


def _read_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def sum_up(result: Mapping[str, Any]) -> str:
    """Return how many tests of a run passed, failed and were skipped, in one line."""
    parts = [check for case in result["cases"].values() for check in case["checks"].values()]
    parts.append(result["other_tests"])
    passed = sum(part["passed"] for part in parts)
    failed = [name for part in parts for name in part["failed"]]
    skipped = sum(len(part["skipped"]) for part in parts)
    words = f"{passed} passed, {len(failed)} failed, {skipped} skipped"
    return words + (f" ({', '.join(failed[:3])}{', ...' if failed[3:] else ''})" if failed else "")


def has_passed(result: Mapping[str, Any]) -> bool:
    """True if nothing failed and a check of each case passed: one that skips all of them shows nothing."""
    cases = [list(case["checks"].values()) for case in result["cases"].values()]
    parts = [*chain.from_iterable(cases), result["other_tests"]]
    has_run = bool(cases) and all(any(check["passed"] for check in checks) for checks in cases)
    return has_run and not any(part["failed"] for part in parts)


def split_costs(result: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return a run without its costs, and those of each case with the version and the load of the machine."""
    cases: dict[str, Any] = {}
    costs: dict[str, dict[str, Any]] = {}
    for name, case in result["cases"].items():
        measured = {"load", *(figure for figure in case if figure.endswith("_ms"))}
        figures = {figure: value for figure, value in case.items() if figure in measured}
        cases[name] = {figure: value for figure, value in case.items() if figure not in figures}
        costs |= {name: {"version": result["version"], **figures}} if figures else {}
    return {**result, "cases": cases}, costs


def choose_costs(
    known: Mapping[str, Any], measured: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Return the cost of each case: the new one, or the known one where the machine was busy this time."""
    quiet = {name: cost for name, cost in measured.items() if cost["load"] <= MOST_LOAD}
    return {**known, **quiet}


def write_matrix(results: Mapping[str, Any]) -> str:
    """Return the support matrix as Markdown; a cell with a number has a note below the table."""
    notes: list[str] = []
    heads = ["adapter", "versions", *COLUMNS.values(), "modes", "overhead per turn (store)"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for adapter, runs in results.items():
        newest = runs.get("newest") or {}
        known = [runs[age]["version"] for age in ("oldest", "newest") if age in runs]
        versions = " to ".join(dict.fromkeys(known))
        for place, case in newest.get("cases", {}).items():
            if case.get("package") not in (None, "", adapter):  # that row is in the run of its own library
                continue
            cells = [_write_cell(case["checks"].get(check), notes) for check in COLUMNS]
            overhead = _write_cost(runs.get("costs", {}).get(place), newest["version"], notes)
            page = str(case.get("page") or "").replace("docs/", "../")
            title = case.get("name") or adapter
            name = f"{f'[{title}]({page})' if page.startswith('../') else title} ({case.get('wire', '')})"
            lines.append("| " + " | ".join([name, versions, *cells, case.get("modes", ""), overhead]) + " |")
    lines += ["", *(f"{number}. {note}" for number, note in enumerate(notes, 1))] if notes else []
    return "\n".join(lines)


def _write_cost(cost: Mapping[str, Any] | None, version: str, notes: list[str]) -> str:
    """Return what Refold adds to a turn, and in brackets how much of it the store takes."""
    if not cost:
        return "-"
    store = f" ({cost['store_ms']:.1f})" if "store_ms" in cost else ""
    old = f"measured with version {cost['version']}, at a load of {cost['load']}"
    note = f", see {_number(old, notes)}" if cost["version"] != version else ""
    return f"{cost['overhead_ms']:.1f} ms{store}{note}"


def _write_cell(check: Mapping[str, Any] | None, notes: list[str]) -> str:
    if not check:
        return "-"
    if check["failed"]:
        return "no"
    numbers = [_number(skipped["reason"].removeprefix("Skipped: "), notes) for skipped in check["skipped"]]
    word = "yes" if check["passed"] else "no"
    return word + (f" ({', '.join(dict.fromkeys(numbers))})" if numbers else "")


def _number(note: str, notes: list[str]) -> str:
    """Return the number of a note below the table, where it is added if it is new."""
    if note not in notes:
        notes.append(note)
    return str(notes.index(note) + 1)


def replace_between(text: str, new: str) -> str:
    """Return a page with another text between the markers."""
    before, found, rest = text.partition(MARKERS[0])
    _, closed, after = rest.partition(MARKERS[1])
    if not found or not closed:
        raise RuntimeError(f"the page has no lines {MARKERS[0]} and {MARKERS[1]}")
    return f"{before}{MARKERS[0]}\n\n{new}\n\n{MARKERS[1]}{after}"
