"""Every command in docs/cli.md, and in every other page with recorded output, prints what the page shows.

A line `...` on the page stands for any lines. Words must be the same, and so must the names of entries, which
are hashes of what is in them, and the numbers of messages. Other numbers may differ by a few per cent and bars by
as much, because an estimate that becomes better need not touch the page; how long ago something was made depends
on the machine. After a larger change on purpose, REFOLD_UPDATE_DOCS=1 and this test write what the program prints
now into the page.
"""

import os
import re
import shlex
import subprocess
from functools import cache

import pytest
from cli_running import COMMANDS, ROOT, Done, parser_of, process, run_cli

from forked_program import forking_command

PAGE = ROOT / "docs" / "cli.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OWN_TESTS = {"docs/replay.md", "docs/remote.md"}
"""Pages whose recorded outputs tests/cli/test_cli_replay.py and tests/remote check."""
OTHER_PROGRAMS = ("docs/adapters/", "docs/decisions/")
"""Pages whose consoles install packages, or show what was printed once."""
PAGES = sorted(
    name
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if BLOCK.search(page.read_text(encoding="utf-8"))
    and (name := str(page.relative_to(ROOT))) not in OWN_TESTS
    and not name.startswith(OTHER_PROGRAMS)
)
ANY = "..."
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
NAME = re.compile(r"(?<![\w.,#])[0-9a-f]{8,40}(?![\w.,])|#\d+")
"""An entry by its name or the beginning of it, or a message by its number: the same or wrong."""
WORD = re.compile(rf"{NAME.pattern}|{NUMBER.pattern}|[^\s\d#█▏▎▍▌▋▊▉]+|#")
AGO = re.compile(r"just now|\b\d+ (?:second|minute)s? ago")
NEARLY = 0.08
"""The error an estimate may have: what moves by less is the same number."""
LEAST = 12
"""And so many messages or tokens are no difference."""
UPDATE = bool(os.environ.get("REFOLD_UPDATE_DOCS"))


