"""`refold chat` in a pipe and its arguments: only answers come out, and every way to end has its status."""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys

import pytest
from chat_provider import calls, hangs, tells
from chat_terminal import Terminal
from cli_running import run_cli, saved, started

import refold
from fake_provider import VLLM, FakeProvider, status


@pytest.fixture
def provider():
    with FakeProvider() as fake:
        yield fake


@pytest.fixture
def chat(provider, monkeypatch):
    """Run the chat with these lines on its input."""

    def run(lines, *args, model=True):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
        named = ("--model", f"{provider.url}/v1#m") if model else ()
        return run_cli("chat", *named, "--window", "8k", *args)

    return run


@contextlib.contextmanager
def chatting(provider, *args):
    """A chat in a process of its own, into which a test writes."""
    args = ("chat", "--model", f"{provider.url}/v1#m", "--window", "8k", *args)
    with started(*args, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        try:
            program.stdin.write(b"go\n")
            program.stdin.flush()
            yield program
        finally:
            program.kill()
            program.stdin.close()
            program.stdout.close()


def test_only_answers_are_printed(provider, chat):
    provider.script = [tells("One **answer**."), tells("Two.")]
    done = chat("hi\n\nand now?\n", "--store", "memory:")
    assert (done.status, done.out, done.err) == (0, "One **answer**.\nTwo.\n", "")
    assert [message["content"] for message in provider.seen[1].json["messages"]][1:] == [
        "hi",
        "One **answer**.",
        "and now?",
    ]


def test_one_message_may_have_several_lines(provider, chat):
    provider.script = [tells("Yes.")]
    chat("one \\\ntwo\n", "--store", "memory:")
    assert provider.seen[0].json["messages"][-1]["content"] == "one \ntwo"


def test_what_a_command_shows_is_printed_and_notes_stand_beside(provider, chat):
    provider.script = [tells("Yes.")]
    done = chat("hi\n/context\n", "--store", "memory:", "--show-context")
    assert done.out.startswith("Yes.\n[Context: 2 messages, ~")
    assert done.err.startswith("[Context: 2 messages, ~")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/hlep", "there is no command /hlep; did you mean /help?"),
        ("/model bad", "'bad' is no address"),
        ("/recall #5", "'#5' names no message"),
        ("/compact nope", "there is no strategy 'nope'"),
        ("/retry", "the last message has its answer"),
    ],
)
def test_a_command_that_refuses_ends_a_pipe(provider, chat, line, why):
    provider.script = [tells("Yes.")]
    done = chat(f"hi\n{line}\nmore\n", "--store", "memory:")
    assert (done.status, done.out) == (1, "Yes.\n")
    assert why in done.err
    assert done.err.count("\n") == 1
    assert len(provider.seen) == 1


def test_where_nothing_folds_by_itself_each_answer_tells_the_size(provider, chat):
    provider.script = [tells("Yes.")]
    assert "[Context: 2 messages, ~" in chat("hi\n", "--store", "memory:", "--policy", "umwelten").err
    assert "[Context: " not in chat("hi\n", "--store", "memory:", "--policy", "opal").err


def test_a_session_goes_on_by_name(provider, chat, tmp_path):
    provider.script = [tells("Noted."), tells("Quayside.")]
    where = ("--store", f"sqlite:{tmp_path}/s.db", "--session", "harbour")
    chat("it is called Quayside\n", *where)
    assert chat("what is it called?\n", *where).out == "Quayside.\n"
    assert len(provider.seen[1].json["messages"]) == 4
    assert "harbour" in run_cli("sessions", "--store", f"sqlite:{tmp_path}/s.db").out


def test_without_a_name_a_session_begins_in_the_default_store(provider, chat):
    provider.script = [tells("Yes.")]
    chat("hi\n")
    assert "chat-20" in run_cli("sessions").out


def test_a_write_is_not_confirmed_by_nobody(provider, chat, tmp_path):
    provider.script = [calls(("write_file", {"path": "a.txt", "content": "x"})), tells("A pity.")]
    done = chat("write\n", "--store", "memory:")
    assert done.out == "A pity.\n"
    assert "The person said no" in done.err
    assert not (tmp_path / "a.txt").exists()


def test_no_tools_sends_none(provider, chat):
    provider.script = [tells("Yes.")]
    chat("hi\n", "--no-tools", "--system", "", "--store", "memory:")
    assert "tools" not in provider.seen[0].json
    assert provider.seen[0].json["messages"] == [{"role": "user", "content": "hi"}]


