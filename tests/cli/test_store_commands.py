"""The commands over a store: sessions shown, searched, undone, moved as files, checked and salvaged."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from cli_running import ANTHROPIC, LONG, cpu_seconds, inside, process, saved, started, talk, terminal

import refold
from refold.cli.commands.recall import snippet
from refold.cli.input.stored import ago
from refold.cli.output import format_message
from refold.core.messages.message import (
    Document,
    File,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.errors import LogCorrupt
from refold.stores import Defect, open_store

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
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "ls", "arguments": '{"p": "\x1b]0;x\x07"}'},
                        }
                    ],
                },
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


def test_sessions_are_listed_newest_first(store, capsys):
    with refold.open("later\nand longer", store=store) as session:
        session.say("hi")
    done = inside(capsys, "sessions")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["session", "said", "entries", "changed"]
    assert lines[1].startswith("later and longer")
    assert lines[2].split()[:2] == [FOLDED, "27"]
    assert lines[2].endswith("just now")
    told = inside(capsys, "sessions", "--json").json
    assert told["store"] == store
    assert [each["name"] for each in told["sessions"]] == ["later\nand longer", FOLDED]


def test_nothing_is_there_yet(capsys, tmp_path):
    done = inside(capsys, "sessions")
    assert done.status == 0
    assert done.out.startswith("no sessions yet")
    assert not (tmp_path / "home" / ".local").exists()
    done = inside(capsys, "check")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("refold: there is no store in your data folder")


def test_a_store_that_is_not_there_is_not_made(capsys, tmp_path):
    for scheme in ("sqlite", "jsonl"):
        done = inside(capsys, "sessions", "--store", f"{scheme}:{tmp_path}/typo")
        assert done.status == 1
        assert done.err.count("\n") == 1
    assert not (tmp_path / "typo").exists()


def test_the_view_is_shown_as_the_model_sees_it(store, capsys):
    done = inside(capsys, "show", FOLDED)
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
    assert [each["message"] for each in inside(capsys, "show", FOLDED, "--json").json["messages"]] == seen


def test_everything_said_has_a_handle_and_folded_ones_are_marked(store, capsys):
    done = inside(capsys, "show", FOLDED, "--all", "--brief")
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == [f"#{number}" for number in range(1, 28)]
    assert "#2 assistant · pinned" in lines[1]
    assert " · folded" in lines[2]
    assert " · folded" not in lines[26]
    assert max(map(len, lines)) <= 80
    told = inside(capsys, "show", FOLDED, "--all", "--json").json
    assert len(told["messages"]) == told["said"] == 27
    assert [each["folded"] for each in told["messages"]] == [" · folded" in line for line in lines]


def test_the_log_has_a_line_for_each_entry(store, capsys):
    lines = inside(capsys, "show", FOLDED, "--log").out.splitlines()
    kinds = [line.split("  ")[2:] for line in lines]
    assert len(kinds) == len(lines) > 29
    assert any(" fold " in line and " → " in line and "tokens" in line for line in lines)
    assert any("checkpoint" in line and "half at #26" in line for line in lines)
    assert any(" pin " in line and "#2 pinned" in line for line in lines)
    entries = inside(capsys, "show", FOLDED, "--log", "--json").json["entries"]
    assert len(entries) == len(lines)
    assert {each["kind"] for each in entries} >= {"said", "system", "fold", "pin", "checkpoint"}


def test_every_kind_of_entry_is_told(capsys, store):
    with refold.open(FOLDED, store=store, window="8k") as session:
        session.observe(
            {
                "model": "m-1",
                "usage": {"prompt_tokens": 1200, "completion_tokens": 7, "total_tokens": 1207},
                "choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
            }
        )
        session.unfold()
        session.unpin("#2")
    out = inside(capsys, "show", FOLDED, "--log").out
    assert "1,200" in out
    assert "-#22 · unfolded · " in out
    assert " attempt " in out
    assert "#2 no longer pinned" in out


def test_the_view_in_another_shape_goes_on_to_other_commands(store, capsys):
    done = inside(capsys, "show", FOLDED, "--format", "anthropic")
    saved("view.json", done.out)
    assert inside(capsys, "validate", "view.json", "--format", "anthropic").status in {0, 1}
    assert isinstance(done.json, list)


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
def test_wrong_use_is_one_line(args, one_store, capsys):
    done = inside(capsys, *args)
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("refold: ")
    assert done.err.count("\n") == 1


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
        ["sessions", "--store", "jsonl:a-file"],
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_refused_in_one_line(args, one_store, capsys):
    saved("a-file", "text")
    done = inside(capsys, *args)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("refold: ")
    assert done.err.count("\n") == 1
    assert ("is a file, not a folder" in done.err) == ("a-file" in args[-1])


@pytest.mark.parametrize("args", COMMANDS_OF_A_SESSION, ids=" ".join)
def test_a_session_nobody_has_is_one_line(args, one_store, capsys):
    store = one_store
    done = inside(capsys, *with_session(args, "tusk"))
    assert (done.status, done.out) == (1, "")
    assert done.err == f"refold: there is no session 'tusk' in {store}; did you mean 'task'?\n"
    assert not Path("out").exists()
    with refold.open("tusk", store=store) as session:
        assert session.log() == []


# -- folds -----------------------------------------------------------------------------------------------


def test_folds_are_listed_compared_and_undone(store, capsys):
    name = fold_name(store)
    short = name[3:11]
    line = inside(capsys, "folds", FOLDED).out.splitlines()[-1]
    assert line.startswith(short)
    assert line.endswith("stands")
    told = inside(capsys, "diff", FOLDED)
    assert told.status == 0
    assert told.out.startswith(short)
    assert "\n- #" in told.out
    assert "\n+ " in told.out
    assert inside(capsys, "diff", FOLDED, short).out == told.out
    assert len(inside(capsys, "diff", FOLDED, "--full").out) > len(told.out)
    data = inside(capsys, "diff", FOLDED, "--json").json
    assert data["fold"] == name
    assert data["changes"][0]["took"][0]["handle"].startswith("#")
    done = inside(capsys, "unfold", FOLDED, short)
    assert done.status == 0
    assert re.fullmatch(
        rf"unfolded {short} \(#\d+-#\d+\): \d+ → \d+ messages, [\d,]+ → [\d,]+ tokens in the view\n", done.out
    )
    sizes = inside(capsys, "unfold", FOLDED, short, "--json").json
    assert (sizes["unfolded"], sizes["before"], sizes["tokens_before"]) == (
        False,
        sizes["after"],
        sizes["tokens_after"],
    )
    assert inside(capsys, "unfold", FOLDED, short).out == f"{short} was unfolded already\n"
    while (again := inside(capsys, "unfold", FOLDED)).status == 0:
        assert again.out.startswith("unfolded ")
    assert (again.status, again.out) == (1, "")
    assert again.err == "refold: nothing is folded on this branch: there is nothing to undo\n"
    assert inside(capsys, "folds", FOLDED).out.splitlines()[-1].endswith("unfolded")
    nothing = inside(capsys, "diff", FOLDED)
    assert (nothing.status, nothing.err) == (
        1,
        "refold: nothing is folded on this branch: there is nothing to compare\n",
    )
    assert inside(capsys, "diff", FOLDED, "nofold").status == 1


def test_a_session_without_folds(address, capsys, monkeypatch):
    monkeypatch.setenv("REFOLD_STORE", address)
    with refold.open("new", store=address) as session:
        session.say("hi")
    assert inside(capsys, "folds", "new").out == "nothing is folded on this branch\n"
    done = inside(capsys, "unfold", "new", "--json")
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)


def test_what_a_fold_kept_and_an_earlier_summary_are_told(address, capsys, monkeypatch):
    monkeypatch.setenv("REFOLD_STORE", address)
    with refold.open("two", store=address, window="8k") as session:
        for _ in range(2):
            session.say(talk(14, "harbour " * 60))
            session.compact(target=900, keep=2)
        assert len(session.folds()) >= 2
    assert inside(capsys, "diff", "two").status == 0


# -- recall, rewind, checkpoint --------------------------------------------------------------------------


def test_recall_finds_what_is_folded(store, capsys):
    done = inside(capsys, "recall", FOLDED, "question 3", "--limit", "2")
    assert done.status == 0
    assert done.out.splitlines()[0] == "#7 · user · folded"
    assert "question 3: harbour" in done.out
    hits = inside(capsys, "recall", FOLDED, "question", "--limit", "2", "--json").json["hits"]
    assert len(hits) == 2
    nothing = inside(capsys, "recall", FOLDED, "zeppelin")
    assert (nothing.status, nothing.out) == (0, "")
    assert nothing.err == "nothing that was said has the words 'zeppelin'\n"
    for query in ('"', "a OR (", "\x1b[2J"):
        assert inside(capsys, "recall", FOLDED, query).status == 0


def test_recall_by_handle_gives_the_originals(store, capsys):
    done = inside(capsys, "recall", FOLDED, "#7-#8")
    assert done.out.startswith("#7 user\n    question 3: harbour harbour")
    assert "#8 assistant\n" in done.out
    assert inside(capsys, "recall", FOLDED, "#7-#8", "--json").json == talk(12, "harbour " * 40)[6:8]
    whole = inside(capsys, "recall", FOLDED, fold_name(store), "--json").json
    assert len(whole) >= 2
    for word in (fold_name(store)[3:11], fold_name(store)[:11]):
        assert inside(capsys, "recall", FOLDED, word, "--json").json == whole


def test_recall_by_the_beginning_of_an_entrys_name(store, capsys):
    seventh = next(
        each["name"]
        for each in inside(capsys, "show", FOLDED, "--log", "--json").json["entries"]
        if each["said"] == 7
    )
    for word in (seventh, seventh[:11], seventh[3:11]):
        assert "question 3: harbour" in inside(capsys, "recall", FOLDED, word).out
    assert inside(capsys, "recall", FOLDED, "b2:").status == 0
    word = inside(capsys, "recall", FOLDED, "deadbeef")
    assert (word.status, word.err) == (0, "nothing that was said has the words 'deadbeef'\n")


def test_a_beginning_that_several_names_have_is_refused(one_store, capsys):
    with refold.open("long", store=one_store) as session:
        session.say(talk(40))
    names = [each["name"] for each in inside(capsys, "show", "long", "--log", "--json").json["entries"]]
    first = next(name[:4] for name in names if sum(other.startswith(name[:4]) for other in names) > 1)
    done = inside(capsys, "recall", "long", first)
    assert (done.status, done.out) == (1, "")
    assert done.err == f"refold: several entries begin with {first!r}: write more of the name\n"


def test_another_branch_is_found_by_its_name(store, capsys):
    inside(capsys, "rewind", FOLDED, "#4")
    done = inside(capsys, "recall", FOLDED, "question 9", "--limit", "1")
    assert "on another branch, as b2:" in done.out
    name = done.out.split("as ")[1].split()[0]
    assert "question 9" in inside(capsys, "recall", FOLDED, name).out


def test_rewind_and_back(store, capsys):
    before = inside(capsys, "show", FOLDED).out
    done = inside(capsys, "rewind", FOLDED, "half")
    assert done.out.startswith("stands behind #26 now, before it was #27;")
    back = done.out.split("`")[1].split()
    assert back[:3] == ["refold", "rewind", FOLDED]
    assert inside(capsys, *back[1:], "--json").json["said"] == 27
    assert inside(capsys, "show", FOLDED).out == before
    assert inside(capsys, "rewind", FOLDED, "start").status == 0
    assert "0 said" in inside(capsys, "show", FOLDED).out


def test_checkpoints_have_names(store, capsys):
    assert inside(capsys, "checkpoint", FOLDED, "end").out == "checkpoint end stands behind #27\n"
    assert inside(capsys, "checkpoint", FOLDED, "--json").json["checkpoint"] == "checkpoint-3"
    assert inside(capsys, "rewind", FOLDED, "end").status == 0
    inside(capsys, "rewind", FOLDED, "half")
    done = inside(capsys, "rewind", FOLDED, "end")
    assert done.status == 1
    assert done.err.startswith("refold: there is no checkpoint 'end' on this branch; it has 'half'; ")
    inside(capsys, "rewind", FOLDED, "start")
    assert "on this branch; it has none; " in inside(capsys, "rewind", FOLDED, "half").err
    assert inside(capsys, "folds", FOLDED).out == "nothing is folded on this branch\n"


# -- files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["ripple", "neurolink"])
def test_export_and_import_again(form, store, capsys):
    done = inside(capsys, "export", FOLDED, "out", "--form", form)
    assert done.status == 0
    assert done.out.startswith("27 messages written to out: ")
    assert inside(capsys, "import", "copy", "out").out.startswith("27 messages said in copy")
    one = inside(capsys, "show", FOLDED, "--json").json["messages"]
    two = inside(capsys, "show", "copy", "--json").json["messages"]
    assert [each["message"] for each in one] == [each["message"] for each in two]
    again = inside(capsys, "import", "copy", "out")
    assert (again.status, again.err.count("\n")) == (1, 1)


def test_secrets_stay_out_of_an_export(address, capsys, monkeypatch):
    pytest.importorskip("detect_secrets")
    monkeypatch.setenv("REFOLD_STORE", address)
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    saved("a.json", [{"role": "user", "content": f"the token is {secret}"}])
    inside(capsys, "import", "s", "a.json")
    assert inside(capsys, "export", "s", "open").status == 0
    assert inside(capsys, "export", "s", "clean", "--redact").status == 0
    text = {
        name: "".join(path.read_text() for path in Path(name).rglob("*.json*")) for name in ("open", "clean")
    }
    assert secret in text["open"]
    assert secret not in text["clean"]


@pytest.mark.parametrize("file", [LONG, ANTHROPIC], ids=["openai", "anthropic"])
def test_a_list_of_messages_becomes_a_session(file, address, capsys, monkeypatch):
    monkeypatch.setenv("REFOLD_STORE", address)
    done = inside(capsys, "import", "new", file, "--json")
    assert done.status == 0
    value = json.loads(file.read_text())
    messages = value if isinstance(value, list) else value["messages"]
    view = inside(capsys, "show", "new", "--json").json["messages"]
    assert [each["message"] for each in view] == messages
    assert ("left out" in done.err) is isinstance(value, dict)
    again = inside(capsys, "import", "new", file)
    assert (again.status, again.err) == (
        1,
        "refold: session 'new' is there already: import into a new one\n",
    )


def test_a_folder_that_is_no_export(store, capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    done = inside(capsys, "import", "new", "empty")
    assert done.status in {1, 2}
    assert done.err.count("\n") == 1
    assert "new" not in [each["name"] for each in inside(capsys, "sessions", "--json").json["sessions"]]


# -- check and salvage -----------------------------------------------------------------------------------


def damage(address, old, new):
    """Change some bytes of a store's file."""
    scheme, _, path = address.partition(":")
    file = Path(path) if scheme == "sqlite" else next(Path(path).glob("?" * 40 + ".jsonl"))
    raw = file.read_bytes()
    assert old in raw
    file.write_bytes(raw.replace(old, new))


