"""Data sets are known by their shape; what is none is said in one line."""

import json

import eval_data
import pytest

from refold.errors import FormatError
from refold.evals.datasets import read_dataset


@pytest.fixture
def data(tmp_path):
    return eval_data.write_all(tmp_path)


def test_every_layout_is_found_in_a_folder(data):
    found = read_dataset(data)
    kinds = (found.runs, found.transcripts, found.longmemeval, found.locomo, found.talks, found.templates)
    assert [len(kind) for kind in kinds] == [1, 1, 1, 1, 2, 1]
    assert found.passed_over == []


def test_a_transcript_tells_where_its_own_compaction_was(data):
    (run,) = read_dataset(data / "code").transcripts
    assert run.boundary == 24
    assert "src/paint_1.py was read" in run.summary
    assert all(isinstance(message["content"], str) for message in run.messages)


def test_evidence_is_a_place_in_the_history(data):
    (talk,) = read_dataset(data / "lme").longmemeval
    (question,) = talk.questions
    assert [talk.messages[at]["content"][:17] for at in question.evidence] == ["I bought a violin"]
    (talk,) = read_dataset(data / "loc" / "d.json").locomo
    assert [question.evidence for question in talk.questions] == [(0,), (2,)]


def test_a_plain_list_of_messages_is_a_run(tmp_path):
    wire = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": "yo"},
    ] * 12
    (tmp_path / "own.json").write_text(json.dumps(wire))
    (run,) = read_dataset(tmp_path).runs
    assert len(run.messages) == 24


def test_a_sample_is_the_same_for_the_same_seed(data):
    for number in range(6):
        (data / "runs" / f"{number}.json").write_text(json.dumps(eval_data.run()))
    names = [[run.name for run in read_dataset(data, sample=2, seed=seed).runs] for seed in (1, 1, 2)]
    assert names[0] == names[1] != names[2]
    assert len(names[0]) == 2


@pytest.mark.parametrize("text", ["{}", "[1]", "nothing", '{"conversation": 1, "qa": 2}', "[]"])
def test_another_layout_is_said_in_one_line(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FormatError, match="has no layout that is known here"):
        read_dataset(tmp_path)


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(FormatError, match="no such file or folder"):
        read_dataset(tmp_path / "nowhere")


def test_a_file_of_another_kind_is_named(data):
    (data / "loc" / "notes.json").write_text('{"a": 1}')
    assert [name.rpartition("/")[2] for name in read_dataset(data).passed_over] == ["notes.json"]
