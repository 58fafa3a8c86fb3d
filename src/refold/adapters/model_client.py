"""A framework's own model as the summariser: `ask=` of an adapter takes the model object that an agent has.

The question is asked plainly: without the agent's tools, callbacks and tracing.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from refold.core.compaction.flow import Answer, Ask
from refold.core.models.windows import lookup
from refold.errors import WindowUnknown


@dataclass(frozen=True, slots=True)
class ModelClient:
    """A client over one asynchronous call; adapters give the call."""

    model: str
    """The name of the model, by which its window and its price are found."""
    answer: Callable[[Ask], Awaitable[Answer]]

    @property
    def name(self) -> str:
        """The model's name: it has no address of its own."""
        return self.model

    @property
    def window(self) -> int | None:
        """Tokens that a question and its answer may have together; None if the model is not known."""
        try:
            return lookup(self.model, fallback=None).tokens
        except WindowUnknown:
            return None

    def ask(self, question: Ask) -> Answer:
        """Ask from a thread that has no event loop, as sessions do."""
        import asyncio  # slow to import; a program with an event loop has loaded it already

        return asyncio.run(self.aask(question))

    async def aask(self, question: Ask) -> Answer:
        """Ask inside an event loop."""
        return await self.answer(question)

    def close(self) -> None:
        """Do nothing: the model belongs to the caller."""
