"""Tables of the measures with a real reader: shares with intervals over runs, in text, Markdown and JSON."""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

RESAMPLES: Final = 1_000
SEED: Final = 3
Sums = tuple[float, ...]


def add_sums(parts: Iterable[Sums]) -> Sums:
    """Add numbers place by place.

    >>> add_sums([(1, 2), (10, 20)])
    (11, 22)
    """
    return tuple(map(sum, zip(*parts, strict=True)))


def divide(sums: Sums) -> float:
    """Return the first number as a share of the second.

    >>> divide((1, 4))
    0.25
    """
    return sums[0] / sums[1] if sums[1] else 0.0


def group_sums(cases: Iterable[tuple[str, Sums]]) -> list[Sums]:
    """Add the numbers of the cases of one run: they depend on each other."""
    groups: dict[str, list[Sums]] = {}
    for run, sums in cases:
        groups.setdefault(run, []).append(sums)
    return [add_sums(parts) for parts in groups.values()]


def measure_share(cases: Iterable[tuple[str, Sums]]) -> dict[str, float]:
    """Return a share over all cases and its 95 % interval when runs are drawn again."""
    groups = group_sums(cases)
    chance = random.Random(SEED)  # noqa: S311  # the same interval for everybody
    drawn = sorted(divide(add_sums(chance.choices(groups, k=len(groups)))) for _ in range(RESAMPLES))
    low, high = drawn[int(RESAMPLES * 0.025)], drawn[int(RESAMPLES * 0.975) - 1]
    return {
        "share": round(divide(add_sums(groups)), 4),
        "low": round(low, 4),
        "high": round(high, 4),
    }


def format_share(share: Mapping[str, float]) -> str:
    """Return a share with its interval.

    >>> format_share({"share": 0.5, "low": 0.4, "high": 0.61})
    '50 % (40 to 61)'
    """
    return f"{share['share'] * 100:.0f} % ({share['low'] * 100:.0f} to {share['high'] * 100:.0f})"


def format_markdown(
    title: str, rows: Sequence[Mapping[str, Any]], shares: Sequence[str], counts: Sequence[str]
) -> str:
    """Return rows as a Markdown table: method, size, shares, tokens, and what was counted."""
    names = ["view", "size", *shares, "tokens", *counts]
    lines = [f"**{title}**", "", f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for row in rows:
        cells = [row["method"], row["size"]]
        if row.get("note"):
            cells += [row["note"], *[""] * (len(shares) + len(counts))]
        else:
            cells += [format_share(row[name]) for name in shares]
            cells += [format_tokens(row), *(f"{row[name]:,}" for name in counts)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def format_tokens(row: Mapping[str, Any]) -> str:
    """Return the tokens of the views as a share of the whole."""
    return f"{row['tokens'] * 100:.0f} %"


def print_rows(rows: Sequence[Mapping[str, Any]], shares: Sequence[str], group: str) -> None:
    """Print rows as aligned text."""
    for row in rows:
        cells = [f"{format_share(row[name]):<24}" for name in shares if not row.get("note")]
        last = row.get("note") or format_tokens(row)
        print(f"{row[group]:<17} {row['method']:<28} {row['size']:<13}", *cells, last)


def write_json(file: Path | None, value: Mapping[str, Any]) -> None:
    """Write a result, if a file is named."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_markdown(file: Path | None, name: str, command: str, tables: Sequence[str]) -> None:
    """Write tables, if a file is named: between the markers of a page that has them, else alone."""
    if file is None:
        return
    text = f"Made by `{command}`.\n\n" + "\n".join(tables)
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    page = file.read_text(encoding="utf-8") if file.exists() else ""
    if begin in page and end in page:
        text = f"{page.partition(begin)[0]}{begin}{text}{end}{page.partition(end)[2]}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
