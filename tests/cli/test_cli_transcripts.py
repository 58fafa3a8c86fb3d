"""The terminal program on transcripts: every command that takes a file takes them, and none changes them."""

import json
import os
import re
import shutil
import threading
from pathlib import Path

import pytest
from cli_running import ROOT, process, run_cli

import refold

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


@pytest.mark.few_values(2)
@pytest.mark.parametrize("name", FILES)
def test_every_command_takes_every_transcript_and_changes_none(files, name):
    path = files / name
    before = path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode
    for command in COMMANDS:
        done = run_cli(*(name if word == "FILE" else word for word in command))
        assert done.status == 0, (command, done.err)
        assert "fault" not in done.err
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode) == before


@pytest.mark.parametrize("name", FILES)
def test_measure_tells_what_is_looked_at(files, name):
    """With a window, so that no note about a model whose window is unknown stands among the lines."""
    seen = run_cli("measure", name, "--window", "200k", "--json")
    whole = run_cli("measure", name, "--window", "200k", "--whole", "--json")
    assert seen.json["messages"] < whole.json["messages"]
    agent = name.partition(".")[0]
    assert seen.err.startswith(f"{agent}: {whole.json['messages']} messages, 1 own compaction, ")
    assert (
        f"\nread as its model saw it last, {seen.json['messages']} messages; --whole reads all\n" in seen.err
    )
    assert "\nread as a whole, with everything that was said\n" in whole.err
    assert max(map(len, (seen.err + whole.err).splitlines())) <= 80
    assert seen.json["model"] is not None


def test_measure_counts_from_the_number_that_was_reported_last(files):
    """The agent's system prompt and tools are not in the file, and the report has them."""
    done = run_cli("measure", "claude-code.jsonl")
    words = " ".join(done.out.split())
    told = re.search(
        r"used ([\d,]+) tokens, from the ([\d,]+) reported last \(in the file\) and an estimate", words
    )
    used, reported = (int(number.replace(",", "")) for number in told.groups())
    assert f"{reported:,} tokens reported last" in done.err
    counted = run_cli("measure", "claude-code.jsonl", "--usage", "none", "--json").json
    assert counted["count_source"] == "estimate"
    assert reported < used < reported + counted["used"]
    measured = run_cli("measure", "claude-code.jsonl", "--json").json
    assert measured["count_source"] == "usage+estimate"
    assert measured["used"] == used == sum(measured["breakdown"].values())
    given = " ".join(run_cli("measure", "claude-code.jsonl", "--usage", "9000").out.split())
    assert "from the 9,000 reported last (given)" in given


