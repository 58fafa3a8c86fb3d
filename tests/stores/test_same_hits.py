"""Every store gives the same hits in the same order, whatever is written and whatever is asked."""

import random
from contextlib import ExitStack, closing

import pytest
from logs import ROOT, START, said

from refold.stores import open_store, word_index
from sample_sizes import few_or_all

STORES = ("memory", "jsonl", "sqlite", "postgresql")
LANGUAGES = [
    "The keepers of the lighthouses wrote letters; their letter was relational, running and hoped for",
    "Straße Größe Möwen fließen über die Brücke, ẞ und ss, Fußgänger, Lösungen",
    "L’été dernier, nous avons mangé des crêpes à l'œuvre; naïve, façade, cœur, élève",
    "Ναι, ο Οδυσσεύς πήγε στην Ιθάκη· ΟΔΥΣΣΕΎΣ σοφός",
    "Съешь же ещё этих мягких французских булок, йод и ёлка",
    "Đây là tiếng Việt, một ngày đẹp trời ở Hà Nội; cộng hòa, ậ ế ữ",
    "İstanbul'da ılık bir gün, IĞDIR ığdır şişe",
    "数据库在哪里？请把这个文件移到新的目录。",
    "データベースを移動してください。ファイル名はテスト.txtです",
    "갈매기가 바다 위를 날아간다 data数s 갈매기s",
    "เครนยกของหนัก 7 ชื่อ นกนางนวล ฿100",
    "कृपया फ़ाइल को नई निर्देशिका में ले जाएँ",
    "السلام عليكم ورحمة الله، العَرَبِيَّة ٣٤٥",
    "שָׁלוֹם עולם, מה שלומך",
    "ქართული ენა, հայերեն լեզու, Ꮳꮃꭹ ᲥᲐᲠᲗᲣᲚᲘ",
]
CODE = [
    "def read_file(path: str) -> bytes: return open(path, 'rb').read()  # readFile ReadFiles",
    "src/refold/stores/postgres/search.py:86: error: Incompatible types [assignment]",
    r"C:\Users\nina\new\table.txt and \\server\share\readme.md",
    r'{"a": "b\nzebra", "caf\u00e9": "\ud83d\ude80", "x": "\\u00e9t\\u00e9", "cut": "\ud83d"}',
    "\x1b[31mFAILED\x1b[0m tests/test_\x1b[1mwords\x1b[22m.py::test_stems - AssertionError: 13 != 31",
    "https://example.org/a-b_c/d?e=f&g=%20h#i user@example.com 10.0.0.1:8080 eu-west-1",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 0xDEADBEEF",
    "1,234.56 3.14e-10 ½ ² Ⅷ ① 2026-11-19T10:43:14Z v1.2.3-rc.1 +49 30 123456",
    "a\0b \ud800 lone, \ufffd \ue0b0 branch \U000f0000, soft\u00adhyphen zero\u200bwidth \ufeffbom",
    "!!! ??? --- ''' \"\"\" %s %(x)s :* & | ! ( ) <-> \\ 'it''s' NEAR AND OR NOT \"quoted\"",
    "🎈🚢 👩‍👩‍👧 ☃ ✓ 🇩🇪 one🎈two",
    "x" * 70 + " " + "ab" * 300 + " " + "é" * 600 + " " + "ab" * 300 + "c",
    "e\u0301te\u0301 ﬁnal ﬀ Å Å Ω Ω K \u1e9b\u0323 ſhort ａｂｃ １２３ ǆ",
    "hopping hopped hoping hops generalizations generalization generalize oscillators oscillate",
]
JOINTS = [" ", " ", " ", ", ", "_", "-", "/", ".", "\n", "", "; (", "’"]


def make_text(chance, words):
    """Some of the words, some of them again and again, joined as prose, code and paths join them."""
    chosen = chance.choices(words, k=chance.choice([1, 2, 3, 5, 8, 20, 60]))
    if chance.random() < 0.3:
        chosen += [chance.choice(chosen)] * chance.randint(1, 12)
    return "".join(word + chance.choice(JOINTS) for word in chosen)


