"""The matrix's own checker knows what a provider refuses, and the verdicts are what they say."""

import pytest
from bench.matrix import checks, page, subjects, talks
from bench.matrix.scripts import Script, fails, says
from bench.matrix.subjects import Case, NotApplicable, Stopped, judged

CALL = talks.assistant("I look.", talks.call("a"))
RESULT = talks.result("a", "x = 1")
HI = talks.user("hi")


def test_a_sound_conversation_passes():
    assert checks.wrong(talks.agent_talk(5)) == ""
    assert checks.wrong([HI, CALL]) == ""  # an open call at the end


@pytest.mark.parametrize(
    ("view", "why"),
    [
        ([talks.SYSTEM], "nothing but a system prompt is left"),
        ([HI, RESULT], "a tool result without its call"),
        ([HI, CALL, RESULT, RESULT], "a tool result without its call"),
        ([HI, CALL, HI], "a call without its result"),
        ([HI, talks.assistant("twice", talks.call("a"), talks.call("a"))], "two calls with one id"),
        ([HI, talks.assistant("")], "an empty assistant message"),
        ([{"role": "robot", "content": "hi"}], "unknown role robot"),
        (
            [HI, {**CALL, "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{"}}]}],
            "arguments that are no JSON",
        ),
    ],
)
def test_what_a_provider_refuses(view, why):
    assert checks.refused(view) == why


def test_our_validator_judges_too():
    odd = [{"role": "user", "content": 5}]
    assert checks.refused(odd) == ""
    assert checks.wrong(odd).startswith("format: ")


def test_thoughts_and_what_a_fold_put():
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    thought = talks.assistant([block, {"type": "text", "text": "Yes."}])
    assert checks.thoughts([HI, thought]) == [block]
    assert checks.put([talks.user("a summary"), HI], [HI]) == [talks.user("a summary")]


class Nobody:
    name, way, asked, pin = "nobody", "", (), None


def verdict(run):
    return judged(Case("A1", "t", "m", (), run), subjects.Subject(Nobody()))


def test_verdicts():
    assert verdict(lambda _subject: "")["verdict"] == "survives"
    assert verdict(lambda _subject: "lost")["how"] == "lost"

    def leave(error):
        raise error

    assert verdict(lambda _s: leave(NotApplicable("asks no model"))) == {
        "verdict": "n/a",
        "how": "asks no model",
        "calls": 0,
    }
    assert verdict(lambda _s: leave(Stopped("boom")))["verdict"] == "stops"

    def loops(subject):
        subject.calls = 1_900
        raise Stopped("RecursionError")

    assert verdict(loops)["verdict"] == "breaks"


def test_scripts_repeat_their_last_line():
    script = Script(({"answer": "a"}, {"answer": "b"}))
    assert [script("")["answer"] for _ in range(3)] == ["a", "b", "b"]
    assert fails("timeout")("") == {"error": "timeout"}
    assert says("x", finish="length")("")["finish"] == "length"


def test_issues_link_where_the_owner_is_known():
    assert page.link("codex#1") == "[codex#1](https://github.com/openai/codex/issues/1)"
    assert page.link("unheard-of#1") == "unheard-of#1"