def test_a_failure_ends_a_pipe_with_one_line(provider, chat):
    provider.script = [status(401, {"error": {"message": "no key"}})]
    done = chat("hi\nmore\n", "--store", "memory:")
    assert done.status == 1
    assert done.out == ""
    assert done.err.startswith("refold: ")
    assert len(done.err.splitlines()) == 1
    assert len(provider.seen) == 1


def test_a_refusal_for_size_folds_and_asks_again(provider, chat):
    long = "the quick brown fox " * 120
    provider.script = [tells(long), tells(long), tells(long), status(400, VLLM), tells("It fits.")]
    done = chat("a\nb\nc\nd\n", "--store", "memory:", "--ask", "none")
    assert done.status == 0
    assert done.out.endswith("It fits.\n")
    assert "folded" in done.err
    assert "asked again: refused for size" in done.err


def test_a_second_refusal_for_size_is_no_wrong_use(provider, chat):
    long = "the quick brown fox " * 120
    provider.script = [tells(long), tells(long), tells(long), status(400, VLLM), status(400, VLLM)]
    done = chat("a\nb\nc\nd\n", "--store", "memory:", "--ask", "none")
    assert done.status == 1
    assert re.search("^refold: .* twice$", done.err, re.MULTILINE)


def test_folds_happen_and_are_told(provider, chat):
    provider.script = [tells("the quick brown fox " * 120)]
    done = chat("a\nb\nc\nd\ne\nf\n/folds\n", "--window", "4k", "--store", "memory:", "--ask", "none")
    assert "folded " in done.err
    assert "the originals stay in session" in done.err
    assert "stands" in done.out


def test_disabled_compaction_never_folds(provider, chat):
    provider.script = [tells("the quick brown fox " * 120)]
    lines = "a\nb\nc\nd\ne\n/folds\n"
    done = chat(lines, "--window", "4k", "--store", "memory:", "--disable-compaction")
    assert "nothing is folded" in done.out
    assert "/compact folds now" in done.err


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_it_the_session_goes_on(provider, chat, tmp_path, kind):
    provider.script = [hangs("Half of"), tells("Whole.")]
    where = ("--store", f"sqlite:{tmp_path}/s.db", "--session", "s")
    with chatting(provider, *where) as program:
        assert program.stdout.read(7) == b"Half of"
        program.send_signal(kind)
        assert program.wait(300) == (-9 if kind == signal.SIGKILL else 128 + kind)
    assert chat("again\n", *where).out == "Whole.\n"
    kept = "Half of\n\n[interrupted]" if kind == signal.SIGINT else "[no answer]"
    contents = [message["content"] for message in provider.seen[-1].json["messages"]]
    assert contents[1:] == ["go", kept, "again"]