def make_query(chance, words, texts):
    """Words of one text, of several, of none, or a piece of a text as it stands."""
    kind = chance.random()
    if kind < 0.25:
        text = chance.choice(texts)
        begin = chance.randrange(len(text) + 1)
        return text[begin : begin + chance.choice([5, 20, 80, 400])]
    known = chance.choice(texts).split() if kind < 0.6 else words
    asked = chance.choices(known or words, k=chance.choice([1, 1, 2, 2, 3, 5, 9, 40]))
    forms = [
        chance.choice([word, word, word.upper(), word.lower(), f"{word}s", f"{word}ing"]) for word in asked
    ]
    if chance.random() < 0.2:
        forms.insert(chance.randrange(len(forms) + 1), "zebrafish")
    return "".join(form + chance.choice(JOINTS) for form in forms)


def fill(stores, chance, texts):
    """Append the texts to sessions and branches of each store in the same way."""
    heads, last = {}, {}
    for text in texts:
        session = chance.choice(["b", "a", "ä/c"])
        behind = START if chance.random() < 0.1 else None
        parent, number = (ROOT, 1) if behind else last.get(session, (ROOT, 1))
        entry = said(number, text, parent=parent)
        if chance.random() < 0.05:  # what a search has indexed stands beside what came later
            for store in stores:
                store.search(text[:20], session=chance.choice([None, session]))
        for store in stores:
            expect = heads.get((session, store))
            at = behind if expect else None
            heads[session, store] = store.append(session, [entry], expect=expect, at=at)
        last[session] = entry.name, number + 1


@pytest.fixture
def stores(tmp_path, postgres_url, request):
    """Every store, empty."""
    with ExitStack() as opened:
        yield {
            kind: opened.enter_context(
                closing(
                    open_store(postgres_url, scope=f"{request.node.nodeid}/{tmp_path}")
                    if kind == "postgresql"
                    else open_store("memory:" if kind == "memory" else f"{kind}:{tmp_path / kind}")
                )
            )
            for kind in STORES
        }


def compare(stores, query, **options):
    """Assert that all stores have the same hits, and return how many."""
    found = {
        kind: [(hit.session, *hit.place, hit.entry.name) for hit in store.search(query, **options)]
        for kind, store in stores.items()
    }
    for kind in STORES[1:]:
        assert found[kind] == found["memory"], (kind, query, options)
    return len(found["memory"])


@pytest.mark.parametrize("seed", range(few_or_all(4, 100)))
def test_stores_give_the_same_hits_in_the_same_order(stores, seed, monkeypatch):
    """In languages, code, paths, numbers and signs; also where words are common or a query has many."""
    chance = random.Random(seed)
    if seed % 3 == 0:
        monkeypatch.setattr(word_index, "_COMMON", 4)
        monkeypatch.setattr(word_index, "_QUERY_WORDS", 5)
    samples = LANGUAGES + CODE
    chosen = samples if seed % 2 else chance.sample(samples, 3)
    words = [word for sample in chosen for word in sample.split()]
    texts = [make_text(chance, words) for _ in range(chance.choice([3, 30, 150]))]
    texts += chance.sample(samples, 5)
    fill(stores.values(), chance, texts)
    hits = 0
    for _ in range(few_or_all(60, 200)):
        options = {
            "limit": chance.choice([1, 3, 10, 50]),
            "some": chance.random() < 0.5,
            "session": chance.choice([None, "a", "b", "ä/c"]),
        }
        hits += compare(stores, make_query(chance, words, texts), **options)
    assert hits > 20


def test_a_word_that_very_many_texts_have_takes_a_bounded_time(stores, monkeypatch):
    """In a database, from which each text with the word would come here to be ranked."""
    match = word_index.Match
    fill(stores.values(), random.Random(1), ["red", *["red blue"] * 9])
    for kind in ("sqlite", "postgresql"):
        module = f"refold.stores.{'postgres' if kind == 'postgresql' else kind}.search"
        ranked = []
        monkeypatch.setattr(f"{module}.MOST_MATCHES", 4)
        monkeypatch.setattr(f"{module}.Match", lambda *parts, to=ranked: to.append(1) or match(*parts))
        assert len(stores[kind].search("red", limit=9)) == len(ranked) == 4
