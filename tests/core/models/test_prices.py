"""What tokens cost, and when a compaction pays: the formulas against worked examples."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.models.prices import (
    Spent,
    break_even,
    cache_prices,
    choose_price,
    clearing_break_even,
    find_client_price,
    find_price,
    fold_cost,
    request_cost,
)
from refold.core.models.spending_limits import HOUR, Bill, Caps, parse_caps, remaining_allowance, total_spent
from refold.core.models.windows import Price, Window, lookup
from refold.core.tokens.usage import Usage
from refold.errors import FormatError

SONNET = Price(3, 15, 0.3, 3.75)
GPT_5 = Price(1.25, 10, 0.125, None)
NO_CACHE = Price(3, 15)

counts = st.integers(0, 10_000_000)
sums = st.builds(
    Spent,
    calls=st.integers(0, 5),
    input=counts,
    output=counts,
    cache_read=counts,
    cache_write=counts,
    dollars=st.none() | st.integers(0, 100).map(float),
)


def test_a_price_is_found_by_any_spelling_of_a_model():
    """The table knows a model under the name its address has, and under a dated one."""
    assert find_price("claude-sonnet-4-5") == SONNET
    assert find_price("anthropic:claude-sonnet-4-20250514") == SONNET
    assert find_price("openai:gpt-5") == GPT_5


@pytest.mark.parametrize("model", [None, "", "  ", "local", "a-model-nobody-knows"])
def test_no_price_is_made_up(model):
    """Where nobody knows a price there is none."""
    assert find_price(model) is None


def test_a_server_of_ones_own_has_no_price():
    """Whatever its model is called; who only names the model is taken at its word."""
    assert (
        find_client_price("anthropic", "claude-sonnet-4-5")
        == find_client_price("", "claude-sonnet-4-5")
        == SONNET
    )
    assert find_client_price("http://127.0.0.1:8080/v1", "claude-sonnet-4-5") is None
    assert find_client_price("https://models.example/v1", "gpt-5") is None
    assert find_client_price("local", "gpt-5") is None
    assert find_client_price("openai", "") is None
    assert find_price("http://127.0.0.1:8080/v1#claude-sonnet-4-5") is None
    assert find_price("http://127.0.0.1:8080/v1#anthropic/claude-sonnet-4.5") is None


@pytest.mark.parametrize(
    ("provider", "model", "price"),
    [
        ("http://127.0.0.1:8080/v1", "m", Price(7, 8)),
        ("http://127.0.0.1:9090/v1", "m", None),
        ("openai", "gpt-5-2025-08-07", Price(1, 2)),
        ("", "gpt-5", Price(1, 2)),
        ("local", "small", Price(3, 4)),
        ("local", "gpt-4o", None),
        ("anthropic", "claude-sonnet-4-5", SONNET),
        ("http://127.0.0.1:8080/v1", "plain", None),
        ("openai", "", None),
    ],
)
def test_a_client_has_the_price_that_the_user_set(provider, model, price):
    own = {
        "http://127.0.0.1:8080/v1#m": Window(6_000, None, "", price=Price(7, 8)),
        "gpt-5": Window(50_000, None, "", price=Price(1, 2)),
        "small": Window(4_000, None, "", price=Price(3, 4)),
        "plain": Window(4_000, None, ""),
    }
    assert find_client_price(provider, model, partial(lookup, overlay=own)) == price


def test_the_users_own_price_comes_before_that_of_the_table():
    own = {"my-model": Window(64_000, None, "", price=Price(1, 2))}
    assert choose_price(partial(lookup, overlay=own), "my-model") == Price(1, 2)
    assert choose_price(partial(lookup, overlay=own), "gpt-5") == GPT_5
    assert choose_price(lambda _: Window(64_000, None, "mine"), "gpt-5") == GPT_5
    assert choose_price(lookup, "a-model-nobody-knows") is None


@pytest.mark.parametrize(
    ("price", "dollars"), [(SONNET, 0.0129), (NO_CACHE, 0.0345), (Price(3, 15, 0.3, 7), 0.0139)]
)
def test_what_is_cached_for_an_hour_is_written_at_twice_the_price_of_input(price, dollars):
    used = Usage(input=10_000, output=100, cache_read=8_000, cache_write=1_000, written_for_hour=1_000)
    assert request_cost(used, price) == pytest.approx(dollars)
    longer = Usage(input=10_000, output=100, cache_read=8_000, cache_write=1_000, written_for_hour=9_000)
    assert request_cost(longer, price) == request_cost(used, price)


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        (SONNET, (0.3, 3.75)),
        (GPT_5, (0.125, 1.25)),
        (NO_CACHE, (3, 3)),
        (Price(3, 15, None, 3.75), (3, 3)),
        (Price(0, 0, 0, None), (0, 0)),
        (Price(3, 15, 0, 0), (0, 0)),
        (Price(1, 5, 0.5, 0.2), (0.5, 0.5)),
    ],
)
def test_writing_to_a_cache_costs_what_reading_costs_unless_it_has_a_price(price, expected):
    """A provider without a cache reads and writes at the full price."""
    assert cache_prices(price) == expected


def test_a_request_costs_by_what_was_cached():
    """10k anew, 80k from the cache, 10k into it, 1k out."""
    usage = Usage(input=100_000, output=1_000, cache_read=80_000, cache_write=10_000)
    assert request_cost(usage, SONNET) == pytest.approx(0.03 + 0.024 + 0.0375 + 0.015)
    assert request_cost(usage, NO_CACHE) == pytest.approx(0.3 + 0.015)


@given(st.builds(Usage, input=counts, output=counts, cache_read=counts, cache_write=counts))
def test_a_report_that_cannot_be_never_costs_less_than_nothing(usage):
    """Caches that hold more than was read change nothing beyond what was read."""
    most = (usage.input * 3.75 + usage.output * 15) / 1e6
    assert 0 <= request_cost(usage, SONNET) <= most * (1 + 1e-9)


@pytest.mark.parametrize(
    ("price", "cached", "turns"),
    [
        (SONNET, True, 4),  # in the cache
        (GPT_5, True, 4),
        (SONNET, False, 15),  # cold
        (GPT_5, False, 15),
        (NO_CACHE, True, 1.3),  # without caching both are the same
        (NO_CACHE, False, 1.3),
    ],
)
def test_the_worked_examples_of_a_fold(price, cached, turns):
    """160k to 32k tokens pay back after about 4 turns in the cache, 15 cold, 1.3 without one."""
    now = fold_cost(price, context=160_000, summary=2_000, tail=20_000, cached=cached)
    found = break_even(now, price, saved=160_000 - 32_000)
    assert found == pytest.approx(turns, rel=0.03)


def test_the_worked_example_of_clearing():
    """Clearing as much as stands behind it pays after 11.5 turns at Anthropic's prices."""
    assert clearing_break_even(SONNET, cleared=5_000, behind=5_000) == pytest.approx(11.5)
    assert clearing_break_even(SONNET, cleared=10_000, behind=5_000) == pytest.approx(5.75)
    assert clearing_break_even(NO_CACHE, cleared=10_000, behind=5_000) == 0


