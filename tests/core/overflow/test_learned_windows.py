"""Windows learned from refusals."""

import json
import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import OverflowInfo, overflow
from refold.core.overflow.detect import is_vague
from refold.core.overflow.learned_windows import (
    DAY,
    Learned,
    agrees_with_request,
    find_learned,
    learn_from_refusal,
    limit_after_refusal,
    note_key,
    read_note,
    scale_to_request,
)
from refold.core.overflow.silent_truncation import cut_silently, implied_limit
from refold.core.tokens.calibration import Counted
from refold.core.tokens.usage import MAX_REPORTED_TOKENS

NOW = 1_760_000_000.0


def info(limit=None, requested=None):
    return OverflowInfo(None, limit, requested)


@pytest.mark.parametrize(
    ("known", "limit", "window"),
    [
        (200_000, 32_768, 32_768),
        (None, 32_768, 32_768),
        (128_000, 131_072, 128_000),
        (128_000, 128_000, 128_000),
        (200_000, 1_024, 1_024),
        (200_000, 1, 1_024),
        (200_000, 0, 1_024),
        (200_000, -5, 1_024),
        (None, 1, 1_024),
        (None, 10_000_000, 10_000_000),
        (None, 10**30, 10_000_000),
        (200_000, 10**30, 200_000),
        (512, 1, 512),
    ],
)
def test_a_limit_that_is_told_is_clamped_and_never_raises_the_window(known, limit, window):
    """Faults, C32: clamped; small servers are started with 1,024 tokens."""
    assert limit_after_refusal(known, info(limit), sent=50_000) == window


def test_a_hostile_text_shrinks_no_window_below_the_floor():
    refusal = overflow("This model's maximum context length is 1 tokens. However, you requested 9 tokens.")
    assert (refusal.limit, limit_after_refusal(200_000, refusal, sent=9)) == (1, 1_024)


@pytest.mark.parametrize(
    ("known", "requested", "sent", "window"),
    [
        (200_000, None, 40_000, 32_000),
        (200_000, 38_000, 40_000, 30_400),
        (200_000, 40_000, None, 32_000),
        (None, None, 40_000, 32_000),
        (20_000, None, 40_000, 20_000),
        (200_000, None, 1_100, 1_024),
        (200_000, 10, 40_000, 32_000),
    ],
)
def test_without_a_limit_less_than_was_sent_is_taken(known, requested, sent, window):
    assert limit_after_refusal(known, info(None, requested), sent=sent) == window


@pytest.mark.parametrize("sent", [None, -1, 0, 500, 1_023])
def test_a_request_that_every_window_holds_teaches_nothing(sent):
    assert limit_after_refusal(200_000, info(), sent=sent) == 200_000
    assert limit_after_refusal(None, info(), sent=sent) is None
    assert learn_from_refusal(200_000, info(), sent=sent, at=NOW) is None
    assert learn_from_refusal(None, info(), sent=sent, at=NOW) is None


def test_what_is_kept_says_when_and_whether_it_was_told():
    assert learn_from_refusal(200_000, info(32_768), sent=None, at=NOW) == Learned(32_768, NOW)
    assert learn_from_refusal(200_000, info(), sent=40_000, at=NOW) == Learned(32_000, NOW, stated=False)
    assert learn_from_refusal(32_768, info(32_768), sent=None, at=NOW) is None


def test_a_told_window_holds_for_thirty_days_and_a_guess_for_one():
    stated, guess = Learned(32_768, NOW), Learned(32_000, NOW, stated=False)
    assert stated.is_fresh(NOW + 30 * DAY - 1)
    assert not stated.is_fresh(NOW + 30 * DAY)
    assert guess.is_fresh(NOW + DAY - 1)
    assert not guess.is_fresh(NOW + DAY)


def test_a_clock_that_was_set_back_does_not_make_it_last_for_ever():
    assert Learned(32_768, NOW).is_fresh(NOW - 30 * DAY + 1)
    assert not Learned(32_768, NOW).is_fresh(NOW - 30 * DAY)
    assert not Learned(32_768, NOW).is_fresh(math.nan)


