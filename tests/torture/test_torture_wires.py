"""The short form of bench/torture/wires.py, and that its checker sees a list that would be refused."""

from types import SimpleNamespace

import pytest
from bench.torture import wires

import refold
from sample_sizes import few_or_all


@pytest.mark.few_values(2)
@pytest.mark.parametrize("wire", wires.TURNS)
def test_no_history_of_a_wire_becomes_invalid(wire):
    assert [problem for seed in range(few_or_all(2, 12)) for problem in wires.try_history(wire, seed)] == []


def test_the_checker_sees_a_broken_list(monkeypatch):
    broken = [{"role": "tool", "tool_call_id": "x", "content": "y"}]
    assert wires.find_problems("openai", broken) == ["result-without-call at 0"]
    monkeypatch.setattr(refold, "compact", lambda items, **more: SimpleNamespace(messages=broken))
    monkeypatch.setattr(wires, "TURNS", {"openai": wires.openai_turn})
    lines = []
    found = wires.campaign(seed=1, count=2, told=lines.append)
    assert found["wrong"] == found["histories"] == 2
    assert found["faults"][0] == "openai 1000000: compact: result-without-call at 0"
    assert lines == ["openai: 2 histories, 2 wrong so far"]


def test_a_history_that_cannot_be_compacted_is_a_fault(monkeypatch):
    def compact(items, **more):
        raise KeyError("lost")

    monkeypatch.setattr(refold, "compact", compact)
    monkeypatch.setattr(wires, "TURNS", {"openai": wires.openai_turn})
    found = wires.campaign(seed=1, count=1, told=str)
    assert found["faults"] == ["openai 1000000: KeyError: 'lost'"]
