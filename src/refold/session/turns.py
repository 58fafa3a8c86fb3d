"""Drive a whole turn: prepare, call the provider, recover once from a refusal for size, observe.

`call` is the program's own request: it takes the list to send and returns the response, or the chunks of one.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from refold.clients.http.sse import Event
from refold.core.messages.plain_values import to_plain_value
from refold.core.overflow.detect import find_block_refusal, is_thinking_refusal, overflow
from refold.errors import Overflow, RefoldError, StoreError, warn_caller
from refold.session.results import Observed

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


class _Chunks:
    """The chunks of one stream: what may be passed on yet, and the response that they make together."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.has_begun = False
        self._wire: Wire | None = None
        self._state: dict[str, Any] = {}

    def read_refusal(self, chunk: Any) -> dict[str, Any] | None:
        """Return a refusal that can be recovered and comes as a chunk, while no other chunk was passed on."""
        data = {} if self.has_begun else _to_fields(chunk)
        if data.get("type") not in _FAILED:
            return None
        is_known = overflow(data) is not None or find_block_refusal(data) or is_thinking_refusal(data)
        return data if is_known else None

    def add(self, chunk: Any) -> list[Any]:
        """Take a chunk, and return those that may be passed on."""
        data = _to_fields(chunk)
        self._wire = self._wire or _find_wire(data)
        if self._wire is not None:
            with suppress(Exception):  # a chunk in an odd shape is passed on, and adds nothing
                self._wire.gather(self._state, Event("", str(data.get("type") or "")), data)
        self.held.append(chunk)
        return [] if not self.has_begun and data.get("type") in _OPENING else self.release()

    def release(self) -> list[Any]:
        """Return the chunks that were held back."""
        held, self.held = self.held, []
        self.has_begun = self.has_begun or bool(held)
        return held

    def assemble(self) -> Any:
        """Return the response as it would come without streaming, as far as it came."""
        with suppress(Exception):
            return None if self._wire is None else self._wire.assemble(self._state)
        return None


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


def send(session: _Observer, call: Callable[[list[Any]], Any], messages: list[Any], *, say: bool) -> Any:
    """Call the provider, once more if it refuses for size, and observe what came."""
    again: Observed | None = None
    try:
        response = call(messages)
    except Exception as error:
        again = session.observe(error)
        if not again.send_again:
            raise
    if again is not None:  # outside the handler, so that the next error has not this one as its context
        return _send_again(session, call, again, say=say)
    try:
        observed = session.observe(response, say=say)
    except StoreError as error:
        _warn_unobserved(error)
        return response
    return _send_again(session, call, observed, say=say) if observed.send_again else response


def _warn_unobserved(error: StoreError) -> None:
    """Warn that a response was not taken in: it is paid for, so the caller gets it all the same."""
    warn_caller(f"the response was not observed: {error}")


def _send_again(
    session: _Observer, call: Callable[[list[Any]], Any], observed: Observed, *, say: bool
) -> Any:
    again: Observed | None = None
    try:
        response = call(observed.messages or [])
    except Exception as error:
        with suppress(RefoldError):  # the provider's own error tells more than ours
            again = session.observe(error)
        if not again:
            raise
    if again is not None:  # refused for another reason; each of them is recovered once
        return _send_again(session, call, again, say=say)
    with suppress(RefoldError):
        session.observe(response, say=say)
    return response


async def asend(
    session: _AsyncObserver, call: Callable[[list[Any]], Any], messages: list[Any], *, say: bool
) -> Any:
    """Do the same as `send` in an event loop."""
    again: Observed | None = None
    try:
        response = await _await_response(call, messages)
    except Exception as error:
        again = await session.observe(error)
        if not again.send_again:
            raise
    if again is not None:
        return await _asend_again(session, call, again, say=say)
    try:
        observed = await session.observe(response, say=say)
    except StoreError as error:
        _warn_unobserved(error)
        return response
    return await _asend_again(session, call, observed, say=say) if observed.send_again else response


async def _await_response(call: Callable[[list[Any]], Any], messages: list[Any]) -> Any:
    """Return what `call` returns; a plain function has its response at once, and nothing is awaited."""
    response = call(messages)
    return await response if hasattr(response, "__await__") else response


async def _asend_again(
    session: _AsyncObserver, call: Callable[[list[Any]], Any], observed: Observed, *, say: bool
) -> Any:
    again: Observed | None = None
    try:
        response = await _await_response(call, observed.messages or [])
    except Exception as error:
        with suppress(RefoldError):
            again = await session.observe(error)
        if not again:
            raise
    if again is not None:
        return await _asend_again(session, call, again, say=say)
    with suppress(RefoldError):
        await session.observe(response, say=say)
    return response


def stream(
    session: _Observer, call: Callable[[list[Any]], Any], messages: list[Any], *, say: bool
) -> Iterator[Any]:
    """Pass the chunks of a response on, and observe it at the end, also if the consumer stops early.

    The request is sent once more after a refusal for size, as long as no chunk has gone out.
    """
    begun = _begin(session, call, messages, is_last=False)
    if isinstance(begun, Observed):
        begun = _begin(session, call, begun.messages or [], is_last=True)
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


def _begin(
    session: _Observer, call: Callable[[list[Any]], Any], messages: list[Any], *, is_last: bool
) -> Any:
    """Open a stream up to its first words; return what was observed if the turn is to be sent again."""
    chunks, source = _Chunks(), None
    try:
        source = call(messages)
        rest = iter(source)
        for chunk in rest:
            refusal = None if is_last else chunks.read_refusal(chunk)
            if refusal and (observed := session.observe(refusal)).send_again:
                _close(source)
                return observed
            if first := chunks.add(chunk):
                return _Begun(source, rest, chunks, first)
    except Exception as error:
        _close(source)
        with suppress(Overflow):  # the provider's own error tells more
            observed = session.observe(error)
            if observed.send_again and not is_last:
                return observed
        raise
    except BaseException:  # stopped by the user: no connection stays open
        _close(source)
        raise
    return _Begun(source, (), chunks, chunks.release())


async def astream(
    session: _AsyncObserver, call: Callable[[list[Any]], Any], messages: list[Any], *, say: bool
) -> AsyncGenerator[Any, None]:
    """Do the same as `stream` in an event loop; `call` may return the chunks or an awaitable of them."""
    begun = await _abegin(session, call, messages, is_last=False)
    if isinstance(begun, Observed):
        begun = await _abegin(session, call, begun.messages or [], is_last=True)
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


async def _abegin(
    session: _AsyncObserver, call: Callable[[list[Any]], Any], messages: list[Any], *, is_last: bool
) -> Any:
    """Do the same as `_begin` in an event loop."""
    chunks, source = _Chunks(), None
    try:
        source = call(messages)
        source = await source if hasattr(source, "__await__") else source
        rest = aiter(source)
        async for chunk in rest:
            refusal = None if is_last else chunks.read_refusal(chunk)
            if refusal and (observed := await session.observe(refusal)).send_again:
                await _aclose(source)
                return observed
            if first := chunks.add(chunk):
                return _Begun(source, rest, chunks, first)
    except Exception as error:
        await _aclose(source)
        with suppress(Overflow):
            observed = await session.observe(error)
            if observed.send_again and not is_last:
                return observed
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
