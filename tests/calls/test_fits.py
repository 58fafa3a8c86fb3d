"""What an outcome says of its size: within the room, within its target, mended; and a target that is a pair."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from chat_messages import assistant, user, written_call
from refold import presets
from refold.errors import DoesNotFit, FormatError
from refold.testing import Scripted

POLICIES = sorted(presets.PRESETS)
CALL = written_call("c1", "{}")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"t{number}",
            "description": "Does something useful. " * 16,
            "parameters": {"type": "object", "properties": {}},
        },
    }
    for number in range(200)
]
REQUEST = "Rename parse_header in src/, but under no circumstances touch tests/ or the public alias. " * 8


def talk(turns, words=60):
    """A chat in which every message has about so many tokens."""
    return [
        message
        for turn in range(turns)
        for message in (user(f"q{turn} " + "word " * words), assistant("term " * words))
    ]


@st.composite
def chats(draw):
    """Chats with long and short messages, and a tool call here and there that has no result."""
    messages = []
    for turn in range(draw(st.integers(0, 12))):
        messages.append(user(f"q{turn} " + "word " * draw(st.sampled_from([1, 40, 400]))))
        if draw(st.integers(0, 5)) == 0:
            call = json.loads(json.dumps(CALL).replace("c1", f"c{turn}"))
            messages += [call, *draw(st.sampled_from([[], [tool_result(f"c{turn}")]]))]
        messages.append(assistant("term " * draw(st.sampled_from([1, 40, 400]))))
    return [*messages, user("and now?")]


def tool_result(name):
    return {"role": "tool", "tool_call_id": name, "content": "line of output\n" * 200}


# -- fits: within the room ---------------------------------------------------------------------------------


@given(
    messages=chats(),
    policy=st.sampled_from(POLICIES),
    window=st.sampled_from([500, 2_000, 8_000, 32_000]),
    system=st.sampled_from([0, 300, 1_700, 9_000]),
    target=st.sampled_from([None, 10, 900, 5_000, "1k-2k", 100_000]),
    reported=st.sampled_from([None, 0.5, 1.0, 1.3, 3.0]),
    force=st.booleans(),
    asked=st.booleans(),
)
def test_fits_says_whether_the_context_is_within_the_room(
    messages, policy, window, system, target, reported, force, asked
):
    wishes = {"policy": policy, "window": window, "system": "rule " * system}
    before = refold.measure(messages, **wishes)
    if reported is not None:
        sent = refold.measure(messages[:-1], **wishes).used
        wishes["usage"] = {"prompt_tokens": max(1, round(sent * reported)), "completion_tokens": 0}
    model = Scripted("What was said so far, in short.", window=32_000) if asked else None
    outcome = refold.compact(messages, ask=model, target=target, force=force, **wishes)
    room = outcome.budget.room
    assert outcome.fits == (outcome.used_after <= room)
    assert (outcome.receipt.fits, outcome.receipt.met_target) == (outcome.fits, outcome.met_target)
    if outcome.messages == messages:
        assert outcome.used_after == outcome.budget.used
    if reported is None:
        assert outcome.used_after == refold.measure(outcome.messages, **wishes).used
    if outcome.receipt.goal_tokens is None:
        assert outcome.met_target
    elif outcome.met_target:
        assert outcome.breakdown.history <= outcome.receipt.goal_tokens
    if before.breakdown.fixed > room:
        assert not outcome.fits
        assert outcome.compacted is False
    if not outcome.fits:
        with pytest.raises(DoesNotFit) as refused:
            refold.compact(messages, ask=model, target=target, force=force, must_fit=True, **wishes)
        assert refused.value.tokens == outcome.used_after > refused.value.room == room
    else:
        same = refold.compact(messages, ask=model, target=target, force=force, must_fit=True, **wishes)
        assert same.fits


@pytest.mark.parametrize("policy", POLICIES)
def test_a_missed_target_inside_the_room_still_fits(policy):
    """A loop stops on `fits=False`, so a result far inside the room must not say it."""
    outcome = refold.compact(talk(1), window=8_000, target=10, policy=policy)
    assert (outcome.fits, outcome.met_target) == (True, False)
    assert "over the target of" in outcome.reason
    plan = refold.plan(talk(1), window=8_000, target=10, policy=policy, with_model=False)
    assert (plan.fits, plan.met_target) == (True, False)


def test_must_fit_is_about_the_room_and_never_about_the_target():
    outcome = refold.compact(talk(30), window="32k", must_fit=True, target=10)
    assert (outcome.fits, outcome.met_target) == (True, False)
    assert outcome.used_after < outcome.budget.room


def test_where_the_provider_counts_more_the_outcome_does_too():
    """The same list fits by our count and not by the provider's."""
    messages = [user("word " * 900)]
    ours = refold.compact(messages, window=2_000, force=True, policy="ripple")
    usage = {"prompt_tokens": 2_500, "messages": 1}
    theirs = refold.compact(messages, window=2_000, force=True, policy="ripple", usage=usage)
    assert ours.messages == theirs.messages == messages
    assert (ours.fits, theirs.fits) == (True, False)
    assert theirs.used_after == theirs.budget.used > theirs.budget.room > theirs.breakdown.total
    with pytest.raises(DoesNotFit, match="more by the provider's count") as refused:
        refold.compact(messages, window=2_000, policy="ripple", usage=usage, must_fit=True)
    assert refused.value.tokens > refused.value.room


