"""The tool by which a model fetches back what was folded."""

import json
import re

import pytest
from talks import SHAPES, folding, opened, reply, talk, user, values, wired, without_ids

import refold
from refold import Message, Text, ToolCall, ToolResult
from refold.testing import Scripted


def test_no_tool_while_nothing_is_folded():
    with opened() as session:
        assert session.recall_tool(when="folded") is None
        session.prepare(talk(3))
        assert session.recall_tool(when="folded") is None
    session, _, _ = folding()
    assert session.recall_tool(when="folded")
    session.unfold()
    assert session.recall_tool(when="folded") is None


@pytest.mark.few_values(2)
@pytest.mark.parametrize("shape", [*SHAPES, "refold"])
def test_the_definition_in_each_shape(shape):
    whole = values(30) if shape == "refold" else wired(values(30), shape)
    with opened(window=6_000, ask=Scripted("A summary of the talk.")) as session:
        assert session.prepare(whole).fold
        tool = session.recall_tool()
        if shape == "gemini":
            tool = tool["functionDeclarations"][0]
        found = tool.get("function", tool)
        assert found["name"] == "recall"
        assert set((found.get("parameters") or found["input_schema"])["properties"]) == {"query", "handle"}
        assert session.recall_tool("anthropic")["input_schema"]
        assert session.recall_tool("responses")["type"] == "function"
        with pytest.raises(refold.FormatError, match="no format is named 'anthrpic'"):
            session.recall_tool("anthrpic")
        answer = session.answer_recall({"handle": "#2-#5"})
        assert "read_file" in answer
        assert "question 0" not in answer
        assert "question 7" in session.answer_recall('{"query": "question 7"}')


def test_answers():
    session, history, _ = folding()
    assert "question 1 " in session.answer_recall('{"handle": "#3"}')
    assert "answer 1 " in session.answer_recall({"handle": "#3-#4"})
    assert session.answer_recall({"query": "xylophone"}) == "Nothing was found."
    long = session.answer_recall({"handle": "#1-#81"})
    assert len(long) < 20_200
    assert "smaller range" in long
    assert history[14]["content"][:30] in session.answer_recall({"query": "question 7", "handle": ""})
    assert "answer 1 " in session.answer_recall({"query": None, "handle": "#3-#4"})  # of a strict tool


def test_an_answer_is_sized_to_the_room_and_says_how_to_go_on():
    history = talk(150, size=300)
    history[6]["content"] = "zeta " * 5_000 + "the vessel Marchetti " + "eta " * 5_000
    with opened(window=6_000) as session:
        budget = session.prepare(history).budget
        most = budget.room // 4 + 60
        answer, seen = session.answer_recall({"handle": "#8-#300"}), 0
        assert refold.count(answer) <= most
        while left := re.search(r"\[\.\.\. #(\d+) to #300 left out", answer):
            assert f"#{left[1]} " not in answer.replace(left[0], "")
            assert f"#{int(left[1]) - 1} " in answer
            answer, seen = session.answer_recall({"handle": f"#{left[1]}-#300"}), seen + 1
        assert seen > 10, "it came to the end"
        call = {"id": "c1", "type": "function", "function": {"name": "recall", "arguments": "{}"}}
        asked = {"role": "assistant", "content": None, "tool_calls": [call]}
        answer = session.answer_recall({"handle": "#8-#300"})
        result = {"role": "tool", "tool_call_id": "c1", "content": answer}
        assert session.prepare([*history, asked, result]).messages[-1] == result
        cut = session.answer_recall({"handle": "#7-#8"})
        assert refold.count(cut) <= most
        assert "[... the rest of #7 left out; search for words of it]" in cut
        assert "#8 to #8 left out" in cut
        hits = session.answer_recall({"query": "vessel Marchetti"})
        assert "#7 user: ...eta zeta" in hits
        assert "the vessel Marchetti eta" in hits, "the words that were found are shown"
        assert hits.endswith("...")
        assert refold.count(hits) <= most
    with opened(window=100) as session:  # no room at all
        with pytest.warns(refold.RefoldWarning, match="little of the conversation"):
            session.prepare(talk(1), system="word " * 500)
        assert "question 0" in session.answer_recall({"handle": "#1"})


def test_a_query_that_is_a_handle_reads_it():
    session, _, ready = folding()
    for handle in ("#17", "#5-#7", "[#5-#7]", " #5 - #7 "):
        assert session.answer_recall({"query": handle}) == session.answer_recall({"handle": handle})
    assert session.answer_recall({"query": "#4711"}) == "Nothing was found.", "no message: words to look for"
    assert "#7 user: question 3" in session.answer_recall({"query": "3"})
    first = session.folds()[0].handle.split("-")[0]
    assert session.answer_recall({"handle": ready.fold}).startswith(f"{first} "), "by its numbers"


@pytest.mark.parametrize("shape", [*SHAPES, "refold", "gemini without ids"])
def test_a_handle_of_a_call_brings_its_result(shape):
    calls = tuple(ToolCall(f"c{n}", f"read_{n}", {"path": f"f{n}.py"}) for n in range(3))
    results = [
        Message("tool", (ToolResult(f"c{n}", (Text(f"value {n}"),), name=f"read_{n}"),)) for n in range(2)
    ]
    history = [*values(1), Message("assistant", calls[:2]), *results, Message("assistant", calls[2:])]
    if shape != "refold":
        history = wired(history, shape.split()[0])
        history = without_ids(history) if "without" in shape else history
    with opened() as session:
        session.prepare(history)
        for number in range(6, len(history)):
            answer = session.answer_recall({"handle": f"#{number}"})
            shown = {int(other) for other in re.findall(r"#(\d+) ", answer)}
            called = re.findall(r"calls read_(\d)", answer)
            assert re.findall(r"value (\d)", answer) == called if called else shown == {number}
        whole = session.answer_recall({"handle": f"#2-#{len(history)}"})
        assert whole.count("value 0") == 1
        assert whole.endswith('calls read_2: {"path": "f2.py"}'), "it waits for its result"


