"""The comparison of what is kept: one summariser for all, rows that stay when somebody fails, fair tables."""

import json
import sys
from pathlib import Path

import pytest
from bench import extractive, peering, report_retention, retention, retention_model

from refold.core.compaction.flow import Answer, Ask
from refold.evals.datasets import Dataset
from refold.evals.measures import planted_facts
from refold.evals.methods import Comparison, Method

ADAPTER = str(Path(__file__).with_name("plain_adapter.py"))


def test_a_request_as_json_lines_is_opened_to_what_a_model_would_read():
    lines = [
        json.dumps({"role": "system", "content": "Summarise."}),
        json.dumps({"role": "user", "content": 'He said "no".\nTwice.'}),
    ]
    assert extractive.opened("\n".join(lines)) == ("Summarise.", 'He said "no".\nTwice.')
    more = [*lines, json.dumps({"role": "assistant", "content": [{"type": "text", "text": "Why?"}]})]
    assert extractive.opened("Be brief.\n" + "\n".join(more)) == (
        "Be brief.\nSummarise.",
        'user: He said "no".\nTwice.\n\nassistant: Why?',
    )
    assert extractive.opened("plain\n{not json}") == ("", "plain\n{not json}")


def test_a_summary_never_grows_with_what_has_no_words():
    """Runs of signs once cost nothing: a summary of a summary doubled, and a library asked without end."""
    prompt = "\n".join(
        ["\\" * 300 + f" {number % 90}" for number in range(400)] + ["The gate opens at nine."]
    )
    assert extractive.summary(prompt) == "The gate opens at nine."
    assert len(extractive.summary("abcdefghij" * 38 + ".\n" + "kl-" * 120 + "door")) < 2_000


