"""How long measuring and compacting take, by size of the history; CPU time, best of a few runs.

python bench/act.py [--json FILE]

Sizes of texts are remembered, so that the first time a history is measured is told apart. Also how long the
program takes to start, and to measure a file of a megabyte.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent import conversation

import refold
from refold.calls.conversation import MeasureOptions, read_conversation
from refold.core.compaction.cuts import HistoryIndex


def cpu(work: Callable[[], Any], times: int = 5) -> float:
    """The fewest CPU milliseconds of a few runs."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best * 1_000


def import_milliseconds() -> float:
    """CPU milliseconds of `import refold` in a fresh interpreter, less those of a bare one."""
    code = "import time; s = time.process_time(); import {}; print(time.process_time() - s)"
    took = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", code.format("refold")], capture_output=True, check=True, text=True
        )
        took.append(float(done.stdout))
    return min(took) * 1_000


def program_milliseconds(*arguments: str) -> float:
    """CPU milliseconds of the terminal program with these arguments, start included."""
    took = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "refold.cli", *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(took) * 1_000


def starts() -> dict[str, float]:
    """The program that only says its version, and that measures a file of a megabyte."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "history.json"
        file.write_text(json.dumps(conversation(850)), encoding="utf-8")
        return {
            "version_ms": program_milliseconds("--version"),
            "file_ms": program_milliseconds("measure", str(file)),
            "file_megabytes": file.stat().st_size / 1e6,
        }


def rows() -> list[dict[str, float]]:
    """One row for each size."""
    made = []
    refold.measure(conversation(40, seed=99), model="gpt-4o")  # loads what it needs
    for messages in (100, 1_000, 10_000):
        history = conversation(messages, seed=messages)
        size = len(json.dumps(history))
        first = cpu(lambda h=history: refold.measure(h, model="gpt-4o"), times=1)  # type: ignore[misc]
        told = read_conversation(history, MeasureOptions(model="gpt-4o", window=size))
        made.append(
            {
                "messages": messages,
                "megabytes": size / 1e6,
                "first_ms": first,
                "measure_ms": cpu(lambda h=history: refold.measure(h, model="gpt-4o")),  # type: ignore[misc]
                "cut_ms": cpu(lambda m=told.messages: HistoryIndex(m).cuts),  # type: ignore[misc]
                "compact_ms": cpu(
                    lambda h=history, w=size // 16: refold.compact(h, model="gpt-4o", window=w)
                ),  # type: ignore[misc]
            }
        )
    return made


def main() -> None:
    """Measure, print a table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table = rows()
    started, program = import_milliseconds(), starts()
    print(f"import refold: {started:.0f} CPU-ms; {program}")
    print("| messages | MB | measure, first | again | choose the cut | compact, no model |")
    print("|---|---|---|---|---|---|")
    for row in table:
        print(
            f"| {row['messages']:,} | {row['megabytes']:.1f} | {row['first_ms']:.1f} ms"
            f" | {row['measure_ms']:.1f} ms | {row['cut_ms']:.2f} ms | {row['compact_ms']:.0f} ms |"
        )
    if options.json:
        machine = {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "load": os.getloadavg()[0],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(
            json.dumps({"import_ms": started, **program, "rows": table, **machine}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
