"""Parts of the servers without a process: the table of methods, framing, and errors at the start."""

import asyncio
import re
from pathlib import Path

import pytest

import refold
from refold import open_store
from refold.cli import main
from refold.errors import StoreFull
from refold.remote import operations
from refold.remote.operations import METHODS
from refold.remote.protocol import MessageFramer, UnreadableMessage
from refold.remote.registry import Defaults, SessionRegistry


def test_the_page_lists_every_method_and_its_parameters():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "rpc.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z/]+)` \|([^|]*)\|", page, re.MULTILINE))
    assert set(rows) - {"shutdown"} == set(METHODS)
    for name, method in METHODS.items():
        if name != "initialize":  # takes what clients of other protocols send along
            assert re.findall(r"`(\w+)\??`", rows[name]) == list(method.takes)


def test_a_message_that_is_too_large_is_refused_and_passed_over():
    frames = MessageFramer(most=10)
    assert list(frames.feed(b"[1,2,3,4,5,6]\n[1]\n")) == [
        UnreadableMessage("a message may have 10 bytes", large=True),
        [1],
    ]
    frames = MessageFramer(most=10)
    got = [each for _ in range(5) for each in frames.feed(b"xxxxxxxxx")]
    got += frames.feed(b"x\n[2]\n")
    assert got == [UnreadableMessage("a message may have 10 bytes", large=True), [2]]
    frames = MessageFramer(most=10)
    got = list(frames.feed(b"Content-Length: 12\r\n\r\n123456789012Content-Length: 3\r\n\r\n[3]"))
    assert got == [UnreadableMessage("a message may have 10 bytes", large=True), [3]]


@pytest.mark.parametrize("at", range(1, 60))
def test_frames_however_they_are_cut(at):
    for raw in (
        b'{"a": "\xc3\xa9"}\r\n\n [1, 2]\n{"b": 3}',
        b"content-type: x\r\nContent-Length: 3\r\n\r\n[1]Content-Length: 2\n\n{}",
    ):
        frames = MessageFramer()
        got = [*frames.feed(raw[:at]), *frames.feed(raw[at:]), *frames.close()]
        assert got in ([{"a": "é"}, [1, 2], {"b": 3}], [[1], {}])


@pytest.mark.parametrize("word", [b"1e999", b"-1e999", b"NaN", b"[1, 2e400]"])
def test_a_number_without_an_end_is_no_json(word):
    """It would come back as Infinity, which no other program reads."""
    (value,) = MessageFramer().feed(b'{"id": ' + word + b"}\n")
    assert isinstance(value, UnreadableMessage)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--policy", "rippel"], "did you mean ripple?"),
        (["--window", "lots"], "--window"),
        (["--format", "klingon"], "klingon"),
        (["--ask", "cat"], "--ask: 'cat' is no address of a model"),
        (["--ask", "openai:gpt-4.1"], "--ask: openai:gpt-4.1 needs a key"),
        (["--store", "nowhere:x"], "nowhere"),
    ],
)
@pytest.mark.parametrize("command", ["rpc", "mcp"])
def test_wrong_use_is_told_at_the_start(command, options, words, capsys, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert main([command, "--store", "memory:", *options]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("refold: ")
    assert words in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("command", ["rpc", "mcp", "serve"])
def test_a_wrong_setting_is_told_by_its_own_name(command, capsys, monkeypatch):
    monkeypatch.setenv("REFOLD_ASK", "cat")
    assert main([command, "--store", "memory:"]) == 2
    assert capsys.readouterr().err.startswith("refold: REFOLD_ASK: 'cat' is no address of a model: write ")


# -- a store that fails ------------------------------------------------------------------------------------


class FullDisk:
    """A store in memory that has no room on demand."""

    def __init__(self):
        self.inner = open_store("memory:")
        self.full = False

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def append(self, *args, **options):
        if self.full:
            raise StoreFull("no room left")
        return self.inner.append(*args, **options)


@pytest.mark.parametrize(
    ("default", "window", "used"),
    [(None, 200_000, 30_000), ("gpt-4o", 128_000, 22_508)],
    ids=["recorded", "given"],
)
def test_a_session_of_another_program_is_measured_by_its_own_model(default, window, used):
    store = open_store("memory:")
    with refold.open("task", model="claude-sonnet-4-5", store=store) as session:
        session.prepare([{"role": "user", "content": "Be brief. " * 9_000}])
        session.observe({"usage": {"input_tokens": 30_000, "output_tokens": 9}})

    async def read():
        registry = SessionRegistry(store, Defaults(model=default), lambda _event: None)
        return await operations.read_stats(registry, "task")

    stats = asyncio.run(read())
    assert (stats["window"], stats["current_context_tokens"]) == (window, pytest.approx(used, rel=0.02))


@pytest.mark.filterwarnings("ignore::refold.errors.RefoldWarning")
def test_a_session_with_unsaved_messages_stays_open_and_is_told():
    store, events = FullDisk(), []
    hello = [{"role": "user", "content": "hello"}]

    async def work():
        registry = SessionRegistry(store, Defaults(sessions=1, window=4_000), events.append)
        for name in ("a", "b", "c"):
            store.full = name == "a"
            await registry.open(name)
            unsaved = (await operations.prepare(registry, name, messages=hello))["unsaved"]
            assert unsaved == (1 if name == "a" else 0)
        assert (await operations.read_view(registry, "a"))["messages"] == hello
        store.full = True
        more = [*hello, {"role": "assistant", "content": "hi"}]
        await operations.prepare(registry, "a", messages=more)
        with pytest.raises(StoreFull, match="1 message waits in memory"):
            await registry.close()
        await registry.close()

    asyncio.run(work())
    assert [event.kind for event in events][:2] == ["store_failed", "store_restored"]
