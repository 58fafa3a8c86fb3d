"""Exact o200k and cl100k token counts, offline; needs the extra `refold[exact]`.

The vocabularies are inside the wheel of splintr-rs; nothing is downloaded. Text that spells a special token,
such as `<|endoftext|>`, is counted as ordinary text. Why this package, and what else was measured:
`docs/decisions/0004-exact-counts.md`.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from refold.errors import RefoldError, install_hint

PIECE: Final = 1 << 13
"""Characters given to the tokenizer at once, about; more is slower, because its lists outgrow the
processor's cache (decision 4)."""

LONGEST_PIECE: Final = 1 << 20
"""Characters without a safe place to cut, after which a cut is made anyway: the tokenizer needs some 65 bytes
of memory for each. Each such cut can make the count one or two tokens too high."""

_SAFE_CUT = re.compile(r"(?<=\n)(?=[^\s/])|(?<=[A-Za-z0-9])(?= [A-Za-z])")
"""Places where both encodings always end a word: after a line end, and before a single blank between words.
In o200k a slash belongs to the line end before it."""

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_ALONE = re.compile("[\ud800-\udfff]+")

_SPECIAL: Final = "<|"
"""First characters of every special token; checked when the vocabulary is loaded."""

_PROBE: Final = "def f(x):\n    return x + 1234  # Ünïcode 你好 <|endoftext|>"
_VOCABULARIES: Final = {"o200k": ("o200k_base", (19, 25)), "cl100k": ("cl100k_base", (21, 26))}
"""Name in the package; tokens of the probe without its last word and whole, as tiktoken counts them."""

_MODELS: Final = {
    "o200k": re.compile(r"(?:chatgpt-4o|gpt-4o|gpt-4\.[1-9]|gpt-5|gpt-oss|o[134]|codex-mini)(?![0-9a-z])"),
    "cl100k": re.compile(r"(?:gpt-4|gpt-3\.?5|text-embedding-(?:3|ada-002))(?![0-9a-z.])"),
}
_BEFORE_NAME = re.compile(r"^(?:.*/)?(?:(?:openai|azure|ft)[:.])*")


def encoding_for(model: str) -> str | None:
    """Return the encoding that a model counts with: "o200k", "cl100k", or None if it is not public.

    >>> encoding_for("openai/gpt-4o-mini"), encoding_for("gpt-4-turbo"), encoding_for("claude-sonnet-4-5")
    ('o200k', 'cl100k', None)
    """
    name = _BEFORE_NAME.sub("", model.strip().lower())
    return next((encoding for encoding, names in _MODELS.items() if names.match(name)), None)


def make_counter(encoding: str = "o200k") -> Callable[[str], int]:
    """Return a function from text to its exact number of tokens.

    Raises `RefoldError` if the extra is missing or the encoding is neither "o200k" nor "cl100k".
    """
    name = encoding.removesuffix("_base")
    if name not in _VOCABULARIES:
        known = " or ".join(map(repr, _VOCABULARIES))
        raise RefoldError(f"no exact counts for {encoding!r}: use 'exact' for those of the model, or {known}")
    tokenizer = _tokenizer(name)

    def count(text: str) -> int:
        return sum(_count(tokenizer, piece) for piece in _split(text))

    return count


@cache
def _tokenizer(name: str) -> Any:
    try:
        from splintr import Tokenizer
    except ImportError as error:
        raise RefoldError(f"exact counts need an extra: {install_hint('exact')}") from error
    vocabulary, tokens = _VOCABULARIES[name]
    tokenizer = Tokenizer.from_pretrained(vocabulary)
    known = all(token.startswith(_SPECIAL) for token in tokenizer.special_tokens())
    if not known or (_count(tokenizer, _PROBE[:-13]), _count(tokenizer, _PROBE)) != tokens:
        raise RefoldError("splintr-rs counts wrongly: pip install --force-reinstall splintr-rs")
    return tokenizer


def _split(text: str) -> Iterator[str]:
    """Split a text at places where no token ends otherwise."""
    begin = 0
    while len(text) - begin > PIECE:
        safe = _SAFE_CUT.search(text, begin + PIECE, begin + LONGEST_PIECE)
        end = safe.start() if safe else min(begin + LONGEST_PIECE, len(text))
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _count(tokenizer: Any, piece: str) -> int:
    try:
        if _SPECIAL in piece:
            return len(tokenizer.encode_ordinary(piece))
        return len(tokenizer.encode_flat(piece)) // 4  # four bytes a token; a third faster than a list
    except UnicodeEncodeError:
        # As tiktoken does: join halves of one character, and put U+FFFD for a half that is left alone.
        joined = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), piece)
        return _count(tokenizer, _ALONE.sub(lambda run: "\ufffd" * len(run[0]), joined))
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what a panic in Rust becomes; it is no Exception
            raise
        raise RefoldError(f"the tokenizer failed on {len(piece):,} characters: {error}") from error
