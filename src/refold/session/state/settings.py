"""The settings of a session; none of them is stored."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

from refold.calls.conversation import Count
from refold.core.compaction.circuit_breaker import Limits
from refold.core.compaction.flow import Answerer, Ask, CompactRequest
from refold.core.compaction.policy import Policy
from refold.core.models.model_names import parse_model_name
from refold.core.models.spending_limits import Caps
from refold.core.models.window_table import Price
from refold.core.summaries.native import Maker
from refold.formats.systems.file_forms import HISTORY
from refold.session.drivers import refuse_question

Background: TypeAlias = bool | Literal["queue"]
NativeCall: TypeAlias = Callable[[CompactRequest], Any]
"""Has the provider compact these messages; returns its response, or an awaitable of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of a session."""

    policy: Policy
    model: str | None = None
    endpoint: str = ""
    """The address the requests go to, if windows differ by endpoint."""
    window: int | None = None
    count: Count = None
    format: str | None = None
    account: str = ""
    """A fingerprint of the account or the key, as the caller names it; empty if it does not."""
    background: Background = False
    """Prepare folds in the background: True in this process, "queue" in a worker of the store's queue."""
    limits: Limits = Limits()
    caps: Caps = Caps()
    """Limits on the cost of summaries."""
    archive: str = ""
    """Folder in which the originals are kept as files; empty for none."""

    @property
    def history(self) -> str:
        """The part of the archive with the messages that have left, as a summary names it; "" for none."""
        return f"{self.archive}/{HISTORY}" if self.archive else ""

    def reader(self, wire: str) -> Maker:
        """Return who reads a view in this format, as far as it is known: a block is for one reader only."""
        name = parse_model_name(self.model or "")
        return Maker(
            format=wire,
            provider=name.provider or name.maker or "",
            family=name.maker or "",
            endpoint=self.endpoint,
            account=self.account,
        )


def find_fingerprint(account: str) -> str:
    """Return what stands for an account in the log: people may name it by its key, which is not stored."""
    return blake2b(account.encode(), digest_size=8).hexdigest() if account else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summariser:
    """The model that writes summaries, as far as it describes itself."""

    ask: Answerer | None = None
    """None if no model was given."""
    native: Answerer | None = None
    """Has the conversation's own provider compact; None if no such call was given."""
    window: int | None = None
    model: str = ""
    provider: str = ""
    format: str = ""
    price: Price | None = None
    sends_bill: bool = True
    """False for an own server, which costs nothing if the user set no price."""

    def answer(self, question: Ask) -> Any:
        """Answer a question: the provider what it is to compact itself, the summariser any other."""
        answer = self.ask if question.native is None else self.native
        return (answer or refuse_question)(question)
