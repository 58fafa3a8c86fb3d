"""Names of sessions that would lead elsewhere, and places where nothing is yet."""

import pytest
from chat_desks import desk_of, do, say


@pytest.mark.parametrize(
    ("name", "folder"), [("../../x", "x"), ("/tmp/y", "tmp-y"), ("..", "session"), ("my task", "my task")]
)
def test_a_session_is_exported_beside_its_program_whatever_its_name(tmp_path, monkeypatch, name, folder):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    desk = desk_of(name=name)
    say(desk, "hi")
    assert f"written to {folder}:" in do(desk, "/export")
    assert (inner / folder / "messages.jsonl").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("line", ["/pin", "/unpin", "/pin #5", "/recall #1"])
def test_where_nothing_was_said_no_message_is_named(line):
    assert do(desk_of(), line).endswith("names no message: nothing was said yet")
