"""A model behind HTTP: answers questions (`Client`) and holds conversations (`ChatClient`) over one wire."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from refold.clients.chat import Delta, Json, Reply, RequestedCall
from refold.clients.http import exchange
from refold.clients.http.answers import partial_reply
from refold.clients.http.deadlines import REST_SECONDS, Deadlines
from refold.clients.http.failures import Failure
from refold.clients.http.stream_buffer import StreamBuffer
from refold.clients.http.sync_bridge import BackgroundCall, Cancelled
from refold.clients.http.transport import CHAT_ATTEMPTS, Transport
from refold.clients.http.wire import Target, Turn, Wire
from refold.core.compaction.flow import Answer, Ask
from refold.errors import AnswerFailed

GRACE_SECONDS: Final = 5.0
"""Seconds beyond the deadline that the loop may take to report a time-out. Only a loop that hangs needs
it; too short would report a slow machine as a hang."""
_LOGGER: Final = logging.getLogger("refold")


class HttpClient:
    """A model behind HTTP; several threads and event loops may use it."""

    has_deadline: ClassVar[bool] = True

    def __init__(
        self,
        *,
        name: str,
        wire: Wire,
        target: Target,
        deadlines: Deadlines,
        window: int | None,
        tools: bool = True,
    ) -> None:
        self.name = name
        self.window = window
        self.deadlines = deadlines
        self.target = target
        self.tools = tools
        self._wire = wire
        self._transport = Transport(name, target, deadlines)
        self._rests_until = 0.0
        self._last_timeout = ""
        self._streams: set[BackgroundCall[Delta, Reply]] = set()

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.target.model

    @property
    def provider(self) -> str:
        """The provider; empty if only an address is known."""
        return self.target.provider or ""

    @property
    def format(self) -> str:
        """The shape of its messages."""
        return self._wire.format

    def __repr__(self) -> str:
        return f"<client {self.name}>"

    def ask(self, question: Ask) -> Answer:
        """Ask and wait for the answer."""
        call: BackgroundCall[None, Answer] = BackgroundCall(lambda _emit: self.aask(question), "refold-ask")
        answer = call.wait(self.deadlines.total + GRACE_SECONDS)
        if answer is None:
            reason = f"did not answer within {self.deadlines.total:g} seconds"
            raise self._question_error(Failure(reason, is_timeout=True))
        return answer

    async def aask(self, question: Ask) -> Answer:
        """Ask inside an event loop."""
        if time.monotonic() < self._rests_until:
            failure = Failure(f"{self._last_timeout}; it is not asked again so soon")
        else:
            try:
                return await self._transport.run(lambda: exchange.ask(self._wire, self.target, question))
            except Failure as error:
                failure = error
        raise self._question_error(failure)  # outside of `except`: no error of the library shall hang on it

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        max_tokens: int | None = None,
    ) -> Iterator[Delta | Reply]:
        """Stream a reply: pieces of text as they come, the `Reply` last."""
        turn = Turn(
            messages=messages, system=system, tools=tools if self.tools else (), max_tokens=max_tokens
        )
        buffer = StreamBuffer(lambda _delta: None)

        def begin(emit: Callable[[Delta], None]) -> exchange.Exchange[Reply]:
            nonlocal buffer  # each attempt starts from an empty one
            buffer = StreamBuffer(emit, has_reasoning_tags=self._wire.has_reasoning_tags)
            return exchange.chat(self._wire, self.target, turn, buffer, self._forget_tools)

        stream: BackgroundCall[Delta, Reply] = BackgroundCall(
            lambda emit: self._transport.run(lambda: begin(emit), CHAT_ATTEMPTS), "refold-chat"
        )
        self._streams.add(stream)
        try:
            reply = yield from stream.pieces()
        except Failure as error:
            failure = error
        except Cancelled:
            failure = Failure("was left before the answer ended")
        else:
            yield reply
            return
        finally:
            self._streams.discard(stream)
        buffer.flush()
        partial = partial_reply(self._wire, "".join(buffer.text), "".join(buffer.reasoning))
        raise self._to_error(failure, partial)  # outside of `except`, as above

    def user(self, text: str) -> Json:
        """Make a user message of this wire."""
        return self._wire.user(text)

    def result(self, call: RequestedCall, text: str, *, failed: bool = False) -> Json:
        """Make the message that answers one tool call."""
        return self._wire.result(call, text, failed)

    def results(self, outcomes: Sequence[tuple[RequestedCall, str, bool]]) -> tuple[Json, ...]:
        """Make the messages that answer all calls of a reply."""
        return self._wire.merge_results([self._wire.result(*outcome) for outcome in outcomes])

    def close(self) -> None:
        """Drop every reply that is still coming; questions hold nothing."""
        for stream in list(self._streams):
            stream.cancel()

    def _forget_tools(self) -> None:
        if self.tools:
            self.tools = False
            _LOGGER.warning("%s takes no tools: they are left out", self.name)

    def _question_error(self, failure: Failure) -> AnswerFailed:
        """Turn the failure of a question into an error; after a time-out the client rests for a while."""
        if failure.is_timeout:
            self._rests_until, self._last_timeout = time.monotonic() + REST_SECONDS, failure.reason
        return self._to_error(failure)

    def _to_error(self, failure: Failure, partial: Reply | None = None) -> AnswerFailed:
        """Turn a failure into the error that leaves `clients`."""
        return AnswerFailed(
            f"{self.name} {failure.reason}",
            provider=self.target.provider or self.name,
            cause=failure.cause,
            partial=partial,
        )
