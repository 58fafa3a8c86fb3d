"""compact, acompact, validate and repair on plain data."""

import asyncio
import json
from dataclasses import replace
from unittest.mock import Mock

import pytest

import refold
from chat_messages import written_call
from refold import presets
from refold.errors import DoesNotFit, FormatError, RefoldError
from refold.testing import Scripted, assistant, call, loose_ends, result, shape, user

WORDS = "some words that say a little about the work at hand "
TOLD = (
    "The user asked one question after the other with the same old words at hand, which say a little about the "
    "work, and each answer gave the same words back. Nothing was decided, nothing is open, and no file was read. "
    "What comes next is one more question of this kind, with a number that is higher by one, and its answer."
)
OLD = "OLD " + WORDS * 40


def talk(turns, text=OLD):
    """A chat of so many turns in OpenAI's shape."""
    return [
        message
        for turn in range(turns)
        for message in (
            {"role": "user", "content": f"question {turn}: {text}"},
            {"role": "assistant", "content": f"answer {turn}: {text}"},
        )
    ]


def model_of(*answers):
    """A model with room for everything in one request."""
    return Scripted(answers or TOLD, window=100_000)


def compacted(messages, *, ask=None, **wishes):
    return refold.compact(messages, ask=ask, **{"window": 8_000} | wishes)


SYSTEM = {"role": "system", "content": "You are kind."}

# -- the same shape, the same objects ----------------------------------------------------------------------

