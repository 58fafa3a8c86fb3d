"""The part of docs/data/benchmarks-speed.md about other libraries, and its plots under docs/plots/."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.drawing import plot

WORDS: Final = {
    "decide": (
        "Decide, nothing to do",
        (
            "CPU milliseconds a turn to find that it is not yet time. `refold` is a session that keeps"
            " what it counted: one message more is said and judged by `needs_compaction`; nothing is folded."
            " `refold prepare` is a whole turn of a program that keeps its own list: one message more, and"
            " `prepare` of all of it; `refold lists` hands in another list of the same dicts, `refold copies`"
            " other dicts with the same words, as a gateway reads them. `refold folded` does what"
            " `refold prepare` does behind a fold, in a view of up to 100,000 tokens; `refold view` continues"
            " the list that it was given in the turn before. Most of the others are given the whole list and"
            " look at all of it, and so does `refold stateless`: `refold.measure` over the"
            " list, each time. Compare like with like: sessions, and windows that count messages, with the"
            " first; functions over a list with the last. `strands` starts from the usage that its model"
            " reported last; `litellm` and `llama-index` count with a tokenizer, the others estimate;"
            " `headroom` has no question of its own and runs its pass; `openai-agents` fetches its items."
        ),
    ),
    "act": (
        "Act",
        (
            "CPU milliseconds for one cut: to a quarter, or by the library's own measure (`strands`"
            " summarises three tenths of the messages, or drops those over its window; `headroom` shortens"
            " what it can), with a model that answers at once where one is asked. These do not do the same"
            " work. `refold` is a whole compaction without a model, from plain dicts to plain dicts, facts"
            " and digest included; `refold session` is the same where the messages were said before, read"
            " and counted, as the others hold theirs; it also writes the fold into its log, each of some"
            " thousand cleared results as a change that can be undone, and reads it back, which costs more"
            " than reading a list; `refold model` has the summary too, and is the one to compare with those"
            " that ask a model; `refold truncate` is a session whose old messages"
            " leave the view, which is what a window does, and the one to compare with windows and trims."
            " A library that"
            " leaves the work to its summariser does less itself, and is faster; the model's own time,"
            " which is not here, is far larger than any of these."
        ),
    ),
    "count": (
        "Count exactly",
        (
            "CPU milliseconds to count the whole conversation with a tokenizer (o200k; cl100k for llama-"
            " index), by the function that each decides with. `llama-index summary` counts contents alone,"
            " `llama-index memory` the calls too, `litellm` and `refold` also what a provider adds around"
            " each message. The tokenizers differ: tiktoken there, splintr here. The others have no"
            " counter of their own that runs without a network."
        ),
    ),
    "estimate": (
        "Estimate",
        (
            "CPU milliseconds to estimate the whole conversation without a tokenizer, and the error"
            " against our exact count (o200k, with calls and framing) at the largest size. Most divide"
            " characters by four: faster, and further off. The text here is common words without numbers"
            " or code, longer than most text for its tokens, so that dividing by four says too much; on"
            " the requests of real agents it says too little. `agent-framework` counts its messages as"
            " JSON."
        ),
    ),
    "convert": (
        "Read plain dicts",
        (
            "CPU milliseconds to make the library's own messages of a list of plain dicts. Programs that"
            " hold their conversation in those messages pay it once for each message, others in every turn."
            " It comes on top of the times above. `refold`, `litellm` and `headroom` take dicts: what they"
            " read is in their times."
        ),
    ),
}

SHOWN: Final = 10_000
"""Messages at which the first run and the conversion are shown."""
LIKE: Final = {"decide": "refold stateless", "act": "refold truncate"}
"""The way of ours that does what functions over a list, or windows, do."""


def section(found: dict[str, Any], plots: Path) -> str:
    """The text; writes the plots beside it."""
    plots.mkdir(parents=True, exist_ok=True)
    versions = ", ".join(name for names in found["versions"].values() for name in names if "==" in name)
    parts = [
        "## Beside other libraries\n",
        (
            f"`{found['command']}` (Python {found['python']}). {_runs(found['runs'])}"
            " Within a step the libraries take turns, each in a process and an environment of its own; CPU"
            " time, the fewest of some runs over one conversation: an agent's, with tool calls, 0.77 kB a"
            " message, in the library's own shape before the clock starts (ours is plain dicts, so that"
            " reading them is in our times). *First* is the first run over the conversation, with everything"
            " loaded: ours remembers the sizes of texts, so that later runs count nothing again."
            " *From dicts* is that first run with the conversion from plain dicts added. *Growth* is the"
            " exponent between the smallest and the largest size: 0 is flat, 1 grows with the"
            " conversation. Read the ratios inside one table, not the times. A **bold** cell is the"
            " fastest of its column.\n"
        ),
        f"Versions: {versions}. How each is set up: [the torture matrix](torture.md#how-each-is-set-up).\n",
    ]
    for step, (title, words) in WORDS.items():
        rows = [row for row in found["rows"] if row["step"] == step]
        if not rows:
            continue
        converted = [row for row in found["rows"] if row["step"] == "convert"]
        parts += [
            f"### {title}\n\n{words}\n",
            table(rows, converted),
            _errors(found["rows"]) if step == "estimate" else "",
        ]
        parts.append(faster(rows, step))
        if step in LIKE:
            parts.append(faster(rows, step, LIKE[step]))
        picture = plots / f"{step}.svg"
        picture.write_text(drawn(rows, title), encoding="utf-8")
        parts.append(f"![{title}: milliseconds by messages](../plots/{picture.name})\n")
    parts += [_kinds(found), tell_memory(found["memory"]), _weight(found["weight"])]
    if found["left_out"]:
        parts.append(
            "Left out: " + "; ".join(f"{name} ({why})" for name, why in found["left_out"].items()) + ".\n"
        )
    return "\n".join(part for part in parts if part)


def _runs(runs: Sequence[dict[str, Any]]) -> str:
    """Which step was measured where and when, at what load, and what is to be known about it."""
    told = [
        f"{', '.join(run['steps'])}: {run['machine']}, {run['date']}, load {run['load']}"
        + (f" ({run['note']})" if run.get("note") else "")
        for run in runs
    ]
    return f"{'One run' if len(runs) == 1 else f'{len(runs)} runs'}; {'; '.join(told)}."


def table(rows: Sequence[dict[str, Any]], converted: Sequence[dict[str, Any]] = ()) -> str:
    """One line a subject, one column a size; then the first run, with the conversion, and how time grows."""
    sizes = sorted({row["messages"] for row in rows})
    by = {(row["subject"], row["messages"]): row for row in rows}
    names = list(dict.fromkeys(row["subject"] for row in rows))
    fastest = {
        size: min((r["ms"] for r in rows if r["messages"] == size and "ms" in r), default=None)
        for size in sizes
    }
    heads = [f"{size:,} messages" for size in sizes]
    shown = max((size for size in sizes if size <= SHOWN), default=sizes[0])
    firsts = {
        row["subject"]: row["first_ms"] for row in rows if row["messages"] == shown and "first_ms" in row
    }
    made = {row["subject"]: row["ms"] for row in converted if row["messages"] == shown and "ms" in row}
    is_step = bool(firsts) and rows[0]["step"] != "convert"
    heads += [f"first, {shown:,}", f"from dicts, {shown:,}"] if is_step else []
    heads += ["growth"] if len(sizes) > 1 else []
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for name in names:
        cells = [_cell(by.get((name, size)), fastest[size]) for size in sizes]
        if is_step:
            first = firsts.get(name)
            cells += ["", ""] if first is None else [number(first), number(first + _conversion(made, name))]
        cells += [growth([row for row in rows if row["subject"] == name])] if len(sizes) > 1 else []
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _conversion(made: Mapping[str, float], name: str) -> float:
    """What the conversion takes for a way of a library; all its ways read the same messages."""
    library = name.split(maxsplit=1)[0]
    return made.get(name) or next((ms for each, ms in made.items() if each.startswith(library)), 0.0)


def growth(rows: Sequence[dict[str, Any]]) -> str:
    """The exponent between the smallest and the largest size that were run.

    >>> growth([{"messages": 100, "ms": 1.0}, {"messages": 10_000, "ms": 100.0}])
    '1.0'
    """
    run = sorted((row["messages"], row["ms"]) for row in rows if row.get("ms"))
    if len(run) < 2 or run[0][0] == run[-1][0]:
        return ""
    exponent = math.log(run[-1][1] / run[0][1]) / math.log(run[-1][0] / run[0][0])
    return f"{exponent:.1f}".replace("-0.0", "0.0")


def _kinds(found: dict[str, Any]) -> str:
    """The tables of recorded conversations: the fewest milliseconds, and the first run's in brackets."""
    kinds = {kind["name"]: kind for kind in found.get("kinds", ())}
    if not kinds:
        return ""
    told = "; ".join(
        f"{name}: {kind['messages']:,} messages, {kind['kilobytes']:,.0f} kB" for name, kind in kinds.items()
    )
    head = (
        "### Recorded conversations\n\nThe same steps with what real agents and people said. In brackets the"
        f" first run over the conversation. {told}.\n"
    )
    parts = [head]
    for step in ("decide", "act", "estimate", "convert"):
        rows = [row for row in found["kind_rows"] if row["step"] == step]
        by = {(row["subject"], row["kind"]): row for row in rows}
        names = list(dict.fromkeys(row["subject"] for row in rows))
        lines = [f"| {WORDS[step][0]} | {' | '.join(kinds)} |", "|---|" + "---|" * len(kinds)]
        lines += [
            f"| {name} | {' | '.join(_both(by.get((name, kind))) for kind in kinds)} |" for name in names
        ]
        parts.append("\n".join(lines) + "\n" if rows else "")
    return "\n".join(part for part in parts if part)


