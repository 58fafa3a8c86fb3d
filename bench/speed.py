"""Decide, act, count, estimate, memory, import and size: ours and the peers' in one run, one after the other.

    python -m bench.speed [--quick] [--data FOLDER] [--peers all|ready|none] [--steps decide,act]
                          [--json FILE]

CPU milliseconds inside each one's own process, the fewest of some runs and the first; the subjects take turns
at each step, so that a busy machine is busy for all of them. The conversation is in the library's own shape
before the clock starts; what it takes to make that of plain dicts is a step of its own, `convert`. What would
take longer than the limit, judged by how the time grew so far, is not run and says so. With a folder of data
the same is done with recorded conversations of several kinds.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench import peering

RESULTS: Final = peering.BENCH / "results"
STEPS: Final = ("decide", "act", "count", "estimate", "convert")
KIND_STEPS: Final = ("decide", "act", "estimate", "convert")
"""Steps that are done with recorded conversations, too."""
ALL: Final = (*STEPS, "kinds", "weight", "memory")
SIZES: Final = (100, 1_000, 10_000, 20_000)
PREPARING: Final = ("prepare", "lists", "copies", "folded", "view")
OURS: Final = ("refold", *PREPARING, "stateless", "session", "model", "truncate")
CHEAP: Final = "pydantic-ai"
"""The peer that the quick form installs where nothing is there: the smallest of them."""


def chosen(peers: str, *, quick: bool) -> tuple[list[peering.Peer], dict[str, str]]:
    """Whom to measure, and who is left out and why."""
    subjects = [peering.Peer(peering.OURS, way) for way in OURS]
    left: dict[str, str] = {}
    for pin in peering.pins() if peers != "none" else ():
        make = peers == "all" or (quick and pin.name == CHEAP)
        reason = peering.made(pin) if make else "" if pin.ready else "its environment was not made"
        left.update({pin.name: reason} if reason else {})
        # the quick form takes each peer's first way: the one that its documentation puts first
        ways = pin.ways[:1] if quick else pin.ways
        subjects += [] if reason else [peering.Peer(pin, way) for way in ways]
    return subjects, left


def measured(
    subjects: Sequence[peering.Peer],
    steps: Sequence[tuple[str, int]],
    *,
    seconds: float,
    limit: float,
    rounds: int = 1,
    done: Callable[[list[dict[str, Any]]], None] = lambda _rows: None,
) -> list[dict[str, Any]]:
    """Every step at every size, the subjects in turns; one row each. `done` sees the rows after each."""
    rows: list[dict[str, Any]] = []
    missing: set[tuple[str, str]] = set()
    for step, size in steps:
        kept: dict[str, dict[str, Any]] = {}
        for _ in range(rounds):
            for subject in subjects:
                if (subject.name, step) in missing:
                    continue
                row = _row(rows, subject, step, size, seconds=seconds, limit=limit)
                if row.pop("offered", True) is False:
                    missing.add((subject.name, step))
                elif row.get("ms", 9e9) <= kept.get(subject.name, {}).get("ms", 9e9):
                    kept[subject.name] = row
        rows += kept.values()
        print(f"{step} {size:,}: {_tell(kept.values())}", flush=True)
        done(rows)
    return rows


def _row(
    rows: Sequence[dict[str, Any]],
    subject: peering.Peer,
    step: str,
    size: int,
    *,
    seconds: float,
    limit: float,
    file: str = "",
) -> dict[str, Any]:
    told = {"step": step, "messages": size, "subject": subject.name}
    if subject.name.startswith("refold") and not _ours(subject.way, step):
        return {**told, "offered": False}
    if subject.pin is peering.OURS:
        subject.stop()  # it remembers what it has counted, so that its first run would be none
    guess = expected(rows, subject.name, step, size)
    if guess > limit * 1_000:
        return {**told, "note": f"not run: about {guess / 1_000:,.0f} s"}
    reply = subject.call(step, messages=size, seed=7, file=file, spend=seconds, seconds=max(60, limit * 6))
    if "error" in reply:
        return {**told, "note": reply["error"][:160], "offered": reply.get("offered", True)}
    return {**told, **{key: reply[key] for key in ("ms", "first_ms", "runs", "tokens") if key in reply}}


def measure_kinds(
    subjects: Sequence[peering.Peer], data: Path, *, seconds: float, limit: float
) -> dict[str, Any]:
    """The same steps with recorded conversations, the subjects in turns."""
    from bench.real_kinds import write_kinds

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        kinds = write_kinds(data, Path(folder))
        for step in KIND_STEPS:
            for kind in kinds:
                for subject in subjects:
                    row = _row(
                        (), subject, step, kind.messages, seconds=seconds, limit=limit, file=str(kind.path)
                    )
                    if row.pop("offered", True):
                        rows.append({**row, "kind": kind.name})
                told = [row for row in rows if (row["step"], row["kind"]) == (step, kind.name)]
                print(f"{step} {kind.name}: {_tell(told)}", flush=True)
    return {"kinds": [kind.facts for kind in kinds], "kind_rows": rows}


def _tell(rows: Iterable[dict[str, Any]]) -> str:
    return ", ".join(f"{row['subject']} {row['ms']:.3g}" for row in rows if "ms" in row)


def _ours(way: str, step: str) -> bool:
    """Our extra ways are each there for one step."""
    return (
        way == "refold"
        or (way in ("stateless", *PREPARING) and step == "decide")
        or (way in ("session", "model", "truncate") and step == "act")
    )


def expected(rows: Sequence[dict[str, Any]], name: str, step: str, size: int) -> float:
    """Milliseconds that a size will take, as the two before it let expect; 0 where nothing is known."""
    known = [
        (row["messages"], row.get("ms")) for row in rows if row["subject"] == name and row["step"] == step
    ]
    if not known:
        return 0.0
    if known[-1][1] is None:
        return float("inf")  # what was not run at a smaller size is not run at a larger one
    (small, before), (large, after) = known[-2] if len(known) > 1 else known[-1], known[-1]
    growth = 1.0 if small == large else max(1.0, _log(after / before) / _log(large / small))
    return float(after * (size / large) ** growth)


def _log(value: float) -> float:
    from math import log

    return log(max(value, 1e-9))


def memory(subjects: Sequence[peering.Peer], size: int) -> list[dict[str, Any]]:
    """How much a fresh process grows by one decision and one cut, over the conversation itself."""
    rows = []
    for subject in subjects:
        if subject.pin is peering.OURS and subject.way != "refold":
            continue
        subject.stop()
        reply = subject.call("memory", messages=size, seed=7, seconds=120)
        note = {"note": reply["error"][:160]} if "error" in reply else {}
        found = {key: reply.get(key) for key in ("mb", "held_mb", "warm_messages")}
        rows.append({"subject": subject.name, "messages": size, **found, **note})
        subject.stop()
    return rows


def weight(pin: peering.Pin) -> dict[str, Any]:
    """CPU milliseconds of importing what a program imports, and the megabytes that an installation has."""
    if pin.packages:
        folders = [*pin.home.glob("lib/python*/site-packages")]
    else:
        folders = [peering.BENCH.parent / "src" / "refold"]  # the core needs nothing else
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and not _apart(path)]
    return {
        "name": pin.name,
        "import_ms": _imported(pin, f"import {pin.module}"),
        # some load nothing until a name is used, ours among them
        "names_ms": _imported(pin, f"from {pin.module} import {pin.uses}") if pin.uses else None,
        "megabytes": sum(path.stat().st_size for path in files) / 1e6,
    }


def _imported(pin: peering.Pin, statement: str) -> float | None:
    code = f"import time; s = time.process_time(); {statement}; print(time.process_time() - s)"
    took = []
    for _ in range(3):
        done = subprocess.run([str(pin.python), "-c", code], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            took.append(float(done.stdout.strip().splitlines()[-1]) * 1_000)
    return min(took, default=None)


def _apart(path: Path) -> bool:
    """What is not the peer's: compiled files, and the tools of the environment."""
    return "__pycache__" in path.parts or any(
        part in {"pip", "setuptools", "_distutils_hack"} for part in path.parts
    )


