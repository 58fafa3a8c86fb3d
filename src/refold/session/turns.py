"""Drive a whole turn: prepare, call the provider, recover once from a refusal for size, observe.

`call` is the program's own request: it takes the view to send and returns the response, or the chunks of one.
The view has the messages and the origin of each, so that an adapter can send a framework's own objects.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias

from refold.clients.http.sse import Event
from refold.core.messages.plain_values import to_plain_value
from refold.core.overflow.detect import find_block_refusal, is_thinking_refusal, overflow
from refold.errors import Overflow, RefoldError, StoreError, warn_caller
from refold.session.results import Observed, Ready

if TYPE_CHECKING:
    from refold.clients.http.wire import Wire

_OPENING: Final = frozenset(
    {"message_start", "ping", "response.created", "response.in_progress", "response.queued"}
)
"""Events before the first words. They are held back, so that a refusal right behind them can be recovered."""
_FAILED: Final = frozenset({"error", "response.failed", "response.error"})
_PROVIDERS: Final = {
    "choices": "openai_chat",
    "candidates": "gemini",
    "usageMetadata": "gemini",
    "response": "openai_responses",
}
"""Fields that only the chunks of one provider have."""
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


class ChunkReader(Protocol):
    """What a session needs to know of the chunks of one stream."""

    def find_refusal(self, chunk: Any) -> Any | None:
        """Return what `observe` is to be given if the chunk is an error that may be recovered."""
        ...

    def is_opening(self, chunk: Any) -> bool:
        """True if the chunk has no words yet: it is held back, since a refusal may follow."""
        ...

    def add(self, chunk: Any) -> None:
        """Take in a chunk."""
        ...

    def assemble(self) -> Any:
        """Return the response as it would come without streaming, as far as it came."""
        ...


class ProviderChunks:
    """Reads the chunks of the providers' own wires."""

    def __init__(self) -> None:
        self._wire: Wire | None = None
        self._state: dict[str, Any] = {}

    def find_refusal(self, chunk: Any) -> Any | None:
        """Return a chunk that is a refusal which can be recovered."""
        data = _to_fields(chunk)
        if data.get("type") not in _FAILED:
            return None
        is_known = overflow(data) is not None or find_block_refusal(data) or is_thinking_refusal(data)
        return data if is_known else None

    def is_opening(self, chunk: Any) -> bool:
        """True for the events before the first words."""
        return _to_fields(chunk).get("type") in _OPENING

    def add(self, chunk: Any) -> None:
        """Gather what a chunk says."""
        data = _to_fields(chunk)
        self._wire = self._wire or _find_wire(data)
        if self._wire is not None:
            with suppress(Exception):  # a chunk in an odd shape is passed on, and adds nothing
                self._wire.gather(self._state, Event("", str(data.get("type") or "")), data)

    def assemble(self) -> Any:
        """Return the provider's response as far as it came."""
        with suppress(Exception):
            return None if self._wire is None else self._wire.assemble(self._state)
        return None


class _Chunks:
    """The chunks of one stream: those that are held back, and the response that they make together."""

    def __init__(self, reader: ChunkReader) -> None:
        self.held: list[Any] = []
        self.has_begun = False
        self._reader = reader
        self.assemble = reader.assemble

    def find_refusal(self, chunk: Any) -> Any | None:
        """Return a refusal that comes as a chunk, while no other chunk was passed on."""
        return None if self.has_begun else self._reader.find_refusal(chunk)

    def add(self, chunk: Any) -> list[Any]:
        """Take a chunk, and return those that may be passed on."""
        self._reader.add(chunk)
        self.held.append(chunk)
        return [] if not self.has_begun and self._reader.is_opening(chunk) else self.release()

    def release(self) -> list[Any]:
        """Return the chunks that were held back."""
        held, self.held = self.held, []
        self.has_begun = self.has_begun or bool(held)
        return held


@dataclass(frozen=True, slots=True)
class _Begun:
    """A stream whose first chunks may be passed on."""

    source: Any
    """What `call` returned; closed at the end."""
    rest: Any
    """An iterator of the chunks that are still to come."""
    chunks: _Chunks
    first: list[Any]


def _to_fields(chunk: Any) -> dict[str, Any]:
    plain = to_plain_value(chunk, {}, {})
    return plain if isinstance(plain, dict) else {}


def _find_wire(data: dict[str, Any]) -> "Wire | None":
    """Return the wire that a chunk belongs to; None if the chunk does not show it."""
    kind = str(data.get("type") or "")
    module = next((name for key, name in _PROVIDERS.items() if key in data), "")
    if kind.startswith("response."):
        module = "openai_responses"
    elif kind.startswith(("message_", "content_block_")):
        module = "anthropic"
    if not module:
        return None
    wire: Wire = import_module(f"refold.clients.providers.{module}").WIRE
    return wire


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
    again: Observed | None = None
    try:
        response = call(view)
    except Exception as error:
        again = _observe_error(session, error)
        if not again:
            raise
    if again is not None:  # refused for another reason; each of them is recovered once
        return _send_again(session, call, again, say=say, read=read)
    with suppress(RefoldError):
        session.observe(read(response) if read else response, say=say)
    return response


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
    again: Observed | None = None
    try:
        response = await _await_response(call, view)
    except Exception as error:
        again = await _aobserve_error(session, error)
        if not again:
            raise
    if again is not None:
        return await _asend_again(session, call, again, say=say, read=read)
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
    begun = _begin(session, call, view, _Chunks(reader()), is_last=False)
    if isinstance(begun, Observed):
        begun = _begin(session, call, begun, _Chunks(reader()), is_last=True)
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


def _begin(session: _Observer, call: Call, view: View, chunks: _Chunks, *, is_last: bool) -> Any:
    """Open a stream up to its first words; return what was observed if the turn is to be sent again."""
    source = None
    try:
        source = call(view)
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
    begun = await _abegin(session, call, view, _Chunks(reader()), is_last=False)
    if isinstance(begun, Observed):
        begun = await _abegin(session, call, begun, _Chunks(reader()), is_last=True)
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


async def _abegin(session: _AsyncObserver, call: Call, view: View, chunks: _Chunks, *, is_last: bool) -> Any:
    """Do the same as `_begin` in an event loop."""
    source = None
    try:
        source = call(view)
        source = await source if hasattr(source, "__await__") else source
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
