"""The commands over a store: sessions shown, searched, undone, moved as files, checked and salvaged."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_running import ANTHROPIC, LONG, modules_loaded, process, run_cli, saved, started, talk, terminal

import refold
from chat_messages import written_call
from refold.errors import LogCorrupt

FOLDED = "task"
COMMANDS_OF_A_SESSION = (
    ["show"],
    ["show", "--all"],
    ["show", "--log"],
    ["folds"],
    ["diff"],
    ["unfold"],
    ["recall", "question"],
    ["rewind", "#1"],
    ["checkpoint", "here"],
    ["export", "out"],
)


def with_session(args, name=FOLDED):
    command, *rest = args
    options = [word for word in rest if word.startswith("--")]
    return [command, name, *(word for word in rest if not word.startswith("--")), *options]


@pytest.fixture(params=["sqlite", "jsonl"])
def address(request, tmp_path):
    return f"{request.param}:{tmp_path / 'store'}"


@pytest.fixture
def store(address, monkeypatch):
    """A store with one session that has a fold, a checkpoint and a pin."""
    monkeypatch.setenv("REFOLD_STORE", address)
    fill(address)
    return address


@pytest.fixture
def one_store(tmp_path, monkeypatch):
    """The same in a SQLite file, for what does not depend on the kind of store."""
    address = f"sqlite:{tmp_path / 'store'}"
    monkeypatch.setenv("REFOLD_STORE", address)
    fill(address)
    return address


def fill(address):
    with refold.open(FOLDED, store=address, window="8k") as session:
        session.say({"role": "system", "content": "You are brief."})
        session.say(talk(12, "harbour " * 40))
        session.say(
            [
                written_call("c1", '{"p": "\x1b]0;x\x07"}', name="ls"),
                {"role": "tool", "tool_call_id": "c1", "content": "a.py\n\tb.py \x1b[2J\x1b[31mred"},
            ]
        )
        session.pin("#2")
        assert not session.compact("ripple").compacted  # it needs a model, and leaves an attempt
        assert session.compact(keep=4, target=800).compacted
        session.checkpoint("half")
        session.say("And then?")


def fold_name(address):
    with refold.open(FOLDED, store=address) as session:
        return session.folds()[-1].name


# -- listing and showing ---------------------------------------------------------------------------------


def test_sessions_are_listed_newest_first(store):
    with refold.open("later\nand longer", store=store) as session:
        session.say("hi")
    done = run_cli("sessions")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["session", "said", "entries", "changed"]
    assert lines[1].startswith("later and longer")
    assert lines[2].split()[:2] == [FOLDED, "27"]
    assert lines[2].endswith("just now")
    told = run_cli("sessions", "--json").json
    assert told["store"] == store
    assert [each["name"] for each in told["sessions"]] == ["later\nand longer", FOLDED]


def test_nothing_is_there_yet(tmp_path):
    done = run_cli("sessions")
    assert done.status == 0
    assert done.out.startswith("no sessions yet")
    assert not (tmp_path / "home" / ".local").exists()
    done = run_cli("check")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("refold: there is no store in your data folder")


def test_the_sessions_of_a_tenant_are_listed_by_its_scope(tmp_path):
    """A gateway with tenants makes no file of those who name none."""
    address = f"sqlite:{tmp_path / 'x.db'}?scope=alice"
    with refold.open("talk", store=address, window=8_000) as session:
        session.say({"role": "user", "content": "hello"})
    assert "talk" in run_cli("sessions", "--store", address).out


def test_a_store_that_is_not_there_is_not_made(tmp_path):
    for scheme in ("sqlite", "jsonl"):
        done = run_cli("sessions", "--store", f"{scheme}:{tmp_path}/typo")
        assert done.status == 1
        assert done.err.count("\n") == 1
    assert not (tmp_path / "typo").exists()


def test_the_view_is_shown_as_the_model_sees_it(store):
    done = run_cli("show", FOLDED)
    assert done.status == 0
    assert done.out.startswith(f"{FOLDED}  openai · 27 said · ")
    assert "system\n    You are brief.\n" in done.out
    assert "#2 assistant · pinned\n" in done.out
    assert "#27 user\n    And then?\n" in done.out
    assert " · in place of #" in done.out
    assert "    → ls " in done.out
    assert "    b.py red\n" in done.out
    assert "\x1b" not in done.out
    with refold.open(FOLDED, store=store) as session:
        seen = session.view()
    assert [each["message"] for each in run_cli("show", FOLDED, "--json").json["messages"]] == seen


def test_everything_said_has_a_handle_and_folded_ones_are_marked(store):
    done = run_cli("show", FOLDED, "--all", "--brief")
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == [f"#{number}" for number in range(1, 28)]
    assert "#2 assistant · pinned" in lines[1]
    assert " · folded" in lines[2]
    assert " · folded" not in lines[26]
    assert max(map(len, lines)) <= 80
    told = run_cli("show", FOLDED, "--all", "--json").json
    assert len(told["messages"]) == told["said"] == 27
    assert [each["folded"] for each in told["messages"]] == [" · folded" in line for line in lines]


def test_the_log_has_a_line_for_each_entry(store):
    lines = run_cli("show", FOLDED, "--log").out.splitlines()
    kinds = [line.split("  ")[2:] for line in lines]
    assert len(kinds) == len(lines) > 29
    assert any(" fold " in line and " → " in line and "tokens" in line for line in lines)
    assert any("checkpoint" in line and "half at #26" in line for line in lines)
    assert any(" pin " in line and "#2 pinned" in line for line in lines)
    entries = run_cli("show", FOLDED, "--log", "--json").json["entries"]
    assert len(entries) == len(lines)
    assert {each["kind"] for each in entries} >= {"said", "system", "fold", "pin", "checkpoint"}


def test_every_kind_of_entry_is_told(store):
    with refold.open(FOLDED, store=store, window="8k") as session:
        session.observe(
            {
                "model": "m-1",
                "usage": {"prompt_tokens": 1200, "completion_tokens": 7, "total_tokens": 1207},
                "choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
            }
        )
        (fold,) = session.folds()
        session.unfold()
        session.unpin("#2")
    out = run_cli("show", FOLDED, "--log").out
    assert "1,200" in out
    assert f"{fold.handle} · unfolded · " in out
    assert " attempt " in out
    assert "#2 no longer pinned" in out


def test_the_view_in_another_shape_goes_on_to_other_commands(store):
    done = run_cli("show", FOLDED, "--format", "anthropic")
    saved("view.json", done.out)
    assert run_cli("validate", "view.json", "--format", "anthropic").status in {0, 1}
    assert isinstance(done.json, list)


@pytest.mark.few_values(3)
@pytest.mark.parametrize(
    "args",
    [
        ["show", FOLDED, "--all", "--log"],
        ["show", FOLDED, "--format", "nobody"],
        ["show", FOLDED, "--format", "openai", "--brief"],
        ["recall", FOLDED, "x", "--limit", "0"],
        ["recall", FOLDED, " "],
        ["sessions", "--limit", "3"],
        ["export", FOLDED, "out", "--form", "nobody"],
        ["sessions", "--store", "work.db"],
        ["sessions", "--store", "nobody:there"],
        ["import", "", "a.json"],
        ["import", "x", "none.json"],
    ],
)
def test_wrong_use_is_one_line(args, one_store):
    done = run_cli(*args)
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("refold: ")
    assert done.err.count("\n") == 1


@pytest.mark.few_values(3)
@pytest.mark.parametrize(
    "args",
    [
        ["recall", FOLDED, "#400"],
        ["recall", FOLDED, "b2:0123456789"],
        ["rewind", FOLDED, "nowhere"],
        ["rewind", FOLDED, "#400"],
        ["rewind", FOLDED, "b2:0123456789"],
        ["unfold", FOLDED, "nofold"],
        ["diff", FOLDED, "nofold"],
        ["export", FOLDED, "a-file"],
        ["export", FOLDED, ""],
        ["sessions", "--store", "jsonl:a-file"],
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_refused_in_one_line(args, one_store):
    saved("a-file", "text")
    done = run_cli(*args)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("refold: ")
    assert done.err.count("\n") == 1
    assert ("is a file, not a folder" in done.err) == ("a-file" in args[-1])


@pytest.mark.each_value
@pytest.mark.parametrize("has_store", [False, True])
@pytest.mark.parametrize("command", ["diff", "show", "folds", "recall", "export", "measure", "validate"])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nosuch.jsonl", "there is no file nosuch.jsonl"),
        ("logs/nosuch", "there is no file logs/nosuch"),
        ("claude-cod:latest", "there is no file claude-cod:latest; did you mean claude-code:latest?"),
    ],
)
def test_what_looks_like_a_file_is_refused_as_one(command, name, told, has_store, request):
    if has_store:
        request.getfixturevalue("one_store")
    more = {"recall": ("words",), "export": ("out",)}.get(command, ())
    done = run_cli(command, name, *more)
    assert (done.status, done.out, done.err) == (2, "", f"refold: {told}\n")


@pytest.mark.parametrize("command", ["diff", "show", "folds"])
def test_a_file_that_is_there_is_not_called_missing(command, one_store):
    """A bare name with another ending may be that of a session; with a slash it is the file."""
    saved("notes.txt", talk(2))
    done = run_cli(command, "notes.txt")
    told = "refold: there is no session 'notes.txt': for the file of this name write ./notes.txt\n"
    assert (done.status, done.out, done.err) == (2, "", told)
    assert run_cli(command, "./notes.txt").status == 0


@pytest.mark.parametrize("command", ["diff", "show", "recall"])
def test_a_folder_is_called_one(command, one_store):
    Path("talks/task").mkdir(parents=True)
    done = run_cli(command, "talks/task", *(("words",) if command == "recall" else ()))
    assert (done.status, done.out) == (2, "")
    assert (
        "talks/task is a folder: name a file in it, or begin a session: `refold import NAME talks/task`"
        in done.err
    )


@pytest.mark.few_values(3)
@pytest.mark.parametrize("args", COMMANDS_OF_A_SESSION, ids=" ".join)
def test_a_session_nobody_has_is_one_line(args, one_store):
    store = one_store
    done = run_cli(*with_session(args, "tusk"))
    assert (done.status, done.out) == (1, "")
    assert done.err == f"refold: there is no session 'tusk' in {store}; did you mean 'task'?\n"
    assert not Path("out").exists()
    with refold.open("tusk", store=store) as session:
        assert session.log() == []


# -- folds -----------------------------------------------------------------------------------------------


def test_folds_are_listed_compared_and_undone(store):
    name = fold_name(store)
    short = name[3:11]
    line = run_cli("folds", FOLDED).out.splitlines()[-1]
    assert line.startswith(short)
    assert line.endswith("stands")
    told = run_cli("diff", FOLDED)
    assert told.status == 0
    assert told.out.startswith(short)
    assert "\n- #" in told.out
    assert "\n+ " in told.out
    assert run_cli("diff", FOLDED, short).out == told.out
    assert len(run_cli("diff", FOLDED, "--full").out) > len(told.out)
    data = run_cli("diff", FOLDED, "--json").json
    assert data["fold"] == name
    assert data["changes"][0]["took"][0]["handle"].startswith("#")
    done = run_cli("unfold", FOLDED, short)
    assert done.status == 0
    assert re.fullmatch(
        rf"unfolded {short} \(#\d+-#\d+\): \d+ → \d+ messages, [\d,]+ → [\d,]+ tokens in the view\n", done.out
    )
    sizes = run_cli("unfold", FOLDED, short, "--json").json
    assert (sizes["unfolded"], sizes["before"], sizes["tokens_before"]) == (
        False,
        sizes["after"],
        sizes["tokens_after"],
    )
    assert run_cli("unfold", FOLDED, short).out == f"{short} was unfolded already\n"
    while (again := run_cli("unfold", FOLDED)).status == 0:
        assert again.out.startswith("unfolded ")
    assert (again.status, again.out) == (1, "")
    assert again.err == "refold: nothing is folded on this branch: there is nothing to undo\n"
    assert run_cli("folds", FOLDED).out.splitlines()[-1].endswith("unfolded")
    nothing = run_cli("diff", FOLDED)
    assert (nothing.status, nothing.out, nothing.err) == (0, "nothing is folded on this branch\n", "")
    assert run_cli("diff", FOLDED, "nofold").status == 1


def test_unfold_counts_as_the_last_reported_model_does(one_store):
    """The sizes are those of `measure`: tokens of Claude are not those of an unknown model."""
    with refold.open(FOLDED, store=one_store, window="8k", model="claude-opus-4-6") as session:
        view = session.prepare().messages
        tokens = refold.count(view, model="claude-opus-4-6")
        session.observe(
            {"model": "claude-opus-4-6", "usage": {"prompt_tokens": tokens, "completion_tokens": 9}}
        )
    assert tokens > refold.count(view)
    sizes = run_cli("unfold", FOLDED, "--json").json
    assert sizes["tokens_before"] == tokens
    assert sizes["tokens_after"] == run_cli("measure", "--session", FOLDED, "--json").json["used"]


def test_a_session_without_folds(address, monkeypatch):
    monkeypatch.setenv("REFOLD_STORE", address)
    with refold.open("new", store=address) as session:
        session.say("hi")
    for command in ("folds", "diff"):
        told = run_cli(command, "new")
        assert (told.status, told.out, told.err) == (0, "nothing is folded on this branch\n", "")
    data = run_cli("diff", "new", "--json").json
    empty = {"standing": False, "stages": [], "changes": []}
    assert data == {
        "session": "new",
        "fold": None,
        **empty,
        "tokens_before": None,
        "tokens_after": None,
        "at": None,
    }
    done = run_cli("unfold", "new", "--json")
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)


def test_what_a_fold_kept_and_an_earlier_summary_are_told(address, monkeypatch):
    monkeypatch.setenv("REFOLD_STORE", address)
    with refold.open("two", store=address, window="8k") as session:
        for _ in range(2):
            session.say(talk(14, "harbour " * 60))
            session.compact(target=900, keep=2)
        assert len(session.folds()) >= 2
    assert run_cli("diff", "two").status == 0


# -- recall, rewind, checkpoint --------------------------------------------------------------------------


def test_recall_finds_what_is_folded(store):
    done = run_cli("recall", FOLDED, "question 3", "--limit", "2")
    assert done.status == 0
    assert done.out.splitlines()[0] == "#7 · user · folded"
    assert "question 3: harbour" in done.out
    hits = run_cli("recall", FOLDED, "question", "--limit", "2", "--json").json["hits"]
    assert len(hits) == 2
    nothing = run_cli("recall", FOLDED, "zeppelin")
    assert (nothing.status, nothing.out) == (0, "")
    assert nothing.err == "nothing that was said has the words 'zeppelin'\n"
    for query in ('"', "a OR (", "\x1b[2J"):
        assert run_cli("recall", FOLDED, query).status == 0


def test_recall_by_handle_gives_the_originals(store):
    done = run_cli("recall", FOLDED, "#7-#8")
    assert done.out.startswith("#7 user\n    question 3: harbour harbour")
    assert "#8 assistant\n" in done.out
    assert run_cli("recall", FOLDED, "#7-#8", "--json").json == talk(12, "harbour " * 40)[6:8]
    whole = run_cli("recall", FOLDED, fold_name(store), "--json").json
    assert len(whole) >= 2
    for word in (fold_name(store)[3:11], fold_name(store)[:11]):
        assert run_cli("recall", FOLDED, word, "--json").json == whole


def test_recall_shows_the_result_of_a_tool_as_the_tools(one_store):
    call = {"type": "tool_use", "id": "c1", "name": "pay", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "refund_id 77"}
    with refold.open("pay", store=one_store) as session:
        for role, block in (("assistant", call), ("user", result)):
            session.say({"role": role, "content": [block]})
    assert run_cli("recall", "pay", "refund_id").out.startswith("#2 · tool\n")
    assert run_cli("recall", "pay", "#2").out == "#2 tool\n    refund_id 77\n\n"


def test_recall_by_the_beginning_of_an_entrys_name(store):
    seventh = next(
        each["name"]
        for each in run_cli("show", FOLDED, "--log", "--json").json["entries"]
        if each["said"] == 7
    )
    for word in (seventh, seventh[:11], seventh[3:11]):
        assert "question 3: harbour" in run_cli("recall", FOLDED, word).out
    assert run_cli("recall", FOLDED, "b2:").status == 0
    word = run_cli("recall", FOLDED, "deadbeef")
    assert (word.status, word.err) == (0, "nothing that was said has the words 'deadbeef'\n")


def test_a_beginning_that_several_names_have_is_refused(one_store):
    with refold.open("long", store=one_store) as session:
        session.say(talk(40))
    names = [each["name"] for each in run_cli("show", "long", "--log", "--json").json["entries"]]
    first = next(name[:4] for name in names if sum(other.startswith(name[:4]) for other in names) > 1)
    done = run_cli("recall", "long", first)
    assert (done.status, done.out) == (1, "")
    assert done.err == f"refold: several entries begin with {first!r}: write more of the name\n"


def test_another_branch_is_found_by_its_name(store):
    run_cli("rewind", FOLDED, "#4")
    done = run_cli("recall", FOLDED, "question 9", "--limit", "1")
    assert "on another branch, as b3:" in done.out
    name = done.out.split("as ")[1].split()[0]
    assert "question 9" in run_cli("recall", FOLDED, name).out


def test_rewind_and_back(store):
    before = run_cli("show", FOLDED).out
    done = run_cli("rewind", FOLDED, "half")
    assert done.out.startswith("stands behind #26 now, before it was #27;")
    back = done.out.split("`")[1].split()
    assert back[:3] == ["refold", "rewind", FOLDED]
    assert run_cli(*back[1:], "--json").json["said"] == 27
    assert run_cli("show", FOLDED).out == before
    assert run_cli("rewind", FOLDED, "start").status == 0
    assert "0 said" in run_cli("show", FOLDED).out


def test_a_fold_that_stands_again_after_a_step_back_is_told(store):
    """It was undone, and the place to go back to is older than that."""
    (fold, *_) = run_cli("folds", FOLDED, "--json").json["folds"]
    run_cli("checkpoint", FOLDED, "folded")
    run_cli("unfold", FOLDED, fold["name"])
    done = run_cli("rewind", FOLDED, "folded")
    line = next(line for line in done.out.splitlines() if "stands again" in line)
    undo = line.split("`")[1].split()
    assert run_cli(*undo[1:]).status == 0
    assert run_cli("rewind", FOLDED, "folded", "--json").json["folded_again"] == [fold["name"]]
    assert run_cli("rewind", FOLDED, "folded", "--json").json["folded_again"] == []


def test_checkpoints_have_names(store):
    assert run_cli("checkpoint", FOLDED, "end").out == "checkpoint end stands behind #27\n"
    assert run_cli("checkpoint", FOLDED, "--json").json["checkpoint"] == "checkpoint-3"
    assert run_cli("rewind", FOLDED, "end").status == 0
    run_cli("rewind", FOLDED, "half")
    assert run_cli("rewind", FOLDED, "end").out.startswith("stands behind #27 now, before it was #26;")
    run_cli("rewind", FOLDED, "start")
    done = run_cli("rewind", FOLDED, "middle")
    assert done.status == 1
    assert done.err.startswith("refold: 'middle' is no checkpoint of this session, which has 'half', 'end', ")
    assert run_cli("folds", FOLDED).out == "nothing is folded on this branch\n"


def test_checkpoints_of_every_branch_are_listed(store):
    run_cli("import", "plain", str(LONG))
    assert run_cli("checkpoint", "plain", "--list").out == "no checkpoint was set\n"
    run_cli("rewind", FOLDED, "start")
    run_cli("checkpoint", FOLDED, "half")
    lines = run_cli("checkpoint", FOLDED, "--list").out.splitlines()
    assert [line.split()[:4] for line in lines[1:]] == [
        ["half", "#26", "another", "b2:" + lines[1].split("b2:")[1]],
        ["half", "#0", "this", "one"],
    ]
    listed = run_cli("checkpoint", FOLDED, "--list", "--json").json["checkpoints"]
    assert [(each["name"], each["handle"], each["on_branch"]) for each in listed] == [
        ("half", "#26", False),
        ("half", "#0", True),
    ]
    assert run_cli("checkpoint", FOLDED, "half", "--list").status == 2


# -- files -----------------------------------------------------------------------------------------------


@pytest.mark.few_values(2)
@pytest.mark.parametrize("form", ["ripple", "neurolink"])
def test_export_and_import_again(form, store):
    done = run_cli("export", FOLDED, "out", "--form", form)
    assert done.status == 0
    assert done.out.startswith("27 messages written to out: ")
    assert run_cli("import", "counted", "out", "--json").json["folds"] == 1
    assert run_cli("import", "copy", "out").out.startswith(
        "27 messages said and 1 fold in copy; `refold show`"
    )
    one = run_cli("show", FOLDED, "--json").json["messages"]
    two = run_cli("show", "copy", "--json").json["messages"]
    assert [each["message"] for each in one] == [each["message"] for each in two]
    again = run_cli("import", "copy", "out")
    assert (again.status, again.err.count("\n")) == (1, 1)


def test_an_import_into_memory_promises_nothing(tmp_path):
    history = tmp_path / "one.json"
    history.write_text('[{"role": "user", "content": "hello"}]')
    done = run_cli("import", "gone", history, "--store", "memory:")
    assert done.out == "1 message said in gone; it ends with this command\n"


def test_secrets_stay_out_of_an_export(address, monkeypatch):
    pytest.importorskip("detect_secrets")
    monkeypatch.setenv("REFOLD_STORE", address)
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    saved("a.json", [{"role": "user", "content": f"the token is {secret}"}])
    run_cli("import", "s", "a.json")
    assert run_cli("export", "s", "open").status == 0
    assert run_cli("export", "s", "clean", "--redact").status == 0
    text = {
        name: "".join(path.read_text() for path in Path(name).rglob("*.json*")) for name in ("open", "clean")
    }
    assert secret in text["open"]
    assert secret not in text["clean"]


def test_a_tagged_list_is_imported_with_its_fold(store):
    """A list as NeuroLink leaves it: the hidden messages come back with `unfold`."""
    hidden = [{**message, "condenseParent": "c"} for message in talk(2)]
    summary = {"role": "system", "content": "GIST", "condenseId": "c", "metadata": {"isSummary": True}}
    Path("list.json").write_text(json.dumps([*hidden, summary, {"role": "user", "content": "on"}]))
    assert run_cli("import", "tagged", "list.json").out.startswith(
        f"{len(hidden) + 1} messages said and 1 fold"
    )
    assert "2 seen" in run_cli("show", "tagged").out
    assert "2 seen" in run_cli("show", "list.json").out
    assert run_cli("unfold", "tagged").status == 0
    assert f"{len(hidden) + 1} seen" in run_cli("show", "tagged").out


@pytest.mark.few_values(2)
@pytest.mark.parametrize("file", [LONG, ANTHROPIC], ids=["openai", "anthropic"])
def test_a_list_of_messages_becomes_a_session(file, address, monkeypatch):
    monkeypatch.setenv("REFOLD_STORE", address)
    done = run_cli("import", "new", file, "--json")
    assert done.status == 0
    value = json.loads(file.read_text())
    messages = value if isinstance(value, list) else value["messages"]
    view = run_cli("show", "new", "--json").json["messages"]
    assert [each["message"] for each in view] == messages
    assert ("left out" in done.err) is isinstance(value, dict)
    again = run_cli("import", "new", file)
    assert (again.status, again.err) == (
        1,
        "refold: session 'new' exists already: import into a new one\n",
    )


def test_a_session_that_another_program_begins_meanwhile_is_left_alone(address, monkeypatch):
    monkeypatch.setenv("REFOLD_STORE", address)
    file = saved("talk.json", talk(1))
    run_cli("import", "first", file)
    store_source, others = sys.modules["refold.cli.input.stores"].store_source, []

    def begin_another(*given):
        if not others:
            others.append("new")
            others.append(run_cli("import", "new", file).status)
        return store_source(*given)

    monkeypatch.setattr("refold.cli.commands.import_.store_source", begin_another)
    done = run_cli("import", "new", file)
    assert others == ["new", 0]
    exists = "refold: session 'new' exists already: import into a new one\n"
    assert (done.status, done.out, done.err) == (1, "", exists)
    assert len(run_cli("show", "new", "--json").json["messages"]) == 2


def test_an_export_without_messages_begins_no_session(address, monkeypatch, tmp_path):
    monkeypatch.setenv("REFOLD_STORE", address)
    saved(tmp_path / "messages.jsonl", "")
    assert run_cli("import", "new", tmp_path).status == 0
    assert run_cli("sessions", "--json").json["sessions"] == []


def test_a_folder_that_is_no_export(store, tmp_path):
    (tmp_path / "empty").mkdir()
    done = run_cli("import", "new", "empty")
    assert done.status in {1, 2}
    assert done.err.count("\n") == 1
    assert "new" not in [each["name"] for each in run_cli("sessions", "--json").json["sessions"]]


# -- check and salvage -----------------------------------------------------------------------------------


def damage(address, old, new):
    """Change some bytes of a store's file."""
    scheme, _, path = address.partition(":")
    file = Path(path) if scheme == "sqlite" else next(Path(path).glob("?" * 40 + ".jsonl"))
    raw = file.read_bytes()
    assert old in raw
    file.write_bytes(raw.replace(old, new))


