"""What is kept beside other libraries: the same summariser, the same tokens for the view, the same data.

    python -m bench.retention DATASET                    with bench/extractive.py, which needs no weights
    python -m bench.retention DATASET --model FILE.gguf  with a real model on this machine, in short talks

Every library is set up by its adapter under bench/peers/ and runs in an environment of its own, which is made
when it is missing. A fold that fails or takes longer than it may is counted and said; the others go on. Rows
are written as they come: bench/results/retention-peers.json and retention-model.json.
"""

import argparse
import json
import os
import platform
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench import peering, retention_model
from bench.extractive import Extractive

from refold.evals.datasets import Dataset, read_dataset
from refold.evals.measures import answers, planted_facts, reuse
from refold.evals.methods import Comparison, Method, Wire, open_methods
from refold.evals.peers import MOST_ASKS, Peer, PeerFailed
from refold.evals.tables import format_row

RESULTS: Final = peering.BENCH / "results"
RUNS, TALKS, RULES, FACTS, ROUNDS = 8, 20, 30, 20, (1, 3, 10)
"""Agent runs, talks with questions, planted rules and facts, and after how many folds one looks for them."""
REUSED, ANSWERED = 0.08, 0.10
"""Tokens of a view as a share of the history, for what is re-used and for answers."""
SECONDS: Final = 30.0
"""That one fold of a library may take, beside the summariser's time."""
ALONE: Final = "refold, no model"


def measured(found: Dataset, comparison: Comparison, seed: int, only: str = "") -> Iterator[dict[str, Any]]:
    """The rows of all measures, or of one kind."""
    for kind, made in MEASURES.items():
        if only in {"", kind}:
            yield from made(found, comparison, seed)


