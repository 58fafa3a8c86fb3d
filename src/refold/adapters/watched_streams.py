"""Streams of the `openai` and `anthropic` clients: the client's own stream object, with a session behind it.

A stream stays the object that the client made. Only its iterator is another one: it passes the chunks on,
begins again after a refusal that comes before the first words, and observes the answer at the end.
"""

import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, Self, TypeAlias

from refold.session import turns
from refold.session.chunks import ProviderChunks
from refold.session.own_turn import AsyncOwnTurn, OwnTurn
from refold.session.results import Observed
from refold.session.turns import View

IsHidden: TypeAlias = Callable[[Any], bool]


class Stream(Protocol):
    """A stream of one of the clients, sync or async."""

    response: Any
    _iterator: Any
    close: Any


class AnswerChunks(ProviderChunks):
    """Gathers the usage of an answer and how it ended; of its words only the first, to know that it has any.

    Turning every chunk into plain values would cost more than passing it on.
    """

    def __init__(self) -> None:
        super().__init__()
        self._has_words = False

    def add(self, chunk: Any) -> None:
        """Gather what a chunk says, unless it only has more words."""
        if self._has_words and _is_piece(chunk):
            return
        super().add(chunk)
        self._has_words = self._has_words or _has_words(chunk)


def _is_piece(chunk: Any) -> bool:
    """True for a chunk with a piece of the answer and nothing else."""
    kind = getattr(chunk, "type", None)
    if kind == "content_block_delta":  # the words of a compaction are needed
        return getattr(getattr(chunk, "delta", None), "type", None) != "compaction_delta"
    if isinstance(kind, str) and kind.startswith("response."):
        return kind.endswith((".delta", ".added"))
    choices = getattr(chunk, "choices", None)
    if not choices or getattr(chunk, "usage", None) is not None:
        return False
    return all(getattr(choice, "finish_reason", None) is None for choice in choices)


def _has_words(chunk: Any) -> bool:
    kind = getattr(chunk, "type", None)
    if kind is not None:
        return kind == "response.output_text.delta" or bool(
            getattr(getattr(chunk, "delta", None), "text", None)
        )
    deltas = (getattr(choice, "delta", None) for choice in getattr(chunk, "choices", None) or ())
    return any(getattr(delta, "content", None) or getattr(delta, "tool_calls", None) for delta in deltas)


def is_usage_chunk(chunk: Any) -> bool:
    """True for the chunk at the end of a chat stream that has nothing but the usage."""
    return not getattr(chunk, "choices", True) and getattr(chunk, "usage", None) is not None


class Source:
    """The chunks of a stream as the client reads them, and how its response is closed.

    It does not know the stream itself, which would then be dropped by nobody but the garbage collector.
    """

    def __init__(self, stream: Any) -> None:
        self._iterator = stream._iterator  # noqa: SLF001  # neither client has another way in
        self.close, self.aclose = stream.response.close, stream.response.aclose

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterator)

    def __aiter__(self) -> Any:
        return aiter(self._iterator)


class _Opener:
    """Opens a stream for its session: at first it is open already, after a refusal it is another response."""

    def __init__(self, stream: Stream, reopen: Callable[[View], Any]) -> None:
        self._stream, self._reopen = weakref.ref(stream), reopen
        self._first = [Source(stream)]

    def open(self, view: View) -> Source:
        """Return the chunks of the stream."""
        return self._first.pop() if self._first else self._replace(self._reopen(view))

    async def aopen(self, view: View) -> Source:
        """Do the same in an event loop."""
        return self._first.pop() if self._first else self._replace(await self._reopen(view))

    def _replace(self, fresh: Any) -> Source:
        stream = self._stream()
        if stream is not None:
            stream.response = fresh.response  # the caller closes it with the stream
        return Source(fresh)


# -- sync ---------------------------------------------------------------------------------------------------


class _Observer:
    """A session for one stream. An answer whose stream was dropped waits for the next request.

    Python may drop a stream at any time, also while this thread holds the session's lock.
    """

    def __init__(self, session: OwnTurn, late: deque[Any]) -> None:
        self.is_in_use = False
        self._session, self._late = session, late

    def observe(self, answer: Any, *, say: bool = False) -> Observed:
        """Take in an answer or an error."""
        if self.is_in_use:
            return self._session.observe(answer, say=say)
        self._late.append(answer)
        return Observed(reason="observed with the next request")


class WatchedChunks:
    """The chunks of a stream that a session watches.

    late        gets the answers of streams that were dropped
    call        opens the stream with a view
    is_hidden   True for chunks that the caller did not ask for
    """

    def __init__(
        self,
        session: OwnTurn,
        late: deque[Any],
        call: Callable[[View], Any],
        view: View,
        is_hidden: IsHidden | None,
    ) -> None:
        self._observer, self._is_hidden = _Observer(session, late), is_hidden or (lambda _chunk: False)
        self._chunks: Any = turns.stream(self._observer, call, view, say=False, reader=AnswerChunks)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        self._observer.is_in_use = True
        try:
            chunk = next(self._chunks)
            while self._is_hidden(chunk):
                chunk = next(self._chunks)
            return chunk
        finally:
            self._observer.is_in_use = False

    def close(self) -> None:
        """Observe what came by now."""
        self._observer.is_in_use = True
        with suppress(ValueError):  # another thread is reading; it ends when the response is closed
            self._chunks.close()
        self._observer.is_in_use = False


def watch(
    stream: Stream,
    session: OwnTurn,
    late: deque[Any],
    reopen: Callable[[View], Any],
    view: View,
    *,
    is_hidden: IsHidden | None,
) -> None:
    """Let a session watch a stream that was just opened; `reopen` opens it again with another view."""
    watched = WatchedChunks(session, late, _Opener(stream, reopen).open, view, is_hidden)
    stream._iterator = watched  # noqa: SLF001
    stream.close = partial(_close, weakref.ref(stream), watched)


def _close(stream: "weakref.ref[Any]", watched: WatchedChunks) -> None:
    watched.close()
    alive = stream()
    if alive is not None:
        type(alive).close(alive)


# -- async --------------------------------------------------------------------------------------------------


class AsyncWatchedChunks:
    """The same in an event loop, which closes what is dropped by itself."""

    def __init__(
        self,
        session: AsyncOwnTurn,
        call: Callable[[View], Awaitable[Any]],
        view: View,
        is_hidden: IsHidden | None,
    ) -> None:
        self._is_hidden = is_hidden or (lambda _chunk: False)
        self._chunks = turns.astream(session, call, view, say=False, reader=AnswerChunks)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        chunk = await anext(self._chunks)
        while self._is_hidden(chunk):
            chunk = await anext(self._chunks)
        return chunk

    async def aclose(self) -> None:
        """Observe what came by now."""
        with suppress(RuntimeError):  # another task is reading; it ends when the response is closed
            await self._chunks.aclose()


def watch_async(
    stream: Stream,
    session: AsyncOwnTurn,
    reopen: Callable[[View], Awaitable[Any]],
    view: View,
    *,
    is_hidden: IsHidden | None,
) -> None:
    """Do the same as `watch` in an event loop."""
    watched = AsyncWatchedChunks(session, _Opener(stream, reopen).aopen, view, is_hidden)
    stream._iterator = watched  # noqa: SLF001
    stream.close = partial(_aclose, weakref.ref(stream), watched)


async def _aclose(stream: "weakref.ref[Any]", watched: AsyncWatchedChunks) -> None:
    await watched.aclose()
    alive = stream()
    if alive is not None:
        await type(alive).close(alive)
