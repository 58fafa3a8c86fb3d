"""The tools of a chat under hostile wishes: links in circles, endless numbers, files that are no files."""

import os

import pytest
from chat_builders import ScriptedUser, make_conversation

from refold.chat import tools
from refold.clients.chat import RequestedCall


def use(chat, name, **arguments):
    return tools.run_tool(chat, RequestedCall("1", name, arguments, "", False))


@pytest.fixture
def chat(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    return make_conversation(folder=folder, ui=ScriptedUser("yes"))


@pytest.mark.parametrize("name", ["read_file", "list_dir", "write_file"])
def test_a_link_that_leads_to_itself_is_told(chat, name):
    (chat.settings.folder / "loop").symlink_to("loop")
    text, failed = use(chat, name, path="loop/x", content="x")
    assert failed
    assert "loop" in text
    assert chat.ui.asked == []


def test_a_folder_with_such_a_link_is_listed(chat):
    (chat.settings.folder / "loop").symlink_to("loop")
    assert use(chat, "list_dir") == ("a.txt  14 bytes\nloop", False)


def test_a_name_that_is_no_text_is_listed_as_text(chat):
    """A provider takes no halves of characters, and a name has one line."""
    with open(os.path.join(os.fsencode(chat.settings.folder), b"b\xff\nc"), "w"):  # noqa: PTH123, PTH118
        pass
    text, failed = use(chat, "list_dir")
    assert not failed
    assert text.encode("utf-8").decode() == "a.txt  14 bytes\nb\ufffd\\nc  0 bytes"


@pytest.mark.parametrize("number", [float("inf"), float("nan"), "1e999", [], {}])
def test_a_number_that_is_none_is_passed_over(chat, number):
    assert use(chat, "read_file", path="a.txt", first_line=number, lines=number) == (
        "one\ntwo\nthree\n",
        False,
    )


def test_behind_the_last_line_there_is_nothing_to_read_on(chat):
    """A model that does as it is told would ask for ever."""
    assert use(chat, "read_file", path="a.txt", first_line=2) == ("two\nthree\n[lines 2-3 of 3]", False)
    assert use(chat, "read_file", path="a.txt", first_line=4) == ("(the file ends with line 3)", False)
    assert use(chat, "read_file", path="a.txt", first_line=10**30)[0] == "(the file ends with line 3)"


def test_what_is_no_file_is_not_replaced(chat):
    os.mkfifo(chat.settings.folder / "pipe")
    assert use(chat, "write_file", path="pipe", content="x") == ("This is no file; name another.", True)
    assert chat.ui.asked == []


def test_a_folder_that_becomes_a_link_while_one_is_asked_is_not_followed(chat, tmp_path):
    folder = chat.settings.folder / "sub"
    folder.mkdir()
    (tmp_path / "outside").mkdir()

    class Swaps(ScriptedUser):
        def choose(self, question, answers, about=None):
            folder.rmdir()
            folder.symlink_to(tmp_path / "outside")
            return super().choose(question, answers, about)

    chat.ui = Swaps("yes")
    text, failed = use(chat, "write_file", path="sub/a.txt", content="x")
    assert failed
    assert "outside" in text
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_large_change_is_shown_in_no_time(chat):
    old = "".join(f"{number % 700}\n" for number in range(40_000))
    (chat.settings.folder / "a.txt").write_text(old)
    use(chat, "write_file", path="a.txt", content=old[::-1])
    assert len(chat.ui.text) < 5_000
    assert "too large to be shown line by line" in chat.ui.text
