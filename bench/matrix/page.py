"""docs/torture.md and docs/data/torture.md from the results of the matrix; nothing else is by hand."""

from collections.abc import Sequence
from typing import Any, Final

from bench import peering
from bench.matrix.subjects import BUDGET, WINDOW, Case

READ: Final = {
    "anomalyco": ("opencode#18794", "opencode#41738"),
    "anthropics": ("claude-code#24087", "claude-code#4017"),
    "aaif-goose": ("goose#5255", "goose#8642"),
    "can1357": ("oh-my-pi#8727",),
    "code-yeongyu": ("senpi#1067",),
    "earendil-works": ("pi#7048",),
    "google": ("adk-python#4740",),
    "google-gemini": ("gemini-cli#15225", "gemini-cli#4777"),
    "headroomlabs-ai": ("headroom#327",),
    "juspay": ("neurolink#1281",),
    "langchain-ai": (
        "deepagents#5913",
        "langchain#34282",
        "langchain#38352",
        "langchain#38867",
        "langchain#39261",
        "langmem#126",
    ),
    "MemTensor": ("MemOS#1269",),
    "microsoft": ("agent-framework#8099",),
    "NousResearch": ("hermes-agent#9200",),
    "openai": (
        "openai-agents-python#3116",
        "openai-agents-python#4322",
        "openai-agents-python#4679",
        "openai-agents-python#4827",
    ),
    "openclaw": ("openclaw#120663", "openclaw#70052", "openclaw#8525", "openclaw#93320"),
    "OpenHands": ("OpenHands#10873", "OpenHands#8630"),
    "pydantic": ("pydantic-ai#7452",),
    "RooCodeInc": ("Roo-Code#7644",),
    "strands-agents": ("harness-sdk#981",),
    "SWE-agent": ("mini-swe-agent#888",),
    "zed-industries": ("zed#61373", "zed#64560"),
}
"""Threads that a search found, by the owner of their repository; others are named without a link."""

OWNERS: Final = {issue: owner for owner, issues in READ.items() for issue in issues}

MARKS: Final = {"survives": "yes", "stops": "stops", "breaks": "**no**", "n/a": "-"}

CLASSES: Final = {
    "A": "Loops",
    "B": "The request to the summariser",
    "C": "Pairs of calls and results",
    "D": "Thinking",
    "E": "Loss",
    "F": "Bad summaries",
    "G": "Drift",
    "H": "Go on or wait",
    "I": "Cache and cost",
    "J": "Counting",
    "K": "Meanwhile",
    "L": "Control",
    "M": "The provider's own compaction",
    "N": "Safety",
}

SUMMARY: Final = """# Failures of real compactors

Public issues tell how compaction fails in practice: loops, lost rules, broken tool calls, empty summaries.
{cases} of these failures are small cases here. They run against Refold and against other libraries, with the
same inputs and the same scripted model (`{command}`, {date}).

Read the table with care. Those who build Refold chose the cases, from failures that it was built against. So
its own first line says little about quality. A *no* says what happens in that library. It does not say
that it matters to you.

- **yes**: what must happen, happened.
- **stops**: it did not fold and changed nothing: an error, or the conversation passed on as it came.
- **no**: something else happened.
- **-**: there is no such feature, or the library does not claim it.

{totals}
[All cases, verdicts, notes and set-ups](data/torture.md).
"""

HEAD: Final = """# The torture matrix

The details behind [the short page](../torture.md).

Failures of real compactors, taken from public issues, as small cases that run against Refold and against
other libraries on the same inputs with the same scripted model. This page is written by `{command}` ({date},
Python {python}, {seconds} s); nothing in it is edited by hand, and the cases stand in `bench/matrix/`.

The cases were chosen by those who build Refold, from failures that it was built against. That its own column
is full is therefore what one should expect, and no measure of quality; that a case fails elsewhere says what
happens there, not that it should matter to you. Nothing here measures how good a summary by a real model is.
Rows F, G and H2 ask that a library distrusts its summariser: the model here is scripted to do badly, and what
it leaves out must come from somewhere else. Most libraries trust their model, which is a choice, and with a
good model a fair one: G4 is the same rule with a summariser that does its work.

Every subject is set up as its own documentation says ([below](#how-each-is-set-up)) by an adapter in
`bench/peers/` and runs in an environment of its own with pinned versions (`bench/peers/pins.toml`). Unless a
case says otherwise a view may have {budget:,} tokens and the summariser takes {window:,}. Whether a provider
would take a view is judged by a checker written for the matrix (`bench/matrix/checks.py`) and by
`refold.validate`; sizes by the kinder of four characters a token and an exact count, in rows J by the exact
count alone, a tenth allowed. Each counts with its default counter; several would take a tokenizer instead,
which would mend most of rows J1 and J2. If you maintain one of these libraries and find a cell unfair, the
adapter or the case is wrong: please say so.

- **yes**: what must happen, happened.
- **stops**: it did not fold, and nothing was changed: an error was raised, or the conversation was passed on
  as it came, too large.
- **no**: something else happened; the notes say what.
- **-**: there is no such feature, or the library does not claim what the case asks (a window that drops old
  messages is not asked whether it kept them), or it was not tried; the notes say which.
"""


def summarize(found: dict[str, Any], cases: Sequence[Case]) -> str:
    """Return the page for readers: what it is, and the totals."""
    totals = _count_verdicts(found["columns"])
    return SUMMARY.format(cases=len(cases), command=found["command"], date=found["date"], totals=totals)


