"""How the program ends: help, wrong use, broken input, faults; always a status and at most one line."""

import os
import runpy
import sys
import warnings

import pytest
from cli_running import inside, saved, talk

import refold
from refold import formats
from refold.cli import exit_status, program
from refold.errors import DoesNotFit, FormatError, InvalidConversation, RefoldError
from refold.evals import EVALS


@pytest.mark.parametrize("command", ["", *program.COMMANDS])
def test_help_has_examples(capsys, command):
    done = inside(capsys, *command.split(), "--help")
    assert done.status == 0
    assert "examples:" in done.out
    assert f"refold {command}".strip() in done.out
    assert done.err == ""


def test_every_command_of_the_table_is_in_the_help(capsys):
    out = inside(capsys, "--help").out
    assert all(name in out for name in program.COMMANDS)


def test_version(capsys):
    assert inside(capsys, "--version").out == f"refold {refold.__version__}\n"


def test_no_command_is_wrong_use_and_shows_the_help(capsys):
    done = inside(capsys)
    assert done.status == 2
    assert "commands:" in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["mesure", "x"], "there is no command 'mesure'; did you mean measure?"),
        (["frobnicate"], "there are demo, chat, measure, plan, compact"),
        (["measure"], "arguments are required: FILE"),
        (["measure", "a.json", "--modle", "x"], "there is no option --modle (did you mean --model?)"),
        (["measure", "a.json", "--zzz=1"], "there is no option --zzz;"),
        (["measure", "a.json", "b.json"], "there is no place for 'b.json'"),
        (["--zzz"], "there is no option --zzz"),
        (["measure", "none.json"], "there is no file none.json"),
        (["measure", "."], "is a directory"),
        (["measure", "empty.json"], "is empty: expected"),
        (["measure", "comma.json"], "comma.json: is not JSON: Expecting value at line 2 column 4"),
        (["measure", "garbage.json"], "is not text"),
        (["measure", "latin.json"], "is not UTF-8"),
        (["measure", "number.json"], "expected a list of messages"),
        (["measure", "none-in.json"], "holds no messages"),
        (["measure", "numbers.json"], "numbers.json: messages[0]: expected an object"),
        (["measure", "object.json"], "object.json: messages[0].role: is missing"),
        (["measure", "deep.json"], "nested deeper"),
        (["measure", "a.json", "--policy", "rippel"], "there is no policy 'rippel'"),
        (["measure", "a.json", "--format", "klingon"], "no format is named 'klingon'"),
        (["measure", "a.json", "--window", "0"], "--window: '0' is not a number of tokens"),
        (["measure", "a.json", "--set", "keep_tokns=1"], "did you mean keep_tokens?"),
        (["measure", "a.json", "--count", "magic"], "magic"),
        (["plan", "a.json", "--policy", "refold", "--policy", "nobody"], "there is no policy 'nobody'"),
    ],
)
def test_wrong_use_is_one_clear_line(capsys, tmp_path, args, said):
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
    done = inside(capsys, *args)
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("refold: ")
    assert done.err.count("\n") == 1
    assert said in done.err


def test_a_broken_settings_file_is_one_clear_line(capsys):
    saved("a.json", talk(1))
    saved("refold.toml", "policy = ")
    done = inside(capsys, "measure", "a.json")
    assert done.status == 2
    assert done.err.startswith("refold: refold.toml: is not TOML")


def test_names_of_files_cannot_paint_the_terminal(capsys):
    assert "\x1b" not in inside(capsys, "measure", "\x1b[31mred").err


def test_errors_have_their_status():
    assert exit_status.status_of(DoesNotFit(1, 1, {})) == 1
    assert exit_status.status_of(InvalidConversation("x")) == 1
    assert exit_status.status_of(exit_status.Refused("x")) == 1
    assert exit_status.status_of(exit_status.WrongUse("x")) == 2
    assert exit_status.status_of(FormatError("x")) == 2
    assert exit_status.status_of(RefoldError("x")) == 2


def test_a_reason_without_words_is_the_kind_of_error():
    assert exit_status.reason(OSError()) == "OSError"


def test_a_fault_of_ours_is_one_line_as_well(capsys, monkeypatch):
    saved("a.json", talk(1))
    monkeypatch.setattr("refold.cli.commands.measure.by_kind", fail_with(ZeroDivisionError("oops")))
    done = inside(capsys, "measure", "a.json")
    assert done.status == 1
    assert done.err.startswith("refold: this is a fault of refold, please report it: ZeroDivisionError: oops")
    assert done.err.count("\n") == 1
    monkeypatch.setenv("REFOLD_DEBUG", "1")
    assert "Traceback" in inside(capsys, "measure", "a.json").err


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
def test_other_ends(capsys, monkeypatch, error, status, said):
    saved("a.json", talk(1))
    monkeypatch.setattr("refold.cli.commands.measure.by_kind", fail_with(error))
    monkeypatch.setattr(os, "dup2", lambda *_handles: None)
    done = inside(capsys, "measure", "a.json")
    assert done.status == status
    assert done.err.startswith(said)
    assert done.err.count("\n") == bool(said)


def test_warnings_of_other_libraries_are_not_the_user_s(capsys, monkeypatch):
    saved("a.json", talk(1))

    def warn(_told):
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        return {}

    monkeypatch.setattr("refold.cli.commands.measure.by_kind", warn)
    assert inside(capsys, "measure", "a.json").err == ""


def test_an_interrupt_while_the_last_words_go_out(capsys, monkeypatch):
    saved("a.json", talk(1))
    monkeypatch.setattr("refold.cli.output.screen.Screen.flush", fail_with(KeyboardInterrupt()))
    assert inside(capsys, "measure", "a.json").status == 130


def test_letting_go_of_an_output_that_has_no_number_is_silent(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    program._let_go()


def fail_with(error):
    def fail(*_args, **_more):
        raise error

    return fail


def test_arguments_of_the_process_are_taken_by_default(capsys, monkeypatch):
    from refold.cli import main

    monkeypatch.setattr(sys, "argv", ["refold", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("refold ")


def test_the_package_runs_as_a_program(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["refold", "--version"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("refold.cli", run_name="__main__", alter_sys=True)
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("refold ")


def test_another_name_runs_nothing():
    assert "main" in runpy.run_module("refold.cli.__main__", run_name="somebody")


def test_the_help_names_every_variable_that_is_a_setting(capsys):
    told = inside(capsys, "--help").out
    for name in ("POLICY", "MODEL", "WINDOW", "ASK", "STORE"):
        assert f"REFOLD_{name}" in told


@pytest.mark.parametrize("command", ["plan", "validate"])
def test_the_help_says_from_where_messages_are_counted(command, capsys):
    assert "#N is a place in the list, counted from 0" in inside(capsys, command, "--help").out


@pytest.mark.parametrize(
    "words", [[], *([name] for name in program.COMMANDS), *(["eval", one] for one in EVALS)]
)
def test_the_help_fits_on_a_terminal(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    told = inside(capsys, *words, "--help").out
    assert [line for line in told.splitlines() if len(line) > 80] == []


def test_a_window_that_nobody_knows_is_named_by_its_option(capsys):
    saved("talk.json", talk(2))
    told = inside(capsys, "measure", "talk.json", "--model", "nobody-knows-this").err
    assert told.endswith("tokens; pass --window or add it to refold.toml\n")


def test_the_help_lists_every_shape(capsys):
    for command in ("show", "import", "validate", "measure"):
        told = " ".join(inside(capsys, command, "--help").out.split())
        assert ", ".join(formats.names()) in told