@pytest.mark.each_value
@pytest.mark.slow
@pytest.mark.parametrize("policy", ["refold", "codebuddy", "neurolink"])
@pytest.mark.parametrize("rules", [500, 1_500, 2_200])
@pytest.mark.parametrize("factor", [1.1, 1.3, 1.6])
def test_a_target_that_was_met_fits_by_the_provider_s_count(policy, rules, factor):
    """The fixed part counts more as well, so the goal has to leave room for that."""
    wishes = {"policy": policy, "window": 8_000, "system": "rule " * rules}
    messages = [*talk(60), user("and now?")]
    reported = round(refold.measure(messages, **wishes).used * factor)
    outcome = refold.compact(messages, usage={"prompt_tokens": reported, "messages": 121}, **wishes)
    assert outcome.compacted
    assert outcome.fits or not outcome.met_target


@pytest.mark.each_value
@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.7, 1.0, 1.6])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_session_counts_afterwards_as_its_budget_does(policy, factor):
    """The number in the outcome of a fold is the one that the session gives for the view it leaves."""
    model = Scripted("What was said so far, in short.", window=32_000)
    with refold.open("s", window=16_000, policy=policy, store="memory:", ask=model) as session:
        messages = []
        for turn in range(12):
            messages.append(user(f"q{turn} " + "word " * 200))
            ready = session.prepare(messages)
            reported = round(refold.count(ready.messages, policy=policy) * factor)
            messages.append(assistant("term " * 200))
            session.observe({"usage": {"prompt_tokens": reported, "completion_tokens": 200}})
        session.prepare(messages)
        outcome = session.compact()
        budget = session.budget()
        assert outcome.used_after == budget.used
        assert outcome.fits == (budget.used <= budget.room)


def test_a_target_above_the_room_is_the_room():
    outcome = refold.compact(talk(90), window=8_000, target=100_000)
    assert outcome.compacted
    assert outcome.fits
    assert outcome.met_target


