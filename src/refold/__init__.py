"""Keep long conversations with language models inside the context window without losing what was said.

Names are loaded when they are first used, so that `import refold` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from refold import presets
    from refold.calls.compact import acompact, compact, repair, validate
    from refold.calls.measure import count, fit_files, fit_text, measure
    from refold.calls.outcome import Outcome, Plan, Receipt, Repaired
    from refold.calls.plan import plan
    from refold.clients import Client, open_client
    from refold.core.compaction.budget import Breakdown, Budget
    from refold.core.compaction.edits import Edit
    from refold.core.compaction.file_budget import FittedFile
    from refold.core.compaction.flow import Answer, Ask
    from refold.core.compaction.policy import Policy
    from refold.core.messages.message import (
        Document,
        File,
        Image,
        Message,
        Opaque,
        Text,
        Thinking,
        ToolCall,
        ToolResult,
    )
    from refold.core.messages.text_cutting import Clipped
    from refold.core.messages.wire_rules import Problem
    from refold.core.models.prices import Spent
    from refold.core.models.windows import Window
    from refold.core.models.windows import lookup as window
    from refold.core.overflow.detect import OverflowInfo, overflow
    from refold.errors import (
        AnswerFailed,
        Conflict,
        DoesNotFit,
        FormatError,
        InvalidConversation,
        LogCorrupt,
        LogTooNew,
        Overflow,
        RefoldError,
        RefoldWarning,
        SessionNotFound,
        StoreBusy,
        StoreError,
        StoreFull,
        WindowUnknown,
    )
    from refold.policies.clip_files import clip
    from refold.policies.strategies import Strategy, Thread, list_strategies, register_strategy
    from refold.session import aopen, open, work  # noqa: A004  # the word users know
    from refold.session.facade import AsyncSession, Session
    from refold.session.values import FoldMade, Hit, Observed, Ready, Stats
    from refold.stores import open_store

__version__ = "0.1.0"

_HOMES: Final = {
    "clients": "Client open_client",
    "calls.compact": "acompact compact repair validate",
    "core.compaction.budget": "Breakdown Budget",
    "core.compaction.edits": "Edit",
    "core.compaction.file_budget": "FittedFile",
    "core.compaction.flow": "Answer Ask",
    "core.messages.message": "Document File Image Message Opaque Text Thinking ToolCall ToolResult",
    "core.models.prices": "Spent",
    "core.overflow.detect": "OverflowInfo overflow",
    "core.compaction.policy": "Policy",
    "core.messages.wire_rules": "Problem",
    "core.messages.text_cutting": "Clipped",
    "core.models.windows": "Window window=lookup",
    "errors": "AnswerFailed Conflict DoesNotFit FormatError InvalidConversation LogCorrupt LogTooNew"
    " Overflow RefoldError RefoldWarning SessionNotFound StoreBusy StoreError StoreFull WindowUnknown",
    "calls.measure": "count fit_files fit_text measure",
    "calls.outcome": "Outcome Plan Receipt Repaired",
    "calls.plan": "plan",
    "policies.clip_files": "clip",
    "session": "aopen open work",
    "session.facade": "AsyncSession Session",
    "session.values": "FoldMade Hit Observed Ready Stats",
    "stores": "open_store",
    "policies.strategies": "Strategy Thread list_strategies register_strategy",
}
"""Which module each public name lives in; `window=lookup` is a name that is called otherwise at home."""

_FOUND: Final = {
    public: (f"refold.{home}", own or public)
    for home, names in _HOMES.items()
    for public, _, own in (name.partition("=") for name in names.split())
}


def __getattr__(name: str) -> Any:
    if name == "presets":
        return import_module("refold.presets")
    if name not in _FOUND:
        raise AttributeError(f"module 'refold' has no attribute {name!r}")
    home, own = _FOUND[name]
    value = getattr(import_module(home), own)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


__all__ = [
    "Answer",
    "AnswerFailed",
    "Ask",
    "AsyncSession",
    "Breakdown",
    "Budget",
    "Client",
    "Clipped",
    "Conflict",
    "Document",
    "DoesNotFit",
    "Edit",
    "File",
    "FittedFile",
    "FoldMade",
    "FormatError",
    "Hit",
    "Image",
    "InvalidConversation",
    "LogCorrupt",
    "LogTooNew",
    "Message",
    "Observed",
    "Opaque",
    "Outcome",
    "Overflow",
    "OverflowInfo",
    "Plan",
    "Policy",
    "Problem",
    "Ready",
    "Receipt",
    "RefoldError",
    "RefoldWarning",
    "Repaired",
    "Session",
    "SessionNotFound",
    "Spent",
    "Stats",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "Strategy",
    "Text",
    "Thinking",
    "Thread",
    "ToolCall",
    "ToolResult",
    "Window",
    "WindowUnknown",
    "acompact",
    "aopen",
    "clip",
    "compact",
    "count",
    "fit_files",
    "fit_text",
    "list_strategies",
    "measure",
    "open",
    "open_client",
    "open_store",
    "overflow",
    "plan",
    "presets",
    "register_strategy",
    "repair",
    "validate",
    "window",
    "work",
]
