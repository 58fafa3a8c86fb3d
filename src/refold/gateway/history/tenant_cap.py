"""What all summaries of a tenant may take in an hour: beyond it histories are folded without a model.

It is counted in this process. The caps of a session hold beside it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from refold.core.models.spending_limits import Caps
from refold.session.session import Session

_HOUR: Final = 3_600.0


class TenantCap:
    """Counts the tokens of a tenant's summaries; sessions in several threads report to it."""

    def __init__(self, tokens: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens, self._clock = tokens, clock
        self._spent: deque[tuple[float, int]] = deque()
        self._lock = threading.Lock()

    @property
    def is_reached(self) -> bool:
        """True if no more may be asked for now."""
        if self._tokens is None:
            return False
        with self._lock:
            while self._spent and self._spent[0][0] <= self._clock() - _HOUR:
                self._spent.popleft()
            return sum(tokens for _, tokens in self._spent) >= self._tokens

    def listen(self, event: Any) -> None:
        """Take in what an attempt to compact has spent; other events tell nothing of it."""
        receipt = getattr(event, "receipt", None)
        tokens = sum(call.prompt_tokens + call.answer_tokens for call in receipt.calls) if receipt else 0
        if tokens:
            with self._lock:
                self._spent.append((self._clock(), tokens))

    def hold(self, session: Session) -> AbstractContextManager[None]:
        """Have a session ask no model while the cap is reached."""
        nothing = Caps(tokens_per_hour=0)
        return session.state.change_settings(caps=nothing) if self.is_reached else nullcontext()
