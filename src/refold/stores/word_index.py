"""Full-text index in memory: which texts have which words, ranked with BM25. Knows no files.

Texts are numbered as they come and never leave. A word is a row of letters and digits; case and accents do
not matter. Scripts without spaces between words are taken letter by letter, or by pairs of letters. Each
word has the sorted numbers of the texts that contain it. A search begins with the rarest word of the query
and only looks the others up, so a rare sentence is found at once, however many texts there are.
"""

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from heapq import nlargest
from math import log
from typing import Final, NamedTuple
from unicodedata import normalize

from refold.stores import SearchHit
from refold.stores.text import separate_words

WORD: Final = re.compile(r"[^\W_]+")
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
_QUERY_WORDS: Final = 64
"""Most words of a query that count, the rarest first. A chosen bound on the work for a pasted page; the
common words behind it hardly change the order."""
_CANDIDATES: Final = 2_000
"""Most texts that are ranked if no text has every word, those with the rarest words first. A chosen bound: a
word that more texts have tells little about any of them. Too low loses hits with common words only."""
_FEW: Final = 8
"""Cost of a look-up by halving, in steps of a plain walk over the list."""
_LEAST_STEMMED, _MOST_STEMMED, _LAST_STEP = 3, 64, 4
"""Letters of words that are stemmed, as in FTS5, and the number of the last step with a table."""
_STEPS: Final = tuple(
    sorted(zip((words := step.split(" "))[::2], words[1::2], strict=True), key=lambda pair: -len(pair[0]))
    for step in (
        (
            "ational ate tional tion enci ence anci ance izer ize bli ble alli al entli ent eli e ousli ous"
            " ization ize ation ate ator ate alism al iveness ive fulness ful ousness ous aliti al iviti ive"
            " biliti ble logi log"
        ),
        "icate ic ative  alize al iciti ic ical ic ful  ness ",
        "al  ance  ence  er  ic  able  ible  ant  ement  ment  ent  ion  ou  ism  ate  iti  ous  ive  ize ",
    )
)
"""Endings and what stands for them in steps 2 to 4 of Porter's stemmer, the longest first. Before one of the
last step two syllables have to stand."""
_SATURATION: Final = 1.2
_LENGTH: Final = 0.75
"""k1 and b of BM25 with the values that Lucene and FTS5 use (Robertson and Zaragoza, 2009)."""


class TextHit(NamedTuple):
    """A text that a search found, by its number."""

    score: float
    text: int


class _Posting:
    """Occurrences of one word: sorted numbers of texts, and how often it occurs in each."""

    __slots__ = ("often", "texts")

    def __init__(self) -> None:
        self.texts = array("L")
        self.often = array("L")

    def count(self, text: int) -> int:
        at = bisect_left(self.texts, text)
        return self.often[at] if at < len(self.texts) and self.texts[at] == text else 0

    def among(self, wanted: Collection[int]) -> Iterable[tuple[int, int]]:
        """Return which of these texts have the word, and how often."""
        if len(wanted) * _FEW > len(self.texts):  # one walk is cheaper than that many look-ups
            return [pair for pair in zip(self.texts, self.often, strict=True) if pair[0] in wanted]
        return [(text, often) for text in wanted if (often := self.count(text))]


def split_words(text: str) -> list[str]:
    """Split a text into its words, in order.

    >>> split_words("Read_file FAILED: errno 13, café")
    ['read', 'file', 'failed', 'errno', '13', 'cafe']
    """
    text = separate_words(text).casefold()
    if not text.isascii():  # composed again, since Hangul and kana have parts that are no accents
        text = normalize("NFC", _ACCENTS.sub("", normalize("NFD", text)))
    return WORD.findall(text)


def stem(word: str) -> str:
    """Return the stem of an English word as FTS5 does, so that stores agree; other words stay as they are.

    >>> [stem(word) for word in ("letters", "stories", "relational", "hoping", "running", "class")]
    ['letter', 'stori', 'relat', 'hope', 'run', 'class']
    """
    # A run of a million letters must not be kept by the cache.
    return strip_endings(word) if _LEAST_STEMMED <= len(word) <= _MOST_STEMMED and word.isascii() else word


