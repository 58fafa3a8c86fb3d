"""Every error that refold raises; wrong use in code is a TypeError, as everywhere in Python.

RefoldError
  WindowUnknown         no window for the model and none given
  DoesNotFit            over the room after every stage
  InvalidConversation   broken beyond repair
  FormatError           not the format of that provider (also a ValueError)
  AnswerFailed          a model did not answer
  Overflow              the provider refused twice
  StoreError
    SessionNotFound     (also a KeyError)
    Conflict            somebody else appended first
    LogCorrupt          a hash does not match
    LogTooNew           written by a newer version
    StoreBusy           others held the store for too long
    StoreFull           no room on the disk
    StoreReplaced       it was deleted or replaced while it was open
    StoreUnsure         the answer was lost: it may or may not be stored

Ordinary outcomes ("nothing to compact", "not smaller", "still over") are fields of an Outcome. Each error
carries its facts as attributes, so that nobody has to parse a message.
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


class RefoldError(Exception):
    """The base of all errors that refold raises on purpose."""


class RefoldWarning(UserWarning):
    """A problem that did not stop the work."""


_BETWEEN = frozenset({"refold", "asyncio", "concurrent", "contextlib", "functools", "threading"})
"""Packages whose lines are not the caller's: this one, and those of Python that wrap or run functions."""


def warn_caller(text: str) -> None:
    """Warn, and name the line outside of this package that led here, however many calls lie between."""
    level, frame = 1, sys._getframe()  # noqa: SLF001  # inspect would be imported by every program
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, RefoldWarning, stacklevel=level)


def install_hint(extra: str) -> str:
    """Return how an extra is installed; until there is a release, from a copy of the repository."""
    return f"pip install '.[{extra}]' in a copy of the repository"


class WindowUnknown(RefoldError):
    """No context window is known for a model and the policy forbids a default."""

    def __init__(self, model: str | None, hint: str = "") -> None:
        super().__init__(f"no window is known for model {model!r}{hint}: pass window=")
        self.model = model


class DoesNotFit(RefoldError):
    """The conversation is larger than its room after every stage."""

    def __init__(self, tokens: int, room: int, breakdown: Mapping[str, int]) -> None:
        listed = {name: size for name, size in breakdown.items() if name != "unlisted"}
        parts = ", ".join(f"{name} {size:,}" for name, size in listed.items() if size)
        more = tokens - sum(listed.values())
        parts += f", and {more:,} more by the provider's count" if more > 0 else ""
        super().__init__(f"{tokens:,} tokens do not fit into {room:,} ({parts}): shorten the largest part")
        self.tokens = tokens
        self.room = room
        self.breakdown = dict(breakdown)


class InvalidConversation(RefoldError):
    """A conversation is broken beyond repair."""

    def __init__(self, message: str, *, index: int | None = None, rule: str = "") -> None:
        super().__init__(message)
        self.index = index
        self.rule = rule


class FormatError(RefoldError, ValueError):
    """A value does not have the format of the provider it was read as."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class AnswerFailed(RefoldError):
    """A model did not answer."""

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        cause: BaseException | None = None,
        partial: object | None = None,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.cause = cause
        self.partial: Any = partial
        """The part of a reply that had arrived (a `Reply` of a chat client); None if nothing had."""


class Overflow(RefoldError):
    """The provider refused the request for its size, and again after an emergency compaction."""

    def __init__(self, provider: str | None, limit: int | None, requested: int | None) -> None:
        asked = f"{requested:,} tokens" if requested else "the request"
        against = f"a limit of {limit:,}" if limit else "its limit"
        super().__init__(f"{provider or 'the provider'} refused {asked} against {against} twice")
        self.provider = provider
        self.limit = limit
        self.requested = requested


class StoreError(RefoldError):
    """A store could not do its work."""


class SessionNotFound(StoreError, KeyError):
    """No session has this name."""

    __str__ = StoreError.__str__  # that of a KeyError puts the message into quotes


class Conflict(StoreError):
    """Another writer appended first."""

    def __init__(self, expected: str | None, found: str | None) -> None:
        super().__init__(f"the session moved on from {expected} to {found}: read it again and retry")
        self.expected = expected
        self.found = found


class LogCorrupt(StoreError):
    """An entry's content does not match its name."""

    def __init__(self, message: str, *, entry: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.entry = entry
        self.line = line


class LogTooNew(StoreError):
    """A log was written by a newer version of refold."""


class StoreBusy(StoreError):
    """Others held the store for longer than the time limit; nothing was written."""


class StoreFull(StoreError):
    """The disk is full; nothing was written."""


class StoreReplaced(StoreError):
    """The store, or the session in it, was deleted or replaced since it was opened; open it again."""


class StoreUnsure(StoreError):
    """The answer to a write was lost: it may or may not be stored.

    Repeat the call on the same session: what is there already is not stored twice.
    """

    def __init__(self, message: str, *, settle: Callable[[], Any]) -> None:
        super().__init__(message)
        self.settle = settle
        """Asks the store what became of the write: the head that it left, or None if it was not stored."""


def describe_fault(error: BaseException) -> str:
    """Return the kind of an error and where it was raised, for a log: its message may quote a text."""
    from pathlib import Path
    from traceback import extract_tb

    frames = extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