@pytest.mark.parametrize("window", [300, 8_000, 32_000])
def test_a_request_that_is_cut_leaves_a_history_that_the_next_call_lets_be(window):
    """A history that filled the room stood above the trigger, so every turn would have folded again."""
    told = [
        user("Look at this."),
        assistant("I look. " * (window // 8)),
        user("All of it: " + "w1 x2 y3 " * window),
    ]
    once = refold.compact(told, window=window)
    again = refold.compact(once.messages, window=window)
    assert once.compacted
    assert once.met_target
    assert not again.compacted
    assert again.messages == once.messages


def test_a_notebook_tells_the_room_from_the_target():
    inside = refold.compact(talk(1), window=8_000, target=10)
    assert "misses its target" in inside._repr_html_()
    assert "does not fit" not in inside._repr_html_()
    planned = refold.plan(talk(1), window=8_000, target=10, with_model=False)
    assert "misses its target" in planned._repr_html_()
    hopeless = refold.plan(talk(1), window=1_000, system="rule " * 3_000)
    assert "does not fit" in hopeless._repr_html_()


# -- what no compaction can help ---------------------------------------------------------------------------


@pytest.mark.few_values(3)
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("part", "name"),
    [
        ({"tools": TOOLS}, "the tool definitions"),
        ({"system": "rule " * 12_000}, "the system prompt"),
        ({"prompt": "word " * 12_000}, "the prompt"),
        ({"files": ["word " * 12_000]}, "the attached files"),
    ],
)
def test_where_the_fixed_part_alone_exceeds_the_room_nothing_is_touched(policy, part, name, force):
    """A cut that cannot make the request fit only loses an instruction."""
    messages = [*talk(12), user(REQUEST)]
    model = Scripted("short", window=32_000)
    outcome = refold.compact(messages, window=8_192, policy=policy, ask=model, force=force, **part)
    assert (outcome.compacted, outcome.fits, model.asked) == (False, False, [])
    assert all(new is old for new, old in zip(outcome.messages, messages, strict=True))
    assert f"shorten the largest part, {name} (" in outcome.reason
    assert "or use a larger window" in outcome.reason


@pytest.mark.parametrize("policy", [name for name in POLICIES if "system" in presets.get(name).guards])
def test_a_system_prompt_among_the_messages_is_a_fixed_part_as_well(policy):
    messages = [{"role": "system", "content": "rule " * 12_000}, *talk(12), user(REQUEST)]
    outcome = refold.compact(messages, window=8_192, policy=policy, force=True)
    assert (outcome.compacted, outcome.fits, outcome.messages) == (False, False, messages)
    assert "the system prompt (" in outcome.reason


# -- mended ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_a_call_without_a_result_is_mended_and_the_reason_says_so(policy):
    messages = [user("q"), CALL, user("never mind"), assistant("ok")]
    outcome = refold.compact(messages, window=32_768, policy=presets.get(policy))
    assert not outcome.compacted
    assert "compacted" not in outcome.messages[2]["content"]
    assert outcome.reason.endswith("; mended 1 message")
    assert (outcome.receipt.mended, outcome.receipt.reason) == (1, outcome.reason)
    expected = "[Aborted by user]" if policy == "opal" else "[Tool result missing]"
    assert outcome.messages[2]["content"] == expected


def test_a_result_without_a_call_gets_one_that_says_what_is_missing():
    outcome = refold.compact([user("q"), tool_result("c9"), assistant("ok")], window=32_768)
    (made,) = outcome.messages[1]["tool_calls"]
    assert "[Tool call for tool missing]" in made["function"]["arguments"]
    assert "mended" in outcome.reason


def test_neurolink_names_the_compaction_where_there_was_one():
    """Its document, "Tool Pair Repair": the text that stands in a compacted list."""
    messages = [*talk(40), CALL, user("never mind"), assistant("ok")]
    outcome = refold.compact(messages, window=8_000, policy="neurolink")
    (result,) = [message for message in outcome.messages if message["role"] == "tool"]
    assert outcome.compacted
    assert result["content"] == "[Tool result unavailable - conversation was compacted]"
    assert outcome.reason.endswith("; mended 1 message")


def test_a_list_that_is_in_order_is_not_called_mended():
    assert "mended" not in refold.compact(talk(3), window=32_768).reason
    assert "mended" not in refold.compact(talk(30), window=4_000).reason


def test_a_session_says_what_it_mended():
    with refold.open("s", window=32_768, store="memory:") as session:
        ready = session.prepare([user("q"), CALL, user("never mind"), assistant("ok"), user("go on")])
        assert ready.messages[2]["content"] == "[Tool result missing]"
        assert ready.outcome.reason.endswith("; mended 1 message")
        assert ready.outcome.receipt.mended == 1
        assert "mended" not in session.prepare([*ready.messages, assistant("yes")]).outcome.reason


# -- a target that is a pair -------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [(500, 900), ["500", "0.9k"], "500-900", "500 - 900"])
def test_a_pair_names_the_goal_and_what_should_stay(target):
    outcome = refold.compact(talk(30), window="32k", target=target)
    assert outcome.receipt.goal_tokens == 900
    assert outcome.tokens_after <= 900
    assert outcome.met_target == (outcome.tokens_after >= 500)


def test_a_result_below_the_pair_has_not_met_its_target():
    """Ripple's summary of everything leaves less than the pair asks for."""
    policy = presets.get("ripple", keep_recent_messages=1)
    outcome = refold.compact(talk(30), window="32k", target=(2_000, 3_000), policy=policy, ask=lambda _: "S")
    assert outcome.tokens_after < 2_000
    assert (outcome.fits, outcome.met_target) == (True, False)
    assert outcome.reason.endswith("where 2,000 should stay")


def test_a_history_that_has_less_than_the_pair_has_met_its_target():
    outcome = refold.compact(talk(1), window="32k", target=(2_000, 3_000))
    assert (outcome.compacted, outcome.met_target) == (False, True)


@pytest.mark.parametrize(
    "target", [(900, 500), (1, 2, 3), (), "500-", "a-b", (0, 5), [None, 4], 0, "banana", {}]
)
def test_a_target_that_is_no_target_is_refused(target):
    with pytest.raises(FormatError):
        refold.compact(talk(1), window="32k", target=target)


def test_a_session_takes_a_pair():
    with refold.open("s", window="32k", store="memory:") as session:
        for message in talk(30):
            session.say(message)
        outcome = session.compact(target="500-900")
        assert outcome.receipt.goal_tokens == 900
        assert outcome.fits == (session.budget().used <= outcome.budget.room)
