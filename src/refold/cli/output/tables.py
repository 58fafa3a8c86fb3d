"""Columns of text that line up, and numbers in words."""

from collections.abc import Sequence

from refold.cli.output.plain import width_of


def columns(rows: Sequence[Sequence[str]], align: str, *, gap: str = "  ", padded: bool = False) -> list[str]:
    """Lay rows out under each other; `align` has a letter for each column: l or r.

    All lines are as wide as the widest where `padded` says that something stands behind them.

    >>> columns([["a", "10"], ["bcd", "9"]], "lr")
    ['a    10', 'bcd   9']
    """
    widths = [max(width_of(row[at]) for row in rows) for at in range(len(align))] if rows else []
    lines = []
    for row in rows:
        cells = [_cell(text, width, side) for text, width, side in zip(row, widths, align, strict=True)]
        line = gap.join(cells)
        lines.append(line if padded else line.rstrip())
    return lines


def filled(rows: Sequence[Sequence[str]], align: str) -> tuple[list[list[str]], str]:
    """Leave out the columns that have a title and nothing under it, or a dash in every row.

    >>> filled([["policy", "cost", "size"], ["a", "-", "10"]], "lrr")
    ([['policy', 'size'], ['a', '10']], 'lr')
    """
    kept = [at for at in range(len(align)) if any(row[at] not in ("", "-") for row in rows[1:])]
    return [[row[at] for at in kept] for row in rows], "".join(align[at] for at in kept)


def _cell(text: str, width: int, side: str) -> str:
    space = " " * (width - width_of(text))
    return space + text if side == "r" else text + space


def less(before: int, after: int) -> str:
    """How much smaller something became; never "100%" while something is left.

    >>> less(200, 50), less(100_000, 60)
    ('75% less', '99.9% less')
    """
    share = (before - after) / before if before else 0.0
    return f"{int(share * 1000) / 10}% less" if share > 0.99 else f"{share:.0%} less"
