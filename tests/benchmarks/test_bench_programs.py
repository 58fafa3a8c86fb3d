"""Programs of `make bench` that stand on builders of the tests still find them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("bench/gateway.py", "bench/replicas.py", "-m bench.gateway_load")
STARTER = """
import contextlib, io, json, os, runpy, sys
said, path, loaded = {}, sys.path[1:], set(sys.modules)
for words in sys.argv[1:]:
    name, out = words.rpartition(" ")[2], io.StringIO()
    run, folder = (runpy.run_path, os.path.dirname(name)) if name == words else (runpy.run_module, "")
    sys.argv, sys.path[:] = [name, "--help"], [os.path.abspath(folder), *path]
    try:
        with contextlib.redirect_stdout(out):
            run(name, run_name="__main__")
    except SystemExit as end:
        said[words] = [end.code, out.getvalue()]
    for found in set(sys.modules) - loaded:  # each has to find the builders by itself
        if any(part in str(getattr(sys.modules[found], "__file__", "")) for part in ("/tests/", "/bench/")):
            del sys.modules[found]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said():
    """The exit status and the help of each program: one process runs them, for they import the same."""
    command = [sys.executable, "-c", STARTER, *PROGRAMS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_says_what_it_does(program, said):
    status, text = said[program]
    assert status == 0
    assert text.startswith("usage: ")
