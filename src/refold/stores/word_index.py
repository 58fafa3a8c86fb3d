"""Which words a text has, and which texts fit a query best, ranked with BM25: the same for every store.

A word is a row of letters and digits, taken by its stem; case and accents do not matter. Scripts without
spaces between words are taken letter by letter, or by pairs of letters. `rank_texts` ranks what an index
finds: that of a database, or the `WordIndex` here, which is in memory. How rare a word is follows from the
texts that are searched, so that a session has the same hits whatever else is stored.
"""

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from math import log
from typing import Final, NamedTuple, Protocol, TypeAlias
from unicodedata import normalize

from refold.stores import SearchHit
from refold.stores.text import separate_words

WORD: Final = re.compile(r"[^\W_]+")
_ASCII_LETTERS: Final = "".join(chr(n).lower() if chr(n).isalnum() else " " for n in range(128))
"""Each ASCII character as it stands in a word, or a space: a third of the time of a pattern."""
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
_QUERY_WORDS: Final = 32
"""Most words of a query, the longest ones, which tell most. A chosen bound on the work for a pasted page."""
_COMMON: Final = 2_000
"""A word that so many of the searched texts have makes no text a hit by itself, unless all words of the query
are so common. A chosen bound on the work. Too low loses hits with common words only."""
MOST_MATCHES: Final = 200_000
"""Most texts that a database gives to rank, SQLite the newest: a second of work and 100 MB. A word that more
texts have tells nothing. A chosen bound: too low loses hits with common words only."""
_LONGEST_WORD: Final = 500
"""Letters of a word that count: what is longer is data. Four bytes each stay under PostgreSQL's 2,046."""
_FEW: Final = 8
"""Cost of a look-up by halving, in steps of a plain walk over the list."""
_LEAST_STEMMED, _MOST_STEMMED, _LAST_STEP = 3, 64, 4
"""Letters of words that are stemmed, as in FTS5, and the number of the last step with a table."""
_MOST_STEMS: Final = 50_000
"""Stems that are kept: a few megabytes."""
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
_ENDINGS: Final = [tuple(ending for ending, _ in step) for step in _STEPS]
_SATURATION: Final = 1.2
_LENGTH: Final = 0.75
"""k1 and b of BM25 with the values that Lucene and FTS5 use (Robertson and Zaragoza, 2009)."""
_LEAST_RARE: Final = 1e-6
"""What a word counts that half of the texts have, as in FTS5."""


TextKey: TypeAlias = tuple[str, int]
"""Session of a text, and a number that grows within the session. Of equal hits the lower one comes first."""


class Match(NamedTuple):
    """A text that has words of a query."""

    text: TextKey
    length: int
    """Number of its words."""
    often: list[int]
    """How often it has each word of the query."""


class TextHit(NamedTuple):
    """A text that a search found."""

    score: float
    text: TextKey


class SearchedTexts(Protocol):
    """The texts that one search looks at, of one session or of all."""

    def measure(self) -> tuple[int, int]:
        """Return the number of texts and of their words."""

    def count(self, words: Sequence[str]) -> list[int]:
        """Return how many texts have each of these stems."""

    def find(self, words: Sequence[str], some: Sequence[str] = ()) -> list[Match]:
        """Find the texts that have all of these stems, or at least one of `some`, which are among them."""


class _Posting:
    """Occurrences of one word: sorted numbers of texts, and how often it occurs in each."""

    __slots__ = ("often", "texts")

    def __init__(self) -> None:
        self.texts = array("L")
        self.often = array("L")

    def count(self, text: int) -> int:
        at = bisect_left(self.texts, text)
        return self.often[at] if at < len(self.texts) and self.texts[at] == text else 0

    def among(self, wanted: Collection[int]) -> dict[int, int]:
        """Return how often these texts have the word, of those that have it."""
        pairs = zip(self.texts, self.often, strict=True)
        if type(wanted) is range:  # all of them
            return dict(pairs)
        if len(wanted) * _FEW > len(self.texts):  # one walk is cheaper than that many look-ups
            return {text: often for text, often in pairs if text in wanted}
        return {text: often for text in wanted if (often := self.count(text))}


