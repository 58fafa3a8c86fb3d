"""Several clients as one: the next is asked where one fails; a question too large for one stops the chain."""

from collections.abc import Generator
from dataclasses import dataclass

from refold.clients import Client
from refold.core.compaction.flow import Answer, Ask
from refold.errors import AnswerFailed, Overflow


@dataclass(frozen=True, slots=True)
class Chain:
    """Clients in the order in which they are asked."""

    clients: tuple[Client, ...]

    @property
    def name(self) -> str:
        """The addresses."""
        return ", ".join(client.name for client in self.clients)

    @property
    def model(self) -> str:
        """The model that is asked first."""
        return self.clients[0].model

    @property
    def window(self) -> int | None:
        """The smallest that is known: every question must fit whoever answers it."""
        return min((client.window for client in self.clients if client.window), default=None)

    def ask(self, question: Ask) -> Answer:
        """Ask one after the other."""
        turns = self._turns()
        client = next(turns)
        while True:
            try:
                return client.ask(question)
            except AnswerFailed as error:
                client = turns.send(error)

    async def aask(self, question: Ask) -> Answer:
        """Ask one after the other, inside an event loop."""
        turns = self._turns()
        client = next(turns)
        while True:
            try:
                return await client.aask(question)
            except AnswerFailed as error:
                client = turns.send(error)

    def close(self) -> None:
        """Close all."""
        for client in self.clients:
            client.close()

    def _turns(self) -> Generator[Client, AnswerFailed, None]:
        """Whose turn it is; receives why the last one failed, raises where nobody is left."""
        reasons: list[str] = []
        for client in self.clients:
            error = yield client
            if isinstance(error.cause, Overflow):
                raise error
            reasons.append(str(error))
        raise AnswerFailed("; ".join(reasons)[:500], provider=self.name, cause=error.cause)
