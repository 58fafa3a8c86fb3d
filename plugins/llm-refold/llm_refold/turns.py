"""One turn of a conversation: the view goes to the model, the answer's usage comes back."""

import copy
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Self

import llm

from llm_refold.messages import BRIDGE
from refold import RefoldWarning
from refold.adapters.base import Adapter, AsyncTurn, Turn

current: ContextVar[str | None] = ContextVar("llm_refold_conversation", default=None)
"""The conversation that was prompted last; the tool `recall` reads it."""
Call = Callable[[Any], Any]
"""Sends a prompt to the model behind a twin; returns its chunks."""


class SentPrompt(llm.Prompt):
    """A prompt whose messages are the view, and which knows whether they were read."""

    view: list[Any]
    was_read = False

    @classmethod
    def of(cls, prompt: llm.Prompt, model: Any, view: list[Any]) -> Self:
        """Return a copy of a prompt for the model behind a twin."""
        sent = copy.copy(prompt)
        sent.__class__ = cls
        sent.model, sent.view = model, view
        return sent

    @property
    def messages(self) -> list[Any]:
        """The messages to send."""
        self.was_read = True
        return list(self.view)


class AnswerChunks:
    """Reads the usage of an answer when its chunks are over."""

    def __init__(self, response: Any, sent: list[SentPrompt]) -> None:
        self._response, self._sent = response, sent

    def find_refusal(self, chunk: Any) -> None:
        """Return None: models of `llm` raise a refusal."""

    def is_opening(self, chunk: Any) -> bool:  # noqa: ARG002  # as a stream asks it
        """Return False: chunks have words."""
        return False

    def add(self, chunk: Any) -> None:
        """Do nothing: the response gathers its chunks itself."""

    def assemble(self) -> dict[str, Any] | None:
        """Return the usage; None if it is not that of the view."""
        response = self._response
        if response.input_tokens is None or not self._sent[-1].was_read:
            return None
        usage = {"input": response.input_tokens, "output": response.output_tokens or 0}
        return {"usage": {**usage, "details": response.token_details or {}}}


class Sending:
    """The prompts of one turn, and the calls that send them."""

    def __init__(self, model: Any, prompt: llm.Prompt, response: Any, call: Call) -> None:
        self.model, self._prompt, self._call = model, prompt, call
        self._sent: list[SentPrompt] = []
        self.natives = prompt.messages
        self.tools = [_describe(tool) for tool in prompt.tools if isinstance(tool, llm.Tool)]
        self.reader = lambda: AnswerChunks(response, self._sent)

    def send(self, view: list[Any]) -> Any:
        """Send a view to the model."""
        self._sent.append(SentPrompt.of(self._prompt, self.model, view))
        return self._call(self._sent[-1])

    def warn_if_unread(self) -> None:
        """Warn of a model that has built its request from something else than the messages."""
        if self._sent and not self._sent[-1].was_read and len(self.natives) > 1:
            text = (
                f"{self.model.model_id} does not read prompt.messages, so that Refold cannot fold what it"
                " sends: update its plug-in, or use the model without refold/"
            )
            warnings.warn(text, RefoldWarning, stacklevel=2)


def _describe(tool: llm.Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def stream_turn(adapter: Adapter[Any], conversation: Any, sending: Sending) -> Iterator[Any]:
    """Yield the chunks of an answer to the view."""
    key = adapter.find_key(conversation.id, request=conversation)
    current.set(key)
    session = adapter.open_session(key)
    adapter.follow_model(session, _name_model(sending.model), endpoint=_find_endpoint(sending.model))
    yield from Turn(session, BRIDGE, sending.natives, tools=sending.tools).stream(
        sending.send, sending.reader
    )
    sending.warn_if_unread()


async def astream_turn(adapter: Adapter[Any], conversation: Any, sending: Sending) -> AsyncIterator[Any]:
    """Do the same in an event loop."""
    key = adapter.find_key(conversation.id, request=conversation)
    current.set(key)
    session = await adapter.sessions.aget(key)
    adapter.follow_model(session, _name_model(sending.model), endpoint=_find_endpoint(sending.model))
    turn = AsyncTurn(session, BRIDGE, sending.natives, tools=sending.tools)
    async with aclosing(turn.stream(sending.send, sending.reader)) as chunks:
        async for chunk in chunks:
            yield chunk
    sending.warn_if_unread()


def _name_model(model: Any) -> str:
    return getattr(model, "model_name", None) or model.model_id


def _find_endpoint(model: Any) -> str | None:
    return getattr(model, "api_base", None)
