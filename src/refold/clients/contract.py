"""The contract of a client, and the table of built-in ones; knows no provider and no network."""

from typing import Final, Protocol, runtime_checkable

from refold.core.compaction.flow import Answer, Ask

GROUP: Final = "refold.clients"
"""The entry-point group in which plug-ins register further schemes."""

BUILT_IN: Final = {
    "anthropic": "refold.clients.providers.anthropic:open_client",
    "openai": "refold.clients.providers.openai_chat:open_client",
    "responses": "refold.clients.providers.openai_responses:open_client",
    "gemini": "refold.clients.providers.gemini:open_client",
    "http": "refold.clients.providers.openai_chat:open_http",
    "https": "refold.clients.providers.openai_chat:open_https",
    "local": "refold.clients.local:open_client",
}
"""Factories by scheme. Each takes the text behind the colon, and options by name."""
MAX_THREADS: Final = 1_024
"""More than the processors of the largest common server; a larger number is a mistake."""


@runtime_checkable
class Client(Protocol):
    """A model that answers questions.

    A client whose `has_deadline` is true gives up by itself; any other is given `ask_timeout` seconds.
    """

    @property
    def name(self) -> str:
        """The address, without secrets."""

    @property
    def model(self) -> str:
        """The name of the model."""

    @property
    def window(self) -> int | None:
        """Tokens that a question and its answer may have together; None if unknown."""

    def ask(self, question: Ask) -> Answer:
        """Ask and wait for the answer; raise `AnswerFailed` if there is none in time."""

    async def aask(self, question: Ask) -> Answer:
        """Ask inside an event loop."""

    def close(self) -> None:
        """Release connections and processes; may be called twice."""
