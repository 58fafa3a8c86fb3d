"""`refold eval counts`: how far our count is from what providers reported, request by request."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any, Final

import refold
from refold.core.compaction.budget import Trigger
from refold.errors import RefoldError
from refold.evals import Screen
from refold.evals.tables import write_json
from refold.evals.traces import read_traces
from refold.policies import presets
from refold.replay import Recorded

EXAMPLES: Final = """\
  refold eval counts DATASET
  refold eval counts DATASET --json counts.json
"""
LONG: Final = 30_000
"""Tokens from which on a request is a long one."""
LEAST_AFTER: Final = 0.75
"""Share of the last size below which the agent has folded; compactions that were recorded left 0.24."""
WINDOW: Final = 100_000_000
"""Nothing is cut off."""


def arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the eval."""
    parser.add_argument(
        "dataset", metavar="DATASET", help="a folder of agent runs and transcripts with usage"
    )


def run(args: Namespace, screen: Screen) -> int:
    """Measure, and show."""
    rows = measure(Path(args.dataset), screen)
    screen.line(f"{'':<24} {'requests':<22} {'count':>6}   mean    p95   bias")
    for row in rows:
        screen.line(
            f"{row['kind']:<24} {row['way']:<22} {row['requests']:>6,} {row['mean']:6.2%} {row['p95']:6.2%}"
            f" {row['bias']:+6.2%}"
        )
    write_json(screen, args.json, {"command": "refold eval counts DATASET", "rows": rows})
    return 0


def measure(folder: Path, screen: Screen) -> list[dict[str, Any]]:
    """Return one row for each kind of data and each method of counting."""
    rows: list[dict[str, Any]] = []
    for kind, recorded in read_traces(folder).items():
        errors: dict[str, list[float]] = {}
        text = [conversation for conversation in recorded if len(conversation.usages) > 1]
        for number, conversation in enumerate(text):
            screen.show(f"{kind}: {conversation.name}", number, len(text))
            for method, error in _request_errors(conversation):
                errors.setdefault(method, []).append(error)
        rows += [_make_row(kind, method, method_errors) for method, method_errors in errors.items()]
    if not rows:
        raise RefoldError(f"{folder} holds no agent runs or transcripts with reported usage")
    return rows


def _request_errors(conversation: Recorded) -> Iterator[tuple[str, float]]:
    """Yield the errors of one conversation, request by request, as shares of the reported size.

    A report that is much smaller than the one before means that the agent itself has folded. What it sent
    then is not in the recording, so the messages from there on are measured as a conversation of their own.
    """
    reported = sorted(conversation.usages.items())
    folded = [
        place
        for (_, before), (place, now) in pairwise(reported)
        if now.context < LEAST_AFTER * before.context
    ]
    for start, end in pairwise([0, *(place - 1 for place in folded), len(conversation.messages)]):
        yield from _errors_between(conversation, start, end)


def _errors_between(conversation: Recorded, start: int, end: int) -> Iterator[tuple[str, float]]:
    """Yield the errors of a part of a conversation between two folds of the agent's own."""
    policy = replace(presets.get("refold"), trigger=Trigger(enabled=False))
    characters = 0
    with refold.open(
        "counts", store="memory:", window=WINDOW, policy=policy, format=conversation.format
    ) as session:
        before = 0
        for index in range(start, end):
            message, usage = conversation.messages[index], conversation.usages.get(index)
            if usage is not None and index > start:
                used = session.prepare().budget.used
                yield from _count_errors(used, characters, usage.context, before)
                session.observe(usage)
                before = usage.context
            session.say(message)
            characters += len(str(message.get("content")))


def _count_errors(used: int, characters: int, real: int, before: int) -> Iterator[tuple[str, float]]:
    if not before:
        yield "first request", used / real - 1
    elif real >= before:  # thinking that is not sent again makes a request a little smaller
        yield "later requests", used / real - 1
        yield "characters / 4", characters / 4 / real - 1
        if real >= LONG:
            yield f"over {LONG:,} tokens", used / real - 1


def _make_row(kind: str, method: str, errors: Sequence[float]) -> dict[str, Any]:
    ranked = sorted(map(abs, errors))
    return {
        "kind": kind,
        "way": method,
        "requests": len(errors),
        "mean": mean(ranked),
        "p95": ranked[min(len(ranked) - 1, int(0.95 * len(ranked)))],
        "bias": mean(errors),
    }
