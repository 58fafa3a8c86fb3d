"""Recorded conversations: requests, sizes, how their provider counts."""

import pytest
from talks_to_replay import agent, reported

from refold.core.tokens.usage import Usage
from refold.replay import Recorded, Scale


def test_a_run_of_messages_by_the_model_answers_one_request():
    said = [
        ("assistant", "hello"),
        ("user", "q"),
        ("assistant", "a"),
        ("assistant", "b"),
        ("user", "r"),
        ("assistant", "c"),
    ]
    recorded = Recorded([{"role": role, "content": text} for role, text in said])
    assert recorded.requests == (2, 5)
    assert recorded.output(2) == sum(recorded.sizes[2:4])


def test_the_provider_counts_as_it_reported():
    recorded = reported(agent(20))
    assert recorded.scale.factor == pytest.approx(1.25, rel=0.01)
    assert recorded.scale.beside == pytest.approx(500, abs=20)
    assert agent(3).scale == Scale(0, 1.0)


def test_reports_after_the_recorders_own_compaction_say_nothing():
    plain = reported(agent(20))
    late = {at: Usage(input=100) if at > 20 else usage for at, usage in plain.usages.items()}
    known = Recorded(plain.messages, model=plain.model, usages=late)
    assert known.scale.factor == pytest.approx(1.25, rel=0.02)


def test_a_system_prompt_and_tools_beside_the_messages_count():
    tools = [{"name": "read", "description": "reads a file", "input_schema": {"type": "object"}}]
    beside = Recorded(
        [{"role": "user", "content": "hi"}], format="anthropic", system="Be brief. " * 50, tools=tools
    )
    assert beside.scale.beside > 100


def test_an_answer_is_as_long_as_reported_unless_that_was_cut_off():
    recorded = agent(4, usages={2: Usage(input=100, output=4_000), 4: Usage(input=100, output=1)})
    assert recorded.output(2) == 4_000
    assert recorded.output(4) > 5


def test_the_clock_goes_by_what_was_recorded_and_never_back():
    assert [b - a for a, b in zip(agent(3).clock, agent(3).clock[1:], strict=False)] == [20.0, 20.0]
    assert agent(3, times={2: 1_000.0, 4: 1_400.0, 6: 1_300.0}).clock == (1_000.0, 1_400.0, 1_400.0)
