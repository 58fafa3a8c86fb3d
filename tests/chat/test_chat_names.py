"""Names of sessions that would lead elsewhere, and places where nothing is yet."""

import pytest
from chat_builders import do, make_conversation, say


@pytest.mark.parametrize(
    ("name", "folder"), [("../../x", "x"), ("/tmp/y", "tmp-y"), ("..", "session"), ("my task", "my task")]
)
def test_a_session_is_exported_beside_its_program_whatever_its_name(tmp_path, monkeypatch, name, folder):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    chat = make_conversation(name=name)
    say(chat, "hi")
    assert f"written to {folder}:" in do(chat, "/export")
    assert (inner / folder / "messages.jsonl").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("line", ["/pin", "/unpin", "/pin #5", "/recall #1"])
def test_where_nothing_was_said_no_message_is_named(line):
    assert do(make_conversation(), line).endswith("names no message: nothing was said yet")