def test_a_sound_store(store):
    done = run_cli("check")
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith(" entries, 1 session: all sound\n")
    data = run_cli("check", "--json").json
    assert (data["sound"], data["troubles"], data["salvaged"]) == (True, [], None)


@pytest.mark.few_values(2)
@pytest.mark.parametrize("scheme", ["sqlite", "jsonl"])
def test_a_damaged_store_is_told_and_salvaged(scheme, store, tmp_path):
    whole = b" 7: " + b"harbour " * 30  # no fold has the message whole
    damage(store, b"answer" + whole, b"answ3r" + whole)
    done = run_cli("check")
    assert done.status == 1
    *troubles, verdict = done.out.splitlines()
    assert troubles
    assert all(line.startswith("wrong  ") for line in troubles)
    assert "trouble" in verdict
    new = f"{scheme}:{tmp_path / 'new'}"
    done = run_cli("check", "--salvage", new)
    assert done.status == 1
    assert "lost   task: 1 entry of " in done.out
    assert f" entries of 1 session copied to {new}\n" in done.out
    shown = run_cli("show", FOLDED, "--store", new)
    assert shown.status == 0
    assert run_cli("recall", FOLDED, "question 9", "--store", new).out.startswith("#19 · user · fold")
    again = run_cli("check", "--salvage", new)
    assert again.status == 1
    assert again.err == f"refold: {new} has sessions already: salvage into a new store\n"


