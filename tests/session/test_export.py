"""Sessions as files and back, without loss; folders that are hostile or hold something else."""

import json
import os
from functools import reduce

import pytest
from talks import SHAPES, SUMMARY, folding, opened, reply, talk, user, values, wired

import refold
from refold.errors import RefoldError, StoreError
from refold.testing import Scripted

FORMS = ("ripple", "neurolink")


def everything(session):
    """All that an export has to keep."""
    view = session.state.view
    return {
        "view": session.view(),
        "said": session.original(f"#1-#{view.said}"),
        "folds": [(fold.handle, fold.stages, fold.standing, fold.tokens_before) for fold in session.folds()],
        "pins": view.pins,
        "checkpoints": dict(view.checkpoints),
        "wire": session.state.wire.name,
    }


@pytest.mark.each_value
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [*SHAPES, "refold"])
def test_out_and_in_again(shape, form, tmp_path):
    whole = values(20) if shape == "refold" else wired(values(20), shape)
    if shape == "openai":
        whole = [{"role": "system", "content": "be brief"}, *whole]
    with opened(window=3_000, ask=Scripted(SUMMARY)) as session:
        session.prepare(whole[:9])
        session.pin(2)
        session.checkpoint("early")
        assert session.prepare(whole).fold
        session.compact(target=900)
        session.unfold(session.folds()[0].name)
        first = everything(session)
        files = session.export(str(tmp_path / "out"), form=form)
        assert files == sorted(files)
    for name in files:
        path = tmp_path / "out" / name
        assert path.stat().st_mode & 0o777 == 0o600
    with opened("again", window=6_000) as session:
        assert session.import_from(str(tmp_path / "out")) == len(first["said"])
        assert everything(session) == first
        session.export(str(tmp_path / "twice"), form=form)
    with opened("third", window=6_000) as session:
        session.import_from(str(tmp_path / "twice"))
        assert everything(session) == first
        session.unfold()
        assert session.prepare([*session.view()]).messages


def accounts(session):
    """What was reported and spent, and how full the context is by it."""
    session.budget()
    accounting = session.state.accounting
    own, summaries = accounting.spending.own, accounting.spending.summaries
    bills = [(bill.at, bill.spent) for bill in accounting.spending.bills]
    return session.model, session.budget().used, accounting.totals, own, summaries, bills


