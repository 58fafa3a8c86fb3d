"""Every error carries its facts and says what to do next."""

import re
from pathlib import Path

import pytest

from refold import errors
from refold.errors import (
    AnswerFailed,
    Conflict,
    DoesNotFit,
    FormatError,
    InvalidConversation,
    LogCorrupt,
    LogTooNew,
    Overflow,
    RefoldError,
    RefoldWarning,
    SessionNotFound,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReplaced,
    StoreUnsure,
    WindowUnknown,
)

TREE = {
    WindowUnknown: (RefoldError,),
    DoesNotFit: (RefoldError,),
    InvalidConversation: (RefoldError,),
    FormatError: (RefoldError, ValueError),
    AnswerFailed: (RefoldError,),
    Overflow: (RefoldError,),
    StoreError: (RefoldError,),
    SessionNotFound: (StoreError, KeyError),
    Conflict: (StoreError,),
    LogCorrupt: (StoreError,),
    LogTooNew: (StoreError,),
    StoreBusy: (StoreError,),
    StoreFull: (StoreError,),
    StoreReplaced: (StoreError,),
    StoreUnsure: (StoreError,),
}


@pytest.mark.parametrize(("error", "parents"), TREE.items())
def test_the_tree_is_the_one_that_is_drawn(error, parents):
    """The house, errors."""
    assert error.__bases__ == parents
    assert error.__name__ in errors.__doc__


def test_the_tree_is_complete():
    found = {
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)
    }
    assert found == {*TREE, RefoldError, RefoldWarning}
    assert issubclass(RefoldWarning, UserWarning)


def test_an_unknown_window_names_the_model_and_the_way_out():
    error = WindowUnknown("gpt-99")
    assert error.model == "gpt-99"
    assert "'gpt-99'" in str(error)
    assert "window=" in str(error)


def test_what_does_not_fit_has_the_numbers_of_every_part():
    error = DoesNotFit(12_345, 8_000, {"system": 12_000, "history": 345, "tools": 0})
    assert (error.tokens, error.room) == (12_345, 8_000)
    assert error.breakdown == {"system": 12_000, "history": 345, "tools": 0}
    assert str(error) == (
        "12,345 tokens do not fit into 8,000 (system 12,000, history 345): shorten the largest part"
    )


def test_a_broken_conversation_has_its_place_and_rule():
    error = InvalidConversation("two calls share an id", index=3, rule="duplicate-call-id")
    assert (str(error), error.index, error.rule) == ("two calls share an id", 3, "duplicate-call-id")
    assert (InvalidConversation("x").index, InvalidConversation("x").rule) == (None, "")


def test_a_wrong_shape_has_the_path_to_the_field():
    error = FormatError("expected text", path="messages[3].content")
    assert (str(error), error.path) == ("messages[3].content: expected text", "messages[3].content")
    assert (str(FormatError("expected text")), FormatError("x").path) == ("expected text", "")


def test_a_model_that_did_not_answer_has_its_provider_and_cause():
    cause = TimeoutError("slow")
    error = AnswerFailed("no answer", provider="openai", cause=cause)
    assert (str(error), error.provider, error.cause) == ("no answer", "openai", cause)
    assert (AnswerFailed("x").provider, AnswerFailed("x").cause) == ("", None)


def test_a_refusal_for_size_has_its_numbers():
    error = Overflow("openai", 128_000, 150_000)
    assert (error.provider, error.limit, error.requested) == ("openai", 128_000, 150_000)
    assert str(error) == "openai refused 150,000 tokens against a limit of 128,000 twice"
    assert str(Overflow(None, None, None)) == "the provider refused the request against its limit twice"


def test_a_conflict_has_both_heads():
    error = Conflict("b2:1", "b2:2")
    assert (error.expected, error.found) == ("b2:1", "b2:2")
    assert "from b2:1 to b2:2" in str(error)


def test_a_corrupt_log_has_its_entry_and_line():
    error = LogCorrupt("the hash does not match", entry="b2:1", line=7)
    assert (str(error), error.entry, error.line) == ("the hash does not match", "b2:1", 7)
    assert (LogCorrupt("x").entry, LogCorrupt("x").line) == ("", None)


def test_an_unsure_write_can_be_settled():
    error = StoreUnsure("the answer was lost", settle=lambda: "a head")
    assert (str(error), error.settle()) == ("the answer was lost", "a head")


@pytest.mark.parametrize("page", ["src/refold", "docs", "README.md"])
def test_hints_install_from_a_copy_of_the_repository(page):
    """Nothing is published yet: a command that asks an index for the package fails."""
    root = Path(__file__).parents[1] / page
    files = [root] if root.is_file() else [*root.rglob("*.py"), *root.glob("*.md")]
    found = [
        f"{file.name}: {line}"
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(r"pip install [^`]*refold\[", line) and "after the first release" not in line
    ]
    assert found == []
    assert errors.install_hint("chat") == "pip install '.[chat]' in a copy of the repository"


_CACHED = """
from contextlib import contextmanager
from functools import cached_property
from refold.errors import warn_caller

class Adapter:
    @cached_property
    def sessions(self):
        warn_caller("a slower journal is used")

    @contextmanager
    def turn(self):
        self.sessions
        yield
"""


def test_a_warning_names_the_line_of_the_caller_behind_wrappers_of_python():
    """A cached property and a context manager are lines of Python's own library, and no callers."""
    package = {"__name__": "refold.adapters.example"}
    exec(_CACHED, package)
    with pytest.warns(RefoldWarning) as caught, package["Adapter"]().turn():
        pass
    assert [Path(warned.filename).name for warned in caught] == [Path(__file__).name]


def test_a_missing_session_is_told_without_quotes():
    """A KeyError shows the representation of its key."""
    assert str(SessionNotFound("there is no session 'x'")) == "there is no session 'x'"