def test_a_sound_store(store, capsys):
    done = inside(capsys, "check")
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith(" entries, 1 session: all sound\n")
    data = inside(capsys, "check", "--json").json
    assert (data["sound"], data["troubles"], data["salvaged"]) == (True, [], None)


@pytest.mark.parametrize("scheme", ["sqlite", "jsonl"])
def test_a_damaged_store_is_told_and_salvaged(scheme, store, capsys, tmp_path):
    damage(store, b"answer 7:", b"answ3r 7:")
    done = inside(capsys, "check")
    assert done.status == 1
    *troubles, verdict = done.out.splitlines()
    assert troubles
    assert all(line.startswith("wrong  ") for line in troubles)
    assert "trouble" in verdict
    new = f"{scheme}:{tmp_path / 'new'}"
    done = inside(capsys, "check", "--salvage", new)
    assert done.status == 1
    assert "lost   task: 1 entry of " in done.out
    assert f" entries of 1 session copied to {new}\n" in done.out
    shown = inside(capsys, "show", FOLDED, "--store", new)
    assert shown.status == 0
    assert inside(capsys, "recall", FOLDED, "question 9", "--store", new).out.startswith("#19 · user · fold")
    again = inside(capsys, "check", "--salvage", new)
    assert again.status == 1
    assert again.err == f"refold: {new} has sessions already: salvage into a new store\n"