@pytest.mark.slow
@pytest.mark.parametrize("is_undone", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_reports_and_costs_go_out_and_in_again(form, is_undone, tmp_path):
    """The import names no model: the last report does."""
    store = refold.open_store("memory:")
    with opened(store=store, window=3_000, model="gpt-4o", ask=Scripted(SUMMARY)) as session:
        for n in range(2, 20, 2):
            session.prepare(talk(n))
            session.observe({"usage": {"prompt_tokens": 300 + n, "completion_tokens": 20}})
        session.compact(target=900)
        if is_undone:
            session.unfold()
        else:
            session.prepare()
            session.observe({"usage": {"prompt_tokens": 400, "completion_tokens": 20}})
    with opened(store=store, window=3_000) as session:
        first = accounts(session)
        receipts = [{**fold.receipt, "session": ""} for fold in session.folds()]
        session.export(tmp_path / "out", form=form)
    assert first[2].requests == 9 + (not is_undone)
    assert first[4].calls
    with opened("again", window=3_000, model=None) as session:
        session.import_from(tmp_path / "out")
        assert accounts(session) == first
        assert [{**fold.receipt, "session": ""} for fold in session.folds()] == receipts
        session.export(tmp_path / "twice", form=form)
    with opened("third", window=3_000, model=None) as session:
        session.import_from(tmp_path / "twice")
        assert accounts(session) == first


@pytest.mark.parametrize("form", FORMS)
def test_what_other_branches_cost_goes_out_and_in_again(form, tmp_path):
    """To edit an early message refunds nothing, and neither does an import."""
    store = refold.open_store("memory:")
    with opened(store=store, model="gpt-4o") as session:
        session.prepare(talk(5))
        session.observe({"usage": {"prompt_tokens": 300, "completion_tokens": 20}})
        session.prepare([user("something else"), *talk(5)[1:]])
    with opened(store=store, model="gpt-4o") as session:
        first = accounts(session)
        session.export(tmp_path / "out", form=form)
    assert first[3].calls == 1
    for source, name in (("out", "twice"), ("twice", "third")):
        with opened(name, model="gpt-4o") as session:
            session.import_from(tmp_path / source)
            assert accounts(session) == first
            session.export(tmp_path / name, form=form)


@pytest.mark.parametrize(("name", "value"), [("said", 99), ("folds", 1), ("said", -1)])
def test_a_report_behind_what_is_not_there_is_refused(name, value, tmp_path):
    with opened() as session:
        session.prepare(talk(3))
        session.observe({"usage": {"prompt_tokens": 300, "completion_tokens": 20}})
        session.export(tmp_path / "out")
    path = tmp_path / "out" / "refold.json"
    manifest = json.loads(path.read_text())
    manifest["reports"][0][name] = value
    path.write_text(json.dumps(manifest))
    with opened("again") as session, pytest.raises(RefoldError, match="reports: stands behind"):
        session.import_from(tmp_path / "out")


@pytest.mark.parametrize(
    "where", ["at", "value.input", "value.estimate", "about.totals", "about.totals.input"]
)
def test_a_report_that_cannot_be_added_to_is_refused(where, tmp_path):
    """Once it was in the log, every later call of the session failed."""
    with opened() as session:
        session.prepare(talk(3))
        session.observe({"usage": {"prompt_tokens": 300, "completion_tokens": 20}})
        session.export(tmp_path / "out")
    path = tmp_path / "out" / "refold.json"
    manifest = json.loads(path.read_text())
    *outer, last = where.split(".")
    inner = reduce(dict.__getitem__, outer, manifest["reports"][0])
    with opened("again") as session:
        for bad in ("x", None, [], -(10**400), float("nan"), float("inf"), 10**400, {"x": 1}):
            inner[last] = bad
            path.write_text(json.dumps(manifest))
            with pytest.raises(RefoldError, match="cannot be"):
                session.import_from(tmp_path / "out")


def test_a_receipt_that_is_no_object_is_refused(tmp_path):
    with opened(window=3_000, ask=Scripted(SUMMARY)) as session:
        session.prepare(talk(20))
        session.export(tmp_path / "out")
    path = tmp_path / "out" / "refold.json"
    manifest = json.loads(path.read_text())
    manifest["folds"][0]["about"]["receipt"] = "paid"
    path.write_text(json.dumps(manifest))
    with (
        opened("again") as session,
        pytest.raises(RefoldError, match="cannot be imported: the receipt of a fold is no object"),
    ):
        session.import_from(tmp_path / "out")


def test_an_export_of_an_earlier_version_has_no_reports(tmp_path):
    with opened() as session:
        session.prepare(talk(3))
        session.export(tmp_path / "out")
    path = tmp_path / "out" / "refold.json"
    manifest = json.loads(path.read_text())
    del manifest["reports"]
    path.write_text(json.dumps(manifest))
    with opened("again") as session:
        assert session.import_from(tmp_path / "out") == len(talk(3))


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_session_and_a_broken_history(form, tmp_path):
    with opened() as session:
        session.export(str(tmp_path / "empty"), form=form)
    with opened() as session:
        assert session.import_from(str(tmp_path / "empty")) == 0
        assert session.view() == []
    broken = values(4)
    del broken[2]
    with opened() as session:
        ready = session.prepare(wired(broken, "anthropic"))
        session.export(str(tmp_path / "broken"), form=form)
    with opened() as session:
        session.import_from(str(tmp_path / "broken"))
        assert session.view() == ready.messages


def test_only_into_a_new_session(tmp_path):
    session, _, _ = folding()
    session.export(str(tmp_path / "out"))
    with pytest.raises(RefoldError, match="is there already"):
        session.import_from(str(tmp_path / "out"))


def test_an_export_into_no_folder_is_refused(tmp_path, monkeypatch):
    """An empty variable of a script must not fill the folder in which it runs."""
    monkeypatch.chdir(tmp_path)
    with refold.open("s", store="memory:", window=1_000) as session:
        session.say("hello")
        with pytest.raises(RefoldError, match="has no name"):
            session.export("")
        assert [*tmp_path.iterdir()] == []
        assert session.export(".")


def test_an_export_over_an_export_and_over_something_else(tmp_path):
    session, history, _ = folding()
    folder = tmp_path / "out"
    first = session.export(str(folder))
    session.unfold()
    session.prepare(history[:20])
    second = session.export(str(folder))
    assert set(second) <= {*first, *(path.name for path in folder.iterdir())}
    with opened("again") as other:
        other.import_from(str(folder))
        assert other.view() == history[:20]
        assert other.folds() == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("ten years of work")
    with pytest.raises(RefoldError):
        session.export(str(tmp_path / "mine"))
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    with pytest.raises(RefoldError, match="form"):
        session.export(str(folder), form="xml")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError):
        session.export(str(tmp_path / "file"))


