"""The real program as a process of its own: pipes, a terminal, Ctrl-C, closed and full outputs, time."""

import contextlib
import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from cli_running import (
    ANTHROPIC,
    LONG,
    PROGRAM,
    ROOT,
    modules_loaded,
    process,
    saved,
    started,
    talk,
    terminal,
)

from forked_program import forking_command
from sample_sizes import sample

REGIONAL = "bedrock/regional.anthropic."
"""The beginning of a name that alone is longer than forty columns, and stays whole."""
TRANSCRIPT = ROOT / "examples" / "transcripts" / "claude-code.jsonl"


def test_the_console_script_and_the_module_are_one_program():
    script = Path(sys.executable).with_name("refold")
    if not script.exists():
        pytest.skip("refold is not installed as a script here")
    ran = subprocess.run([script, "--version"], capture_output=True, check=True, timeout=HANG)
    assert ran.stdout.decode() == process("--version").out


def test_the_package_runs_as_a_program():
    command = [sys.executable, "-m", "refold", "--version"]
    ran = subprocess.run(command, capture_output=True, check=True, timeout=HANG)
    assert ran.stdout.decode() == process("--version").out


def test_a_pipe_is_clean():
    done = process("measure", LONG, "--window", "32k")
    assert done.status == 0
    assert "\x1b" not in done.out
    assert done.err == ""


@pytest.mark.few_values(1)
@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"LANG": "C"}])
def test_a_plain_terminal_shows_the_letters_of_other_languages(env):
    """The stream takes UTF-8: only our own bars and arrows are spelt."""
    shown = terminal("show", saved("talk.json", [{"role": "user", "content": "un café, 漢字"}]), env=env)
    assert "un café, 漢字" in shown.out
    assert "·" not in shown.out


def test_standard_input_and_commands_joined_by_pipes():
    shorter = process("compact", "-", "--window", "32k", stdin=ANTHROPIC.read_bytes())
    assert shorter.status == 0
    checked = process("validate", "-", "--format", "anthropic", stdin=shorter.out.encode())
    assert checked.status == 0
    assert checked.out.startswith("yes: anthropic")


def test_a_terminal_shows_colours_and_a_bar():
    done = terminal("measure", LONG, "--window", "128k")
    assert done.status == 0
    assert "\x1b[31m█" in done.out
    assert "▲" in done.out


@pytest.mark.parametrize(
    ("env", "colour", "bar"),
    [
        ({"NO_COLOR": "1"}, False, "█"),
        ({"TERM": "dumb"}, False, "[###"),
        ({"LANG": "C"}, True, "[\x1b[31m###"),
    ],
)
def test_a_terminal_that_shows_less(env, colour, bar):
    done = terminal("measure", LONG, "--window", "128k", env=env)
    assert ("\x1b" in done.out) is colour
    assert bar in done.out
    if "LANG" in env or "TERM" in env:
        assert done.out.isascii()


def test_no_color_as_an_option():
    assert "\x1b" not in terminal("--no-color", "measure", LONG).out


@pytest.mark.parametrize("columns", sample([40, 60], 1))
@pytest.mark.parametrize(
    "args",
    [
        ["plan", LONG, "--policy", "all", "--window", "32k"],
        ["measure", LONG, "--window", "32k"],
        ["replay", TRANSCRIPT, "--policy", "refold", "--window", "2k", "--price-of", "gpt-4o"],
        ["sessions", "--agent", "all"],
        ["config"],
        ["models", "claude-sonnet-4-6"],
        ["diff", TRANSCRIPT],
        ["measure", "nowhere/in/this/folder.json"],
    ],
    ids=lambda args: args[0],
)
def test_lines_fit_on_the_terminal(columns, args):
    """A table loses no cell for it: what does not fit stands below its row."""
    projects = Path(os.environ["HOME"]) / ".claude" / "projects" / "-work"
    projects.mkdir(parents=True)
    shutil.copy(TRANSCRIPT, projects / "0b5d7a1e-1111-4222-8333-444444444444.jsonl")
    shown = re.sub(r".*\x1b\[2K|\x1b\[[0-9;]*m", "", terminal(*args, columns=columns).out)
    assert max(map(len, shown.replace(REGIONAL, "").splitlines())) <= columns
    if args[0] in {"plan", "sessions", "config"}:
        assert set(re.findall(r"\d[\d,.]+", process(*args).out)) <= set(re.findall(r"\d[\d,.]+", shown))