def test_a_salvaged_store_as_data(store, capsys, tmp_path):
    told = inside(capsys, "check", "--salvage", f"jsonl:{tmp_path / 'new'}", "--json")
    assert told.status == 0
    assert told.json["salvaged"]["whole"]
    assert told.json["salvaged"]["entries"] == told.json["entries"]
    one = inside(capsys, "show", FOLDED, "--log", "--json").out
    assert (
        inside(capsys, "show", FOLDED, "--log", "--json", "--store", f"jsonl:{tmp_path / 'new'}").out == one
    )


def test_a_store_is_not_salvaged_into_itself(store, capsys):
    done = inside(capsys, "check", "--salvage", store)
    assert done.status == 1
    assert done.err.count("\n") == 1
    assert inside(capsys, "check").status == 0


def test_a_store_that_is_a_directory(capsys, tmp_path):
    done = inside(capsys, "sessions", "--store", f"sqlite:{tmp_path}")
    assert (done.status, done.err) == (1, f"refold: {tmp_path} is a folder: name a file\n")
    saved("file", "text")
    for command in ("sessions", "check"):
        done = inside(capsys, command, "--store", f"jsonl:{tmp_path / 'file'}")
        assert done.status == 1
        assert done.err.count("\n") == 1


def test_a_file_that_is_no_store(capsys):
    saved("text.db", "this is plain text and not a database at all" * 40)
    for command in (["sessions"], ["check"], ["check", "--salvage", "jsonl:new"], ["show", "a"]):
        done = inside(capsys, *command, "--store", "sqlite:text.db")
        assert done.status == 1
        assert "Traceback" not in done.err + done.out


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
def test_a_store_that_may_only_be_read(scheme, capsys, monkeypatch):
    """Plain files can be looked at; SQLite needs to write, and says so."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("REFOLD_STORE", f"{scheme}:{folder}/store")
        fill(f"{scheme}:{folder}/store")
        for args in COMMANDS_OF_A_SESSION[:4]:
            inside(capsys, *with_session(args))  # loads what somebody else may not
        with may_only_read(Path(folder)):
            looked = [inside(capsys, *args) for args in (["sessions"], ["show", FOLDED], ["check"])]
            marked = inside(capsys, "checkpoint", FOLDED)
    assert {done.status for done in looked} == ({0} if scheme == "jsonl" else {1})
    for done in [marked, *(done for done in looked if done.status)]:
        assert (done.status, done.err.count("\n")) == (1, 1)
        assert done.err.startswith("refold: ")


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
    assert (done.status, done.err) == (0, "")
    shown = process("show", "piped", "--format", "openai", env=env)
    assert json.loads(shown.out) == talk(2)
    assert process("measure", "-", "--json", stdin=shown.out.encode()).json["messages"] == 4


def test_nobody_reads_any_more(tmp_path):
    address = f"jsonl:{tmp_path / 'store'}"
    with refold.open("long", store=address) as session:
        session.say(talk(1500))
    with started("show", "long", "--all", "--store", address, stdout=subprocess.PIPE) as program:
        program.stdout.close()
        assert program.wait(60) == 141
        assert program.stderr.read() == b""


def test_ctrl_c_while_salvaging_says_what_is_there(store, capsys, tmp_path, monkeypatch):
    def interrupted(*args, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("refold.cli.commands.check.salvage", interrupted)
    new = f"jsonl:{tmp_path / 'new'}"
    done = inside(capsys, "check", "--salvage", new)
    assert done.status == 130
    assert done.err == f"{new} holds a part: begin again with another new store\nrefold: interrupted\n"
    assert inside(capsys, "check").status == 0


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
    """Three times what is measured on a quiet machine: neither sessions nor stages are loaded for it."""
    assert cpu_seconds("sessions") < 0.4


class Wrecked:
    """A store that tells nothing of itself any more."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def sessions(self):
        raise LogCorrupt("the list of sessions is damaged")

    def check(self):
        yield Defect(session="", what="page 3 is damaged")
        raise LogCorrupt("page 4 is damaged")

    def salvage(self):
        yield next(self._store.salvage())
        raise LogCorrupt("page 4 is damaged")


