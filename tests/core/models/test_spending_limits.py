"""Caps on what summaries may cost: what they leave, and what they refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.models.prices import Spent
from refold.core.models.spending_limits import HOUR, Bill, Caps, parse_caps, remaining_allowance, total_spent
from refold.errors import FormatError

NOW = 1_000_000.0


def spent(dollars=None, tokens=0):
    return Spent(calls=1, input=tokens, dollars=dollars, unpriced=int(dollars is None))


def left(caps, *bills, total=None):
    """What is left after bills of so many seconds ago."""
    made = [Bill(at=NOW - ago, spent=each) for ago, each in bills]
    return remaining_allowance(caps, total or total_spent(bill.spent for bill in made), made, NOW)


def test_without_caps_everything_may_be_spent():
    """No cap, no refusal."""
    free = left(Caps(), (10, spent(5.0, 10_000)))
    assert not Caps().any
    assert (free.dollars, free.tokens, free.until, free.spent_out) == (None, None, None, False)
    assert free.refusal(spent(100.0, 10**9), spent(100.0, 10**9)) == ""


def test_a_cap_of_a_session_counts_everything():
    """However long ago it was spent."""
    caps = Caps(dollars=1.0)
    some = left(caps, (10 * HOUR, spent(0.75)))
    assert some.dollars == pytest.approx(0.25)
    assert not some.spent_out
    assert some.until is None
    assert some.refusal(Spent(), spent(0.2)) == ""
    assert some.refusal(Spent(), spent(0.3)) == "the cap of $1.00 a session would be passed: $0.75 is spent"
    assert some.refusal(spent(0.2), spent(0.1)).startswith("the cap of $1.00 a session")


def test_a_cap_of_an_hour_forgets():
    """What was spent an hour ago counts no more; until then it is told when to come again."""
    caps = Caps(dollars_per_hour=1.0)
    assert left(caps, (HOUR + 1, spent(5.0))).dollars == 1.0
    over = left(caps, (HOUR - 60, spent(1.5)), (5, spent(0.5)))
    assert over.spent_out
    assert over.until == NOW + 60
    assert over.refusal(Spent(), Spent()) == "the cap of $1.00 an hour is reached: $2.00 is spent"


def test_the_nearer_of_two_caps_speaks():
    """A session's cap and an hour's."""
    caps = Caps(dollars=2.0, dollars_per_hour=1.0)
    assert "an hour" in left(caps, (5, spent(1.0))).refusal(Spent(), spent(0.1))
    whole = left(caps, (5, spent(0.1)), total=spent(1.9))
    assert "a session" in whole.refusal(Spent(), spent(0.5))
    assert whole.until is None


def test_tokens_are_capped_without_a_price():
    """A model without a known price is bounded by its tokens."""
    caps = Caps(tokens_per_hour=1_000)
    some = left(caps, (60, spent(None, 800)))
    assert (some.tokens, some.until) == (200, NOW + HOUR - 60)
    assert some.refusal(Spent(), spent(None, 200)) == ""
    said = "the cap of 1,000 tokens an hour would be passed: 800 are spent"
    assert some.refusal(Spent(), spent(None, 201)) == said
    assert "is reached" in left(caps, (60, spent(None, 1_000))).refusal(Spent(), Spent())


def test_a_call_without_a_price_weighs_nothing_until_the_cap_is_reached():
    """Beyond it nobody is asked, whatever it costs."""
    assert left(Caps(dollars=1.0), (5, spent(None, 10))).refusal(Spent(), spent(None, 10)) == ""
    assert left(Caps(dollars=0.0)).refusal(Spent(), spent(None, 10)) != ""


@given(
    st.floats(0, 10),
    st.lists(st.tuples(st.floats(0, 2 * HOUR), st.floats(0, 3)), max_size=8),
    st.floats(0.001, 3),
)
def test_a_cap_is_never_passed(cap, bills, price):
    """Whatever was spent: calls are made only while the sum stays within the cap."""
    made = [(ago, spent(amount)) for ago, amount in bills]
    some = left(Caps(dollars=cap), *made)
    total = sum(amount for _, amount in bills)
    if some.refusal(Spent(), spent(price)) == "":
        assert total + price <= cap * (1 + 1e-9) + 1e-9


def test_caps_are_read_as_people_write_them():
    """Numbers, text, a sign of the currency, sizes in thousands."""
    caps = parse_caps(
        {"max_dollars": "$2.50", "max_dollars_per_hour": 1, "max_summary_tokens_per_hour": "200k"}
    )
    assert caps == Caps(dollars=2.5, dollars_per_hour=1.0, tokens_per_hour=200_000)
    assert caps.any
    assert caps.in_dollars
    assert parse_caps(caps.named) == caps
    assert Caps(dollars=0.0).named == {"max_dollars": 0.0}
    assert parse_caps({}) == Caps()
    nothing = parse_caps({"max_dollars": 0, "max_summary_tokens_per_hour": "0"})
    assert (nothing.dollars, nothing.tokens_per_hour) == (0.0, 0)
    assert not parse_caps({"max_summary_tokens_per_hour": 0}).in_dollars


@pytest.mark.parametrize("value", ["much", -1, True, float("nan"), float("inf"), 1e6, [1], "1e9"])
def test_what_is_no_amount_is_refused_by_name(value):
    """A slip must not become no cap."""
    with pytest.raises(FormatError, match="max_dollars_per_hour"):
        parse_caps({"max_dollars_per_hour": value})


@pytest.mark.parametrize("value", ["many", -1, False, 0.0])
def test_what_is_no_number_of_tokens_is_refused_by_name(value):
    """Likewise."""
    with pytest.raises(FormatError, match="max_summary_tokens_per_hour"):
        parse_caps({"max_summary_tokens_per_hour": value})