def test_errors_are_red_on_a_terminal():
    assert terminal("measure", "none.json").out == "\x1b[31mrefold: there is no file none.json\x1b[0m\n"


def test_long_reading_shows_progress_on_a_terminal():
    big = saved("big.json", json.dumps([{"role": "user", "content": "x" * 1000}] * 21_000))
    shown = terminal("measure", big, "--window", "1m")
    assert "reading big.json" in shown.out
    assert "\r\x1b[2K" in shown.out
    assert shown.out.split("\r\x1b[2K")[-1].startswith("\x1b[1mbig.json")


def test_anything_that_takes_longer_than_a_second_says_so_on_a_terminal():
    """The input comes only after the line was seen; nothing of it is left beside the result."""
    master, slave = pty.openpty()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*PROGRAM, "validate", "-"], stderr=slave, **pipes) as program:
        os.close(slave)
        shown = b""
        while b"s)" not in shown:
            shown += os.read(master, 1 << 16)
        assert re.fullmatch(rb"(\r\x1b\[2Krefold validate \(\d+ s\))+", shown)
        out, _ = program.communicate(json.dumps(talk()).encode(), timeout=HANG)
        with contextlib.suppress(OSError):  # the other side closed it
            while block := os.read(master, 1 << 16):
                shown += block
    os.close(master)
    assert program.returncode == 0
    assert out == b"yes: openai would take these 6 messages\n"
    assert shown.endswith(b"\r\x1b[2K")


def test_nobody_reads_any_more():
    with started("models", stdout=subprocess.PIPE) as program:
        program.stdout.close()
        assert program.wait(HANG) == 141
        assert program.stderr.read() == b""


def test_the_first_line_is_enough():
    command = f"{sys.executable} -m refold.cli models | head -1"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, timeout=HANG, check=True)
    assert ran.stdout.startswith(b"model")
    assert ran.stderr == b""


@pytest.mark.parametrize("where", ["/dev/full", "&-"])
def test_an_output_that_takes_nothing_is_told(where):
    if where == "/dev/full" and not Path(where).exists():
        pytest.skip("this system has no /dev/full")
    saved("a.json", talk(1))
    for args in sample(("measure a.json", "compact a.json", "--help", "plan --help", "--version"), 3):
        command = f"{sys.executable} -m refold.cli {args} >{where}"
        ran = subprocess.run(["sh", "-c", command], capture_output=True, timeout=HANG, check=False)
        assert ran.returncode == 1
        said = ran.stderr.decode().splitlines()
        assert [line for line in said if line.startswith("refold: ")]
        assert "Traceback" not in ran.stderr.decode()


def test_an_error_that_nobody_can_read_keeps_its_status():
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    for args, status in (("measure nofile 2>/dev/full", 2), ("models >/dev/full 2>/dev/full", 1)):
        command = f"{sys.executable} -m refold.cli {args}"
        assert subprocess.run(["sh", "-c", command], timeout=HANG, check=False).returncode == status


def test_a_note_that_nobody_can_read_stops_no_work():
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    saved("a.json", talk(2))
    for args, said in (
        ("import new a.json --store sqlite:new.db", "4 messages said in new"),
        ("sessions --store sqlite:new.db", "new"),
        ("measure a.json --model nobody-knows --json", '"window": 128000'),
        ("chat --model http://127.0.0.1:9/v1#nobody --store memory: </dev/null", ""),
    ):
        command = f"{shlex.join(forking_command())} {args} 2>/dev/full"
        ran = subprocess.run(["sh", "-c", command], capture_output=True, timeout=HANG, check=False)
        assert (ran.returncode, said in ran.stdout.decode()) == (0, True), args


HANG = 300
"""Seconds after which a test gives up; only a hang takes so long, also on a busy machine."""


def wait_until(condition) -> None:
    """Wait for something that another process does."""
    for _ in range(HANG * 50):
        if condition():
            return
        time.sleep(0.02)
    pytest.fail("it never happened")


