"""The settings of a session; none of them is stored."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from refold.calls.conversation import Count
from refold.core.compaction.circuit_breaker import Limits
from refold.core.compaction.flow import Answerer
from refold.core.compaction.policy import Policy
from refold.core.models.spending_limits import Caps
from refold.core.models.window_table import Price
from refold.formats.systems.file_forms import HISTORY

Background: TypeAlias = bool | Literal["queue"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Summariser:
    """The model that writes summaries, as far as it describes itself."""

    ask: Answerer | None = None
    """None if no model was given."""
    window: int | None = None
    model: str = ""
    provider: str = ""
    format: str = ""
    price: Price | None = None