def test_a_store_that_cannot_list_its_sessions_is_not_sound(store, monkeypatch):
    def refuse(_):
        raise refold.errors.StoreError("the list is lost")

    monkeypatch.setattr("refold.stores.sqlite.store.SQLiteStore.sessions", refuse)
    monkeypatch.setattr("refold.stores.jsonl.store.JsonlStore.sessions", refuse)
    done = run_cli("check")
    assert (done.status, done.out.splitlines()[0]) == (1, "wrong  the list is lost")


def test_a_salvaged_store_as_data(store, tmp_path):
    told = run_cli("check", "--salvage", f"jsonl:{tmp_path / 'new'}", "--json")
    assert told.status == 0
    assert told.json["salvaged"]["whole"]
    assert told.json["salvaged"]["entries"] == told.json["entries"]
    one = run_cli("show", FOLDED, "--log", "--json").out
    assert run_cli("show", FOLDED, "--log", "--json", "--store", f"jsonl:{tmp_path / 'new'}").out == one


def test_a_store_is_not_salvaged_into_itself(store):
    done = run_cli("check", "--salvage", store)
    assert done.status == 1
    assert done.err.count("\n") == 1
    assert run_cli("check").status == 0


def test_a_store_that_is_a_directory(tmp_path):
    done = run_cli("sessions", "--store", f"sqlite:{tmp_path}")
    assert (done.status, done.err) == (1, f"refold: {tmp_path} is a folder: name a file\n")
    saved("file", "text")
    for command in ("sessions", "check"):
        done = run_cli(command, "--store", f"jsonl:{tmp_path / 'file'}")
        assert done.status == 1
        assert done.err.count("\n") == 1


