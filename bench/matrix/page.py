"""docs/torture.md from the results of the matrix: nothing in it is written by hand but the words around."""

from collections.abc import Sequence
from typing import Any, Final

from bench import peering
from bench.matrix.subjects import BUDGET, WINDOW, Case

OWNERS: Final = {
    "adk-python": "google",
    "agent-framework": "microsoft",
    "camel": "camel-ai",
    "claude-code": "anthropics",
    "cline": "cline",
    "codex": "openai",
    "Codewhale": "Hmbown",
    "deepagents": "langchain-ai",
    "deepagentsjs": "langchain-ai",
    "gemini-cli": "google-gemini",
    "goose": "block",
    "headroom": "headroomlabs-ai",
    "hermes-agent": "NousResearch",
    "inspect_ai": "UKGovernmentBEIS",
    "langchain": "langchain-ai",
    "langmem": "langchain-ai",
    "neurolink": "juspay",
    "openai-agents-python": "openai",
    "openclaw": "openclaw",
    "opencode": "sst",
    "OpenHands": "OpenHands",
    "pi": "earendil-works",
    "Roo-Code": "RooCodeInc",
    "zed": "zed-industries",
}
"""Whose repository an issue is in; issues of others are named without a link."""

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

HEAD: Final = """# The torture matrix

Failures of real compactors, taken from public issues, as small cases that run against Refold and against
other libraries on the same inputs with the same scripted model. This page is written by `{command}` ({date},
Python {python}, {seconds} s); nothing in it is edited by hand, and the cases stand in `bench/matrix/`.

Every subject is set up as its own documentation says ([below](#how-each-is-set-up)) by an adapter in
`bench/peers/` and runs in an environment of its own with pinned versions (`bench/peers/pins.toml`). Unless a
case says otherwise a view may have {budget:,} tokens and the summariser takes {window:,}. Whether a provider
would take a view is judged by a checker written for the matrix (`bench/matrix/checks.py`) and by
`refold.validate`; sizes by the kinder of four characters a token and an exact count, a tenth allowed. If you
maintain one of these libraries and find a cell unfair, the adapter or the case is wrong: please say so.

- **yes**: what must happen, happened.
- **stops**: an error was raised and nothing was changed. No damage, but no next turn either.
- **no**: something else happened; the notes say what.
- **-**: there is no such feature; the notes say why.
"""


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
    rows = []
    for column in columns:
        verdicts = [cell["verdict"] for cell in column["cells"].values()]
        counts = " | ".join(str(verdicts.count(verdict)) for verdict in MARKS)
        name = f"refold, policy {column['way']}" if column["name"] == "refold" else _title(column)
        rows.append(f"| {name} | {column['version']} | {counts} |")
    head = "| subject | version | yes | stops | no | - |\n|---|---|---|---|---|---|\n"
    return "## In all\n\n" + head + "\n".join(rows) + "\n"


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
    lines = ["## The cases, and how each is judged\n"]
    letter = ""
    for case in cases:
        if case.name[0] != letter:
            letter = case.name[0]
            lines.append(f"\n**{letter}. {CLASSES[letter]}**\n")
        lines.append(f"- **{case.name}** {case.must} Seen in {', '.join(map(link, case.issues))}.")
    return "\n".join(lines) + "\n"


def link(issue: str) -> str:
    """`codex#25792` with its address, where that is known.

    >>> link("codex#25792")
    '[codex#25792](https://github.com/openai/codex/issues/25792)'
    """
    name, number = issue.split("#")
    if name not in OWNERS:
        return issue
    return f"[{issue}](https://github.com/{OWNERS[name]}/{name}/issues/{number})"


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
