"""The matrix's own checker knows what a provider refuses, and the verdicts are what they say."""

import pytest
from bench.matrix import checks, page, subjects, talks
from bench.matrix.scripts import Narrow, Repeats, Script, fails, says
from bench.matrix.subjects import Case, NotApplicable, Stopped, Subject, Unfolded, judged
from bench.peering import Peer, Pin

CALL = talks.assistant("I look.", talks.call("a"))
RESULT = talks.result("a", "x = 1")
HI = talks.user("hi")


def test_a_sound_conversation_passes():
    assert checks.wrong(talks.agent_talk(5)) == ""
    assert checks.wrong([HI, CALL]) == ""  # an open call at the end
    assert checks.wrong([talks.SYSTEM, {"role": "system", "content": "A summary."}]) == ""


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
    assert verdict(lambda _s: leave(Unfolded()))["verdict"] == "stops"

    def loops(subject):
        subject.calls = 1_900
        raise Stopped("RecursionError")

    assert verdict(loops)["verdict"] == "breaks"


def test_scripts_repeat_their_last_line():
    script = Script(({"answer": "a"}, {"answer": "b"}))
    assert [script("")["answer"] for _ in range(3)] == ["a", "b", "b"]
    assert fails("timeout")("") == {"error": "timeout"}
    assert says("x", finish="length")("")["finish"] == "length"


def test_a_summariser_with_a_small_window_refuses_and_a_faithful_one_repeats():
    narrow = Narrow(window=100)
    assert narrow("x" * 400)["answer"]
    assert narrow("x" * 500) == {"error": "overflow"}
    faithful = Repeats(sentence="Never edit billing.py.")
    assert faithful("... Never edit billing.py. ...")["answer"].endswith("Never edit billing.py.")
    assert "billing" not in faithful("something else")["answer"]


def subject(way):
    pin = Pin("p", (), "", "", ("keeps", "drops", "loose"), no_budget=("loose",), drops=("drops",))
    return Subject(Peer(pin, way))


def test_what_is_gone_breaks_but_a_window_that_drops_is_not_asked():
    view, long = [talks.user("Never edit billing.py.")], [talks.user("word " * 9_000)]
    assert subject("keeps").keeps(view, "the rule", "billing.py") == ""
    assert subject("keeps").keeps(long, "the rule", "billing.py") == "the rule is gone"
    with pytest.raises(NotApplicable, match="as documented"):
        subject("drops").keeps(long, "the rule", "billing.py")


def test_a_size_is_asked_of_those_who_promise_one():
    long = [talks.user("word " * 9_000)]
    assert "tokens for a budget of 4,000" in subject("keeps").within(long)
    assert "(o200k)" in subject("keeps").counted(long)
    assert subject("keeps").keeps(long, "the word", "word").endswith("for a budget of 4,000")
    assert subject("loose").keeps(long, "the word", "word") == ""
    with pytest.raises(NotApplicable, match="promises no number of tokens"):
        subject("loose").within(long)


def test_issues_that_were_read_again_link():
    assert page.link("zed#64560") == "[zed#64560](https://github.com/zed-industries/zed/issues/64560)"
    assert page.link("unheard-of#1") == "unheard-of#1"
