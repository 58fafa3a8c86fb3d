"""The parts that print: screens, safe text, tables, bars, charts, JSON, messages and growing Markdown."""

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.cli.chat.markdown import Blocks
from refold.cli.commands.recall import cut_snippet
from refold.cli.exit_status import Refused
from refold.cli.output.activity import Activity
from refold.cli.output.costs import format_saving, format_spent
from refold.cli.output.encoding import dump_lines, dump_list, dumps, to_data
from refold.cli.output.format_message import message_lines
from refold.cli.output.log_lines import format_age
from refold.cli.output.meter import bar, marker, strip
from refold.cli.output.progress import Progress, progress
from refold.cli.output.replay import chart, fit_columns, format_money, mark_places
from refold.cli.output.screen import Screen, find_screen
from refold.cli.output.text import align_columns, clean, drop_empty_columns, shorten, width_of
from refold.core.compaction.budget import Breakdown, Levels, Trigger, make_budget
from refold.core.messages.message import (
    Document,
    File,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.models.prices import Spent
from refold.core.models.windows import Price, Window
from refold.errors import FormatError
from refold.stores.reading.stored_messages import parse_stored

FANCY = Screen(out=None, err=None, fancy=True)
ASCII = Screen(out=None, err=None)

# -- the screen ----------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


class Latin(io.TextIOWrapper):
    def __init__(self):
        super().__init__(io.BytesIO(), encoding="latin-1")


def screen_with(monkeypatch, out=None, err=None, *, colour=True, **env):
    monkeypatch.setattr(sys, "stdout", Terminal() if out is None else out)
    monkeypatch.setattr(sys, "stderr", Terminal() if err is None else err)
    return find_screen(colour=colour, variables={"TERM": "xterm", "LANG": "en_US.UTF-8", **env})


def test_a_terminal_has_colours_and_all_characters(monkeypatch):
    screen = screen_with(monkeypatch)
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
    screen = screen_with(monkeypatch, **env)
    assert (screen.colour, screen.fancy) == (colour, fancy)


def test_no_color_as_an_argument(monkeypatch):
    assert not screen_with(monkeypatch, colour=False).colour


def test_a_pipe_has_no_colours(monkeypatch):
    out = io.StringIO()
    screen = screen_with(monkeypatch, out)
    assert not screen.colour
    assert not screen.live
    assert not screen.fancy  # nobody knows what it can show


def test_a_closed_stream_is_no_terminal(monkeypatch):
    out = Terminal()
    out.close()
    out.isatty = io.StringIO.isatty.__get__(out)
    assert not screen_with(monkeypatch, out).live


def test_missing_streams_are_no_terminals(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    screen = find_screen(variables={})
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
    screen = screen_with(monkeypatch, out, TERM="dumb", LANG="C.UTF-8")
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


def test_no_line_moves_the_cursor_whatever_stands_in_it():
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out=out, err=err, colour=True, err_colour=True, fancy=True)
    evil = "\x1b]0;owned\x07a\x1b[2Jb\x9b8mc\x1b[8md\r\n\u202ee\x1bc"
    screen.line(screen.paint(evil, "bold") + " 漢")
    screen.note(screen.tint(evil, "red"))
    assert (out.getvalue(), err.getvalue()) == ("\x1b[1mabcde\x1b[0m 漢\n", "\x1b[31mabcde\x1b[0m\n")


def test_json_holds_nothing_that_moves_a_cursor():
    value = {"\x9b2J": "\x7f\x85\x9d0;x\x9c\u200e\u2028\u202e\u2066 é漢"}
    text = dumps(value)
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    assert "é漢" in text
    assert json.loads(text) == value


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


def test_the_seconds_behind_a_line_of_progress_fit_a_narrow_terminal():
    """A line that wraps is not erased whole: every second would leave a part of it on the screen."""
    for width in (40, 60, 80, 200):
        screen = Screen(out=None, err=Terminal(), err_live=True, fancy=True, width=width)
        with progress(screen) as told:
            told.show("replaying under neurolink in a window of 100,000 tokens", 99, 100)
            assert "re" in screen.activity.doing
            assert len(f"{screen.activity.doing} (9999 s)") < width


def test_progress_is_silent_in_a_pipe_and_for_short_work():
    err = Terminal()
    for live, long in ((False, True), (True, False)):
        with progress(Screen(out=None, err=err, err_live=live), long=long) as told:
            told.show("reading", 1, 2)
    assert err.getvalue() == ""


def test_the_line_about_long_work_makes_way_and_stays_away_from_a_result_on_the_same_terminal():
    err, out = Terminal(), io.StringIO()
    activity = Activity(err)
    screen = Screen(out=out, err=err, live=True, err_live=True, activity=activity)
    activity.draw("refold show (1 s)")
    screen.note("a note")
    activity.draw("refold show (2 s)")
    screen.line("the result")
    activity.draw("refold show (3 s)")
    clear = "\r\x1b[2K"
    assert err.getvalue() == f"{clear}refold show (1 s){clear}a note\n{clear}refold show (2 s){clear}"
    assert out.getvalue() == "the result\n"


def test_the_line_about_long_work_goes_on_while_the_result_goes_into_a_file():
    err, out = Terminal(), io.StringIO()
    activity = Activity(err)
    screen = Screen(out=out, err=err, err_live=True, activity=activity)
    screen.data("[]")
    activity.draw("refold show (3 s)")
    assert "(3 s)" in err.getvalue()


class Seconds:
    """A clock and an end of the work in one: each wait takes a second, and the work takes so many."""

    def __init__(self, seconds):
        self.now, self._last = 0, seconds

    def __call__(self):
        return self.now

    def wait(self, _delay):
        self.now += 1
        return self.now > self._last


def test_in_a_pipe_long_work_says_ever_more_rarely_what_it_does():
    err, seconds = io.StringIO(), Seconds(210)
    activity = Activity(err, seconds, redraws=False)
    with progress(Screen(out=None, err=err, activity=activity)) as told:
        told.show("asking http://localhost:8080/v1#a-model-with-a-long-name: summarize, 12,345 characters")
        activity.tick("refold compact", 0, seconds)
    lines = err.getvalue().splitlines()
    assert [line.rpartition("(")[2] for line in lines] == [f"{at} s)" for at in (10, 20, 40, 80, 140, 200)]
    assert lines[0].startswith("asking http://localhost:8080/v1#a-model-with-a-long-name: summarize, 12,345 ")


def test_in_a_pipe_a_share_has_no_bar_and_a_command_is_not_named():
    err = io.StringIO()
    activity = Activity(err, redraws=False)
    with progress(Screen(out=None, err=err, activity=activity)) as told:
        told.show("replaying", 1, 4)
        activity.tick("refold replay", -10, Seconds(1))
    activity.tick("refold replay", -99, Seconds(1))
    assert err.getvalue().startswith("replaying 25% (")
    assert err.getvalue().count("\n") == 1


def test_progress_without_standard_error_is_silent():
    told = Progress(Screen(out=None, err=None), shown=True)
    told.show("reading")
    told.clear()


# -- text and tables ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice\x1b\\x", "x"),
        ("\x9b2Jgone", "gone"),
        ("a\r\nb\tc", "a b c"),
        ("bell\x07 back\x08space", "bell backspace"),
        ("bidi \u202eevil\u202c", "bidi evil"),
        ("nul\0 del\x7f", "nul del"),
        ("half \ud83d", "half"),
        ("\x1b", ""),
        ("\x1b]never closed", ""),
    ],
)
def test_what_would_move_a_cursor_is_gone(hostile, shown):
    assert clean(hostile) == shown


