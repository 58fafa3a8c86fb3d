"""Policies by name, with every knob by its own name."""

import inspect

import pytest

import refold
from refold import presets
from refold.errors import RefoldError

TALK = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    "name", ["ripple", "codebuddy", "umwelten", "neurolink", "opal", "refold", "thrifty"]
)
def test_each_system_is_one_policy_value(name):
    policy = presets.get(name)
    assert isinstance(policy, refold.Policy)
    assert policy.name == name
    assert policy.stages
    assert presets.get(name.upper()).name == name
    assert {"system", "pins", "open calls"} <= policy.guards


def test_there_are_seven_and_the_house_is_the_default():
    assert set(presets.PRESETS) == {
        *("ripple", "codebuddy", "umwelten", "neurolink", "opal", "refold", "thrifty")
    }
    assert presets.names() == [*presets.PRESETS, *(strategy.id for strategy in refold.list_strategies())]
    assert presets.get().name == "refold"
    assert refold.presets is presets


def test_a_policy_that_is_made_comes_back_as_it_is():
    policy = presets.get("opal")
    assert presets.get(policy) is policy


def test_a_policy_that_is_made_has_no_knobs():
    with pytest.raises(RefoldError, match=r"dataclasses\.replace"):
        presets.get(presets.get("opal"), threshold=0.5)


def test_what_is_no_name_of_a_policy_is_refused():
    with pytest.raises(RefoldError, match="name=3: expected text, or a Policy"):
        presets.get(3)


@pytest.mark.parametrize("name", ["nobody", "", None])
def test_an_unknown_policy_is_refused_with_the_known_ones(name):
    with pytest.raises(
        RefoldError, match="there are ripple, codebuddy, umwelten, neurolink, opal, refold, thr"
    ):
        presets.get(name)


def test_an_unknown_knob_is_refused_with_the_nearest_or_with_all():
    with pytest.raises(
        RefoldError, match="ripple has no knob 'keep_recent_message'; did you mean keep_recent_messages"
    ):
        presets.get("ripple", keep_recent_message=3)
    with pytest.raises(RefoldError, match="there are trigger_fraction, fallback_context_window"):
        presets.get("ripple", zzz=3)
    with pytest.raises(RefoldError, match="has no knob 'zzz'"):
        presets.get("truncate", zzz=3)


def test_knobs_are_given_by_name():
    for make in presets.PRESETS.values():
        kinds = {knob.kind for knob in inspect.signature(make).parameters.values()}
        assert kinds == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("name", presets.PRESETS)
def test_every_knob_can_be_turned_to_its_own_default(name):
    make = presets.PRESETS[name]
    knobs = {knob.name: knob.default for knob in inspect.signature(make).parameters.values()}
    assert presets.get(name, **knobs).name == name


@pytest.mark.parametrize(
    ("other", "knob", "value"),
    [
        ("compaction_threshold", "threshold", 0.5),
        ("compact_threshold", "threshold", 0.5),
        ("protect_tokens", "prune_protect_tokens", 9),
        ("minimum_savings", "prune_minimum_savings", 9),
        ("protected_tools", "prune_protected_tools", ("a",)),
        ("fraction", "truncation_fraction", 0.25),
        ("max_bytes", "max_tool_output_bytes", 9),
        ("max_lines", "max_tool_output_lines", 9),
        ("model", "summarization_model", "gemini-2.5-pro"),
        ("summarization_enabled", "enable_summarization", False),
    ],
)
def test_names_that_a_document_uses_elsewhere_turn_the_same_knob(other, knob, value):
    """NeuroLink's document calls some knobs by other words in its stages and on its command line."""
    one, two = presets.get("neurolink", **{other: value}), presets.get("neurolink", **{knob: value})
    same = [(policy.stages, policy.trigger, policy.levels, policy.summariser) for policy in (one, two)]
    assert same[0] == same[1]
    plain = presets.get("neurolink")
    assert same[0] != (plain.stages, plain.trigger, plain.levels, plain.summariser)


def test_a_strategys_id_is_umweltens_policy_with_that_strategy():
    policy = presets.get("truncate", keep_turns=2)
    assert (policy.name, policy.stages[0].id, policy.stages[0].keep.keep_turns) == ("umwelten", "truncate", 2)