def written(found: dict[str, Any], cases: Sequence[Case]) -> str:
    """The page."""
    ordered = sorted(cases, key=lambda case: case.name)
    ours = [column for column in found["columns"] if column["name"] == "refold"]
    theirs = [column for column in found["columns"] if column["name"] != "refold"]
    asking = [column for column in theirs if _asks(column)]
    others = [column for column in theirs if not _asks(column)]
    head = HEAD.format(
        budget=BUDGET, window=WINDOW, **{key: found[key] for key in ("command", "date", "python", "seconds")}
    )
    parts = [head, _totals(found["columns"])]
    for title, columns in (
        ("Refold's policies", ours),
        ("Libraries that ask a model", [*ours[:1], *asking]),
        ("Libraries and functions that do not", [*ours[:1], *others]),
    ):
        parts.append(f"## {title}\n\n{_table(ordered, columns)}" if columns else "")
    parts += [_cases(ordered), _notes(found["columns"]), _set_up(found)]
    return "\n".join(part for part in parts if part)


def _asks(column: dict[str, Any]) -> bool:
    pin = next((pin for pin in peering.pins() if pin.name == column["name"]), peering.OURS)
    return column["way"] in pin.asks


def _title(column: dict[str, Any]) -> str:
    return column["way"] if column["name"] == "refold" else f"{column['name']} {column['way']}"


def _totals(columns: Sequence[dict[str, Any]]) -> str:
    return "## In all\n\n" + _count_verdicts(columns) + _better(columns)


def _count_verdicts(columns: Sequence[dict[str, Any]]) -> str:
    rows = []
    for column in columns:
        verdicts = [cell["verdict"] for cell in column["cells"].values()]
        counts = " | ".join(str(verdicts.count(verdict)) for verdict in MARKS)
        name = f"refold, policy {column['way']}" if column["name"] == "refold" else _title(column)
        rows.append(f"| {name} | {column['version']} | {counts} |")
    head = "| subject | version | yes | stops | no | - |\n|---|---|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _better(columns: Sequence[dict[str, Any]]) -> str:
    """Say where another survives and one of our policies does not."""
    ours = [column for column in columns if column["name"] == "refold"]
    lines = []
    for mine in ours:
        won: dict[str, list[str]] = {}
        for column in columns:
            for name, cell in column["cells"].items():
                lost = mine["cells"].get(name, {}).get("verdict") in ("breaks", "stops")
                if column["name"] != "refold" and lost and cell["verdict"] == "survives":
                    won.setdefault(_title(column), []).append(name)
        told = "; ".join(f"{title} ({', '.join(names)})" for title, names in won.items())
        lines.append(f"- policy `{mine['way']}`: {told or 'nobody'}.")
    return "\nWho survives where ours does not:\n\n" + "\n".join(lines) + "\n" if lines else ""


def _table(cases: Sequence[Case], columns: Sequence[dict[str, Any]]) -> str:
    lines = [f"| | | {' | '.join(map(_title, columns))} |", "|---|---|" + "---|" * len(columns)]
    for case in cases:
        cells = [
            MARKS[column["cells"][case.name]["verdict"]] if case.name in column["cells"] else ""
            for column in columns
        ]
        lines.append(f"| {case.name} | {case.title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cases(cases: Sequence[Case]) -> str:
    lines = [
        "## The cases, and how each is judged\n",
        (
            "An issue or pull request with a link was looked up for this page and is about what the case"
            " tests; most are closed, and fixed. Those without one were reported to us and not looked up.\n"
        ),
    ]
    letter = ""
    for case in cases:
        if case.name[0] != letter:
            letter = case.name[0]
            lines.append(f"\n**{letter}. {CLASSES[letter]}**\n")
        lines.append(f"- **{case.name}** {case.must} Seen in {', '.join(map(link, case.issues))}.")
    return "\n".join(lines) + "\n"


def link(issue: str) -> str:
    """`zed#64560` with its address, where it was looked up.

    >>> link("zed#64560"), link("tau#452")
    ('[zed#64560](https://github.com/zed-industries/zed/issues/64560)', 'tau#452')
    """
    if issue not in OWNERS:
        return issue
    name, number = issue.split("#")
    return f"[{issue}](https://github.com/{OWNERS[issue]}/{name}/issues/{number})"


def _notes(columns: Sequence[dict[str, Any]]) -> str:
    lines = ["## Notes: how it broke, stopped, or why it does not apply\n"]
    for column in columns:
        told: dict[str, list[str]] = {}
        for name, cell in column["cells"].items():
            if cell["how"]:
                told.setdefault(f"{cell['verdict']}: {_plain(cell['how'])}", []).append(name)
        if told:
            name = f"refold, policy {column['way']}" if column["name"] == "refold" else _title(column)
            notes = "; ".join(f"{', '.join(names)} {how}" for how, names in told.items())
            lines.append(f"- **{name}**: {notes}.")
    return "\n".join(lines) + "\n"


def _plain(how: str) -> str:
    """One line that Markdown takes as it is."""
    return how.strip().rstrip(".").replace("|", "/").replace("<", "&lt;").replace("\n", " ")


def _set_up(found: dict[str, Any]) -> str:
    lines = ["## How each is set up\n", f"- **refold**: {peering.OURS.set_up}"]
    lines += [f"- **{pin.name}** ([documentation]({pin.docs})): {pin.set_up}" for pin in peering.pins()]
    lines.append("\nLeft out:\n")
    lines += [f"- {row['name']}: {row['why']}." for row in peering.table()["left_out"]]
    lines += [f"- {name}: {why}." for name, why in found["left_out"].items()]
    return "\n".join(lines) + "\n"
