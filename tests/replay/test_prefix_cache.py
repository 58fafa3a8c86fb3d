"""The simulated cache of a provider."""

from hypothesis import given
from hypothesis import strategies as st

from refold.replay.prefix_cache import MAX_REQUESTS, CacheHit, PrefixCache, common_prefix_length


@given(st.text("ab", max_size=200), st.text("ab", max_size=200))
def test_the_common_beginning_of_two_lists(one, other):
    length = common_prefix_length(one, other)
    assert one[:length] == other[:length]
    assert length == min(len(one), len(other)) or one[length] != other[length]


def test_the_common_beginning_of_long_lists():
    assert common_prefix_length(list(range(1_000)), [*range(777), -1, *range(778, 1_000)]) == 777
    assert common_prefix_length(list(range(128)), list(range(128))) == 128


def test_what_was_sent_before_is_read_from_the_cache():
    cache = PrefixCache()
    assert cache.read(["a", "b"], 0.0) == CacheHit(0)
    assert cache.read(["a", "b", "c"], 10.0, grown=True) == CacheHit(2)
    assert cache.read(["a", "x"], 20.0) == CacheHit(1)
    assert cache.read(["a", "b", "c", "d"], 30.0) == CacheHit(3)


def test_a_cache_that_nobody_reads_runs_out_and_says_so():
    cache = PrefixCache(seconds=300)
    cache.read(["a", "b"], 0.0)
    assert cache.read(["a", "b", "c"], 300.0, grown=True) == CacheHit(2)
    assert cache.read(["a", "b", "c", "d"], 601.0, grown=True) == CacheHit(0, cold=True)
    assert cache.read(["a", "b", "c", "d"], 602.0) == CacheHit(4)


def test_reading_a_part_keeps_the_line_it_came_from():
    cache = PrefixCache(seconds=10)
    cache.read(["a", "b", "c"], 0.0)
    cache.read(["a", "b", "x"], 8.0)
    assert cache.read(["a", "b", "c"], 16.0) == CacheHit(3)


def test_few_lines_are_kept():
    cache = PrefixCache()
    for number in range(50):
        cache.read([number], 0.0)
    assert len(cache.lines) == MAX_REQUESTS
