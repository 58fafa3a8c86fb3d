"""What `make clients` has found with the real programs, and that the page shows it; and how it judges."""

import json
from pathlib import Path

import pytest
from bench.clients import PACKAGES, find_faults, list_runs

ROOT = Path(__file__).resolve().parents[2]
REPORT = json.loads((ROOT / "bench" / "results" / "clients.json").read_text(encoding="utf-8"))
NAMES = [run.name for run in list_runs(30_000)]


@pytest.mark.parametrize("name", NAMES)
def test_acceptance_3_the_real_programs_play_sixty_steps(name):
    """Without a compaction of their own; a list moves with a fold alone, and none is folded without room."""
    found = REPORT["runs"][name]
    assert found["faults"] == find_faults(found, 60) == []
    assert found["version"] in PACKAGES[name if name in PACKAGES else "claude-code"][1]
    is_passed_on = name == "claude-code-15k"
    assert (found["folds"] == 0) == is_passed_on
    assert found["largest_tokens"] < found["window"] or is_passed_on


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_what_was_found(name):
    found = REPORT["runs"][name]
    rows = (ROOT / "docs" / "data" / "gateway-clients.md").read_text(encoding="utf-8").splitlines()
    start = f"| {found['window'] // 1000}k | "
    (row,) = [
        row
        for row in rows
        if found["version"] in row and start in row and ("--tools" in row) == (found["note"] == "one tool")
    ]
    assert row.endswith(f"| {found['folds']} |")


def test_a_run_that_went_wrong_is_seen():
    found = {
        **REPORT["runs"]["codex"],
        "exit": 1,
        "steps": 12,
        "moves": 99,
        "compactions": 2,
        "over_window": 3,
    }
    assert find_faults(found, 60) == [
        "exit 1",
        "12 of 60 steps",
        f"99 moved lists, with {found['folds']} folds",
        "2 compactions",
        "3 requests over the window",
    ]
