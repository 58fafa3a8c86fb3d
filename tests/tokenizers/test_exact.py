"""Exact counts: the numbers tiktoken gives, on any text, with a clear word where the extra is missing."""

import os
import random
import signal
import subprocess
import sys
import time
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from growth import assert_linear, stop_hang
from refold.errors import RefoldError
from refold.tokenizers import exact
from sample_sizes import few_or_all

# Counted with tiktoken 0.14.0: text, o200k tokens, cl100k tokens.
KNOWN = [
    ("", 0, 0),
    ("hello world", 2, 2),
    ("The quick brown fox jumps over the lazy dog.", 10, 10),
    ("def f(x):\n    return x + 1234  # Ünïcode 你好 ", 19, 21),
    ("def f(x):\n    return x + 1234  # Ünïcode 你好 <|endoftext|>", 25, 26),
    ("<|endoftext|>", 7, 7),
    ("a<|im_start|>b<|fim_prefix|>", 14, 15),
    ("a\0b", 3, 3),
    ("a\ud800b", 3, 3),
    ("\ud83d\ude00", 1, 2),
    ("👨\u200d👩\u200d👧\u200d👦", 11, 18),
    ("1234567890", 4, 4),
    ("don't DON'T we'LL", 5, 7),
    ("x\n/y\n//z\r\n\r\n  \n end", 9, 9),
    ("नमस्ते दुनिया", 5, 13),
    ("HTTPServerErrorXMLParser", 5, 4),
]


@pytest.fixture(scope="module", params=["o200k", "cl100k"])
def count(request):
    return exact.make_counter(request.param)


@pytest.mark.parametrize(("text", "o200k", "cl100k"), KNOWN, ids=lambda value: f"{value!a:.20}")
def test_counts_are_those_of_tiktoken(text, o200k, cl100k):
    """Special tokens are ordinary text (fault C36); NUL and lone surrogates count (C34, C35)."""
    assert exact.make_counter("o200k")(text) == o200k
    assert exact.make_counter("cl100k")(text) == cl100k


def test_o200k_is_the_default_and_the_long_names_work():
    text = "नमस्ते दुनिया"
    assert exact.make_counter()(text) == exact.make_counter("o200k_base")(text) == 5
    assert exact.make_counter("cl100k_base")(text) == 13


# --- cutting --------------------------------------------------------------------------------------------

ATOMS = [
    "a",
    "Foo",
    "bar",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\n\n",
    "\t",
    "/",
    "//",
    ".",
    "1",
    "123",
    "é",
    "\u0301",
    "你好",
]
ATOMS += [
    "。",
    "😀",
    "\u200d",
    "\u00a0",
    "\u3000",
    "\u2028",
    "\x85",
    "\x1c",
    "\0",
    "<|",
    "<|endoftext|>",
    "'s",
    "n't",
    "_",
    "Ⅷ",
]


@given(st.lists(st.sampled_from(ATOMS), max_size=40).map("".join), st.integers(1, 9))
@example("word\n/path and  more\n\n x", 1)
def test_cutting_a_text_changes_no_count(text, piece):
    """Pieces are cut only where a word ends in any case."""
    original = exact.PIECE
    for encoding in ("o200k", "cl100k"):
        count = exact.make_counter(encoding)
        exact.PIECE = original
        whole = count(text)
        exact.PIECE = piece
        try:
            assert count(text) == whole
        finally:
            exact.PIECE = original


def test_pieces_make_up_the_text():
    """Long text is cut, short text is not, and nothing is lost."""
    words = "some words\n" * 9_000
    pieces = list(exact._split(words))
    assert "".join(pieces) == words
    assert len(pieces) > 5
    assert max(map(len, pieces)) < exact.PIECE + 100
    assert list(exact._split("short")) == ["short"]


def test_a_run_without_a_safe_place_is_cut_all_the_same():
    """Memory stays bounded; the count of a run of one letter stays exact all the same."""
    length = 2 * exact.LONGEST_PIECE + 8 * 1_000
    pieces = list(exact._split("a" * length))
    assert [len(piece) for piece in pieces] == [exact.LONGEST_PIECE, exact.LONGEST_PIECE, 8_000]
    assert sum(map(len, exact._split("a" * (exact.PIECE + 1)))) == exact.PIECE + 1


# --- hostile text ---------------------------------------------------------------------------------------


