"""Re-reads: how often an agent would have to read a file again because a fold took away what it then used.

    python -m bench.rereads DATA --json bench/results/rereads.json

No model is asked. A recording is played turn by turn through a session in a small window. Each time the
session folds, the next 10 recorded actions are looked at. An action *uses* a line of a file if

- it names the file (a path in its arguments or in its command), and
- an earlier action that named the same file had shown the line, in its output or in its own text, and
- it repeats the line, whole and without its indentation; or it writes a name that stands in at most three of
  the lines that were shown of this file. Lines and names that are too short to mean one place do not count.

Only lines that were shown before the fold and not again between the fold and the action count: the others the
agent has anyway. The view *holds* a line if the line stands in it, whole or in a shrunk output. Where the
view holds fewer than half of the lines that an action uses of an earlier output, the agent would have to
*read again*. Reading once is enough: each earlier output counts once for a fold. *Read again* is the share of
the earlier outputs that are used. *By handle* are those among them whose number (`#12`) stands in the view:
one call of the tool `recall` brings back the lines.

The same folds are judged with a plain tail, and with system prompt, task and tail, of the same tokens as the
session's view. *Of the tail's* compares the re-reads with those that the plain tail causes; the goal is half.
*Unreachable* compares only those that no handle brings back; a handle needs the tool `recall`.
The agent in the recording saw everything; what it would really have done is not known.
"""

import argparse
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from bench.surprise import show_progress
from bench.surprise_cases import Wire, find_head, find_system
from bench.surprise_table import format_markdown, measure_share, print_rows, write_json, write_markdown
from bench.surprise_views import HEAD_AND_TAIL, REFOLD, TAIL, find_folds, keep_tail, name_session

import refold
from refold.evals.datasets import Dataset, Run, read_dataset

