"""What every command has in common with other programs of a shell: help, pipes, plain terminals, statuses."""

import os
import re
import subprocess

import pytest
from cli_running import COMMANDS, parser_of, process, run_cli, saved, start, talk

PLAIN = {"LANG": "C", "LC_ALL": "C", "NO_COLOR": "1"}
LOOKS = {
    "measure": ("measure", "talk.json", "--window", "8k"),
    "plan": ("plan", "talk.json", "--window", "8k"),
    "validate": ("validate", "talk.json"),
    "models": ("models", "gpt-4o"),
    "sessions": ("sessions", "--store", "sqlite:store.db"),
    "show": ("show", "task", "--store", "sqlite:store.db"),
    "folds": ("folds", "task", "--store", "sqlite:store.db"),
    "recall": ("recall", "task", "question", "--store", "sqlite:store.db"),
    "config": ("config",),
    "completion": ("completion", "fish"),
}
"""Commands that only look."""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_like_a_manual(command):
    """Usage, a sentence, every option with words, examples that begin with the program's name."""
    told = run_cli(command, "--help")
    assert (told.status, told.err) == (0, "")
    assert told.out.startswith(f"usage: refold {command}")
    examples = told.out.rpartition("examples:")[2]
    lines = [line for line in examples.splitlines() if line.strip()]
    assert lines
    assert any(f"refold {command}" in line for line in lines)
    assert "\x1b" not in told.out
    assert told.out.isascii()  # for LANG=C


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_the_help_can_be_read_by_the_program(command):
    """Every option in an example exists."""
    parser, examples = parser_of(command)
    known = {name for action in parser._actions for name in action.option_strings} | {"-o"}
    for line in examples.splitlines():
        if f"refold {command}" in line and "eval" not in command:
            own = line.partition(f"refold {command}")[2].partition("|")[0]
            for option in re.findall(r"(?<=\s)--[a-z-]+", own):
                assert option in known, line


@pytest.mark.parametrize("command", COMMANDS)
def test_a_typo_is_one_line_and_status_2(command):
    wrong = run_cli(command, "--no-such-option")
    assert wrong.status == 2
    assert wrong.out == ""
    assert wrong.err.startswith("refold: ")
    assert wrong.err.count("\n") == 1


@pytest.fixture
def _things():
    saved("talk.json", talk(8))
    run_cli("import", "task", "talk.json", "--store", "sqlite:store.db")


@pytest.mark.usefixtures("_things")
def test_plain_terminals_get_plain_words():
    """LANG=C and NO_COLOR: ASCII without colours, as processes."""
    for args in (LOOKS["measure"], LOOKS["config"], LOOKS["models"]):
        done = process(*args, env=PLAIN)
        assert done.status in (0, 1), done.err
        assert done.out.isascii()
        assert "\x1b" not in done.out


@pytest.mark.usefixtures("_things")
@pytest.mark.parametrize("name", ["measure", "show", "models", "config", "completion"])
def test_nobody_reads(name):
    """The reader is gone before the first word: status 141 and silence, as for every program of a pipe."""
    reads, writes = os.pipe()
    os.close(reads)
    with start(LOOKS[name], dict(os.environ), stdout=writes, stderr=subprocess.PIPE) as program:
        _, said = program.communicate(timeout=300)
    os.close(writes)
    assert (program.returncode, said) == (141, b"")


@pytest.mark.usefixtures("_things")
@pytest.mark.parametrize("name", LOOKS)
def test_looking_changes_nothing(name, tmp_path):
    def files():
        return {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    before = files()
    done = run_cli(*LOOKS[name])
    assert done.status in (0, 1), done.err
    after = files()
    assert {name: after[name] for name in before if "-" not in name} == {
        name: before[name] for name in before if "-" not in name
    }
