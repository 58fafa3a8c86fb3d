"""Calls in OpenAI's old form and empty lists of calls, in repairs, folds and sessions; random, by seed."""

import copy
import json
import random

import pytest

import refold
from legacy_histories import make_legacy_talk
from refold import formats

POLICIES = "refold", "opal", "ripple", "neurolink", "codebuddy", "umwelten"


def problems(messages, wire="openai"):
    """What a provider refuses; a call at the end may be about to run."""
    return [found for found in refold.validate(messages, wire) if found.rule != "open-call"]


@pytest.mark.parametrize("first", range(0, 160, 40))
def test_a_talk_in_the_old_form_is_repaired_once_and_for_all(first):
    for seed in range(first, first + 40):
        talk = make_legacy_talk(seed, 4 + seed % 17)
        before = copy.deepcopy(talk)
        chat = formats.get("openai")
        assert json.dumps(chat.render(chat.parse(talk))) == json.dumps(talk)
        repaired = refold.repair(talk, "openai").messages
        assert problems(repaired) == [], seed
        assert refold.repair(repaired, "openai").messages == repaired, seed
        assert not [one for one in repaired if one.get("tool_calls") == [] and one not in talk], seed
        assert talk == before


@pytest.mark.parametrize("policy", POLICIES)
def test_a_talk_in_the_old_form_is_folded(policy):
    for seed in range(30):
        talk = make_legacy_talk(seed, 25)
        outcome = refold.compact(talk, window=1_500, policy=policy, format="openai")
        assert problems(outcome.messages) == [], seed


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_a_session_in_the_old_form_is_the_same_after_it_is_opened_again(first):
    for seed in range(first, first + 8):
        chance, talk, end = random.Random(seed), make_legacy_talk(seed, 30), 0
        store = refold.open_store("memory:")
        session = refold.open("old", store=store, window=3_000)
        while end < len(talk):
            end = min(len(talk), end + chance.randint(1, 6))
            shown = session.prepare(talk[:end]).messages
            assert problems(shown) == [], seed
            if chance.random() < 0.4:
                session.close()
                session = refold.open("old", store=store, window=3_000)
                assert session.prepare(talk[:end]).messages == shown, seed
        said = [entry.value for entry in session.log(kinds=["said"])]
        assert said == talk[len(talk) - len(said) :]


@pytest.mark.parametrize("content", [None, []])
def test_a_result_without_content_stays_mended_when_the_session_is_opened_again(content):
    """The caller goes on sending it as it came, and the provider refuses that."""
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    talk = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": content},
        {"role": "user", "content": "and?"},
    ]
    store = refold.open_store("memory:")
    for end in (3, 4, 4):
        with refold.open("null", store=store, window=3_000) as session:
            shown = session.prepare(talk[:end]).messages
            assert (shown[2]["content"], problems(shown)) == ("", [])


def test_a_result_without_a_name_that_is_moved_gets_that_of_its_call():
    """Without ids the name tells which call of the old form it answers."""
    call = {"role": "assistant", "content": "", "function_call": {"name": "read", "arguments": "{}"}}
    talk = [call, {"role": "user", "content": "hurry"}, {"role": "function", "content": "text"}]
    repaired = refold.repair(talk, "openai").messages
    assert repaired == [call, {"role": "function", "name": "read", "content": "text"}, talk[1]]
