"""Text as bytes, hashes and words: how databases and file names keep what may be any text."""

import hashlib
import re
from functools import lru_cache
from itertools import pairwise
from typing import Final
from unicodedata import normalize

_UNSPACED: Final = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"  # kana and Han
    "|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"  # Thai, Lao, Burmese, Khmer
    "|[\u2600-\u27bf\U0001f000-\U0001faff]"  # emoji and other signs
)
"""What stands in a text without a space around it although it is a word, or several."""
_TERMINAL: Final = re.compile(r"\x1b\[[0-?]{0,40}[ -/]{0,4}([@-~])")
"""A control sequence of a terminal (ECMA-48); `m` and `K` colour what stands around them."""
_ESCAPED: Final = re.compile(r"(?:(?<!\\)\\+u[0-9a-fA-F]{4})+")
"""Letters that JSON escapes; JSON inside JSON has several backslashes, all of which are tried once."""
_AFTER_BREAK: Final = re.compile(r"\\[bfnrt]([^\W_]+)")
"""A word behind an escaped end of a line or another control character, or a part of a Windows path."""
_HASH_BYTES: Final = 20
"""160 bits, as names of entries have: no two names are expected to collide."""


def encode_text(text: str) -> bytes:
    """Encode any text, lone surrogates included, which plain UTF-8 refuses."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    """Decode what `encode_text` made."""
    return data.decode("utf-8", "surrogatepass")


def separate_words(text: str) -> str:
    r"""Return a text with spaces between its words, also where it has none: Han letters, pairs of Thai.

    Words are those that a person reads: in JSON `caf\u00e9` has an accent and `\nfoo` is also `foo`; colours
    of a terminal are no letters, and an accent belongs to its letter.
    """

    def decode(match: re.Match[str]) -> str:
        return bytes.fromhex(match[0].replace("\\", "").replace("u", "")).decode("utf-16-be", "replace")

    if "\\" in text:
        text = _AFTER_BREAK.sub(r"\g<0> \1", _ESCAPED.sub(decode, text))
    if "\x1b" in text:
        text = _TERMINAL.sub(lambda match: "" if match[1] in "mK" else " ", text)

    def spell(match: re.Match[str]) -> str:
        return _spell_sign(match[0]) if len(match[0]) == 1 else _spell(match[0])

    return text if text.isascii() else _UNSPACED.sub(spell, normalize("NFC", text))


def _spell(run: str) -> str:
    letters = [letter for letter in run if letter.isalnum()]
    pairs = list(map("".join, pairwise(letters)))
    return f" {' '.join(pairs or letters or [f'u{ord(run[0]):x}'])} "


_spell_sign: Final = lru_cache(maxsize=4_096)(_spell)
"""The same for one letter or sign: a text repeats these, while a long run must not be kept."""


def name_hash(name: str) -> bytes:
    """Hash a name: a key of fixed size for file names and indexes, which cannot hold long or odd ones."""
    return hashlib.blake2b(encode_text(name), digest_size=_HASH_BYTES).digest()
