"""Several clients as one: the next is asked if one fails; a question too large for one stops the chain."""

from collections.abc import Generator
from dataclasses import dataclass

from refold.clients.contract import Client
from refold.core.compaction.flow import Answer, Ask
from refold.errors import AnswerFailed, Overflow


@dataclass(frozen=True, slots=True)
class Fallback:
    """Clients in the order in which they are asked."""

    clients: tuple[Client, ...]

    @property
    def name(self) -> str:
        """The addresses of all clients."""
        return ", ".join(client.name for client in self.clients)

    @property
    def model(self) -> str:
        """The model that is asked first."""
        return self.clients[0].model

    @property
    def window(self) -> int | None:
        """The smallest known window: every question must fit the client that answers it."""
        return min((client.window for client in self.clients if client.window), default=None)

    @property
    def has_deadline(self) -> bool:
        """True if each client answers or gives up in time by itself."""
        return all(getattr(client, "has_deadline", False) is True for client in self.clients)

    def ask(self, question: Ask) -> Answer:
        """Ask one client after the other."""
        order = self._order()
        client = next(order)
        while True:
            try:
                return client.ask(question)
            except AnswerFailed as error:
                client = order.send(error)

    async def aask(self, question: Ask) -> Answer:
        """Ask one client after the other, inside an event loop."""
        order = self._order()
        client = next(order)
        while True:
            try:
                return await client.aask(question)
            except AnswerFailed as error:
                client = order.send(error)

    def close(self) -> None:
        """Close all clients."""
        for client in self.clients:
            client.close()

    def _order(self) -> Generator[Client, AnswerFailed, None]:
        """Yield the next client, receive its error; raise when no client is left."""
        reasons: list[str] = []
        for client in self.clients:
            error = yield client
            # The caller shortens the question and asks again. Another client would get the same text, and the
            # window of the chain is already the smallest known one.
            if isinstance(error.cause, Overflow):
                raise error
            reasons.append(str(error))
        raise AnswerFailed("; ".join(reasons)[:500], provider=self.name, cause=error.cause)
