"""What a replay came to, for people: a table, pictures of the context, and the break-even of each fold."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from refold.cli.options.shared import Given, headline
from refold.cli.output.plots import chart, columns_of, marks
from refold.cli.output.screen import Screen, Style
from refold.cli.output.tables import columns, filled
from refold.core.tokens.units import plural
from refold.replay import NONE, Played, Recorded, Run

HEIGHT: Final = 4
"""Lines of a picture: enough to see a saw, few enough for five policies on a screen."""
LISTED: Final = 8
"""Folds of a run that are listed; the others are in --json."""
MARGIN: Final = 9
"""Columns of what stands left of a picture."""


def show(given: Given, recorded: Recorded, runs: Sequence[Run], screen: Screen) -> None:
    """Show the runs, window by window."""
    facts = [
        recorded.wire.name,
        plural(len(recorded.messages), "message"),
        plural(len(recorded.requests), "request"),
    ]
    priced = given.args.price_of or recorded.model
    facts += [f"prices of {priced}"] if runs[0].price else []
    screen.line(headline(given, facts, screen))
    for window, group in groupby(runs, key=lambda run: run.window):
        here = list(group)
        screen.line()
        screen.line(screen.paint(f"window {window:,}", "bold"))
        _table(here, screen)
        _pictures(here, screen)
        _folds(here, screen)
    screen.line()
    for note in notes(runs):
        screen.line(screen.paint(note, "dim"))


def dollars(amount: float | None) -> str:
    """Money in as many digits as tell something.

    >>> dollars(1234.5), dollars(0.0123), dollars(-2)
    ('$1,234.50', '$0.0123', '-$2.00')
    """
    if amount is None:
        return "-"
    sign = "-" if amount < 0 else ""
    return f"{sign}${abs(amount):,.2f}" if abs(amount) >= 1 or not amount else f"{sign}${abs(amount):.4f}"


def against(run: Run, none: Run) -> str:
    """How much dearer or cheaper than no compaction."""
    if run.dollars is None or not none.dollars:
        return "-"
    return f"{run.dollars / none.dollars - 1:+.1%}" if run is not none else ""


def _table(runs: Sequence[Run], screen: Screen) -> None:
    head = ["policy", "sent", "cache read", "written", "cost", "", "folds", "paid", "facts", "largest", ""]
    rows = [head]
    for run in runs:
        written = run.cache_write + sum(turn.fresh for turn in run.turns)
        rows.append(
            [
                run.policy,
                f"{run.sent:,}",
                f"{run.cache_read:,}",
                f"{written:,}",
                dollars(run.dollars),
                against(run, runs[0]),
                f"{len(run.folds):,}" if run.policy != NONE else "",
                f"{run.paid:,}" if run.folds and run.price else "",
                "" if run.facts is None else f"{run.facts:.0%}",
                f"{run.peak:,}",
                "over" if run.over else "",
            ]
        )
    for number, line in enumerate(columns(*filled(rows, "lrrrrrrrrrl"))):
        screen.line("  " + (line if number else screen.paint(line, "bold")))


def _pictures(runs: Sequence[Run], screen: Screen) -> None:
    """The size of each request; all runs of a window have the same scale."""
    top = max(run.peak for run in runs)
    width = screen.width - MARGIN - 2
    for run in runs:
        screen.line()
        drawn = chart(columns_of([turn.tokens for turn in run.turns], width), top, HEIGHT, screen)
        drawn = [line for line in drawn if line] or [""]
        style: Style = "red" if run.over else "green" if run.policy != NONE else "plain"
        for number, line in enumerate(drawn):
            label = run.policy[: MARGIN - 1] if number == 0 else _short(run.peak) if number == 1 else ""
            screen.line(f"  {label:<{MARGIN}}{screen.paint(line, style)}".rstrip())
        if run.folds:
            places = [fold.turn - 1 for fold in run.folds]
            screen.line(f"  {'folds':<{MARGIN}}{marks(places, len(run.turns), width, screen)}")


def _short(tokens: int) -> str:
    return f"{tokens / 1000:,.0f}k" if tokens >= 10_000 else f"{tokens:,}"


def _folds(runs: Sequence[Run], screen: Screen) -> None:
    for run in runs:
        if not run.folds:
            continue
        screen.line()
        screen.line(screen.paint(f"  folds of {run.policy}", "bold"))
        rows = [["turn", "tokens", "", "after", "cost", "pays after", "came", "paid", "facts", "by"]]
        rows += [_fold(fold) for fold in run.folds[:LISTED]]
        table = columns(*filled([row[:-1] for row in rows], "rrlrrrrlr"), padded=True)
        for line, (*_, by) in zip(table, rows, strict=True):
            room = max(12, screen.width - len(line) - 6) if screen.live else 2 * len(by)
            screen.line(f"    {line}  {screen.short(by, room)}".rstrip())
        if len(run.folds) > LISTED:
            screen.line(f"    and {len(run.folds) - LISTED:,} more: --json has them all")


def _fold(fold: Played) -> list[str]:
    needed = "-" if fold.turns_needed is None else f"{fold.turns_needed:,.1f} turns"
    paid = "-" if fold.paid is None else "yes" if fold.paid else "no"
    facts = f"{fold.kept} of {fold.reused}" if fold.reused else ""
    sizes = [f"{fold.tokens_before:,}", "→", f"{fold.tokens_after:,}"]
    return [
        f"{fold.turn:,}",
        *sizes,
        dollars(fold.dollars),
        needed,
        f"{fold.turns_came:,}",
        paid,
        facts,
        ", ".join(fold.stages),
    ]


def notes(runs: Sequence[Run]) -> list[str]:
    """What a reader has to know to read the numbers right."""
    found = []
    none = next((run for run in runs if run.policy == NONE and run.over), None)
    if none is not None:
        found.append(
            "none goes on beyond the window, where a provider refuses: it is what it would have cost"
        )
    models = {run.model for run in runs if run.calls.calls}
    if "stand-in" in models:
        found.append(
            "summaries are stand-ins of the expected length that hold no facts; --ask makes real ones"
        )
    if runs[0].price is None:
        found.append("no price is known: name a model with --price-of")
    if any(run.folds for run in runs):
        found.append(
            "came: turns until the next fold or the end; facts: what is used again and still in view"
        )
    return found
