"""`refold chat` on a real terminal: typed into, resized, interrupted, closed; screens as a person sees them."""

import re
import threading

import pytest
from chat_provider import calls, hangs, tells
from chat_terminal import Terminal
from cli_running import run_cli

from fake_provider import FakeProvider, status
from local_model import model_path

ANSWER = """\
# The harbour

It is called **Quayside**, see `map.txt`.

- two cranes
- one light

```python
print("ahoy")
```

| crane | tons |
|-------|------|
| north | 40   |

1. first

2. second"""
LONG = "the quick brown fox jumps over the lazy dog " * 22


@pytest.fixture
def provider():
    with FakeProvider() as fake:
        yield fake


@pytest.fixture
def chat(provider):
    """Begin a chat on a terminal."""

    def begin(*args, **more):
        args = ("--model", f"{provider.url}/v1#m", "--window", "8k", "--session", "s", *args)
        return Terminal("chat", *args, **more)

    return begin


def ready(terminal):
    """Wait for the line to type into, with its meter below."""
    return terminal.expect(r"›[^\n]*\n+.*% of the [\d.]+K room")


def make_store(terminal):
    """Say that a store shall be made where none is."""
    # how long the path is decides where the line breaks
    question = r"\s*".join(re.escape(letter) for letter in ";makeanewone?[yes/no]")
    terminal.expect(rf"there is no store [^?]*{question}")
    terminal.enter("yes")


def test_a_mistyped_store_is_not_made(chat, tmp_path):
    for answer in ("no\r", "\x03"):
        with chat("--store", "sqlite:tpyo.db") as terminal:
            terminal.expect(r"there is no store sqlite:tpyo\.db; make a new one\? \[yes/no\]")
            terminal.type(answer)
            terminal.expect("refold: no store was made: name another one with --store")
            assert terminal.ended() == 1
    assert list(tmp_path.glob("*.db")) == []


def test_an_answer_is_seen_as_markdown_above_a_meter(provider, chat):
    provider.script = [tells(ANSWER, pause=0.005)]
    with chat("--store", "memory:", columns=80, rows=34) as terminal:
        ready(terminal)
        terminal.enter("what is it called?")
        terminal.expect(r"Context: 2 messages")
        shown = ready(terminal).splitlines()
        assert shown[:-1] == [
            "session s begins, with m; /help tells what you can type",
            "› what is it called?",
            "The harbour",
            "",
            "It is called Quayside, see map.txt.",
            "",
            " • two cranes",
            " • one light",
            "",
            "",
            ' print("ahoy")',
            "",
            " crane  tons",
            " ───────────",
            " north  40",
            "",
            " 1 first",
            "",
            " 2 second",
            "[Context: 2 messages, ~444 tokens, 7% of the 6K room]",
            "›",
            *[""] * 12,
        ]
        assert re.fullmatch(
            r"[▏▎▍▌▋▊▉█]+·+│·*░+ 7% of the 6K room · system 18 history \d+ tools \d+ · s · m", shown[-1]
        )
        assert "\x1b[36m" in terminal.raw
        terminal.type("\x04")
        assert terminal.ended() == 0
        assert "is kept" not in terminal.everything  # a store in memory keeps nothing


def test_lines_are_edited_remembered_and_cleared(provider, chat):
    provider.script = [tells("Yes.")]
    where = "sqlite:s.db"
    with chat("--store", where) as terminal:
        make_store(terminal)
        ready(terminal)
        terminal.type("first lone\x1b[D\x1b[D\x7fi\x05\x1b\rsecond line")
        terminal.expect("› first line\n  second line")
        terminal.type("\r")
        terminal.expect("Yes.")
        ready(terminal)
        assert provider.seen[0].json["messages"][-1]["content"] == "first line\nsecond line"
        terminal.type("/che\t")
        terminal.expect("› /checkpoint")
        terminal.type("\x03")
        terminal.expect("Ctrl-C again leaves")
        terminal.type("\x03")
        assert terminal.ended() == 0
        terminal.expect("session s is kept; refold chat --session s --store sqlite:s.db goes on with it")
    with chat("--store", where) as terminal:
        terminal.expect("session s goes on: 2 messages, 0 folds")
        ready(terminal)
        terminal.type("\x1b[A")
        terminal.expect("› first line\n  second line")
        terminal.type("\x03\x03")
        assert terminal.ended() == 0


