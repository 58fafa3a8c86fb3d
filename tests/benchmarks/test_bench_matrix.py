"""The matrix runs against our own policy as a process, and its page comes from the results alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench import peering
from bench.matrix import __main__ as matrix
from bench.matrix import page
from bench.matrix.subjects import CASES, Subject, judged

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def ours():
    """Our default policy in a process that all cases share, as those of a column do."""
    with peering.Peer(peering.OURS, "refold", counter=matrix.exact.make_counter("o200k")) as peer:
        yield Subject(peer)


@pytest.mark.parametrize("name", ["A1", "C2", "E3", "F1", "N2"])
def test_a_case_runs_against_us(name, ours):
    (case,) = (each for each in CASES if each.name == name)
    cell = judged(case, ours)
    assert cell["verdict"] == "survives", cell


def test_every_class_of_the_catalogue_has_a_case():
    assert {case.name[0] for case in CASES} == set(page.CLASSES)
    assert len({case.name for case in CASES}) == len(CASES) >= 40
    assert all(case.issues and case.must for case in CASES)


def test_every_policy_has_a_column(monkeypatch, tmp_path):
    out = tmp_path / "m.json"
    monkeypatch.setattr(matrix, "column", lambda pin, way, _case: {"name": pin.name, "way": way, "cells": {}})
    words = ["--peers", "none", "--only", "refold", "--case", "E3", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", ["bench.matrix", *words])
    matrix.main()
    columns = json.loads(out.read_text())["columns"]
    assert [column["way"] for column in columns] == list(matrix.POLICIES)


@pytest.mark.campaign
def test_the_program_writes_json(tmp_path):
    out = tmp_path / "m.json"
    words = ["-m", "bench.matrix", "--peers", "none", "--only", "opal", "--case", "E3", "--json", str(out)]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True, timeout=120)
    (column,) = json.loads(out.read_text())["columns"]
    assert (column["name"], column["way"], [*column["cells"]]) == ("refold", "opal", ["E3"])


def test_the_page_comes_from_the_results():
    cells = {case.name: {"verdict": "survives", "how": "", "calls": 0} for case in CASES}
    broken = {**cells, "A1": {"verdict": "breaks", "how": "9 | calls <x>", "calls": 9}}
    found = {
        "command": "python -m bench.matrix",
        "date": "2026-01-01",
        "python": "3.11",
        "seconds": 1,
        "left_out": {"peer": "could not be installed"},
        "columns": [
            {"name": "refold", "way": "refold", "version": "0", "cells": cells},
            {"name": "langchain", "way": "summarization", "version": "1", "cells": broken},
            {"name": "langchain", "way": "trim", "version": "1", "cells": cells},
        ],
    }
    text = page.written(found, CASES)
    assert "| A1 | The fixed part alone is too big | yes | **no** |" in text
    assert "A1 breaks: 9 / calls &lt;x>" in text
    assert "- peer: could not be installed." in text
    assert f"| refold, policy refold | 0 | {len(CASES)} | 0 | 0 | 0 |" in text
    assert "- policy `refold`: nobody." in text


def test_the_page_says_who_survives_where_ours_does_not():
    cells = {case.name: {"verdict": "survives", "how": "", "calls": 0} for case in CASES}
    ours = {**cells, "B4": {"verdict": "breaks", "how": "too large", "calls": 1}}
    columns = [
        {"name": "refold", "way": "refold", "version": "0", "cells": ours},
        {"name": "langchain", "way": "trim", "version": "1", "cells": cells},
    ]
    about = {"command": "c", "date": "d", "python": "3", "seconds": 1, "left_out": {}}
    assert "- policy `refold`: langchain trim (B4)." in page.written({**about, "columns": columns}, CASES)


@pytest.mark.campaign
def test_every_thread_that_links_is_cited():
    assert set(page.OWNERS) <= {issue for case in CASES for issue in case.issues}


@pytest.mark.campaign
def test_the_committed_pages_are_those_of_the_committed_results():
    """After a new run of the matrix both pages are written again."""
    found = json.loads(matrix.RESULTS.read_text(encoding="utf-8"))
    docs = matrix.DOCS
    assert page.summarize(found, CASES) == (docs / "torture.md").read_text(encoding="utf-8")
    assert page.written(found, CASES) == (docs / "data" / "torture.md").read_text(encoding="utf-8")
