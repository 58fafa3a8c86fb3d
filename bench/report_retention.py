"""What is kept beside other libraries, for docs/data/benchmarks-retention.md; every cell from the results."""

from collections.abc import Sequence
from typing import Any, Final

OURS: Final = "refold"
ALLOWED: Final = 1.1
"""Of its budget, what a view may take and still count as kept to it: counters differ by a tenth."""
TITLES: Final = {
    "re-use": "What is used again",
    "answer words": "Answer words, anywhere in the view",
    "answers": "Answer words, beside their neighbour",
    "constraints": "Planted rules",
    "facts": "Planted facts",
    "planted": "Rules and facts, said in a short talk",
}
"""The tables, by how the names of their measures begin."""


def beside(found: dict[str, Any]) -> str:
    """The tables with the summariser that needs no weights."""
    return (
        f"## Retention beside other libraries\n\n`{found['command']}` ({_about(found)}): one summariser for"
        " all (`bench/extractive.py`: sentences of the prompt without its instructions, no model of"
        " language) and the same tokens for the view. A real model writes better summaries for everybody;"
        " this shows what each system keeps whatever its summariser writes. In LoCoMo people talk with each"
        " other, so every message is a user's: who cuts only where an assistant spoke finds no place there."
        " Re-use counts names. Before views by age ([decision 23](../decisions/0023-age-graded-views.md))"
        " ours had more of them (91 % to 100 % without a model), and less of what a model needs next. "
        + _reading(found)
        + _tables(found["rows"])
    )


def models(found: Sequence[dict[str, Any]]) -> str:
    """The tables with real models."""
    return "\n".join(model(one) for one in found)


def model(found: dict[str, Any]) -> str:
    """The table with a real model."""
    talks = max((row.get("talks", 0) for row in found["rows"]), default=0)
    return (
        f"## Retention with a real model: {found['summariser']}\n\n`{found['command']}` ({_about(found)}):"
        f" the model on this machine answers everybody, at most {found['summary_tokens']} tokens an answer;"
        f" {talks} short talks, each with rules (the fresh set) and facts said in it and folded once. It is"
        " a very small model: what is in the view besides its summary counts for much. "
        + _reading(found)
        + _tables(found["rows"])
    )


def _about(found: dict[str, Any]) -> str:
    told = [
        ", ".join(filter(None, (run["date"], run["measure"], f"{run['seconds'] / 60:,.0f} minutes")))
        + f", load {run['load']}{'' if run['whole'] else ', ended early'}"
        for run in found["runs"]
    ]
    return f"{found['machine']}; {'; '.join(told)}"


def _reading(found: dict[str, Any]) -> str:
    left = "; ".join(f"{name} ({why})" for name, why in found["left_out"].items())
    return (
        "In brackets the 95 % interval; *of the budget* is what the views took of the tokens that were"
        " allowed, measure by measure; a fold that failed, came too late or asked without end is counted"
        " under *failed* and nowhere else. How each library is set up:"
        " [the torture matrix](torture.md#how-each-is-set-up)."
        + (f" Left out: {left}." if left else "")
        + "\n"
    )


def _tables(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(
        _table(title, mine)
        for begins, title in TITLES.items()
        if (mine := [row for row in rows if row["measure"].partition(",")[0].startswith(begins)])
    )


def _table(title: str, rows: Sequence[dict[str, Any]]) -> str:
    measures = list(dict.fromkeys(row["measure"] for row in rows))
    ways: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        ways.setdefault(row["way"], {})[row["measure"]] = row
    lines = "\n".join(
        f"| {way} | {' | '.join(_cell(by.get(measure)) for measure in measures)}"
        f" | {_spent(by.get(measure) for measure in measures)} | {_asks(by.values())}"
        f" | {_failed(by.values())} |"
        for way, by in ways.items()
    )
    head = " | ".join(measures)
    return (
        f"\n### {title}\n\n| | {head} | of the budget | questions a fold | failed, all columns |\n"
        f"|---{'|---' * (len(measures) + 3)}|\n{lines}\n\n{_ahead(ways, measures)}\n"
    )


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if not row["of"]:
        return "failed"
    return f"{row['kept']:.0%} ({row['low']:.0%} to {row['high']:.0%})"


def _spent(rows: Any) -> str:
    shares = [row.get("of_budget") for row in rows if row is not None]
    return " / ".join("" if share is None else f"{share:.0%}" for share in shares)


def _asks(rows: Any) -> str:
    asks = [row["asks"] for row in rows if row.get("asks")]
    return f"{sum(asks) / len(asks):.1f}" if asks else ""


def _failed(rows: Any) -> str:
    bad = [row for row in rows if row.get("failed")]
    failed, tried = sum(row["failed"] for row in bad), sum(row["folds_tried"] for row in bad)
    return f"{failed} of {tried}: {_line(bad[0]['why'])}" if bad else ""


def _line(text: str) -> str:
    """A message of an error as one short line that no table breaks at."""
    return " ".join(text.replace("|", "/").split())[:90]


def _ahead(ways: dict[str, dict[str, dict[str, Any]]], measures: Sequence[str]) -> str:
    """Who keeps more than we do, and whether with the tokens that were allowed."""
    within: list[str] = []
    over: list[str] = []
    for measure in measures:
        ours = ways.get(OURS, {}).get(measure)
        for way, by in ways.items():
            row = by.get(measure)
            if ours is None or row is None or way == OURS or not row["of"] or row["kept"] <= ours["kept"]:
                continue
            share = row.get("of_budget")
            told = f"{way} ({measure}: {row['kept']:.0%} against {ours['kept']:.0%}"
            if share is not None and share > ALLOWED:
                over.append(f"{told}, with {share:.1f} times the tokens)")
            else:
                within.append(f"{told})")
    text = f"Keeps more than `{OURS}` with these tokens: {', '.join(within) or 'none'}."
    return text + (f" With more tokens than were allowed: {', '.join(over)}." if over else "")
