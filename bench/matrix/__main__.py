"""Run the matrix, print it, write bench/results/matrix.json, docs/torture.md and its data."""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench import peering
from bench.matrix import __doc__ as about
from bench.matrix import cases_loops, cases_shapes, cases_words, page
from bench.matrix.subjects import CASES, Subject, judged

from refold.tokenizers import exact

RESULTS: Final = peering.BENCH / "results" / "matrix.json"
DOCS: Final = peering.BENCH.parent / "docs"
POLICIES: Final = peering.OURS.ways[:6]
_FILES: Final = (cases_loops, cases_shapes, cases_words)


def column(pin: peering.Pin, way: str, only: str) -> dict[str, Any]:
    """Every case against one subject."""
    cells = {}
    with peering.Peer(pin, way, counter=exact.make_counter("o200k")) as peer:
        version = peer.call("about").get("version", "?")
        subject = Subject(peer)
        for this in sorted(CASES, key=lambda each: each.name):
            if only in ("", this.name):
                cells[this.name] = judged(this, subject)
    print(f"{pin.name} {way}: {_told(cells)}", flush=True)
    return {"name": pin.name, "way": way, "version": version, "cells": cells}


def _told(cells: dict[str, dict[str, Any]]) -> str:
    verdicts = [cell["verdict"] for cell in cells.values()]
    return ", ".join(f"{word} {verdicts.count(word)}" for word in ("survives", "stops", "breaks", "n/a"))


def subjects(wanted: str, only: str) -> tuple[list[tuple[peering.Pin, str]], dict[str, str]]:
    """Whom to run, and who is left out and why."""
    chosen = [(peering.OURS, way) for way in POLICIES]
    left: dict[str, str] = {}
    for pin in peering.pins() if wanted != "none" else ():
        reason = peering.made(pin) if wanted == "all" else "" if pin.ready else "its environment was not made"
        left.update({pin.name: reason} if reason else {})
        chosen += [] if reason else [(pin, way) for way in pin.ways]
    return [(pin, way) for pin, way in chosen if only in ("", pin.name, way, f"{pin.name} {way}")], left


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="one subject: a peer, a way of it, or a policy")
    parser.add_argument("--case", default="", help="one case, such as A1")
    parser.add_argument("--peers", choices=("all", "ready", "none"), default="all")
    parser.add_argument("--json", type=Path, help="another file than bench/results/matrix.json")
    options = parser.parse_args()
    began = time.monotonic()
    chosen, left = subjects(options.peers, options.only)
    with ThreadPoolExecutor(2) as pool:
        columns = list(pool.map(lambda pair: column(*pair, options.case), chosen))
    found = {
        "command": "python -m bench.matrix",
        "date": datetime.now(UTC).date().isoformat(),
        "python": sys.version.split()[0],
        "seconds": round(time.monotonic() - began),
        "left_out": left,
        "columns": columns,
    }
    if options.only or options.case:
        for told in columns:
            for name, cell in told["cells"].items():
                print(
                    f"  {told['name']} {told['way']:<14} {name:<3} {cell['verdict']:<9}"
                    f" {cell['calls']:>2} {cell['how']}"
                )
    whole = not (options.only or options.case or options.peers == "none")
    path = options.json or (RESULTS if whole else None)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if whole and not options.json:
        (DOCS / "torture.md").write_text(page.summarize(found, CASES), encoding="utf-8")
        (DOCS / "data" / "torture.md").write_text(page.written(found, CASES), encoding="utf-8")


if __name__ == "__main__":
    main()
