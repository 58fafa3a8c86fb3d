"""How many tokens a text has, about, without a tokenizer; knows character classes and weights, no model.

Every pair of neighbouring characters has a weight in 1/64 token, and a text has the sum of its pairs. A
blank before a letter starts a word and weighs much; a vowel between consonants weighs little; a capital
behind a digit, as in base64, weighs nearly a token. The weights are fitted to exact o200k counts by
`scripts/calibrate_estimate.py`, which also measures `BAND`. How it is made and what was rejected:
`docs/decisions/0003-estimate-without-a-tokenizer.md`.

Two streams are weighed. The *plain* stream has one class for each character, all that is not ASCII in one
class; the *other* stream has the UTF-8 bytes of what is not ASCII, because there a script shows in the
bytes. All work over characters is done by `bytes.translate`, `unhexlify` (which packs two hexadecimal class
letters into one byte, so that a pair becomes one byte) and `adler32` (which adds bytes up).

No weight is negative and a part of a text has a part of its pairs, so a longer text never has fewer tokens:
`estimate(text[i:j]) <= estimate(text)` (law 16).
"""

from binascii import unhexlify
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from zlib import adler32

UNIT: Final = 64
"""Units in a token. Finer units would leave too little room below `HEAVIEST`; coarser ones round away what
a pair inside a word weighs."""

FIRST: Final = 48
"""What a first character weighs, in units. Low for a text that starts with a rare word."""

HEAVIEST: Final = 127
"""The most a pair weighs, in units: nearly two tokens. More would make `adler32` add fewer bytes at once."""

BLOCK: Final = 1 << 15
"""Characters worked on at once, so that every intermediate value stays in the processor's cache."""

_ADDABLE: Final = 512
"""Bytes that `adler32` adds up exactly: its sum is modulo 65,521, and 512 * 127 is less."""

_LETTERS: Final = b"0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Band:
    """How far the estimate of a text of 200 to 8,000 characters is off; 0.1 is a tenth too high."""

    low: float
    """Only one text in forty is estimated lower."""
    high: float
    """Only one text in forty is estimated higher."""
    mean: float
    """The mean of the error's size."""


def _table(classes: Mapping[int, bytes | range], rest: int) -> bytes:
    table = bytearray([_LETTERS[rest]]) * 256
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
    },
    rest=0,
)

# Continuation bytes in five classes, first bytes in eleven, roughly a script each: Latin-1, extended Latin
# and Greek, Cyrillic (two, its halves), Hebrew to Arabic, Indic to Georgian, symbols, kana, Han, Hangul,
# emoji.
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
        10: [0xE0, 0xE1],
        11: [0xE2, 0xEE, 0xEF],
        12: [0xE3],
        13: range(0xE4, 0xEA),
        14: range(0xEA, 0xEE),
        15: range(0xF0, 0x100),
    },
    rest=0,
)
_ASCII: Final = bytes(range(0x80))
_CONTINUATION: Final = bytes(range(0x80, 0xC0))

