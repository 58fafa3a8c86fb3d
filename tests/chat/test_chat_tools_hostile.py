"""The tools of a chat under hostile wishes: links in circles, endless numbers, files that are no files."""

import os

import pytest
from chat_desks import Somebody, desk_of

from refold.chat import tools
from refold.clients.talking import Called


def use(desk, name, **arguments):
    return tools.run(desk, Called("1", name, arguments, "", False))


@pytest.fixture
def desk(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    return desk_of(folder=folder, person=Somebody("yes"))


@pytest.mark.parametrize("name", ["read_file", "list_dir", "write_file"])
def test_a_link_that_leads_to_itself_is_told(desk, name):
    (desk.setting.folder / "loop").symlink_to("loop")
    text, failed = use(desk, name, path="loop/x", content="x")
    assert failed
    assert "loop" in text
    assert desk.person.asked == []


def test_a_folder_with_such_a_link_is_listed(desk):
    (desk.setting.folder / "loop").symlink_to("loop")
    assert use(desk, "list_dir") == ("a.txt  14 bytes\nloop", False)


def test_a_name_that_is_no_text_is_listed_as_text(desk):
    """A provider takes no halves of characters, and a name has one line."""
    with open(os.path.join(os.fsencode(desk.setting.folder), b"b\xff\nc"), "w"):  # noqa: PTH123, PTH118
        pass
    text, failed = use(desk, "list_dir")
    assert not failed
    assert text.encode("utf-8").decode() == "a.txt  14 bytes\nb\ufffd\\nc  0 bytes"


@pytest.mark.parametrize("number", [float("inf"), float("nan"), "1e999", [], {}])
def test_a_number_that_is_none_is_passed_over(desk, number):
    assert use(desk, "read_file", path="a.txt", first_line=number, lines=number) == (
        "one\ntwo\nthree\n",
        False,
    )


def test_behind_the_last_line_there_is_nothing_to_read_on(desk):
    """A model that does as it is told would ask for ever."""
    assert use(desk, "read_file", path="a.txt", first_line=2) == ("two\nthree\n[lines 2-3 of 3]", False)
    assert use(desk, "read_file", path="a.txt", first_line=4) == ("(the file ends with line 3)", False)
    assert use(desk, "read_file", path="a.txt", first_line=10**30)[0] == "(the file ends with line 3)"


def test_what_is_no_file_is_not_replaced(desk):
    os.mkfifo(desk.setting.folder / "pipe")
    assert use(desk, "write_file", path="pipe", content="x") == ("This is no file; name another.", True)
    assert desk.person.asked == []


def test_a_folder_that_becomes_a_link_while_one_is_asked_is_not_followed(desk, tmp_path):
    folder = desk.setting.folder / "sub"
    folder.mkdir()
    (tmp_path / "outside").mkdir()

    class Swaps(Somebody):
        def choose(self, question, answers, about=None):
            folder.rmdir()
            folder.symlink_to(tmp_path / "outside")
            return super().choose(question, answers, about)

    desk.person = Swaps("yes")
    text, failed = use(desk, "write_file", path="sub/a.txt", content="x")
    assert failed
    assert "outside" in text
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_large_change_is_shown_in_no_time(desk):
    old = "".join(f"{number % 700}\n" for number in range(40_000))
    (desk.setting.folder / "a.txt").write_text(old)
    use(desk, "write_file", path="a.txt", content=old[::-1])
    assert len(desk.person.text) < 5_000
    assert "too large to be shown line by line" in desk.person.text
