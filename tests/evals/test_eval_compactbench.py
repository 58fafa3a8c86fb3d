"""Our policies inside CompactBench itself, where its environment has been made (`bench/compactbench.py`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from refold.evals.datasets import read_dataset

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "bench" / ".envs" / "compactbench" / "bin" / "python"
OWN = ROOT / "bench" / "templates"


def ran(tmp_path, *arguments):
    """The figures of a run over two of our templates, by method."""
    templates = tmp_path / "templates"
    templates.mkdir()
    for name in ("catering_rule.yaml", "freight_change.yaml"):
        (templates / name).write_bytes((OWN / name).read_bytes())
    told = tmp_path / "figures.json"
    program = [sys.executable, ROOT / "bench" / "compactbench.py", templates, "--json", told, "--cases", "1"]
    subprocess.run([*program, *arguments], check=True, capture_output=True, timeout=120, env=dict(os.environ))
    return {row["method"]: row for row in json.loads(told.read_text())["rows"]}


def test_our_templates_are_templates():
    found = read_dataset(OWN).templates
    assert len(found) == len(list(OWN.glob("*.yaml"))) >= 5


def test_a_folder_without_templates_is_named(tmp_path):
    program = [sys.executable, ROOT / "bench" / "compactbench.py", tmp_path]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"no templates (*.yaml) in {tmp_path}" in done.stderr


@pytest.mark.skipif(not PROGRAM.exists(), reason="CompactBench has no environment here")
def test_what_was_said_is_found_again_and_small_talk_is_not_kept(tmp_path):
    rows = ran(tmp_path, "--methods", "nothing", "RefoldWithoutModel", "--cycles", "1")
    ours, nothing = rows["RefoldWithoutModel"], rows["nothing"]
    assert ours["overall_score"] == ours["drift_resistance"] == 1.0
    assert ours["compression_ratio"] > 1.3
    assert nothing["overall_score"] < 0.4
    assert set(ours["kinds"].values()) == {1.0}


@pytest.mark.skipif(not PROGRAM.exists(), reason="CompactBench has no environment here")
def test_a_long_talk_is_folded(tmp_path):
    rows = ran(tmp_path, "--methods", "RefoldWithoutModel", "--cycles", "0", "--turns", "120")
    assert rows["RefoldWithoutModel"]["overall_score"] > 0.8
    assert rows["RefoldWithoutModel"]["compression_ratio"] > 2
