"""A store that is left alone while it fails: one call at a time tries it, and no request waits for it.

A database that is gone makes each call wait for some seconds. Every conversation would find that out by
itself, so that all of them share one breaker.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from refold.errors import Conflict, LogCorrupt, LogTooNew, StoreBusy, StoreError, StoreReplaced
from refold.stores import Head, Store

T = TypeVar("T")
_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 30.0
"""Seconds after which a failed store is tried again: at first soon, then more and more rarely."""
_IS_THERE: Final = (Conflict, LogCorrupt, LogTooNew, StoreReplaced)
"""Errors that do not tell that a store is gone: they are about one session, or it is to be opened again."""
_OWN: Final = frozenset({"address", "close"})
"""What needs no answer of the store."""
_WRITES: Final = frozenset({"append", "delete", "put_note", "claim", "release", "offer", "take"})


class StoreIsDown(StoreError):
    """The store failed a moment ago and was not asked."""


class StoreBreaker:
    """Says whether the store may be asked now: while it fails, requests do not wait for it."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._until = 0.0
        self._is_tried = False
        self._is_busy = False
        """True if it failed because others held it: that it can be read says nothing then."""
        self.has_returned = False
        """True since it has answered again, until what waited for it is stored."""

    @property
    def is_open(self) -> bool:
        """True since the store has failed, until it answers again."""
        return self._seconds > 0

    def refuses(self, now: float) -> bool:
        """True while the store is left alone."""
        return self.is_open and (self._is_tried or now < self._until)

    def begin_call(self, now: float) -> None:
        """Begin a call of the store; raises `StoreIsDown` while it is left alone."""
        if self.refuses(now):
            raise StoreIsDown("the store failed a moment ago; it is tried again soon")
        self._is_tried = self.is_open

    def note_failure(self, now: float, *, is_busy: bool = False) -> None:
        """Note that the store has failed; calls that began beside the one that found it out tell no more."""
        if now >= self._until:
            self._seconds = min(max(_FIRST_SECONDS, self._seconds * 2), _LONGEST_SECONDS)
            self._until = now + self._seconds
        self._is_tried, self._is_busy = False, is_busy

    def note_success(self, *, has_written: bool = False) -> None:
        """Note that the store has answered."""
        self._is_tried = False
        if has_written or not self._is_busy:
            self.has_returned = self.has_returned or self.is_open
            self._seconds, self._until, self._is_busy = 0.0, 0.0, False

    def watch(self, call: Callable[[], T], *, writes: bool = False) -> T:
        """Make a call of the store, unless it is left alone, and note how it ended."""
        self.begin_call(time.monotonic())
        try:
            result = call()
        except _IS_THERE:
            self.note_success(has_written=writes)
            raise
        except BaseException as error:
            self.note_failure(time.monotonic(), is_busy=isinstance(error, StoreBusy))
            raise
        self.note_success(has_written=writes)
        return result


class WatchedStore:
    """A store whose calls go through a breaker; it has all names of the store itself."""

    def __init__(self, store: Store, breaker: StoreBreaker) -> None:
        self._store, self._breaker = store, breaker

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if name in _OWN or not callable(value):
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            result = self._breaker.watch(lambda: value(*arguments, **options), writes=name in _WRITES)
            return self._iterate(result) if isinstance(result, Iterator) else result

        return call

    def append_at_once(self, *arguments: Any, **options: Any) -> Head | None:
        """Append if that waits for nobody; None if it might, or if the store is left alone."""
        write = getattr(type(self._store), "append_at_once", None)
        is_own = "append" not in getattr(self._store, "__dict__", ())
        if write is None or not is_own or self._breaker.is_open:
            return None
        head: Head | None = write(self._store, *arguments, **options)
        return head

    def _iterate(self, entries: Iterator[T]) -> Iterator[T]:
        """Yield what a call gives by and by: the store is read with each page."""
        missing = object()
        while (entry := self._breaker.watch(lambda: next(entries, missing))) is not missing:
            yield entry  # type: ignore[misc]  # `missing` has ended the loop
