"""`refold eval retention`: measure how much of what a conversation needs later is still in the view."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from refold.errors import RefoldError
from refold.evals import Screen
from refold.evals.datasets import Dataset, read_dataset
from refold.evals.measures import answers, planted_facts, reuse, templates
from refold.evals.methods import Comparison, open_methods
from refold.evals.peers import PATIENCE, parse_peer
from refold.evals.tables import print_rows

ASKS: Final = True
EXAMPLES: Final = """\
  refold eval retention DATASET
  refold eval retention DATASET --policy all --sample 3
  refold eval retention DATASET --ask local --json retention.json
  refold eval retention DATASET --only planted --folds 1,3,10
  refold eval retention DATASET --peer langchain='python adapter.py'
"""
MEASURES: Final = ("reuse", "answers", "planted", "recall")
SHARES: Final = (0.05, 0.08, 0.1)
FACTS: Final = 30
"""The number of planted facts."""


def arguments(parser: ArgumentParser) -> None:
    """Add the options of the eval."""
    add = parser.add_argument
    add("dataset", metavar="DATASET", type=Path, help="a folder of data in a layout that is known, or a file")
    text = "a preset to measure; repeatable, or all; refold by default"
    add("--policy", metavar="NAME", action="append", default=[], help=text)
    text = "another system, as a program that speaks JSON lines; repeatable"
    add("--peer", metavar="NAME=COMMAND", action="append", default=[], help=text)
    text = "seconds that one fold of a peer may take, answers not counted (600); a late one is a failure"
    add("--peer-seconds", metavar="N", type=float, default=PATIENCE, help=text)
    text = "tokens of a view, as a share of the history; repeatable; 0.05, 0.08 and 0.1 by default"
    add("--share", metavar="SHARE", type=float, action="append", help=text)
    add("--folds", metavar="N,N", default="1,3,10", help="after how many folds to look; 1,3,10 by default")
    add("--sample", metavar="N", type=int, help="so many files of each folder")
    add("--seed", metavar="N", type=int, default=0, help="chooses the sample and the planted facts")
    text = f"one measure: {', '.join(MEASURES)}; repeatable; all by default"
    add("--only", metavar="MEASURE", choices=MEASURES, action="append", help=text)


def run(args: Namespace, screen: Screen) -> int:
    """Run every measure that the data allows."""
    planted_facts.parse_folds(args.folds)
    if not all(0 < share < 1 for share in args.share or SHARES):
        raise RefoldError("--share takes parts of the history between 0 and 1, as in 0.08")
    if args.sample is not None and args.sample < 1:
        raise RefoldError("--sample takes at least one file")
    if args.peer_seconds <= 0:
        raise RefoldError("--peer-seconds takes seconds above 0")
    others = [parse_peer(text, args.peer_seconds) for text in args.peer]
    methods = open_methods(args.policy, others)
    dataset = read_dataset(args.dataset, sample=args.sample, seed=args.seed, progress=screen.show)
    for name in dataset.passed_over:
        screen.note(f"refold: note: {name} has no layout that is known here")
    contest = Comparison(methods, args.answerer, screen.show)
    try:
        rows = _measure_all(args, dataset, contest)
        about = {
            "summariser": args.ask or "none",
            "seed": args.seed,
            "sample": args.sample,
            "peers": {other.name: other.about() for other in others},
        }
        return print_rows(rows, screen, args.json, about=about)
    finally:
        for other in others:
            other.close()


def _measure_all(args: Namespace, dataset: Dataset, comparison: Comparison) -> Iterator[dict[str, Any]]:
    wanted, shares = args.only or MEASURES, args.share or SHARES
    runs = (("agent runs", dataset.runs), ("transcripts", dataset.transcripts))
    asked = [(name, talks) for name, talks in dataset.asked() if talks]
    for name, histories in runs if "reuse" in wanted else ():
        if histories:
            yield from reuse.measure_reuse(name, histories, comparison, shares)
    for name, talks in asked if "answers" in wanted else ():
        yield from answers.measure_answers(name, talks, comparison, shares)
    if "planted" in wanted:
        yield from _measure_planted(args, dataset, comparison)
    for name, talks in asked if "recall" in wanted else ():
        yield from answers.measure_recall(name, talks, comparison.progress)


def _measure_planted(args: Namespace, dataset: Dataset, comparison: Comparison) -> Iterator[dict[str, Any]]:
    pool, rounds = planted_facts.collect_talks(dataset, args.seed), planted_facts.parse_folds(args.folds)
    sets = [(f"constraints ({name})", planted_facts.read_rules(name)) for name in planted_facts.SETS]
    for name, planted in (*sets, ("facts", planted_facts.make_facts(FACTS, args.seed))):
        yield from planted_facts.measure_planted(name, planted, pool, comparison, rounds)
    if dataset.templates:
        yield from templates.measure_templates(dataset.templates, pool, comparison, rounds)
