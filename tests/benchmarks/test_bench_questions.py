"""Questions about talks, answered by a reader that repeats what stands beside the words of the question."""

import json
import re
import sys

import pytest
from bench import questions
from word_reader import WordReader

from refold.evals.datasets import Dataset, Question, Talk, read_dataset


def find_colour(prompt):
    """Answer with the colour that the memory names for the thing that is asked for, as a careful model would."""
    asked = re.search(r"Which colour has (\w+)", prompt.text)
    found = asked and re.search(rf"{asked.group(1)} is (colour_\d+)", prompt.text)
    return found.group(1) if found else "It does not say."


def make_talk(turns=400):
    """People who name one colour in each turn; the questions ask for an early and a late one."""
    texts = [f"thing_{turn} is colour_{turn} and that is all about it today" for turn in range(turns)]
    messages = [{"role": "user", "content": f"Ann: {text}"} for text in texts]
    asked = tuple(
        Question(f"Which colour has thing_{turn}?", f"colour_{turn}", (turn,)) for turn in (10, turns - 3)
    )
    return Talk("talk", messages, asked, ("8 May, 2023",) * turns)


def run_program(monkeypatch, tmp_path, *more, reader=None):
    reader = reader or WordReader(reply=find_colour)
    monkeypatch.setattr(questions, "ReaderModel", lambda model, cache: reader)
    monkeypatch.setattr(questions, "read_dataset", lambda path: Dataset(locomo=[make_talk()]))
    out = tmp_path / "out.json"
    words = ["data", "--model", "m.gguf", "--json", str(out), "--markdown", str(tmp_path / "out.md"), *more]
    monkeypatch.setattr(sys, "argv", ["questions", *words])
    questions.main()
    return json.loads(out.read_text())["readers"][0]


@pytest.mark.parametrize(
    ("said", "right", "f1"),
    [
        ("The 7 May 2023.", "7 May, 2023", 1.0),
        ("adoption", "Adoption agencies", 2 / 3),
        ("no idea", "Adoption agencies", 0.0),
        ("", "Adoption agencies", 0.0),
    ],
)
def test_f1_is_the_overlap_of_words_without_articles_and_punctuation(said, right, f1):
    assert questions.score_f1(said, right) == pytest.approx(f1)


def test_an_answer_counts_if_it_contains_the_right_one():
    assert questions.contains_answer("I believe that it was 25 postcards in all.", "25")
    assert not questions.contains_answer("It was 125 postcards.", "25")


@pytest.mark.campaign
def test_a_tail_answers_what_was_said_late_and_recall_what_was_said_early(monkeypatch, tmp_path):
    result = run_program(monkeypatch, tmp_path, "--share", "0.1")
    right = {(each["method"], each["question"]): each["is_right"] for each in result["answers"]}
    early, late = "Which colour has thing_10?", "Which colour has thing_397?"
    assert right["whole talk", early]
    assert right["whole talk", late]
    assert right["whole talk and recall", early]
    assert not right["tail", early]
    assert right["tail", late]
    assert right["refold and recall", early]


@pytest.mark.campaign
def test_every_view_has_the_same_tokens(monkeypatch, tmp_path):
    result = run_program(monkeypatch, tmp_path, "--share", "0.1", "--share", "0.25")
    for each in result["answers"]:
        if each["method"] not in questions.WHOLE_METHODS:
            allowed = each["talk_tokens"] * float(each["size"].rstrip("%")) / 100
            assert allowed * 0.8 <= each["tokens"] <= allowed * 1.05, each["method"]
    rows = {(row["method"], row["size"]) for row in result["rows"]}
    assert ("refold", "10%") in rows
    assert ("whole talk", "100%") in rows


def test_a_talk_that_does_not_fit_is_cut_to_its_newest_part(monkeypatch, tmp_path):
    result = run_program(monkeypatch, tmp_path, "--methods", "whole talk", "--most-tokens", "2000")
    assert [
        each["is_right"] for each in sorted(result["answers"], key=lambda each: len(each["question"]))
    ] == [
        False,
        True,
    ]
    assert all(each["tokens"] <= 2_000 for each in result["answers"])
    assert result["rows"][0]["tokens"] < 1


def test_recall_stands_behind_the_whole_talk_where_both_fit(monkeypatch, tmp_path):
    reader = WordReader(reply=find_colour)
    run_program(monkeypatch, tmp_path, "--methods", "whole talk and recall", reader=reader)
    assert all("thing_0 is" in prompt.text for prompt in reader.prompts)
    reader.prompts.clear()
    words = ("--methods", "whole talk and recall", "--most-tokens", "2000")
    result = run_program(monkeypatch, tmp_path, *words, reader=reader)
    assert not any("thing_0 is" in prompt.text for prompt in reader.prompts)
    assert all(each["is_right"] for each in result["answers"])


def test_every_message_tells_its_day():
    talk = questions.date_talk(make_talk(3))
    assert talk.messages[0]["content"].startswith("[8 May, 2023] Ann: ")
    undated = Talk("talk", [{"role": "user", "content": "hi"}])
    assert questions.date_talk(undated) is undated


def test_a_summary_is_written_once_for_each_talk_and_size(monkeypatch, tmp_path):
    reader = WordReader(reply=find_colour)
    run_program(monkeypatch, tmp_path, "--methods", "summary and tail", "--share", "0.25", reader=reader)
    summaries = [prompt for prompt in reader.prompts if "<conversation>" in prompt.text]
    assert len(summaries) == 1
    assert len(reader.prompts) == 3


def test_questions_are_the_same_for_the_same_seed():
    dataset = Dataset(locomo=[make_talk()], longmemeval=[make_talk()])
    first = questions.choose_questions(dataset, 1, 5, ("locomo", "longmemeval"))
    assert first == questions.choose_questions(dataset, 1, 5, ("locomo", "longmemeval"))
    assert [each.kind for each in first] == ["longmemeval", "locomo"]


def test_tables_are_written_for_the_documentation(monkeypatch, tmp_path):
    run_program(monkeypatch, tmp_path, "--methods", "tail,refold", "--share", "0.25")
    text = (tmp_path / "out.md").read_text()
    assert "| view | size | F1 | answered | tokens | questions | talks |" in text
    assert "| refold | 25% |" in text


def test_days_of_locomo_and_longmemeval_are_read(tmp_path):
    locomo = {
        "sample_id": "a",
        "conversation": {
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [{"dia_id": "D1:1", "speaker": "Ann", "text": "hello"}],
        },
        "qa": [{"question": "Who?", "answer": "Ann", "evidence": ["D1:1"]}],
    }
    memory = {
        "question_id": "b",
        "question": "Where?",
        "answer": "here",
        "question_date": "2023/12/21 (Thu) 21:31",
        "haystack_dates": ["2023/08/11 (Fri) 15:58"],
        "haystack_sessions": [[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]],
    }
    (tmp_path / "data.json").write_text(json.dumps([locomo, memory]))
    dataset = read_dataset(tmp_path)
    assert dataset.locomo[0].dates == ("8 May, 2023",)
    assert dataset.longmemeval[0].dates == ("2023/08/11", "2023/08/11")
    asked = dataset.longmemeval[0].questions[0]
    assert questions.dated_question(asked) == "Where? (asked on 2023/12/21)"