# -- knobs that change a number ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "knobs", "line"),
    [
        ("ripple", {}, 27_852),
        ("ripple", {"trigger_fraction": 0.5}, 16_384),
        ("ripple", {"fallback_context_window": 1_000}, 850),
        ("codebuddy", {"context_window": "128k"}, 115_200),
        ("codebuddy", {"context_window": 4_000}, 3_600),
        ("codebuddy", {}, 14_400),
        ("neurolink", {"threshold": 0.5}, 41_600),
        ("neurolink", {"token_threshold": 1_000}, 1_000),
        ("neurolink", {"max_tokens": 28_000}, 80_000),
        ("neurolink", {"enabled": False}, None),
        ("neurolink", {"disable_compaction": True}, None),
        ("opal", {}, 102_400),
        ("opal", {"threshold": 0.5}, 64_000),
        ("opal", {"fallback_context_window": 10_000}, 8_000),
        ("umwelten", {}, None),
        ("refold", {"unknown_window": 20_000, "reserve_tokens": 0}, 17_000),
        ("refold", {"trigger_tokens": 5_000}, 5_000),
        ("refold", {"history_tokens": 7_000}, 7_000),
        ("thrifty", {}, 48_000),
        ("thrifty", {"history_tokens": 30_000}, 30_000),
        ("thrifty", {"trigger_tokens": 5_000}, 5_000),
        ("refold", {"trigger_fraction": 0.5, "max_output": 28_000}, 50_000),
    ],
)
def test_when_compaction_starts(name, knobs, line):
    """Without a model every system takes its own fallback window; the documents print the shares."""
    assert refold.measure(TALK, policy=presets.get(name, **knobs)).trigger_tokens == line


def test_the_parts_of_neurolink_can_be_switched_off():
    """NeuroLink's document: each stage has a switch; clipping has none."""
    names = [stage.name for stage in presets.get("neurolink").stages]
    assert names == ["clip", "prune", "deduplicate", "summarize", "truncate", "truncate"]
    for knob, gone in [
        ("enable_pruning", {"prune"}),
        ("enable_prune", {"prune"}),
        ("enable_deduplication", {"deduplicate"}),
        ("enable_deduplicate", {"deduplicate"}),
        ("enable_summarization", {"summarize"}),
        ("enable_summarize", {"summarize"}),
        ("enable_sliding_window", {"truncate"}),
        ("enable_truncate", {"truncate"}),
    ]:
        left = [stage.name for stage in presets.get("neurolink", **{knob: False}).stages]
        assert left == [stage for stage in names if stage not in gone]


def test_opal_truncates_behind_a_summary_or_alone():
    assert [stage.name for stage in presets.get("opal").stages] == ["summarize", "truncate"]
    assert [stage.name for stage in presets.get("opal", strategy="truncate").stages] == ["truncate"]


def test_opals_tail_has_two_names():
    assert presets.get("opal", keep_recent=100).stages[0].keep.tokens == 100
    assert presets.get("opal", keep_recent_tokens=0, keep_recent=100).stages[0].keep.tokens == 0
    assert presets.get("opal").stages[0].keep.tokens is None


def test_umweltens_checkpoint_is_a_switch_or_a_position():
    assert presets.get("umwelten", checkpoint=4).checkpoint == 4
    assert presets.get("umwelten", from_checkpoint=4).checkpoint == 4
    assert presets.get("umwelten", from_checkpoint=True).checkpoint is None
    assert presets.get("umwelten", from_checkpoint=False).stages[0].keep.from_checkpoint is False
    assert presets.get("umwelten", from_checkpoint=4).stages[0].keep.from_checkpoint is True
    assert presets.get("umwelten").begins_at_checkpoint
    assert not presets.get("umwelten", from_checkpoint=False).begins_at_checkpoint
    assert not presets.get("refold").begins_at_checkpoint


@pytest.mark.parametrize(
    "knobs",
    [{"keep_turns": 3}, {"strategy_options": {"keep_turns": 3}}, {"strategy_options": {"keepTurns": 3}}],
)
def test_umweltens_turns_can_be_kept_by_an_option_of_the_strategy(knobs):
    stage = presets.get("umwelten", **knobs).stages[0]
    assert (stage.keep.keep_turns, stage.options["keep_turns"]) == (3, 3)


def test_umweltens_summaries_merge_unless_told():
    assert presets.get("umwelten").stages[0].keep.merge is True
    assert presets.get("umwelten", merge=False).stages[0].keep.merge is False
    assert presets.get("umwelten", strategy_options={"merge": False}).stages[0].keep.merge is False


def test_codebuddys_window_is_a_setting_or_the_models():
    """CodeBuddy's page, decisions: a setting wins only when somebody set it; 16k where the model is unknown."""
    policy = presets.get("codebuddy")
    assert policy.window("gpt-4o").tokens == 128_000
    assert policy.window(None).tokens == 16_000
    assert presets.get("codebuddy", context_window="4k").window("gpt-4o").tokens == 4_000
    assert presets.get("codebuddy", context_window="banana").window("gpt-4o").tokens == 16_000


def test_neurolinks_outputs_are_saved_where_told(tmp_path, monkeypatch):
    def clip(**knobs):
        return presets.get("neurolink", **knobs).stages[0]

    def mine(text):
        return "mine"

    assert clip().save_to is None
    assert clip(save_to_disk=False).save_to is None
    assert clip(save_to_disk=mine).save_to is mine
    assert clip(save_to_disk=True, save_dir=str(tmp_path)).save_to("text").startswith(str(tmp_path))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "temporary"))
    assert clip(save_to_disk=True).save_to("text").startswith(str(tmp_path / "temporary"))


def test_a_policy_that_is_nearly_known_is_suggested():
    with pytest.raises(RefoldError, match="did you mean opal"):
        presets.get("opla")