def test_a_file_that_is_no_store():
    saved("text.db", "this is plain text and not a database at all" * 40)
    for command in (["sessions"], ["check"], ["check", "--salvage", "jsonl:new"], ["show", "a"]):
        done = run_cli(*command, "--store", "sqlite:text.db")
        assert done.status == 1
        assert "Traceback" not in done.err + done.out


@pytest.mark.few_values(2)
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.95])
def test_a_file_that_was_cut_is_salvaged(share):
    with contextlib.closing(refold.open_store("sqlite:whole.db")) as store:
        session = refold.open("a", store=store, window=400_000)
        for number in range(200):
            session.say(f"msg {number} " + "word " * 300)
    content = Path("whole.db").read_bytes()
    Path("cut.db").write_bytes(content[: int(len(content) * share)])
    done = run_cli("check", "--store", "sqlite:cut.db", "--salvage", "sqlite:new.db")
    assert (done.status, done.err) == (1, "")
    assert "Traceback" not in done.out
    assert done.out.startswith("wrong  ")
    with contextlib.closing(refold.open_store("sqlite:new.db")) as new:
        texts = [entry.value["content"].split()[1] for _, _, entry in new.salvage()]
    assert texts == [str(number) for number in range(len(texts))]
    assert len(texts) > 200 * share * 0.6  # other pages are those of indexes
    again = run_cli("check", "--store", "sqlite:new.db")
    assert (again.status, again.out) == (0, f"{len(texts)} entries, 1 session: all sound\n")


