"""Dry runs: another policy, some messages alone, the history before a fold; nothing is ever written."""

import re

import pytest
from inspector_serving import inspecting, say_task

import refold

WINDOW = 40_000


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    address = f"sqlite:{tmp_path_factory.mktemp('plans') / 'talks.db'}"
    with say_task(address) as session:
        session.compact("truncate", keep=20)
        session.pin("#3")
    with inspecting(address, window=WINDOW, read_only=True) as served:
        yield served


@pytest.fixture(autouse=True)
def unchanged(served):
    """Whatever is planned, the log stays as it is."""
    before = served.get("sessions/task")["version"]
    yield
    assert served.get("sessions/task")["version"] == before


def numbers(ranges):
    return {number for first, last in ranges for number in range(first, last + 1)}


def test_a_fold_says_how_full_the_room_was(served):
    page = served.get("sessions/task/folds/F1")
    assert page["ratio"] == page["tokens_before"] / served.get("sessions/task")["budget"]["room"]


def test_every_policy_is_named_and_plans(served):
    names = [policy["name"] for policy in served.get("about")["policies"]]
    assert names[:2] == ["refold", "thrifty"]
    assert set(names) == set(refold.presets.PRESETS)
    own = served.get("sessions/task/window?plan=1")["plan"]
    for name in names:
        plan = served.get(f"sessions/task/plan?policy={name}&model=1")
        assert plan["policy"] == name
        assert plan["tokens_before"] == own["tokens_before"]
        assert plan["tokens_after"] < plan["tokens_before"] or not plan["would_compact"]


def test_without_a_policy_it_is_the_plan_of_the_window(served):
    own, plan = served.get("sessions/task/window?plan=1")["plan"], served.get("sessions/task/plan")
    assert {key: plan[key] for key in own} == own
    assert plan["policy"] == served.get("sessions/task")["policy"]


def test_a_model_makes_a_difference(served):
    without, with_one = (served.get(f"sessions/task/plan?policy=umwelten&fold=F1&model={n}") for n in (0, 1))
    assert (without["model_calls"], with_one["model_calls"] > 0) == (0, True)
    assert without["would_compact"] is False
    assert "no model" in without["reason"]


def test_only_the_chosen_messages_leave(served):
    """A tool's result and its call leave together, and the pinned and all others stay."""
    said = served.get("sessions/task")["said"]
    last = said - 6 if served.get(f"sessions/task/entries/{said - 6}")["results"] else said - 7
    plan = served.get(f"sessions/task/plan?first={last}")
    assert numbers(plan["chosen"]) == {last - 1, last}
    assert plan["would_compact"] is True
    assert numbers(plan["leaving"]) <= {last - 1, last}
    assert {row["handle"] for row in plan["leaves"]} <= {f"#{last - 1}", f"#{last}"}
    wide = served.get(f"sessions/task/plan?first={last - 9}&last={last}")
    assert wide["tokens_after"] < plan["tokens_after"]


def test_what_is_not_in_the_view_cannot_be_planned(served):
    folded = (item["covers"] for item in served.get("sessions/task")["view"] if item["kind"] == "fold")
    gone = next(min(numbers(covers)) for covers in folded if len(numbers(covers)) > 1)
    refused = served.send("GET", f"/inspect/api/sessions/task/plan?first={gone}")
    assert (refused.status, refused.code) == (422, "refused")
    assert re.search(rf"#{gone} is in F\d already", refused.json["error"]["message"])
    refused = served.send("GET", "/inspect/api/sessions/task/plan?first=99999")
    assert (refused.status, "no message #99999" in refused.json["error"]["message"]) == (422, True)


def test_the_history_before_a_fold_is_planned_as_it_was(served):
    folds = served.get("sessions/task")["folds"]
    first = served.get(f"sessions/task/plan?fold={folds[0]['label']}")
    said = next(
        entry["said"]
        for entry in served.get("sessions/task/entries?of=log&first=0&last=200")["entries"]
        if entry["kind"] == "fold"  # the first one: it may have been made again since, around a pin
    )
    assert (first["messages_before"], first["of"]) == (said, folds[0]["label"])
    assert numbers(first["leaving"]) <= set(range(1, said + 1))
    assert first["would_compact"] is True
    second = served.get(f"sessions/task/plan?fold={folds[1]['label']}&policy=opal&model=1")
    assert any(row["handle"].startswith("F1/") for row in [*second["leaves"], *second["refuses"]])


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("task/plan?policy=nobody", 400, "bad-request"),
        ("task/plan?first=x", 400, "bad-request"),
        ("task/plan?fold=F99", 404, "not-found"),
        ("nobody/plan", 404, "not-found"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_sentence(served, path, status, code):
    reply = served.send("GET", f"/inspect/api/sessions/{path}")
    assert (reply.status, reply.code) == (status, code)
    assert reply.json["error"]["message"]
