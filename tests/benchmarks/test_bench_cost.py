"""The committed result of `refold eval cost`: what folding costs on recorded usage."""

import json
from pathlib import Path

import pytest

from refold import presets

RESULT = json.loads((Path(__file__).parents[2] / "bench" / "results" / "cost.json").read_text())
ROWS = [row for row in RESULT["rows"] if row["kind"] == "all"]


def test_it_is_a_result_of_long_and_short_conversations_in_a_large_window():
    assert RESULT["window"] == 200_000
    assert RESULT["conversations"].keys() == {"swe-bench-trajectories", "claude-code", "tau-bench"}
    assert {row["summaries"] for row in ROWS} == {"passed over", "stand-in"}


@pytest.mark.parametrize("policy", ["default", "thrifty"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['price']}, {row['summaries']}")
def test_no_conversation_is_dearer_than_without_compaction(row, policy):
    """At the prices of three providers, with summaries by a model and without."""
    bill = row[policy]
    assert bill["folds"] > 0
    assert bill["dearer"] == 0
    assert bill["dollars"] < row["none"]


def test_thrifty_is_near_the_best_that_is_never_dearer():
    judged = [row for row in ROWS if row["price"] == "anthropic"]
    assert all(row["gap"] <= 0.05 for row in judged)
    assert RESULT["within"]
    (same,) = [
        bill for bill in judged[0]["curve"] if bill["knobs"] == {**presets.THRIFTY, "target_tokens": 16_000}
    ]
    assert same["dollars"] == pytest.approx(judged[0]["thrifty"]["dollars"])