_NOWHERE: Final = _Posting()


def split_words(text: str) -> list[str]:
    """Split a text into its words, in order.

    >>> split_words("Read_file FAILED: errno 13, café")
    ['read', 'file', 'failed', 'errno', '13', 'cafe']
    """
    text = separate_words(text)
    if text.isascii():
        return text.translate(_ASCII_LETTERS).split()
    # composed again, since Hangul and kana have parts that are no accents
    return WORD.findall(normalize("NFC", _ACCENTS.sub("", normalize("NFD", text.casefold()))))


def stem(word: str) -> str:
    """Return the stem of an English word as Porter does; other words stay as they are.

    >>> [stem(word) for word in ("letters", "stories", "relational", "hoping", "running", "class")]
    ['letter', 'stori', 'relat', 'hope', 'run', 'class']
    """
    return _STEMS[word]


def count_words(text: str) -> Counter[str]:
    """Count the words of a text by their stems."""
    return Counter(map(_STEMS.__getitem__, split_words(text)))


class PackedWords(NamedTuple):
    """The words of a text as databases keep them."""

    stems: str
    """Each once, with spaces between them."""
    length: int
    """Number of all its words."""
    repeated: str
    """How often it has each stem that it has more than once, such as ` again:3 and:2`, begun by a space."""


def pack_words(text: str) -> PackedWords:
    """Pack the words of a text.

    >>> pack_words("Again and again, letters")
    PackedWords(stems='again and letter', length=4, repeated=' again:2')
    """
    counts = count_words(text)
    repeated = "".join([f" {word}:{often}" for word, often in counts.items() if often > 1])
    return PackedWords(" ".join(counts), sum(counts.values()), repeated)


def choose_words(query: str) -> list[str]:
    """Return the stems of a query that are searched, each once."""
    words = list(dict.fromkeys(map(stem, split_words(query))))
    return words if len(words) <= _QUERY_WORDS else sorted(words, key=len, reverse=True)[:_QUERY_WORDS]


class _Stems(dict[str, str]):
    """Stems of the words met so far. A dictionary, because a text has hundreds and a function costs more."""

    def __missing__(self, word: str) -> str:
        if len(word) > _MOST_STEMMED:  # a run of a million letters must not be kept
            return word[:_LONGEST_WORD]
        if len(self) >= _MOST_STEMS:
            self.clear()
        has_endings = len(word) >= _LEAST_STEMMED and word.isascii() and not word[-1].isdigit()
        self[word] = strip_endings(word) if has_endings else word
        return self[word]


_STEMS: Final = _Stems()


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
        if not word.endswith(_ENDINGS[step - 2]):  # most words have none, and this is found out faster
            continue
        ending, instead = next(pair for pair in endings if word.endswith(pair[0]))
        base = word[: len(word) - len(ending)]
        if _count_syllables(base) > (step == _LAST_STEP) and (ending != "ion" or base.endswith(("s", "t"))):
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


def rank_texts(texts: SearchedTexts, query: str, *, limit: int, some: bool = False) -> list[TextHit]:
    """Return the best texts, best first: those with every word or, if none has, those with most words.

    some    one word is enough, even if some text has all of them
    """
    words = choose_words(query)
    counts = {word: count for word, count in zip(words, texts.count(words), strict=True) if count}
    if not counts or limit < 1:
        return []
    known = list(counts)
    matches = [] if some or known != words else texts.find(known)
    count_only = not (some or matches)
    if not matches:
        few = [word for word in known if counts[word] < _COMMON] or [min(known, key=counts.__getitem__)]
        known = few if some else known
        matches = texts.find(known, few)
    sizes = None if count_only else texts.measure()
    scores = _score(matches, [counts[word] for word in known], sizes)
    best = nsmallest(limit, ((-score, match.text) for score, match in zip(scores, matches, strict=True)))
    return [TextHit(-score, text) for score, text in best]


