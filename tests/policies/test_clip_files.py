"""clip for people: what is cut off may be saved."""

import os
import stat
import sys
from pathlib import Path

import pytest

import refold

LONG = "\n".join(f"line {number}" for number in range(5_000))


def test_a_short_text_is_left_alone():
    done = refold.clip("short")
    assert (done.text, done.clipped, done.original_bytes, done.saved_to) == ("short", False, 5, None)


def test_a_text_is_cut_to_2000_lines_and_51200_bytes_from_its_end():
    """NeuroLink's document, tool output limits: 50 KB, 2,000 lines, the tail is kept."""
    done = refold.clip(LONG)
    assert (done.clipped, done.original_bytes) == (True, len(LONG))
    assert "line 4999" in done.text
    assert "line 2999" not in done.text
    assert "line 3000" in done.text
    assert len(refold.clip("x" * 60_000).text.encode()) <= 51_200


@pytest.mark.parametrize(
    ("keep", "first", "last"), [("head", True, False), ("tail", False, True), ("both", True, True)]
)
def test_head_tail_or_both_are_kept(keep, first, last):
    text = refold.clip(LONG, max_lines=100, keep=keep).text
    assert ("line 0\n" in text, "line 4999" in text) == (first, last)


def test_limits_are_set_by_name():
    assert len(refold.clip("x" * 1_000, max_bytes=500).text) <= 500
    assert not refold.clip(LONG, max_bytes=None, max_lines=None).clipped


def test_what_is_cut_off_is_saved_to_a_folder_under_a_name_made_of_its_content(tmp_path):
    folder = tmp_path / "deep" / "er"
    done = refold.clip(LONG, save_to=folder)
    (file,) = folder.iterdir()
    assert done.saved_to == str(file)
    assert file.read_text() == LONG
    assert f"[Full output saved to {file}]" in done.text
    assert file.name.startswith("output-")
    assert refold.clip(LONG, save_to=str(folder)).saved_to == done.saved_to
    assert refold.clip(LONG + "!", save_to=folder).saved_to != done.saved_to
    assert len(list(folder.iterdir())) == 2


def test_a_text_that_fits_is_not_saved(tmp_path):
    assert refold.clip("short", save_to=tmp_path).saved_to is None
    assert list(tmp_path.iterdir()) == []


def saved(text, folder):
    """Where a text is stored that is cut to nothing."""
    return refold.clip(text, max_bytes=1, save_to=folder).saved_to


def test_no_link_in_a_shared_folder_leads_a_saved_text_elsewhere(tmp_path):
    """Somebody who knows the text, such as whose web page was read, knows the name that it gets."""
    shared, own = tmp_path / "shared", tmp_path / "profile"
    own.write_text("mine")
    file = saved("text", shared)
    Path(file).unlink()
    for name in (f"{file[:-4]}.{os.getpid()}.part", f"{file}.part"):
        Path(name).symlink_to(own)
    assert saved("text", shared) == file
    assert own.read_text() == "mine"
    assert not Path(file).is_symlink()


def test_a_saved_text_is_not_written_twice(tmp_path):
    path = saved("text", tmp_path)
    before = stat.S_IMODE((tmp_path / path).stat().st_mode)
    (tmp_path / path).write_text("somebody changed it")
    assert saved("text", tmp_path) == path
    assert (tmp_path / path).read_text() == "somebody changed it"
    if sys.platform != "win32":
        assert before == 0o600


def test_every_text_can_be_saved(tmp_path):
    path = saved("a\ud800b\x00\r\n", tmp_path)
    assert (tmp_path / path).read_bytes() == "a\ud800b\x00\r\n".encode("utf-8", "surrogatepass")


def test_a_callable_of_ones_own_stores_the_text():
    stored = []

    def store(text):
        stored.append(text)
        return "store:1"

    done = refold.clip(LONG, save_to=store)
    assert stored == [LONG]
    assert done.saved_to == "store:1"


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_pointer(tmp_path):
    file = tmp_path / "file"
    file.write_text("in the way")
    done = refold.clip(LONG, save_to=file / "folder")
    assert (done.clipped, done.saved_to) == (True, None)


def test_no_half_written_file_is_left(tmp_path):
    saved("text", tmp_path)
    assert [file.suffix for file in tmp_path.iterdir()] == [".txt"]


def test_what_is_no_text_is_wrong_use():
    with pytest.raises(refold.FormatError, match="text=5: expected text"):
        refold.clip(5)