def test_an_answer_is_stopped_and_what_is_typed_meanwhile_waits(provider, chat):
    down = status(400, {"error": {"message": "out of order"}})
    provider.script = [hangs("Half of an answer"), tells("Whole."), down, tells("Up again.")]
    with chat("--store", "memory:") as terminal:
        ready(terminal)
        terminal.enter("go")
        terminal.expect(
            r"Half of an answer\n[^\n]*\d+% of the 6K room · answer [1-9]\d*"
        )  # the meter goes along
        terminal.type_ahead("typed ahead")
        terminal.type("\x03")
        terminal.expect(r"Half of an answer\ninterrupted; what was said is kept\n\[Context: 2 messages.*\n›")
        assert "^C" not in terminal.everything
        terminal.enter("again")
        terminal.expect("Whole.")
        ready(terminal)
        terminal.enter("once more")
        terminal.expect("refold: .*out of order.*/retry sends it again")
        ready(terminal)
        terminal.enter("/retry")
        terminal.expect(r"/retry\nUp again\.")
        ready(terminal)
        terminal.enter("/retry")
        terminal.expect("the last message has its answer")
    contents = [message["content"] for message in provider.seen[1].json["messages"]]
    assert contents[1:3] == ["go", "Half of an answer\n\n[interrupted]"]
    assert contents[3].endswith("again")


def test_a_line_typed_before_an_answer_is_stopped_is_said_next(provider, chat):
    provider.script = [hangs("Half of an answer"), tells("Whole.")]
    with chat("--store", "memory:") as terminal:
        ready(terminal)
        terminal.enter("go")
        terminal.expect(r"Half of an answer\n[^\n]*answer [1-9]\d*")
        terminal.type_ahead("rather this\r")
        terminal.type("\x03")
        terminal.expect("interrupted; what was said is kept")
        terminal.expect("rather this\nWhole.")
    assert provider.seen[1].json["messages"][-1]["content"].endswith("rather this")


def test_a_paste_during_an_answer_is_whole_and_waits(provider, chat):
    """Its lines are no messages of their own, and a terminal that gathers lines keeps 4,095 bytes of one."""
    gate, pasted = threading.Event(), f"first\n{'x' * 6_000}\nlast"
    provider.script = [tells("One word", gate=gate), tells("Thanks.")]
    with chat("--store", "memory:") as terminal:
        ready(terminal)
        terminal.enter("go")
        terminal.expect(r"One\n[^\n]*· answer")
        assert terminal.raw.rindex("\x1b[?2004h") > terminal.raw.rindex("\x1b[?2004l")  # a paste has marks
        terminal.type("\x1b[200~{}\x1b[201~".format(pasted.replace("\n", "\r")))
        gate.set()
        terminal.expect(r"  last\n+.*% of the 6K room")
        assert len(provider.seen) == 1
        terminal.enter(" word")
        terminal.expect("Thanks.")
    assert provider.seen[1].json["messages"][-1]["content"] == f"{pasted} word"


def test_a_paste_behind_a_question_is_whole_too(provider, chat, tmp_path):
    """The line of a question switches the marks around a paste off when it ends."""
    (tmp_path / ".env").write_text("PASSWORD=hunter2\n")
    gate = threading.Event()
    reads = calls(("read_file", {"path": ".env"}))
    provider.script = [reads, tells("One word", gate=gate), tells("Thanks.")]
    with chat("--store", "memory:") as terminal:
        ready(terminal)
        terminal.enter("look")
        terminal.expect(r"which may hold secrets\? \[no/yes\]")
        terminal.enter("no")
        terminal.expect(r"One\n[^\n]*· answer")
        assert terminal.raw.rindex("\x1b[?2004h") > terminal.raw.rindex("\x1b[?2004l")
        terminal.type("\x1b[200~first\rlast\x1b[201~")
        gate.set()
        terminal.expect(r"  last\n+.*% of the 6K room")
        terminal.enter(" word")
        terminal.expect("Thanks.")
    assert provider.seen[2].json["messages"][-1]["content"] == "first\nlast word"


def test_a_compaction_is_taken_changed_left_and_cancelled(provider, chat):
    summary = "## Goal\nMend the harbour wall before winter.\n\n## Done\nThe wall was measured."
    asked = [tells(LONG), tells(LONG), tells(LONG)]
    provider.script = [*asked, hangs("Half"), tells(summary), tells(summary), tells(summary)]
    with chat("--store", "memory:", columns=90) as terminal:
        ready(terminal)
        for question in ("one", "two", "three"):
            terminal.enter(question)
            terminal.expect(f"› {question}\n(the|lazy)[^›]*›")
            ready(terminal)
        terminal.enter("/compact through-line-and-facts")
        terminal.expect("asking http")
        terminal.type("\x03")
        terminal.expect("cancelled; nothing was folded")
        ready(terminal)
        terminal.enter("/compact through-line-and-facts")
        terminal.expect(
            r"Compacted #1-#6 \(6 messages\) into 1 message: [\d,]+ → [\d,]+ tokens[^\n]*\.\n## Goal\nMend"
        )
        terminal.expect(r"accept, edit or revert\? \[accept/edit/revert\]")
        terminal.enter("r")
        terminal.expect(r"Reverted; everything is seen again\.\n\[Context: 6 messages")
        ready(terminal)
        terminal.enter("/compact through-line-and-facts")
        terminal.expect(r"accept, edit or revert\? \[accept/edit/revert\]$")
        terminal.enter("edit")
        terminal.expect("Alt-Enter takes it")
        terminal.type("\x1b>Twice.\x1b\r")
        terminal.expect(r"The summary says what you wrote\.\n\[Context: 1 message,")
        terminal.expect("1 fold")
        terminal.enter("/recall fox")
        terminal.expect("#2  assistant  folded  the quick")
        ready(terminal)
        terminal.enter("/unfold")
        terminal.expect(r"unfolded [0-9a-f]{8} \(#1-#6\): 1 → 6 messages")


