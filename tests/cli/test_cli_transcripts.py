"""The terminal program on transcripts: every command that takes a file takes them, and none changes them."""

import json
import os
import shutil
import sys
import threading
from pathlib import Path

import pytest
from cli_running import PROGRAM, ROOT, inside, process

EXAMPLES = ROOT / "examples" / "transcripts"
FILES = ["claude-code.jsonl", "codex.jsonl", "opencode.json", "pi.jsonl", "gemini-cli.jsonl"]
UUID = "0b5d7a1e-1111-4222-8333-444444444444"


@pytest.fixture
def files(tmp_path):
    """Copies of the examples, with a time of their own."""
    for name in [*FILES, "sharegpt.json"]:
        shutil.copy(EXAMPLES / name, tmp_path / name)
        os.utime(tmp_path / name, (1000, 1000))
    return tmp_path


@pytest.fixture
def used(tmp_path):
    """A home folder in which Claude Code was used."""
    folder = Path(os.environ["HOME"]) / ".claude" / "projects" / "-work"
    folder.mkdir(parents=True)
    shutil.copy(EXAMPLES / "claude-code.jsonl", folder / f"{UUID}.jsonl")
    return folder


COMMANDS = [
    ("measure", "FILE"),
    ("measure", "FILE", "--whole", "--json"),
    ("plan", "FILE", "--window", "4k"),
    ("compact", "FILE", "--json"),
    ("validate", "FILE", "--json"),
    ("show", "FILE"),
    ("show", "FILE", "--all", "--brief"),
    ("show", "FILE", "--log"),
    ("show", "FILE", "--format", "openai"),
    ("recall", "FILE", "gauges"),
    ("recall", "FILE", "#1-#2", "--json"),
    ("diff", "FILE"),
    ("folds", "FILE", "--json"),
    ("import", "task", "FILE", "--store", "sqlite:work.db"),
    ("export", "FILE", "out"),
]


@pytest.mark.parametrize("name", FILES)
def test_every_command_takes_every_transcript_and_changes_none(files, capsys, name):
    path = files / name
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode
    for command in COMMANDS:
        done = inside(capsys, *(name if word == "FILE" else word for word in command))
        assert done.status == 0, (command, done.err)
        assert "fault" not in done.err
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode) == before


@pytest.mark.parametrize("name", FILES)
def test_measure_tells_what_is_looked_at(files, capsys, name):
    seen = inside(capsys, "measure", name, "--json")
    whole = inside(capsys, "measure", name, "--whole", "--json")
    assert seen.json["messages"] < whole.json["messages"]
    agent = name.partition(".")[0]
    assert seen.err.startswith(f"{agent}: {whole.json['messages']} messages, 1 own compaction, ")
    assert (
        f"\ntaken as its model saw it last, {seen.json['messages']} messages; --whole takes all\n" in seen.err
    )
    assert "\ntaken as a whole, with everything that was said\n" in whole.err
    assert max(map(len, (seen.err + whole.err).splitlines())) <= 80
    assert seen.json["model"] is not None


def test_imported_with_their_own_folds_they_can_be_unfolded(files, capsys):
    told = inside(capsys, "import", "task", "claude-code.jsonl", "--store", "sqlite:work.db")
    assert told.out == "24 messages said and 1 fold in task; `refold show` shows it\n"
    store = ("--store", "sqlite:work.db")
    folds = inside(capsys, "folds", "task", *store, "--json").json["folds"]
    assert [(fold["tokens_before"], fold["tokens_after"]) for fold in folds] == [(6200, 1400)]
    assert inside(capsys, "show", "task", *store, "--json").json["seen"] == 9
    assert inside(capsys, "unfold", "task", *store).status == 0
    assert inside(capsys, "show", "task", *store, "--json").json["seen"] == 24


