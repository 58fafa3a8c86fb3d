"""The tools of a chat: confined to one folder, bounded, and nothing is written without a yes."""

import os

import pytest
from chat_builders import ScriptedUser, make_conversation, say

from refold.chat import tools
from refold.clients.chat import RequestedCall


def use(chat, name, broken=False, **arguments):
    return tools.run_tool(chat, RequestedCall("1", name, arguments, "", broken))


@pytest.fixture
def chat(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret").write_text("outside")
    return make_conversation(folder=folder)


def test_a_file_is_read_in_stretches(chat):
    (chat.settings.folder / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    assert use(chat, "read_file", path="a.txt")[0].splitlines()[-1] == "line 10"
    text, failed = use(chat, "read_file", path="a.txt", first_line="3", lines=2)
    assert (text, failed) == ("line 3\nline 4\n[lines 3-4 of 10; read on with first_line=5]", False)


def test_what_is_long_is_bounded_by_the_room(chat):
    (chat.settings.folder / "long.txt").write_text("0123456789\n" * 100_000)
    text, failed = use(chat, "read_file", path="long.txt")
    assert not failed
    assert len(text) < chat.session.budget().room + 100
    assert "of 100000; read on" in text
    (chat.settings.folder / "one.txt").write_text("x" * 1_000_000)
    assert len(use(chat, "read_file", path="one.txt")[0]) < 10_000


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("../secret", "outside"),
        ("/etc/passwd", "outside"),
        ("link", "outside"),
        ("linked/secret", "outside"),
        ("none.txt", "No such file"),
        (".", "no file"),
        ("pipe", "no file"),
        ("data.bin", "no text"),
        ("a\0b", "inside the working folder"),
        ("", "inside the working folder"),
    ],
)
def test_what_cannot_be_read_is_told(chat, path, told):
    folder = chat.settings.folder
    (folder / "link").symlink_to(folder.parent / "secret")
    (folder / "linked").symlink_to(folder.parent)
    (folder / "data.bin").write_bytes(b"\x00\x01" * 50)
    os.mkfifo(folder / "pipe")
    text, failed = use(chat, "read_file", path=path)
    assert failed
    assert told in text


def test_a_link_inside_the_folder_is_followed(chat):
    (chat.settings.folder / "a.txt").write_text("inside")
    (chat.settings.folder / "b.txt").symlink_to("a.txt")
    assert use(chat, "read_file", path="b.txt") == ("inside", False)


def test_a_folder_is_listed(chat):
    assert use(chat, "list_dir") == ("(an empty folder)", False)
    (chat.settings.folder / "sub").mkdir()
    (chat.settings.folder / "a.txt").write_text("x")
    (chat.settings.folder / "gone").symlink_to("nowhere")
    assert use(chat, "list_dir", path=".")[0] == "sub/\na.txt  1 bytes\ngone"
    assert use(chat, "list_dir", path="a.txt") == ("This is no folder.", True)
    for number in range(500):
        (chat.settings.folder / "sub" / f"{number:03}").touch()
    assert use(chat, "list_dir", path="sub")[0].splitlines()[-1] == "[and 100 more]"


def test_a_file_is_written_only_after_a_yes(chat):
    chat.ui = ScriptedUser("no", "yes", "yes")
    path = chat.settings.folder / "sub" / "a.txt"
    wish = {"path": "sub/a.txt", "content": "hi"}
    assert use(chat, "write_file", **wish) == ("The person said no; nothing was written.", True)
    assert not path.exists()
    assert use(chat, "write_file", **wish) == ("2 bytes written to sub/a.txt.", False)
    assert path.read_text() == "hi"
    path.chmod(0o640)
    use(chat, "write_file", **wish)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [question for question, _ in chat.ui.asked] == [
        "make sub/a.txt with 2 bytes?",
        "make sub/a.txt with 2 bytes?",
        "replace sub/a.txt (2 bytes) with 2 bytes?",
    ]
    assert "+hi" in chat.ui.text
    assert "(the same text)" in chat.ui.text
    assert all(answers == ("no", "yes") for _, answers in chat.ui.asked)


@pytest.mark.parametrize(
    "wish", [{"path": "../a", "content": "x"}, {"path": "."}, {"path": "a"}, {"path": ".", "content": "x"}]
)
def test_a_wrong_wish_to_write_asks_nobody(chat, wish):
    chat.ui = ScriptedUser("yes")
    assert use(chat, "write_file", **wish)[1]
    assert chat.ui.asked == []


def test_what_is_no_tool_or_has_no_arguments_is_told(chat):
    assert use(chat, "rm_rf") == (
        "There is no tool 'rm_rf'; there are: read_file, list_dir, recall, write_file.",
        True,
    )
    assert use(chat, "read_file", broken=True) == ("The arguments are no JSON object.", True)
    assert use(chat, "read_file", path=3)[1]


def test_recall_gives_what_was_said(chat):
    say(chat, "the password of the harbour is swordfish")
    assert "swordfish" in use(chat, "recall", query="harbour")[0]
    assert "swordfish" in use(chat, "recall", handle="#1")[0]


def test_an_empty_file_says_so(chat):
    (chat.settings.folder / "empty").touch()
    assert use(chat, "read_file", path="empty") == ("(an empty file)", False)
