"""What a talk's ledger becomes in CompactBench's six sections."""

import json

import pytest

from refold.evals.measures.planted_facts import SETS, read_rules
from refold.evals.reader.sentence_roles import find_roles, split_clauses
from refold.evals.reader.states import DROPPED, LONGEST, MOST, make_state


def talk(*turns):
    """A talk: a user's turns, an answer after each but the last."""
    said = []
    for turn in turns:
        said += [{"role": "user", "content": turn}, {"role": "assistant", "content": "All right."}]
    return said[:-1]


def test_each_section_gets_what_is_its_own():
    state = make_state(
        talk(
            "The boat is called Wren and has two masts. Never sail her after dark. No exceptions.",
            "We'll take the northern channel. The varnish can wait until next month.",
            "We still have to find a cook. Could you write the packing list?",
        )
    )
    assert state["immutable_facts"] == ["The boat is called Wren and has two masts."]
    assert state["forbidden_behaviors"] == ["Never sail her after dark. No exceptions."]
    assert state["locked_decisions"] == ["We'll take the northern channel."]
    assert state["deferred_items"] == ["The varnish can wait until next month."]
    assert state["unresolved_items"] == ["We still have to find a cook.", "Could you write the packing list?"]
    assert state["entity_map"]["Wren"]


@pytest.mark.parametrize(
    ("change", "dropped"),
    [
        ("Scratch that. Instead, let's paint it blue.", True),
        ("On second thoughts, forget the red: blue it is, all of it.", True),
        ("And use matt paint rather than gloss.", False),
        ("Never use the spray gun, use a brush instead.", False),
    ],
)
def test_what_was_taken_back_is_no_decision(change, dropped):
    state = make_state(talk("For the shed, let's paint it red.", change))
    marked = [text for text in state["forbidden_behaviors"] if text.startswith(DROPPED)]
    assert marked == ([f"{DROPPED}For the shed, let's paint it red."] if dropped else [])
    assert ("For the shed, let's paint it red." in state["locked_decisions"]) is not dropped


def test_one_change_takes_back_one_sentence():
    first = "Let's meet at the lighthouse. The tickets cost 12 euros each."
    state = make_state(talk(first, "Scratch that, the lighthouse is shut. Ignore the earlier message."))
    assert state["forbidden_behaviors"] == [f"{DROPPED}Let's meet at the lighthouse."]
    assert "The tickets cost 12 euros each." in state["immutable_facts"]


def test_a_question_is_open_until_it_is_answered_and_a_task_until_it_is_done():
    answered = make_state(
        talk("What does a quince taste like?", "Please prune the quince.", "Where is the saw?")
    )
    assert answered["unresolved_items"] == ["Please prune the quince.", "Where is the saw?"]


def test_words_like_without_forbid_nothing_by_themselves():
    state = make_state(talk("Ines will cross the moor without a map, and Paulo drives the van."))
    assert state["forbidden_behaviors"] == []
    assert state["entity_map"] == {
        "Ines": "Ines will cross the moor without a map",
        "Paulo": "Paulo drives the van",
    }


@pytest.mark.parametrize("name", SETS)
def test_no_rule_is_lost_and_no_rule_takes_a_plan_back(name):
    for rule in read_rules(name):
        state = make_state(
            talk("Let's plan the garden party.", rule.text, "Is it far?", "Please write the invitation.")
        )
        lines = [line for section in state.values() if isinstance(section, list) for line in section]
        assert rule.stands_in("\n".join(lines))
        assert "Let's plan the garden party." in state["locked_decisions"]


def test_a_role_that_was_taken_back_is_nobodys():
    state = make_state(
        talk("Birgit feeds the goats.", "Scratch that. Instead, let's ask Tomasz about the goats.")
    )
    assert "Birgit" not in state["entity_map"]
    assert "Tomasz" in state["entity_map"]


def test_limits_hold_and_a_budget_keeps_what_weighs_most_in_the_order_of_the_talk():
    turns = [f"Bed {number} has {number} rows of beans and a fence of hazel." for number in range(90)]
    turns[40] = "Never water the beans at noon. " + "Mind the slugs, " * 60
    state = make_state(talk(*turns))
    assert all(len(text) <= LONGEST for section in state.values() for text in section)
    assert len(state["immutable_facts"]) <= MOST
    small = make_state(talk(*turns), 200)
    assert "Never water the beans at noon." in " ".join(small["forbidden_behaviors"])
    assert len(str(small)) < len(str(state)) / 2
    places = [int(text.split()[1]) for text in small["immutable_facts"]]
    assert places == sorted(places)


def test_todos_that_are_done_are_not_open():
    todos = [
        {"content": "Dig the pond", "status": "completed"},
        {"content": "Buy the lilies", "status": "pending"},
    ]
    asked = {"name": "todo_write", "arguments": json.dumps({"todos": todos})}
    call = {"id": "c1", "type": "function", "function": asked}
    messages = [
        {"role": "user", "content": "The pond first."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    open_ = make_state(messages)["unresolved_items"]
    assert "Buy the lilies" in open_
    assert "Dig the pond" not in open_


def test_names_have_the_clause_that_says_most_of_them():
    found = find_roles(
        [
            "Here is the list.",
            "For Lena's harbour tour we need a boat.",
            "Osprey Labs pays for it.",
            "Lena is the guide.",
        ]
    )
    assert found == {"Lena": "Lena is the guide", "Osprey Labs": "Osprey Labs pays for it"}
    assert (
        find_roles(
            [
                "That is fine on Friday.",
                "It starts in June.",
                "Parse HTML with care.",
                "Log lines stay on disk.",
            ]
        )
        == {}
    )
    assert find_roles(["Die Rechnung geht an Frau Albrecht."]) == {}
    assert split_clauses("Now, Ines cooks and Paulo eats.") == ["Now", "Ines cooks", "Paulo eats"]
