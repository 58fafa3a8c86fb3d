"""Estimate the tokens of a text without a tokenizer; knows character classes and weights, no model.

Every pair of neighbouring characters has a weight in 1/64 token, and the estimate is the sum over all pairs.
A blank behind a letter ends a word and weighs nearly half a token; two common letters weigh little; a digit
behind a capital, as in base64, weighs more than a token. `scripts/calibrate_estimate.py` fits the weights to
exact o200k counts and measures the error (`data/estimate_bands.toml`). Method and rejected alternatives:
`docs/decisions/0003-estimate-without-a-tokenizer.md`.

Two streams are weighed. The *plain* stream has one class for each character, with everything that is not
ASCII in one class. The *other* stream has the UTF-8 bytes of the characters that are not ASCII, because the
bytes show the script. All work over characters is done by `bytes.translate`, `unhexlify` (which packs two
hexadecimal class letters into one byte, so that a pair becomes one byte) and `adler32` (which adds bytes up).

No weight is negative and a part of a text has a part of its pairs, so a longer text never has fewer tokens:
`estimate(text[i:j]) <= estimate(text)` (law 16).
"""

from binascii import unhexlify
from collections.abc import Iterable, Mapping
from string import ascii_letters
from types import MappingProxyType
from typing import Final
from zlib import adler32

UNIT: Final = 64
"""Units in a token. Finer units would leave too little room below `HEAVIEST`; coarser ones round away the
weight of a pair inside a word."""

FIRST: Final = 48
"""Weight of the first character, in units; half a token at least, so that no text rounds to nothing. Low
for a text that starts with a rare word."""

HEAVIEST: Final = 127
"""Largest weight of a pair, in units: nearly two tokens. More would make `adler32` add fewer bytes."""

BLOCK: Final = 1 << 14
"""Characters worked on at once, so that every intermediate value stays in the processor's cache."""

_ADDABLE: Final = 512
"""Bytes that `adler32` adds up exactly: its sum is modulo 65,521, and 512 * 127 is less."""

_LETTERS: Final = b"0123456789abcdef"


def _table(classes: Mapping[int, Iterable[int]]) -> bytes:
    table = bytearray(_LETTERS[:1]) * 256
    for number, members in classes.items():
        for member in members:
            table[member] = _LETTERS[number]
    return bytes(table)


_PLAIN: Final = _table(
    {
        1: b" ",
        2: b"\n\r",
        3: b"0123456789",
        4: b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        5: b"aeo",
        6: b"tnsrlhdc",
        7: b"mpgfbyw",
        8: b"kvjxqz",
        9: b"_-/.\\",
        10: b"()[]{}<>",
        11: b"\"'`",
        12: b",;:",
        13: b"=+*&|!@#$%^~?\t",
        14: b"iu",
        15: range(0x80, 0x100),
    }
)

# Continuation bytes in five classes, first bytes in eleven, roughly a script each: Latin-1, extended Latin
# and Greek, Cyrillic (two, its halves), Hebrew to Arabic, Indic and Thai, symbols, kana, Han, Hangul, emoji.
_OTHER: Final = _table(
    {
        0: range(0x88, 0x90),
        1: range(0x98, 0xA0),
        2: [*range(0x90, 0x98), *range(0xA0, 0xB0)],
        3: range(0xB8, 0xC0),
        4: [*range(0x80, 0x88), *range(0xB0, 0xB8)],
        5: range(0xC0, 0xC4),
        6: range(0xC4, 0xD0),
        7: [0xD0, *range(0xD2, 0xD6)],
        8: [0xD1],
        9: range(0xD6, 0xE0),
        10: [0xE0],
        11: [0xE1, 0xE2, 0xEE, 0xEF],
        12: [0xE3],
        13: range(0xE4, 0xEA),
        14: range(0xEA, 0xEE),
        15: range(0xF0, 0x100),
    }
)
_ASCII: Final = bytes(range(0x80))
_CONTINUATION: Final = bytes(range(0x80, 0xC0))