# written by scripts/calibrate_estimate.py: begin
_PLAIN_WEIGHTS: Final = bytes.fromhex(
    "180000000000000018000000000000004404676308191d182c44244f050e321b"
    "19350000372f6d707f492d1b004c1155192d67142942763b6a44340d23117f44"
    "3f1a5d52081f213676316a4431522a001a12161800260b001c0f23221300037f"
    "1b05260b00010707181119090b25000029003b4d3b011318352f262a2149113d"
    "1a1d26406a020d017f061200175600053324002f170b2b1e470323106d001140"
    "181f004a001a1934514a1600002500241b19003f192a15312d1d250d00332e3e"
    "1b2a03326c7e2400374d5e3b001b4d76202d1546463d56422759001d20000056"
    "1a207f337f000f001c2c7f006a7f30001900367f0036007c7c00341a0a0e0000"
)
_OTHER_WEIGHTS: Final = bytes.fromhex(
    "200000131600000006150305440d000d000002001a00004a380d1a360526003b"
    "0226060000230023090300040b0e0f132b00002c20360604040000660000007f"
    "0000030028211100000100011e00041e2a2a0000241a1a1a1a1a1a1a1a1a1a1a"
    "041d0016051a1a1a1a1a1a1a1a1a1a1a1e0000001b1a1a1a1a1a1a1a1a1a1a1a"
    "0042461a091a1a1a1a1a1a1a1a1a1a1a040813050a1a1a1a1a1a1a1a1a1a1a1a"
    "1a130d00091a1a1a1a1a1a1a1a1a1a1a66161114261a1a1a1a1a1a1a1a1a1a1a"
    "1a1a1a1a0b1a1a1a1a1a1a1a1a1a1a1a000113006b1a1a1a1a1a1a1a1a1a1a1a"
    "000025001d1a1a1a1a1a1a1a1a1a1a1a1a531b1a1a000000000000010000000d"
)
_BAND: Final = {
    "agent": Band(low=-0.114, high=0.108, mean=0.04),
    "arabic": Band(low=-0.14, high=0.106, mean=0.052),
    "base64": Band(low=-0.095, high=0.064, mean=0.027),
    "chat": Band(low=-0.1, high=0.1, mean=0.035),
    "chinese": Band(low=-0.12, high=0.136, mean=0.054),
    "code": Band(low=-0.132, high=0.154, mean=0.066),
    "config": Band(low=-0.158, high=0.208, mean=0.07),
    "css": Band(low=-0.073, high=0.263, mean=0.085),
    "csv": Band(low=-0.082, high=0.054, mean=0.02),
    "cyrillic": Band(low=-0.151, high=0.101, mean=0.053),
    "diff": Band(low=-0.13, high=0.104, mean=0.049),
    "emoji": Band(low=-0.262, high=0.071, mean=0.055),
    "european": Band(low=-0.197, high=0.171, mean=0.079),
    "hex": Band(low=-0.054, high=0.057, mean=0.026),
    "hindi": Band(low=-0.127, high=0.139, mean=0.054),
    "html": Band(low=-0.102, high=0.059, mean=0.036),
    "japanese": Band(low=-0.142, high=0.176, mean=0.063),
    "javascript": Band(low=-0.155, high=0.185, mean=0.067),
    "json": Band(low=-0.122, high=0.091, mean=0.038),
    "korean": Band(low=-0.184, high=0.172, mean=0.069),
    "logs": Band(low=-0.086, high=0.117, mean=0.032),
    "prose": Band(low=-0.148, high=0.114, mean=0.049),
    "python": Band(low=-0.124, high=0.103, mean=0.054),
    "scripts": Band(low=-0.197, high=0.23, mean=0.076),
    "shell": Band(low=-0.109, high=0.088, mean=0.044),
    "symbols": Band(low=-0.172, high=0.122, mean=0.054),
    "terminal": Band(low=-0.172, high=0.131, mean=0.083),
    "typescript": Band(low=-0.119, high=0.177, mean=0.055),
}
# written by scripts/calibrate_estimate.py: end


BAND: Final[Mapping[str, Band]] = MappingProxyType(_BAND)
"""The error by kind of text, on sources the weights were not fitted to."""

FAMILY: Final[Mapping[str, float]] = MappingProxyType({"openai": 1.0})


def estimate(text: str) -> int:
    """About how many o200k tokens a text has.

    >>> estimate("Keep long conversations inside the window.")
    7
    """
    units = FIRST
    plain = other = b""
    for begin in range(0, len(text), BLOCK):
        block = text[begin : begin + BLOCK]
        if block.isascii():
            plain += block.encode().translate(_PLAIN)
        else:
            data = block.encode("utf-8", "surrogatepass")
            plain += data.translate(_PLAIN, _CONTINUATION)
            other += data.translate(_OTHER, _ASCII)
            units += _sum(_pairs(other).translate(_OTHER_WEIGHTS))
            other = other[-1:]
        units += _sum(_pairs(plain).translate(_PLAIN_WEIGHTS))
        plain = plain[-1:]
    return max(1, (units + UNIT // 2) // UNIT) if text else 0


def _pairs(classes: bytes) -> bytes:
    """Every pair of neighbours as one byte: the even ones, then the odd ones.

    >>> _pairs(b"0123").hex(" ")
    '01 23 12'
    """
    size = len(classes)
    return unhexlify(classes[: size & ~1]) + unhexlify(classes[1 : size - 1 + (size & 1)])


def _sum(weights: bytes) -> int:
    if len(weights) <= _ADDABLE:
        return adler32(weights, 0) & 0xFFFF
    return sum([adler32(weights[at : at + _ADDABLE], 0) & 0xFFFF for at in range(0, len(weights), _ADDABLE)])


def pairs(text: str) -> tuple[bytes, bytes]:
    """Give the coded pairs of both streams: what the weights weigh, for who fits or checks them."""
    data = text.encode("utf-8", "surrogatepass")
    return _pairs(data.translate(_PLAIN, _CONTINUATION)), _pairs(data.translate(_OTHER, _ASCII))