@contextlib.contextmanager
def may_only_read(folder):
    """Nothing in a folder may be written; who may everything becomes somebody else for a while."""
    kept = {path: path.stat().st_mode for path in [folder, *folder.rglob("*")]}
    for path in kept:
        path.chmod(0o555 if path.is_dir() else 0o444)
    me = os.geteuid()
    os.seteuid(65534 if me == 0 else me)
    try:
        yield
    finally:
        os.seteuid(me)
        for path, mode in kept.items():
            path.chmod(mode)


@pytest.mark.parametrize("scheme", ["sqlite", "jsonl"])
def test_a_store_that_may_only_be_read(scheme, monkeypatch):
    """Everything can be looked at, and nothing be written."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("REFOLD_STORE", f"{scheme}:{folder}/store")
        fill(f"{scheme}:{folder}/store")
        for args in COMMANDS_OF_A_SESSION[:4]:
            run_cli(*with_session(args))  # loads what somebody else may not
        with may_only_read(Path(folder)):
            commands = (["sessions"], ["show", FOLDED], ["recall", FOLDED, "harbour"], ["check"])
            looked = [run_cli(*args) for args in commands]
            marked = run_cli("checkpoint", FOLDED)
    assert [(done.status, done.err) for done in looked] == [(0, "")] * len(looked)
    assert (marked.status, marked.err.count("\n")) == (1, 1)
    assert marked.err.startswith("refold: ")


# -- the real program ------------------------------------------------------------------------------------


def test_a_pipe_is_clean_and_a_terminal_has_colours(one_store):
    done = process("show", FOLDED, "--all", "--brief")
    assert (done.status, done.err) == (0, "")
    assert "\x1b" not in done.out
    assert "\x1b[36muser\x1b[0m" in terminal("show", FOLDED, "--all", "--brief").out
    assert "\x1b" not in terminal("show", FOLDED, "--all", "--brief", env={"NO_COLOR": "1"}).out
    assert "\x1b" not in terminal("sessions", "--no-color").out


def test_commands_joined_by_pipes(tmp_path):
    env = {"REFOLD_STORE": f"sqlite:{tmp_path / 'store'}"}
    done = process("import", "piped", "-", stdin=json.dumps(talk(2)).encode(), env=env)
    assert (done.status, done.err) == (0, f"a new store is made: {env['REFOLD_STORE']}\n")
    shown = process("show", "piped", "--format", "openai", env=env)
    assert json.loads(shown.out) == talk(2)
    assert process("measure", "-", "--json", stdin=shown.out.encode()).json["messages"] == 4


def test_nobody_reads_any_more(tmp_path):
    address = f"jsonl:{tmp_path / 'store'}"
    with refold.open("long", store=address) as session:
        session.say(talk(1500))
    with started("show", "long", "--all", "--store", address, stdout=subprocess.PIPE) as program:
        program.stdout.close()
        assert program.wait(300) == 141
        assert program.stderr.read() == b""


def test_ctrl_c_while_salvaging_says_what_is_there(store, tmp_path, monkeypatch):
    def interrupted(*args, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("refold.cli.commands.check.salvage", interrupted)
    new = f"jsonl:{tmp_path / 'new'}"
    done = run_cli("check", "--salvage", new)
    assert done.status == 130
    assert done.err == f"{new} is incomplete: begin again with another new store\nrefold: interrupted\n"
    assert run_cli("check").status == 0


def test_check_shows_what_it_does_on_a_terminal(one_store):
    done = terminal("check")
    assert done.status == 0
    assert "checking " in done.out
    assert done.out.split("\r\x1b[2K")[-1].endswith("\x1b[32mall sound\x1b[0m\n")


@pytest.mark.parametrize("where", ["/dev/full", "&-"])
def test_an_output_that_takes_nothing_is_told(where, one_store):
    if where == "/dev/full" and not Path(where).exists():
        pytest.skip("this system has no /dev/full")
    command = f"{sys.executable} -m refold.cli show {FOLDED} --all >{where}"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert ran.stderr.decode().startswith("refold: ")
    assert ran.stderr.count(b"\n") == 1


def test_a_list_of_sessions_starts_at_once(one_store):
    """Neither sessions nor stages nor policies are loaded for it."""
    loaded = modules_loaded("sessions")
    heavy = ("refold.session", "refold.stages", "refold.policies", "refold.calls", "refold.clients")
    assert [name for name in loaded if name.startswith(heavy)] == []


class Wrecked:
    """A store that tells nothing of itself any more."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def sessions(self):
        raise LogCorrupt("the list of sessions is damaged")

    def check(self):
        yield SimpleNamespace(session="", what="page 3 is damaged")
        raise LogCorrupt("page 4 is damaged")

    def salvage(self):
        yield next(self._store.salvage())
        raise LogCorrupt("page 4 is damaged")