def test_instructions_are_learnt_from_two_talks_and_skipped():
    def fold(history, _budget, ask):
        said = "\n".join(message["content"] for message in history)
        return [{"role": "user", "content": ask(Ask(f"Extraordinary quintessential instructions.\n{said}"))}]

    taught = retention.taught([Method("asking", fold)], 0)
    assert "Extraordinary quintessential instructions." in taught.skip
    told = taught("Extraordinary quintessential instructions.\nThe gate opens at nine.")
    assert told == "The gate opens at nine."


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Two libraries, one of which cannot start, and measures that take a moment."""
    names = {"docs": "", "set_up": "", "module": "x", "packages": ()}
    pins = [
        peering.Pin(name="plain", adapter=ADAPTER, ways=("tail",), asks=("tail",), **names),
        peering.Pin(name="gone", adapter="/nowhere.py", ways=("x",), asks=("x",), **names),
    ]
    monkeypatch.setattr(peering, "pins", lambda: pins)
    monkeypatch.setattr(retention, "ROUNDS", (1, 2))
    monkeypatch.setattr(retention, "FACTS", 5)
    monkeypatch.setattr(planted_facts, "read_rules", lambda _name: planted_facts.make_facts(10, 3)[5:])
    data = tmp_path / "data"
    data.mkdir()
    talk = [
        {"role": "user", "content": f"Please count shelf {number}, it is row {number}."}
        for number in range(12)
    ]
    (data / "talk.json").write_text(json.dumps(talk))
    return data


@pytest.mark.campaign
def test_the_comparison_runs_and_its_tables_come_back(small, monkeypatch, tmp_path, capsys):
    file = tmp_path / "out" / "peers.json"
    monkeypatch.setattr(sys, "argv", ["retention", str(small), "--json", str(file)])
    retention.main()
    found = json.loads(file.read_text())
    assert [run["whole"] for run in found["runs"]] == [True]
    assert list(found["versions"]) == ["plain tail"]
    assert "ended without an answer" in found["left_out"]["gone x"]
    ways = {row["way"] for row in found["rows"]}
    assert {"refold", "refold, no model", "opal", "tail", "plain tail"} <= ways
    assert {row["measure"] for row in found["rows"]} >= {"constraints (fresh), 1 fold", "facts, 2 folds"}
    assert "facts, 2 folds" in capsys.readouterr().out
    text = report_retention.beside(found)
    assert "### Planted facts" in text
    assert "| plain tail |" in text
    assert "gone x (" in text


@pytest.mark.campaign
def test_one_kind_of_measure_leaves_the_others_rows_in_the_file(small, monkeypatch, tmp_path):
    file = tmp_path / "peers.json"
    file.write_text(
        json.dumps(
            {"runs": [{"date": "d"}], "rows": [{"measure": "re-use, x"}, {"measure": "facts, 1 fold"}]}
        )
    )
    monkeypatch.setattr(retention, "ROUNDS", (1,))
    argv = ["retention", str(small), "--json", str(file), "--measure", "planted", "--peers", "ready"]
    monkeypatch.setattr(sys, "argv", [*argv, "--only", "plain"])
    retention.main()
    found = json.loads(file.read_text())
    assert {"measure": "re-use, x"} in found["rows"]
    assert {"measure": "facts, 1 fold"} not in found["rows"]
    assert [run.get("measure") for run in found["runs"]] == [None, "planted"]


def test_a_real_model_answers_everybody_with_the_same_limit():
    asked = []

    class Fake(retention_model.Model):
        def __init__(self):
            self.model, self.window = "fake", 4_096
            self._client = self

        def ask(self, question):
            asked.append(question)
            return Answer(text="They talked.")

    def fold(history, _budget, ask):
        ask(Ask("Be brief.\n" + json.dumps({"role": "user", "content": "all"})))
        ask(Ask("long", max_tokens=4_000))
        return history[:6]

    contest = Comparison([Method("asking", fold)], Fake(), lambda *_: None)
    first = next(retention_model.measured(Dataset(), contest, 0, minutes=1))
    assert {(row["measure"], row["asks"]) for row in first} == {
        ("planted rules, one fold", 2.0),
        ("planted facts, one fold", 2.0),
    }
    assert all(0 < row["kept"] < 1 for row in first)
    assert (asked[0].system, asked[0].text) == ("Be brief.", "all")
    assert {one.max_tokens for one in asked} == {retention_model.SUMMARY_TOKENS}


def rows(measure, **kept):
    return [
        {"measure": measure, "way": way, "kept": share, "low": share, "high": share, "of": of,
         "of_budget": spent, **more}
        for way, (share, of, spent, more) in kept.items()
    ]  # fmt: skip


def test_the_table_says_who_keeps_more_who_took_more_and_who_failed():
    found = {
        "command": "c", "machine": "m", "left_out": {},
        "runs": [{"date": "d", "measure": "reuse", "seconds": 60, "load": 1, "whole": False}],
        "rows": rows(
            "re-use, agent runs, 8%",
            refold=(0.9, 10, 1.0, {"asks": 1.5}),
            better=(0.95, 10, 0.9, {}),
            larger=(1.0, 10, 9.0, {}),
            worse=(0.2, 10, 1.0, {}),
            lost=(0.0, 0, None, {"failed": 3, "folds_tried": 3, "why": "too\nlate | again"}),
        ),
    }  # fmt: skip
    with_model = report_retention.models([{**found, "summariser": "tiny", "summary_tokens": 160}])
    assert with_model.startswith("## Retention with a real model: tiny\n")
    text = report_retention.beside(found)
    assert (
        "Keeps more than `refold` with these tokens: better (re-use, agent runs, 8%: 95% against 90%)."
        in text
    )
    assert "larger (re-use, agent runs, 8%: 100% against 90%, with 9.0 times the tokens)" in text
    assert "(m; d, reuse, 1 minutes, load 1, ended early)" in text
    assert "| refold | 90% (90% to 90%) | 100% | 1.5 |  |" in text
    assert "| lost | failed |  |  | 3 of 3: too late / again |" in text