def contents(folder):
    """Every file below a folder, by name."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


@pytest.mark.few_values(1)
@pytest.mark.parametrize("form", FORMS)
def test_the_folder_of_another_session_is_refused_and_left_as_it_is(form, tmp_path):
    session, _, _ = folding()
    session.export(str(tmp_path), form=form)
    before = contents(tmp_path)
    with opened("other") as other:
        other.say("something else")
        for chosen in FORMS:
            with pytest.raises(RefoldError, match=f"session {session.name!r}, not of 'other'"):
                other.export(str(tmp_path), form=chosen)
    assert contents(tmp_path) == before
    session.export(str(tmp_path), form=form)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("text", ["", "[]", "[1]", "{}", '{"session": 7}', '[{"refold": []}]'])
def test_an_export_of_nobody_knows_whom_is_refused(text, tmp_path):
    (tmp_path / "refold.json").write_text(text)
    with opened() as session:
        session.say("hi")
        with pytest.raises(RefoldError, match="export of an unknown session"):
            session.export(str(tmp_path))
    assert contents(tmp_path) == {"refold.json": text}


def test_an_export_deletes_no_part(tmp_path):
    session, history, _ = folding()
    session.export(str(tmp_path))
    parts = {name: text for name, text in contents(tmp_path).items() if name.startswith("history/")}
    (tmp_path / "history" / "part-9.jsonl").write_text("a stray part\n")
    session.unfold()
    session.prepare(history[:20])
    session.export(str(tmp_path))
    session.export(str(tmp_path), form="neurolink")
    after = contents(tmp_path)
    assert after["history/part-9.jsonl.old"] == "a stray part\n"
    assert parts
    assert {f"{name}.old": text for name, text in parts.items()}.items() <= after.items()
    assert {"refold.json.old", "messages.jsonl.old"} <= after.keys()


def test_a_part_with_other_messages_is_set_aside_each_time(tmp_path):
    session, _, _ = folding()
    session.export(str(tmp_path))
    part = tmp_path / "history" / "part-1.jsonl"
    for text in ("one\n", "two\n"):
        part.write_text(text)
        session.export(str(tmp_path))
    kept = [part.with_name(f"part-1.jsonl.old{number}").read_text() for number in ("", "1")]
    assert kept == ["one\n", "two\n"]


def test_an_export_that_was_killed_can_be_repeated(tmp_path, monkeypatch):
    session, _, _ = folding()
    session.export(str(tmp_path / "whole"))
    number = len(contents(tmp_path / "whole"))
    for step in range(number):
        folder = tmp_path / str(step)
        renamed = []

        def replace(path, target, *, last=step, renamed=renamed, rename=os.replace):
            if len(renamed) == last:
                raise KeyboardInterrupt
            renamed.append(target)
            rename(path, target)

        with monkeypatch.context() as patch:
            patch.setattr("pathlib.Path.replace", replace)
            patch.setattr(os, "getpid", lambda: 4711)
            with pytest.raises(KeyboardInterrupt):
                session.export(str(folder))
        with opened("other") as other:
            other.say("hi")
            if step:
                with pytest.raises(RefoldError, match="not of 'other'"):
                    other.export(str(folder))
        session.export(str(folder))
        assert contents(folder) == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"tagged.json": ""},
        {"tagged.json": "[1,"},
        {"tagged.json": "{}"},
        {"tagged.json": "[" * 50_000},
        {"tagged.json": json.dumps([7])},
        {"messages.jsonl": "not json\n"},
        {"messages.jsonl": '{"role": "user"}\n[]\n'},
        {"messages.jsonl": '{"role": "user", "content": "hi"}\n', "history/part-1.jsonl": "\0\0"},
        {"messages.jsonl": "\ud800"},
    ],
    ids=range(10),
)
def test_hostile_folders_are_refused_and_store_nothing(files, tmp_path):
    for name, text in files.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with opened() as session:
        try:
            count = session.import_from(str(tmp_path / "in"))
        except RefoldError:
            count = 0
            assert session.state.store.sessions() == []
        assert session.stats().said == count
        session.say("still here")
        assert session.view()[-1] == user("still here")


def test_what_an_export_left_that_broke_off_is_in_nobodys_way(tmp_path):
    left = ".messages.jsonl.25233"
    (tmp_path / left).write_text("{")
    with opened() as session:
        session.say(talk(2))
        session.export(tmp_path)
        session.export(tmp_path)
    assert (tmp_path / "messages.jsonl").is_file()
    assert not (tmp_path / left).exists()


def test_a_folder_that_is_not_there(tmp_path):
    with opened() as session, pytest.raises(RefoldError):
        session.import_from(str(tmp_path / "nowhere"))


@pytest.mark.few_values(1)
@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_an_export_that_was_changed_by_hand(form, tmp_path):
    """Whatever stands in the files, an import either refuses or gives a session that works."""
    session, _, _ = folding()
    files = session.export(str(tmp_path / "out"), form=form)
    for name in files:
        path = tmp_path / "out" / name
        whole = path.read_bytes()
        for cut in (0, len(whole) // 3, len(whole) // 2, len(whole) - 2):
            for made in (
                whole[:cut],
                whole[:cut] + b'{"x": 1}\n' + whole[cut:],
                whole.replace(b"#2", b"#999"),
            ):
                path.write_bytes(made)
                with opened("again") as other:
                    try:
                        other.import_from(str(tmp_path / "out"))
                    except RefoldError:
                        assert other.state.store.sessions() == []
                    assert isinstance(other.view(), list)
        path.write_bytes(whole)


def test_an_import_is_one_step(tmp_path):
    session, _, _ = folding()
    session.export(str(tmp_path / "out"))
    with opened("again") as other:
        appended = []
        store = other.state.store
        real = store.append
        store.append = lambda *args, **kwargs: appended.append(1) or real(*args, **kwargs)
        other.import_from(str(tmp_path / "out"))
        assert len(appended) == 1


def test_later_talk_goes_on_behind_an_import(tmp_path):
    session, history, ready = folding()
    session.export(str(tmp_path / "out"), form="neurolink")
    with opened("again") as other:
        other.import_from(str(tmp_path / "out"))
        more = [*history, *talk(1)]
        assert other.prepare(more).messages == [*ready.messages, *talk(1)]


def test_an_imported_checkpoint_stands_where_it_was(tmp_path):
    session = refold.open("talk", store="memory:", window=8_000)
    session.say([user("one"), reply("two")])
    session.checkpoint("here")
    session.say([user("three"), reply("four")])
    session.export(str(tmp_path / "out"))
    again = refold.open("again", store="memory:", window=8_000)
    assert again.import_from(str(tmp_path / "out")) == 4
    assert again.rewind("here") == 2
    assert again.view() == [user("one"), reply("two")]


def test_an_imported_checkpoint_that_a_fold_moved_stands_behind_the_fold(tmp_path):
    said = [make(f"{at} " + "station " * 40) for at in range(15) for make in (user, reply)]
    session = refold.open("talk", store="memory:", window=8_000)
    session.say(said[:10])
    session.checkpoint("one")
    session.say(said[10:20])
    session.checkpoint("two")
    session.say(said[20:])
    assert session.compact(strategy="truncate", keep=4).compacted
    session.say(user("and on"))
    session.checkpoint("three")
    session.export(str(tmp_path / "out"))
    again = refold.open("again", store="memory:", window=8_000)
    again.import_from(str(tmp_path / "out"))
    listed = [(each.name, each.handle) for each in session.checkpoints()]
    assert listed == [("one", "#10"), ("two", "#30"), ("three", "#31")]
    assert [(each.name, each.handle) for each in again.checkpoints()] == listed
    assert again.state.view.checkpoints == session.state.view.checkpoints
    for name in ("three", "two", "one"):
        assert again.rewind(name) == session.rewind(name)
        assert again.view() == session.view()


def test_a_path_with_a_null_character_is_refused():
    with opened() as session, pytest.raises(StoreError, match="cannot be written"):
        session.export("a\0b")


# -- a list as NeuroLink leaves it -----------------------------------------------------------------------------

TAG = "11111111-2222-3333-4444-555555555555"
TAGGED = [
    {"role": "user", "content": "first", "condenseParent": TAG},
    {"role": "assistant", "content": "second", "condenseParent": TAG},
    {"role": "system", "content": "SUMMARY", "condenseId": TAG, "metadata": {"isSummary": True}},
    {"role": "user", "content": "third"},
]


@pytest.mark.parametrize("is_file", [False, True])
def test_what_tags_hide_becomes_a_fold(is_file, tmp_path):
    """NeuroLink, "Non-Destructive History": tagged rather than deleted, so that it can be unwound."""
    file = tmp_path / "tagged.json"
    file.write_text(json.dumps(TAGGED))
    with opened(policy="neurolink") as session:
        assert session.import_from(str(file if is_file else tmp_path)) == 3
        assert session.view() == [{"role": "system", "content": "SUMMARY"}, user("third")]
        (fold,) = session.folds()
        assert (fold.handle, fold.stages, fold.standing) == ("#1-#2", ("summarize",), True)
        assert fold.tokens_before > fold.tokens_after > 0
        assert session.unfold() == fold.name
        assert session.view() == [user("first"), reply("second"), user("third")]


def test_a_truncation_is_unwound_too(tmp_path):
    hidden = [{**message, "truncationParent": "t"} for message in talk(6)]
    marker = {"role": "system", "content": "[...]", "truncationId": "t", "isTruncationMarker": True}
    (tmp_path / "list.json").write_text(json.dumps([user("a"), *hidden, marker, user("b")]))
    with opened(policy="neurolink") as session:
        session.import_from(str(tmp_path / "list.json"))
        assert [message["content"] for message in session.view()] == ["a", "[...]", "b"]
        assert session.folds()[0].stages == ("truncate",)
        session.unfold()
        assert session.view() == [user("a"), *talk(6), user("b")]


def test_a_repair_is_no_fold_after_an_import_either(tmp_path):
    """Only folds that do not tell their sizes are measured; a repair is nothing for people to undo."""
    broken = values(4)
    del broken[2]
    with opened() as session:
        session.prepare(wired(broken, "anthropic"))
        session.export(str(tmp_path / "out"))
    with opened() as session:
        session.import_from(str(tmp_path / "out"))
        assert session.folds() == []
        assert session.unfold() is None
