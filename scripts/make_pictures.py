"""Make every picture of the documentation from real runs.

    python scripts/make_pictures.py            all; the recording of the demo takes a minute
    python scripts/make_pictures.py fold cost  some of them

fold       one compaction of the example session, message by message
meter      the size of each request of the example session, replayed with and without folds
cost       what these requests cost together
surprise   what a view is worth to a model, from bench/results/surprise.json
demo       a recording of `refold demo` (docs/demo.svg)
"""

import json
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from drawing import COLOURS, DIM, Axes, Picture
from record_terminal import record

import refold
from refold.replay import Recorded, Run, play

ROOT: Final = Path(__file__).resolve().parent.parent
PICTURES: Final = ROOT / "docs" / "pictures"
SESSION: Final = ROOT / "examples" / "long-agent-session.json"
SHOWN_MESSAGES: Final = 48
"""Of the example session in the picture of a fold: as many rows as fit on a screen."""
FOLD_TARGET: Final = 3_000
WINDOW: Final = 32_000
PRICES: Final = "claude-sonnet-4-5"
OWN_VIEWS: Final = (
    "digest 50 and tail 50",
    "digest 30 and tail 70",
    "refold with summary",
    "summary and tail",
)
"""Views that were measured to find the default policy, and those with a summary by the small reader."""


def read_session() -> list[Any]:
    """Return the messages of the example session."""
    messages: list[Any] = json.loads(SESSION.read_text(encoding="utf-8"))
    return messages


# -- before and after a fold --------------------------------------------------------------------------------


def draw_fold() -> str:
    """Draw each message of a conversation as a bar, before and after one fold."""
    messages = read_session()[:SHOWN_MESSAGES]
    outcome = refold.compact(messages, window=8_000, target=FOLD_TARGET)
    rows = _pair_sizes(messages, outcome)
    picture = Picture("One fold: the same conversation before and after", 120 + 9 * len(rows))
    picture.text(24, 32, "One fold, message by message", size=16, bold=True)
    left, right, scale = 24.0, 408.0, 320 / max(before for before, *_ in rows)
    picture.text(
        left, 58, f"before: {outcome.tokens_before:,} tokens, {outcome.messages_before} messages", bold=True
    )
    picture.text(
        right, 58, f"after: {outcome.tokens_after:,} tokens, {outcome.messages_after} messages", bold=True
    )
    for number, (before, after, kind, what) in enumerate(rows):
        y = 70 + 9 * number
        picture.box(left, y, before * scale, 7, COLOURS[kind], tip=f"#{number} {kind}, {before} tokens")
        if after:
            colour = COLOURS["summary"] if what == "summary" else COLOURS[kind]
            picture.box(right, y, after * scale, 7, colour, tip=f"#{number} {what}, {after} tokens")
    _bracket_summary(picture, rows, right)
    kinds = ("system", "user", "assistant", "tool", "summary")
    names = ("system prompt", "user", "assistant and its calls", "tool result", "digest of what left")
    picture.legend(
        24, picture.height - 18, [(name, COLOURS[kind]) for kind, name in zip(kinds, names, strict=True)]
    )
    return picture.svg()


def _pair_sizes(messages: list[Any], outcome: refold.Outcome) -> list[tuple[int, int, str, str]]:
    """Return size before, size after, kind, and what became of each message."""
    rows = [(refold.count([one]), refold.count([one]), one["role"], "kept") for one in messages]
    for edit in outcome.edits:
        put = sum(refold.count([one]) for one in edit.put)
        for index in range(edit.start, edit.end):
            before, _, kind, _ = rows[index]
            alone = edit.end - edit.start == 1
            rows[index] = (
                before,
                put if index == edit.start else 0,
                kind,
                "shortened" if alone else "summary",
            )
    return rows


def _bracket_summary(picture: Picture, rows: list[tuple[int, int, str, str]], right: float) -> None:
    told = [number for number, row in enumerate(rows) if row[3] == "summary"]
    if told:
        top, bottom = 70 + 9 * told[0], 77 + 9 * told[-1]
        picture.line(
            [(right - 6, top), (right - 10, top), (right - 10, bottom), (right - 6, bottom)],
            COLOURS["summary"],
            1.5,
        )
        picture.text(
            right + 4, bottom - 8, f"{len(told)} messages left; each can be brought back", size=11, colour=DIM
        )


# -- the meter, and the money -------------------------------------------------------------------------------


def play_session(policy: str, window: int) -> Run:
    """Replay the example session under one policy, without a model."""
    return play(
        Recorded(read_session()), policy, window=window, price=PRICES, summaries="passed over", facts=False
    )


def draw_meter() -> str:
    """Draw the size of every request, with and without folds."""
    none, folded = play_session("none", WINDOW), play_session("refold", WINDOW)
    picture = Picture("The size of each request over a session, with and without folds", 330)
    picture.text(24, 32, "The size of each request over one session", size=16, bold=True)
    picture.text(
        24,
        52,
        f"a recorded agent task of {len(read_session())} messages, replayed in a window of {WINDOW:,} tokens",
        colour=DIM,
    )
    last = none.turns[-1]
    axes = Axes(picture, (66, 74, 736, 280), (last.number, 120_000))
    ticks = [(value, f"{value // 1000}k" if value else "0") for value in range(0, 120_001, 20_000)]
    axes.draw([(value, f"{value}") for value in range(0, last.number + 1, 50)], ticks, "requests")
    picture.line([(axes.left, axes.y(WINDOW)), (axes.right, axes.y(WINDOW))], COLOURS["bad"], 1.5, "6 4")
    picture.text(
        axes.right - 4,
        axes.y(WINDOW) - 6,
        f"window: {WINDOW:,}",
        size=11,
        colour=COLOURS["bad"],
        anchor="end",
    )
    axes.plot([(turn.number, turn.tokens) for turn in none.turns], COLOURS["other"])
    axes.plot([(turn.number, turn.tokens) for turn in folded.turns], COLOURS["good"], 2.5)
    for fold in folded.folds:
        picture.dot(axes.x(fold.turn), axes.y(fold.tokens_after), COLOURS["good"])
    picture.text(axes.x(60), axes.y(54_000), "without folds: over the window, a provider refuses", colour=DIM)
    picture.text(
        axes.x(last.number * 0.55),
        axes.y(3_000),
        f"with refold: {len(folded.folds)} folds (dots), always inside",
        colour=COLOURS["good"],
    )
    return picture.svg()


