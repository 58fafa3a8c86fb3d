"""`refold chat` speaks every wire through the real talkers: tools go round, every request is a valid one."""

import io

import pytest
from cli_running import run_cli

import refold
from fake_provider import FakeProvider, says

FORMATS = {
    "chat": "openai",
    "compatible": "openai",
    "responses": "responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
KEYS = {"openai": "messages", "anthropic": "messages", "responses": "input", "gemini": "contents"}


@pytest.fixture
def provider(monkeypatch):
    with FakeProvider() as fake:
        for name, value in fake.environment().items():
            monkeypatch.setenv(name, value)
        yield fake


@pytest.fixture
def chat(provider, monkeypatch):
    def run(wire, lines, *args):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
        where = ("--store", "sqlite:s.db", "--session", "s", "--window", "100k")
        return run_cli("chat", "--model", provider.address(wire), *where, *args)

    return run


def sent(provider, at):
    """The messages of a request, without the system's."""
    request = provider.seen[at]
    wire = FORMATS[request.wire]
    return wire, [item for item in request.json[KEYS[wire]] if item.get("role") != "system"]


@pytest.mark.few_values(2)
@pytest.mark.parametrize("wire", list(FORMATS))
def test_tools_go_round_on_every_wire(provider, chat, wire):
    provider.script = [says("Wait.", calls=1, finish="tool_calls"), says("Done.", usage=None)]
    done = chat(wire, "go\n/context\n")
    items = 5 if wire == "responses" else 4  # words and calls are items of their own there
    assert done.out.startswith(f"Wait.\nDone.\n[Context: {items} messages")
    assert "There is no tool 'f'" in done.err
    for at in (0, 1):
        found, messages = sent(provider, at)
        assert refold.validate(messages, found) == []
    assert "read_file" in str(provider.seen[0].json["tools"])


@pytest.mark.few_values(2)
@pytest.mark.parametrize("begun", ["chat", "responses", "anthropic", "gemini"])
@pytest.mark.parametrize("other", ["compatible", "responses", "anthropic", "gemini"])
def test_a_session_goes_on_with_another_provider(provider, chat, begun, other):
    provider.script = [says("Wait.", calls=1, finish="tool_calls"), says("Done.", usage=None)]
    chat(begun, "first\n")
    provider.script = [says("I go on.", usage=None)]
    done = chat(other, "second\n")
    assert (done.status, done.out) == (0, "I go on.\n")
    wire, messages = sent(provider, -1)
    assert refold.validate(messages, wire) == []
    assert all(word in str(messages) for word in ("first", "Wait.", "There is no tool", "Done.", "second"))
