"""Full text in memory: which texts have which words, ranked with BM25.

Texts are numbered as they come and never leave. A word is a row of letters and digits, without regard to
case; scripts that put no space between words are taken letter by letter. For each word stand the numbers of
the texts that have it, in order, so that a search begins with the rarest word of the query and only looks
the others up: a sentence that is rare is found at once, however many texts there are.
"""

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from heapq import nlargest
from math import log
from typing import Final, NamedTuple

_UNSPACED: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
_QUERY_WORDS: Final = 64
"""The rarest of a long query; the others do not change the order."""
_CANDIDATES: Final = 2_000
"""Where no text has every word, so many are looked at, those with the rarest words first."""
_FEW: Final = 8
_STEMMED, _LEAST_STEM = 4, 3
"""Letters a word must have to be stemmed, and those that must be left."""
_ENDINGS: Final = (
    *(("sses", "ss"), ("ies", "y"), ("ied", "y"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("ss", "ss")),
    *(("us", "us"), ("ing", ""), ("edly", ""), ("ed", ""), ("ly", ""), ("s", "")),
)
_SATURATION: Final = 1.2
_LENGTH: Final = 0.75


class Hit(NamedTuple):
    """A text that was found."""

    score: float
    text: int


class _Posting:
    """Where one word stands: numbers of texts, growing, and how often in each."""

    __slots__ = ("often", "texts")

    def __init__(self) -> None:
        self.texts = array("L")
        self.often = array("L")

    def count(self, text: int) -> int:
        at = bisect_left(self.texts, text)
        return self.often[at] if at < len(self.texts) and self.texts[at] == text else 0

    def among(self, wanted: Collection[int]) -> Iterable[tuple[int, int]]:
        """Which of these texts have the word, and how often."""
        if len(wanted) * _FEW > len(self.texts):  # nearly as many as there are: one walk beats many steps
            return [pair for pair in zip(self.texts, self.often, strict=True) if pair[0] in wanted]
        return [(text, often) for text in wanted if (often := self.count(text))]


def words_of(text: str) -> list[str]:
    """The words of a text, in order.

    >>> words_of("Read_file FAILED: errno 13")
    ['read', 'file', 'failed', 'errno', '13']
    """
    return _WORD.findall(text.casefold())


def stem(word: str) -> str:
    """An English word without the endings that change nothing for a search; other words as they are.

    >>> [stem(word) for word in ("letters", "boxes", "stories", "painted", "running", "bus", "class")]
    ['letter', 'box', 'story', 'paint', 'run', 'bus', 'class']
    """
    if len(word) < _STEMMED or not word.isascii() or not word.isalpha():
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST_STEM:
            word = word[: len(word) - len(ending)] + instead
            break
    doubled = len(word) > _LEAST_STEM and word[-1] == word[-2] and word[-1] not in "lsz"
    return word[:-1] if doubled else word


class Words:
    """An index of texts."""

    def __init__(self) -> None:
        self._postings: dict[str, _Posting] = {}
        self._lengths = array("L")
        self._total = 0

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, text: str) -> int:
        """Take in a text; gives its number."""
        number = len(self._lengths)
        words = list(map(stem, words_of(text)))
        for word, often in Counter(words).items():
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
    ) -> list[Hit]:
        """The best texts, best first: those with every word, or where none has, those with most of them.

        among   says which texts count at all
        some    one word is enough, whether or not a text has them all
        """
        words = dict.fromkeys(map(stem, words_of(query)))
        known = sorted((p for word in words if (p := self._postings.get(word))), key=lambda p: len(p.texts))
        known = known[:_QUERY_WORDS]
        if not known or limit < 1:
            return []
        all_known = len(known) == min(len(words), _QUERY_WORDS)
        texts = self._with_all(known, among) if all_known and not some else []
        texts = texts or self._with_some(known, among)
        scores = self._scores(texts, known)
        best = nlargest(limit, ((score, -text) for text, score in scores.items()))
        return [Hit(score, -text) for score, text in best]

    @staticmethod
    def _with_all(postings: list[_Posting], among: Callable[[int], bool] | None) -> list[int]:
        texts: Iterable[int] = postings[0].texts
        if among is not None:
            texts = filter(among, texts)
        left = set(texts)
        for posting in postings[1:]:
            left = {text for text, _ in posting.among(left)}
        return list(left)

    @staticmethod
    def _with_some(postings: list[_Posting], among: Callable[[int], bool] | None) -> list[int]:
        found: dict[int, None] = {}
        for posting in postings:
            for text in posting.texts:
                if among is None or among(text):
                    found[text] = None
                    if len(found) >= _CANDIDATES:
                        return list(found)
        return list(found)

    def _scores(self, texts: list[int], postings: list[_Posting]) -> dict[int, float]:
        every = len(self._lengths)
        usual = _LENGTH * every / self._total
        damped = {text: _SATURATION * (1 - _LENGTH + usual * self._lengths[text]) for text in texts}
        scores = dict.fromkeys(texts, 0.0)
        for posting in postings:
            rare = log(1 + (every - len(posting.texts) + 0.5) / (len(posting.texts) + 0.5)) * (
                _SATURATION + 1
            )
            for text, often in posting.among(scores):
                scores[text] += rare * often / (often + damped[text])
        return scores