def test_an_edit_is_given_up_and_another_line_is_said(provider, chat):
    """Ctrl-C leaves the editor and nothing else; words at the question accept the fold and are answered."""
    summary = "## Goal\nMend the harbour wall before winter.\n\n## Done\nThe wall was measured."
    provider.script = [tells(LONG), tells(LONG), tells(summary), tells("The wall is left.")]
    store = "sqlite:s.db"
    with chat("--store", store, "--policy", "umwelten", columns=90) as terminal:
        make_store(terminal)
        ready(terminal)
        for question in ("one", "two"):
            terminal.enter(question)
            terminal.expect(rf"› {question}\n(the|lazy)[^›]*\[Context: \d messages[^›]*›")
            ready(terminal)
        terminal.enter("/compact")
        terminal.expect(r"accept, edit or revert\? \[accept/edit/revert\]$")
        terminal.enter("edit")
        terminal.expect("Alt-Enter takes it")
        terminal.type("half of another summary")
        terminal.type("\x03")
        terminal.expect(r"accept, edit or revert\? \[accept/edit/revert\]$")
        terminal.enter("what is left?")
        terminal.expect(r"› what is left\?\nThe wall is left\.\n\[Context: 3 messages")
        ready(terminal)
        terminal.enter("/compact")
        terminal.expect(r"nothing was folded: |accept, edit or revert\? \[accept/edit/revert\]$")
        terminal.enter("/quit")
        assert terminal.ended() == 0
    assert "half of another summary" not in str(provider.seen[-1].json)
    said = provider.seen[3].json["messages"]
    assert "Mend the harbour wall" in str(said)
    assert said[-1]["content"] == "what is left?"
    with chat("--store", store, "--policy", "umwelten") as terminal:
        terminal.expect(
            r"session s goes on: 6 messages, \d folds?\n› two\n[^›]*› what is left\?\nThe wall is left\."
        )
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_a_fold_by_itself_is_told_and_a_full_window_warned_of(provider, chat):
    provider.script = [tells(LONG)]
    with chat("--store", "memory:", "--ask", "none", "--window", "3k", columns=90, rows=40) as terminal:
        ready(terminal)
        for number in range(9):
            terminal.enter(f"question {number}")
            terminal.expect(f"question {number}\n[^›]*the[^›]*›", where="all")
            ready(terminal)
            if "folded " in terminal.everything:
                break
        text = terminal.everything
        assert re.search(r"\[Context: \d+ messages, ~[\d.]+K? tokens, [6-7]\d% of the 2\.2K room\]", text)
        assert (
            text.count("Auto-compaction will trigger") == 1
        )  # told once, the line has the number every time
        assert re.search(
            r"  Context usage: \d\d\d?% of the room \([\d,]+ / 2,250 tokens\)\n"
            r"  Auto-compaction will trigger to preserve conversation quality\.",
            text,
        )
        assert re.search(
            r"folded [0-9a-f]{8}: [\d,]+ → [\d,]+ tokens, \d+ → \d+ messages \([\w, ]+\); the originals\s+stay in"
            r"\s+session\s+s \(memory:\); /unfold\s+brings\s+them\s+back",
            text,
        )


def test_tools_are_seen_and_writing_is_confirmed(provider, chat, tmp_path):
    (tmp_path / "map.txt").write_text("Quayside\n")
    provider.script = [
        calls(("read_file", {"path": "map.txt"}), text="I shall look."),
        calls(("write_file", {"path": "out.txt", "content": "Quayside"})),
        tells("Done."),
    ]
    with chat("--store", "memory:") as terminal:
        ready(terminal)
        terminal.enter("copy the name")
        terminal.expect(r"make out\.txt with 8 bytes\? \[no/yes\]")
        terminal.enter("y")
        terminal.expect("Done.")
        text = ready(terminal)
        assert "I shall look.\n→ read_file map.txt\n← 1 line, 9 characters\n→ write_file out.txt\n" in text
    assert (tmp_path / "out.txt").read_text() == "Quayside"


