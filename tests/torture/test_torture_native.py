"""The short form of bench/torture/native.py, and that its checker sees what is wrong."""

import pytest
from bench.torture import native

import refold
from sample_sizes import few_or_all


@pytest.mark.few_values(1)
@pytest.mark.parametrize(("name", "seed"), [("xai", 51_000_002), ("anthropic", 51_000_004)])
def test_a_view_with_a_block_comes_back_after_its_fold_was_undone(name, seed):
    """The first was taken for a list of the caller's own, the second hid a block for good."""
    assert native.try_talk(name, seed)["faults"] == []


@pytest.mark.few_values(1)
@pytest.mark.parametrize("name", native.make_providers())
def test_no_conversation_is_refused_or_loses_a_word(name):
    for seed in range(few_or_all(1, 3)):
        found = native.try_talk(name, seed, turns=40)
        assert found["faults"] == []


def test_the_checker_sees_a_lost_message_and_a_wrong_sum():
    talk = native.play("openai", 0, turns=12)
    talk.held = list(talk.said)
    talk.said.insert(0, {"role": "user", "content": "never said"})
    talk.own.billed += 1
    talk.own.refusals += ["x", "x", "x"]
    assert len(talk.finish()) == 3


def test_the_providers_refuse_what_the_real_ones_refuse():
    provider, items = native.Anthropic(), [{"role": "user", "content": "hi"}]
    block = provider.compact("key-1", items)["content"][0]
    message = {"role": "assistant", "content": [block]}
    for key, messages, code in (
        ("key-1", [*items, message], "compaction_block_misplaced"),
        ("key-1", [message, message], "compaction_block_ambiguous"),
        ("key-2", [message], "compaction_signature_invalid"),
    ):
        with pytest.raises(native.Refused, match=code):
            provider.send(key, messages, threshold=None, pause=False)
    item = native.Responses().compact("key-1", items)["output"][-1]
    with pytest.raises(native.Refused, match="invalid_encrypted_content"):
        native.Responses(name="xai").send("key-1", [item], threshold=None, pause=False)


def test_a_crash_is_a_fault(monkeypatch):
    def prepare(*words, **more):
        raise KeyError("lost")

    monkeypatch.setattr(refold.Session, "prepare", prepare)
    lines = []
    found = native.campaign(seed=1, count=1, told=lines.append)
    assert found["wrong"] == found["conversations"] == 3
    assert found["faults"][0] == "anthropic 1000000: KeyError: 'lost'"
    assert lines == ["3 conversations, 3 wrong"]