NEXT_ACTIONS: Final = 10
WINDOWS: Final = (16_000, 24_000, 64_000, 200_000)
SHARES: Final = ("read again", "by handle", "of the tail's", "unreachable")
METHODS: Final = (REFOLD, TAIL, HEAD_AND_TAIL)
HELD_SHARE: Final = 0.5
LEAST_LINE: Final = 12
"""Characters of a line that means one place; `return None` and `}` stand everywhere."""
LEAST_NAME: Final = 6
MOST_LINES_OF_NAME: Final = 3
LONGEST_LINE: Final = 160
"""Characters by which lines are compared; a view may cut longer ones."""
PATH: Final = re.compile(
    r"[\w.@~+-]*(?:/[\w.@+-]+)+\.\w{1,5}\b|\b[\w-]+\.(?:py|js|ts|ex|exs|rst|md|json|toml|txt|cfg)\b"
)
NAME: Final = re.compile(r"[A-Za-z_]\w+")
LINE_NUMBER: Final = re.compile(r"^\s*\d+(?:→|\t|:|-)\s?")
"""The number before a line in the output of a reader of files or of `grep -n`."""
COMMAND: Final = re.compile(r"```\w*\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Action:
    """A recorded action: its text, and the files it names."""

    at: int
    text: str
    files: frozenset[str]
    shown: frozenset[str]
    """Lines of its output, and those that it wrote itself."""


@dataclass(frozen=True, slots=True)
class Need:
    """Lines that an action uses, by the message that showed them last."""

    shown_at: int
    lines: frozenset[str]


@dataclass(slots=True)
class FoldCount:
    """What one fold cost by one method."""

    run: str
    kind: str
    window: int
    method: str
    needs: int
    rereads: int
    by_handle: int
    tail_rereads: int
    """What the plain tail causes at the same fold."""
    tokens: int
    prefix_tokens: int


def split_lines(text: str) -> frozenset[str]:
    """Return the lines of a text that mean one place, without indentation and line numbers."""
    lines = (LINE_NUMBER.sub("", line).strip()[:LONGEST_LINE] for line in text.splitlines())
    return frozenset(line for line in lines if len(line) >= LEAST_LINE)


def action_text(message: Mapping[str, Any]) -> str:
    """Return what an action does: the arguments of its calls, or the commands in its text."""
    calls = message.get("tool_calls") or ()
    if calls:
        return "\n".join(text for call in calls for text in iter_strings(read_arguments(call)))
    return "\n".join(COMMAND.findall(content_text(message)))


def content_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message without its calls."""
    return "\n".join(iter_strings(message.get("content")))


def read_arguments(call: Mapping[str, Any]) -> Any:
    """Return the arguments of a call; text that is no JSON stays text."""
    try:
        return json.loads(call["function"]["arguments"])
    except ValueError:
        return call["function"]["arguments"]


def iter_strings(value: Any) -> Iterator[str]:
    """Yield every string in arguments."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from iter_strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from iter_strings(item)


def find_files(text: str) -> frozenset[str]:
    """Return the files that an action names, by their last two parts: paths are written in several ways."""
    return frozenset("/".join(path.split("/")[-2:]) for path in PATH.findall(text))


def written_lines(text: str) -> frozenset[str]:
    """Return the lines that an action writes; a line that names a file is a command, which may come again."""
    return frozenset(line for line in split_lines(text) if not PATH.search(line))


def list_actions(messages: Wire) -> list[Action]:
    """Return the actions of a recording, each with what it showed."""
    actions = []
    for at, message in enumerate(messages):
        if message["role"] != "assistant" or not (text := action_text(message)):
            continue
        end = at + 1
        while end < len(messages) and messages[end]["role"] != "assistant":
            end += 1
        output = "\n".join(content_text(each) for each in messages[at + 1 : end])
        actions.append(Action(at, text, find_files(text), split_lines(output) | written_lines(text)))
    return actions


def find_needs(before: Sequence[Action], between: Sequence[Action], action: Action) -> list[Need]:
    """Find the lines that an action uses and that only actions before the fold have shown."""
    shown: dict[str, int] = {}
    for each in before:
        if each.files & action.files:
            shown |= dict.fromkeys(each.shown, each.at)
    for each in between:
        for line in each.shown:
            shown.pop(line, None)
    by_message: dict[int, set[str]] = defaultdict(set)
    for line in find_used_lines(action, shown):
        by_message[shown[line]].add(line)
    return [Need(at, frozenset(lines)) for at, lines in by_message.items()]


def find_used_lines(action: Action, shown: Mapping[str, int]) -> set[str]:
    """Return the shown lines that an action repeats, or whose rare names it writes."""
    used = {line for line in split_lines(action.text) if line in shown}
    names = set(NAME.findall(action.text)) - {name for path in action.files for name in NAME.findall(path)}
    lines_of: dict[str, list[str]] = defaultdict(list)
    for line in shown:
        for name in names & line_names(line):
            lines_of[name].append(line)
    for name, lines in lines_of.items():
        if len(name) >= LEAST_NAME and len(lines) <= MOST_LINES_OF_NAME:
            used.update(lines)
    return used


@cache
def line_names(line: str) -> frozenset[str]:
    """Return the names in a line."""
    return frozenset(NAME.findall(line))


def count_fold(actions: Sequence[Action], cut: int, view: Wire) -> tuple[int, int, int]:
    """Return earlier messages that the next actions need, those to be read again, and of these by handle."""
    text = "\n".join(content_text(message) + "\n" + action_text(message) for message in view)
    held = split_lines(text)
    before = [each for each in actions if each.at < cut]
    after = [each for each in actions if each.at >= cut][:NEXT_ACTIONS]
    needed: set[int] = set()
    missing: set[int] = set()
    for number, action in enumerate(after):
        for need in find_needs(before, after[:number], action):
            needed.add(need.shown_at)
            if sum(is_held(line, held, text) for line in need.lines) < HELD_SHARE * len(need.lines):
                missing.add(need.shown_at)
    return len(needed), len(missing), sum(has_handle(text, at) for at in missing)


def is_held(line: str, held: frozenset[str], text: str) -> bool:
    """True if a view shows a line, as a line or inside a longer one."""
    return line in held or line in text


def has_handle(text: str, at: int) -> bool:
    """True if a view names a message or its output by its number; numbers begin with 1."""
    return re.search(rf"#(?:{at + 1}|{at + 2})\b", text) is not None


@dataclass(frozen=True, slots=True)
class EstimateCounter:
    """The estimate of this project: no tokenizer is needed here."""

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        return refold.count(text)


def count_run(kind: str, run: Run, window: int) -> Iterator[FoldCount]:
    """Yield the counts of every fold of one recording in one window, by method."""
    actions, counter = list_actions(run.messages), EstimateCounter()
    for cut, view in find_folds(run.messages, window):
        prefix = run.messages[:cut]
        budget, whole = refold.count(view), refold.count(prefix)
        views = {
            REFOLD: view,
            TAIL: keep_tail(counter, prefix, budget, find_system(prefix)),
            HEAD_AND_TAIL: keep_tail(counter, prefix, budget, find_head(prefix)),
        }
        counts = {method: count_fold(actions, cut, made) for method, made in views.items()}
        for method, made in views.items():
            sizes = counts[TAIL][1], refold.count(made), whole
            yield FoldCount(run.name, kind, window, method, *counts[method], *sizes)


def make_rows(counts: Sequence[FoldCount], windows: Sequence[int]) -> list[dict[str, Any]]:
    """Return the table: one row for each kind of recording, window and method."""
    rows: list[dict[str, Any]] = []
    for kind in dict.fromkeys(each.kind for each in counts):
        for window in windows:
            here = [each for each in counts if (each.kind, each.window) == (kind, window)]
            rows += [
                make_row(kind, window, method, [each for each in here if each.method == method])
                for method in METHODS
                if here
            ] or [no_folds(kind, window)]
    return rows


def no_folds(kind: str, window: int) -> dict[str, Any]:
    """Return the row of a window in which nothing folds."""
    return {"kind": kind, "size": name_session(window), "method": "all", "folds": 0, "note": "nothing folds"}


def make_row(kind: str, window: int, method: str, counts: Sequence[FoldCount]) -> dict[str, Any]:
    """Return one row: re-reads for each fold, and as a share of the messages that are needed."""
    return {
        "kind": kind,
        "size": name_session(window),
        "method": method,
        "read again": measure_share((each.run, (each.rereads, each.needs)) for each in counts),
        "by handle": measure_share((each.run, (each.by_handle, each.needs)) for each in counts),
        "of the tail's": measure_share((each.run, (each.rereads, each.tail_rereads)) for each in counts),
        "unreachable": measure_share(
            (each.run, (each.rereads - each.by_handle, each.tail_rereads)) for each in counts
        ),
        "rereads_per_fold": round(sum(each.rereads for each in counts) / len(counts), 3),
        "needed": sum(each.needs for each in counts),
        "tokens": round(sum(each.tokens for each in counts) / sum(each.prefix_tokens for each in counts), 4),
        "folds": len(counts),
        "runs": len({each.run for each in counts}),
    }


def measure(dataset: Dataset, windows: Sequence[int]) -> list[FoldCount]:
    """Count all folds of all recordings."""
    counts: list[FoldCount] = []
    for kind, runs in (("agent runs", dataset.runs), ("transcripts", dataset.transcripts)):
        for number, run in enumerate(runs):
            for window in windows:
                counts += count_run(kind, run, window)
            show_progress(f"{kind}: {number + 1} of {len(runs)}")
    return counts


def main() -> None:
    """Measure, print the table, write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="a folder of agent runs and transcripts")
    parser.add_argument("--window", type=int, action="append", help="16k, 24k, 64k and 200k by default")
    parser.add_argument("--json", type=Path, help="write the table and every fold to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file, or between its markers")
    options = parser.parse_args()
    began, windows = time.monotonic(), options.window or WINDOWS
    counts = measure(read_dataset(options.data), windows)
    rows = make_rows(counts, windows)
    print_rows(rows, SHARES, "kind")
    command = "python -m bench.rereads DATA"
    about = {"command": command, "seconds": round(time.monotonic() - began), "rows": rows}
    write_json(options.json, about | {"folds": [asdict(each) for each in counts]})
    counted = ("needed", "folds", "runs")
    tables = [
        format_markdown(kind, [row for row in rows if row["kind"] == kind], SHARES, counted)
        for kind in dict.fromkeys(row["kind"] for row in rows)
    ]
    write_markdown(options.markdown, "rereads", command, tables)


if __name__ == "__main__":
    main()