def test_a_wreck_is_told_and_salvaged_as_far_as_it_goes(one_store, monkeypatch):
    monkeypatch.setattr(
        "refold.cli.input.stores.open_store", lambda address: Wrecked(refold.open_store(address))
    )
    done = run_cli("check", "--salvage", "jsonl:new")
    assert done.status == 1
    assert done.out.splitlines() == [
        "wrong  page 3 is damaged",
        "wrong  page 4 is damaged",
        "0 entries, 0 sessions: 2 troubles",
        "lost   task: the number of its entries is unknown",
        "lost   task: the entry at its head is lost: it stands at the one before now",
        "lost   the rest: page 4 is damaged",
        "1 entry of 1 session copied to jsonl:new",
    ]


def test_messages_of_our_own(address, monkeypatch):
    monkeypatch.setenv("REFOLD_STORE", address)
    with refold.open("own", store=address, format="refold") as session:
        session.say(refold.Message("user", (refold.Text("plain"),)))
    assert run_cli("show", "own", "--all", "--brief").out == "#1 user  plain\n"
    assert run_cli("show", "own", "--format", "openai").json == [{"role": "user", "content": "plain"}]
    assert run_cli("show", "own", "--json").json["messages"][0]["message"]["role"] == "user"
    assert "plain" in run_cli("recall", "own", "#1").out