def draw_cost() -> str:
    """Draw what the requests of the session cost together, with and without folds."""
    runs = {
        "no folds": (play_session("none", WINDOW), COLOURS["other"]),
        "thrifty, window 200k": (play_session("thrifty", 200_000), COLOURS["third"]),
        f"refold, window {WINDOW // 1000}k": (play_session("refold", WINDOW), COLOURS["good"]),
    }
    most = max(run.dollars or 0 for run, _ in runs.values())
    requests = max(len(run.turns) for run, _ in runs.values())
    picture = Picture("What one session costs, with and without folds", 330)
    picture.text(24, 32, "What one session costs", size=16, bold=True)
    picture.text(24, 52, f"the same task, at the prices of {PRICES}, its cache included", colour=DIM)
    axes = Axes(picture, (66, 74, 560, 280), (requests, most * 1.05))
    axes.draw(
        [(value, f"{value}") for value in range(0, requests + 1, 50)],
        [(value, f"${value}") for value in range(int(most) + 1)],
        "requests",
    )
    for name, (run, colour) in runs.items():
        folds = {fold.turn: fold.calls.dollars or 0 for fold in run.folds}
        sums = list(accumulate((turn.dollars or 0) + folds.get(turn.number, 0) for turn in run.turns))
        axes.plot([(turn.number, total) for turn, total in zip(run.turns, sums, strict=True)], colour, 2.5)
        picture.text(axes.right + 10, axes.y(sums[-1]) + 4, f"${sums[-1]:.2f}", bold=True, colour=colour)
        picture.text(axes.right + 58, axes.y(sums[-1]) + 4, name, size=11, colour=DIM)
    return picture.svg()


# -- what a view is worth -----------------------------------------------------------------------------------


def draw_surprise() -> str:
    """Draw how well a model predicts the recorded next actions from views of one size."""
    found = json.loads((ROOT / "bench" / "results" / "surprise.json").read_text(encoding="utf-8"))
    reader = found["readers"][0]
    rows = [
        row
        for row in reader["rows"]
        if row["kind"] == "agent runs"
        and row["size"] == "25%"
        and "later" in row
        and row["method"] not in OWN_VIEWS
    ]
    rows.sort(key=lambda row: -row["later"]["share"])
    picture = Picture(
        "What a view is worth to a model: kept share of the whole history's worth", 130 + 24 * len(rows)
    )
    picture.text(24, 32, "What a quarter of the tokens is worth to the model", size=16, bold=True)
    picture.text(
        24,
        52,
        f"100 % = as good as the whole history; {reader['model']}, {rows[0]['runs']} recorded agent runs",
        colour=DIM,
    )
    picture.text(330, 76, "the next 3 actions", bold=True, anchor="middle")
    picture.text(610, 76, "actions 4 to 10", bold=True, anchor="middle")
    for column, name in ((220.0, "first"), (500.0, "later")):
        _draw_shares(picture, rows, column, name)
    for number, row in enumerate(rows):
        ours = row["method"] == "refold"
        picture.text(24, 102 + 24 * number, row["method"], bold=ours, colour=COLOURS["good"] if ours else DIM)
    return picture.svg()


def _draw_shares(picture: Picture, rows: list[dict[str, Any]], left: float, name: str) -> None:
    """Draw one column: a dot for each share, and a line for its 95 % interval."""

    def place(share: float) -> float:
        return left + (share + 0.5) / 1.5 * 220

    bottom = 90 + 24 * len(rows)
    for share, label in ((-0.5, "-50 %"), (0.0, "0"), (0.5, "50 %"), (1.0, "100 %")):
        picture.line([(place(share), 86), (place(share), bottom)], "#cbd5e1" if share == 0 else "#eef2f7", 1)
        picture.text(place(share), bottom + 18, label, size=11, colour=DIM, anchor="middle")
    for number, row in enumerate(rows):
        y, value = 98.0 + 24 * number, row[name]
        colour = COLOURS["good"] if row["method"] == "refold" else COLOURS["other"]
        picture.line([(place(max(value["low"], -0.5)), y), (place(min(value["high"], 1.0)), y)], colour, 2)
        picture.dot(place(value["share"]), y, colour, 5 if row["method"] == "refold" else 4)


MAKERS: Final[dict[str, tuple[Path, Callable[[], str]]]] = {
    "fold": (PICTURES / "fold.svg", draw_fold),
    "meter": (PICTURES / "meter.svg", draw_meter),
    "cost": (PICTURES / "cost.svg", draw_cost),
    "surprise": (PICTURES / "surprise.svg", draw_surprise),
    "demo": (ROOT / "docs" / "demo.svg", record),
}
"""Every picture: its file, and how it is made."""


def main() -> None:
    """Make the pictures that are named, or all."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or MAKERS:
        file, make = MAKERS[name]
        file.write_text(make(), encoding="utf-8")
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
