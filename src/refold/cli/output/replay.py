"""The result of a replay for people: a table, charts of the context size, and the break-even of each fold."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from refold.cli.output.screen import Screen, Style
from refold.cli.output.text import drop_empty_columns
from refold.core.tokens.units import format_count
from refold.replay import NONE, Recorded, ReplayedSaving, Run

HEIGHT: Final = 4
"""Lines of a chart: a sawtooth is visible, and five policies fit on one screen."""
LISTED: Final = 8
"""Folds of a run that are listed; --json has them all."""
MARGIN: Final = 9
"""Columns of the label to the left of a chart, at least."""
LABEL: Final = 24
"""Columns of the longest label: a longer name of a strategy would leave no room for the chart."""
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_ASCII: Final = " .:#"
"""Cells from empty to full."""


def show_replay(
    recorded: Recorded,
    runs: Sequence[Run],
    screen: Screen,
    *,
    price_of: str | None,
    savings: Sequence[ReplayedSaving],
) -> None:
    """Print the runs, window by window.

    price_of   the model whose prices were used
    savings    what `thrifty` would save in each window; empty if it is among the runs or no price is known
    """
    facts = [
        recorded.wire.name,
        format_count(len(recorded.messages), "message"),
        format_count(len(recorded.requests), "request"),
    ]
    facts += [f"prices of {price_of}"] if runs[0].price else []
    screen.headline(recorded.name, facts)
    for window, group in groupby(runs, key=lambda run: run.window):
        same_window = list(group)
        screen.line()
        screen.line(screen.paint(f"window {window:,}", "bold"))
        rows = [
            ["policy", "sent", "cache read", "written", "cost", "", "folds", "paid", "facts", "largest", ""],
            *(_run_row(run, same_window[0]) for run in same_window),
        ]
        screen.table(*drop_empty_columns(rows, "lrrrrrrrrrl"), indent="  ")
        for saving in savings:
            if saving.window == window:
                screen.line(screen.paint(f"  {saving}", "dim"))
        _show_charts(same_window, screen)
        for run in same_window:
            if run.folds:
                _show_folds(run, screen)
    screen.line()
    for note in reading_notes(runs):
        screen.line(screen.paint(note, "dim"))


def format_money(amount: float | None) -> str:
    """Return an amount that may be negative or unknown.

    >>> format_money(1234.5), format_money(0.0123), format_money(-2)
    ('$1,234.50', '$0.0123', '-$2.00')
    """
    if amount is None:
        return "-"
    sign = "-" if amount < 0 else ""
    return f"{sign}${abs(amount):,.2f}" if abs(amount) >= 1 or not amount else f"{sign}${abs(amount):.4f}"


def _run_row(run: Run, none: Run) -> list[str]:
    """One run in a row; `none` is the run without compaction, against which the cost is compared."""
    change = "-" if run.dollars is None or not none.dollars else f"{run.dollars / none.dollars - 1:+.1%}"
    return [
        run.policy,
        f"{run.sent:,}",
        f"{run.cache_read:,}",
        f"{run.cache_write + sum(turn.fresh for turn in run.turns):,}",
        format_money(run.dollars),
        "" if run is none and change != "-" else change,
        f"{len(run.folds):,}" if run.policy != NONE else "",
        f"{run.paid:,}" if run.folds and run.price else "",
        "" if run.facts is None else f"{run.facts:.0%}",
        f"{run.peak:,}",
        "over" if run.over else "",
    ]


def _show_charts(runs: Sequence[Run], screen: Screen) -> None:
    """Print the size of each request as a chart; all runs of a window have the same scale."""
    top = max(run.peak for run in runs)
    margin = max(MARGIN, *(min(len(run.policy), LABEL) + 1 for run in runs))
    width = screen.width - margin - 2
    for run in runs:
        screen.line()
        lines = chart(fit_columns([turn.tokens for turn in run.turns], width), top, HEIGHT, screen)
        style: Style = "red" if run.over else "green" if run.policy != NONE else "plain"
        peak = f"{run.peak / 1000:,.0f}k" if run.peak >= 10_000 else f"{run.peak:,}"
        for number, line in enumerate([line for line in lines if line] or [""]):
            label = run.policy[: margin - 1] if number == 0 else peak if number == 1 else ""
            screen.line(f"  {label:<{margin}}{screen.paint(line, style)}".rstrip())
        if run.folds:
            places = [fold.turn - 1 for fold in run.folds]
            screen.line(f"  {'folds':<{margin}}{mark_places(places, len(run.turns), width, screen)}")


def fit_columns(values: Sequence[float], width: int) -> list[float]:
    """Return the values, at most one per column; if there are more, each column shows its largest value.

    >>> fit_columns([1, 5, 2, 3], 2)
    [5, 3]
    """
    count = len(values)
    if count <= width:
        return list(values)
    return [max(values[at * count // width : (at + 1) * count // width]) for at in range(width)]


def chart(values: Sequence[float], top: float, height: int, screen: Screen) -> list[str]:
    """Return a chart as lines, the highest line first; any value above zero is visible."""
    ink = _BLOCKS if screen.fancy else _ASCII
    steps = len(ink) - 1
    levels = [0 if value <= 0 else max(1, round(value / top * height * steps)) for value in values]
    return [
        "".join(ink[min(steps, max(0, level - row * steps))] for level in levels).rstrip()
        for row in range(height - 1, -1, -1)
    ]


def mark_places(places: Sequence[int], count: int, width: int, screen: Screen) -> str:
    """Return a line with a mark under each place, of `count` places in all."""
    drawn = [" "] * min(count, width)
    for place in places:
        drawn[place if count <= width else place * width // count] = "▴" if screen.fancy else "^"
    return "".join(drawn).rstrip()


def _show_folds(run: Run, screen: Screen) -> None:
    screen.line()
    screen.line(screen.paint(f"  folds of {run.policy}", "bold"))
    rows = [["turn", "tokens", "", "after", "cost", "pays after", "came", "paid", "facts", "by"]]
    for fold in run.folds[:LISTED]:
        needed = "-" if fold.turns_needed is None else f"{fold.turns_needed:,.1f} turns"
        paid = "-" if fold.paid is None else "yes" if fold.paid else "no"
        facts = f"{fold.kept} of {fold.reused}" if fold.reused else ""
        sizes = [f"{fold.tokens_before:,}", "→", f"{fold.tokens_after:,}"]
        ends = [format_money(fold.dollars), needed, f"{fold.turns_came:,}", paid, facts]
        rows.append([f"{fold.turn:,}", *sizes, *ends, ", ".join(fold.stages)])
    front, align = drop_empty_columns([row[:-1] for row in rows], "rrlrrrrlr")
    rows = [[*cells, row[-1]] for cells, row in zip(front, rows, strict=True)]
    screen.table(rows, f"{align}l", indent="    ", head=False)
    if len(run.folds) > LISTED:
        screen.line(f"    and {len(run.folds) - LISTED:,} more: --json has them all")


def reading_notes(runs: Sequence[Run]) -> list[str]:
    """Notes without which the numbers are easily misread."""
    notes = []
    if any(run.policy == NONE and run.over for run in runs):
        notes.append(
            "none goes on beyond the window, where a provider refuses: it is what it would have cost"
        )
    if any(run.calls.calls and run.model == "stand-in" for run in runs):
        notes.append(
            "summaries are stand-ins of the expected length that hold no facts; --ask makes real ones"
        )
    if runs[0].price is None:
        notes.append("no price is known: name a model with --price-of")
    if any(run.folds for run in runs):
        notes.append(
            "came: turns until the next fold or the end; facts: what is used again and still in view"
        )
    return notes
