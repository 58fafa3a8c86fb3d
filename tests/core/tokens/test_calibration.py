"""What reports teach of a provider's way to count, and which are believed."""

import pytest

from refold.core.tokens.calibration import Calibration, Counted, clamp_ratio, confirms, is_absurd

EVEN = Calibration(last=Counted(1_000, 1_000))


def test_before_the_first_report_sizes_are_as_we_count_them():
    assert [Calibration().tokens(size) for size in (0, 1, 500)] == [0, 1, 500]


@pytest.mark.parametrize(
    ("calibration", "tokens"),
    [
        (Calibration(ratio=1.5, scale=1.5, last=Counted(2_000, 3_000)), 1_500),
        (Calibration(ratio=1.5, scale=1.0, last=Counted(2_000, 3_000)), 2_000),
        (Calibration(ratio=0.5, scale=1.0, last=Counted(2_000, 1_000)), 500),
        (Calibration(ratio=4.0, scale=4.0, last=Counted(100, 6_000)), 9_600),
    ],
    ids=["all alike", "a part that stays", "less than we count", "the first request was small"],
)
def test_the_larger_reading_is_taken(calibration, tokens):
    assert calibration.tokens(1_000) == tokens


@pytest.mark.parametrize(
    ("calibration", "counted", "extends", "believed"),
    [
        (Calibration(), Counted(1_000, 600), False, True),
        (Calibration(), Counted(1_000, 599), False, False),
        (Calibration(ratio=2.0, last=Counted(900, 1_800)), Counted(1_000, 1_199), False, False),
        (Calibration(ratio=2.0, last=Counted(90, 180)), Counted(1_000, 600), False, True),
        (Calibration(ratio=0.5, last=Counted(900, 450)), Counted(1_000, 300), False, True),
        (EVEN, Counted(900, 540), True, True),
        (EVEN, Counted(900, 539), True, False),
        (EVEN, Counted(1_500, 1_300), True, True),
        (EVEN, Counted(1_500, 1_299), True, False),
        (EVEN, Counted(1_000, 1_000), True, True),
        (EVEN, Counted(1_500, 500), True, False),
        (EVEN, Counted(11_000, 10_000), True, False),
        (EVEN, Counted(11_000, 10_500), True, True),
        (EVEN, Counted(11_000, 8_000), True, True),
    ],
)
def test_which_reports_are_believed(calibration, counted, extends, believed):
    """Behind a known request the report has to grow with what is new, and be more than that alone."""
    assert calibration.believes(counted, extends=extends) is believed


@pytest.mark.parametrize(
    ("second", "confirmed"),
    [
        (Counted(22_000, 11_000), True),
        (Counted(22_000, 10_300), False),
        (Counted(22_000, 10_000), False),
        (Counted(22_000, 12_000), False),
        (Counted(20_000, 10_000), False),
        (Counted(30_000, 14_000), False),
        (Counted(80_000, 15_000), False),
    ],
)
def test_a_low_report_is_confirmed_by_one_that_grew_as_a_count_of_all_does(second, confirmed):
    assert confirms(Counted(20_000, 10_000), second) is confirmed


def test_a_ratio_that_no_text_has_is_not_confirmed():
    assert not confirms(Counted(20_000, 4_000), Counted(21_000, 4_200))


def test_a_report_is_absurd_if_it_is_many_windows_and_many_times_what_was_sent():
    assert is_absurd(80_001, expected=500, window=8_000)
    assert not is_absurd(80_000, expected=500, window=8_000)
    assert not is_absurd(80_001, expected=8_001, window=500)


def test_a_ratio_has_bounds():
    assert [clamp_ratio(ratio) for ratio in (0.1, 1.2, 90.0)] == [0.25, 1.2, 4.0]
