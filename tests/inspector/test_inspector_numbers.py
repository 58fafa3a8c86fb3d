"""What the page is given equals what the terminal prints about the same store."""

import json
import os
import re
from urllib.parse import quote

import pytest
from inspector_serving import inspecting, say_task

import refold
from forked_program import run_forked


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A store with a task of four folds, a second talk, and a branch."""
    folder = tmp_path_factory.mktemp("numbers")
    address = f"sqlite:{folder / 'talks.db'}"
    with say_task(address) as task:
        assert len(task.folds()) > 1
        task.pin("#1")
        task.checkpoint("middle")
    with refold.open("a talk/with slash", store=address, model="gpt-4o") as talk:
        talk.say(
            [
                {"role": "user", "content": "where is the connection pool"},
                {"role": "assistant", "content": "In pool.py."},
            ]
        )
        talk.rewind("#1")
        talk.say({"role": "assistant", "content": "The connection pool is in db.py."})
    with inspecting(address) as served:
        yield folder, address, served


def ask_terminal(place, *words):
    folder, address, _ = place
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    return json.loads(run_forked(*words, "--store", address, "--json", env=environment, cwd=folder).stdout)


def test_sessions_equal_the_list_of_the_terminal(place):
    told = {row["name"]: row for row in ask_terminal(place, "sessions")["sessions"]}
    listed = place[2].get("sessions")
    assert listed["total"] == listed["matching"] == len(told) == 2
    for row in listed["sessions"]:
        assert {key: row[key] for key in told[row["name"]]} == told[row["name"]]


def test_folds_equal_those_of_the_terminal(place):
    told = ask_terminal(place, "folds", "task")["folds"]
    page = place[2].get("sessions/task")
    assert [fold["label"] for fold in page["folds"]] == [f"F{n}" for n in range(1, len(told) + 1)]
    for fold, known in zip(page["folds"], told, strict=True):
        for key in ("name", "handle", "stages", "tokens_before", "tokens_after", "at", "standing", "spent"):
            assert fold[key] == known[key]
        labels = {other["name"]: other["label"] for other in page["folds"]}
        assert fold["covered_by"] == labels.get(known["covered_by"])


def test_the_view_equals_that_of_show(place):
    told = ask_terminal(place, "show", "task")
    page = place[2].get("sessions/task")
    assert (page["said"], page["seen"]) == (told["said"], told["seen"])
    handles = []
    for item in page["view"]:
        if item["kind"] == "messages":
            handles += [f"#{number}" for number in range(item["first"], item["last"] + 1)]
        else:
            handles.append(f"{item['fold']}/{item['place']}")
    assert handles == [message["handle"] for message in told["messages"]]


def test_everything_said_equals_that_of_show_all(place):
    told = ask_terminal(place, "show", "task", "--all")["messages"]
    rows = place[2].get("sessions/task/entries?first=1&last=200")["entries"]
    assert len(rows) == len(told)
    for row, message in zip(rows, told, strict=True):
        assert {key: row[key] for key in ("handle", "name", "at", "folded", "pinned")} == {
            key: message[key] for key in ("handle", "name", "at", "folded", "pinned")
        }
        assert (row["fold"] is not None) == row["folded"]


def test_the_log_equals_that_of_show_log(place):
    told = ask_terminal(place, "show", "task", "--log")["entries"]
    rows = place[2].get("sessions/task/entries?of=log&first=0&last=200")["entries"]
    keys = ("kind", "name", "said", "at")
    assert [[row[key] for key in keys] for row in rows] == [[entry[key] for key in keys] for entry in told]


def test_both_sides_of_a_fold_equal_those_of_diff(place):
    for fold in place[2].get("sessions/task")["folds"]:
        told = ask_terminal(place, "diff", "task", fold["name"])
        page = place[2].get(f"sessions/task/folds/{fold['label']}")
        took = {side["handle"] for change in told["changes"] for side in change["took"]}
        put = [side for change in told["changes"] for side in change["put"]]
        before, after, kept = set(), [], set()
        for row in page["rows"]:
            for stretch in [row["before"], *row.get("more_before", [])] if row["before"] else []:
                if "first" in stretch:
                    numbers = {f"#{number}" for number in range(stretch["first"], stretch["last"] + 1)}
                    before |= numbers
                    kept |= numbers if row["kind"] == "kept" else set()
            if row["after"] and "text" in row["after"]:
                after.append((row["after"]["role"], row["after"]["text"].split()))
        assert before == {handle for handle in took if handle.startswith("#")}
        assert kept == {side["handle"] for side in put if side["handle"]}
        texts = ((side["role"], re.sub(r"^← t\d+\n", "", side["text"])) for side in put if not side["handle"])
        own = [(role, text.split()) for role, text in texts]
        assert sorted(after) == sorted(own)
        assert page["ratio"] is None  # the window was another one when it was made
        assert [page["tokens_before"], page["tokens_after"]] == [told["tokens_before"], told["tokens_after"]]


@pytest.mark.few_values(2)
@pytest.mark.parametrize(
    "query", ["function_3_7", "vendor", "parser file", "which file was looked at first of all"]
)
def test_hits_equal_those_of_recall(place, query):
    told = ask_terminal(place, "recall", "task", query)["hits"]
    hits = place[2].get(f"recall?limit=10&q={quote(query + ' session:task')}")["hits"]
    keys = ("handle", "number", "role", "folded", "score")
    assert [[hit[key] for key in keys] for hit in hits] == [[hit[key] for key in keys] for hit in told]


def test_sizes_equal_those_of_measure_and_of_the_library(place):
    folder, address, served = place
    with refold.open("task", store=address, model="claude-sonnet-4-5") as session:
        budget, stats = session.budget(), session.stats()
        (folder / "view.json").write_text(json.dumps(session.view()))
    page, window = served.get("sessions/task"), served.get("sessions/task/window")
    assert page["budget"] == window["budget"]
    assert {key: page["budget"][key] for key in ("window", "room", "used", "ratio", "level")} == {
        key: getattr(budget, key) for key in ("window", "room", "used", "ratio", "level")
    }
    assert page["budget"]["breakdown"] == budget.breakdown.as_dict()
    assert page["stats"]["tokens_saved"] == stats.tokens_saved
    assert page["stats"]["spent"] == stats.spent.as_dict()
    command = ("measure", "view.json", "--model", "claude-sonnet-4-5", "--json")
    told = json.loads(run_forked(*command, cwd=folder).stdout)
    assert window["kinds"] == told["history"]
    assert page["budget"]["breakdown"]["history"] == told["breakdown"]["history"]
    parts = {part["part"]: part["tokens"] for part in window["parts"]}
    assert sum(parts.values()) == budget.room
    assert parts["free"] == budget.room - budget.used


def test_a_plan_equals_that_of_the_session(place):
    served = place[2]
    plan = served.get("sessions/task/window?plan=1")["plan"]
    outcome = refold.plan(
        json.loads((place[0] / "view.json").read_text()),
        model="claude-sonnet-4-5",
        with_model=False,
        force=True,
    )
    assert plan["would_compact"] == outcome.would_compact
    assert plan["messages_before"] == outcome.messages_before
    assert plan["leaves_count"] >= len(plan["leaves"])
    assert all(row["handle"].startswith(("#", "F")) for row in plan["leaves"])


def test_the_other_branch_is_known_and_recalled(place):
    served = place[2]
    hits = served.get(f"recall?q={quote('pool.py folded:yes')}")["hits"]
    assert [(hit["session"], hit["on_branch"]) for hit in hits] == [("a talk/with slash", False)]
    name = quote("a talk/with slash", safe="")
    message = served.get(f"sessions/{name}/entries/{hits[0]['name']}")
    assert message["parts"] == [{"type": "text", "text": "In pool.py.", "bytes": 11}]
    assert message["handle"] == hits[0]["name"]