def test_ctrl_c_while_a_model_answers_leaves_nothing_half(tmp_path):
    saved("large.json", talk(60, "some words that fill the window quite quickly " * 8))
    saved(
        "model.py",
        "import os, time\nopen('pid', 'w').write(str(os.getpid()))\nos.rename('pid', 'pid.txt')\ntime.sleep(600)",
    )
    args = (
        "compact",
        "large.json",
        "--window",
        "8k",
        "-o",
        "out.json",
        "--ask",
        f"{sys.executable} model.py",
    )
    with started(*args) as program:
        wait_until((tmp_path / "pid.txt").exists)
        program.send_signal(signal.SIGINT)
        assert program.wait(HANG) == 130
        assert program.stderr.read().decode() == "refold: interrupted\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large.json", "model.py", "pid.txt"]
    pid = int((tmp_path / "pid.txt").read_text())
    wait_until(lambda: _is_over(pid))  # the system ends it after the signal, not at once


def _is_over(pid: int) -> bool:
    """Whether a process is gone, or dead and only not yet collected by whoever inherited it."""
    told = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False, timeout=HANG
    )
    return told.stdout.strip() in {b"", b"Z", b"Zs"}


def test_ctrl_c_is_heeded_before_anything_else_is_loaded():
    """What takes time is loaded inside of `main`, where Ctrl-C is one line and 130."""
    code = (
        "import sys; before = set(sys.modules); import refold.cli; print(*sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-S", "-c", code]
    env = {"PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(command, capture_output=True, check=True, timeout=HANG, env=env)
    assert ran.stdout.decode().split() == ["gc", "refold", "refold.cli"]


def test_ctrl_c_while_the_program_is_loaded():
    code = (
        "import sys; from refold.cli import main\n"
        "class Pressed:\n"
        "    def find_spec(self, *_): raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed()); sys.exit(main(['--version']))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=HANG)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, b"", b"refold: interrupted\n")


def test_ctrl_c_while_reading():
    reader, writer = os.pipe()
    with started("measure", "-", stdin=reader) as program:
        os.write(writer, b"[")
        # The pipe is empty when the program has read it and waits for more.
        wait_until(lambda: fcntl.ioctl(reader, termios.FIONREAD, b"\0" * 4) == b"\0" * 4)
        program.send_signal(signal.SIGINT)
        assert program.wait(HANG) == 130
        assert b"Traceback" not in program.stderr.read()
    os.close(reader)
    os.close(writer)


def test_a_closed_standard_input_is_told():
    command = f"{sys.executable} -m refold.cli measure - <&-"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, timeout=HANG, check=False)
    assert ran.returncode == 2
    assert ran.stderr.decode().startswith("refold: ")
    assert ran.stderr.decode().count("\n") == 1


def test_help_starts_at_once():
    """surface.md promises an instant start: help imports the program and its output, and nothing else."""
    loaded = modules_loaded("--help")
    allowed = ("refold.cli", "refold.errors", "refold._")
    assert [name for name in loaded if "." in name and not name.startswith(allowed)] == []


def test_a_megabyte_is_measured_without_what_only_sessions_need():
    """A transcript of 1 MB is measured; no session, store, client or stage is loaded for it."""
    messages = json.loads(LONG.read_text())
    saved("megabyte.json", json.dumps([messages[0], *(messages[1:] * 3)]))
    assert Path("megabyte.json").stat().st_size > 1_000_000
    loaded = modules_loaded("measure", "megabyte.json", "--window", "128k")
    heavy = ("refold.session", "refold.stores", "refold.clients", "refold.chat", "refold.stages")
    heavy += ("refold.policies.systems", "refold.core.facts", "refold.core.outputs", "refold.core.summaries")
    heavy += ("refold.transcripts.agents.codex", "refold.transcripts.find_sessions", "refold.formats.gemini")
    assert [name for name in loaded if name.startswith(heavy)] == []


def test_the_size_of_a_transcript_loads_no_sessions():
    """What its reports tell is found without the sessions that a replay needs."""
    loaded = modules_loaded("measure", LONG.parent / "transcripts" / "claude-code.jsonl")
    assert "refold.replay.recorded" in loaded
    assert not {"refold.session", "refold.redaction", "refold.replay.player"} & loaded