ANTHROPIC = [
    {"role": "user", "content": "read it"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a.py"}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": OLD}]},
    *talk(6),
]
RESPONSES = [
    {"role": "user", "content": "read it"},
    {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path": "a.py"}'},
    {"type": "function_call_output", "call_id": "c1", "output": OLD},
    *talk(6),
]
CHAT = [
    SYSTEM,
    {"role": "user", "content": "read it", "name": "ada"},
    written_call("c1", '{"path": "a.py"}', name="read"),
    {"role": "tool", "tool_call_id": "c1", "content": OLD},
    *talk(6),
]
GEMINI = [
    {"role": "model" if message["role"] == "assistant" else "user", "parts": [{"text": message["content"]}]}
    for message in talk(6)
]
OURS = [user("read it"), call("read", path="a.py"), result("c1", OLD), *(user(OLD) for _ in range(12))]
SHAPES = {"openai": CHAT, "responses": RESPONSES, "anthropic": ANTHROPIC, "gemini": GEMINI, "refold": OURS}


@pytest.mark.few_values(3)
@pytest.mark.parametrize(("name", "messages"), SHAPES.items(), ids=SHAPES)
@pytest.mark.parametrize("ask", [None, model_of()], ids=["no model", "model"])
def test_what_comes_back_has_the_shape_that_went_in(name, messages, ask):
    outcome = compacted(messages, ask=ask, window=4_000)
    assert outcome.compacted
    assert outcome.tokens_after < outcome.tokens_before
    assert refold.validate(outcome.messages, name) == []
    assert {type(message) for message in outcome.messages} == {type(messages[0])}


@pytest.mark.few_values(2)
@pytest.mark.parametrize(("name", "messages"), SHAPES.items(), ids=SHAPES)
def test_untouched_messages_are_the_very_objects(name, messages):
    """House law 2."""
    outcome = compacted(messages, ask=model_of(), window=5_000)
    untouched = [
        index for index in range(len(messages)) if not any(e.start <= index < e.end for e in outcome.edits)
    ]
    assert untouched
    given = {id(message) for message in messages}
    assert sum(id(message) in given for message in outcome.messages) == len(untouched)
    assert outcome.messages[-1] is messages[-1]


@pytest.mark.few_values(2)
@pytest.mark.parametrize(("name", "messages"), SHAPES.items(), ids=SHAPES)
def test_what_is_given_is_not_changed(name, messages):
    before = json.dumps(messages, default=repr)
    compacted(messages, ask=model_of(), window=4_000)
    assert json.dumps(messages, default=repr) == before


def test_where_nothing_is_done_the_messages_are_the_same_in_a_new_list():
    messages = talk(1)
    outcome = compacted(messages)
    assert not outcome.compacted
    assert outcome.messages == messages
    assert outcome.messages is not messages
    assert all(new is old for new, old in zip(outcome.messages, messages, strict=True))


def test_the_edits_lead_there_and_back():
    outcome = compacted(OURS, ask=model_of(), window=4_000)
    forward, back = list(OURS), list(outcome.messages)
    for edit in reversed(outcome.edits):
        forward[edit.start : edit.end] = edit.put
    for edit in outcome.edits:
        back[edit.start : edit.start + len(edit.put)] = edit.took
    assert (forward, back) == (outcome.messages, OURS)


# -- when --------------------------------------------------------------------------------------------------


def test_below_the_line_nothing_happens_and_the_reason_has_the_numbers():
    outcome = compacted(talk(1))
    assert (outcome.compacted, outcome.fits, outcome.stages, outcome.tier) == (False, True, (), 0)
    assert outcome.reason == f"not yet: {outcome.budget.used:,} of {outcome.budget.trigger_tokens:,} tokens"
    assert (outcome.receipt.trigger, outcome.receipt.goal_tokens) == ("none", None)


def test_over_the_line_it_happens_by_itself():
    outcome = compacted(talk(10))
    assert outcome.budget.should_compact
    assert (outcome.compacted, outcome.fits, outcome.receipt.trigger) == (True, True, "threshold")
    assert outcome.tokens_after <= 0.55 * outcome.budget.room


@pytest.mark.parametrize(("turns", "share"), [(3, 0.75), (4, 0.7)])
def test_force_works_at_any_size(turns, share):
    """The first and the last request stay, so that less leaves of a short talk."""
    outcome = compacted(talk(turns), force=True)
    assert not outcome.budget.should_compact
    assert (outcome.compacted, outcome.receipt.trigger) == (True, "forced")
    assert outcome.tokens_after <= outcome.tokens_before * share


def test_compaction_that_is_switched_off_says_so():
    outcome = compacted(talk(20), policy=presets.get("neurolink", enabled=False))
    assert (outcome.compacted, outcome.reason) == (False, "not yet: compaction is switched off")


def test_a_policy_that_works_on_call_works_when_called():
    outcome = compacted(talk(2), policy="umwelten", ask=model_of())
    assert (outcome.compacted, outcome.receipt.trigger) == (True, "called")


def test_a_history_within_its_target_is_left_alone():
    outcome = compacted(talk(2), target=4_000)
    assert (outcome.compacted, outcome.fits, outcome.receipt.trigger) == (False, True, "target")
    assert outcome.reason == "already within its target of 4,000 tokens"


def test_to_compact_twice_is_to_compact_once():
    """House law 4: without a second model call."""
    model = model_of()
    once = compacted(talk(10), ask=model)
    twice = compacted(once.messages, ask=model)
    assert len(model.asked) == 1
    assert twice.messages == once.messages


# -- how far -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [2_000, "2k", "2,000"])
def test_a_target_is_a_size_of_the_whole_context(target):
    outcome = compacted(talk(10), target=target, system="You are kind.")
    assert outcome.fits
    assert outcome.tokens_after <= 2_000
    assert outcome.breakdown.total <= 2_000
    assert outcome.receipt.goal_tokens == 2_000 - outcome.breakdown.system


def test_a_target_is_a_size_of_the_history_where_a_system_counts_it_alone():
    outcome = compacted(talk(10), target=2_000, policy="neurolink", system="You are kind." * 50)
    assert outcome.receipt.goal_tokens == 2_000


def test_a_target_smaller_than_the_fixed_part_is_no_tokens_of_history():
    outcome = compacted(talk(3), target=10, system="You are kind. " * 100)
    assert (outcome.receipt.goal_tokens, outcome.fits, outcome.met_target) == (0, True, False)


@pytest.mark.parametrize("target", [0, -5, "banana"])
def test_a_target_that_is_none_is_refused(target):
    with pytest.raises(FormatError):
        compacted(talk(3), target=target)


def test_a_provider_that_counts_more_than_we_do_moves_the_goal_by_as_much():
    messages = talk(6)
    plain = compacted(messages, force=True, window=6_000)
    size = plain.budget.breakdown.total
    outcome = compacted(messages, usage={"input_tokens": size * 2, "messages": len(messages)}, window=6_000)
    assert outcome.receipt.reported_tokens == size * 2
    assert outcome.receipt.estimated_tokens == size
    assert outcome.receipt.goal_tokens == plain.budget.room * 55 // 100 // 2
    assert plain.receipt.reported_tokens is None


@pytest.mark.parametrize(
    ("policy", "factor", "surplus"), [("refold", 0.8, 0.8), ("refold", 0.3, 0.6), ("codebuddy", 0.8, 1)]
)
def test_a_provider_that_counts_less_than_we_do_lets_our_own_policy_keep_more(policy, factor, surplus):
    """A report of much less may be one of what was not in a cache; other systems' targets are their own."""
    messages, wishes = talk(30), {"policy": policy, "window": 6_000}
    ours = compacted(messages, force=True, **wishes).receipt.goal_tokens
    reported = {
        "input_tokens": round(refold.measure(messages, **wishes).used * factor),
        "messages": len(messages),
    }
    goal = compacted(messages, usage=reported, force=True, **wishes).receipt.goal_tokens
    assert goal == pytest.approx(ours / surplus, rel=0.01)


def test_where_the_provider_counts_less_a_view_still_fits_by_our_count():
    messages, policy = talk(60), refold.presets.refold(target_fraction=0.8)
    reported = {"input_tokens": round(refold.count(messages) * 0.6), "messages": len(messages)}
    outcome = compacted(messages, usage=reported, window=6_000, policy=policy, force=True)
    assert outcome.compacted
    assert refold.count(outcome.messages) <= outcome.budget.room


def test_a_forced_compaction_below_the_target_of_a_system_that_has_no_share_does_nothing():
    """CodeBuddy's page, /compact: within the budget there is no compaction needed."""
    outcome = compacted(talk(3), force=True, policy="codebuddy", window=100_000)
    assert outcome.reason.startswith("nothing to compact: already within its target")


def test_a_forced_compaction_below_the_target_of_a_system_that_works_once_works_once():
    outcome = compacted(talk(5), force=True, policy="neurolink", window=100_000, ask=model_of())
    assert (outcome.compacted, outcome.receipt.goal_tokens) == (True, None)


def test_a_forced_compaction_below_its_target_aims_at_half():
    outcome = compacted(talk(3), force=True)
    assert outcome.receipt.goal_tokens == outcome.budget.breakdown.history // 2


# -- what does not fit -------------------------------------------------------------------------------------


def test_what_cannot_fit_says_so_with_the_numbers_of_every_part():
    """House law 3."""
    outcome = compacted([SYSTEM | {"content": OLD * 10}, *talk(3)], window=3_000)
    assert not outcome.fits
    assert "alone have" in outcome.reason
    assert outcome.breakdown.history == outcome.tokens_after


def test_must_fit_raises_with_the_numbers_of_every_part():
    with pytest.raises(DoesNotFit) as caught:
        compacted(talk(3), system=OLD * 20, window=3_000, must_fit=True)
    error = caught.value
    assert error.tokens == sum(error.breakdown.values()) > error.room
    assert error.breakdown["system"] > error.room
    assert "shorten the largest part" in str(error)


def test_must_fit_raises_nothing_where_it_fits():
    assert compacted(talk(10), must_fit=True).fits
    assert compacted(talk(1), must_fit=True).fits


@pytest.mark.parametrize("policy", ["refold", "ripple", "codebuddy", "neurolink", "opal"])
def test_where_the_fixed_part_alone_is_over_the_room_nobody_is_asked(policy):
    """The torture matrix, A: kimi-code#2498, system prompt and tools alone over the threshold."""
    model = model_of()
    outcome = compacted(talk(10), ask=model, system=OLD * 40, policy=policy, window=3_000)
    assert model.asked == []
    assert not outcome.fits
    room = outcome.budget.room
    fixed = f"{outcome.breakdown.fixed:,}"
    assert outcome.reason == (
        f"system prompt, tools, prompt and files alone have {fixed} tokens for a room of {room:,}; "
        f"shorten the largest part, the system prompt ({fixed} tokens), or use a larger window"
    )


@pytest.mark.parametrize("policy", ["refold", "ripple", "codebuddy", "neurolink", "opal", "umwelten"])
def test_where_the_fixed_part_alone_is_over_the_room_a_short_history_is_not_blamed(policy):
    outcome = compacted([{"role": "user", "content": "hi"}], system=OLD * 40, window=3_000, policy=policy)
    assert (outcome.compacted, outcome.fits) == (False, False)
    assert outcome.reason.startswith("system prompt, tools, prompt and files alone have")


# -- models ------------------------------------------------------------------------------------------------


def test_a_summary_stands_in_the_outcome_and_in_the_history():
    outcome = compacted(talk(10), ask=model_of())
    assert outcome.summary == TOLD
    assert sum(TOLD in str(message) for message in outcome.messages) == 1
    assert outcome.stages[-1] == "summarize"
    assert (outcome.messages_before, outcome.messages_after) == (20, len(outcome.messages))
    assert outcome.tokens_saved == outcome.tokens_before - outcome.tokens_after > 0


def test_an_acknowledgement_is_no_summary():
    outcome = compacted(talk(10), ask=model_of(), policy="ripple", window=4_000)
    assert outcome.summary == TOLD


def test_without_a_model_the_summary_is_what_the_stage_put():
    outcome = compacted(talk(10), force=True, policy="opal", window=4_000)
    assert "Compacted" in outcome.summary
    assert compacted(talk(1)).summary is None


def test_a_model_is_any_callable_from_the_prompt_to_its_answer():
    asked = []

    def my_llm(prompt):
        asked.append(prompt)
        return TOLD

    assert compacted(talk(10), ask=my_llm).summary == TOLD
    assert "OLD some words" in asked[0]
    assert asked[0].max_tokens <= 4_096


def test_a_stand_in_of_a_test_library_is_a_model():
    model = Mock(return_value=TOLD)
    assert compacted(talk(10), ask=model).summary == TOLD
    assert model.call_count == 3


def test_the_window_of_a_model_limits_every_request():
    """House law 12: every request fits the summariser's own window."""
    model = Scripted(TOLD, window=1_500)
    compacted(talk(10), ask=model)
    assert len(model.asked) > 1
    assert all(refold.count(ask) + refold.count(ask.system) + ask.max_tokens <= 1_500 for ask in model.asked)


@pytest.mark.few_values(2)
@pytest.mark.parametrize("window", [None, 0, -1, "100k", True])
def test_a_window_that_a_model_does_not_tell_is_that_of_the_conversation(window):
    model = Scripted(TOLD, window=window)
    compacted(talk(10), ask=model)
    assert [ask.purpose for ask in model.asked] == ["initial 1/2", "initial 2/2", "merge"]
    small = Scripted(TOLD, window=window)
    compacted(talk(4), ask=small, window=1_000)
    assert all(refold.count(ask) < 8_192 for ask in small.asked)
    assert len(small.asked) == 1


def test_a_model_that_raises_is_told_of_and_the_next_stage_goes_on():
    """House law 11."""
    outcome = compacted(talk(10), ask=model_of(TimeoutError("slow")))
    assert (outcome.compacted, outcome.fits) == (True, True)
    assert "summarize" not in outcome.stages
    (call_,) = outcome.receipt.calls
    assert call_.failed == "TimeoutError: slow"


def test_ctrl_c_passes_through():
    with pytest.raises(KeyboardInterrupt):
        compacted(talk(10), ask=Scripted(KeyboardInterrupt()))


def test_an_asynchronous_model_is_refused_with_the_way_out():
    with pytest.raises(RefoldError, match="acompact"):
        compacted(talk(10), ask=model_of().later)


def test_the_focus_reaches_the_prompt():
    model = model_of()
    compacted(talk(10), ask=model, focus="the parser")
    assert "the parser" in model.asked[0]
    compacted(talk(10), ask=model, focus=None)
    assert "the parser" not in model.asked[1]


def test_an_address_of_a_model_whose_key_is_missing_is_refused(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RefoldError, match="anthropic:claude needs a key: set ANTHROPIC_API_KEY"):
        compacted(talk(10), ask="anthropic:claude")


def test_what_is_no_model_is_refused():
    with pytest.raises(RefoldError, match="not int"):
        compacted(talk(10), ask=3)


def test_the_same_with_an_event_loop():
    waiting, plain = Scripted(TOLD), Scripted(TOLD)
    outcome = asyncio.run(refold.acompact(talk(10), window=8_000, ask=waiting.later))
    assert outcome == compacted(talk(10), ask=plain)
    assert waiting.asked == plain.asked


def test_parts_are_asked_in_parallel_with_an_event_loop():
    async def main():
        asked, released = [], asyncio.Event()

        async def model(ask):
            if ask.purpose != "merge":
                asked.append(ask)
                if len(asked) == int(ask.purpose.split("/")[1]):
                    released.set()
                await released.wait()
            return TOLD

        model.window = 1_500
        outcome = await asyncio.wait_for(refold.acompact(talk(10), window=8_000, ask=model), 30)
        return outcome, asked

    outcome, asked = asyncio.run(main())
    assert len(asked) > 1
    assert "summarize" in outcome.stages


def test_must_fit_holds_with_an_event_loop():
    with pytest.raises(DoesNotFit):
        asyncio.run(refold.acompact(talk(3), system=OLD * 20, window=3_000, must_fit=True))


def test_a_cancelled_compaction_changes_nothing():
    """House law 10."""
    messages = talk(10)
    before = json.dumps(messages)

    async def main():
        async def model(_):
            await asyncio.sleep(3_600)

        task = asyncio.create_task(refold.acompact(messages, window=8_000, ask=model))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert json.dumps(messages) == before


# -- what stays --------------------------------------------------------------------------------------------

PINNED = {"role": "user", "content": "never touch the database", "id": "rule"}


@pytest.mark.parametrize(
    "pins",
    [[3], [-18], (PINNED,), [dict(PINNED)], iter([3]), PINNED, 3],
    ids=["position", "from the end", "object", "equal", "iterator", "one object", "one position"],
)
def test_pins_are_in_every_view(pins):
    """House law 13."""
    messages = talk(10)
    messages.insert(3, PINNED)
    outcome = compacted(messages, pins=pins, policy=presets.get("refold", keep_user_tokens=0))
    assert outcome.compacted
    assert sum(message is PINNED for message in outcome.messages) == 1


def test_a_pin_by_id():
    messages = [user("never touch the database", id="rule"), *(user(OLD) for _ in range(12))]
    messages.insert(4, user("and be kind", id="other"))
    policy = presets.get("refold", keep_user_tokens=0)
    for pins in (["other"], "other"):
        assert messages[4] in compacted(messages, pins=pins, policy=policy, window=4_000).messages


def test_the_first_position_can_be_pinned_alone():
    messages = [{"role": "assistant", "content": "I am first"}, *talk(10)]
    assert messages[0] in compacted(messages, pins=0).messages
    assert messages[0] not in compacted(messages).messages


def test_a_message_pinned_by_itself_stays():
    messages = [*(user(OLD) for _ in range(12))]
    messages[5] = assistant("keep me", pinned=True)
    assert messages[5] in compacted(messages, window=4_000).messages


def test_a_pin_that_is_nothing_is_an_error():
    with pytest.raises(RefoldError, match="pin 99"):
        compacted(talk(10), pins=[99])


def test_no_pins_are_no_pins():
    assert compacted(talk(10), pins=None) == compacted(talk(10), pins=()) == compacted(talk(10))


def test_the_system_prompt_the_last_words_and_open_calls_are_in_every_view():
    """House law 13."""
    waiting = written_call("c9", "{}", name="read")
    messages = [SYSTEM, *talk(10), {"role": "user", "content": "now read it"}, waiting]
    outcome = compacted(messages)
    assert outcome.messages[0] is SYSTEM
    assert outcome.messages[-2:] == messages[-2:]
    assert outcome.messages[-1] is waiting


# -- what it tells -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["refold", "ripple", "codebuddy", "umwelten", "neurolink", "opal"])
@pytest.mark.parametrize("reported", [None, 1.3, 0.8])
def test_tokens_are_those_of_the_whole_context(policy, reported):
    """Under every policy; the parts add up to them, also where the provider counts otherwise."""
    options = {"system": "You are kind. " * 20, "policy": policy, "window": 16_000}
    used = refold.measure(talk(10), **options).used
    usage = None if reported is None else {"prompt_tokens": round(reported * used), "messages": 20}
    for force in (True, False):
        outcome = refold.compact(talk(10), usage=usage, force=force, **options)
        assert (
            outcome.tokens_before == outcome.budget.used == sum(outcome.budget.breakdown.as_dict().values())
        )
        assert outcome.tokens_after == outcome.used_after == sum(outcome.breakdown.as_dict().values())
        assert ("unlisted" in outcome.budget.breakdown.as_dict()) is (reported is not None)


def test_the_breakdown_afterwards_has_the_same_fixed_parts():
    outcome = compacted(
        talk(10), system="You are kind.", tools=[{"name": "read"}], prompt="go on", files=["x = 1"]
    )
    before, after = outcome.budget.breakdown, outcome.breakdown
    assert (after.system, after.tools, after.prompt, after.files) == (
        before.system,
        before.tools,
        before.prompt,
        before.files,
    )
    assert all((after.system, after.tools, after.prompt, after.files))
    assert after.history < before.history


def test_the_tier_is_the_number_of_the_last_accepted_stage():
    policy = presets.get("codebuddy")
    outcome = compacted(talk(10), policy=policy, window=10_000, ask=model_of())
    names = [stage.name for stage in policy.stages]
    assert outcome.tier == names.index(outcome.stages[-1]) + 1


def test_the_receipt_tells_what_each_stage_did():
    outcome = compacted(talk(10), ask=model_of())
    receipt = outcome.receipt
    assert (receipt.policy, receipt.window, receipt.window_source) == ("refold", 8_000, "given")
    assert [report.stage for report in receipt.stages if report.accepted] == list(outcome.stages)
    assert receipt.reason == outcome.reason
    assert receipt.estimated_tokens == outcome.budget.breakdown.total
    assert len(receipt.calls) == 1
    assert json.loads(json.dumps(receipt.as_dict()))["stages"][0]["stage"] == receipt.stages[0].stage


def test_the_reason_names_what_was_done_or_why_nothing_was():
    outcome = compacted(talk(10), ask=model_of())
    assert outcome.reason.split("; ")[-1].startswith("summarize: ")
    outcome = compacted(talk(10), policy=presets.get("ripple"), force=True)
    assert outcome.reason == "nothing to compact: summarize: no model was given"


def test_a_policy_without_stages_says_so():
    policy = replace(presets.get("opal"), stages=())
    assert compacted(talk(3), policy=policy, force=True).reason == "nothing to compact: no stage"


def test_over_the_target_without_any_success_the_reason_has_both():
    policy = replace(presets.get("neurolink"), stages=presets.get("opal").stages[:1])
    outcome = compacted(talk(10), policy=policy, window=4_000)
    assert "tokens over the target of" in outcome.reason
    assert outcome.reason.endswith("nothing to compact: summarize: no model was given")


def test_files_are_told():
    outcome = compacted(CHAT, window=4_000)
    assert (outcome.files.read, outcome.files.modified) == (("a.py",), ())


def test_broken_histories_are_mended_even_where_nothing_else_is_done():
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "tool", "tool_call_id": "gone", "content": "x"},
        {"role": "user", "content": "on"},
    ]
    outcome = compacted(messages)
    assert (outcome.compacted, outcome.messages_before, outcome.messages_after) == (False, 3, 4)
    assert outcome.receipt.mended == 1
    assert refold.validate(outcome.messages) == []
    assert outcome.tokens_after > outcome.tokens_before


