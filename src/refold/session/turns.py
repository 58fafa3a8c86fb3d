"""Drive a whole turn: prepare, call the provider, recover once from a refusal for size, observe.

`call` is the program's own request: it takes the view to send and returns the response, or the chunks of one.
The view has the messages and the origin of each, so that an adapter can send a framework's own objects.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from inspect import iscoroutine
from typing import Any, NoReturn, Protocol, TypeAlias

from refold.errors import Overflow, RefoldError, StoreError, warn_caller
from refold.session.chunks import ChunkReader, Chunks, ProviderChunks
from refold.session.results import Observed, Ready

View: TypeAlias = Ready | Observed
"""What is to be sent: prepared at first, observed after a refusal."""
Call: TypeAlias = Callable[[View], Any]
Read: TypeAlias = Callable[[Any], Any]


class _Observer(Protocol):
    """A session, as far as a turn needs it."""

    def observe(self, answer: Any, *, say: bool = False) -> Observed:
        """Take in a response or an error."""
        ...


class _AsyncObserver(Protocol):
    """The same in an event loop."""

    async def observe(self, answer: Any, *, say: bool = False) -> Observed:
        """Take in a response or an error."""
        ...


@dataclass(frozen=True, slots=True)
class _Begun:
    """A stream whose first chunks may be passed on."""

    source: Any
    """What `call` returned; closed at the end."""
    rest: Any
    """An iterator of the chunks that are still to come."""
    chunks: Chunks
    first: list[Any]


def send(session: _Observer, call: Call, view: View, *, say: bool, read: Read | None = None) -> Any:
    """Call the provider, once more if it refuses for size, and observe what came.

    read   the answer in a framework's response, where the session cannot find it by itself
    """
    again: Observed | None = None
    try:
        response = call(view)
    except Exception as error:
        again = _observe_error(session, error)
        if not again:
            raise
    if again is not None:  # outside the handler, so that the next error has not this one as its context
        return _send_again(session, call, again, say=say, read=read)
    if iscoroutine(response):
        response.close()
        raise RefoldError("call is asynchronous: open the session with refold.aopen, and await send")
    try:
        observed = session.observe(read(response) if read else response, say=say)
    except StoreError as error:
        _warn_unobserved(error)
        return response
    return _send_again(session, call, observed, say=say, read=read) if observed.send_again else response


def _warn_unobserved(error: StoreError) -> None:
    """Warn that a response was not taken in: it is paid for, so the caller gets it all the same."""
    warn_caller(f"the response was not observed: {error}")


def _observe_error(session: _Observer, error: Exception) -> Observed | None:
    """Return the meaning of an error; None if the session cannot take it in.

    A second refusal of the turn is raised as the provider's own error, which tells more than ours.
    """
    try:
        return session.observe(error)
    except Overflow as overflow:
        _raise_refused(error, overflow)
    except RefoldError:
        return None


def _raise_refused(error: Exception, overflow: Overflow) -> NoReturn:
    """Raise a provider's refusal with our own error as its cause, and its former cause behind that."""
    overflow.__cause__ = error.__cause__
    raise error from overflow


def _send_again(session: _Observer, call: Call, view: View, *, say: bool, read: Read | None) -> Any:
    response = open_source(session, call, view)
    with suppress(RefoldError):
        session.observe(read(response) if read else response, say=say)
    return response


def open_source(session: _Observer, call: Call, view: View) -> Any:
    """Return what `call` gives, after a refusal for size what a second call gives; it is not observed.

    Each reason for a refusal is recovered once.
    """
    while True:
        try:
            return call(view)
        except Exception as error:
            again = _observe_error(session, error)
            if not again:
                raise
        view = again  # outside the handler, so that the next error has not this one as its context


async def aopen_source(session: _AsyncObserver, call: Call, view: View) -> Any:
    """Do the same as `open_source` in an event loop."""
    while True:
        try:
            return await _await_response(call, view)
        except Exception as error:
            again = await _aobserve_error(session, error)
            if not again:
                raise
        view = again


async def asend(
    session: _AsyncObserver, call: Call, view: View, *, say: bool, read: Read | None = None
) -> Any:
    """Do the same as `send` in an event loop."""
    again: Observed | None = None
    try:
        response = await _await_response(call, view)
    except Exception as error:
        again = await _aobserve_error(session, error)
        if not again:
            raise
    if again is not None:
        return await _asend_again(session, call, again, say=say, read=read)
    try:
        observed = await session.observe(read(response) if read else response, say=say)
    except StoreError as error:
        _warn_unobserved(error)
        return response
    return (
        await _asend_again(session, call, observed, say=say, read=read) if observed.send_again else response
    )


async def _await_response(call: Call, view: View) -> Any:
    """Return what `call` returns; a plain function has its response at once, and nothing is awaited."""
    response = call(view)
    return await response if hasattr(response, "__await__") else response


