"""A client's own compaction: the request that asks for its summary, and the quiet turns after it.

The request is the whole history with an order at its end. The history that follows is a short one, in which
the client's summary stands for the rest: a fold right behind it would summarise a summary.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final

from refold.core.compaction.budget import Trigger
from refold.core.messages.message import read_json
from refold.session.session import Session

MARK: Final = "client-compaction"
"""Name of the checkpoint that is set where a client compacted."""
QUIET_TURNS: Final = 2
"""Turns without a fold after it: in the second one the client has seen how full its window is."""
_METADATA: Final = "x-codex-turn-metadata"
_ORDERS: Final = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.",  # Claude Code: a block of the last message
    "You are performing a CONTEXT CHECKPOINT COMPACTION.",  # Codex: a message of its own
)
"""How the order begins that ends a request for a summary."""


def says_compaction(headers: Mapping[str, str]) -> bool:
    """True if the headers call a request a compaction, as Codex's do."""
    text = headers.get(_METADATA, "")
    if "compaction" not in text:
        return False
    metadata = read_json(text)
    return isinstance(metadata, dict) and metadata.get("request_kind") == "compaction"


def ends_with_order(message: Any) -> bool:
    """True if the last message of a history orders a summary of it."""
    if not isinstance(message, dict) or message.get("role") != "user":
        return False
    content = message.get("content")
    last = content[-1] if isinstance(content, list) and content else content
    text = last.get("text") if isinstance(last, dict) else last
    return isinstance(text, str) and text.startswith(_ORDERS)


def keep_quiet(session: Session) -> AbstractContextManager[None]:
    """Have a session make no fold for a while."""
    policy = replace(session.state.settings.policy, trigger=Trigger(enabled=False))
    return session.state.change_settings(policy=policy, background=False)
