"""`refold eval retention`: what a view still holds of what a conversation goes on to need."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from refold.errors import RefoldError
from refold.evals import Screen, answers, planting, recalls, reuse, templates
from refold.evals.layouts import Dataset, read
from refold.evals.peers import PATIENCE, Peer, peer
from refold.evals.printing import printed
from refold.evals.ways import Contest, open_ways

ASKS: Final = True
EXAMPLES: Final = """\
  refold eval retention DATASET
  refold eval retention DATASET --policy refold --policy opal --sample 3
  refold eval retention DATASET --ask local --json retention.json
  refold eval retention DATASET --only planted --folds 1,3,10
  refold eval retention DATASET --peer langchain='python adapter.py'
"""
MEASURES: Final = ("reuse", "answers", "planted", "recall")
SHARES: Final = (0.05, 0.08, 0.1)
FACTS: Final = 30
"""Facts that are planted."""


def arguments(parser: ArgumentParser) -> None:
    """Say what the eval takes."""
    add = parser.add_argument
    add("dataset", metavar="DATASET", type=Path, help="a folder of data in a layout that is known, or a file")
    told = "a preset to measure; repeatable, or all; refold by default"
    add("--policy", metavar="NAME", action="append", default=[], help=told)
    told = "another system, as a program that speaks JSON lines; repeatable"
    add("--peer", metavar="NAME=COMMAND", action="append", default=[], help=told)
    told = "seconds that one fold of a peer may take, answers not counted (600); a late one is a failure"
    add("--peer-seconds", metavar="N", type=float, default=PATIENCE, help=told)
    told = "tokens of a view, as a share of the history; repeatable; 0.05, 0.08 and 0.1 by default"
    add("--share", metavar="SHARE", type=float, action="append", help=told)
    add("--folds", metavar="N,N", default="1,3,10", help="after how many folds to look; 1,3,10 by default")
    add("--sample", metavar="N", type=int, help="so many files of each folder")
    add("--seed", metavar="N", type=int, default=0, help="chooses the sample and the planted facts")
    told = f"one measure: {', '.join(MEASURES)}; repeatable; all by default"
    add("--only", metavar="MEASURE", choices=MEASURES, action="append", help=told)
    add("--json", metavar="FILE", type=Path, help="write the rows to this file as well")


def run(args: Namespace, screen: Screen) -> int:
    """Measure everything that the data has something for."""
    folds(args.folds)
    if not all(0 < share < 1 for share in args.share or SHARES):
        raise RefoldError("--share takes parts of the history between 0 and 1, as in 0.08")
    if args.sample is not None and args.sample < 1:
        raise RefoldError("--sample takes at least one file")
    if args.peer_seconds <= 0:
        raise RefoldError("--peer-seconds takes seconds above 0")
    others = [peer(text, args.peer_seconds) for text in args.peer]
    ways = open_ways(args.policy, others)
    found = read(args.dataset, sample=args.sample, seed=args.seed, told=screen.show)
    for name in found.passed_over:
        screen.note(f"refold: note: {name} has no layout that is known here")
    contest = Contest(ways, args.answerer, screen.show)
    try:
        rows = _measured(args, found, contest)
        return printed(rows, screen, args.json, about=_about(args, others))
    finally:
        for other in others:
            other.close()


def folds(text: str) -> list[int]:
    """The rounds that `1,3,10` names, in order."""
    try:
        rounds = sorted({int(word) for word in text.split(",")})
    except ValueError:
        rounds = []
    if not rounds or rounds[0] < 1 or rounds[-1] > 100:
        raise RefoldError(f"--folds takes numbers from 1 to 100, as in 1,3,10, not {text!r}")
    return rounds


def _about(args: Namespace, others: list[Peer]) -> dict[str, Any]:
    return {
        "summariser": args.ask or "none",
        "seed": args.seed,
        "sample": args.sample,
        "peers": {other.name: other.about() for other in others},
    }


def _measured(args: Namespace, found: Dataset, contest: Contest) -> Iterator[dict[str, Any]]:
    wanted, shares = args.only or MEASURES, args.share or SHARES
    runs = (("agent runs", found.runs), ("transcripts", found.transcripts))
    asked = [(name, talks) for name, talks in found.asked() if talks]
    for name, histories in runs if "reuse" in wanted else ():
        if histories:
            yield from reuse.measured(name, histories, contest, shares)
    for name, talks in asked if "answers" in wanted else ():
        yield from answers.measured(name, talks, contest, shares)
    if "planted" in wanted:
        yield from _planted(args, found, contest)
    for name, talks in asked if "recall" in wanted else ():
        yield from recalls.measured(name, talks, contest.told)


def _planted(args: Namespace, found: Dataset, contest: Contest) -> Iterator[dict[str, Any]]:
    pool, rounds = planting.pool_of(found, args.seed), folds(args.folds)
    sets = [(f"constraints ({name})", planting.rules(name)) for name in planting.SETS]
    for name, planted in (*sets, ("facts", planting.facts(FACTS, args.seed))):
        yield from planting.measured(name, planted, pool, contest, rounds)
    if found.templates:
        yield from templates.measured(found.templates, pool, contest, rounds)