def test_a_closed_output_ends_the_chat(provider):
    provider.script = [tells("word " * 500, pause=0.001)]
    with chatting(provider, "--store", "memory:") as program:
        assert program.stdout.read(10) == b"word word "
        program.stdout.close()
        assert program.wait(300) == 141
        assert program.stderr.read() == b""


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--compact-threshold", "1.5"), "--compact-threshold takes a share above 0 and at most 1"),
        (("--window", "much"), "--window: "),
        (("--model", "no model"), "is no address"),
        (("--model", "openai:gpt-4.1"), "OPENAI_API_KEY"),
        (("--system", "@nowhere"), "--system: cannot read nowhere"),
        (("--policy", "reford"), "did you mean refold?"),
        (("--policy", "opal", "--set", "threshold=80"), "--set threshold=80: expected a number from 0 to 1"),
        (("--policy", "opal", "--set", "strategy=summarise"), "expected 'summarize' or 'truncate'"),
        (("--sesion", "x"), "did you mean --session?"),
    ],
)
def test_wrong_use_is_one_line(args, told, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    args = args if "--model" in args else ("--model", "http://127.0.0.1:9/v1#m", *args)
    done = run_cli("chat", "--store", "memory:", *args)
    assert done.status == 2
    assert told in done.err
    assert len(done.err.splitlines()) == 1


def test_a_fold_by_a_named_policy_has_the_knobs_of_the_settings(provider, chat, tmp_path):
    """`/compact truncate` leaves nothing but a notice; with a knob in the file the last two turns stay."""
    store = f"jsonl:{tmp_path / 'store'}"
    saved("refold.toml", "[policy.truncate]\nkeep_turns = 2\n")
    provider.script = [tells("answer " * 50)]
    chat("one\ntwo\nthree\nfour\n/compact truncate\n", "--store", store, "--session", "s")
    with refold.open("s", store=store) as session:
        said = [message["content"] for message in session.view() if message["role"] == "user"]
    assert said[-2:] == ["three", "four"]
    assert "two" not in said


def test_the_model_may_be_set_in_the_environment(provider, chat, monkeypatch):
    provider.script = [tells("Yes.")]
    monkeypatch.setenv("REFOLD_MODEL", f"{provider.url}/v1#m")
    done = chat("hi\n", "--store", "memory:", model=False)
    assert done.out == "Yes.\n"


@pytest.fixture
def plain(provider, tmp_path):
    """Begin a chat without the extra: a module that cannot be found stands for one that is not installed."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.util as u\nreal = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'rich' else real(name, *a)\n"
    )
    args = ("chat", "--model", f"{provider.url}/v1#m", "--store", "memory:", "--session", "s")
    return lambda: Terminal(
        *args, env={"PYTHONPATH": f"{hidden}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    )


def test_plain_lines_typed_before_an_answer_is_stopped_are_said_next(provider, plain):
    provider.script = [hangs("Half"), tells("First."), tells("Second.")]
    with plain() as terminal:
        terminal.expect("\n>")
        terminal.enter("go")
        terminal.expect("Half")
        terminal.type("rather this\rand this\rhalf a line")
        terminal.expect("half a line")
        terminal.type("\x03")
        terminal.expect(
            r"interrupted; what was said is kept\n\[Context: 2 messages.*\n> rather this\nFirst\."
        )
        terminal.expect(r"\n> and this\nSecond\.\n\[Context: 6 messages.*\n>")
        terminal.type("\x04")
        assert terminal.ended() == 0
    said = [request.json["messages"][-1]["content"] for request in provider.seen]
    assert [words.rpartition("\n")[2] for words in said] == ["go", "rather this", "and this"]


def test_without_the_extra_a_terminal_gets_plain_lines(provider, plain):
    provider.script = [tells("One **answer**."), hangs("Half")]
    with plain() as terminal:
        terminal.expect(r"pip install '\.\[chat\]'")
        terminal.expect("\n>")
        terminal.enter("hi")
        terminal.expect(
            r"One \*\*answer\*\*\.\n\[Context: 2 messages, ~\d+ tokens, \d+% of the [\d.]+K room\]\n>"
        )
        terminal.enter("go")
        terminal.expect("Half")
        terminal.type("\x03")
        terminal.expect(r"interrupted; what was said is kept\n\[Context: 4 messages.*\n>")
        terminal.enter("/compact truncate")
        terminal.expect(r"accept, edit or revert\? \[accept/edit/revert\]")
        terminal.enter("edit")
        terminal.expect(r"a line with a single \. ends it\n\|")
        terminal.enter("half of a text")
        terminal.expect(r"half of a text\n\|")
        terminal.type("\x03")
        terminal.expect(r"half of a text[^›]*accept, edit or revert\? \[accept/edit/revert\]")
        terminal.enter("r")
        terminal.expect("Reverted")
        terminal.type("\x03")
        terminal.expect("again leaves")
        terminal.type("\x03")
        assert terminal.ended() == 0


def test_typed_answers_go_to_a_file_without_prompts(provider, tmp_path):
    provider.script = [tells("Yes.")]
    args = ("chat", "--model", f"{provider.url}/v1#m", "--window", "8k", "--store", "memory:")
    with (tmp_path / "out.txt").open("wb") as out, Terminal(*args, out=out) as terminal:
        terminal.expect("begins, with m.*\n>")
        terminal.enter("hi")
        terminal.expect(r"> hi\n\[Context: 2 messages.*\n>")
        terminal.type("\x04")
        assert terminal.ended() == 0
    assert (tmp_path / "out.txt").read_text() == "Yes.\n"


def test_help_starts_without_the_libraries_of_the_chat():
    code = "import sys; from refold.cli import main; main(['chat', '--help']); print(sorted(m for m in ('rich', 'prompt_toolkit', 'httpx2', 'refold.presets') if m in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=True)
    assert ran.stdout.decode().endswith("[]\n")
