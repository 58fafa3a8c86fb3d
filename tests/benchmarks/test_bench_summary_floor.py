"""`bench.summary_floor`: answers of a reader to all cases, and what the gate says of them."""

import json

import pytest
from bench import summary_floor, surprise_model
from word_reader import WordReader

GOOD = (
    "The user wants the harbour tool to store every time in UTC. The assistant read quayside/store.py, changed "
    "Store.book and Store.move, and ran the tests: 41 passed. Naive times are refused now."
)


@pytest.fixture
def folder(tmp_path):
    """A folder with one agent run about a harbour tool."""
    steps = [
        {"role": "user", "content": "Store every time in UTC in the harbour tool, please."},
        *(
            {
                "role": "assistant" if number % 2 else "user",
                "content": f"Step {number}: quayside/store.py, Store.book and Store.move, 41 passed. " * 12,
            }
            for number in range(1, 12)
        ),
    ]
    data = tmp_path / "runs"
    data.mkdir()
    (data / "harbour.traj.json").write_text(json.dumps({"messages": steps}), encoding="utf-8")
    return data


@pytest.mark.parametrize(("said", "verdict"), [(GOOD, "accepted"), ("It went on.", "told too little")])
def test_a_reader_answers_and_the_gate_judges(folder, tmp_path, monkeypatch, said, verdict):
    reader = WordReader(reply=lambda _prompt: said)
    monkeypatch.setattr(surprise_model, "ReaderModel", lambda _model, _cache: reader)
    answers, table = tmp_path / "answers.jsonl", tmp_path / "table.json"
    common = [str(folder), "--tokens", "900", "--answers", str(answers)]
    summary_floor.main(["record", *common, "--reader", "small.gguf"])
    (row,) = [json.loads(line) for line in answers.read_text().splitlines()]
    assert row["model"] == "words"
    assert {answer["text"] for answer in row["answers"]} == {said}
    summary_floor.main(["judge", *common, "--json", str(table)])
    assert json.loads(table.read_text()) == {"words": {verdict: 1}}
