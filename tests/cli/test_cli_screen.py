"""What an output can show, and what is done where it cannot."""

import io
import sys

import pytest

from refold.cli.exit_status import Refused
from refold.cli.output import screen as screens
from refold.cli.output.progress import Progress, progress
from refold.cli.output.screen import Screen


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


class Latin(io.TextIOWrapper):
    def __init__(self):
        super().__init__(io.BytesIO(), encoding="latin-1")


def found(monkeypatch, out=None, err=None, *, colour=True, **env):
    monkeypatch.setattr(sys, "stdout", Terminal() if out is None else out)
    monkeypatch.setattr(sys, "stderr", Terminal() if err is None else err)
    return screens.find(colour=colour, variables={"TERM": "xterm", "LANG": "en_US.UTF-8", **env})


def test_a_terminal_has_colours_and_all_characters(monkeypatch):
    screen = found(monkeypatch)
    assert (screen.live, screen.colour, screen.err_live, screen.err_colour, screen.fancy) == (True,) * 5


@pytest.mark.parametrize(
    ("env", "colour", "fancy"),
    [
        ({"NO_COLOR": "1"}, False, True),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, False, False),
        ({"LANG": "C"}, True, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True, False),
        ({"LANG": "C", "LC_CTYPE": "en_US.UTF-8"}, True, True),
        ({"LANG": "POSIX"}, True, False),
        ({"LC_ALL": "C"}, True, False),
        ({"LANG": "C.UTF-8"}, True, True),
        ({"LANG": ""}, True, True),
    ],
)
def test_the_environment_decides(monkeypatch, env, colour, fancy):
    screen = found(monkeypatch, **env)
    assert (screen.colour, screen.fancy) == (colour, fancy)


def test_no_color_as_an_argument(monkeypatch):
    assert not found(monkeypatch, colour=False).colour


def test_a_pipe_has_no_colours(monkeypatch):
    out = io.StringIO()
    screen = found(monkeypatch, out)
    assert not screen.colour
    assert not screen.live
    assert not screen.fancy  # nobody knows what it can show


def test_a_closed_stream_is_no_terminal(monkeypatch):
    out = Terminal()
    out.close()
    out.isatty = io.StringIO.isatty.__get__(out)
    assert not found(monkeypatch, out).live


def test_missing_streams_are_no_terminals(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    screen = screens.find(variables={})
    screen.note("nobody hears")
    screen.flush()
    with pytest.raises(Refused, match="standard output is closed"):
        screen.line("x")
    with pytest.raises(Refused, match="name a file with -o"):
        screen.data("x")


def test_ascii_spells_our_typography_and_escapes_the_rest():
    out = io.StringIO()
    Screen(out=out, err=None).line("10 → 5 · 漢…")
    assert out.getvalue() == "10 -> 5 | \\u6f22...\n"


def test_a_dumb_terminal_that_takes_utf_8_shows_what_people_wrote(monkeypatch):
    """Its bars are ASCII; the letters of other languages are no typography of ours."""
    out = Terminal()
    screen = found(monkeypatch, out, TERM="dumb", LANG="C.UTF-8")
    screen.line("10 → 5 · café 漢…")
    assert out.getvalue() == "10 -> 5 | café 漢...\n"
    assert screen.short("café au lait", 7) == "café..."


def test_short_makes_one_safe_line():
    assert Screen(out=None, err=None, fancy=True).short("a\x1b[31m b\n" + "c" * 99, 8) == "a b ccc…"
    assert Screen(out=None, err=None).short("abcdefghij", 8) == "abcde..."


def test_a_character_the_stream_cannot_write_is_escaped():
    out = Latin()
    Screen(out=out, err=None, fancy=True).line("漢")
    out.flush()
    assert out.buffer.getvalue() == b"\\u6f22\n"


def test_data_is_utf_8_whatever_the_stream_prefers():
    out = Latin()
    Screen(out=out, err=None).data("漢")
    out.flush()
    assert out.buffer.getvalue() == "漢".encode()


def test_data_goes_to_streams_without_bytes_as_well():
    out = io.StringIO()
    Screen(out=out, err=None).data("{}")
    assert out.getvalue() == "{}"


def test_styles_are_codes_only_where_they_are_seen():
    shown = Screen(out=None, err=None, colour=True, err_colour=True)
    assert shown.paint("x", "red") == shown.tint("x", "red") == "\x1b[31mx\x1b[0m"
    assert shown.paint("", "red") == ""
    assert shown.paint("x", "plain") == "x"
    assert Screen(out=None, err=None).paint("x", "red") == "x"


def test_an_error_is_one_red_line():
    err = io.StringIO()
    Screen(out=None, err=err, fancy=True, err_colour=True).error("two\nlines \x1b[2J")
    assert err.getvalue() == "\x1b[31mrefold: two lines\x1b[0m\n"


def test_progress_is_drawn_and_leaves_no_trace():
    err = Terminal()
    with progress(Screen(out=None, err=err, err_live=True, fancy=True), long=True) as told:
        told.show("reading x", 1, 2)
        told.show("parsing")
    assert "reading x  ███████████████                 50%" in err.getvalue()
    assert err.getvalue().endswith("parsing\r\x1b[2K")


def test_progress_is_silent_in_a_pipe_and_for_short_work():
    err = Terminal()
    for live, long in ((False, True), (True, False)):
        with progress(Screen(out=None, err=err, err_live=live), long=long) as told:
            told.show("reading", 1, 2)
    assert err.getvalue() == ""


def test_progress_without_standard_error_is_silent():
    told = Progress(Screen(out=None, err=None), shown=True)
    told.show("reading")
    told.clear()
