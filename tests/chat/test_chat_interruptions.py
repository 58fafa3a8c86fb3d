"""Ctrl-C at any moment, in a process of its own: what measures coverage holds locks that a handler waits for."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def test_nothing_is_lost_however_often_it_is_interrupted():
    env = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "PYTEST_"))}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    ran = subprocess.run(
        # A key that is pressed inside a finalizer must not meet the hook that reports it.
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:unraisableexception"),
            str(HERE / "interruptions.py"),
        ],
        capture_output=True,
        env=env,
        cwd=HERE.parents[1],
        timeout=600,  # 3 s alone, a dozen beside ten busy programs; only a lost lock takes longer
        check=False,
    )
    assert ran.returncode == 0, ran.stdout.decode()[-2_000:]
    assert b"3 passed" in ran.stdout