def test_a_note_is_read_back_while_it_holds():
    note = Learned(32_768, NOW).note
    assert read_note(note, NOW) == 32_768
    assert read_note(note, NOW + 31 * DAY) is None
    assert json.loads(note) == {"tokens": 32_768, "at": NOW, "told": True}


@pytest.mark.parametrize(
    "note",
    [
        None,
        "",
        "x",
        "[]",
        "32768",
        "{}",
        "[" * 100_000,
        '{"tokens": 1, "at": 1760000000}',
        '{"tokens": 99999999, "at": 1760000000}',
        '{"tokens": true, "at": 1760000000}',
        '{"tokens": 8192.0, "at": 1760000000}',
        '{"tokens": 8192}',
        '{"tokens": 8192, "at": true}',
        '{"tokens": 8192, "at": "x"}',
        '{"tokens": 8192, "at": NaN}',
        '{"tokens": 8192, "at": -1}',
        '{"tokens": 8192, "at": 1' + "0" * 400 + "}",
    ],
    ids=lambda note: str(note)[:40],
)
def test_what_is_no_note_is_none(note):
    assert read_note(note, NOW) is None


def test_a_note_that_does_not_say_that_it_was_told_is_a_guess():
    assert Learned.from_json({"tokens": 8_192, "at": 5, "told": "yes"}) == Learned(8_192, 5.0, stated=False)


@given(
    st.none() | st.integers(1_024, 10_000_000),
    st.none() | st.integers(),
    st.none() | st.integers(),
    st.none() | st.integers(),
)
def test_what_is_learned_lies_between_the_bounds_and_not_above_what_was_known(known, limit, requested, sent):
    window = limit_after_refusal(known, info(limit, requested), sent=sent)
    assert window is None or 1_024 <= window <= 10_000_000
    assert known is None or window <= known


@pytest.mark.parametrize(
    ("endpoint", "place"),
    [
        ("https://api.example.com/v1", "https://api.example.com/v1"),
        ("HTTPS://API.Example.com:443/v1/", "https://api.example.com/v1"),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
        ("https://me:secret@host/v1?key=secret#secret", "https://host/v1"),
        ("https://secret@host/v1;token=secret", "https://host/v1"),
        ("https://me:sec@ret@host/v1", "https://host/v1"),
        ("me:secret@host/v1/", "host/v1"),
        ("//me:secret@host/v1", "host/v1"),
        ("anthropic", "anthropic"),
        ("Anthropic:", "anthropic:"),
        ("https://me:secret@host:port/v1", "host:port/v1"),
        ("https://me:secret@[broken/v1", "[broken/v1"),
        ("https:///v1", "https:///v1"),
        ("  https://host/\x00\n v1", "https://host/ v1"),
        ("", ""),
    ],
)
def test_the_key_holds_no_credentials(endpoint, place):
    """Faults, C32: per endpoint and model."""
    assert note_key(endpoint, " Qwen3-4B ") == f"window:{place}#qwen3-4b"


@pytest.mark.parametrize(
    ("endpoint", "model", "key"),
    [
        ("", "http://host:8080/v1#Qwen", "window:http://host:8080/v1#qwen"),
        ("http://host/v1#qwen", "http://host/v1#qwen", "window:http://host/v1#qwen"),
        ("http://host/v1", "http://host/v1", "window:http://host/v1#http://host/v1"),
        ("", "a#b", "window:#a#b"),
    ],
)
def test_a_model_that_is_named_with_its_address_has_the_same_key(endpoint, model, key):
    assert note_key(endpoint, model) == key


@given(st.text(), st.text())
def test_any_text_has_a_key(endpoint, model):
    assert len(note_key(endpoint, model)) <= 1_000
    assert note_key(endpoint, model).isprintable()


# -- requests that a provider cut without an error -----------------------------------------------------------

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
def test_a_cut_is_seen_in_two_reports_and_tells_its_limit(sent, reported, limit):
    assert cut_silently(Counted(sent, reported), Counted(sent + 500, reported))
    assert implied_limit(reported) == limit


