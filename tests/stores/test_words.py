"""Full text in memory."""

import sqlite3
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from growth import count_calls
from refold.stores import word_index
from refold.stores.word_index import WordIndex, choose_words, pack_words, rank_texts, split_words, stem

TEXTS = st.lists(st.sampled_from(["red", "green", "blue", "Grün", "数据", "x1"]), max_size=6).map(" ".join)


def index(*texts):
    made = WordIndex()
    for text in texts:
        made.add(text)
    return made


def search(made, query, *, limit=10, **options):
    return rank_texts(made.select(), query, limit=limit, **options)


def found(made, query, **options):
    return [text for _, (_, text) in search(made, query, **options)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Hello, WORLD!", ["hello", "world"]),
        ("snake_case camelCase", ["snake", "case", "camelcase"]),
        ("Straße", ["strasse"]),
        ("数据 ok", ["数", "据", "ok"]),
        ("ガ ー갈매기", ["ガ", "ー", "갈매기"]),
        ("a\0b \ud800 🎈", ["a", "b", "u1f388"]),
        ("naïve Möwe e\u0301", ["naive", "mowe", "e"]),
        ("เครน 7 ชื่อ", ["เค", "คร", "รน", "7", "ชอ"]),
        ("ก ฿", ["ก", "ue3f"]),
    ],
)
def test_words_of_a_text(text, expected):
    assert split_words(text) == expected


def test_every_word_is_wanted_and_rare_ones_count_more():
    made = index("red green", "red", "red blue", "green green red")
    assert found(made, "red blue") == [2]
    assert found(made, "green red") == [3, 0]
    assert found(made, "red", limit=2) == [1, 0]
    assert found(made, "RED", limit=1) == [1]
    assert found(made, "") == []
    assert found(made, "red", limit=0) == []
    assert len(made.lengths) == 4


def test_where_nothing_has_every_word_most_count():
    made = index("red green", "red", "blue")
    assert found(made, "red green blue")[0] == 0
    assert found(made, "green zebra") == [0]


def test_of_equal_hits_the_first_of_a_session_comes_first():
    made = WordIndex()
    for session, text in (("b", "red"), ("a", "blue"), ("b", "red"), ("a", "red")):
        made.add(text, session)
    assert [hit.text for hit in rank_texts(made.select(), "red", limit=2)] == [("a", 3), ("b", 0)]
    assert [hit.text for hit in rank_texts(made.select("b"), "red", limit=3)] == [("b", 0), ("b", 2)]
    assert rank_texts(made.select("c"), "red", limit=3) == []


def test_a_session_is_ranked_by_itself_whatever_else_is_there():
    alone, among = WordIndex(), WordIndex()
    for number in range(200):
        among.add("red red blue " * (number % 7), "other")
        if number % 40 == 0:
            for made in (alone, among):
                made.add(f"red green {'blue ' * number}", "mine")
    for query in ("red", "green blue", "red zebra"):
        hits = [rank_texts(made.select("mine"), query, limit=9) for made in (alone, among)]
        assert [hit.score for hit in hits[0]] == [hit.score for hit in hits[1]]
        assert len(hits[0]) == len({hit.text for hit in hits[1]}) > 3


@pytest.mark.parametrize("some", [False, True])
def test_common_words_alone_make_no_hit_unless_all_are_common(monkeypatch, some):
    monkeypatch.setattr(word_index, "_COMMON", 3)
    made = index(*["red"] * 9, "blue", *["green"] * 3)
    assert found(made, "red blue green zebra", some=some) == [9]
    assert found(made, "red green", some=some) == [10, 11, 12]


def test_of_many_words_the_longest_are_searched():
    query = " ".join(f"{'x' * (number % 7)}{number:02}" for number in range(60))
    assert len(choose_words(query)) == 32
    assert min(map(len, choose_words(query))) == 5
    assert choose_words("Letters, LETTER letter 13") == ["letter", "13"]


def test_a_word_that_most_texts_have_is_looked_up_fast():
    made = index(*["red"] * 500, "red blue")
    assert found(made, "red blue") == [500]
    assert len(found(made, "red", limit=600)) == 501


@given(st.lists(TEXTS, max_size=8), TEXTS)
@example(["red green", "red", "Grün"], "red")
@example(["red green", "red", "blue"], "green blue")
def test_a_search_agrees_with_looking_at_every_text(texts, query):
    made = index(*texts)
    wanted = set(split_words(query))
    whole = {number for number, text in enumerate(texts) if wanted and wanted <= set(split_words(text))}
    some = {number for number, text in enumerate(texts) if wanted & set(split_words(text))}
    hits = search(made, query, limit=100)
    assert {hit.text[1] for hit in hits} == (whole or some)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.text))
    assert all(hit.score > 0 for hit in hits)


SYLLABLES = [
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "la",
    "me",
    "ni",
    "po",
    "ru",
    "sta",
    "tri",
    "plo",
    "gra",
    "y",
    "ly",
    "ss",
    "ee",
    "ll",
    "zz",
]
ENDINGS = [
    "ation",
    "ness",
    "ing",
    "ed",
    "s",
    "es",
    "ly",
    "ful",
    "ment",
    "ity",
    "al",
    "ive",
    "er",
    "or",
    "ize",
    "ization",
    "ous",
    "ance",
    "ies",
    "ied",
    "ational",
    "fulness",
    "y",
    "e",
    "eed",
    "eing",
    "ion",
    "tion",
    "logy",
    "ability",
    "ibly",
    "entli",
    "at",
    "bl",
    "iz",
]
MADE_UP = st.builds(
    lambda *parts: "".join(parts), *[st.sampled_from(SYLLABLES)] * 2, st.sampled_from(ENDINGS)
)


@given(st.lists(MADE_UP, min_size=1, max_size=40, unique=True))
def test_a_word_has_the_stem_that_sqlite_gives_it(words):
    raw = sqlite3.connect(":memory:")
    raw.execute("CREATE VIRTUAL TABLE terms USING fts5(text, tokenize = 'porter unicode61')")
    raw.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(terms, 'instance')")
    raw.executemany("INSERT INTO terms VALUES (?)", [(word,) for word in words])
    stems = raw.execute("SELECT term FROM vocabulary ORDER BY doc").fetchall()
    assert [stem(word) for word in words] == [term for (term,) in stems]
    raw.close()


def test_a_run_of_many_letters_is_not_kept_when_its_index_is_gone():
    tracemalloc.start()
    try:
        for number in range(20):
            assert found(index(f"{number}{'z' * 100_000}"), f"{number}{'z' * 100_000}") == [0]
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "letters",
    [pytest.param("\u6211\u4eec\u51b3\u5b9a", id="Han"), pytest.param("\U0001f600\U0001f680", id="emoji")],
)
def test_a_letter_that_comes_again_is_spelled_once(letters):
    assert count_calls(lambda: split_words(letters * 1_000)) < 3 * len(letters) * 1_000


def test_numbers_and_words_without_an_ending_are_not_taken_apart():
    words = " ".join(f"x{number} {number}qk" for number in range(20_000, 22_000))
    assert count_calls(lambda: pack_words(words)) < 40 * 4_000