# written by scripts/calibrate_estimate.py: begin
_PLAIN_WEIGHTS: Final = bytes.fromhex(
    "7f05313117010d2e6a121e2b011902017e03456d010c080c222d204e19021a11"
    "7f310101250242417b2e0d1b0136014d7f254b1322184b2964203c05250b3b39"
    "7e295e570d14173c6917463238361c017f1b393c012f0201200d281f1d0b087f"
    "7f1e4c2e0f09091125153119202f02017c01546a260109194d222b352d2d102a"
    "7f0e2c3d7f010104790114200c2601327f350158250d282c4204382731260841"
    "7f30074819180b24513f0f09012817137f1c093813250c2a490b1c0f01270d17"
    "7f28063559551f0c6d28503d010d0d417f3533444f07505e563c012a06010b3d"
    "7f35645d7f0109083914592063413e017f0940610b1201737c0146451c3f0101"
)
_OTHER_WEIGHTS: Final = bytes.fromhex(
    "1603033f03090b03030b030b39340c5c0303031018032441120a26070326034e"
    "033a05040318031b17090307100a0a4816030304032a04030303031b03090d7f"
    "031503031c340d06030610033a03152b091a0c030a20131103100d0c1d271d63"
    "0c2c031c0320131103100d0c1d271d63031303031120131103100d0c1d271d63"
    "032245040320131103100d0c1d271d630a0610030320131103100d0c1d271d63"
    "031403040320131103100d0c1d271d634e120d030320131103100d0c1d271d63"
    "031405040320131103100d0c1d271d6303030b035d20131103100d0c1d271d63"
    "03030c0e1220131103100d0c1d271d63032706040820131103100d0c1d271d63"
)
# written by scripts/calibrate_estimate.py: end


RUN: Final = UNIT // 8
"""Units of a letter that repeats the 39 before it. o200k has tokens of eight and more for most letters,
so it is right for them and low by half for the rest. Without it padding such as `xxxx...` would weigh like
random letters, ten times too much."""

