"""What a session costs: a turn on a short and on a long log, recall, opening a long log in bounded memory.

Run it as `python bench/session.py [--entries N] [--large N] [--json FILE]`; `make bench` does. CPU time of
this process; the median of many turns; each store in a fresh folder.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import refold

WINDOW: Final = 128_000
PLANTED: Final = "The heron nests behind the blue lighthouse since the flood of 1953"


def turn(number: int) -> list[dict[str, Any]]:
    """One step of an agent: a call and its result, 0.75 kB a message."""
    arguments = json.dumps({"path": f"src/module_{number % 80}.py", "limit": number})
    function = {"name": "read_file", "arguments": arguments}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": f"value_{number} = compute()\n" * 48},
    ]


def grown(address: str, entries: int, page: int = 250) -> refold.Session:
    """A session of so many messages, folded to a short view every so many turns."""
    session = refold.open("bench", store=address, window=WINDOW)
    session.say({"role": "user", "content": "Port the parser."})
    for start in range(0, entries // 2, page):
        session.say([message for number in range(start, start + page) for message in turn(number)])
        session.compact("truncate", keep=20)
    return session


def turns(session: refold.Session, start: int, count: int = 200) -> float:
    """Milliseconds of one turn: two messages said, the request prepared, the answer observed; the median."""
    taken = []
    for number in range(start, start + count):
        before = time.process_time()
        for message in turn(number):
            session.say(message)
        ready = session.prepare()
        session.observe({"usage": {"prompt_tokens": ready.budget.used, "completion_tokens": 20}})
        taken.append(time.process_time() - before)
    return statistics.median(taken) * 1_000


def measured(store: str, folder: str, entries: int) -> dict[str, Any]:
    """The figures of one store at one length."""
    addresses = {"sqlite": f"sqlite:{folder}/{entries}.db", "jsonl": f"jsonl:{folder}/{entries}"}
    address = addresses.get(store, "memory:")
    session = grown(address, entries)
    cost = turns(session, entries)
    session.say({"role": "user", "content": PLANTED})
    session.compact("truncate", keep=4)
    session.recall("warm up")
    before = time.perf_counter()
    hits = session.recall(PLANTED)
    found = (time.perf_counter() - before) * 1_000
    if not hits or hits[0].text != PLANTED:
        raise SystemExit(f"recall missed the planted sentence in {store} at {entries}")
    session.close()
    before = time.process_time()
    again = refold.open("bench", store=address, window=WINDOW)
    shown = len(again.view())
    opened = (time.process_time() - before) * 1_000
    again.close()
    return {
        "store": store,
        "entries": entries,
        "turn_ms": cost,
        "recall_ms": found,
        "open_ms": opened if store != "memory" else None,
        "view": shown,
    }


LARGE: Final = """
import sys, time
import refold
before = time.process_time()
session = refold.open("bench", store=sys.argv[1], window=128_000)
session.say({"role": "user", "content": "Go on."})
session.prepare()
lines = open("/proc/self/status").read().splitlines()
peak = next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))
print(len(session.view()), time.process_time() - before, peak)
"""


def large(folder: str, entries: int) -> dict[str, Any]:
    """Open a log of very many entries in a process of its own, and say something in it."""
    address = f"sqlite:{folder}/large.db"
    grown(address, entries, page=2_500).close()
    done = subprocess.run([sys.executable, "-c", LARGE, address], capture_output=True, text=True, check=True)
    shown, seconds, peak = done.stdout.split()
    return {"entries": entries, "view": int(shown), "seconds": float(seconds), "peak_mb": int(peak)}


def main() -> None:
    """Measure and print; write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--large", type=int, default=0, help="entries of a log to open (0: none)")
    parser.add_argument("--stores", default="memory,sqlite,jsonl")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {
        "command": f"python bench/session.py --entries {options.entries} --large {options.large}",
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "rows": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        for store in options.stores.split(","):
            short, long = (measured(store, folder, entries) for entries in (100, options.entries))
            ratio = long["turn_ms"] / short["turn_ms"]
            found["rows"].append({**long, "short_turn_ms": short["turn_ms"], "ratio": ratio})
            print(
                f"{store}: a turn {short['turn_ms']:.2f} ms at 100 entries, {long['turn_ms']:.2f} ms at"
                f" {options.entries:,} ({ratio:.2f} times); recall {long['recall_ms']:.1f} ms"
            )
        if options.large:
            found["large"] = large(folder, options.large)
            print(f"{options.large:,} entries: {found['large']}")
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
