"""`refold completion`: the scripts in real shells, where they are installed; else their form."""

import re
import shlex
import shutil
import subprocess
from argparse import SUPPRESS

import pexpect
import pytest
from cli_running import COMMANDS, parser_of, run_cli, saved, talk

from forked_program import forking_command, run_forked

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The three scripts, as a shell would get them."""
    folder = tmp_path_factory.mktemp("scripts")
    found = {}
    for shell in SHELLS:
        found[shell] = folder / f"refold.{shell}"
        found[shell].write_bytes(run_forked("completion", shell).stdout)
    return found


@pytest.fixture
def path(tmp_path):
    """A folder with a program `refold`, as an installation has it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "refold"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(forking_command())} "$@"\n')
    program.chmod(0o755)
    return folder


def completed(script, path, *words):
    """What bash offers for a line whose last word is begun."""
    line = " ".join(f"'{word}'" for word in words)
    ask = f"""
        source {script}
        compopt() {{ :; }}
        COMP_WORDS=(refold {line}); COMP_CWORD={len(words)}
        _refold; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", ask],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={"PATH": f"{path}:/usr/bin:/bin", "HOME": "/nowhere", "REFOLD_STORE": "sqlite:store.db"},
    )
    assert done.stderr == ""
    return [word for word in done.stdout.splitlines() if word]


def test_bash_knows_commands_options_and_words(scripts, path):
    offered = completed(scripts["bash"], path, "")
    assert set(COMMANDS) <= set(offered)
    assert completed(scripts["bash"], path, "mea") == ["measure"]
    assert completed(scripts["bash"], path, "--ver") == ["--version"]
    assert "--window" in completed(scripts["bash"], path, "measure", "--w")
    assert completed(scripts["bash"], path, "plan", "x.json", "--policy", "ri") == ["ripple"]
    assert completed(scripts["bash"], path, "validate", "x.json", "--format", "anth") == ["anthropic"]
    assert completed(scripts["bash"], path, "completion", "f") == ["fish"]
    assert "token_threshold" in completed(scripts["bash"], path, "config", "tok")
    assert completed(scripts["bash"], path, "measure", "--no-such") == []


def test_bash_knows_files_and_sessions(scripts, path, tmp_path):
    saved("talk with spaces.json", talk(2))
    (tmp_path / "folder").mkdir()
    assert completed(scripts["bash"], path, "measure", "talk") == ["talk with spaces.json"]
    assert completed(scripts["bash"], path, "measure", "--window", "8k", "--json", "talk") == [
        "talk with spaces.json"
    ]
    for name in ("task", "my other one"):
        run_cli("import", name, "talk with spaces.json", "--store", "sqlite:store.db")
    assert set(completed(scripts["bash"], path, "show", "")) == {"task", "my\\ other\\ one"}
    assert completed(scripts["bash"], path, "recall", "ta") == ["task"]


def test_bash_runs_no_command_of_a_name(scripts, path, tmp_path):
    saved("talk.json", talk(2))
    names = ("$(touch made)", "`touch made`", "${x[$(touch made)]}")
    for name in names:
        run_cli("import", name, "talk.json", "--store", "sqlite:store.db")
    offered = completed(scripts["bash"], path, "show", "")
    assert {shlex.split(word)[0] for word in offered} == set(names)
    assert not (tmp_path / "made").exists()


def test_no_store_is_no_error(scripts, path):
    assert completed(scripts["bash"], path, "show", "") == []
    assert run_cli("completion", "--sessions", "--store", "sqlite:none.db").out == ""


def test_a_person_presses_tab(scripts, path):
    """Bash itself, on a terminal."""
    shell = pexpect.spawn(
        "bash",
        ["--norc", "--noprofile"],
        env={"PATH": f"{path}:/usr/bin:/bin", "PS1": "READY>", "TERM": "dumb", "HOME": "/nowhere"},
        encoding="utf-8",
        timeout=300,
        dimensions=(40, 200),
    )
    try:
        shell.expect_exact("READY>")
        shell.sendline(f"source {scripts['bash']}; bind 'set bell-style none'")
        shell.expect_exact("READY>")
        shell.send("refold valid\t")
        shell.expect_exact("validate ")
        shell.send("--form\t")
        shell.expect_exact("--format ")
        shell.send("gem\t")
        shell.expect_exact("gemini ")
    finally:
        shell.close(force=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_scripts_are_well_formed(scripts, shell):
    text = scripts[shell].read_text()
    for name in COMMANDS:
        assert re.search(rf"\b{name}\b", text)
    if shutil.which(shell):
        assert subprocess.run([shell, "-n", scripts[shell]], capture_output=True, check=False).returncode == 0
    # quotes are closed on every line, whatever the words of the help contain
    for line in text.splitlines():
        closed = re.sub(
            r"'(?:[^'\\]|\\.)*'" if shell == "fish" else r"\$'(?:[^'\\]|\\.)*'|'[^']*'|\\.", "", line
        )
        assert "'" not in closed.partition("#")[0], line


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_offered(scripts, path, command):
    """The script is made from the parsers, so that it has every option."""
    parser, _ = parser_of(command)
    options = {
        name for action in parser._actions for name in action.option_strings if action.help != SUPPRESS
    }
    assert options == set(completed(scripts["bash"], path, command, "-"))


def test_the_shell_is_named():
    assert "name the shell: bash, zsh, fish" in run_cli("completion").err
    wrong = run_cli("completion", "tcsh")
    assert wrong.status == 2
    assert wrong.err.count("\n") == 1
