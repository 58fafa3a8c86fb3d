"""Programs of `make bench` that stand on builders of the tests still find them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "program", [["bench/gateway.py"], ["bench/replicas.py"], ["-m", "bench.gateway_load"]]
)
def test_a_program_says_what_it_does(program):
    done = subprocess.run(
        [sys.executable, *program, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
