"""How the program ends: help, wrong use, broken input, faults; always a status and at most one line."""

import os
import runpy
import sys
import warnings
from types import ModuleType

import pytest
from cli_running import COMMANDS, run_cli, saved, talk

import refold


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_examples(command):
    done = run_cli(*command.split(), "--help")
    assert done.status == 0
    assert "examples:" in done.out
    assert f"refold {command}".strip() in done.out
    assert done.err == ""


def test_every_command_of_the_table_is_in_the_help():
    out = run_cli("--help").out
    assert all(name in out for name in COMMANDS)


def test_version():
    assert run_cli("--version").out == f"refold {refold.__version__}\n"


def test_no_command_tells_what_to_begin_with():
    done = run_cli()
    assert done == run_cli("quickstart")
    assert (done.status, done.err) == (0, "")
    assert "\nTry\n  refold demo\n" in done.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["mesure", "x"], "there is no command 'mesure'; did you mean measure?"),
        (["frobnicate"], "there are quickstart, demo, chat, measure, plan, compact"),
        (["measure"], "no conversation is named: name a FILE, - for standard input, or a session"),
        (["measure", "a.json", "--usage", "many"], "--usage holds no number: give tokens, the JSON of"),
        (["compact", "a.json", "--pin", "first"], "refold: --pin: 'first' is not a whole number; see"),
        (["show", "task", "--store", "work.db"], "not the address of a store: write sqlite:work.db"),
        (["measure", "a.json", "--modle", "x"], "there is no option --modle (did you mean --model?)"),
        (["measure", "a.json", "--zzz=1"], "there is no option --zzz;"),
        (["measure", "a.json", "--foo"], "there is no option --foo; see"),  # nothing like --tools
        (["--json", "measure", "a.json"], "--json goes behind the command: refold measure --json; see"),
        (["measure", "a.json", "b.json"], "there is no place for 'b.json'"),
        (["compact", "task"], "there is no file task; for a session of the store write --session task"),
        (["--zzz"], "there is no option --zzz"),
        (["measure", "none.json"], "there is no file none.json"),
        (["measure", "."], "is a directory"),
        (["measure", ""], "the empty name is a directory: name a file in it"),  # "$FILE" that is not set
        (["measure", "empty.json"], "is empty: expected"),
        (["measure", "comma.json"], "comma.json: is not JSON: Expecting value at line 2 column 4"),
        (["measure", "garbage.json"], "is not text"),
        (["measure", "latin.json"], "is not UTF-8"),
        (["measure", "number.json"], "expected a list of messages"),
        (["measure", "none-in.json"], "holds no messages"),
        (["measure", "numbers.json"], "numbers.json: messages[0]: expected an object"),
        (["measure", "object.json"], "object.json: no messages in this file"),
        (["measure", "deep.json"], "nested deeper"),
        (["measure", "a.json", "--policy", "rippel"], "there is no policy 'rippel'"),
        (["plan", "a.json", "--policy", "al"], "--policy: there is no policy 'al' (did you mean all?)"),
        (["replay", "a.json", "--policy", "al"], "--policy: there is no policy 'al' (did you mean all?)"),
        (["measure", "a.json", "--policy", "al"], "there is no policy 'al' (did you mean opal?)"),
        (["compact", "a.json", "--ask", "lokal"], "'lokal' is no address of a model: did you mean local?"),
        (["chat", "--model", "lokal"], "'lokal' is no address: did you mean local?"),
        (["chat", "--model", "antropic:m"], "is no address: did you mean anthropic:m?"),
        (["measure", "a.json", "--format", "klingon"], "no format is named 'klingon'"),
        (["measure", "a.json", "--window", "0"], "--window: '0' is not a number of tokens"),
        (
            ["measure", "a.json", "--window", ""],
            "--window: '' is not a number of tokens",
        ),  # "$WINDOW" not set
        (["measure", "a.json", "--window", "2000m"], "--window: '2000m' is too large: 1,000,000,000 tokens"),
        (["compact", "a.json", "--target", ""], "--target: '' is not a number of tokens"),
        (
            ["compact", "a.json", "--ask", "cat", "--ask-window", ""],
            "--ask-window: '' is not a number of tokens",
        ),
        (
            ["chat", "--model", "http://127.0.0.1:9/v1#m", "--window", ""],
            "--window: '' is not a number of tokens",
        ),
        (["demo", "--window", "0"], "--window: '0' is not a number of tokens"),
        (["serve", "--window", ""], "--window: '' is not a number of tokens"),
        (["rpc", "--window", ""], "--window: '' is not a number of tokens"),
        (["chat", "--compact-threshold", "half"], "--compact-threshold: 'half' is not a number; see"),
        (["measure", "a.json", "--set", "keep_tokns=1"], "did you mean keep_tokens?"),
        (["measure", "a.json", "--count", "magic"], "magic"),
        (["plan", "a.json", "--policy", "refold", "--policy", "nobody"], "there is no policy 'nobody'"),
    ],
)
def test_wrong_use_is_one_clear_line(tmp_path, args, said):
    saved("a.json", talk(1))
    saved("empty.json", " \n")
    saved("comma.json", '{"a": [1,\n 2,,]}')
    saved("number.json", "42")
    saved("none-in.json", "[]")
    saved("numbers.json", "[1, 2]")
    saved("object.json", '{"a": 1}')
    saved("deep.json", "[" * 100_000)
    (tmp_path / "garbage.json").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "latin.json").write_bytes('[{"role": "user", "content": "é"}]'.encode("latin-1"))
    done = run_cli(*args)
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("refold: ")
    assert done.err.count("\n") == 1
    assert said in done.err


