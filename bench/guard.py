"""Compare a quick run with the committed baseline and fail where we lost more than a fifth.

    python -m bench.guard [--update]     # after `bench.speed --quick` and `bench/instructions.py --quick`

Compared are ratios, ours to a peer's in the same run, and counts of our own work. Times move with the
machine: where the same work is counted in machine instructions and the count did not grow, a slower time is
called noise and does not fail; where only calls are counted, up to twice the time.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

BENCH: Final = Path(__file__).resolve().parent
BASELINE: Final = BENCH / "baseline.json"
LOSS: Final = 0.20
"""More work or time than this share above the baseline is a loss."""
SAME: Final = 0.05
"""A count that grew by less is the same work."""
DOUBLE: Final = 2.0
"""Calls do not see what happens in C: with the same calls a time is believed from here on."""


@dataclass(frozen=True)
class Finding:
    """One number beside its baseline."""

    name: str
    before: float
    now: float
    verdict: str
    """`kept`, `better`, `noise` or `lost`."""

    @property
    def line(self) -> str:
        """For people."""
        change = self.now / self.before - 1 if self.before else 0.0
        return f"{self.verdict:<7} {self.name}: {self.before:,.4g} -> {self.now:,.4g} ({change:+.0%})"


def ratios(speed: Mapping[str, Any]) -> dict[str, float]:
    """Our time as a share of each peer's, by step, size and peer."""
    ours = {
        (r["step"], r["messages"]): r["ms"] for r in speed["rows"] if r["subject"] == "refold" and "ms" in r
    }
    return {
        f"{row['step']} {row['messages']} / {row['subject']}": ours[row["step"], row["messages"]] / row["ms"]
        for row in speed["rows"]
        if "ms" in row
        and row["ms"] > 0
        and "refold" not in row["subject"]
        and (row["step"], row["messages"]) in ours
    }


def compared(baseline: Mapping[str, Any], now: Mapping[str, Any]) -> list[Finding]:
    """Every number that both have; the ratios of one step are judged together, by their median."""
    counts = [
        _judged(f"{work} {kind}", before, now["counts"][work][kind])
        for work, kinds in baseline["counts"].items()
        for kind, before in kinds.items()
        if kind in now["counts"].get(work, {})
    ]
    same = {found.name for found in counts if found.now <= found.before * (1 + SAME)}
    times = []
    for step in dict.fromkeys(name.split()[0] for name in baseline["ratios"]):
        both = [name for name in baseline["ratios"] if name.split()[0] == step and name in now["ratios"]]
        if not both:
            continue
        changes = sorted(now["ratios"][name] / baseline["ratios"][name] for name in both)
        # a peer that was disturbed moves its own ratio alone; a loss of ours moves all of them
        found = _judged(f"{step}, median of {len(both)} ratios", 1.0, changes[len(changes) // 2])
        counted = f"{step} instructions" in same or (f"{step} calls" in same and found.now < DOUBLE)
        noise = found.verdict == "lost" and counted
        times.append(Finding(found.name, 1.0, found.now, "noise") if noise else found)
    return counts + times


def _judged(name: str, before: float, now: float) -> Finding:
    verdict = "lost" if now > before * (1 + LOSS) else "better" if now < before * (1 - LOSS) else "kept"
    return Finding(name, before, now, verdict)


def gathered(speed: Path, counts: Path) -> dict[str, Any]:
    """What this run found, in the baseline's shape."""
    return {"ratios": ratios(json.loads(speed.read_text())), "counts": json.loads(counts.read_text())}


def main() -> None:
    """Compare, print, and say by the exit status whether something was lost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="make this run the baseline")
    parser.add_argument("--speed", type=Path, default=BENCH / "results" / "speed-quick.json")
    parser.add_argument("--counts", type=Path, default=BENCH / "results" / "instructions.json")
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    options = parser.parse_args()
    now = gathered(options.speed, options.counts)
    if options.update or not options.baseline.exists():
        options.baseline.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"written to {options.baseline}")
        return
    findings = compared(json.loads(options.baseline.read_text()), now)
    print(*(finding.line for finding in findings), sep="\n")
    lost = [finding for finding in findings if finding.verdict == "lost"]
    if lost:
        print(f"lost more than {LOSS:.0%} in {len(lost)}; if that is meant: python -m bench.guard --update")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