def _reused(found: Dataset, comparison: Comparison, seed: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(seed)  # noqa: S311  # the same runs for everybody
    runs = chance.sample(found.runs, min(RUNS, len(found.runs)))
    if runs:
        yield from reuse.measure_reuse("agent runs", runs, comparison, (REUSED,))
    if found.transcripts:
        yield from reuse.measure_reuse("transcripts", found.transcripts, comparison, (REUSED,))


def _answered(found: Dataset, comparison: Comparison, _seed: int) -> Iterator[dict[str, Any]]:
    for name, talks in found.asked():
        if talks:
            kinds = (answers.ANYWHERE, answers.WORDS)
            yield from answers.measure_answers(name, talks[:TALKS], comparison, (ANSWERED,), kinds)


def _planted(found: Dataset, comparison: Comparison, seed: int) -> Iterator[dict[str, Any]]:
    pool = planted_facts.collect_talks(found, seed)
    sets = {
        "constraints (fresh)": planted_facts.read_rules("fresh")[:RULES],
        "facts": planted_facts.make_facts(FACTS, seed),
    }
    for name, planted in sets.items():
        yield from planted_facts.measure_planted(name, planted, pool, comparison, ROUNDS)


MEASURES: Final = {"reuse": _reused, "answers": _answered, "planted": _planted}


def taught(ways: Sequence[Method], seed: int) -> Extractive:
    """The summariser, when it has heard every way's instructions over two talks that share nothing."""
    made = Extractive()
    quiet = Comparison(ways, made, lambda *_: None)
    for way in ways:
        heard: list[list[set[str]]] = []
        for number in (1, 2):
            made.heard = []
            pool = planted_facts.collect_talks(Dataset(), seed + number)
            rounds = planted_facts.Rounds(way, quiet, pool, 2)
            planted_facts.fold_rounds(rounds, planted_facts.next_talk(pool, 0)[0], 9, lambda *_: None)
            heard.append(made.heard)
        made.learn(*heard)
    made.heard = None
    return made


def others(options: argparse.Namespace) -> tuple[list[Peer], dict[str, Any], dict[str, str]]:
    """The libraries that take part, their versions, and who is left out and why; with a model, who asks."""
    taking, versions, left = [], {}, {}
    for pin in peering.pins():
        if options.only and pin.name not in options.only.split(","):
            continue
        ready = "" if pin.ready else "its environment was not made"
        if reason := peering.made(pin) if options.peers == "all" else ready:
            left[pin.name] = reason
            continue
        for way in pin.asks if options.model else pin.ways:
            words = (str(pin.python), str(peering.BENCH / "peers" / pin.adapter), way)
            asks = retention_model.MOST_ASKS if options.model else MOST_ASKS
            one = Peer(f"{pin.name} {way}", words, options.seconds, asks)
            try:
                versions[one.name] = one.about().get("version", "?")
            except PeerFailed as failed:
                left[one.name] = str(failed)
                continue
            taking.append(one)
    return taking, versions, left


@dataclass
class Record:
    """The result as a file that grows with every row."""

    file: Path
    about: dict[str, Any]
    measure: str = ""
    """The one kind that is measured; what the file has of the others stays."""
    began: float = field(default_factory=time.monotonic)
    date: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="minutes"))
    load: float = field(default_factory=lambda: round(os.getloadavg()[0], 1))
    before: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.measure and self.file.exists():
            self.before = json.loads(self.file.read_text(encoding="utf-8"))

    def put(self, rows: Sequence[dict[str, Any]], *, whole: bool = False) -> None:
        """Write these rows, in place of those of the same measures."""
        run = {
            "date": self.date,
            "measure": self.measure,
            "seconds": round(time.monotonic() - self.began),
            "load": self.load,
            "whole": whole,
        }
        names = {row["measure"] for row in rows}
        others = [row for row in self.before.get("rows", ()) if row["measure"] not in names]
        told = {**self.about, "runs": [*self.before.get("runs", ()), run], "rows": [*rows, *others]}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def told(doing: str, done: int = 0, whole: int = 0) -> None:
    """Say on a terminal how far it is."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{doing}  {done}/{whole}")
        sys.stderr.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("dataset", type=Path, metavar="DATASET")
    add("--model", metavar="FILE", help="a GGUF file, or `local` for the model that was fetched")
    add("--minutes", type=float, default=30, help="with a model: no new talk is begun after so many (30)")
    add("--peers", choices=("all", "ready"), default="all", help="make missing environments, or leave out")
    add("--measure", choices=MEASURES, default="", help="one kind; the file's rows of the others stay")
    add("--only", default="", metavar="A,B", help="these libraries alone")
    add("--seconds", type=float, default=SECONDS, help="that one fold of a library may take (30)")
    add("--seed", type=int, default=0)
    add("--json", type=Path, help="another file than under bench/results/")
    return parser.parse_args()


def main() -> None:
    """Measure what was asked for."""
    options = _arguments()
    taking, versions, left = others(options)
    about = {
        "command": f"python -m bench.retention DATASET{' --model FILE' if options.model else ''}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "python": platform.python_version(),
        "seed": options.seed,
        "versions": versions,
        "left_out": left,
    }
    try:
        if options.model:
            _with_model(options, taking, about)
        else:
            _without(options, taking, about)
    finally:
        for one in taking:
            one.close()


def _ways(policies: Sequence[str], taking: Sequence[Peer]) -> list[Method]:
    """Ours, ours without the summariser, the plain ways and the libraries."""
    ways = open_methods(policies, taking)
    house = next(way for way in ways if way.name == "refold")

    def alone(history: Wire, budget: int, _ask: Any) -> Wire:
        return house.fold(history, budget, None)

    mine = [house, replace(house, name=ALONE, fold=alone)]
    return [*mine, *(way for way in ways if way is not house)]


def _without(options: argparse.Namespace, taking: Sequence[Peer], about: dict[str, Any]) -> None:
    ways = _ways(["all"], taking)
    record = Record(
        options.json or RESULTS / "retention-peers.json",
        about | {"summariser": "bench/extractive.py"},
        options.measure,
    )
    found = read_dataset(options.dataset, seed=options.seed, progress=told)
    contest = Comparison(ways, taught(ways, options.seed), told)
    rows: list[dict[str, Any]] = []
    for row in measured(found, contest, options.seed, options.measure):
        rows.append(row)
        record.put(rows)
        print(f"{row['measure']:<48} {format_row(row)}{_failures(row)}", flush=True)
    record.put(rows, whole=True)


def _with_model(options: argparse.Namespace, taking: Sequence[Peer], about: dict[str, Any]) -> None:
    ways = _ways(["refold"], taking)
    with retention_model.Model(options.model) as model:
        about |= {"summariser": model.name, "summary_tokens": retention_model.SUMMARY_TOKENS}
        record = Record(options.json or RESULTS / "retention-model.json", about)
        found = read_dataset(options.dataset, seed=options.seed, progress=told)
        rows: list[dict[str, Any]] = []
        contest = Comparison(ways, model, told)
        for rows in retention_model.measured(found, contest, options.seed, options.minutes):
            record.put(rows)
        record.put(rows, whole=True)


def _failures(row: dict[str, Any]) -> str:
    return f"  {row['failed']} of {row['folds_tried']} failed: {row['why'][:80]}" if row.get("failed") else ""


if __name__ == "__main__":
    main()