async def _aobserve_error(session: _AsyncObserver, error: Exception) -> Observed | None:
    """Do the same as `_observe_error` in an event loop."""
    try:
        return await session.observe(error)
    except Overflow as overflow:
        _raise_refused(error, overflow)
    except RefoldError:
        return None


async def _asend_again(
    session: _AsyncObserver, call: Call, view: View, *, say: bool, read: Read | None
) -> Any:
    response = await aopen_source(session, call, view)
    with suppress(RefoldError):
        await session.observe(read(response) if read else response, say=say)
    return response


def stream(
    session: _Observer,
    call: Call,
    view: View,
    *,
    say: bool,
    reader: Callable[[], ChunkReader] = ProviderChunks,
) -> Iterator[Any]:
    """Pass the chunks of a response on, and observe it at the end, also if the consumer stops early.

    The request is sent once more after a refusal for size, as long as no chunk has gone out.
    """
    begun = _begin(session, call, view, Chunks(reader()), is_last=False)
    if isinstance(begun, Observed):
        begun = _begin(session, call, begun, Chunks(reader()), is_last=True)
    chunks, has_failed = begun.chunks, True
    try:
        yield from begun.first
        for chunk in begun.rest:
            yield from chunks.add(chunk)
        has_failed = False
    except GeneratorExit:  # the consumer has what it wants
        has_failed = False
        raise
    finally:
        _close(begun.source)
        with suppress(RefoldError):  # the words are with the consumer; the next turn tells the trouble
            session.observe(chunks.assemble(), say=say and not has_failed)


def _begin(session: _Observer, call: Call, view: View, chunks: Chunks, *, is_last: bool) -> Any:
    """Open a stream up to its first words; return what was observed if the turn is to be sent again."""
    source = None
    try:
        source = _find_chunks(call(view))
        rest = iter(source)
        for chunk in rest:
            refusal = None if is_last else chunks.find_refusal(chunk)
            if refusal is not None and (observed := session.observe(refusal)).send_again:
                _close(source)
                return observed
            if first := chunks.add(chunk):
                return _Begun(source, rest, chunks, first)
    except Exception as error:
        _close(source)
        again = _observe_error(session, error)
        if again and not is_last:
            return again
        raise
    except BaseException:  # stopped by the user: no connection stays open
        _close(source)
        raise
    return _Begun(source, (), chunks, chunks.release())


async def astream(
    session: _AsyncObserver,
    call: Call,
    view: View,
    *,
    say: bool,
    reader: Callable[[], ChunkReader] = ProviderChunks,
) -> AsyncGenerator[Any, None]:
    """Do the same as `stream` in an event loop; `call` may return the chunks or an awaitable of them."""
    begun = await _abegin(session, call, view, Chunks(reader()), is_last=False)
    if isinstance(begun, Observed):
        begun = await _abegin(session, call, begun, Chunks(reader()), is_last=True)
    chunks, has_failed = begun.chunks, True
    try:
        for chunk in begun.first:
            yield chunk
        async for chunk in begun.rest:
            for passed in chunks.add(chunk):
                yield passed
        has_failed = False
    except GeneratorExit:
        has_failed = False
        raise
    finally:
        await _aclose(begun.source)
        with suppress(RefoldError):
            await session.observe(chunks.assemble(), say=say and not has_failed)


async def _abegin(session: _AsyncObserver, call: Call, view: View, chunks: Chunks, *, is_last: bool) -> Any:
    """Do the same as `_begin` in an event loop."""
    source = None
    try:
        source = call(view)
        source = _find_chunks(await source if hasattr(source, "__await__") else source)
        rest = aiter(source)
        async for chunk in rest:
            refusal = None if is_last else chunks.find_refusal(chunk)
            if refusal is not None and (observed := await session.observe(refusal)).send_again:
                await _aclose(source)
                return observed
            if first := chunks.add(chunk):
                return _Begun(source, rest, chunks, first)
    except Exception as error:
        await _aclose(source)
        again = await _aobserve_error(session, error)
        if again and not is_last:
            return again
        raise
    except BaseException:  # cancelled before the first words
        await _aclose(source)
        raise
    return _Begun(source, rest, chunks, chunks.release())


def _find_chunks(response: Any) -> Any:
    """Return the chunks of what `call` returned; boto3 gives them beside the head of the response."""
    return response.get("stream", response) if isinstance(response, dict) else response


def _close(source: Any) -> None:
    close = getattr(source, "close", None)
    if callable(close):
        with suppress(Exception):  # the stream is over for us; its own trouble is told to nobody
            close()


async def _aclose(source: Any) -> None:
    for name in ("aclose", "close"):
        close = getattr(source, name, None)
        if callable(close):
            with suppress(Exception):
                closing = close()
                if hasattr(closing, "__await__"):
                    await closing
            return