def test_a_wreck_is_told_and_salvaged_as_far_as_it_goes(one_store, capsys, monkeypatch):
    monkeypatch.setattr("refold.cli.input.stored.open_store", lambda address: Wrecked(open_store(address)))
    done = inside(capsys, "check", "--salvage", "jsonl:new")
    assert done.status == 1
    assert done.out.splitlines() == [
        "wrong  page 3 is damaged",
        "wrong  page 4 is damaged",
        "0 entries, 0 sessions: 2 troubles",
        "lost   task: nobody knows how many entries it had",
        "lost   task: the entry at its head is lost: it stands at the one before now",
        "lost   the rest: page 4 is damaged",
        "1 entry of 1 session copied to jsonl:new",
    ]


# -- small parts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (3_600, "1 hour ago"),
        (86_400 * 2, "2 days ago"),
        (86_400 * 20, "2001-08-20"),
    ],
)
def test_how_long_ago(seconds, words):
    assert ago(1e9 - seconds, 1e9) == words


def test_a_time_of_another_world():
    assert ago(-1e30, 1e9) == "?"


def test_a_snippet_begins_near_the_word():
    assert snippet("short text", "text") == "short text"
    assert snippet("no such word", "x") == "no such word"
    assert "needle" in snippet("hay " * 100 + "needle", "NEEDLE")[:60]