def test_in_another_shape_the_messages_alone_are_imported_and_that_is_said(files, capsys):
    told = inside(
        capsys,
        "import",
        "task",
        "claude-code.jsonl",
        "--format",
        "openai",
        "--store",
        "sqlite:work.db",
        "--json",
    )
    assert told.json["folds"] == 0
    assert "left out: the compactions of claude-code" in told.err
    plain = inside(capsys, "import", "codex", "codex.jsonl", "--store", "sqlite:work.db")
    assert "left out: the system prompt" in plain.err


def test_recall_finds_what_the_agent_folded_away(files, capsys):
    hits = inside(capsys, "recall", "pi.jsonl", "gauges.toml", "--json").json["hits"]
    assert hits[0]["folded"] is True


def test_a_transcript_is_never_replaced(files, capsys):
    done = inside(capsys, "compact", "codex.jsonl", "--force", "--in-place")
    assert done.status == 2
    assert "is a transcript, which stays as it is: use -o" in done.err
    assert inside(capsys, "unfold", "codex.jsonl").status == 1
    assert inside(capsys, "compact", "codex.jsonl", "-o", "shorter.json").status == 0
    assert isinstance(json.loads((files / "shorter.json").read_text()), list)


def test_sessions_of_agents_are_listed_and_named(used, capsys):
    done = inside(capsys, "sessions", "--agent", "claude-code")
    head, row = done.out.splitlines()
    assert head.split() == ["session", "changed", "messages", "tokens", "folds", "model", "folder", "title"]
    assert row.split()[0] == "claude-code:0b5d7a1e"
    assert row.endswith("24   2,454      1  claude-sonnet-4-5  tidewatch  Late gauges")
    found = inside(capsys, "sessions", "--agent", "all", "--json").json["sessions"]
    assert [one["name"] for one in found] == [f"claude-code:{UUID}"]
    assert inside(capsys, "measure", "claude-code:0b5d", "--json").json["messages"] == 9
    assert inside(capsys, "show", "claude-code:latest", "--json").json["said"] == 24
    assert inside(capsys, "recall", "claude-code:0b5d7a1e", "#1").status == 0


def test_lists_that_make_no_sense_are_refused(used, capsys):
    for args, why in (
        (("--agent", "nobody"), "no agent is named 'nobody'"),
        (("--agent", "pi", "--store", "sqlite:x.db"), "--agent and --store exclude each other"),
        (("--agent", "pi", "--limit", "-1"), "0 for all"),
    ):
        done = inside(capsys, "sessions", *args)
        assert done.status == 2
        assert why in done.err
    assert inside(capsys, "sessions", "--agent", "pi").out == "no sessions of pi were found on this machine\n"
    done = inside(capsys, "measure", "claude-code:zzz")
    assert done.status == 2
    assert "no session of claude-code begins with 'zzz'" in done.err


def test_a_damaged_file_is_read_and_its_problems_are_told(files, capsys):
    path = files / "claude-code.jsonl"
    raw = path.read_bytes()
    end = raw.index(b"\n", 6000)  # a stretch is lost that holds the end of a line
    path.write_bytes(raw[:3000] + b"\0\0\0" + raw[3000 : end - 10] + raw[end + 4 : -20])
    done = inside(capsys, "validate", "claude-code.jsonl", "--json")
    assert len(done.json["file_problems"]) >= 3
    assert "the file: line" in done.err
    assert "problems more" in done.err or done.err.count("the file:") <= 3
    assert (
        "refold: note: claude-code.jsonl: line" in inside(capsys, "show", "claude-code.jsonl", "--brief").err
    )


def test_a_transcript_comes_through_a_pipe(files):
    raw = (files / "claude-code.jsonl").read_bytes()
    done = process("measure", "-", "--json", stdin=raw)
    assert done.json["messages"] == 9
    done = process("show", "-", "--json", stdin=raw)
    assert done.json["said"] == 24


