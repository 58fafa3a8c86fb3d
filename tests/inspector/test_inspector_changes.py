"""What is changed from the page is what the verbs of a session do, and nothing else."""

import io
import zipfile

import pytest
from inspector_serving import inspecting, say_task

import refold


@pytest.fixture
def address(tmp_path):
    return f"sqlite:{tmp_path / 'talks.db'}"


def read_log(address, name="task"):
    """The kinds and bodies of a log, without times."""
    with refold.open(name, store=address) as session:
        return [(entry.kind, entry.said, entry.body) for entry in session.log()]


def test_unfold_rewind_pin_checkpoint_and_compact_do_what_the_library_does(tmp_path):
    by_page, by_library = (f"sqlite:{tmp_path / name}.db" for name in ("page", "library"))
    for address in (by_page, by_library):
        say_task(address, turns=12).close()
    with inspecting(by_page, window=40_000) as served:
        folds = served.get("sessions/task")["folds"]
        answers = [
            served.post("sessions/task/compact", {"keep": 4}).json,
            served.post("sessions/task/unfold", {"fold": f"F{len(folds) + 1}"}).json,
            served.post("sessions/task/checkpoint", {"name": "here"}).json,
            served.post("sessions/task/pin", {"handle": "#3"}).json,
            served.post("sessions/task/pin", {"handle": "#3", "pinned": False}).json,
            served.post("sessions/task/rewind", {"to": "#9"}).json,
            served.post("sessions/task/rewind", {"to": "here"}).json,
        ]
    with refold.open("task", store=by_library, model="claude-sonnet-4-5", window=40_000) as session:
        outcome = session.compact(keep=4)
        fold = session.folds()[-1].name
        assert session.unfold(fold) == fold
        session.checkpoint("here")
        session.pin("#3")
        session.unpin("#3")
        back = session.rewind("#9")
        there = session.rewind("here")
    assert answers[0]["compacted"] is outcome.compacted is True
    assert (answers[0]["tokens_before"], answers[0]["tokens_after"]) == (
        outcome.tokens_before,
        outcome.tokens_after,
    )
    assert answers[0]["fold"] == answers[1]["fold"] == fold
    assert answers[2]["name"] == "here"
    assert [answer["handle"] for answer in answers[3:5]] == ["#3", "#3"]
    assert [answer["said"] for answer in answers[5:]] == [back, there]
    versions = [answer["version"] for answer in answers]
    assert versions == sorted(set(versions))
    assert read_log(by_page) == read_log(by_library)


def test_a_lost_message_is_found_and_brought_back(address):
    """As a person does: search for a word, see that it was folded, pin it; the model sees it again."""
    with say_task(address) as session:
        assert session.folds()
    with inspecting(address, window=40_000) as served:
        hit = served.get("recall?q=function_2_30")["hits"][0]
        assert (hit["folded"], hit["fold"] is not None) == (True, True)
        assert served.post("sessions/task/pin", {"handle": hit["handle"]}).status == 200
        again = served.get("recall?q=function_2_30")["hits"][0]
        assert (again["number"], again["folded"], again["fold"]) == (hit["number"], False, None)
        page = served.get("sessions/task")
        assert hit["number"] in page["pins"]
    with refold.open("task", store=address) as session:
        assert "function_2_30" in str(session.view())


def test_what_a_session_refuses_is_one_sentence(address):
    say_task(address, turns=2).close()
    wrong = (
        ("unfold", {"fold": "F9"}, 404),
        ("unfold", {}, 400),
        ("unfold", {"fold": 1}, 400),
        ("rewind", {"to": "nowhere"}, 422),
        ("rewind", {"to": "#99"}, 422),
        ("rewind", {"to": None}, 400),
        ("pin", {"handle": "#99"}, 422),
        ("pin", {"handle": "#1", "pinned": "yes"}, 400),
        ("checkpoint", {"name": "#3"}, 422),
        ("checkpoint", {"name": "x" * 3_000}, 400),
        ("compact", {"strategy": "no-such-policy"}, 422),
        ("compact", {"keep": -1}, 400),
    )
    before = read_log(address)
    with inspecting(address) as served:
        for verb, body, status in wrong:
            reply = served.post(f"sessions/task/{verb}", body)
            assert (verb, body, reply.status) == (verb, body, status)
            assert reply.json["error"]["message"]
            assert "\n" not in reply.json["error"]["message"]
        assert served.post("sessions/none/checkpoint", {"name": "x"}).status == 404
    assert read_log(address) == before


def test_an_export_is_the_folder_of_the_terminal(address, tmp_path):
    with say_task(address) as session:
        session.export(tmp_path / "exported")
    with inspecting(address) as served:
        reply = served.send("GET", "/inspect/api/sessions/task/export")
    assert reply.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(reply.body)) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        files = {
            path.relative_to(tmp_path / "exported").as_posix(): path
            for path in (tmp_path / "exported").rglob("*")
        }
        assert names == {name for name, path in files.items() if path.is_file()}
        assert all(archive.read(name) == files[name].read_bytes() for name in names)


def test_the_meter_has_the_reports_and_marks_of_the_log(address):
    with say_task(address, turns=30) as session:
        session.checkpoint("middle")
        folds = [fold.name for fold in session.folds()]
        entries = session.log()
    reports = [entry for entry in entries if entry.kind == "usage"]
    with inspecting(address) as served:
        usage = served.get("sessions/task/usage")
        thin = served.get("sessions/task/usage?points=10")
    assert (usage["requests"], usage["n"], usage["thinned"]) == (30, list(range(1, 31)), False)
    assert usage["at"] == [entry.at for entry in reports]
    assert [mark["fold"] for mark in usage["marks"] if mark["kind"] == "fold"] == folds
    assert [mark["label"] for mark in usage["marks"] if mark["kind"] == "checkpoint"] == ["middle"]
    assert all(without >= sent for sent, without in zip(usage["sent"], usage["without"], strict=True))
    assert usage["without"][-1] > usage["sent"][-1]
    assert len(thin["n"]) <= 10
    assert thin["thinned"] is True
    assert (max(thin["sent"]), min(thin["sent"])) == (max(usage["sent"]), min(usage["sent"]))
