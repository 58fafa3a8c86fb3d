"""One question over one wire, without a network: yields requests, receives the parts of their responses.

    exchange = ask(wire, target, question)
    request = next(exchange)                    # send it, then
    exchange.send(Head(status=200, ...))        # say how the response begins,
    exchange.send(b"data: ...")                 # hand its bytes over as they come,
    exchange.send(b"")                          # and say that it has ended

After a part it yields None for more, or another request (a model refused a parameter that can be spared).
It returns the `Answer` or raises `Trouble`. A `Trouble` that the network met is thrown in: an answer that is
complete by then is still given. Every wire is read through here, for threads and event loops alike.
"""

import json
from collections.abc import Generator
from typing import Any, Final, Literal, TypeAlias

from refold.clients.sse import Event, Frames
from refold.clients.troubles import Trouble, refusal, reported, unsupported
from refold.clients.wires import Body, Head, Request, Target, Wire, answer, request
from refold.core.flow import Answer, Ask

Part: TypeAlias = Head | bytes | None
Exchange: TypeAlias = Generator[Request | None, Part, Answer]

MOST_BYTES: Final = 8 * 1024 * 1024
"""What an answer may have: a hundred times the longest summary, framing included."""
REFUSAL_BYTES: Final = 64 * 1024
"""What is read of a refusal; an error speaks at its beginning."""
_DONE: Final = "[DONE]"


def ask(wire: Wire, target: Target, question: Ask | str) -> Exchange:
    """Ask a question."""
    question = question if isinstance(question, Ask) else Ask(question)
    without: frozenset[str] = frozenset()
    while True:
        head = yield request(wire, target, question, without)
        assert isinstance(head, Head)  # noqa: S101  # the driver's side of the contract
        if head.status == 200:
            break
        body = yield from _refused()
        refused = unsupported(body, wire.spare) - without if head.status in (400, 422) else frozenset()
        trouble = refusal(
            head.status, body, provider=target.provider, wait=head.wait, key=target.key_variable
        )
        if not refused or trouble.cause is not None:
            raise trouble
        without |= refused
    kind = _kind(head.content_type)
    whole = yield from _streamed(wire, target) if kind == "events" else _unstreamed(wire, target)
    said = wire.said(whole)
    if said is None:
        raise Trouble("gave nothing in its answer" if kind == "events" else "answered in an unknown shape")
    return answer(whole, said)


def step(exchange: Exchange, part: Part) -> Request | Answer | None:
    """Hand a part over; gives what comes next: a request, the answer, or None for more."""
    try:
        return exchange.send(part)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # an exchange returns an Answer


def broken(exchange: Exchange, trouble: Trouble) -> Request | Answer | None:
    """Say that the network failed; gives the answer where it was complete, else raises."""
    try:
        return exchange.throw(trouble)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # an exchange returns an Answer


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


def _unstreamed(wire: Wire, target: Target) -> Generator[None, Part, Body]:
    """The body of a server that does not stream, or sends its events as one list."""
    read = bytearray()
    while chunk := (yield):
        assert isinstance(chunk, bytes)  # noqa: S101  # the driver's side of the contract
        read += _bounded(chunk, len(read))
    value = _json(bytes(read))
    if not isinstance(value, list):
        return _sound(value, target)
    body: Body = {}
    for each in value:
        wire.gather(body, Event(""), _sound(each, target))
    return body


def _streamed(wire: Wire, target: Target) -> Generator[None, Part, Body]:
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
        read += len(_bounded(chunk, read))
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


def _bounded(chunk: bytes, read: int) -> bytes:
    if read + len(chunk) > MOST_BYTES:
        raise Trouble(f"answered with more than {MOST_BYTES:,} bytes")
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