def test_the_words_of_a_tool_are_not_the_users():
    call = {"type": "tool_use", "id": "c1", "name": "pay", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "refund_id 77"}
    with opened() as session:
        session.prepare([user("pay"), reply([call]), user([result]), reply("done"), user("refund_id 78")])
        assert [(hit.number, hit.role) for hit in session.recall("refund_id")] == [(3, "tool"), (5, "user")]
        assert "#3 tool: refund_id 77" in session.answer_recall({"query": "refund_id"})


@pytest.fixture(scope="module")
def folded():
    """A session that many tests ask and none changes."""
    session, _, _ = folding()
    return session


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "null",
        "[]",
        "7",
        "{",
        "[" * 100_000,
        {},
        {"handle": "#999"},
        {"handle": "#0"},
        {"handle": "9" * 6_000},
        {"handle": "#" + "9" * 6_000},
        {"handle": {"a": 1}},
        {"handle": ["#1"]},
        {"handle": "b2:none"},
        {"handle": True},
        {"query": "\0 \ud800 ' OR 1=1 -- \" * NEAR("},
        {"query": {"$gt": ""}},
        {"query": ["a"]},
        {"query": 10**400},
        {"other": 1},
        None,
        7,
    ],
    ids=range(22),
)
def test_hostile_arguments_are_answered(arguments, folded):
    answer = folded.answer_recall(arguments)
    assert isinstance(answer, str)
    assert answer


def test_handles_of_entries_that_are_no_messages_are_answered():
    session, _, ready = folding()
    session.checkpoint("x")
    for one in session.log()[-3:]:
        assert isinstance(session.answer_recall({"handle": one.name}), str)
    assert "question 1 " in session.answer_recall({"handle": ready.fold})


def test_a_message_of_another_branch_is_answered():
    session, history, _ = folding()
    session.prepare([*history[:2], user("elsewhere")])
    hit = session.recall("question 20")[0]
    assert "question 20" in session.answer_recall({"handle": hit.handle})


def test_the_tool_is_the_same_before_and_after_the_first_fold():
    session = opened()
    before = json.dumps(session.recall_tool())
    session.prepare(talk(40, size=800))
    assert session.folds()
    assert json.dumps(session.recall_tool()) == before


def test_the_tool_may_have_another_name():
    assert opened().recall_tool("anthropic", name="look_back")["name"] == "look_back"
    for wrong in ("", "two words", "x" * 65, None):
        with pytest.raises(refold.RefoldError, match="no name of a tool"):
            opened().recall_tool(name=wrong)


def test_a_strict_tool_wants_every_argument():
    session = opened()
    session.prepare(talk(40, size=800))
    function = session.recall_tool("openai", strict=True)["function"]
    assert function["strict"]
    assert function["parameters"]["required"] == ["query", "handle"]
    assert not function["parameters"]["additionalProperties"]
    assert {*map(str, (value["type"] for value in function["parameters"]["properties"].values()))} == {
        "['string', 'null']"
    }
    assert session.recall_tool("responses", strict=True)["strict"]
    assert "question 3" in session.answer_recall({"query": "question 3", "handle": None})
    assert "strict" not in session.recall_tool("openai")["function"], "the plain tool is as it was"
    with pytest.raises(refold.RefoldError, match="openai and responses: gemini has no strict tools"):
        session.recall_tool("gemini", strict=True)


def test_an_unknown_time_is_refused():
    with pytest.raises(refold.RefoldError, match="always, folded"):
        opened().recall_tool(when="never")


ANTHROPIC = "anthropic:claude-sonnet-4-20250514"
TOOLS = [{"type": "web_search_20250305"}, {"name": "x", "input_schema": {"type": "object"}}]


@pytest.mark.parametrize("policy", ["codebuddy", "neurolink", "truncate"])
@pytest.mark.parametrize(("model", "tools"), [(ANTHROPIC, None), ("claude-sonnet-4-5", TOOLS)])
def test_plain_messages_are_in_the_format_of_the_address_or_the_tools(policy, model, tools):
    with opened(model=model, window=None, policy=policy) as session:
        session.prepare(talk(20, size=1_500), tools=tools)
        assert "input_schema" in session.recall_tool()
        refused = session.observe(RuntimeError("prompt is too long: 205120 tokens > 200000 maximum"))
        assert refold.validate(refused.messages, "anthropic") == []
    outcome = refold.compact(talk(20, size=1_500), model=model, tools=tools, policy=policy, force=True)
    assert refold.validate(outcome.messages, "anthropic") == []


def test_a_stored_session_keeps_its_format():
    store = refold.open_store("memory:")
    opened(store=store, model="claude-sonnet-4-5").prepare([user("hi")])
    session = opened(store=store, model=ANTHROPIC)
    assert "function" in session.recall_tool()
    session.prepare([user("hi"), user("more")])
    assert "function" in session.recall_tool()


def test_a_system_message_in_front_is_no_anthropic_list():
    with opened(model=ANTHROPIC) as session:
        assert "input_schema" in session.recall_tool()
        session.say({"role": "system", "content": "Be brief."})
        session.say("hi")
        assert "function" in session.recall_tool()
