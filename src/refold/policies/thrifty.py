"""The policy `thrifty`: the default policy with a cap on the history, for people who pay by the token.

docs/decisions/0015-when-to-fold.md tells how the number was found, and why it is no part of the default.
"""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from refold.core.compaction.policy import Policy
from refold.policies.default import refold

THRIFTY: Final[Mapping[str, int]] = {"history_tokens": 48_000}
"""The knobs of `refold` that differ. Less is cheaper without a summariser, but with one a fold costs more
than it saves in short conversations, and less of what is used again stays in view."""


def thrifty(**knobs: Any) -> Policy:
    """Return the default policy, folding at 48,000 tokens of history however large the window is.

    Every turn pays for what is carried on. The knobs are those of `refold`.
    """
    return replace(refold(**{**THRIFTY, **knobs}), name="thrifty")


# Programs read the knobs of a preset from its signature and its annotations.
thrifty.__signature__ = inspect.signature(partial(refold, **THRIFTY))  # type: ignore[attr-defined]
thrifty.__annotations__ = refold.__annotations__
