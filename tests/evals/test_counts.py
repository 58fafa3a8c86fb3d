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


def write_transcript(folder, tokens):
    """Write a session of Claude Code: two calls an answer, with a record each and a result between them."""
    records = [{"type": "user", "message": {"role": "user", "content": "Fix it. " * 50}}]
    for number, size in enumerate(tokens):
        usage = {"input_tokens": size, "output_tokens": 40}
        for call in (f"{number}a", f"{number}b"):
            block = {"type": "tool_use", "id": call, "name": "Read", "input": {"path": call}}
            about = {"role": "assistant", "id": f"msg_{number}", "usage": usage, "content": [block]}
            result = {"type": "tool_result", "tool_use_id": call, "content": "value = compute()\n" * 100}
            records.append({"type": "assistant", "message": about})
            records.append({"type": "user", "message": {"role": "user", "content": [result]}})
    path = folder / "claude-code" / "one.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, records)))


def test_an_answer_with_two_calls_is_one_request(tmp_path):
    write_transcript(tmp_path, [20_000, 21_000, 22_000, 23_000])
    rows = {row["way"]: row["requests"] for row in measure(tmp_path, Quiet())}
    assert rows == {"first request": 1, "later requests": 3, "characters / 4": 3}


def test_behind_a_fold_of_the_agent_itself_the_count_begins_anew(tmp_path):
    """The recording has all messages, of which the agent sent a few: they are no measure of the next request."""
    step = 1_250  # about what two calls and their results take
    sizes = [*range(60_000, 60_000 + 5 * step, step), *range(15_000, 15_000 + 5 * step, step)]
    write_transcript(tmp_path, sizes)
    rows = {row["way"]: row for row in measure(tmp_path, Quiet())}
    assert rows["first request"]["requests"] == 2
    assert rows["later requests"]["requests"] == 8
    assert rows["later requests"]["mean"] < 0.03


def test_the_figures_are_shown_and_written(tmp_path, capsys):
    run_of(tmp_path, "one", factor=1.0)
    assert main(["eval", "counts", str(tmp_path), "--json", str(tmp_path / "counts.json")]) == 0
    assert "later requests" in capsys.readouterr().out
    assert json.loads((tmp_path / "counts.json").read_text())["rows"][0]["requests"] == 1


@pytest.mark.parametrize("measure", ["counts", "cost"])
def test_a_folder_that_is_not_there_is_named(tmp_path, capsys, measure):
    assert main(["eval", measure, str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.endswith("none: there is no such folder\n")


def test_a_folder_without_reports_is_refused_in_one_line(tmp_path, capsys):
    assert main(["eval", "counts", str(tmp_path)]) == 2
    assert "holds no agent runs or transcripts with reported usage" in capsys.readouterr().err
