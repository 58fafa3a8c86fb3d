"""Requests that a provider cut without a word."""

import math

import pytest

from refold.core.overflow.silent_truncation import implied_limit, truncated_silently
from refold.core.tokens.usage import MAX_REPORTED_TOKENS

CUT = {
    "ollama, the old default": (3_940, 2_048, 2_048),
    "ollama, half of 4,096 and two": (7_900, 2_050, 2_048),
    "ollama, half of 32,768 and two": (50_000, 16_386, 16_384),
    "ollama, half of 32,768 and three": (160_689, 16_387, 16_384),
    "whole messages left out": (9_000, 3_980, 4_096),
    "a window of 8,192": (20_000, 8_192, 8_192),
    "a window of 12 x 1,024": (40_000, 12_280, 12_288),
    "a window of 10,000": (40_000, 9_999, 10_000),
    "a window of 131,072": (300_000, 131_072, 131_072),
}


@pytest.mark.parametrize(("sent", "reported", "limit"), CUT.values(), ids=CUT)
def test_a_cut_is_seen_and_tells_its_limit(sent, reported, limit):
    assert truncated_silently(sent, reported)
    assert implied_limit(reported) == limit


WHOLE = {
    "all was read": (8_192, 8_192),
    "the estimate was 35 % too high": (12_600, 8_192),
    "the estimate was too low": (5_000, 8_192),
    "little, but no round number": (50_000, 5_500),
    "only what was not in a cache": (50_000, 812),
    "nothing reported": (50_000, 0),
    "a negative report": (50_000, -4_096),
    "nothing sent": (0, 4_096),
}


@pytest.mark.parametrize(("sent", "reported"), WHOLE.values(), ids=WHOLE)
def test_what_was_not_cut_is_not_taken_for_it(sent, reported):
    assert not truncated_silently(sent, reported)


def test_six_tenths_is_the_line():
    assert not truncated_silently(6_825, 4_096)
    assert truncated_silently(6_830, 4_096)


def test_earlier_ratios_move_the_line():
    """An estimate that was twice too high before is twice too high now."""
    assert truncated_silently(8_000, 4_096)
    assert not truncated_silently(8_000, 4_096, ratios=[0.9, 0.5])
    assert truncated_silently(6_000, 4_096, ratios=[1.4, 1.2])


@pytest.mark.parametrize("ratio", [math.nan, math.inf, 0.0, -1.0, 0.2, 5.0])
def test_a_ratio_that_cannot_be_calibrates_nothing(ratio):
    assert truncated_silently(8_000, 4_096, ratios=[ratio])
    assert not truncated_silently(6_000, 4_096, ratios=[ratio])


@pytest.mark.parametrize(
    ("reported", "limit"),
    [
        (1_925, None),
        (1_926, 2_048),
        (4_080, 4_096),
        (4_112, 4_096),
        (4_113, None),
        (3_850, None),
        (3_851, 4_096),
        (9_984, 10_000),
        (9_983, None),
        (MAX_REPORTED_TOKENS, MAX_REPORTED_TOKENS),
        (MAX_REPORTED_TOKENS + 1, None),
        (10**400, None),
        (-5, None),
    ],
)
def test_how_near_a_round_window_is_near(reported, limit):
    assert implied_limit(reported) == limit
