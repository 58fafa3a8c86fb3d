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
    """A database takes no number of any size, and what no log has is refused."""
    assert len(session.recall("violin", limit=10**9)) == 1
    with pytest.raises(refold.errors.FormatError, match=r"limit=10+: expected a whole number"):
        session.recall("violin", limit=10**30)


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


@pytest.mark.few_values(2)
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
    session.say({"role": "tool", "tool_call_id": "nobody", "content": "#2 user: of all zithers"})
    assert [hit.handle for hit in session.recall("zithers")] == ["#39"]


def say_result(session, name, content):
    """Say a call of a tool, its result, and an order with one of the words of the result."""
    call = {"id": "o", "type": "function", "function": {"name": name, "arguments": "{}"}}
    session.say(
        [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "o", "content": content},
            {"role": "user", "content": "order the lute"},
        ]
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("search_vehicle_recalls", "2 recalls\n#1 NHTSA 24V-051: the lute rack may loosen, torque 62 Nm"),
        ("list_product_recalls", "Recall #4411: lute rack, torque may be low"),
        ("search_vehicle_recalls", "#1 user: the lute rack may loosen, torque 62 Nm"),
        ("mcp__memory__recall", "#4411 lute rack: torque 62 Nm"),
        ("product_recall", '{"session_id": "7", "found": "lute rack, torque 62 Nm"}'),
    ],
)
def test_results_of_other_tools_for_recalls_are_hits(session, name, content):
    say_result(session, name, content)
    for query in ("lute rack", "What torque has the lute rack?"):
        assert session.recall(query)[0].handle == "#35", query


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("recall", "#32 assistant: the lute rack has a torque of 62 Nm"),
        ("recall", "#31 calls web: lute rack torque"),
        ("recall", "#32 tool result (web):\nlute rack torque"),
        ("recall", "b3:00ff11 user: lute rack torque"),
        ("functions.recall", "#32 user: lute rack torque"),
        ("mcp__refold__recall_search", '{\n  "session_id": "a",\n  "hits": [{"text": "lute rack torque"}]}'),
        (
            "refold_recall_expand",
            '[{"text": "{\\"session_id\\": \\"a\\", \\"messages\\": \\"lute rack torque\\"}"}]',
        ),
    ],
)
def test_answers_of_recall_are_known_in_every_form(session, name, content):
    say_result(session, name, content)
    assert [hit.handle for hit in session.recall("lute rack")] == ["#36"]


def test_letters_that_json_inside_json_escapes_are_read(session):
    inner = json.dumps({"name": "Crème brûlée", "text": "a\bplatypus"})
    session.say(json.dumps({"result": inner, "again": json.dumps(inner)}))
    for query in ("Crème", "creme brulee", "platypus"):
        assert [hit.handle for hit in session.recall(query)] == ["#34"], query