def test_results_as_data(one_store):
    assert run_cli("folds", FOLDED, "--json").json["folds"][0]["name"] == fold_name(one_store)
    assert run_cli("export", FOLDED, "out", "--json").json["messages"] == 27
    assert run_cli("rewind", FOLDED, "start").status == 0
    again = run_cli("rewind", FOLDED, "start")
    assert again.out == "stands behind #0 now, before it was #0; what came after stays on its own branch\n"
    assert run_cli("show", FOLDED, "--all").out == ""


STORED = (("show", "--brief"), ("folds",), ("recall", "the failing test"), ("diff",), ("checkpoint", "here"))


@pytest.mark.few_values(2)
@pytest.mark.parametrize("command", STORED, ids=lambda command: command[0])
def test_every_command_takes_the_session_as_an_option(command):
    """One store and one session option, with the same names and the same meaning, everywhere."""
    store = ("--store", "sqlite:work.db")
    run_cli("import", "--session", "task", LONG, *store)
    name, *rest = command
    placed = run_cli(name, "task", *rest, *store)
    assert placed.status == 0
    assert run_cli(name, "--session", "task", *rest, *store) == placed
    assert run_cli(name, *rest, *store, "--session=task") == placed


@pytest.mark.few_values(2)
@pytest.mark.parametrize(
    "command",
    [("measure",), ("plan", "--window", "32k"), ("compact", "--window", "32k"), ("validate",)],
    ids=lambda command: command[0],
)
def test_commands_of_files_take_a_session_in_their_place(command):
    run_cli("import", "task", LONG, "--store", "sqlite:work.db")
    listed = saved(
        "view.json", run_cli("show", "task", "--store", "sqlite:work.db", "--format", "openai").out
    )
    name, *rest = command
    of_file = run_cli(name, listed, *rest, "--json").json
    of_session = run_cli(name, "--session", "task", "--store", "sqlite:work.db", *rest, "--json").json
    assert {**of_session, "file": ""} == {**of_file, "file": ""}


def test_a_whole_session_has_its_system_prompt(one_store):
    whole = run_cli("compact", "--session", FOLDED, "--whole", "--window", "128k").json
    assert whole[0] == {"role": "system", "content": "You are brief."}
    assert len(whole) == 1 + len(run_cli("show", FOLDED, "--all", "--json").json["messages"])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "no conversation is named: name a FILE, - for standard input, or a session with --session"),
        (["a.json", "--session", "b"], "FILE and --session exclude each other"),
        (["a.json", "--store", "sqlite:x.db"], "--store goes with --session"),
    ],
)
def test_a_conversation_is_named_once(args, said):
    done = run_cli("measure", *args)
    assert done.status == 2
    assert said in done.err


def test_a_new_store_is_told():
    """A mistyped name is seen; a second import makes no store."""
    first, second = (run_cli("import", name, LONG, "--store", "sqlite:work.db") for name in ("one", "two"))
    assert first.err == "a new store is made: sqlite:work.db\n"
    assert second.err == ""
    assert "there is no store in ./tpyo.db" in run_cli("show", "one", "--store", "./tpyo.db").err


@pytest.mark.parametrize("kind", ["file", "folder", "pipe"])
def test_what_is_no_conversation_makes_no_store(kind, tmp_path):
    broken = [{"role": "user", "content": "x"}, {"content": "y"}]
    (tmp_path / "out").mkdir()
    saved("bad.json", broken)
    saved(tmp_path / "out" / "messages.jsonl", "\n".join(map(json.dumps, broken)))
    file, shown = {
        "file": ("bad.json", "bad.json"),
        "folder": (str(tmp_path / "out"), str(tmp_path / "out")),
        "pipe": ("-", "standard input"),
    }[kind]
    done = run_cli("import", "s", file, "--store", "sqlite:new.db", stdin=json.dumps(broken))
    assert (done.status, done.out) == (2, "")
    assert done.err == f"refold: {shown}: messages[1].role: is missing; expected a string\n"
    assert not Path("new.db").exists()


@pytest.mark.few_values(2)
@pytest.mark.parametrize("name", ["claude-code:8463", str(LONG)])
@pytest.mark.parametrize("command", [["unfold"], ["rewind", "#1"], ["checkpoint", "here"]])
def test_a_file_is_imported_before_it_is_changed(command, name):
    said = "refold: files and transcripts are never changed: `refold import NAME "
    assert run_cli(*with_session(command, name), "--store", "sqlite:none.db").err.startswith(said)
    assert run_cli("import", "one", LONG, "--store", "sqlite:work.db").status == 0
    done = run_cli(*with_session(command, name), "--store", "sqlite:work.db")
    assert (done.status, done.err) == (1, f"{said}{name}` makes it a session\n")
    with refold.open(name, store="sqlite:work.db") as session:  # any name may be one of a session
        session.say("hi")
    assert said not in run_cli(*with_session(command, name), "--store", "sqlite:work.db").err


