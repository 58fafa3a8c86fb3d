"""The twins: models of `llm` that send the view of a conversation to the model they stand for."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import llm

PREFIX = "refold/"
TRAITS = (
    "can_stream",
    "attachment_types",
    "supports_schema",
    "supports_tools",
    "supports_conversation",
    "key_env_var",
    "key",
    "Options",
)
"""What `llm` asks a model before it calls it."""


class _Traits:
    """What a twin has of the model it stands for.

    open_adapter   opens the sessions when a conversation is prompted; until then Refold is not loaded
    """

    def __init__(self, inner: Any, open_adapter: Callable[[], Any]) -> None:
        self.inner = inner
        self._open_adapter = open_adapter
        self.model_id = PREFIX + inner.model_id
        for name in TRAITS:
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        # a model that is given no key looks for it by itself
        self.needs_key = inner.needs_key if self._takes_key() else None

    @property
    def supported_server_side_tools(self) -> tuple[Any, ...]:
        """The tools that the provider runs by itself."""
        return getattr(self.inner, "supported_server_side_tools", ())

    def _takes_key(self) -> bool:
        return isinstance(self.inner, llm.KeyModel | llm.AsyncKeyModel)


class Twin(_Traits, llm.KeyModel):
    """A model that sends the view; a prompt without a conversation goes to the model as it is."""

    def execute(
        self, prompt: Any, stream: Any, response: Any, conversation: Any = None, key: str | None = None
    ) -> Iterator[Any]:
        """Yield the answer to the view, and begin again once if the provider refuses it for its size."""
        keys = (key,) if self._takes_key() else ()

        def call(sent: Any) -> Any:
            return self.inner.execute(sent, stream, response, conversation, *keys)

        if conversation is None:
            yield from call(prompt)
        else:
            from llm_refold.turns import Sending, stream_turn  # Refold is loaded when it is needed

            sending = Sending(self.inner, prompt, response, call)
            yield from stream_turn(self._open_adapter(), conversation, sending)


class AsyncTwin(_Traits, llm.AsyncKeyModel):
    """The same in an event loop."""

    async def execute(
        self, prompt: Any, stream: Any, response: Any, conversation: Any = None, key: str | None = None
    ) -> AsyncIterator[Any]:
        """Yield the answer to the view, and begin again once if the provider refuses it for its size."""
        keys = (key,) if self._takes_key() else ()

        def call(sent: Any) -> Any:
            return self.inner.execute(sent, stream, response, conversation, *keys)

        if conversation is None:
            chunks = call(prompt)
        else:
            from llm_refold.turns import Sending, astream_turn  # Refold is loaded when it is needed

            sending = Sending(self.inner, prompt, response, call)
            chunks = astream_turn(self._open_adapter(), conversation, sending)
        async for chunk in chunks:
            yield chunk
