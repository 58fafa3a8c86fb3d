"""Re-reads after a fold, counted on small recordings in which one knows what each action uses."""

import json
import sys

import pytest
from bench import rereads

from chat_messages import written_call
from refold.evals.datasets import Dataset, Run

SHOWN = "def parse_header(line):\n    return line.partition(': ')\n\ndef parse_body(text):\n    return text.strip()"


def run_command(command, output):
    """An action as an agent without tools writes it, and what it showed."""
    return [
        {"role": "assistant", "content": f"THOUGHT: go on\n\n```bash\n{command}\n```"},
        {"role": "user", "content": f"<returncode>0</returncode>\n<output>\n{output}\n</output>"},
    ]


def call_tool(name, arguments, output, number):
    """An action as an agent with tools writes it."""
    return [
        written_call(f"c{number}", json.dumps(arguments), name=name),
        {"role": "tool", "tool_call_id": f"c{number}", "content": output},
    ]


TASK = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "Mend the parser."}]
READ = run_command("cat src/parser.py", SHOWN)
EDIT = run_command("sed -i 's/parse_header/read_header/' src/parser.py", "")
OTHER = run_command("cat docs/guide.md", "A guide that is about something else.")


def count(messages, cut, view):
    return rereads.count_fold(rereads.list_actions(messages), cut, view)


def test_an_edit_needs_the_lines_that_were_read_before_the_fold():
    messages = [*TASK, *READ, *OTHER, *EDIT]
    assert count(messages, 6, messages[:6]) == (1, 0, 0)
    assert count(messages, 6, [*TASK, *OTHER]) == (1, 1, 0)


def test_lines_that_are_shown_again_after_the_fold_are_not_needed_from_the_view():
    messages = [*TASK, *READ, *OTHER, *READ, *EDIT]
    assert count(messages, 6, TASK) == (0, 0, 0)
    assert count(messages, 8, TASK) == (1, 1, 0)


def test_a_shrunk_output_that_still_shows_the_lines_is_enough():
    messages = [*TASK, *READ, *OTHER, *EDIT]
    shrunk = {"role": "user", "content": "def parse_header(line):\n[... 80 characters left out ...]"}
    assert count(messages, 6, [*TASK, shrunk]) == (1, 0, 0)


def test_a_list_of_names_does_not_hold_a_line():
    messages = [*TASK, *READ, *OTHER, *EDIT]
    digest = {"role": "user", "content": "src/parser.py: parse_header, parse_body"}
    assert count(messages, 6, [*TASK, digest]) == (1, 1, 0)


def test_a_handle_is_counted_apart():
    """The read is message #3, its output #4."""
    messages = [*TASK, *READ, *OTHER, *EDIT]
    assert count(messages, 6, [*TASK, {"role": "user", "content": "#4 cat src/parser.py"}]) == (1, 1, 1)
    assert count(messages, 6, [*TASK, {"role": "user", "content": "#40 cat src/parser.py"}]) == (1, 1, 0)


def test_an_output_that_two_actions_use_is_read_again_once():
    messages = [*TASK, *READ, *OTHER, *EDIT, *run_command("grep -n parse_body src/parser.py", "")]
    assert count(messages, 6, TASK) == (1, 1, 0)


def test_an_action_on_another_file_needs_nothing():
    messages = [*TASK, *READ, *OTHER, *run_command("echo parse_header >> docs/notes.md", "")]
    assert count(messages, 6, TASK) == (0, 0, 0)


def test_calls_of_tools_are_read_with_their_arguments():
    """The line numbers of the reader are no part of a line; the old text of an edit repeats lines."""
    shown = "\n".join(f"   {number}→{line}" for number, line in enumerate(SHOWN.splitlines(), 1))
    read = call_tool("Read", {"file_path": "/home/a/src/parser.py"}, shown, 1)
    change = {"file_path": "/home/a/src/parser.py", "old_string": "    return line.partition(': ')"}
    messages = [*TASK, *read, *OTHER, *call_tool("Edit", change, "done", 2)]
    assert count(messages, 6, messages[:6]) == (1, 0, 0)
    assert count(messages, 6, TASK) == (1, 1, 0)


def test_arguments_that_are_no_json_stay_text():
    assert rereads.read_arguments({"function": {"arguments": "cat a.py"}}) == "cat a.py"


@pytest.fixture
def dataset():
    messages = list(TASK)
    for step in range(60):
        lines = "\n".join(f"def function_{step}_{line}(value): return value + {line}" for line in range(40))
        messages += run_command(f"cat src/module_{step}.py", lines)
        old = max(0, step - 4)
        messages += run_command(f"sed -i 's/function_{old}_7/renamed_{old}/' src/module_{old}.py", "")
    return Dataset(runs=[Run("run", messages)])


@pytest.mark.campaign
def test_all_methods_are_counted_at_the_same_folds(dataset):
    counts = rereads.measure(dataset, (8_000,))
    folds = {method: [each for each in counts if each.method == method] for method in rereads.METHODS}
    assert len({len(each) for each in folds.values()}) == 1
    assert len(folds["tail"]) >= 2
    assert [each.needs for each in folds["tail"]] == [each.needs for each in folds["refold"]]
    rows = {row["method"]: row for row in rereads.make_rows(counts, (8_000,))}
    assert rows["tail"]["of the tail's"]["share"] in {0.0, 1.0}
    assert rows["tail"]["unreachable"] == rows["tail"]["of the tail's"]
    lost = [each.rereads - each.by_handle for each in folds["refold"]]
    tails = sum(each.tail_rereads for each in folds["refold"])
    assert rows["refold"]["unreachable"]["share"] == pytest.approx(sum(lost) / tails, abs=1e-4)
    assert rows["refold"]["needed"] == rows["tail"]["needed"] > 0


@pytest.mark.campaign
def test_the_program_writes_the_table_and_names_windows_without_folds(dataset, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rereads, "read_dataset", lambda path: dataset)
    words = ["data", "--window", "8000", "--window", "1000000", "--json", str(tmp_path / "out.json")]
    monkeypatch.setattr(sys, "argv", ["rereads", *words, "--markdown", str(tmp_path / "out.md")])
    rereads.main()
    result = json.loads((tmp_path / "out.json").read_text())
    assert [row["size"] for row in result["rows"]] == ["session 8k"] * 3 + ["session 1000k"]
    assert result["rows"][-1]["note"] == "nothing folds"
    assert "| refold | session 8k |" in (tmp_path / "out.md").read_text()
    assert "nothing folds" in capsys.readouterr().out
