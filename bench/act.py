"""How long measuring and compacting take, by size of the history; CPU time, best of a few runs.

python bench/act.py [--json FILE]
"""

import argparse
import json
import os
import platform
import subprocess
import sys
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


def rows() -> list[dict[str, float]]:
    """One row for each size."""
    made = []
    for messages in (100, 1_000, 10_000):
        history = conversation(messages)
        size = len(json.dumps(history))
        told = read_conversation(history, MeasureOptions(model="gpt-4o", window=size))
        made.append(
            {
                "messages": messages,
                "megabytes": size / 1e6,
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
    started = import_milliseconds()
    print(f"import refold: {started:.0f} CPU-ms")
    print("| messages | MB | measure | choose the cut | compact, no model |\n|---|---|---|---|---|")
    for row in table:
        print(
            f"| {row['messages']:,} | {row['megabytes']:.1f} | {row['measure_ms']:.1f} ms"
            f" | {row['cut_ms']:.2f} ms | {row['compact_ms']:.0f} ms |"
        )
    if options.json:
        machine = {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "load": os.getloadavg()[0],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"import_ms": started, "rows": table, **machine}, indent=2) + "\n")


if __name__ == "__main__":
    main()
