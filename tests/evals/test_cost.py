"""`refold eval cost` on small made-up traces in the layouts of the real ones."""

import json
from argparse import ArgumentParser
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from refold.core.models.windows import Price
from refold.errors import RefoldError
from refold.evals import EVALS, cost
from refold.evals.cost_search import ALL, iter_knobs, measure, price_run
from refold.evals.traces import read_traces
from refold.replay import NONE, play

WORDS = "the work goes on step by step and nobody knows how it will end "
SEARCH = [
    {"history_tokens": 8_000, "target_tokens": 3_000},
    {"history_tokens": 16_000, "target_tokens": 8_000},
]


def _trajectory(turns):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Mend the build."}]
    size = 20
    for turn in range(turns):
        usage = {
            "prompt_tokens": size,
            "completion_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        response = {"created": 1_000 + turn * 5, "usage": usage}
        said = f"I look at src/part_{max(0, turn - 6)}.py"
        messages.append({"role": "assistant", "content": said, "extra": {"response": response}})
        messages.append({"role": "user", "content": f"src/part_{turn}.py: " + WORDS * 60})
        size += 880
    return {"messages": messages, "info": {}}


def _lines(turns):
    for turn in range(turns):
        at = datetime.fromtimestamp(1_700_000_000 + turn * 30, UTC).isoformat()
        asked = {"role": "user", "content": f"src/part_{turn}.py: " + WORDS * 20}
        yield {"type": "user", "timestamp": at, "message": asked}
        usage = {
            "input_tokens": 3,
            "cache_read_input_tokens": 5_000 + turn * 290,
            "cache_creation_input_tokens": 290,
        }
        for text in ("I look", f"at src/part_{turn}.py"):
            block = {
                "role": "assistant",
                "id": f"m{turn}",
                "usage": usage,
                "content": [{"type": "text", "text": text}],
            }
            yield {"type": "assistant", "timestamp": at, "message": block}
    yield {"type": "user", "isCompactSummary": True, "message": {"role": "user", "content": "left out"}}
    yield {"type": "system", "subtype": "turn_duration"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    runs, notes, talks = (root / name for name in ("swe-bench-trajectories", "claude-code", "tau-bench"))
    for each in (runs, notes, talks):
        each.mkdir()
    (runs / "one.traj.json").write_text(json.dumps(_trajectory(40)))
    (runs / "two.traj.json").write_text(json.dumps(_trajectory(8)))
    (notes / "a.jsonl").write_text("\n".join(json.dumps(line) for line in _lines(12)))
    talk = [{"role": ("user", "assistant")[n % 2], "content": f"word {n}"} for n in range(8)]
    (talks / "airline.json").write_text(json.dumps([{"traj": talk}, {"traj": talk[:2]}]))
    return root


@pytest.fixture(scope="module")
def report(folder):
    return measure(folder, search=SEARCH)


def test_traces_come_with_what_was_reported(folder):
    found = read_traces(folder)
    assert {kind: len(each) for kind, each in found.items()} == {
        "swe-bench-trajectories": 2,
        "claude-code": 1,
        "tau-bench": 1,
    }
    notes = found["claude-code"][0]
    assert len(notes.messages) == 24
    assert len(notes.messages[1]["content"]) == 2
    assert notes.scale.beside > 4_000
    assert notes.clock[1] - notes.clock[0] == 30
    assert found["swe-bench-trajectories"][0].clock[1] - found["swe-bench-trajectories"][0].clock[0] == 5


def test_one_kind_alone_and_torn_lines(folder, tmp_path):
    notes = read_traces(folder / "claude-code")
    assert list(notes) == ["claude-code"]
    torn = (folder / "claude-code" / "a.jsonl").read_text() + '\n{"type": "assistant", "mess'
    (tmp_path / "torn.jsonl").write_text(torn)
    (tmp_path / "other.json").write_text("[1, {}]")
    (tmp_path / "half.traj.json").write_text('{"messages": [')
    assert len(read_traces(tmp_path)["claude-code"][0].messages) == 24


def test_every_preset_stands_beside_nothing_and_the_best(report):
    rows = {(row.kind, row.price, row.summaries): row for row in report.rows}
    assert len(rows) == 4 * 3 * 2
    row = rows["swe-bench-trajectories", "anthropic", "passed over"]
    assert [each.policy for each in row.bills] == [
        "ripple",
        "codebuddy",
        "umwelten",
        "neurolink",
        "opal",
        "refold",
        "thrifty",
    ]
    assert row.best.never_dearer
    assert row.best.dollars <= row.none
    assert row.cheapest.dollars <= row.best.dollars
    assert row.gap == pytest.approx(row.thrifty.dollars / row.best.dollars - 1)
    assert rows[ALL, "anthropic", "passed over"].none == pytest.approx(
        sum(rows[kind, "anthropic", "passed over"].none for kind in report.conversations)
    )


def test_a_policy_that_makes_one_run_dearer_is_not_the_best(report):
    """With a model or without: one that is dearer in one of the two is the best in neither."""
    rows = [row for row in report.rows if (row.kind, row.price) == (ALL, "anthropic")]
    for row, other in (rows, rows[::-1]):
        for each, same in zip(row.curve, other.curve, strict=True):
            assert each.never_dearer == (not each.dearer and not same.dearer)
            assert each.dollars >= row.best.dollars or not each.never_dearer


def test_a_short_conversation_is_left_alone(report):
    row = next(row for row in report.rows if row.kind == "tau-bench")
    assert row.default.folds == 0
    assert row.gap == 0


def test_the_replay_is_checked_against_the_reports(report):
    """Sizes are learned from the first and the last report, so those between must be near."""
    assert report.simulated["swe-bench-trajectories"].requests == 48
    assert report.simulated["swe-bench-trajectories"].size_error < 0.05
    assert report.simulated["claude-code"].cached_reported > 0.9
    assert "tau-bench" not in report.simulated


def test_a_bill_at_any_price_is_that_of_a_run_at_this_price(folder):
    recorded = read_traces(folder)["swe-bench-trajectories"][0]
    price = Price(3, 15, 0.3, 3.75)
    for policy in (NONE, "opal"):
        plain = play(recorded, policy, window=12_000)
        assert price_run(plain, price) == pytest.approx(
            play(recorded, policy, window=12_000, price=price).dollars
        )


def test_the_search_turns_knobs_of_the_house():
    points = list(iter_knobs())
    assert len(points) > 20
    assert {"history_tokens": 48_000, "target_tokens": 16_000} in points


def test_a_folder_without_traces_says_what_is_wanted(tmp_path):
    with pytest.raises(RefoldError, match="holds no usage traces"):
        measure(tmp_path)


@dataclass
class Shown:
    lines: list = field(default_factory=list)
    width: int = 100

    def line(self, text=""):
        self.lines.append(text)

    def data(self, text):
        self.lines.append(text)

    def show(self, doing, done=0, whole=0):
        assert done <= whole


def test_at_the_terminal(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("refold.evals.cost_search.iter_knobs", lambda: iter(SEARCH))
    parser = ArgumentParser()
    cost.arguments(parser)
    parser.add_argument("--json")  # as `refold eval` adds it
    shown, out = Shown(), tmp_path / "cost.json"
    status = cost.run(
        parser.parse_args([str(folder), "--without-model", "--sample", "1", "--json", str(out)]), shown
    )
    told = json.loads(out.read_text())
    assert status == (0 if told["never_dearer"] else 1)
    assert told["conversations"]["swe-bench-trajectories"] == 1
    assert any(line.startswith("never dearer than no compaction") for line in shown.lines)
    assert {row["summaries"] for row in told["rows"]} == {"passed over"}
    printed = Shown()
    args = parser.parse_args([str(folder), "--with-model", "--sample", "1", "--json", "-"])
    assert cost.run(args, printed) in {0, 1}
    assert json.loads(printed.lines[-1])["rows"][0]["summaries"] == "stand-in"
    assert "cost" in EVALS