@pytest.mark.parametrize("store", ["sqlite:none/work.db", "jsonl:none/logs"])
def test_a_store_that_cannot_be_made_is_not_told_as_made(store, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"hi")))
    for command in (["import", "one", LONG], ["chat", "--model", "http://127.0.0.1:1/v1#x"]):
        done = run_cli(*command, "--store", store)
        assert done.status == 1
        assert done.err.startswith("refold: there is no folder ")


@pytest.mark.few_values(1)
@pytest.mark.parametrize("store", ["sqlite:work.db", "jsonl:logs"])
def test_an_import_that_is_interrupted_leaves_a_whole_session_or_none(store):
    """Ctrl-C comes while the store is written."""
    big = saved("big.json", talk(4_000))
    with started("import", "task", big, "--store", store, stdout=subprocess.DEVNULL) as program:
        assert program.stderr.readline().decode() == f"a new store is made: {store}\n"
        program.send_signal(signal.SIGINT)
        program.wait(300)
    listed = run_cli("sessions", "--store", store, "--json")
    sessions = listed.json["sessions"] if listed.status == 0 else []
    assert [session["said"] for session in sessions] in ([], [8_000])
    if not sessions:
        assert run_cli("import", "task", big, "--store", store).status == 0


def test_measure_of_a_session_counts_from_what_was_reported():
    """And by the model that the report names: its window, its room."""
    with refold.open("task", store="sqlite:work.db", model="gpt-4o") as session:
        session.prepare(talk(6))
        session.observe({"usage": {"prompt_tokens": 20_000, "completion_tokens": 30}})
        session.say(talk(1))
        used = session.budget().used
    store = ("--session", "task", "--store", "sqlite:work.db")
    done = run_cli("measure", *store)
    assert "from the 20,000 reported last (in the session) and an estimate" in " ".join(done.out.split())
    measured = run_cli("measure", *store, "--json").json
    assert (measured["model"], measured["window"]) == ("gpt-4o", 128_000)
    assert abs(measured["used"] - used) < 0.02 * used
    assert run_cli("measure", *store, "--whole", "--json").json["count_source"] == "estimate"


# -- delete --------------------------------------------------------------------------------------------------


def test_a_session_is_deleted_by_name(store):
    run_cli("import", "other", saved("other.json", talk(3)))
    dry = run_cli("delete", FOLDED, "--dry-run")
    assert dry.out.splitlines()[-1].startswith("would delete 1 session with ")
    assert {row["name"] for row in run_cli("sessions", "--json").json["sessions"]} == {FOLDED, "other"}
    done = run_cli("delete", "--session", FOLDED, "--yes", "--json")
    assert done.status == 0
    assert [row["name"] for row in done.json["sessions"]] == [FOLDED]
    assert done.json["messages"] > 0 < done.json["bytes"]
    assert done.json["dry_run"] is False
    assert [row["name"] for row in run_cli("sessions", "--json").json["sessions"]] == ["other"]
    assert run_cli("check").status == 0
    assert run_cli("show", FOLDED).status == 1


def test_nothing_goes_if_one_name_is_unknown(one_store):
    done = run_cli("delete", FOLDED, "tasks", "--yes")
    assert done.status == 1
    assert done.err.endswith("did you mean 'task'?\n")
    assert done.err.count("\n") == 1
    assert run_cli("show", FOLDED).status == 0


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["delete"], 2, "nothing is named"),
        (["delete", FOLDED], 2, "--yes does it without a question"),
        (["delete", FOLDED, "--unused", "3d"], 2, "--session and --unused exclude each other"),
        (["delete", "--unused", "soon"], 2, "write an age such as 12h"),
        (["delete", "--unused", "", "--yes"], 2, "write an age such as 12h"),
        (["delete", "x", "--store", "sqlite:none.db", "--yes"], 1, "there is no store in sqlite:none.db"),
    ],
)
def test_a_deletion_that_is_refused_is_told_in_one_line(one_store, args, status, said):
    done = run_cli(*args, stdin="y\n")
    assert done.status == status
    assert said in done.err
    assert done.err.count("\n") == 1
    assert run_cli("show", FOLDED).status == 0


def test_sessions_that_nobody_uses_are_deleted(tmp_path, monkeypatch):
    address, now = f"sqlite:{tmp_path / 'store'}", time.time()
    monkeypatch.setenv("REFOLD_STORE", address)
    for name, days in (("new", 1), ("old", 40), ("older", 400)):
        with contextlib.closing(
            refold.open_store(address, now=lambda days=days: now - days * 86_400)
        ) as made:
            refold.open(name, store=made, window="8k").say("hi")
    dry = run_cli("delete", "--unused", "30d", "--dry-run", "--json").json
    assert {row["name"] for row in dry["sessions"]} == {"old", "older"}
    assert dry["bytes"] is None
    done = run_cli("delete", "--unused", "8w", "--yes")
    assert done.out.splitlines()[-1].startswith("deleted 1 session with 1 message, ")
    assert run_cli("delete", "--unused", "30d", "--yes").status == 0
    done = run_cli("delete", "--unused", "30d", "--yes")
    assert (done.status, done.out) == (0, "no session is unused for 30d\n")
    assert [row["name"] for row in run_cli("sessions", "--json").json["sessions"]] == ["new"]


@pytest.mark.parametrize(("answer", "status"), [(b"y\n", 0), (b"\n", 1), (b"\x04", 1), (b"\x03", 130)])
def test_the_person_is_asked_on_a_terminal(one_store, answer, status):
    done = terminal("delete", FOLDED, answer=(answer, b"[y/N] "))
    assert done.status == status
    assert "Delete 1 session from sqlite:" in done.out
    assert ("deleted 1 session" in done.out) == (status == 0)
    assert run_cli("show", FOLDED).status == (1 if status == 0 else 0)