@given(st.text())
def test_clean_text_is_one_printable_line(text):
    assert clean(text).isprintable()


@given(st.text(alphabet=st.characters(blacklist_categories=("Cs",))), st.integers(3, 40))
def test_shortened_text_is_never_wider_than_asked(text, width):
    assert width_of(shorten(clean(text), width)) <= max(width, 1)


def test_wide_characters_take_two_align_columns():
    assert width_of("漢字") == 4
    assert shorten("漢字漢字", 5) == "漢字…"
    assert width_of("e\u0301") == 1


def test_short_text_stays():
    assert shorten("short", 5) == "short"


def test_columns_line_up_also_with_wide_characters():
    assert align_columns([["漢", "1"], ["abc", "22"]], "lr") == ["漢    1", "abc  22"]


def test_lines_with_something_behind_them_are_equally_wide():
    rows = [["policy", "fits"], ["opal", "no"], ["refold", "yes"]]
    assert set(map(len, align_columns(rows, "ll", padded=True))) == {12}
    assert align_columns(rows, "ll")[1] == "opal    no"


def test_columns_with_nothing_in_them_are_left_out():
    rows = [["policy", "cost", "paid", "size"], ["none", "-", "", "9"], ["refold", "-", "", ""]]
    assert drop_empty_columns(rows, "lrrr") == ([["policy", "size"], ["none", "9"], ["refold", ""]], "lr")


def test_no_rows_are_no_lines():
    assert align_columns([], "lr") == []


def test_less_never_says_all_while_something_is_left():
    assert format_saving(1_000_000, 1) == "99.9% less"
    assert format_saving(100, 25) == "75% less"
    assert format_saving(0, 0) == "0% less"


