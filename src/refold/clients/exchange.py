"""One question over one wire, without a network: yields requests, receives the parts of their responses.

    exchange = ask(wire, target, question)
    request = next(exchange)                    # send it, then
    exchange.send(Head(status=200, ...))        # say how the response begins,
    exchange.send(b"data: ...")                 # hand its bytes over as they come,
    exchange.send(b"")                          # and say that it has ended

After a part it yields None for more, or another request (a model refused a parameter that can be spared).
It returns the answer or raises `Trouble`. A `Trouble` that the network met is thrown in: an answer that is
complete by then is still given. Every wire is read through here, for threads and event loops alike, by those
who ask and by those who talk.
"""

import json
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, TypeVar

from refold.clients.sse import Event, Frames
from refold.clients.troubles import Trouble, refusal, reported, unsupported
from refold.clients.wires import Body, Gatherer, Head, Request, Target, Wire, answer, prefixed, request
from refold.core.compaction.flow import Answer, Ask

Part: TypeAlias = Head | bytes | None
T = TypeVar("T")
Exchange: TypeAlias = Generator[Request | None, Part, T]

MOST_BYTES: Final = 8 * 1024 * 1024
"""What an answer may have: a hundred times the longest summary, framing included."""
REFUSAL_BYTES: Final = 64 * 1024
"""What is read of a refusal; an error speaks at its beginning."""
_DONE: Final = "[DONE]"


def ask(wire: Wire, target: Target, question: Ask | str) -> Exchange[Answer]:
    """Ask a question."""
    asked = question if isinstance(question, Ask) else Ask(question)
    whole, streamed = yield from respond(wire, target, lambda without: request(wire, target, asked, without))
    said = wire.said(whole)
    if said is None:
        raise Trouble("gave nothing in its answer" if streamed else "answered in an unknown shape")
    provider = target.provider or target.base
    return replace(answer(whole, said), provider=provider, prefixed=prefixed(wire, target, asked))


def respond(
    wire: Gatherer,
    target: Target,
    build: Callable[[frozenset[str]], Request],
    *,
    most: int = MOST_BYTES,
) -> Exchange[tuple[Body, bool]]:
    """The whole body of a response, however it comes, and whether it was streamed.

    `build` makes the request, without the parameters that were refused.
    """
    without: frozenset[str] = frozenset()
    while True:
        head = yield build(without)
        assert isinstance(head, Head)  # noqa: S101  # the driver's side of the contract
        if head.status == 200:
            break
        read = yield from _refused()
        refused = unsupported(read, wire.spare) - without if head.status in (400, 422) else frozenset()
        trouble = refusal(
            head.status, read, provider=target.provider, wait=head.wait, key=target.key_variable
        )
        if not refused or trouble.cause is not None:
            raise trouble
        without |= refused
    streamed = _kind(head.content_type) == "events"
    reading = _streamed if streamed else _unstreamed
    return (yield from reading(wire, target, most)), streamed


def step(exchange: Exchange[T], part: Part) -> Request | T | None:
    """Hand a part over; gives what comes next: a request, the answer, or None for more."""
    try:
        return exchange.send(part)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # what an exchange returns


def broken(exchange: Exchange[T], trouble: Trouble) -> Request | T | None:
    """Say that the network failed; gives the answer where it was complete, else raises."""
    try:
        return exchange.throw(trouble)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # what an exchange returns


def _kind(content_type: str) -> Literal["events", "json"]:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return "events"
    if kind == "application/json" or kind.endswith("+json"):
        return "json"
    raise Trouble(f"answered with {kind[:60] or 'no content type'}, not as a model: check the address")


def _refused() -> Generator[None, Part, bytes]:
    """The beginning of a refusal, as far as it came."""
    read = bytearray()
    while len(read) < REFUSAL_BYTES:
        try:
            chunk = yield
        except Trouble:
            break
        if not isinstance(chunk, bytes) or not chunk:
            break
        read += chunk
    return bytes(read[:REFUSAL_BYTES])


def _unstreamed(wire: Gatherer, target: Target, most: int) -> Generator[None, Part, Body]:
    """The body of a server that does not stream, or sends its events as one list."""
    read = bytearray()
    while chunk := (yield):
        assert isinstance(chunk, bytes)  # noqa: S101  # the driver's side of the contract
        read += _bounded(chunk, len(read), most)
    value = _json(bytes(read))
    if not isinstance(value, list):
        return _sound(value, target)
    body: Body = {}
    for each in value:
        wire.gather(body, Event(""), _sound(each, target))
    return body


def _streamed(wire: Gatherer, target: Target, most: int) -> Generator[None, Part, Body]:
    """The body that events make up."""
    frames, body, read, ended = Frames(), Body(), 0, False
    while not ended:
        try:
            chunk = yield
        except Trouble:
            if wire.complete(body):
                break
            raise
        assert isinstance(chunk, bytes)  # noqa: S101  # the driver's side of the contract
        read += len(_bounded(chunk, read, most))
        for event in frames.feed(chunk) if chunk else frames.close():
            if event.data.strip() == _DONE:
                ended = True
                break
            data = _sound(_json(event.data), target, failed=event.name == "error")
            ended = wire.gather(body, event, data)
            if ended:
                break
        if not chunk:
            break
    if not body:
        raise Trouble("gave an empty stream: some servers do so where a question is too large")
    if not ended and not wire.complete(body):
        raise Trouble("ended its stream before the answer was complete")
    return body


def _bounded(chunk: bytes, read: int, most: int) -> bytes:
    if read + len(chunk) > most:
        raise Trouble(f"answered with more than {most:,} bytes")
    return chunk


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Trouble("answered with what is not JSON") from None


def _sound(value: Any, target: Target, *, failed: bool = False) -> Body:
    """The value, if it is an object and tells of no error."""
    if not isinstance(value, dict):
        raise Trouble("answered in an unknown shape")
    response = value.get("response")
    inner = response.get("error") if isinstance(response, dict) else None
    if failed or value.get("error") or inner or value.get("type") == "error":
        raise reported({"error": inner} if inner else value, target.provider)
    return value
