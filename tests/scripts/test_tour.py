"""`make tour` runs from the repository alone and shows what it promises."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from forked_program import forking_command

ROOT = Path(__file__).resolve().parents[2]


def test_the_tour_shows_its_commands_and_ends_well(tmp_path):
    env = {
        **os.environ,
        "LANG": "C.UTF-8",
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    script = f'refold() {{ {shlex.join(forking_command())} "$@"; }}\n. scripts/tour.sh'
    ran = subprocess.run(
        ["sh", "-c", script, "scripts/tour.sh"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        timeout=120,
        check=False,
    )
    out = ran.stdout.decode()
    assert ran.returncode == 0, ran.stderr.decode()
    assert "Traceback" not in out + ran.stderr.decode()
    for words in (
        "$ refold measure examples/long-agent-session.json --window 32k",
        "It is time to compact",
        "needs a model (--ask)",
        "yes: openai would take these",
        "\nNever change a signature in quayside/api.py\n",
        "\nThe harbour regulations say 20 minutes, and 45 for a tanker\n",
        "yes: anthropic would take these",
    ):
        assert words in out