_LONG_RUN: Final = 40
_RUNS: Final = tuple(letter.encode() * _LONG_RUN for letter in ascii_letters)
"""Runs of forty of each letter."""
_ALIKE: Final = bytes(pair in (0x44, 0x55, 0x66, 0x77, 0x88, 0xEE) for pair in range(256))
"""1 for each pair of two letters of one class, else 0."""
_ALIKE_RUN: Final = b"\1" * (_LONG_RUN // 2 - 1)
"""What every run of forty has at least among the even pairs."""
_ALIKE_THIRDS: Final = b"\1" * (len(_ALIKE_RUN) // 3)
"""What it has at least among every third of them: capitals in a row have it too, hardly any other text."""
_EQUAL: Final = bytes([0]) + b"\xff" * 255
_LETTER: Final = bytes(0 if byte < 0x80 and chr(byte).isalpha() else 0xFF for byte in range(256))

FAMILY: Final[Mapping[str, float]] = MappingProxyType(
    {
        "openai": 1.0,
        "azure": 1.0,
        # 1.15 on 51 large tool results against the usage Claude Opus 4.6 reported, and room for older ones
        # (1.09 to 1.23 published). Low by a quarter or more for Claude Opus 4.7 and later.
        "anthropic": 1.2,
        "bedrock": 1.2,  # serves mostly Claude; high for the rest
        # 1.16 on 20,163 calls of Gemini 3 Pro, 1.15 by Gemma 3's vocabulary. High outside Latin script.
        "google": 1.16,
        "vertex": 1.16,
        "mistral": 1.09,  # Tekken; low by a sixth for the models before it
        "alibaba": 1.05,  # Qwen 3; high for Chinese (0.9), low for hex and numbers (1.2 to 1.4)
        "deepseek": 1.04,  # V3; high for Chinese (0.85)
        "meta": 1.0,  # Llama 3
        "moonshot": 1.0,  # Kimi K2; high for Chinese (0.85)
        "zai": 1.0,  # GLM 4; high for Chinese (0.9)
    }
)
"""Tokens of a provider's tokenizer for each o200k token, on English conversation, code and tool output; by
the vocabularies bundled in splintr-rs (`calibrate_estimate.py --families`) where no other source is named.
All but Google's and Mistral's are low, by up to three times, for Hindi, Arabic, Korean and Cyrillic."""


def estimate(text: str) -> int:
    """Return about how many o200k tokens a text has; 0 only for the empty text.

    >>> estimate("Keep long conversations inside the window.")
    8
    """
    if not text:
        return 0
    if len(text) <= BLOCK and text.isascii():  # the same in one step, for nearly all messages
        return (FIRST + _plain_units(text.encode()) + UNIT // 2) // UNIT
    return (FIRST + _units(text) + UNIT // 2) // UNIT


def _units(text: str) -> int:
    units = 0
    before = other = b""
    for begin in range(0, len(text), BLOCK):
        block = text[begin : begin + BLOCK]
        data = block.encode("utf-8", "surrogatepass")
        if len(data) > len(block):
            other += data.translate(_OTHER, _ASCII)
            units += _sum(_pairs(other).translate(_OTHER_WEIGHTS))
            other = other[-1:]
            units += _plain_units(before + data, _CONTINUATION)
            before = block[-1].encode("utf-8", "surrogatepass")[:1]
        else:
            units += _plain_units(before + data)
            before = data[-1:]  # pairs reach over the end of a block
    return units


def _pairs(classes: bytes) -> bytes:
    """Return every pair of neighbours as one byte: the even pairs, then the odd ones.

    >>> _pairs(b"0123").hex(" ")
    '01 23 12'
    """
    size = len(classes)
    return unhexlify(classes[: size & ~1]) + unhexlify(classes[1 : size - 1 + (size & 1)])


def _plain_units(data: bytes, left_out: bytes = b"") -> int:
    """Weigh the plain stream of a block; `left_out`: the bytes that do not count."""
    classes = data.translate(_PLAIN, left_out)
    pairs = _pairs(classes)
    weights = pairs.translate(_PLAIN_WEIGHTS)
    half = len(pairs) // 2 + 1
    if (  # each look takes longer than the one before it, and fewer texts need it; `in` is slower than `find`
        len(pairs) < _LONG_RUN - 1
        or pairs[:half:3].translate(_ALIKE).find(_ALIKE_THIRDS) < 0
        or pairs[:half].translate(_ALIKE).find(_ALIKE_RUN) < 0
        or not any(run in data for run in _RUNS)
    ):
        return _sum(weights)
    other = _no_runs(data.translate(None, left_out))
    kept = int.from_bytes(weights, "little") & int.from_bytes(other[0::2] + other[1::2], "little")
    return _sum(kept.to_bytes(len(weights), "little")) + RUN * other.count(0)


def _no_runs(data: bytes) -> bytes:
    """Return for every pair 0 if a letter repeats the 39 before it, else 255."""
    size = len(data) - 1
    number = int.from_bytes(data, "little")
    unlike = number ^ (number >> 8)  # a byte is 0 where a character equals the next one
    two = unlike | unlike << 8
    four = two | two << 16
    eight = four | four << 32
    sixteen = eight | eight << 64
    all39 = sixteen | sixteen << 128 | (four | four << 24) << 256
    all39 |= (1 << 304) - 1  # the characters before the first are unknown
    marks = all39.to_bytes(size + 39, "little")[:size].translate(_EQUAL)
    letters = data[:size].translate(_LETTER)
    return (int.from_bytes(marks, "little") | int.from_bytes(letters, "little")).to_bytes(size, "little")


def _sum(weights: bytes) -> int:
    if len(weights) <= _ADDABLE:
        return adler32(weights, 0) & 0xFFFF
    units = 0
    for at in range(0, len(weights), _ADDABLE):
        units += adler32(weights[at : at + _ADDABLE], 0) & 0xFFFF
    return units


def code_pairs(text: str) -> tuple[bytes, bytes]:
    """Return the coded pairs of both streams, for the script that fits the weights and for tests."""
    data = text.encode("utf-8", "surrogatepass")
    return _pairs(data.translate(_PLAIN, _CONTINUATION)), _pairs(data.translate(_OTHER, _ASCII))
