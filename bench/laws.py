"""The laws of the house on many random histories: how many examples were tried, and whether all held.

Run it as `python bench/laws.py [--examples N] [--jobs N] [--json FILE]`; `make torture` does. Examples are
counted as they run, not as they were asked for.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def main() -> None:
    """Run the laws' tests in several processes and write what they found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2_000, help="for each law test (default 2000)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    started = time.monotonic()
    tests = [sys.executable, "-m", "pytest", "-q", "-n", str(options.jobs), "tests/laws"]
    tests.append("--hypothesis-show-statistics")
    env = {**os.environ, "REFOLD_EXAMPLES": str(options.examples)}
    done = subprocess.run(tests, cwd=ROOT, env=env, check=False, capture_output=True, text=True)
    tried = [int(count) for count in re.findall(r"(\d+) passing(?: examples)?, ", done.stdout)]
    failed = sum(int(count) for count in re.findall(r"(\d+) (?:failed|error)", done.stdout.splitlines()[-1]))
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n")
    found = {
        "command": f"python bench/laws.py --examples {options.examples}",
        "laws": len(re.findall(r"(?m)^tests/laws/\S+::.*:$", done.stdout)),
        "examples": sum(tried),
        "failed": failed,
        "seconds": round(time.monotonic() - started),
    }
    print(f"{found['laws']} laws, {found['examples']:,} examples, {failed} failed, {found['seconds']:,} s")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
