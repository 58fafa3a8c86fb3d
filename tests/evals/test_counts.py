"""How far our count is from a provider's, on runs that are made here."""

import json

import pytest

from refold.cli import main
from refold.core.tokens.estimate import estimate
from refold.evals.counts import measure


class Quiet:
    def show(self, *_about):
        pass


def run_of(folder, name, factor, turns=6):
    """A run whose provider counts so many times our estimate."""
    words = [f"def function_{number}(value): return value + {number}\n" * 20 for number in range(turns * 2)]
    messages = [{"role": "system", "content": "You are careful."}, {"role": "user", "content": words[0] * 5}]
    for number in range(turns):
        tokens = round(sum(estimate(each["content"]) for each in messages) * factor)
        usage = {"prompt_tokens": tokens, "completion_tokens": 50}
        messages.append(
            {"role": "assistant", "content": words[number], "extra": {"response": {"usage": usage}}}
        )
        messages.append({"role": "user", "content": words[-number]})
    path = folder / "swe-bench-trajectories" / f"{name}.traj.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"messages": messages}))


def test_a_provider_that_counts_otherwise_is_followed_from_its_first_report_on(tmp_path):
    run_of(tmp_path, "one", factor=1.3)
    rows = {row["way"]: row for row in measure(tmp_path, Quiet())}
    assert rows["first request"]["bias"] == pytest.approx(1 / 1.3 - 1, abs=0.02)
    assert rows["later requests"]["requests"] == 5
    assert rows["later requests"]["mean"] < 0.01
    assert rows["characters / 4"]["mean"] > rows["later requests"]["mean"]


def test_the_figures_are_shown_and_written(tmp_path, capsys):
    run_of(tmp_path, "one", factor=1.0)
    assert main(["eval", "counts", str(tmp_path), "--json", str(tmp_path / "counts.json")]) == 0
    assert "later requests" in capsys.readouterr().out
    assert json.loads((tmp_path / "counts.json").read_text())["rows"][0]["requests"] == 1


def test_a_folder_without_reports_is_refused_in_one_line(tmp_path, capsys):
    assert main(["eval", "counts", str(tmp_path)]) == 2
    assert "holds no agent runs or transcripts with reported usage" in capsys.readouterr().err