@lru_cache(maxsize=50_000)
def strip_endings(word: str) -> str:
    """Strip the endings of a word as Porter's stemmer does."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    ending = next((ending for ending in ("eed", "ed", "ing") if word.endswith(ending)), "")
    base = word[: len(word) - len(ending)]
    if ending == "eed":
        word = word[:-1] if _count_syllables(base) else word
    elif ending and "v" in _find_vowels(base):
        word = _mend_end(base)
    if word.endswith("y") and "v" in _find_vowels(word[:-1]):
        word = f"{word[:-1]}i"
    for step, endings in enumerate(_STEPS, 2):
        ending, instead = next((pair for pair in endings if word.endswith(pair[0])), ("", ""))
        base = word[: len(word) - len(ending)]
        if (
            ending
            and _count_syllables(base) > (step == _LAST_STEP)
            and (ending != "ion" or base.endswith(("s", "t")))
        ):
            word = base + instead
    base = word[:-1]
    if word.endswith("e") and _count_syllables(base) > _ends_short(base):
        word = base
    return word[:-1] if word.endswith("ll") and _count_syllables(word) > 1 else word


def _mend_end(base: str) -> str:
    """Return a word without -ed or -ing as it is written alone."""
    if base.endswith(("at", "bl", "iz")) or (_count_syllables(base) == 1 and _ends_short(base)):
        return f"{base}e"
    is_doubled = base[-2:-1] == base[-1] and _find_vowels(base)[-1] == "c" and base[-1] not in "lsz"
    return base[:-1] if is_doubled else base


def _find_vowels(word: str) -> str:
    """Return v for each vowel of a word and c for each other letter; y is a vowel behind a consonant."""
    kinds = ""
    for letter in word:
        kinds += "v" if letter in "aeiou" or (letter == "y" and kinds.endswith("c")) else "c"
    return kinds


def _count_syllables(word: str) -> int:
    """Return how often a consonant follows a vowel."""
    return _find_vowels(word).count("vc")


def _ends_short(word: str) -> bool:
    """True if a word ends as "hop" does."""
    return _find_vowels(word).endswith("cvc") and word[-1] not in "wxy"


def rank_with_newest(
    query: str, newest: Sequence[SearchHit], hits: Sequence[SearchHit], *, limit: int, some: bool
) -> list[SearchHit]:
    """Rank entries that no index has together with the hits of an index.

    newest   all of these entries, whether they are hits or not
    """
    if not newest:
        return list(hits)
    index, all_hits = WordIndex(), [*newest, *hits]
    for hit in all_hits:
        index.add(hit.entry.text)
    ranked = index.search(query, limit=limit, some=some)
    best = [replace(all_hits[hit.text], score=hit.score) for hit in ranked]
    known = {hit.entry.name for hit in best}
    # An index may know more forms of a word than this one.
    return [*best, *(hit for hit in hits if hit.entry.name not in known)][:limit]


class WordIndex:
    """Searchable index of texts."""

    def __init__(self) -> None:
        self._postings: dict[str, _Posting] = {}
        self._lengths = array("L")
        self._total = 0

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, text: str) -> int:
        """Add a text and return its number."""
        number = len(self._lengths)
        words = split_words(text)
        # Texts repeat their words, so each is stemmed once.
        counts: dict[str, int] = {}
        for word, often in Counter(words).items():
            stemmed = stem(word)
            counts[stemmed] = counts.get(stemmed, 0) + often
        for word, often in counts.items():
            posting = self._postings.get(word)
            if posting is None:
                posting = self._postings[word] = _Posting()
            posting.texts.append(number)
            posting.often.append(often)
        self._lengths.append(len(words))
        self._total += len(words)
        return number

    def search(
        self, query: str, *, limit: int, among: Callable[[int], bool] | None = None, some: bool = False
    ) -> list[TextHit]:
        """Return the best texts, best first: those with every word or, if none has, those with most words.

        among   predicate for texts that count at all
        some    one word is enough, even if some text has all of them
        """
        words = dict.fromkeys(map(stem, split_words(query)))
        known = sorted((p for word in words if (p := self._postings.get(word))), key=lambda p: len(p.texts))
        known = known[:_QUERY_WORDS]
        if not known or limit < 1:
            return []
        all_known = len(known) == min(len(words), _QUERY_WORDS)
        texts = self._having_all(known, among) if all_known and not some else []
        scores = self._score(texts or self._having_some(known, among), known)
        if not (texts or some):
            scores = self._count_words(scores, known)
        best = nlargest(limit, ((score, -text) for text, score in scores.items()))
        return [TextHit(score, -text) for score, text in best]

    @staticmethod
    def _having_all(postings: list[_Posting], among: Callable[[int], bool] | None) -> list[int]:
        texts: Iterable[int] = postings[0].texts
        left = set(texts if among is None else filter(among, texts))
        for posting in postings[1:]:
            left = {text for text, _ in posting.among(left)}
        return list(left)

    @staticmethod
    def _having_some(postings: list[_Posting], among: Callable[[int], bool] | None) -> list[int]:
        texts = (text for posting in postings for text in posting.texts if among is None or among(text))
        candidates: dict[int, None] = {}
        for text in texts:
            candidates[text] = None
            if len(candidates) >= _CANDIDATES:
                break
        return list(candidates)

    @staticmethod
    def _count_words(texts: Collection[int], postings: list[_Posting]) -> dict[int, float]:
        """Score texts by how many of the words they have, then by the rarity of these."""
        counts = dict.fromkeys(texts, 0.0)
        rarity = [1 / (1 + len(posting.texts)) for posting in postings]
        for posting, rare in zip(postings, rarity, strict=True):
            for text, _ in posting.among(counts):
                counts[text] += 1 + rare / (1 + sum(rarity))
        return counts

    def _score(self, texts: list[int], postings: list[_Posting]) -> dict[int, float]:
        """Score texts with BM25."""
        every = len(self._lengths)
        usual = _LENGTH * every / self._total
        damped = {text: _SATURATION * (1 - _LENGTH + usual * self._lengths[text]) for text in texts}
        scores = dict.fromkeys(texts, 0.0)
        for posting in postings:
            rare = log(max(1.000001, (every - len(posting.texts) + 0.5) / (len(posting.texts) + 0.5)))
            rare *= _SATURATION + 1
            for text, often in posting.among(scores):
                scores[text] += rare * often / (often + damped[text])
        return scores