def commands(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that follow it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def printed(command: str) -> list[str]:
    """What a command prints: in this process where it is refold alone, else through pipes, else through a shell."""
    if command.startswith("refold replay examples/"):
        return [*replayed(command)]
    if re.fullmatch(r"refold [^|>;&]*", command):
        return run_alone(command)
    if " | " in command and not re.search(r"[>;&$]", command):
        return piped(command.split(" | ")).splitlines()
    script = f'refold() {{ {shlex.join(forking_command())} "$@"; }}\n{command}'
    ran = subprocess.run(
        ["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False
    )
    return ran.stdout.decode().splitlines()


def run_alone(command: str) -> list[str]:
    """What the program prints without a shell, both outputs."""
    done = run_cli(*shlex.split(command)[1:])
    return (done.out + done.err).splitlines()


replayed = cache(run_alone)
"""Two pages show one replay of an example, which takes two seconds; it reads nothing else and writes nothing."""


def piped(stages: list[str]) -> str:
    """What commands print of which each reads what the one before it wrote; refold is not started anew."""
    given, told = b"", ""
    for stage in stages:
        if stage.startswith("refold "):
            done = process(*shlex.split(stage)[1:], stdin=given)
        else:
            ran = subprocess.run(
                ["sh", "-c", stage], input=given, capture_output=True, timeout=300, check=False
            )
            done = Done(ran.returncode, ran.stdout.decode(), ran.stderr.decode())
        given, told = done.out.encode(), told + done.err
    return told + given.decode()


def matches(shown: list[str], real: list[str]) -> bool:
    """Whether the lines on the page are those that were printed; `...` stands for any."""
    if ANY not in shown:
        return len(shown) == len(real) and all(map(alike, shown, real))
    at = shown.index(ANY)
    rest = shown[at + 1 :]
    if not matches(shown[:at], real[:at]):
        return False
    return any(matches(rest, real[start:]) for start in range(at, len(real) + 1))


def alike(shown: str, real: str) -> bool:
    """Whether two lines say the same in the same words, with nearly the same numbers."""
    old, new = (WORD.findall(AGO.sub("just now", line)) for line in (shown, real))
    return len(old) == len(new) and all(map(_same, old, new))


def _same(old: str, new: str) -> bool:
    if old == new:
        return True
    if NAME.fullmatch(old) or not (NUMBER.fullmatch(old) and NUMBER.fullmatch(new)):
        return False
    was, now = float(old.replace(",", "")), float(new.replace(",", ""))
    return abs(was - now) <= max(NEARLY * max(was, now), LEAST)


@pytest.fixture
def _workplace(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")


@pytest.mark.usefixtures("_workplace")
@pytest.mark.parametrize("name", PAGES)
def test_every_example_prints_what_the_page_shows(name):
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    wrong = []
    for block in BLOCK.findall(text):
        lines = []
        for command, shown in commands(block):
            real = printed(command)
            if not matches(shown, real):
                wrong.append(f"$ {command}\n" + "\n".join(real))
            lines += [f"$ {command}", *(shown if matches(shown, real) else _cut(real))]
        if UPDATE:
            text = text.replace(f"```console\n{block}```", "```console\n" + "\n".join(lines) + "\n```")
    if UPDATE:
        page.write_text(text, encoding="utf-8")
    assert UPDATE or not wrong, f"{name} shows something else; see the top of this file:\n" + "\n".join(wrong)


def _cut(real: list[str]) -> list[str]:
    """The first lines of what is long."""
    return real if len(real) <= 45 else [*real[:14], ANY]


def test_the_comparison_sees_a_difference():
    assert matches(["a 100 ██▍", ANY, "z"], ["a 103 ██▌", "x", "y", "z"])
    assert matches([ANY], [])
    assert not matches(["a 100"], ["a 200"])
    assert not matches(["a 100"], ["b 100"])
    assert not matches(["a", ANY], ["b", "a"])
    assert not matches(["a"], ["a", "b"])
    assert matches(["ce0495a5  1 minute ago  fold  100 tokens"], ["ce0495a5  just now  fold  101 tokens"])
    assert not matches(["ce0495a5  fold"], ["ce0496a5  fold"])
    assert not matches(["17529368  fold"], ["17529369  fold"])
    assert not matches(["#2-#16"], ["#2-#17"])
    assert not matches(["b2:" + "1" * 40], ["b2:" + "1" * 39 + "2"])
    assert not matches(["#1 a", "#2 b"], ["#2 b", "#1 a"])
    assert not matches(["made 2025-10-09"], ["made today"])


def test_the_names_on_the_page_are_those_of_the_example():
    """Every name is a hash of content alone, so an import gives the same ones on every day."""
    text = PAGE.read_text(encoding="utf-8").partition("## Sessions in a store")[2].partition("## Settings")[0]
    shown = {
        word
        for block in BLOCK.findall(text)
        for line in block.splitlines()
        for word in re.findall(r"^([0-9a-f]{8}) ", line)
    }
    run_cli("import", "quayside", ROOT / "examples" / "folded-session")
    entries = run_cli("show", "quayside", "--log", "--json").json["entries"]
    assert len(shown) > 5
    assert shown <= {entry["name"][3:11] for entry in entries}


def test_the_page_has_examples_of_every_command():
    text = PAGE.read_text(encoding="utf-8")
    found = {
        name
        for block in BLOCK.findall(text)
        for command, _ in commands(block)
        for name in re.findall(r"\brefold ([a-z]+)", command)
    }
    assert set(COMMANDS) <= found
    assert all(f"## {name}" in text for name in COMMANDS)


def test_every_command_is_in_the_list_for_new_users():
    table = PAGE.read_text(encoding="utf-8").partition("| command | does |")[2].partition("\n\n")[0]
    assert [command for command in COMMANDS if f"(#{command})" not in table] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_says_what_it_does(command):
    parser, _ = parser_of(command)
    assert all(action.help for action in parser._actions)


TYPED = re.compile(r"^```(?:sh|text|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S* )*refold ([a-z]+)(?=\s|$)([^|&;<>\n]*)", re.MULTILINE)
"""A call of the program at the beginning of a line, up to a pipe or a comment."""


@pytest.mark.parametrize(
    "name", [str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")] + ["README.md"]
)
def test_every_call_names_commands_and_options_that_exist(name):
    """Also in blocks that show no output, and are therefore not run."""
    if name.startswith("docs/decisions/"):  # as things were when it was decided
        return
    text = (ROOT / name).read_text(encoding="utf-8")
    for block in TYPED.findall(text):
        for command, rest in LINE.findall(block):
            assert command in COMMANDS, f"refold {command}"
            parser, _ = parser_of(command)
            if command == "eval":  # has a parser for each kind of measurement
                continue
            known = {option for action in parser._actions for option in action.option_strings}
            words = {word.partition("=")[0] for word in rest.split("#")[0].split() if word.startswith("--")}
            assert words <= known, f"refold {command}: {words - known}"