def _both(row: dict[str, Any] | None) -> str:
    if row is None or "ms" not in row:
        return _cell(row, None)
    return f"{number(row['ms'])} ({number(row['first_ms'])})" if "first_ms" in row else number(row["ms"])


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


def faster(rows: Sequence[dict[str, Any]], step: str, name: str = "refold") -> str:
    """Say who is faster than one of our ways, at the largest size that it ran."""
    ours = {row["messages"]: row["ms"] for row in rows if row["subject"] == name and "ms" in row}
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
        return f"At {size:,} messages nobody here is faster than `{name}` ({len(slower)} are slower).\n"
    missed = sum(r["messages"] == size and "ms" not in r for r in rows)
    late = f", {missed} were not run at this size" if missed else ""
    names = ", ".join(
        f"{r['subject']} ({ours[size] / r['ms']:,.1f} times)" for r in sorted(better, key=lambda r: r["ms"])
    )
    return f"At {size:,} messages faster than `{name}` to {step}: {names}; {len(slower)} are slower{late}.\n"


def drawn(rows: Sequence[dict[str, Any]], title: str) -> str:
    """The plot of one step."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if "ms" in row:
            lines.setdefault(row["subject"], []).append((row["messages"], max(row["ms"], 0.001)))
    return plot(title, lines, across="messages", up="CPU milliseconds", first="refold")


def _unless_failed(value: float | None, unit: str) -> str:
    return "failed" if value is None else f"{value:,.0f} {unit}"


def _grown(row: dict[str, Any], key: str) -> str:
    if row.get(key) is None:
        return "over 120 s" if "no answer in" in row.get("note", "") else _unless_failed(None, "MB")
    return _unless_failed(row[key], "MB")


def tell_memory(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of memory."""
    if not rows:
        return ""
    lines = [f"| {row['subject']} | {_grown(row, 'held_mb')} | {_grown(row, 'mb')} |" for row in rows]
    warm = max(row.get("warm_messages") or 0 for row in rows)
    loaded = "Modules that are loaded when they are first used count."
    if warm:
        loaded = f"Each has held and cut {warm} messages before, so that its modules are loaded."
    head = (
        f"### Memory\n\nWhat a fresh process grows by at {rows[0]['messages']:,} messages, over the plain"
        " list of dicts: to hold the conversation in the library's own shape (its message classes, a"
        f" session, a store), and at most during one decision or one cut. {loaded}\n\n"
        "| | to hold | to decide or cut |\n|---|---|---|\n"
    )
    return head + "\n".join(lines) + "\n"


def _weight(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    lines = [
        f"| {row['name']} | {_unless_failed(row['import_ms'], 'ms')}"
        f" | {_unless_failed(row.get('names_ms'), 'ms')} | {row['megabytes']:,.1f} MB |"
        for row in rows
    ]
    head = (
        "### Import and size\n\nCPU time to import the module alone, which loads little where names are"
        " loaded when they are used, and with the names that a program needs for a compaction; and the"
        " size of the package with all that it needs. Most of these are whole frameworks, of which"
        " compaction is a small part. `refold` is its core without extras: `refold[exact]`, which the exact"
        " counts above need, brings a tokenizer with its vocabularies on top.\n\n"
        "| | the module | its names | size |\n|---|---|---|---|\n"
    )
    return head + "\n".join(lines) + "\n"
