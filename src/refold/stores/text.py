"""Text as bytes and hashes: how databases and file names keep names that may be any text."""

import hashlib
from typing import Final

UNSPACED: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Characters of scripts that put no space between words (kana, Han), as the inside of a regex class. Search
takes each of them for a word of its own."""
_HASH_BYTES: Final = 20
"""160 bits, as names of entries have: no two names are expected to collide."""


def encode_text(text: str) -> bytes:
    """Encode any text, lone surrogates included, which plain UTF-8 refuses."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    """Decode what `encode_text` made."""
    return data.decode("utf-8", "surrogatepass")


def name_hash(name: str) -> bytes:
    """Hash a name: a key of fixed size for file names and indexes, which cannot hold long or odd ones."""
    return hashlib.blake2b(encode_text(name), digest_size=_HASH_BYTES).digest()
