"""The guard compares ratios and counts with a baseline, and calls a slower time with the same work noise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench import guard, instructions, speed

ROOT = Path(__file__).parents[2]


def run_of(ours, theirs=10.0, instructions=1_000, calls=100):
    rows = [
        {"step": "act", "messages": 1_000, "subject": "refold", "ms": ours},
        {"step": "act", "messages": 1_000, "subject": "refold model", "ms": ours * 2},
        {"step": "act", "messages": 1_000, "subject": "peer one", "ms": theirs},
        {"step": "act", "messages": 1_000, "subject": "peer two", "ms": theirs * 3},
        {"step": "count", "messages": 1_000, "subject": "peer two", "note": "failed"},
    ]
    return {
        "ratios": guard.ratios({"rows": rows}),
        "counts": {"act": {"calls": calls, "instructions": instructions}},
    }


def verdicts(before, now):
    return [finding.verdict for finding in guard.compared(before, now)]


def test_ratios_are_ours_to_theirs():
    assert run_of(5.0)["ratios"] == {"act 1000 / peer one": 0.5, "act 1000 / peer two": pytest.approx(1 / 6)}


def test_the_same_again_is_kept():
    assert set(verdicts(run_of(5.0), run_of(5.5))) == {"kept"}


def test_a_busy_machine_is_no_loss():
    assert set(verdicts(run_of(5.0), run_of(10.0, theirs=20.0))) == {"kept"}


def test_more_instructions_are_lost():
    assert "lost" in verdicts(run_of(5.0), run_of(5.0, instructions=1_300))


def test_slower_with_the_same_work_is_noise():
    assert verdicts(run_of(5.0), run_of(9.0)) == ["kept", "kept", "noise"]


def test_slower_with_the_same_calls_is_noise_up_to_twice():
    calls = {"act": {"calls": 100}}
    assert verdicts(run_of(5.0), {**run_of(9.0), "counts": calls})[-1] == "noise"
    assert verdicts(run_of(5.0), {**run_of(11.0), "counts": calls})[-1] == "lost"


def test_slower_with_nothing_counted_is_lost():
    assert verdicts(run_of(5.0), {**run_of(9.0), "counts": {}})[-1] == "lost"


def test_a_peer_that_is_gone_is_not_compared():
    before = run_of(5.0)
    now = {**run_of(5.0), "ratios": {}}
    assert verdicts(before, now) == ["kept", "kept"]


def test_the_program_fails_on_a_loss_and_takes_a_new_baseline(tmp_path):
    files = {name: tmp_path / f"{name}.json" for name in ("speed", "counts", "baseline")}
    rows = [{"step": "act", "messages": 1, "subject": name, "ms": 5} for name in ("refold", "peer")]
    files["speed"].write_text(json.dumps({"rows": rows}))

    def ran(calls, *more):
        files["counts"].write_text(json.dumps({"act": {"calls": calls}}))
        told = [f"--{name}={path}" for name, path in files.items()]
        words = [sys.executable, "-m", "bench.guard", *told, *more]
        return subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60)

    assert ran(100).returncode == 0  # the first run is the baseline
    assert ran(110).returncode == 0
    lost = ran(130)
    assert lost.returncode == 1
    assert "lost    act calls: 100 -> 130 (+30%)" in lost.stdout
    assert ran(130, "--update").returncode == 0
    assert ran(130).returncode == 0


def test_the_committed_baseline_can_be_compared():
    baseline = json.loads(guard.BASELINE.read_text())
    assert {finding.verdict for finding in guard.compared(baseline, baseline)} == {"kept"}


@pytest.mark.campaign
def test_counts_of_our_work_repeat():
    one = instructions.counted(names=("decide",), instructions=())
    assert one == instructions.counted(names=("decide",), instructions=())
    assert one["decide"]["calls"] > 10


def test_what_would_take_too_long_is_foreseen():
    rows = [
        {"step": "act", "messages": 100, "subject": "slow", "ms": 1.0},
        {"step": "act", "messages": 1_000, "subject": "slow", "ms": 100.0},
    ]
    assert speed.expected(rows, "slow", "act", 10_000) == pytest.approx(10_000)
    assert speed.expected(rows, "new", "act", 10_000) == 0
    rows.append({"step": "act", "messages": 10_000, "subject": "slow", "note": "not run"})
    assert speed.expected(rows, "slow", "act", 20_000) == float("inf")


def test_some_steps_are_measured_anew_and_the_others_stay(tmp_path):
    path = tmp_path / "speed.json"
    path.write_text(json.dumps({"rows": [{"step": "act"}, {"step": "count"}], "memory": [1], "weight": [2]}))
    assert speed.before(path, ["count"]) == {"rows": [{"step": "act"}], "memory": [1], "weight": [2]}
    assert speed.before(path, speed.ALL) == {"rows": [], "memory": [], "weight": []}


def test_a_step_that_is_measured_anew_leaves_the_earlier_run():
    now = {"machine": "this one", "date": "today", "load": 0.1}
    runs = speed.add_run([{"steps": ["act", "memory"]}, {"steps": ["memory"]}], ["memory"], now)
    assert runs == [{"steps": ["act"]}, {"steps": ["memory"], **now}]


@pytest.mark.campaign
def test_our_own_figures_come_without_peers(monkeypatch, tmp_path):
    """With a conversation of twenty messages, and one run of each."""
    measured, out = speed.measured, tmp_path / "speed.json"
    monkeypatch.setattr(speed, "SIZES", (10, 20))
    monkeypatch.setattr(speed, "measured", lambda *given, **more: measured(*given, **more | {"seconds": 0}))
    words = ["--quick", "--peers", "none", "--steps", "decide,estimate", "--rounds", "1", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", ["bench.speed", *words])
    speed.main()
    rows = json.loads(out.read_text())["rows"]
    assert [(row["step"], row["subject"]) for row in rows] == [
        ("decide", "refold"),
        ("decide", "refold prepare"),
        ("decide", "refold lists"),
        ("decide", "refold copies"),
        ("decide", "refold folded"),
        ("decide", "refold view"),
        ("decide", "refold stateless"),
        ("estimate", "refold"),
    ]
    assert all(row["ms"] > 0 for row in rows)
