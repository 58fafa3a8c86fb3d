"""The program has every command and option it had, and the demo prints what it printed."""

import difflib

import pytest
import surface_program
from surface_frozen import FROZEN, failure_text, lines


@pytest.fixture(scope="module")
def program():
    with surface_program.Program() as run:
        yield run


def test_every_command_and_option_is_still_there(program):
    """Commands, options, what they take, positional arguments and exit statuses; new ones do no harm."""
    now = set(surface_program.structure(program))
    found = [f"gone: {line}" for line in lines("program.txt") if line not in now]
    assert not found, failure_text(found, "program")


def test_the_demo_prints_what_it_printed(program):
    """The output of `refold demo`, to the letter; the name of a fold is masked."""
    then = (FROZEN / "demo.txt").read_text(encoding="utf-8")
    now = surface_program.demo(program)
    found = list(difflib.unified_diff(then.splitlines(), now.splitlines(), "then", "now", lineterm="", n=1))
    assert not found, failure_text(found, "demo")