def test_a_terminal_may_change_its_size_at_any_moment(provider, chat):
    gate = threading.Event()
    words = " ".join(f"word{number}" for number in range(60))
    provider.script = [tells(words, gate=gate, after=30)]
    like_xterm = {"XTERM_VERSION": "1"}  # lines are cut, not wrapped anew, on the screen of this test
    with chat("--store", "memory:", columns=100, rows=30, env=like_xterm) as terminal:
        ready(terminal)
        terminal.resize(60, 20)
        terminal.expect(r"% of the 6K room · system 18 tools \d+ · s · m")
        terminal.enter("go")
        terminal.expect("word29")
        terminal.resize(44, 20)
        gate.set()
        terminal.expect("word59")
        ready(terminal)
        assert all(len(line) <= 44 for line in terminal.shown)
        final = " ".join(terminal.everything.split())
        assert re.search(rf"› go {words} \[Context: 2 messages, [^]]*\] ›", final)
        assert max(map(len, terminal.shown)) > 36
        terminal.enter("/context")
        terminal.expect(r"compacts +at [\d,]+ tokens")


def test_without_colours_and_in_ascii(provider, chat):
    provider.script = [tells("It is **so** → fine.")]
    env = {"NO_COLOR": "1", "LANG": "C", "LC_ALL": "C"}
    with chat("--store", "memory:", env=env) as terminal:
        terminal.expect(r">\n+\[.*\] 5% +of the 6K room \| system")
        terminal.enter("is it?")
        terminal.expect(r"> is it\?\nIt is \*\*so\*\* -> fine\.\n\[Context: 2 messages.*\]\n>\n+\[")
    assert not re.search(r"\x1b\[[\d;]*3[0-7]m", terminal.raw)


@pytest.mark.parametrize("columns", [30, 80])
def test_an_address_is_not_cut_into_lines(chat, columns):
    """A terminal that wraps a line itself copies it whole; a line that the program broke is no address."""
    with chat("--store", "memory:", columns=columns) as terminal:
        terminal.expect("›")
        terminal.enter("/web")
        terminal.expect("#/s/s")
    assert re.search(r"http://127\.0\.0\.1:\d+/inspect\?token=[\w-]{43}#/s/s", terminal.raw)


def test_a_terminal_that_goes_away_loses_nothing(provider, chat, tmp_path):
    provider.script = [hangs("Half")]
    with chat("--store", f"sqlite:{tmp_path}/s.db") as terminal:
        make_store(terminal)
        ready(terminal)
        terminal.enter("remember Quayside")
        terminal.expect("Half")
        terminal.program.close()  # the window is closed: SIGHUP
    shown = run_cli("show", "s", "--store", f"sqlite:{tmp_path}/s.db").out
    assert "remember Quayside" in shown


def test_the_real_model_on_this_machine_answers(tmp_path):
    """SmolLM2 says something, in a stream, and can be stopped."""
    env = {"REFOLD_LOCAL_MODEL": str(model_path())}
    with Terminal("chat", "--store", "memory:", "--session", "s", env=env) as terminal:
        terminal.expect("% of ")
        terminal.enter("Say hello.")
        # The answer may have paragraphs.
        text = terminal.expect(
            r"› Say hello\.\n(.*\n){0,40}?.*\w.*\n(.*\n){0,40}?\[Context: 2 messages, ~[\d.]+K? tok"
        )
        assert "refold:" not in text
        terminal.enter("Tell me a very long story about a harbour.")
        terminal.expect(r"harbour\.\n *[^…\s]")
        terminal.type("\x03")
        terminal.expect("interrupted|Context: 4 messages")
        terminal.expect("% of ")
        terminal.enter("/quit")
        assert terminal.ended() == 0


def test_a_file_with_secrets_is_read_after_a_yes_alone(provider, chat, tmp_path):
    """Another line at the question is a no, and is said after the turn."""
    (tmp_path / ".env").write_text("PASSWORD=hunter2\n")
    reads = calls(("read_file", {"path": ".env"}))
    provider.script = [reads, tells("I may not."), tells("Nothing."), reads, tells("I saw it.")]
    with chat("--store", "memory:") as terminal:
        ready(terminal)
        terminal.enter("look")
        terminal.expect(r"let the model read \.env, which may hold secrets\? \[no/yes\]")
        terminal.enter("what is broken?")
        terminal.expect(
            r"I may not\.\n\[Context: 4 messages.*\n› what is broken\?\nNothing\.\n\[Context: 6 messages"
        )
        ready(terminal)
        terminal.enter("look again")
        terminal.expect(r"look again\n→ read_file \.env\nlet the model read")
        terminal.enter("yes")
        terminal.expect(r"I saw it\.")
    sent = [str(seen.json["messages"]) for seen in provider.seen]
    assert [number for number, text in enumerate(sent) if "hunter2" in text] == [4]