# -- options -----------------------------------------------------------------------------------------------


def test_an_unknown_option_is_refused_by_name():
    with pytest.raises(TypeError, match="focuss"):
        compacted(talk(1), focuss="x")
    with pytest.raises(TypeError, match="keep_tokens"):
        compacted(talk(1), keep_tokens=3)


def test_every_option_of_a_measurement_is_one_of_a_compaction():
    outcome = refold.compact(
        talk(1),
        model="gpt-4o",
        window="16k",
        system="s",
        tools=[],
        prompt="p",
        files=[],
        policy="refold",
        count=len,
        usage=None,
        format="openai",
        force=False,
        focus="",
        target=None,
        pins=[],
        must_fit=False,
    )
    assert outcome.budget.window == 16_000
    assert outcome.budget.count_source == "given"


# -- validate and repair -----------------------------------------------------------------------------------

BROKEN = [
    {"role": "user", "content": "hi"},
    written_call("a", "{}", name="read"),
    {"role": "user", "content": "on"},
    {"role": "tool", "tool_call_id": "x", "content": "stray"},
]


def test_a_good_history_has_no_problems():
    for name, messages in SHAPES.items():
        assert refold.validate(messages, name) == []
        assert refold.validate(messages) == []


def test_a_broken_history_has_problems_with_their_places():
    assert [(problem.index, problem.rule) for problem in refold.validate(BROKEN)] == [
        (1, "call-without-result"),
        (3, "result-without-call"),
    ]


