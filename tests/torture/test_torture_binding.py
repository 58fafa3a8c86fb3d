"""The short form of bench/torture/binding.py, and that its server refuses what it must."""

import random

import pytest
from bench.torture import binding

from sample_sizes import few_or_all

CALL = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}


@pytest.mark.few_values(4)
@pytest.mark.parametrize("caller", binding.CALLERS)
@pytest.mark.parametrize("policy", ["refold", "summary", "arguments", "dedupe", "prune", "strip"])
def test_nothing_is_refused_and_nothing_dropped_for_nothing(policy, caller):
    tally = binding.play(policy, caller, known=True, turns=few_or_all(8, 24))
    assert (tally.refusals, tally.needless, tally.faults) == (0, 0, [])
    assert tally.shown > 0


@pytest.mark.few_values(2)
@pytest.mark.parametrize("caller", binding.CALLERS)
@pytest.mark.parametrize("policy", ["refold", "arrival", "codebuddy"])
def test_without_the_facts_one_turn_is_sent_again(policy, caller):
    tally = binding.play(policy, caller, known=False, turns=few_or_all(8, 24), seed=5)
    assert tally.refusals <= 1
    assert tally.faults == []


class TestServer:
    def test_it_takes_a_block_behind_its_own_prefix_only(self):
        server = binding.Server(random.Random(1), "m")
        asked = [{"role": "user", "content": "hi"}]
        prefix = binding.Prefix("m", "s", [])
        prefix.add(asked[0])
        made = prefix.sign([])
        answer = {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "x", "signature": made}, CALL],
        }
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]}
        assert server.answer([*asked, answer, result], "s", [])["role"] == "assistant"
        for messages, system, tools in (
            ([{"role": "user", "content": "ho"}, answer, result], "s", []),
            ([*asked, answer, result], "t", []),
            ([*asked, answer, result], "s", [{}]),
        ):
            with pytest.raises(binding.Refused, match="bound to a different conversation"):
                server.answer(messages, system, tools)
        assert server.refusals == 3

    def test_refusals_are_what_the_campaign_counts(self, monkeypatch):
        monkeypatch.setattr(binding, "POLICIES", ("refold",))
        monkeypatch.setattr(binding, "CALLERS", ("list",))
        monkeypatch.setattr(binding.Prefix, "takes", lambda *message: False)
        lines = []
        found = binding.campaign(seed=1, turns=2, told=lines.append)
        assert found["conversations"] == found["wrong"] == 2
        assert len(lines) == 2
