"""The twins: models of `llm` that send the view of a conversation to the model they stand for."""

from collections.abc import AsyncIterator, Iterator
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
    """What a twin has of the model it stands for."""

    def __init__(self, inner: Any, adapter: Any = None) -> None:
        self.inner = inner
        self._adapter = adapter
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

    def _open_adapter(self) -> Any:
        """Return the sessions; those of the environment where no others were given."""
        from llm_refold.adapter import open_adapter

        return self._adapter or open_adapter()

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
