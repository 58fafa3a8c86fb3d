"""`refold eval cost`: measure what folding costs and saves, beside the best policy that a search finds."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from refold.core.tokens.units import parse_tokens
from refold.evals import Screen
from refold.evals.cost_search import ALL, PRICES, WITHIN, Report, Row, measure
from refold.evals.tables import write_json

if TYPE_CHECKING:
    from refold.replay.player import Summaries

__all__ = ["EXAMPLES", "arguments", "measure", "run", "table"]

EXAMPLES: Final = """\
  refold eval cost DATASET
  refold eval cost DATASET --without-model --window 200k --json cost.json
"""


def arguments(parser: ArgumentParser) -> None:
    """Add the options of the eval."""
    parser.add_argument(
        "dataset", metavar="DATASET", help="a folder of agent runs and transcripts with usage"
    )
    parser.add_argument("--window", metavar="SIZE", default="200k", help="the window of the model (200k)")
    text = "only without summaries by a model, or only with stand-ins of their expected length"
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--without-model", action="store_true", help=text)
    group.add_argument("--with-model", action="store_true", help="the other of the two")
    parser.add_argument(
        "--sample", metavar="N", type=int, help="the first so many conversations of each kind"
    )


def run(args: Namespace, screen: Screen) -> int:
    """Measure, and show."""
    ways: tuple[Summaries, ...] = ("passed over", "stand-in")
    ways = ways[:1] if args.without_model else ways[1:] if args.with_model else ways
    report = measure(
        Path(args.dataset),
        window=parse_tokens(args.window, "--window"),
        summaries=ways,
        sample=args.sample,
        progress=screen.show,
    )
    for line in table(report):
        screen.line(line)
    write_json(screen, args.json, report.as_dict())
    return 0 if report.never_dearer else 1


def table(report: Report) -> list[str]:
    """Return the report in lines."""
    lines = [f"replayed in a window of {report.window:,}; prices of {', '.join(PRICES.values())}"]
    for kind, checked in report.simulated.items():
        lines.append(
            f"{kind}: the replay is {checked.size_error:.1%} from {checked.requests:,} reported sizes; "
            f"{checked.cached_simulated:.0%} from the cache, {checked.cached_reported:.0%} reported"
        )
    for row in report.rows:
        sizes = report.conversations
        lines += _lines(row, sum(sizes.values()) if row.kind == ALL else sizes[row.kind])
    lines.append("")
    lines.append(f"never dearer than no compaction (anthropic): {'yes' if report.never_dearer else 'no'}")
    within = "yes" if report.within else "no"
    lines.append(f"thrifty within {WITHIN:.0%} of the best found (anthropic): {within}")
    return lines


def _lines(row: Row, count: int) -> list[str]:
    how = "without a model" if row.summaries == "passed over" else "summaries as long as expected"
    lines = [
        "",
        f"{row.kind}, {count:,} conversations, {row.price}, {how}: ${row.none:,.2f} without compaction",
    ]
    lines.append(f"  {'':<10}{'dollars':>10}{'':>8}{'folds':>7}{'facts':>7}{'dearer':>8}{'worst':>7}")
    named = [*((each.policy, each) for each in row.bills), ("best", row.best), ("cheapest", row.cheapest)]
    for name, each in named:
        facts = "" if each.facts is None else f"{each.facts:.0%}"
        sums = f"{each.dollars:>10,.2f}{each.against_none:>+8.1%}{each.folds:>7,}{facts:>7}"
        knobs = each.policy if name in {"best", "cheapest"} else ""
        lines.append(f"  {name:<10}{sums}{each.dearer:>8}{each.worst:>7.2f}  {knobs}".rstrip())
    lines.append(f"  thrifty is {row.gap:.1%} from the best")
    return lines
