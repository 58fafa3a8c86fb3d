"""The one screen of docs/benchmarks.md: figures that answer a newcomer's questions. Pure functions."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bench.report_peers import number

Results = Mapping[str, Any]

HEAD: Final = """# Benchmarks

Each line is one figure from `bench/results/`. The link behind it leads to the whole table. `make bench`
measures again. Times are CPU times of one machine: compare them inside a table, not with your own.
"""
TAIL: Final = """
![What a quarter of the tokens is worth to a model, for Refold and other libraries](pictures/surprise.svg)

Where others are better, the tables say so. Windows that drop messages act faster than any summary. A plain
tail of messages is as good for the very next step of some recordings.

More: [what a view is worth to a model](view-quality.md), [failures of real compactors, replayed](torture.md),
[measure it on your own data](evals.md).
"""
SIZE: Final = 1_000
"""Messages of the conversation whose times are shown: a day of an agent."""


def summarize(results: Results) -> str:
    """Return the page; a figure that was not measured is left out."""
    rows = [
        f"| {question} | {figure} | [{page}](data/{page}.md) |\n"
        for question, name, page, find in FIGURES
        if (found := results.get(name)) and (figure := find(found))
    ]
    table = "\n| question | figure | details |\n|---|---|---|\n" + "".join(rows) if rows else ""
    return HEAD + table + (TAIL if rows else "")


def find_worth(found: Any) -> str:
    """How much of the whole history's use for the next actions a quarter of its tokens keeps."""
    for reader in found["readers"]:
        rows = {row["method"]: row for row in reader["rows"] if _is_quarter(row)}
        if "refold" in rows:
            ours, others = rows.pop("refold"), {name: row["later"]["share"] for name, row in rows.items()}
            best = max(others, key=lambda name: others[name])
            return (
                f"with 25 % of the tokens, the next 4 to 10 actions keep {ours['later']['share']:.0%} of"
                f" what the whole history is worth; best other: {best}, {others[best]:.0%}"
            )
    return ""


def _is_quarter(row: Mapping[str, Any]) -> bool:
    own = ("refold with summary", "digest 50 and tail 50", "digest 30 and tail 70")
    return (
        row["kind"] == "agent runs" and row["size"] == "25%" and "later" in row and row["method"] not in own
    )


def find_rules(found: Any) -> str:
    """How many rules of a user are left after ten folds."""
    kept = {
        row["way"]: row["kept"] for row in found["rows"] if row["measure"] == "constraints (fresh), 10 folds"
    }
    others = ", ".join(
        f"{way} {share:.0%}" for way, share in kept.items() if way in ("tail", "sliding window")
    )
    return (
        f"{kept['refold']:.0%} of the user's rules are left after 10 folds ({others})"
        if "refold" in kept
        else ""
    )


def find_decide(found: Any) -> str:
    """How long it takes to see that nothing is to be done."""
    return _compare(
        found,
        "decide",
        "refold",
        "a session decides in {ours} ms at {size:,} messages; the others need {range}",
    )


def find_act(found: Any) -> str:
    """How long one fold takes."""
    return _compare(
        found,
        "act",
        "refold",
        "a fold without a model takes {ours} ms at {size:,} messages; the others need {range}",
    )


def _compare(found: Any, step: str, subject: str, words: str) -> str:
    times = {
        row["subject"]: row["ms"]
        for row in found["rows"]
        if row["step"] == step and row["messages"] == SIZE and "ms" in row
    }
    others = sorted(ms for name, ms in times.items() if not name.startswith("refold"))
    if subject not in times or not others:
        return ""
    faster = sum(ms < times[subject] for ms in others)
    between = f"{number(others[0])} to {number(others[-1])} ms, {faster} of {len(others)} are faster"
    return words.format(ours=number(times[subject]), size=SIZE, range=between)


def find_counts(found: Any) -> str:
    """How far our count is from what providers reported."""
    rows = {(row["kind"], row["way"]): row for row in found["rows"]}
    kinds = [kind for kind, way in rows if way == "later requests"]
    told = [
        f"{rows[kind, 'later requests']['mean']:.1%} ({kind}; characters / 4:"
        f" {rows[kind, 'characters / 4']['mean']:.0%})"
        for kind in kinds
        if (kind, "characters / 4") in rows
    ]
    return "mean error against providers' own counts: " + ", ".join(told) if told else ""


def find_sessions(found: Any) -> str:
    """What a turn costs in a long session."""
    slow = max(found["rows"], key=lambda row: row["turn_ms"])
    return (
        f"a stored turn takes {slow['turn_ms']:.1f} ms at {slow['entries']:,} entries in the slowest store"
        f" ({slow['store']}), {slow['ratio']:.2f} times that at 100"
    )


def find_torture(found: Any) -> str:
    """How often something was lost under attack."""
    wrong = sum(result.get("wrong", 0) for result in found.values())
    return (
        f"{wrong} entries lost, doubled or half written in {len(found)} campaigns of kills, power cuts and"
        " full disks"
    )


def find_injections(found: Any) -> str:
    """How many planted orders live on."""
    rows = [row for row in found["rows"] if row["way"] == "refold"]
    worst = max((row["instruction"] for row in rows), default=None)
    plain = max((row["instruction"] for row in found["rows"] if row["way"] == "plain summary"), default=0)
    if worst is None:
        return ""
    return f"{worst} of {found['count']} planted orders survive as orders; in a plain summary {plain} do"


def find_secrets(found: Any) -> str:
    """How many secrets pass, with redaction on."""
    rows = [row for row in found["rows"] if row["redaction"] == "storage"]
    passed = max((row["past"] for row in rows), default=None)
    alarms = found["false_alarms"]
    if passed is None:
        return ""
    return (
        f'with `redaction="storage"` {passed} of {found["count"]} planted secrets pass a border;'
        f" {alarms['found']} false alarms in {alarms['texts']:,} texts"
    )


def find_gateway(found: Any) -> str:
    """What one request costs that goes through the gateway."""
    ours, floor = found["proxies"].get("refold", {}), found["proxies"].get("floor", {})
    peer = found["proxies"].get("litellm", {})
    if "1 MB" not in ours or "1 MB" not in floor:
        return ""
    beside = f"; litellm's proxy {number(peer['1 MB'])}" if "1 MB" in peer else ""
    return (
        f"{number(ours['1 MB'])} CPU-ms for a request of 1 MB; a proxy that only passes bytes on needs"
        f" {number(floor['1 MB'])}{beside}"
    )


FIGURES: Final[tuple[tuple[str, str, str, Callable[[Any], str]], ...]] = (
    ("Does the model still know what to do?", "surprise", "view-quality", find_worth),
    ("Does it forget what the user forbade?", "retention", "benchmarks-retention", find_rules),
    ("How accurate are the counts?", "counts", "benchmarks-counting", find_counts),
    ("Does it slow my loop down?", "speed", "benchmarks-speed", find_decide),
    ("And a fold?", "speed", "benchmarks-speed", find_act),
    ("Do long sessions get slow?", "session", "benchmarks-reliability", find_sessions),
    ("What does the gateway cost?", "gateway", "gateway-costs", find_gateway),
    ("Can I lose messages?", "torture", "benchmarks-reliability", find_torture),
    ("Do injected orders get stronger?", "injections", "benchmarks-safety", find_injections),
    ("Do secrets leak into summaries?", "secrets", "benchmarks-safety", find_secrets),
)
"""A question, the result that answers it, the page with the whole table, and how the figure is found."""