def _score(matches: list[Match], counts: list[int], sizes: tuple[int, int] | None) -> Iterable[float]:
    """Score texts with BM25; without sizes by how many of the words they have, then by their rarity."""
    rarity = [1 / (1 + count) for count in counts]
    weights = [1 + rare / (1 + sum(rarity)) for rare in rarity]
    short = usual = 0.0
    if sizes is not None:
        texts, words = sizes
        rarity = [log((max(texts, count) - count + 0.5) / (count + 0.5)) for count in counts]
        weights = [(_SATURATION + 1) * max(_LEAST_RARE, rare) for rare in rarity]
        short, usual = _SATURATION * (1 - _LENGTH), _SATURATION * _LENGTH * texts / max(1, words)
    for _, length, often in matches:
        damped = short + usual * length
        yield sum(weight * (n / (n + damped)) for weight, n in zip(weights, often, strict=True) if n)


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
    ranked = rank_texts(index.select(), query, limit=limit, some=some)
    best = [replace(all_hits[hit.text[1]], score=hit.score) for hit in ranked]
    known = {hit.entry.name for hit in best}
    # An index may know more forms of a word than this one.
    return [*best, *(hit for hit in hits if hit.entry.name not in known)][:limit]


class WordIndex:
    """The words of texts of all sessions; texts are numbered as they come and never leave.

    One index for all: with one for each, many sessions take several times the memory.
    """

    def __init__(self) -> None:
        self.postings: dict[str, _Posting] = {}
        self.lengths = array("L")
        self.owners: list[str] = []
        self._sessions: dict[str, array[int]] = {}

    def add(self, text: str, session: str = "") -> int:
        """Add a text of a session and return its number."""
        number, counts = len(self.lengths), count_words(text)
        for word, often in counts.items():
            posting = self.postings.get(word)
            if posting is None:
                posting = self.postings[word] = _Posting()
            posting.texts.append(number)
            posting.often.append(often)
        self.lengths.append(sum(counts.values()))
        self.owners.append(session)
        self._sessions.setdefault(session, array("L")).append(number)
        return number

    def select(self, session: str | None = None) -> "IndexedTexts":
        """Select the texts of a session, or of all."""
        every = range(len(self.lengths))
        return IndexedTexts(self, every if session is None else set(self._sessions.get(session, ())))


@dataclass(frozen=True, slots=True)
class IndexedTexts:
    """Texts in an index, by their numbers."""

    index: WordIndex
    texts: Collection[int]

    def measure(self) -> tuple[int, int]:
        """Return the number of texts and of their words."""
        return len(self.texts), sum(map(self.index.lengths.__getitem__, self.texts))

    def count(self, words: Sequence[str]) -> list[int]:
        """Return how many texts have each of these stems."""
        return [len(posting.among(self.texts)) for posting in self._read(words)]

    def find(self, words: Sequence[str], some: Sequence[str] = ()) -> list[Match]:
        """Find the texts that have all of these stems, or at least one of `some`.

        Begins with the rarest word and only looks the others up: a rare sentence is found at once.
        """
        postings = self._read(words)
        found: Collection[int] = self.texts
        if some:
            found = {text for posting in self._read(some) for text in posting.among(self.texts)}
        else:
            for posting in sorted(postings, key=lambda posting: len(posting.texts)):
                found = posting.among(found).keys()
        often = [posting.among(found) for posting in postings]
        owners, lengths = self.index.owners, self.index.lengths
        return [
            Match((owners[text], text), lengths[text], [counts.get(text, 0) for counts in often])
            for text in found
        ]

    def _read(self, words: Sequence[str]) -> list[_Posting]:
        return [self.index.postings.get(word, _NOWHERE) for word in words]