def test_half_a_character_is_written_as_its_escape_and_reads_back():
    text = dumps({"a": "x\ud83d y"}, indent=None)
    assert text.encode("utf-8")
    assert json.loads(text) == {"a": "x\ud83d y"}


def test_other_characters_are_written_as_they_are():
    assert dumps("é漢😀", indent=None) == '"é漢😀"'


def test_numbers_that_python_alone_writes_are_legal_json():
    value = {"NaN": 'say "NaN, \\', "big": [float("inf"), -float("inf")], "none": float("nan")}
    text = dumps(value, indent=None)
    assert text == r'{"NaN": "say \"NaN, \\", "big": [1e999, -1e999], "none": null}'
    assert json.loads(text)["big"] == value["big"]


def test_a_list_has_a_message_on_each_line():
    messages = [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c"}]
    assert dump_list(messages).count("\n") == 3
    assert json.loads(dump_list(messages)) == messages
    assert [json.loads(line) for line in dump_lines(messages).splitlines()] == messages
    assert dump_list([]) == "[]"


def test_what_is_nested_too_deeply_is_a_clear_error():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(FormatError, match="nested deeper"):
        dumps(deep)


def test_values_become_plain_data():
    window = Window(10, None, "table", price=Price(1.0, 2.0))
    data = to_data({"w": window, "t": (1, {2})})
    assert data["w"]["price"] == {"input": 1.0, "output": 2.0, "cache_read": None, "cache_write": None}
    assert data["t"] == [1, [2]]


# -- bars and charts ------------------------------------------------------------------------------------------


def budget(used, *, window=100, reserve=20, fraction=0.5):
    return make_budget(
        Breakdown(history=used),
        window=window,
        reserve=reserve,
        trigger=Trigger(fraction=fraction),
        levels=Levels(),
    )


def test_a_bar_shows_used_line_free_and_reserve():
    assert bar(budget(20), 22, ASCII) == "[####....|.......----]"
    assert bar(budget(20), 20, FANCY) == "████····│·······░░░░"


def test_a_part_of_a_cell_is_drawn_where_it_can_be():
    assert bar(budget(22), 20, FANCY).startswith("████▍·")
    assert bar(budget(22), 22, ASCII).startswith("[####.")


def test_the_line_is_seen_in_what_is_used():
    assert bar(budget(60), 22, ASCII) == "[########|###....----]"


def test_more_than_the_window_fills_the_bar():
    assert bar(budget(400), 12, ASCII) == "[####|#####]"


def test_a_policy_without_a_line_has_none():
    never = budget(20, fraction=None)
    assert marker(never, 20, FANCY) is None
    assert "│" not in bar(never, 20, FANCY)


@pytest.mark.parametrize(("used", "code"), [(10, 32), (50, 36), (66, 33), (79, 31)])
def test_the_level_has_a_colour(used, code):
    screen = Screen(out=None, err=None, fancy=True, colour=True)
    assert bar(budget(used), 20, screen).startswith(f"\x1b[{code}m")


@given(
    st.integers(0, 10**7), st.integers(1, 10**6), st.integers(0, 10**6), st.floats(0, 3), st.integers(3, 120)
)
def test_a_bar_has_the_width_that_was_asked_for(used, window, reserve, fraction, width):
    now = budget(used, window=window, reserve=min(reserve, window), fraction=fraction)
    for screen in (FANCY, ASCII):
        assert len(bar(now, width, screen)) == width
        assert 0 <= marker(now, width, screen) < width


def test_a_strip_shows_that_something_is_there():
    assert strip(1, 10_000, 40, FANCY) == "▏"
    assert strip(0, 10, 40, FANCY) == strip(1, 0, 40, FANCY) == ""
    assert strip(5, 10, 10, ASCII) == "#####"


def test_pictures():
    fancy, plain = (Screen(out=None, err=None, fancy=fancy) for fancy in (True, False))
    assert chart([0, 1, 4, 8], 8, 1, fancy) == [" ▁▄█"]
    assert chart([4, 8], 8, 2, plain) == [" #", "##"]
    assert fit_columns([3, 1, 2], 5) == [3, 1, 2]
    assert fit_columns(list(range(100)), 10)[-1] == 99
    assert mark_places([0, 99], 100, 10, plain) == "^        ^"
    assert [format_money(amount) for amount in (None, 0.0, 1234.5, -0.5)] == [
        "-",
        "$0.00",
        "$1,234.50",
        "-$0.5000",
    ]


# -- messages, ages and costs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (3_600, "1 hour ago"),
        (86_400 * 2, "2 days ago"),
        (86_400 * 20, "2001-08-20"),
    ],
)
def test_how_long_format_age(seconds, words):
    assert format_age(1e9 - seconds, 1e9) == words


def test_a_time_of_another_world():
    assert format_age(-1e30, 1e9) == "?"