def test_a_system_prompt_that_only_reports_show_is_not_folded_away(tmp_path):
    """Reports of 25,000 tokens and 1.3 for each of ours: the first part stays, whatever is folded."""
    lines, sent = [], 0
    for turn in range(40):
        said = f"Part {turn}: " + f"the crane at berth {turn} lifts slowly today. " * 40
        lines.append({"type": "user", "message": {"role": "user", "content": said}})
        sent += refold.count([lines[-1]["message"]])
        usage = {"input_tokens": 25_000 + round(1.3 * sent), "output_tokens": 5}
        answer = {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "id": f"m{turn}"}
        sent += refold.count([answer])
        lines.append({"type": "assistant", "message": {**answer, "model": "claude-opus-4-6", "usage": usage}})
    about = {"sessionId": UUID, "version": "2", "cwd": "/w", "timestamp": "2026-01-01T00:00:00Z"}
    ids = [f"{at:08d}-1111-4222-8333-444444444444" for at in range(len(lines))]
    rows = [
        {**line, **about, "uuid": ids[at], "parentUuid": ids[at - 1] if at else None}
        for at, line in enumerate(lines)
    ]
    Path("s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reported = 25_000 + 1.3 * sent
    measured = run_cli("measure", "s.jsonl", "--json").json
    assert measured["used"] == pytest.approx(reported, rel=0.02)
    assert measured["breakdown"]["system"] == pytest.approx(25_000 / 1.3, rel=0.03)
    assert "not in the list" in run_cli("measure", "s.jsonl").out
    folded = run_cli("compact", "s.jsonl", "--target", "30k", "--json").json
    left = refold.count(json.loads(run_cli("compact", "s.jsonl", "--target", "30k").out))
    assert 28_000 < 25_000 + 1.3 * left < 31_000
    assert folded["tokens_after"] <= 30_000
    hopeless = run_cli("plan", "s.jsonl", "--window", "18k").out
    assert "does not fit" in hopeless


def test_measure_says_why_it_does_not_count_from_the_reported_number(files):
    """Of the whole transcript only a part was sent, and in another shape the messages are others."""
    why = "tokens, by estimate: what was reported last is not the size of these messages"
    for option in (["--whole"], ["--format", "openai"]):
        assert why in " ".join(run_cli("measure", "claude-code.jsonl", *option).out.split())


def test_plan_and_compact_start_where_measure_does(files):
    window = ("--window", "16k")
    used = run_cli("measure", "claude-code.jsonl", *window, "--json").json["used"]
    assert run_cli("plan", "claude-code.jsonl", *window, "--json").json["tokens_before"] == used
    assert run_cli("compact", "claude-code.jsonl", *window, "--json").json["tokens_before"] == used


def test_imported_with_their_own_folds_they_can_be_unfolded(files):
    told = run_cli("import", "task", "claude-code.jsonl", "--store", "sqlite:work.db")
    assert told.out == "24 messages said and 1 fold in task; `refold show` shows it\n"
    store = ("--store", "sqlite:work.db")
    folds = run_cli("folds", "task", *store, "--json").json["folds"]
    assert [(fold["tokens_before"], fold["tokens_after"]) for fold in folds] == [(6200, 1400)]
    assert run_cli("show", "task", *store, "--json").json["seen"] == 9
    assert run_cli("unfold", "task", *store).status == 0
    assert run_cli("show", "task", *store, "--json").json["seen"] == 24


@pytest.mark.parametrize("name", FILES)
def test_an_import_keeps_the_model_and_what_its_provider_reported(files, name):
    store = ("--store", "sqlite:work.db")
    run_cli("import", "task", name, *store)
    read, kept = (
        run_cli("measure", *what, "--json").json for what in ([name], ["--session", "task", *store])
    )
    assert [kept[key] for key in ("model", "window", "count_source")] == [
        read[key] for key in ("model", "window", "count_source")
    ]
    assert kept["used"] == pytest.approx(read["used"], rel=0.05)
    reports = [usage for _, usage in refold.transcripts.read(name).usages]
    (listed,) = run_cli("sessions", *store, "--json").json["sessions"]
    assert listed["spent"]["calls"] == len(reports)
    assert listed["spent"]["input"] == sum(usage.input for usage in reports)


def test_a_report_from_before_the_last_compaction_tells_the_model_and_no_size(files):
    lines = Path("claude-code.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    end = next(n for n, line in enumerate(lines) if '"isCompactSummary":true' in line.replace(" ", ""))
    Path("cut.jsonl").write_text("".join(lines[: end + 1]), encoding="utf-8")
    run_cli("import", "task", "cut.jsonl", "--store", "sqlite:work.db")
    kept = run_cli("measure", "--session", "task", "--store", "sqlite:work.db", "--json").json
    assert kept["model"] == "claude-sonnet-4-5"
    assert kept["used"] == sum(kept["breakdown"].values())


def test_an_import_is_as_full_as_the_file(files):
    """Reports are scaled by the count of the model that they are of."""
    run_cli("import", "task", "claude-code.jsonl", "--store", "sqlite:work.db")
    measured = run_cli("measure", "claude-code.jsonl", "--json").json
    with refold.open("task", store="sqlite:work.db", model=measured["model"]) as session:
        used = session.budget().used
        estimate = session.log()[-1].value["estimate"]
        assert estimate == refold.count(session.view()[: len(session.view()) - 1], model=session.model)
    assert abs(used - measured["used"]) < 0.05 * used


def test_in_another_shape_the_messages_alone_are_imported_and_that_is_said(files):
    told = run_cli(
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
    plain = run_cli("import", "codex", "codex.jsonl", "--store", "sqlite:work.db")
    assert "left out: the system prompt" in plain.err


def test_recall_finds_what_the_agent_folded_away(files):
    hits = run_cli("recall", "pi.jsonl", "gauges.toml", "--json").json["hits"]
    assert hits[0]["folded"] is True


def test_a_transcript_is_never_replaced(files):
    done = run_cli("compact", "codex.jsonl", "--force", "--in-place")
    assert done.status == 2
    assert "is a transcript and is never changed: use -o" in done.err
    assert run_cli("unfold", "codex.jsonl").status == 1
    assert run_cli("compact", "codex.jsonl", "-o", "shorter.json").status == 0
    assert isinstance(json.loads((files / "shorter.json").read_text()), list)


def test_sessions_of_agents_are_listed_and_named(used):
    done = run_cli("sessions", "--agent", "claude-code")
    head, row = done.out.splitlines()
    assert head.split() == ["session", "changed", "messages", "tokens", "folds", "model", "folder", "title"]
    assert row.split()[0] == "claude-code:0b5d7a1e"
    assert row.endswith("24   2,454      1  claude-sonnet-4-5  tidewatch  Late gauges")
    found = run_cli("sessions", "--agent", "all", "--json").json["sessions"]
    assert [one["name"] for one in found] == [f"claude-code:{UUID}"]
    assert run_cli("measure", "claude-code:0b5d", "--json").json["messages"] == 9
    assert run_cli("show", "claude-code:latest", "--json").json["said"] == 24
    assert run_cli("recall", "claude-code:0b5d7a1e", "#1").status == 0


@pytest.mark.parametrize("command", [["show"], ["show", "--all"], ["folds"], ["recall", "tide"]])
def test_a_stored_session_with_the_name_of_an_agents_is_read_from_the_store(used, tmp_path, command):
    """The gateway names sessions so; the agent's own transcript of that name may be here too."""
    address, name = f"sqlite:{tmp_path / 'gateway.db'}", f"claude-code:{UUID}"
    with refold.open(name, store=address) as session:
        session.say("When is low tide?")
    word, *rest = command
    done = run_cli(word, name, *rest, "--store", address, "--json")
    assert done.status == 0
    assert len(done.out) < 2_000  # the transcript has 24 messages
    assert run_cli("show", name, "--json").json["said"] == 24


def test_lists_that_make_no_sense_are_refused(used):
    for args, why in (
        (("--agent", "nobody"), "no agent is named 'nobody'"),
        (("--agent", "pi", "--store", "sqlite:x.db"), "--agent and --store exclude each other"),
        (("--agent", "pi", "--limit", "-1"), "0 for all"),
    ):
        done = run_cli("sessions", *args)
        assert done.status == 2
        assert why in done.err
    assert run_cli("sessions", "--agent", "pi").out == "no sessions of pi were found on this machine\n"
    done = run_cli("measure", "claude-code:zzz")
    assert done.status == 2
    assert "no session of claude-code begins with 'zzz'" in done.err


def test_a_damaged_file_is_read_and_its_problems_are_told(files):
    path = files / "claude-code.jsonl"
    raw = path.read_bytes()
    end = raw.index(b"\n", 6000)  # a stretch is lost that holds the end of a line
    path.write_bytes(raw[:3000] + b"\0\0\0" + raw[3000 : end - 10] + raw[end + 4 : -20])
    done = run_cli("validate", "claude-code.jsonl", "--json")
    assert len(done.json["file_problems"]) >= 3
    assert "the file: line" in done.err
    assert "problems more" in done.err or done.err.count("the file:") <= 3
    assert "refold: note: claude-code.jsonl: line" in run_cli("show", "claude-code.jsonl", "--brief").err


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


def test_a_file_that_may_not_be_read_says_so(files, monkeypatch):
    monkeypatch.setattr(
        "refold.cli.input.sources.detect_agent", lambda _name: (_ for _ in ()).throw(PermissionError())
    )
    assert run_cli("measure", "sharegpt.json").status == 0
    assert run_cli("show", "x/" + "y" * 5000).status == 2


def test_data_sets_and_conversations_by_number(files):
    assert run_cli("measure", "sharegpt.json", "--json").json["messages"] == 12
    talk = {"messages": [{"role": "user", "content": "hi"}]}
    (files / "many.jsonl").write_text(f"{json.dumps(talk)}\n{json.dumps(talk)}\n")
    assert run_cli("measure", "many.jsonl#2", "--json").json["messages"] == 1
    done = run_cli("measure", "many.jsonl")
    assert done.status == 2
    assert "holds 2 conversations: name one of them, from FILE#1 to FILE#2" in done.err
    assert run_cli("measure", "many.jsonl#3").err == done.err.replace("jsonl:", "jsonl#3:")
    done = run_cli("compact", "sharegpt.json", "--force")
    assert json.loads(done.out)[0]["role"] == "user"


def test_a_conversation_by_number_has_its_system_prompt_in_front(files):
    """A list of its own and one of several are the same session: the system prompt has no number."""
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    (files / "alone.json").write_text(json.dumps(said))
    (files / "several.json").write_text(json.dumps([{"messages": said}, {"messages": said}]))
    alone, second = (run_cli("show", name, "--json").json for name in ("alone.json", "several.json#2"))
    assert (second["said"], second["messages"]) == (alone["said"], alone["messages"])
    assert second["messages"][0] == {"handle": None, "message": said[0]}


def test_validate_converts_to_the_shape_that_is_asked_for(files):
    done = run_cli("validate", "claude-code.jsonl", "--format", "openai")
    assert (done.status, "openai would take these" in done.out) == (0, True)


def test_a_transcript_without_words_is_refused(files):
    (files / "empty.jsonl").write_text('{"type": "summary", "summary": "x", "leafUuid": "y"}\n')
    done = run_cli("measure", "empty.jsonl")
    assert done.status == 2
    assert "holds no messages of claude-code: nothing was said in it yet" in done.err


def test_a_file_that_is_a_session_and_a_session_that_is_no_file(files):
    done = run_cli("show", "nowhere.jsonl")
    assert done.status == 2
    assert done.err == "refold: there is no file nowhere.jsonl\n"
    (files / "plain.json").write_text('[{"role": "user", "content": "hi"}]')
    assert run_cli("show", "./plain.json", "--json").json["said"] == 1
