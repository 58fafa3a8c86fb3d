"""The values that knobs may have, wherever they are set."""

import math
import re
from pathlib import Path

import pytest

import refold
from refold import presets
from refold.arguments import Argument, list_arguments
from refold.errors import RefoldError

SYSTEMS = Path(__file__).parents[2] / "docs" / "systems"
SHARE = "expected a number from 0 to 1"
KNOBS = [(policy, knob) for policy, make in presets.PRESETS.items() for knob in list_arguments(make).values()]


@pytest.mark.parametrize(
    ("policy", "knob", "value", "said"),
    [
        ("opal", "strategy", "summarise", "strategy='summarise': expected 'summarize' or 'truncate'"),
        ("opal", "threshold", 80, f"threshold=80: {SHARE}"),
        ("opal", "threshold", True, f"threshold=True: {SHARE}"),
        ("opal", "threshold", "0.5", f"threshold='0.5': {SHARE}"),
        ("opal", "threshold", 10**400, f"threshold={'1' + '0' * 76}...: {SHARE}"),
        (
            "opal",
            "keep_recent",
            -5,
            "keep_recent=-5: expected a whole number from 0 to 1,000,000,000, or none",
        ),
        ("opal", "fallback_context_window", 0, "expected a whole number from 1 to 1,000,000,000"),
        ("opal", "instructions", 3, "instructions=3: expected text"),
        ("neurolink", "summary_role", "robot", "expected 'system' or 'user' or 'assistant'"),
        ("neurolink", "threshold", math.nan, f"threshold=nan: {SHARE}"),
        ("neurolink", "compact_threshold", math.inf, f"threshold=inf: {SHARE}"),
        ("neurolink", "token_threshold", "60 thousand", "expected a whole number from 1"),
        ("neurolink", "token_threshold", 1.5, "expected a whole number from 1"),
        ("neurolink", "keep_recent_ratio", 30, f"keep_recent_ratio=30: {SHARE}"),
        ("neurolink", "truncation_fraction", 50, f"truncation_fraction=50: {SHARE}"),
        ("neurolink", "file_read_budget_percent", 60, f"file_read_budget_percent=60: {SHARE}"),
        ("neurolink", "direction", "start", "direction='start': expected 'head' or 'tail' or 'both'"),
        ("neurolink", "enabled", 1, "enabled=1: expected true or false"),
        ("neurolink", "prune_protected_tools", "skill", "expected a list of texts"),
        ("neurolink", "prune_protected_tools", [3], "expected a list of texts"),
        ("neurolink", "save_to_disk", "yes", "expected true or false, or a function"),
        ("codebuddy", "safety_margin", 0, "safety_margin=0: expected a number from 1 to 10"),
        (
            "codebuddy",
            "context_window",
            -4_000,
            "expected text, or a whole number from 1 to 1,000,000,000, or",
        ),
        ("ripple", "keep_recent_messages", 2.5, "keep_recent_messages=2.5: expected a whole number from 0"),
        ("umwelten", "keep_turns", None, "keep_turns=None: expected a whole number from 0"),
        ("umwelten", "strategy_options", {"keepTurns": "two"}, "keep_turns='two': expected a whole number"),
        ("umwelten", "strategy_options", {"merge": "no"}, "merge='no': expected true or false"),
        ("umwelten", "strategy_options", [1], "expected a table, or none"),
        ("truncate", "keep_turns", -1, "keep_turns=-1: expected a whole number from 0"),
        ("refold", "trigger_fraction", None, f"trigger_fraction=None: {SHARE}"),
        ("thrifty", "target_fraction", 55, f"target_fraction=55: {SHARE}"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_knob_and_the_range(policy, knob, value, said):
    with pytest.raises(RefoldError, match=re.escape(said)):
        presets.get(policy, **{knob: value})


def test_a_number_that_python_does_not_write_is_refused_too():
    with pytest.raises(RefoldError, match=f"threshold=int: {SHARE}"):
        presets.get("opal", threshold=10**5_000)


def test_a_call_of_the_preset_is_checked_as_well():
    with pytest.raises(RefoldError, match=f"trigger_fraction=85: {SHARE}"):
        presets.ripple(trigger_fraction=85)
    with pytest.raises(TypeError, match="trigger_fractio"):
        presets.ripple(trigger_fractio=0.85)


def test_a_number_of_tokens_may_be_written_as_people_do():
    talk = [{"role": "user", "content": "hi"}]
    for value in ("60k", "60,000", 60_000):
        policy = presets.get("neurolink", token_threshold=value)
        assert refold.measure(talk, policy=policy, window="128k").trigger_tokens == 60_000
    assert presets.ripple(reserved_output_tokens="2k").stages[0].output_tokens == 2_000


@pytest.mark.parametrize(("policy", "knob"), KNOBS)
def test_no_knob_takes_what_makes_no_sense(policy, knob):
    """Whatever the type: an object of no known kind, and for numbers nan, infinity and a switch."""
    wrong = [object()]
    if "number" in knob.values:
        wrong += [math.nan, math.inf, -math.inf, -1]
        wrong += [] if "true" in knob.values else [True]
    for value in wrong:
        with pytest.raises(RefoldError, match=f"^{knob.name}=.*: expected {re.escape(knob.values)}$"):
            presets.get(policy, **{knob.name: value})


@pytest.mark.parametrize(("policy", "knob"), KNOBS)
def test_every_default_is_in_its_own_range(policy, knob):
    assert knob.check(knob.default) == knob.default, policy


def test_a_text_is_read_as_the_knob_needs_it():
    def read(policy, knob, text):
        return list_arguments(presets.PRESETS[policy])[knob].read(text)

    assert read("opal", "keep_recent", "8000") == read("opal", "keep_recent", "8k") == 8_000
    assert read("opal", "keep_recent", "null") is None
    assert read("opal", "instructions", "8000") == "8000"
    assert read("codebuddy", "context_window", "4k") == 4_000
    assert read("neurolink", "prune_protected_tools", '["a"]') == ["a"]
    assert read("neurolink", "is_code", "true") is True
    with pytest.raises(RefoldError, match=f"^threshold=Infinity: {SHARE}$"):
        read("opal", "threshold", "Infinity")
    with pytest.raises(RefoldError, match=f"^threshold=x{{80}}: {SHARE}$"):
        read("opal", "threshold", "x" * 500)


def test_a_number_without_a_range_may_be_any_number():
    assert Argument("depth", int, 0).check(-3) == -3
    assert Argument("depth", int, 0).values == "a whole number"


@pytest.mark.parametrize(
    ("policy", "knob"), [(policy, knob) for policy, knob in KNOBS if policy != "thrifty"]
)
def test_the_page_of_a_policy_tells_the_range_of_each_knob(policy, knob):
    page = (SYSTEMS / f"{policy}.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|") and f"`{knob.name}`" in line]
    assert rows, knob.name
    assert rows[0].split("|")[3].strip() == short_range(knob), knob.name


def short_range(knob):
    """The values of a knob as the tables print them."""
    words = (
        knob.values.removesuffix(", or none").replace("a whole number from", "").replace("a number from", "")
    )
    words = words.replace("to 1,000,000,000", "and more").replace("true or false", "on, off")
    return " ".join(words.replace("'", "`").split())