def main() -> None:
    """Measure what was asked for; write after every step, so that a run that is ended leaves what it has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one size, each peer's first way")
    parser.add_argument("--peers", choices=("all", "ready", "none"), default="all")
    parser.add_argument(
        "--steps", default=",".join(ALL), help="some of them, into the results that are there"
    )
    parser.add_argument("--data", type=Path, help="a folder with recorded conversations, as evals read it")
    parser.add_argument("--limit", type=float, default=30, help="seconds that one measurement may take")
    parser.add_argument("--rounds", type=int, help="measurements of each, of which the least counts")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    path = options.json or RESULTS / ("speed-quick.json" if options.quick else "speed.json")
    steps = options.steps.split(",")
    subjects, left = chosen(
        "ready" if options.quick and options.peers == "all" else options.peers, quick=options.quick
    )
    pins = {subject.pin.name: subject.pin for subject in subjects}
    found = {**before(path, steps), **about(options.quick), "left_out": left}
    found["versions"] = {name: list(pin.packages) or ["this checkout"] for name, pin in pins.items()}
    old = found["rows"]
    found["runs"] = add_run(found.get("runs", []), steps, found)

    def written(rows: list[dict[str, Any]]) -> None:
        found.update(rows=[*old, *rows], seconds=round(time.monotonic() - began))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    sizes, seconds, limit = (SIZES[1:2], 0.3, 3.0) if options.quick else (SIZES, 1.0, options.limit)
    plan = [(step, size) for step in STEPS if step in steps for size in sizes]
    rounds = options.rounds or (2 if options.quick else 1)
    try:
        rows = measured(subjects, plan, seconds=seconds, limit=limit, rounds=rounds, done=written)
        if options.data is not None and "kinds" in steps:
            found.update(measure_kinds(subjects, options.data, seconds=seconds, limit=limit))
            written(rows)
        if not options.quick and "weight" in steps:
            found["weight"] = [weight(pin) for pin in pins.values()]
            written(rows)
        if not options.quick and "memory" in steps:
            found["memory"] = memory(subjects, 10_000)
    finally:
        for subject in subjects:
            subject.stop()
    written(rows)
    print(f"{found['seconds']} s; written to {path}")


def before(path: Path, steps: Sequence[str]) -> dict[str, Any]:
    """What earlier runs found, less the steps that are measured now."""
    found: dict[str, Any] = {"rows": [], "memory": [], "weight": []}
    if path.exists() and set(steps) != set(ALL):
        found.update(json.loads(path.read_text(encoding="utf-8")))
        found["rows"] = [row for row in found["rows"] if row["step"] not in steps]
    return found


def add_run(
    runs: Sequence[dict[str, Any]], steps: Sequence[str], found: dict[str, Any]
) -> list[dict[str, Any]]:
    """Say where and when these steps were measured; they are no part of earlier runs any more."""
    earlier = [{**run, "steps": [step for step in run["steps"] if step not in steps]} for run in runs]
    now = {"steps": steps, **{key: found[key] for key in ("machine", "date", "load")}}
    return [*(run for run in earlier if run["steps"]), now]


def about(quick: bool) -> dict[str, Any]:  # noqa: FBT001  # a fact about the run
    """Where and when this is."""
    return {
        "command": f"python -m bench.speed{' --quick' if quick else ''}",
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "load": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    sys.exit(main())
