"""Run the campaigns in order, print a table, write the results; exit 1 where anything was found wrong."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.torture import __doc__ as about
from bench.torture.ground import ROOT

from refold.stores.sqlite.driver import choose_driver

_RESULTS: Final = ROOT / "bench" / "results"
_TOLD_ANYWAY: Final = frozenset({"seconds", "wrong"})


def _kills(*, seed: int, quick: bool, jobs: int) -> dict[str, Any]:
    from bench.torture import failpoints, kills

    numbers = {"sqlite": 35, "jsonl": 15} if quick else {"sqlite": 700, "jsonl": 300}
    found = kills.campaign(seed=seed, jobs=jobs, **numbers)
    points = failpoints.campaign(rounds=1 if quick else 5)
    return {
        **found,
        "failpoints": points,
        "wrong": found["wrong"] + points["wrong"],
        "faults": found["faults"] + points["faults"],
    }


def _power(*, seed: int, quick: bool, jobs: int) -> dict[str, Any]:
    from bench.torture import power

    return power.campaign(seed=seed, images=300 if quick else 12_000, told=_said, jobs=jobs)


def _faults(*, seed: int, quick: bool, jobs: int) -> dict[str, Any]:  # noqa: ARG001  # every place, no chance
    from bench.torture import faults

    return faults.campaign(most=8 if quick else 200, told=_said)


def _outages(*, seed: int, quick: bool, jobs: int) -> dict[str, Any]:
    from bench.torture import outages

    return outages.campaign(seed=seed, count=20 if quick else 2_000, jobs=jobs)


def _writers(*, seed: int, quick: bool, jobs: int) -> dict[str, Any]:  # noqa: ARG001  # the processes are the chance
    from bench.torture import writers

    return writers.campaign(appends=50 if quick else 5_000, told=_said)


def _interleavings(*, seed: int, quick: bool, jobs: int) -> dict[str, Any]:
    from bench.torture import interleavings

    return interleavings.campaign(seed=seed, count=200 if quick else 10_000, jobs=jobs)


def _wires(*, seed: int, quick: bool, jobs: int) -> dict[str, Any]:
    from bench.torture import wires

    return wires.campaign(seed=seed, count=100 if quick else 10_000, told=_said, jobs=jobs)


def _native(*, seed: int, quick: bool, jobs: int) -> dict[str, Any]:
    from bench.torture import native

    return native.campaign(seed=seed, count=10 if quick else 100, told=_said, jobs=jobs)


def _binding(*, seed: int, quick: bool, jobs: int) -> dict[str, Any]:
    from bench.torture import binding

    return binding.campaign(seed=seed, turns=20 if quick else 300, told=_said, jobs=jobs)


def _postgres(*, seed: int, quick: bool, jobs: int) -> dict[str, Any]:  # noqa: ARG001  # the kills are the chance
    """bench/replicas.py, a program of its own."""
    times = ["--seconds", "10", "--kill-every", "2", "--restart-every", "4"]
    if not quick:
        times = ["--seconds", "180", "--kill-every", "5", "--restart-every", "15"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        words = [sys.executable, "bench/replicas.py", *times, "--least", "50", "--json", str(path)]
        done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True)
        if not path.exists():
            return {"wrong": 1, "faults": [done.stderr[-1_000:]]}
        found: dict[str, Any] = json.loads(path.read_text())
    wrong = sum(found[key] for key in ("lost", "twice", "refused_but_stored", "out_of_order", "branches"))
    wrong += len(found["troubles"])
    return {**found, "wrong": wrong or int(done.returncode != 0), "faults": found["troubles"]}


def _said(line: str) -> None:
    print(f"    {line}", flush=True)


CAMPAIGNS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "kills": _kills,
    "power": _power,
    "faults": _faults,
    "outages": _outages,
    "writers": _writers,
    "interleavings": _interleavings,
    "wires": _wires,
    "native": _native,
    "binding": _binding,
    "postgres": _postgres,
}


def run(name: str, *, seed: int, quick: bool, jobs: int) -> dict[str, Any]:
    """One campaign; what it found, with the command that does it again."""
    load = os.getloadavg()[0]
    begun = time.monotonic()
    found = CAMPAIGNS[name](seed=seed, quick=quick, jobs=jobs)
    command = f"python -m bench.torture --only {name} --seed {seed}{' --quick' if quick else ''}"
    return {
        "command": command,
        "machine": {
            "cores": os.cpu_count(),
            "load_before": round(load, 1),
            "python": platform.python_version(),
            "sqlite": ".".join(map(str, choose_driver().version)),
            "system": f"{platform.system()} {platform.release()}",
        },
        "seconds": round(time.monotonic() - begun, 1),
        **found,
    }


def _line(name: str, found: dict[str, Any]) -> str:
    facts = [key for key, value in found.items() if isinstance(value, int | float)]
    told = ", ".join(f"{key.replace('_', ' ')} {found[key]:,}" for key in facts if key not in _TOLD_ANYWAY)
    return f"{name:<14} {found['wrong']:>5} wrong  {found['seconds']:>7,.0f} s  {told}"


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.torture", description=about, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a short form of each; writes no results")
    parser.add_argument("--only", choices=CAMPAIGNS, help="one campaign")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes that share the work")
    options = parser.parse_args()
    lines, wrong = [], 0
    for name in [options.only] if options.only else CAMPAIGNS:
        print(f"{name} ...", flush=True)
        found = run(name, seed=options.seed, quick=options.quick, jobs=options.jobs)
        if not options.quick:
            path = _RESULTS / f"torture-{name}.json"
            path.write_text(json.dumps(found, indent=2) + "\n")
        lines.append(_line(name, found))
        for fault in found["faults"]:
            _said(fault)
        wrong += found["wrong"]
        print(lines[-1], flush=True)
    print("", *lines, sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
