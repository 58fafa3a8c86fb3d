"""`refold demo` as a person sees it: in a pipe, on a terminal, and with somebody who answers."""

import importlib.util
import re
import sys

import pexpect
import pyte
import pytest
from cli_running import process as run
from cli_running import run_cli, terminal

from fake_provider import FakeProvider, says

PLAYED = r"fold 4 .* tokens, \d+ → \d+ messages"
LARGER = ("--window", "60k")
"""With fewer folds the same lines are written in a third of the time."""


def test_in_a_pipe_it_is_plain_lines_and_nothing_waits():
    ran = run("demo")
    assert ran.status == 0, ran.err
    assert "\x1b" not in ran.out
    assert "\r" not in ran.out
    assert re.search(PLAYED, ran.out)
    assert '"Never change a signature in quayside/api.py",\nis in what the model sees' in ran.out
    assert "#44 (tool, folded away):" in ran.out
    assert "HARB-412: store every time in UTC" in ran.out
    before, after = map(int, re.search(r"  (\d+) → (\d+) messages, ", ran.out).groups())
    assert after > before


@pytest.mark.few_values(1)
@pytest.mark.parametrize(
    ("missing", "extras"), [(("httpx2",), "clients"), (("prompt_toolkit", "httpx2"), "chat,clients")]
)
def test_the_end_says_what_a_chat_needs_first(missing, extras, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "refold.cli.commands.demo.find_spec", lambda name: None if name in missing else real(name)
    )
    told = run_cli("demo", "--window", "200k").out.splitlines()
    assert told[-2].startswith("Next: refold chat")
    assert told[-1] == f"refold chat needs more first: pip install '.[{extras}]' in a copy of the repository"


def test_where_only_ascii_is_seen_it_writes_ascii(monkeypatch):
    monkeypatch.setenv("LANG", "C")
    monkeypatch.setenv("LC_ALL", "C")
    ran = run("demo", *LARGER)
    assert ran.status == 0, ran.err
    assert ran.out.isascii()
    assert re.search(PLAYED.replace("→", "->"), ran.out)


def test_on_a_terminal_the_meter_moves_and_the_end_stays():
    screen = pyte.Screen(90, 40)
    stream = pyte.ByteStream(screen)
    child = pexpect.spawn(sys.executable, ["-m", "refold.cli", "demo", "--fast"], dimensions=(40, 90))
    meters = 0
    while True:
        try:
            block = child.read_nonblocking(65_536, timeout=60)
        except pexpect.EOF:
            break
        meters += block.count(b" of 12,000  ")
        stream.feed(block)
    child.close()
    assert child.exitstatus == 0
    assert meters > 300
    shown = "\n".join(line.rstrip() for line in screen.display)
    assert "you: undo the last fold" in shown
    assert "read_file" not in shown.splitlines()[-1]


def test_on_a_bare_terminal_nothing_moves(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    done = terminal("demo", "--fast", *LARGER)
    assert done.status == 0
    assert "\x1b" not in done.out
    assert "\r" not in done.out
    assert re.search(PLAYED.replace("→", "->"), done.out)


def test_interrupted_it_ends_with_one_line():
    child = pexpect.spawn(sys.executable, ["-m", "refold.cli", "demo"], dimensions=(40, 90))
    child.expect("user: Hi", timeout=60)
    child.sendintr()
    child.expect(pexpect.EOF, timeout=60)
    child.close()
    assert (child.exitstatus, child.signalstatus) == (130, None)
    assert b"Traceback" not in child.before
    # The line with the meter is erased first.
    assert re.search(rb"\r\x1b\[2K(?:\x1b\[31m)?refold: interrupted(?:\x1b\[0m)?\r\n$", child.before)


def test_with_a_model_it_summarises_and_answers():
    with FakeProvider() as provider:
        provider.script = [says("It was commit 3995439.")]
        ran = run("demo", "--model", f"{provider.url}/v1#small")
    assert ran.status == 0, ran.err
    assert "model: It was commit 3995439." in ran.out
    assert provider.seen


def test_a_window_that_never_fills_is_told():
    ran = run("demo", "--window", "200k")
    assert "Nothing had to be folded: a smaller --window shows folds.\n" in ran.out
    assert "request 0" not in ran.out


@pytest.mark.parametrize("given", [["--window", "lots"], ["--window", "10"], ["--model", "nowhere:at-all"]])
def test_what_cannot_be_played_is_told_in_one_line(given):
    ran = run("demo", *given)
    assert ran.status in (1, 2)
    assert ran.out == ""
    assert len(ran.err.strip().splitlines()) == 1
    assert "Traceback" not in ran.err