def test_every_part_of_a_message_has_its_line():
    message = Message(
        "user",
        (
            Text("one\ntwo"),
            Thinking("hm"),
            Thinking("", redacted="x"),
            ToolCall("1", "ls", {"p": 1}),
            ToolResult("1", (Text("a"), Image(url="u")), is_error=True),
            Document(title="d.pdf"),
            File(media_type="audio/wav"),
            File(),
            Opaque("new", {"k": 1}),
        ),
    )
    assert list(format_message.lines(message)) == [
        *("one", "two", "(thinking)", "hm", "(thinking)", "(encrypted)"),
        '→ ls {"p": 1}',
        *("← 1 failed", "a", "[image]", "[file: d.pdf]", "[file: audio/wav]", "[file: unnamed]"),
        '{"k": 1}',
    ]
    failed = Message("tool", (ToolResult("1", (Text("a"),), is_error=True),))
    assert list(format_message.lines(failed)) == ["(failed)", "a"]


def test_messages_of_our_own_and_of_no_shape(address, capsys, monkeypatch):
    monkeypatch.setenv("REFOLD_STORE", address)
    with refold.open("own", store=address, format="refold") as session:
        session.say(Message("user", (Text("plain"),)))
    assert inside(capsys, "show", "own", "--all", "--brief").out == "#1 user  plain\n"
    assert inside(capsys, "show", "own", "--format", "openai").json == [{"role": "user", "content": "plain"}]
    assert inside(capsys, "show", "own", "--json").json["messages"][0]["message"]["role"] == "user"
    assert "plain" in inside(capsys, "recall", "own", "#1").out
    assert list(format_message.lines(format_message.parsed(7, "openai"))) == ["7"]
    assert list(format_message.lines(format_message.parsed({"x": 1}, "refold"))) == ['{"x": 1}']


def test_results_as_data(one_store, capsys):
    assert inside(capsys, "folds", FOLDED, "--json").json["folds"][0]["name"] == fold_name(one_store)
    assert inside(capsys, "export", FOLDED, "out", "--json").json["messages"] == 27
    assert inside(capsys, "rewind", FOLDED, "start").status == 0
    again = inside(capsys, "rewind", FOLDED, "start")
    assert again.out == "stands behind #0 now, before it was #0; what came after stays on its own branch\n"
    assert inside(capsys, "show", FOLDED, "--all").out == ""