WHOLE = {
    "all was read": ((8_192, 8_192), (8_700, 8_192)),
    "the estimate was 35 % too high": ((12_600, 8_192), (13_000, 8_192)),
    "little, but no round number": ((50_000, 5_500), (50_500, 5_500)),
    "only what was not in a cache": ((50_000, 812), (50_800, 812)),
    "turns of one size, and only what was not in a cache": ((50_000, 4_096), (54_096, 4_096)),
    "a fixed prefix is in the cache": ((50_000, 3_900), (50_150, 4_050)),
    "another round number": ((50_000, 4_096), (50_500, 8_192)),
    "the same request once more": ((50_000, 4_096), (50_000, 4_096)),
    "a smaller request": ((50_000, 4_096), (40_000, 4_096)),
    "nothing sent": ((0, 4_096), (500, 4_096)),
}


@pytest.mark.parametrize(("first", "second"), WHOLE.values(), ids=WHOLE)
def test_what_was_not_cut_is_not_taken_for_it(first, second):
    assert not cut_silently(Counted(*first), Counted(*second))


def test_a_refusal_must_be_larger_than_the_limit_it_names():
    """Our own count may be too low by a third or so; if the provider names both numbers it need not count."""
    learn = partial(learn_from_refusal, 200_000, at=NOW)
    assert learn(info(32_768, 40_000), sent=9_000) == Learned(32_768, NOW)
    assert learn(info(32_768), sent=20_000) == Learned(32_768, NOW)
    assert learn(info(32_768), sent=19_000) is None


@pytest.mark.parametrize(
    ("limit", "requested", "sent", "agrees"),
    [
        (4_096, 9_000, 9_000, True),
        (4_096, 9_000, 282, True),
        (4_096, 9_000, 281, False),
        (4_096, 9_000, 36_000, True),
        (4_096, 9_000, 36_001, False),
        (4_096, None, 128, True),
        (4_096, None, 127, False),
        (4_096, None, 500_000, True),
        (None, None, 0, True),
    ],
)
def test_a_refusal_of_another_request_is_seen(limit, requested, sent, agrees):
    assert agrees_with_request(info(limit, requested), sent) is agrees


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


def test_windows_of_a_model_are_found_at_every_endpoint_or_at_one():
    note = Learned(8_192, NOW).note
    keys = {
        "chat": note_key("openai:gpt-4o", "gpt-4o"),
        "host": note_key("https://host.example/v1", "GPT-4o"),
        "address": note_key("", "http://127.0.0.1:8080/v1#gpt-4o"),
        "other": note_key("https://host.example/v1", "gpt-4o-mini"),
    }
    notes = {
        **dict.fromkeys(keys.values(), note),
        note_key("old", "gpt-4o"): "",
        note_key("x", "gpt-4o"): "{",
    }

    def found(name, at=NOW):
        return {where for where, key in keys.items() if find_learned(notes, name, at).get(key) == 8_192}

    assert found("GPT-4o") == {"chat", "host", "address"}
    assert found("openai:gpt-4o") == {"chat"}
    assert found("https://host.example/v1#gpt-4o") == {"host"}
    assert found("http://127.0.0.1:8080/v1#gpt-4o") == {"address"}
    assert found("https://host.example/v1") == {"host", "other"}
    assert found("gpt") == found("") == found("gpt-4o", NOW + 31 * DAY) == set()


def test_numbers_of_another_count_are_scaled_to_ours():
    assert scale_to_request(OverflowInfo("openai", 200, 400), 1_000) == OverflowInfo("openai", 500, 1_000)
    assert scale_to_request(OverflowInfo("openai", 200, None), 1_000) == OverflowInfo("openai", None, 1_000)


@pytest.mark.parametrize(
    ("error", "vague"),
    [
        ("413 Payload Too Large", True),
        ({"status": 413, "body": ""}, True),
        ("413 prompt is too long", False),
        ("prompt is too long: 210000 tokens > 200000 maximum", False),
        ("no refusal at all", False),
    ],
)
def test_what_names_no_size_and_no_context_is_vague(error, vague):
    assert is_vague(error) is vague