@pytest.mark.few_values(6)
@pytest.mark.parametrize(
    "text",
    [
        " ",
        "a",
        "\n",
        "\t",
        "\0",
        ".",
        "的",
        "\ud800",
        "😀",
        "\u0301",
        "👨\u200d👩\u200d👧\u200d👦",
        "aB",
        "<|endoftext|>",
    ],
    ids=lambda text: f"{text!a:.12}",
)
def test_a_million_of_anything_is_counted(text, count):
    """Fault F20: tokenizers panic on or take minutes for such runs; a fifth of a million in `make test`."""
    with stop_hang():
        assert count(text * (few_or_all(200_000, 1_000_000) // len(text))) > 200


@given(st.text(st.characters(), max_size=300))
def test_any_text_has_a_count(text):
    """No crash and no silent error on any code points; a token is at least one byte."""
    for encoding in ("o200k", "cl100k"):
        tokens = exact.make_counter(encoding)(text)
        assert (tokens == 0) == (not text)
        assert tokens <= len(text.encode("utf-8", "surrogatepass"))


def test_twice_the_text_takes_twice_the_steps():
    """Text is given to the tokenizer in pieces, because its lists outgrow the cache otherwise."""
    words = random.Random(4).choices(
        ["alpha", "return", "value", "the", "of", "12", "{", "}", "\n"], k=400_000
    )
    count = exact.make_counter()
    assert_linear(lambda size: lambda: count(" ".join(words[:size])), 100_000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_worker_counts_too(count):
    """Tokenizers with threads of their own hang there; ours uses none."""
    text = "some words to count\n" * 20_000
    expected = count(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other tests may have threads
        child = os.fork()
    if child == 0:
        os._exit(0 if count(text) == expected else 1)
    deadline = time.monotonic() + 60
    finished, status = os.waitpid(child, os.WNOHANG)
    while not finished and time.monotonic() < deadline:
        time.sleep(0.02)
        finished, status = os.waitpid(child, os.WNOHANG)
    if not finished:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert finished
    assert status == 0


# --- errors ---------------------------------------------------------------------------------------------


@pytest.fixture
def fresh():
    """Load tokenizers anew inside the test."""
    exact._tokenizer.cache_clear()
    yield
    exact._tokenizer.cache_clear()


def test_an_unknown_encoding_names_the_known_ones():
    with pytest.raises(
        RefoldError, match="no exact counts for 'p50k': use 'exact' for those of the model, or 'o200k'"
    ):
        exact.make_counter("p50k")


@pytest.mark.usefixtures("fresh")
def test_a_missing_package_names_the_extra(monkeypatch):
    """One clear line says what to install."""
    monkeypatch.setitem(sys.modules, "splintr", None)
    with pytest.raises(RefoldError) as raised:
        exact.make_counter()
    assert "pip install '.[exact]'" in str(raised.value)
    assert "\n" not in str(raised.value)


class Stand:
    """A tokenizer that answers wrongly, or panics."""

    tokens = b"\0" * 76
    special = ("<|endoftext|>",)

    @classmethod
    def from_pretrained(cls, name):
        return cls()

    def special_tokens(self):
        return self.special

    def encode_flat(self, text):
        return self.tokens

    def encode_ordinary(self, text):
        return [0] * 25


class Wrong(Stand):
    tokens = b"\0" * 80


class OtherSpecial(Stand):
    special = ("<|endoftext|>", "[INST]")


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("tokenizer", [Wrong, OtherSpecial])
def test_a_package_that_counts_otherwise_is_refused(monkeypatch, tokenizer):
    """No silent error: a known text is counted when the vocabulary is loaded."""
    monkeypatch.setattr("splintr.Tokenizer", tokenizer)
    with pytest.raises(RefoldError, match="counts wrongly"):
        exact.make_counter()


@pytest.mark.usefixtures("fresh")
def test_a_package_that_counts_the_known_text_rightly_is_taken(monkeypatch):
    monkeypatch.setattr("splintr.Tokenizer", Stand)
    assert exact.make_counter()("anything") == 19


class PanicException(BaseException):
    """What a panic in Rust becomes in Python: no `Exception`."""


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (PanicException("index out of bounds"), RefoldError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (MemoryError(), MemoryError),
    ],
    ids=["panic", "interrupt", "memory"],
)
def test_a_panic_in_the_tokenizer_becomes_an_error_of_ours(raised, expected):
    """`except Exception` would not catch a panic; what is no panic passes through."""

    class Panics(Stand):
        def encode_flat(self, text):
            raise raised

    with pytest.raises(expected):
        exact._count(Panics(), "text")


def test_importing_does_not_load_the_tokenizer():
    """The vocabulary is loaded when somebody counts, not on import."""
    code = "import sys, refold.tokenizers.exact; sys.exit('splintr' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- which encoding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o", "o200k"),
        ("gpt-4o-mini-2024-07-18", "o200k"),
        ("openai/gpt-4o", "o200k"),
        ("azure/my/gpt-4o-mini", "o200k"),
        ("openai:gpt-4.1", "o200k"),
        ("GPT-4.1-nano", "o200k"),
        ("gpt-4.5-preview", "o200k"),
        ("gpt-5", "o200k"),
        ("gpt-5.1-codex-max", "o200k"),
        ("gpt-oss-120b", "o200k"),
        ("openai.gpt-oss-20b-1:0", "o200k"),
        ("chatgpt-4o-latest", "o200k"),
        ("o1", "o200k"),
        ("o1-pro", "o200k"),
        ("o3-mini", "o200k"),
        ("o4-mini", "o200k"),
        ("ft:gpt-4o-mini:org::id", "o200k"),
        ("gpt-4", "cl100k"),
        ("gpt-4-turbo", "cl100k"),
        ("gpt-4-0613", "cl100k"),
        ("gpt-3.5-turbo", "cl100k"),
        ("gpt-35-turbo-16k", "cl100k"),
        ("text-embedding-3-large", "cl100k"),
        ("text-embedding-ada-002", "cl100k"),
        ("claude-sonnet-4-5", None),
        ("gemini-2.5-pro", None),
        ("o10", None),
        ("gpt-50", None),
        ("gpt-2", None),
        ("olmo-2", None),
        ("llama-o1", None),
        ("", None),
        ("\ud800" * 1_000, None),
    ],
)
def test_the_encoding_of_a_model(model, encoding):
    """Only where the tokenizer is public; everything else is None."""
    assert exact.encoding_for(model) == encoding
