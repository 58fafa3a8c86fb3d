"""Numbers of tokens as people write them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.errors import FormatError, RefoldError


def parse_tokens(setting):
    """Read a setting as every call does that takes a number of tokens."""
    return refold.measure([], window=setting).window


@pytest.mark.parametrize(
    ("setting", "size"),
    [
        ("128k", 128_000),
        ("16K", 16_000),
        ("1m", 1_000_000),
        ("2M", 2_000_000),
        ("1.5m", 1_500_000),
        ("0.5k", 500),
        ("32768", 32_768),
        ("128_000", 128_000),
        ("200,000", 200_000),
        ("1,047,576", 1_047_576),
        (" 4k ", 4_000),
        ("128 k", 128_000),
        ("128k tokens", 128_000),
        ("4.0", 4),
        (8_192, 8_192),
        (128_000.0, 128_000),
        (1, 1),
    ],
)
def test_a_size_is_read_as_people_write_it(setting, size):
    assert parse_tokens(setting) == size


@pytest.mark.parametrize(
    "setting",
    [
        "", " ", "banana", "k", "-5", "-1k", "0", 0, -1, "1.5", "1.23456k", "12,34", "1,2345", "1__000", "1_", "0x10",
        "1e5", "128kb", "128ki", "128gb", "k128", "9" * 5_000, "١٢٨k", True, [], 1.5, float("nan"), float("inf"), pytest.param(-(10**5_000), id="huge"),
    ],
)  # fmt: skip
def test_nonsense_is_a_clear_error_and_also_a_value_error(setting):
    with pytest.raises(FormatError, match="128k") as caught:
        parse_tokens(setting)
    assert isinstance(caught.value, RefoldError)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 200


@given(st.integers(1, 10**9))
def test_every_way_to_write_a_whole_number_gives_that_number(number):
    for setting in (number, str(number), f"{number:,}", f"{number:_}", float(number)):
        assert parse_tokens(setting) == number


@given(st.integers(1, 10**3))
def test_k_is_a_thousand_and_m_a_million(number):
    assert parse_tokens(f"{number}k") == parse_tokens(f"{number}K") == number * 1_000
    assert parse_tokens(f"{number}m") == number * 1_000_000


@given(st.one_of(st.text(), st.integers(), st.floats(), st.binary()))
def test_whatever_is_given_the_answer_is_a_positive_number_or_a_format_error(setting):
    with contextlib.suppress(FormatError):
        assert parse_tokens(setting) >= 1