def test_a_broken_settings_file_is_one_clear_line():
    saved("a.json", talk(1))
    saved("refold.toml", "policy = ")
    done = run_cli("measure", "a.json")
    assert done.status == 2
    assert done.err.startswith("refold: refold.toml: is not TOML")


def test_names_of_files_cannot_paint_the_terminal():
    assert "\x1b" not in run_cli("measure", "\x1b[31mred").err


def test_a_fault_of_ours_is_one_line_as_well(monkeypatch):
    saved("a.json", talk(1))
    monkeypatch.setattr("refold.cli.commands.measure.count_by_kind", fail_with(ZeroDivisionError("oops")))
    done = run_cli("measure", "a.json")
    assert done.status == 1
    assert done.err.startswith("refold: this is a fault of refold, please report it: ZeroDivisionError: oops")
    assert done.err.count("\n") == 1
    monkeypatch.setenv("REFOLD_DEBUG", "1")
    assert "Traceback" in run_cli("measure", "a.json").err


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt(), 130, "refold: interrupted\n"),
        (MemoryError(), 1, "refold: there is not enough memory"),
        (BrokenPipeError(), 141, ""),
        (
            OSError(28, "No space left on device"),
            1,
            "refold: cannot write the output: no space left on device",
        ),
        (SystemExit("odd"), 0, ""),
    ],
)
def test_other_ends(monkeypatch, error, status, said):
    saved("a.json", talk(1))
    monkeypatch.setattr("refold.cli.commands.measure.count_by_kind", fail_with(error))
    monkeypatch.setattr(os, "dup2", lambda *_handles: None)
    done = run_cli("measure", "a.json")
    assert done.status == status
    assert done.err.startswith(said)
    assert done.err.count("\n") == bool(said)


def test_warnings_of_other_libraries_are_not_the_user_s(monkeypatch):
    saved("a.json", talk(1))

    def warn(_told):
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        return {}

    monkeypatch.setattr("refold.cli.commands.measure.count_by_kind", warn)
    assert run_cli("measure", "a.json").err == ""


def test_an_interrupt_while_the_last_words_go_out(monkeypatch):
    saved("a.json", talk(1))
    monkeypatch.setattr("refold.cli.output.screen.Screen.flush", fail_with(KeyboardInterrupt()))
    assert run_cli("measure", "a.json").status == 130


def fail_with(error):
    def fail(*_args, **_more):
        raise error

    return fail


def test_the_package_runs_as_a_program(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["refold", "--version"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("refold.cli", run_name="__main__", alter_sys=True)
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("refold ")


def test_another_name_runs_nothing():
    assert "main" in runpy.run_module("refold.cli.__main__", run_name="somebody")


def test_the_help_names_every_variable_that_is_a_setting():
    told = run_cli("--help").out
    for name in ("POLICY", "MODEL", "WINDOW", "ASK", "STORE"):
        assert f"REFOLD_{name}" in told


@pytest.mark.parametrize("command", ["plan", "validate"])
def test_the_help_says_from_where_messages_are_counted(command):
    assert "#N counts from #1, as `recall` does" in run_cli(command, "--help").out


@pytest.mark.parametrize(
    "words",
    [
        [],
        *([name] for name in COMMANDS),
        *(["eval", one] for one in ("retention", "injections", "secrets", "counts", "cost")),
    ],
)
def test_the_help_fits_on_a_terminal(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    told = run_cli(*words, "--help").out
    assert [line for line in told.splitlines() if len(line) > 80] == []


def test_a_window_that_nobody_knows_is_named_by_its_option():
    saved("talk.json", talk(2))
    told = run_cli("measure", "talk.json", "--model", "nobody-knows-this").err
    assert told.endswith("tokens; pass --window or add it to refold.toml\n")


def test_a_format_that_is_not_that_of_the_file_is_named_by_its_option():
    saved("talk.json", talk(2))
    told = run_cli("measure", "talk.json", "--format", "gemini").err
    assert told.endswith("looks like openai, not gemini: pass --format openai\n")


class _Interrupted(ModuleType):
    """A module that Ctrl-C interrupts while it is loaded."""

    def __getattr__(self, name):
        raise KeyboardInterrupt


def test_an_interruption_while_the_program_is_loaded_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "refold.cli.program", _Interrupted("refold.cli.program"))
    done = run_cli("measure", "a.json")
    assert (done.status, done.out, done.err) == (130, "", "refold: interrupted\n")


def test_the_help_lists_every_shape():
    for command in ("show", "import", "validate", "measure"):
        told = " ".join(run_cli(command, "--help").out.split())
        assert "openai, responses, anthropic, gemini, interactions, converse, refold" in told