def test_what_is_not_the_shape_is_one_problem():
    (problem,) = refold.validate([{"role": "user", "content": 3}], "openai")
    assert (problem.index, problem.rule) == (None, "format")
    assert "messages[0]" in problem.message
    assert [problem.rule for problem in refold.validate("hello")] == ["format"]


def test_an_unknown_format_is_an_error_of_the_caller():
    with pytest.raises(FormatError, match="no format is named 'klingon'"):
        refold.validate(BROKEN, "klingon")
    with pytest.raises(FormatError, match="no format is named 'klingon'"):
        refold.repair(BROKEN, "klingon")


def test_a_broken_history_is_repaired():
    done = refold.repair(BROKEN)
    assert (done.fixed_calls, done.fixed_results) == (1, 1)
    assert refold.validate(done.messages) == []
    assert done.messages[0] is BROKEN[0]
    assert refold.repair(done.messages).messages is done.messages


def test_a_good_history_is_the_very_list():
    """NeuroLink's page, case 20."""
    for name, messages in SHAPES.items():
        done = refold.repair(messages, name)
        assert done.messages is messages
        assert (done.fixed_calls, done.fixed_results) == (0, 0)


def test_messages_of_ones_own_are_repaired():
    done = refold.repair([user("hi"), call("f", id="a"), user("on")])
    assert loose_ends(done.messages) == []
    assert "unavailable" in shape(done.messages)


def test_what_cannot_be_read_cannot_be_repaired():
    with pytest.raises(FormatError):
        refold.repair([3])


def test_a_pin_that_is_no_message_is_refused_also_where_nothing_is_to_be_done():
    with pytest.raises(refold.RefoldError, match="pin 99"):
        refold.compact([{"role": "user", "content": "hi"}], pins=[99])
