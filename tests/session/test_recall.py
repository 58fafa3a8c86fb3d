"""Recall by a question: words that tell nothing are passed over, and a neighbour of a hit may be the answer."""

import json
import unicodedata

import pytest

import refold


@pytest.fixture(params=["memory:", "jsonl:logs", "sqlite:log.db"])
def session(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refold.open("talk", store=request.param, window="32k") as opened:
        for number in range(30):
            opened.say(f"Nothing new in week {number}, the weather stays as it is.")
        opened.say("Which instrument did you buy in the old shop by the harbour?")
        opened.say({"role": "assistant", "content": "A violin, made by Marchetti."})
        opened.say("And what is the weather like where you are in this week?")
        yield opened


def test_words_that_stand_in_every_question_are_no_words(session):
    """Both words that remain must match; `what`, `is` and `in` may be missing."""
    (hit,) = session.recall("what is Marchetti in a violin?")
    assert hit.handle == "#32"


def test_the_answer_beside_a_question_is_found_though_it_shares_no_word(session):
    hits = session.recall("Which instruments were bought in the shop near the harbour?", limit=3)
    assert [hit.handle for hit in hits[:2]] == ["#31", "#32"]
    assert hits[0].score > hits[1].score > 0


def test_a_question_without_telling_words_is_taken_as_it_is(session):
    assert session.recall("what is it like")


def test_few_words_want_all_of_them(session):
    (hit,) = session.recall("violin Marchetti")
    assert hit.handle == "#32"


def test_as_many_hits_as_anybody_wants(session):
    """A database takes no number of any size."""
    assert len(session.recall("violin", limit=10**30)) == 1


SAID = [
    "the file u\u0308bersicht.txt",
    "an e\u0301clair",
    "\u0130stanbul airport",
    "\u0438\u0306\u043e\u0434 solution",
]


@pytest.mark.parametrize("text", SAID, ids=["name of a file", "accent", "dotted capital", "Cyrillic"])
def test_a_text_with_accents_of_their_own_finds_itself(session, text):
    session.say(text)
    for query in (text, text.split()[-1], unicodedata.normalize("NFC", text)):
        assert "#34" in [hit.handle for hit in session.recall(query)], query


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[31mFAILED\x1b[0m x",
        "\x1b[2JFAILED",
        "FA\x1b[01;31m\x1b[KIL\x1b[m\x1b[KED",
        '{"a": "\\u001b[1mFAILED"}',
    ],
    ids=["colour", "cursor", "part of a word", "in JSON"],
)
def test_colours_of_a_terminal_are_no_letters(session, text):
    session.say(text)
    assert [hit.handle for hit in session.recall("failed")] == ["#34"]


# -- echoes of earlier recalls --------------------------------------------------------------------------------


def ask_again(session, number, query, name="recall", text=""):
    """Say a call of the tool and its answer."""
    call = {"name": name, "arguments": json.dumps({"query": query})}
    calls = [{"id": f"r{number}", "type": "function", "function": call}]
    answer = session.answer_recall({"query": query})
    session.say(
        [
            {"role": "assistant", "content": text or None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"r{number}", "content": answer},
        ]
    )
    return answer


@pytest.mark.parametrize("query", ["violin Marchetti", "Who made the violin, Marchetti or another?"])
def test_what_was_said_comes_before_earlier_recalls_of_it(session, query):
    answers = [ask_again(session, number, query) for number in range(15)]
    assert len(set(answers)) == 1, "no answer repeats an earlier one"
    assert session.recall(query)[0].handle == "#32"
    assert session.recall(query, limit=1)[0].handle == "#32"


def test_the_echo_is_known_on_another_branch_and_under_another_name(session):
    ask_again(session, 0, "violin Marchetti", "mcp__refold__recall_search")
    session.rewind("#33")
    session.say("on another branch")
    assert [hit.handle for hit in session.recall("violin Marchetti")] == ["#32"]


def test_the_question_of_a_recall_is_found_if_nothing_else_has_its_words(session):
    ask_again(session, 0, "theorbo")
    assert [hit.handle for hit in session.recall("theorbo")] == ["#34"]


def test_what_has_one_of_the_words_comes_before_an_echo_with_both(session):
    ask_again(session, 0, "theorbo Marchetti")
    assert [hit.handle for hit in session.recall("theorbo Marchetti")] == ["#32"]


def test_words_beside_a_recall_are_said_and_so_are_results_of_other_tools(session):
    ask_again(session, 0, "violin", text="I look for the cello.")
    assert [hit.handle for hit in session.recall("cello")] == ["#34"]
    call = {"id": "w", "type": "function", "function": {"name": "web", "arguments": "{}"}}
    own = {"id": "m", "type": "function", "function": {"name": "recall_memory", "arguments": "{}"}}
    session.say(
        [
            {"role": "assistant", "content": None, "tool_calls": [call, own]},
            {"role": "tool", "tool_call_id": "w", "content": "#1 of all lutes"},
            {"role": "tool", "tool_call_id": "m", "content": "the user likes lutes"},
        ]
    )
    assert {hit.handle for hit in session.recall("lutes")} == {"#37", "#38"}
    session.say({"role": "tool", "tool_call_id": "nobody", "content": "#2 of all zithers"})
    assert [hit.handle for hit in session.recall("zithers")] == ["#39"]
