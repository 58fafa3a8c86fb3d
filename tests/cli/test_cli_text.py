"""Text for terminals: safe, of known width, in columns; and values as JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.cli.output.encoding import dumps, lines, listed, plain
from refold.cli.output.plain import clean, shorten, width_of
from refold.cli.output.tables import columns, filled, less
from refold.core.models.windows import Price, Window
from refold.errors import FormatError


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


def test_wide_characters_take_two_columns():
    assert width_of("漢字") == 4
    assert shorten("漢字漢字", 5) == "漢字…"
    assert width_of("e\u0301") == 1


def test_short_text_stays():
    assert shorten("short", 5) == "short"


def test_columns_line_up_also_with_wide_characters():
    assert columns([["漢", "1"], ["abc", "22"]], "lr") == ["漢    1", "abc  22"]


def test_lines_with_something_behind_them_are_equally_wide():
    rows = [["policy", "fits"], ["opal", "no"], ["refold", "yes"]]
    assert set(map(len, columns(rows, "ll", padded=True))) == {12}
    assert columns(rows, "ll")[1] == "opal    no"


def test_columns_with_nothing_in_them_are_left_out():
    rows = [["policy", "cost", "paid", "size"], ["none", "-", "", "9"], ["refold", "-", "", ""]]
    assert filled(rows, "lrrr") == ([["policy", "size"], ["none", "9"], ["refold", ""]], "lr")


def test_no_rows_are_no_lines():
    assert columns([], "lr") == []


def test_less_never_says_all_while_something_is_left():
    assert less(1_000_000, 1) == "99.9% less"
    assert less(100, 25) == "75% less"
    assert less(0, 0) == "0% less"


def test_half_a_character_is_written_as_its_escape_and_reads_back():
    text = dumps({"a": "x\ud83d y"}, indent=None)
    assert text.encode("utf-8")
    assert json.loads(text) == {"a": "x\ud83d y"}


def test_other_characters_are_written_as_they_are():
    assert dumps("é漢😀", indent=None) == '"é漢😀"'


def test_a_list_has_a_message_on_each_line():
    messages = [{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c"}]
    assert listed(messages).count("\n") == 3
    assert json.loads(listed(messages)) == messages
    assert [json.loads(line) for line in lines(messages).splitlines()] == messages
    assert listed([]) == "[]"


def test_what_is_nested_too_deeply_is_a_clear_error():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(FormatError, match="nested deeper"):
        dumps(deep)


def test_values_become_plain_data():
    window = Window(10, None, "table", price=Price(1.0, 2.0))
    told = plain({"w": window, "t": (1, {2})})
    assert told["w"]["price"] == {"input": 1.0, "output": 2.0, "cache_read": None, "cache_write": None}
    assert told["t"] == [1, [2]]