def test_a_snippet_begins_near_the_word():
    assert cut_snippet("short text", "text") == "short text"
    assert cut_snippet("no such word", "x") == "no such word"
    assert "needle" in cut_snippet("hay " * 100 + "needle", "NEEDLE")[:60]
    assert (
        "limiter" in cut_snippet("the berth of the ship " * 40 + "and the limiter", "the crane limiter")[:60]
    )
    # Inside a name, and in a text without blanks.
    assert "limiter" in cut_snippet("the berth of the ship " * 40 + "crane_limiter", "limiter")[:80]
    assert "港湾" in cut_snippet("天気は良いです。" * 60 + "明日は港湾を点検します。", "港湾")[:60]


def test_every_part_of_a_message_has_its_line():
    message = Message(
        "user",
        (
            Text("one\ntwo"),
            Thinking("hm"),
            Thinking("", redacted="x"),
            ToolCall("1", "ls", {"p": 1}),
            ToolResult("1", (Text("a"), Image(url="u")), is_error=True),
            Document(title="d.pdf"),
            File(media_type="audio/wav"),
            File(),
            Opaque("new", {"k": 1}),
        ),
    )
    assert list(message_lines(message)) == [
        *("one", "two", "(thinking)", "hm", "(thinking)", "(encrypted)"),
        '→ ls {"p": 1}',
        *("← 1 failed", "a", "[image]", "[file: d.pdf]", "[file: audio/wav]", "[file: unnamed]"),
        '{"k": 1}',
    ]
    failed = Message("tool", (ToolResult("1", (Text("a"),), is_error=True),))
    assert list(message_lines(failed)) == ["(failed)", "a"]


def test_a_value_that_is_no_message_is_shown_as_its_json():
    assert list(message_lines(parse_stored(7, "openai"))) == ["7"]
    assert list(message_lines(parse_stored({"x": 1}, "refold"))) == ['{"x": 1}']


def test_sums_with_unknown_parts_say_so():
    """Dollars are of what is known."""
    assert format_spent(Spent(calls=2, dollars=0.5, unpriced=1)) == "$0.500 + 1 call without a price"
    assert format_spent(Spent(calls=1, dollars=0.0)) == "$0"


# -- growing Markdown -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("One", ""),
        ("One.\n\n", ""),
        ("One.\n\nTwo", "One.\n\n"),
        ("- a\n\n  more of a", ""),
        ("- a\n\n  more of a\n\nB", "- a\n\n  more of a\n\n"),
        ("```\na\n\nb", ""),
        ("```\na\n\nb\n```\n\nC", "```\na\n\nb\n```\n\n"),
    ],
)
def test_whole_blocks_are_told_from_what_is_still_coming(text, whole):
    """However the text is cut into pieces."""
    for size in (1, 2, 3, 5, 100):
        coming = Blocks()
        blocks = "".join(coming.add(text[at : at + size]) for at in range(0, len(text), size))
        assert (blocks, coming.rest) == (whole, text[len(whole) :])


def test_the_end_of_a_long_fence_is_a_fence():
    coming = Blocks()
    coming.add("```python\n" + "".join(f"line {number}\n" for number in range(100)))
    assert coming.last_lines(3) == "```python\nline 98\nline 99\n"
    assert coming.last_lines(500) == coming.rest
    coming = Blocks()
    coming.add("\n".join(f"line {number}" for number in range(100)))
    assert coming.last_lines(2) == "line 98\nline 99"


def test_the_last_column_of_a_table_goes_on_below_itself_or_is_cut():
    rows = [["/fold", "fold what was said so far, now"], ["/unfold NAME", "undo it"]]
    narrow = Screen(out=None, err=None, live=True, width=40)
    assert narrow.layout(rows, "ll") == [
        ["/fold         fold what was said so far,", "              now"],
        ["/unfold NAME  undo it"],
    ]
    assert narrow.layout(rows, "lL")[0] == ["/fold         fold what was said so f..."]
    piped = Screen(out=None, err=None, width=40)
    assert piped.layout(rows, "ll")[0] == ["/fold         fold what was said so far, now"]


def test_columns_without_a_place_stand_below_their_row():
    """A column without a title stays beside the one that it belongs to."""
    rows = [["policy", "tokens", "", "facts", "by"], ["a long name", "1,000,000", "→", "38 of 51", "digest"]]
    narrow = Screen(out=None, err=None, fancy=True, live=True, width=40)
    assert narrow.layout([rows[0]], "lrlrl") == [["policy  tokens    facts  by"]]
    assert narrow.layout(rows, "lrlrl") == [
        ["policy          tokens        facts", "  by"],
        ["a long name  1,000,000  →  38 of 51", "  digest"],
    ]