@pytest.mark.parametrize("saved", [0, -5])
def test_what_saves_nothing_never_pays(saved):
    """None is never."""
    assert break_even(0.1, SONNET, saved=saved) is None
    assert clearing_break_even(SONNET, cleared=saved, behind=10) is None
    assert break_even(0.1, Price(0, 0), saved=1_000) is None


@given(sums, sums, sums)
def test_sums_can_be_made_in_any_order(one, two, three):
    """Spent is a sum with nothing as its neutral element."""
    assert one.plus(two) == two.plus(one)
    assert one.plus(two).plus(three) == one.plus(two.plus(three))


def test_nothing_is_the_neutral_element():
    """What is added to nothing stays what it is, also where no price is known."""
    known, unknown = Spent.of(Usage(input=1_000), SONNET), Spent.of(Usage(input=7), None)
    assert Spent().plus(Spent()) == Spent()
    assert Spent().plus(known) == known == known.plus(Spent())
    assert Spent().plus(unknown) == unknown
    assert unknown.dollars is None
    assert unknown.plus(unknown).dollars is None


def test_what_has_no_price_is_counted_and_not_guessed():
    """Dollars are of the calls with a price; the others are told by number."""
    both = Spent.of(Usage(input=1_000, output=100), SONNET).plus(Spent.of(Usage(input=7), None))
    assert both == Spent(calls=2, input=1_007, output=100, dollars=0.0045, unpriced=1)
    assert both.tokens == 1_107


@given(sums)
def test_a_sum_comes_back_from_plain_data(spent):
    """What is stored is read back as it was."""
    assert Spent.read(spent.as_dict()) == spent


@pytest.mark.parametrize(
    "value",
    [None, 3, {}, {"calls": True, "input": -1, "output": 1.5, "dollars": 0}, {"calls": "many"}],
)
def test_hostile_data_is_as_if_nothing_was_spent(value):
    """Numbers that cannot be are left out."""
    assert Spent.read(value) == Spent()


@pytest.mark.parametrize("dollars", [None, True, "1", float("nan"), float("inf"), -1, 1e9])
def test_dollars_that_cannot_be_are_unknown(dollars):
    """They are not taken for nothing."""
    assert Spent.read({"calls": 1, "dollars": dollars}).dollars is None


# -- limits on what summaries may cost -------------------------------------------------------------------


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