def test_a_transcript_comes_through_a_pipe_with_a_name(files):
    """`refold measure <(cat ...)`: a pipe is no file, and is read all the same."""
    pipe = files / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes((files / "codex.jsonl").read_bytes()))
    writer.start()
    done = process("measure", "pipe", "--json", "--whole")
    writer.join()
    assert done.json["messages"] == 31
    assert "is a directory: name a file in it" in process("measure", ".").err


def test_a_file_that_may_not_be_read_says_so(files, capsys, monkeypatch):
    monkeypatch.setattr(
        "refold.cli.input.recorded.whose", lambda _name: (_ for _ in ()).throw(PermissionError())
    )
    assert inside(capsys, "measure", "sharegpt.json").status == 0
    assert inside(capsys, "show", "x/" + "y" * 5000).status == 1


def test_data_sets_and_conversations_by_number(files, capsys):
    assert inside(capsys, "measure", "sharegpt.json", "--json").json["messages"] == 12
    talk = {"messages": [{"role": "user", "content": "hi"}]}
    (files / "many.jsonl").write_text(f"{json.dumps(talk)}\n{json.dumps(talk)}\n")
    assert inside(capsys, "measure", "many.jsonl#2", "--json").json["messages"] == 1
    done = inside(capsys, "measure", "many.jsonl")
    assert done.status == 2
    assert "holds 2 conversations: name one of them, as in FILE#1" in done.err
    done = inside(capsys, "compact", "sharegpt.json", "--force")
    assert json.loads(done.out)[0]["role"] == "user"


def test_validate_converts_to_the_shape_that_is_asked_for(files, capsys):
    done = inside(capsys, "validate", "claude-code.jsonl", "--format", "openai")
    assert (done.status, "openai would take these" in done.out) == (0, True)


def test_a_transcript_without_words_is_refused(files, capsys):
    (files / "empty.jsonl").write_text('{"type": "summary", "summary": "x", "leafUuid": "y"}\n')
    done = inside(capsys, "measure", "empty.jsonl")
    assert done.status == 2
    assert "holds no messages of claude-code: nothing was said in it yet" in done.err


def test_a_file_that_is_a_session_and_a_session_that_is_no_file(files, capsys):
    done = inside(capsys, "show", "nowhere.jsonl")
    assert done.status == 1
    assert "there is no store" in done.err
    (files / "plain.json").write_text('[{"role": "user", "content": "hi"}]')
    assert inside(capsys, "show", "./plain.json", "--json").json["said"] == 1


def test_one_megabyte_is_measured_within_half_a_second_of_cpu(tmp_path):
    """The best of three, as the machine may be busy; with the start of Python and everything."""
    lines = (EXAMPLES / "claude-code.jsonl").read_text().splitlines()
    talk = [
        json.loads(line)
        for line in lines
        if '"isCompactSummary"' not in line and "compact_boundary" not in line
    ]
    path, parent, size, number = tmp_path / "large.jsonl", None, 0, 0
    with path.open("w") as file:
        while size < 1_000_000:
            one = dict(talk[number % len(talk)])
            if "uuid" in one:
                one |= {"uuid": f"u{number}", "parentUuid": parent}
                parent = one["uuid"]
                if one["type"] == "assistant":
                    one["message"] = {**one["message"], "id": f"m{number // 3}"}
                one["message"] = (
                    {**one["message"], "content": one["message"]["content"]} if "message" in one else None
                )
                if one["message"] is None:
                    del one["message"]
            number += 1
            text = json.dumps(one) + "\n"
            size += len(text)
            file.write(text)
    code = "import os, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False); t = os.times(); print(t.children_user + t.children_system)"
    import subprocess

    best = min(
        float(
            subprocess.run(
                [sys.executable, "-c", code, *PROGRAM, "measure", str(path)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for _ in range(3)
    )
    assert best < 0.5 * 3, f"{best:.2f} s; three times the promise, for a machine that is shared"
