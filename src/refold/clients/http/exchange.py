"""One question or one chat turn over one wire, without a network: yields requests, receives response parts.

    exchange = ask(wire, target, question)
    request = next(exchange)                    # send it, then
    exchange.send(Head(status=200, ...))        # pass the head of the response,
    exchange.send(b"data: ...")                 # its bytes as they come,
    exchange.send(b"")                          # and its end

After a part the exchange yields None for more, or another request (a model refused an optional parameter). It
returns the answer or raises `Failure`. A `Failure` of the network is thrown in: an answer that is complete by
then is still returned. Threads and event loops, questions and chats all read through here.
"""

import json
from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias, TypeVar

from refold.clients.chat import Json, Reply
from refold.clients.http.answers import to_answer, to_reply
from refold.clients.http.failures import Failure, explain_error, explain_refusal, find_unsupported
from refold.clients.http.sse import Event, SseParser
from refold.clients.http.stream_buffer import StreamBuffer
from refold.clients.http.wire import CALL_ID_STEM, Head, Request, Target, Turn, Wire, make_request
from refold.core.compaction.flow import Answer, Ask

Part: TypeAlias = Head | bytes | None
T = TypeVar("T")
Exchange: TypeAlias = Generator[Request | None, Part, T]
Listener: TypeAlias = Callable[[Event, Json], None]

MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Limit for the answer to a question: a hundred times the longest summary, framing included."""
MAX_REPLY_BYTES: Final = 64 * 1024 * 1024
"""Limit for a chat reply: a hundred thousand words, each in an event of about 600 bytes. Both limits only
stop a server that never ends; far above any real answer they cost nothing."""
MAX_REFUSAL_BYTES: Final = 64 * 1024
"""Bytes of a refusal that are read; servers put the message at its beginning."""


def ask(wire: Wire, target: Target, question: Ask | str) -> Exchange[Answer]:
    """Ask a question."""
    asked = question if isinstance(question, Ask) else Ask(question)
    prefix = asked.prefix
    # Only the model that holds the conversation has it in its cache.
    is_appended = (
        prefix is not None
        and prefix.format == wire.format
        and prefix.is_with(target.provider or "", target.model)
    )

    def build(refused: frozenset[str]) -> Request:
        body = wire.ask_body(asked, target.model, refused)
        if prefix is not None and is_appended:
            body = wire.append_question(body, prefix, asked.closing)
        return make_request(wire, target, body)

    response, is_streamed = yield from _respond(
        wire, target, build, optional=wire.ask_optional, max_bytes=MAX_ANSWER_BYTES
    )
    reading = wire.read(response, CALL_ID_STEM)
    if reading is None:
        raise _no_reading(is_streamed=is_streamed)
    return to_answer(response, reading, provider=target.provider or target.base, prefixed=is_appended)


def chat(
    wire: Wire, target: Target, turn: Turn, buffer: StreamBuffer, on_tools_refused: Callable[[], None]
) -> Exchange[Reply]:
    """Ask for the reply of a chat turn; its text goes into the buffer as it comes."""

    def build(refused: frozenset[str]) -> Request:
        if "tools" in refused:
            on_tools_refused()
        return make_request(wire, target, wire.chat_body(turn, target.model, refused))

    response, is_streamed = yield from _respond(
        wire,
        target,
        build,
        optional=wire.chat_optional,
        max_bytes=MAX_REPLY_BYTES,
        listener=lambda event, data: buffer.add(wire.delta(event, data)),
    )
    buffer.flush()
    # Ids repeat if they only count the calls of one reply; the length of the history tells replies apart.
    reading = wire.read(response, f"{CALL_ID_STEM}{len(turn.messages)}-")
    if reading is None:
        raise _no_reading(is_streamed=is_streamed)
    reply = to_reply(wire, response, reading)
    if not buffer.text:  # the response came in one piece
        buffer.add_whole(reply.text, reply.reasoning)
    return reply


def step(exchange: Exchange[T], part: Part) -> Request | T | None:
    """Pass a part; return the next thing: a request, the answer, or None for more parts."""
    try:
        return exchange.send(part)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # what an exchange returns


def fail(exchange: Exchange[T], failure: Failure) -> Request | T | None:
    """Tell the exchange that the network failed; return the answer if it was complete, else raise."""
    try:
        return exchange.throw(failure)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # what an exchange returns


def _no_reading(*, is_streamed: bool) -> Failure:
    return Failure("gave nothing in its answer" if is_streamed else "answered in an unknown shape")


def _respond(
    wire: Wire,
    target: Target,
    build: Callable[[frozenset[str]], Request],
    *,
    optional: tuple[str, ...],
    max_bytes: int,
    listener: Listener = lambda _event, _data: None,
) -> Exchange[tuple[Json, bool]]:
    """Return the whole response, and whether it was streamed; `build` leaves refused parameters out."""
    refused: frozenset[str] = frozenset()
    while True:
        head = yield build(refused)
        assert isinstance(head, Head)  # noqa: S101  # the driver's side of the contract
        if head.status == 200:
            break
        body = yield from _read_refusal()
        # These two states mean a bad request; others do not depend on parameters.
        unsupported = find_unsupported(body, optional) if head.status in (400, 422) else frozenset()
        failure = explain_refusal(
            head.status, body, provider=target.provider, wait=head.retry_after, key=target.key_variable
        )
        if not unsupported - refused or failure.cause is not None:
            raise failure
        refused |= unsupported
    kind = head.content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return (yield from _read_stream(wire, target, max_bytes, listener)), True
    if kind == "application/json" or kind.endswith("+json"):
        return (yield from _read_json(wire, target, max_bytes, listener)), False
    raise Failure(f"answered with {kind[:60] or 'no content type'}, not as a model: check the address")


def _read_refusal() -> Generator[None, Part, bytes]:
    """Return the beginning of a refusal, as far as it came."""
    read = bytearray()
    while len(read) < MAX_REFUSAL_BYTES:
        try:
            chunk = yield
        except Failure:
            break
        if not isinstance(chunk, bytes) or not chunk:
            break
        read += chunk
    return bytes(read[:MAX_REFUSAL_BYTES])


def _read_json(wire: Wire, target: Target, max_bytes: int, listener: Listener) -> Generator[None, Part, Json]:
    """Return the response of a server that does not stream, or that sends its events as one list."""
    read = bytearray()
    while chunk := (yield):
        assert isinstance(chunk, bytes)  # noqa: S101  # the driver's side of the contract
        read += chunk
        _check_size(len(read), max_bytes)
    value = _parse(bytes(read))
    if not isinstance(value, list):
        return _check_error(value, target)
    state: Json = {}
    for event in value:
        data = _check_error(event, target)
        listener(Event(""), data)
        wire.gather(state, Event(""), data)
    return wire.assemble(state) if state else state


def _read_stream(
    wire: Wire, target: Target, max_bytes: int, listener: Listener
) -> Generator[None, Part, Json]:
    """Return the response that the events of a stream make up."""
    parser, state, size, ended = SseParser(), Json(), 0, False
    while not ended:
        try:
            chunk = yield
        except Failure:
            if wire.is_complete(state):
                break
            raise
        assert isinstance(chunk, bytes)  # noqa: S101  # the driver's side of the contract
        size += len(chunk)
        _check_size(size, max_bytes)
        for event in parser.feed(chunk) if chunk else parser.close():
            if event.data.strip() == "[DONE]":
                ended = True
                break
            data = _check_error(_parse(event.data), target, is_error=event.name == "error")
            listener(event, data)
            ended = wire.gather(state, event, data)
            if ended:
                break
        if not chunk:
            break
    if not state:
        raise Failure("gave an empty stream: some servers do so where a question is too large")
    if not ended and not wire.is_complete(state):
        raise Failure("ended its stream before the answer was complete")
    return wire.assemble(state)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise Failure(f"answered with more than {max_bytes:,} bytes")


def _parse(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Failure("answered with text that is not JSON: check the address") from None


def _check_error(value: Any, target: Target, *, is_error: bool = False) -> Json:
    """Return the value if it is an object and reports no error."""
    if not isinstance(value, dict):
        raise Failure("answered in an unknown shape")
    response = value.get("response")
    inner = response.get("error") if isinstance(response, dict) else None
    if is_error or value.get("error") or inner or value.get("type") == "error":
        raise explain_error({"error": inner} if inner else value, target.provider)
    return value
