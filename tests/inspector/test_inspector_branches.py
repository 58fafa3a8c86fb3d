"""Branches: every one is listed below the one that it leaves, also where only messages stand on it."""

import pytest
from inspector_serving import inspecting

import refold


def say_turns(session, topic, count, first=1):
    for turn in range(first, first + count):
        session.say({"role": "user", "content": f"Question {turn} about {topic}."})
        session.prepare()
        session.observe({"usage": {"input_tokens": session.budget().used, "output_tokens": 9}})
        session.say({"role": "assistant", "content": f"Answer {turn} about {topic}."})


@pytest.fixture(scope="module", params=["sqlite", "jsonl", "memory"])
def served(request, tmp_path_factory):
    """Ten turns; a second branch from #12, a third one of it at #20 without a report; the head leaves at #4."""
    folder = tmp_path_factory.mktemp("branches")
    addresses = {"sqlite": f"sqlite:{folder / 'talks.db'}", "jsonl": f"jsonl:{folder}", "memory": "memory:"}
    store = refold.stores.open_store(addresses[request.param])
    with refold.open("talk", store=store, model="claude-sonnet-4-5") as session:
        say_turns(session, "commas", 10)
        session.rewind("#12")
        say_turns(session, "tabs", 6)
        session.rewind("#20")
        session.say("A question on the side, password hunter2.")
        session.say({"role": "assistant", "content": "An answer on the side."})
        session.rewind("#4")
        say_turns(session, "quotes", 3)
    with inspecting(store) as served:
        yield served
    store.close()


def test_each_branch_stands_below_the_one_that_it_leaves(served):
    page = served.get("sessions/talk")
    rows = [(row["depth"], row["from"], row["said"], row["here"]) for row in page["branches"]]
    assert rows == [(0, 0, 10, True), (1, 4, 20, False), (2, 12, 24, False), (3, 20, 22, False)]
    assert [row["line"] for row in page["branches"][1:]] == [
        "Question 3 about commas.",
        "Question 1 about tabs.",
        "A question on the side, password hunter2.",
    ]


def test_the_meter_marks_where_others_leave_this_one(served):
    usage = served.get("sessions/talk/usage")
    marks = [(mark["n"], mark["said"], mark["label"]) for mark in usage["marks"] if mark["kind"] == "branch"]
    assert marks == [(2, 4, "#4")]


def test_a_head_in_the_midst_of_a_branch_leaves_its_rest_as_one(tmp_path):
    address = f"sqlite:{tmp_path / 'talks.db'}"
    with refold.open("talk", store=address) as session:
        say_turns(session, "commas", 3)
        session.rewind("#2")
    with inspecting(address) as served:
        rows = served.get("sessions/talk")["branches"]
        assert [(row["from"], row["said"], row["here"]) for row in rows] == [(0, 2, True), (2, 6, False)]
        assert served.post("sessions/talk/rewind", {"to": rows[1]["tip"]}).json["said"] == 6
        assert len(served.get("sessions/talk")["branches"]) == 1


def test_the_newest_branches_of_very_many_are_listed(tmp_path):
    address = f"sqlite:{tmp_path / 'talks.db'}"
    with refold.open("talk", store=address) as session:
        session.say("first")
        session.say("second")
        for turn in range(60):
            session.rewind("#1")
            session.say(f"try {turn}")
    with inspecting(address) as served:
        rows = served.get("sessions/talk")["branches"]
    assert len(rows) == 40
    assert rows[-1]["line"] == "try 58"
