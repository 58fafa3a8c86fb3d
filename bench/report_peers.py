"""The part of docs/benchmarks.md that compares with other libraries, and its plots under docs/plots/."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.drawing import plot

WORDS: Final = {
    "decide": (
        "Decide, nothing to do",
        (
            "CPU milliseconds a turn to find that it is not yet time. `refold` is a session: one message"
            " more is said"
            " and judged. `refold stateless` is `refold.measure` over the whole list each time, for"
            " those who keep no"
            " session. `headroom` has no question of its own and runs its pass; `openai-agents` fetches"
            " its items."
        ),
    ),
    "act": (
        "Act",
        (
            "CPU milliseconds for one cut: to a quarter, or by the library's own measure, with a model"
            " that answers at"
            " once where one is asked. `refold` is a whole compaction without a model, from plain dicts"
            " to plain dicts,"
            " facts and digest included; `refold model` has the summary too; `refold truncate` is a"
            " session whose old messages leave the view, which is what a window does. Windows and trims"
            " that drop messages and"
            " keep nothing of them do less, and are faster."
        ),
    ),
    "count": (
        "Count exactly",
        "CPU milliseconds to count the whole conversation with a tokenizer (o200k; cl100k for llama-index).",
    ),
    "estimate": (
        "Estimate",
        (
            "CPU milliseconds to estimate the whole conversation without a tokenizer, and the error"
            " against our exact"
            " count at the largest size. Most divide characters by four: faster, and further off."
        ),
    ),
}


def section(found: dict[str, Any], plots: Path) -> str:
    """The text; writes the plots beside it."""
    plots.mkdir(parents=True, exist_ok=True)
    versions = ", ".join(name for names in found["versions"].values() for name in names if "==" in name)
    parts = [
        "## Beside other libraries\n",
        (
            f"`{found['command']}` ({found['machine']}, Python {found['python']}). {_runs(found['runs'])}"
            " Within a step the libraries take turns, each in a process and an environment of its"
            " own; CPU time, the"
            " fewest of some runs; an agent's conversation with tool calls in OpenAI's shape, 0.77"
            " kB a message. Read"
            " the ratios inside one table, not the times. A **bold** cell is the fastest of its column.\n"
        ),
        f"Versions: {versions}. How each is set up: [the torture matrix](torture.md#how-each-is-set-up).\n",
    ]
    for step, (title, words) in WORDS.items():
        rows = [row for row in found["rows"] if row["step"] == step]
        if not rows:
            continue
        parts += [
            f"### {title}\n\n{words}\n",
            table(rows),
            _errors(found["rows"]) if step == "estimate" else "",
        ]
        parts.append(faster(rows, step))
        picture = plots / f"{step}.svg"
        picture.write_text(drawn(rows, title), encoding="utf-8")
        parts.append(f"![{title}: milliseconds by messages](plots/{picture.name})\n")
    parts += [_memory(found["memory"]), _weight(found["weight"])]
    if found["left_out"]:
        parts.append(
            "Left out: " + "; ".join(f"{name} ({why})" for name, why in found["left_out"].items()) + ".\n"
        )
    return "\n".join(part for part in parts if part)


def _runs(runs: Sequence[dict[str, Any]]) -> str:
    """Which step was measured when, at what load, and what is to be known about it."""
    told = [
        f"{', '.join(run['steps'])}: {run['date']}, load {run['load']}"
        + (f" ({run['note']})" if run.get("note") else "")
        for run in runs
    ]
    return f"{'One run' if len(runs) == 1 else f'{len(runs)} runs'}; {'; '.join(told)}."


def table(rows: Sequence[dict[str, Any]]) -> str:
    """One line a subject, one column a size."""
    sizes = sorted({row["messages"] for row in rows})
    by = {(row["subject"], row["messages"]): row for row in rows}
    names = list(dict.fromkeys(row["subject"] for row in rows))
    fastest = {
        size: min((r["ms"] for r in rows if r["messages"] == size and "ms" in r), default=None)
        for size in sizes
    }
    lines = [f"| | {' | '.join(f'{size:,} messages' for size in sizes)} |", "|---|" + "---|" * len(sizes)]
    for name in names:
        cells = [_cell(by.get((name, size)), fastest[size]) for size in sizes]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _errors(rows: Sequence[dict[str, Any]]) -> str:
    """How far each estimate is from our exact count, at the largest size."""
    exact = {
        r["messages"]: r["tokens"]
        for r in rows
        if r["step"] == "count" and r["subject"] == "refold" and "tokens" in r
    }
    told = {
        r["subject"]: r["tokens"] / exact[r["messages"]] - 1
        for r in rows
        if r["step"] == "estimate" and r["messages"] == max(exact, default=0) and "tokens" in r
    }
    if not told:
        return ""
    return "Error: " + ", ".join(f"{name} {error:+.0%}" for name, error in told.items()) + ".\n"


def _cell(row: dict[str, Any] | None, fastest: float | None) -> str:
    if row is None:
        return ""
    if "ms" not in row:
        told = row["note"].split(":")[-1].strip() if row["note"].startswith("not run") else "failed"
        return "not run" if "inf" in told.split() else told
    text = number(row["ms"])
    return f"**{text}**" if row["ms"] == fastest else text


def number(value: float) -> str:
    """Two figures that count.

    >>> number(0.0412), number(8.13), number(1234.5)
    ('0.041', '8.1', '1,234')
    """
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2g}" if value < 1 else f"{value:.1f}"


def faster(rows: Sequence[dict[str, Any]], step: str) -> str:
    """Say who is faster than we are, at the largest size that all could run."""
    ours = {row["messages"]: row["ms"] for row in rows if row["subject"] == "refold" and "ms" in row}
    if not ours:
        return ""
    size = max(ours)
    better = [
        r
        for r in rows
        if r["messages"] == size and "ms" in r and r["ms"] < ours[size] and "refold" not in r["subject"]
    ]
    slower = [
        r
        for r in rows
        if r["messages"] == size and "ms" in r and r["ms"] > ours[size] and "refold" not in r["subject"]
    ]
    if not better:
        return f"At {size:,} messages nobody here is faster than `refold` ({len(slower)} are slower).\n"
    names = ", ".join(
        f"{r['subject']} ({ours[size] / r['ms']:,.1f} times)" for r in sorted(better, key=lambda r: r["ms"])
    )
    return f"At {size:,} messages faster than `refold` to {step}: {names}; {len(slower)} are slower.\n"


def drawn(rows: Sequence[dict[str, Any]], title: str) -> str:
    """The plot of one step."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if "ms" in row:
            lines.setdefault(row["subject"], []).append((row["messages"], max(row["ms"], 0.001)))
    return plot(title, lines, across="messages", up="CPU milliseconds", first="refold")


def _unless_failed(value: float | None, unit: str) -> str:
    return "failed" if value is None else f"{value:,.0f} {unit}"


def _memory(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    lines = [f"| {row['subject']} | {_unless_failed(row['mb'], 'MB')} |" for row in rows]
    head = (
        f"### Memory\n\nWhat a fresh process grows by with one decision and one cut at"
        f" {rows[0]['messages']:,} messages,"
        " over the conversation itself.\n\n| | growth |\n|---|---|\n"
    )
    return head + "\n".join(lines) + "\n"


def _weight(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    lines = [
        f"| {row['name']} | {_unless_failed(row['import_ms'], 'ms')} | {row['megabytes']:,.1f} MB |"
        for row in rows
    ]
    head = (
        "### Import and size\n\nCPU time to import what a program imports, and the size of the"
        " package with all that"
        " it needs.\n\n| | import | size |\n|---|---|---|\n"
    )
    return head + "\n".join(lines) + "\n"
