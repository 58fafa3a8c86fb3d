"""Keep long conversations with language models inside the context window without losing what was said.

Names are loaded when they are first used, so that `import refold` costs next to nothing.
"""

TYPE_CHECKING = False  # as type checkers know it: to load typing takes longer than all else here
if TYPE_CHECKING:
    from refold import presets
    from refold.adapters.clients import wrap
    from refold.calls.compact import acompact, compact
    from refold.calls.measure import count, fit_files, fit_text, measure
    from refold.calls.outcome import Outcome, Plan, Receipt, Repaired
    from refold.calls.plan import plan
    from refold.calls.repair import repair, validate
    from refold.clients import Client, open_client
    from refold.core.compaction.budget import Breakdown, Budget
    from refold.core.compaction.edits import Edit
    from refold.core.compaction.file_budget import FittedFile
    from refold.core.compaction.flow import Answer, Ask, CompactRequest
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
        StoreReplaced,
        StoreUnsure,
        WindowUnknown,
    )
    from refold.policies.clip_files import clip
    from refold.policies.systems.strategies import Strategy, Thread, list_strategies, register_strategy
    from refold.session import aopen, open, work  # noqa: A004  # the word users know
    from refold.session.async_session import AsyncSession
    from refold.session.many import Sessions
    from refold.session.results import (
        Checkpoint,
        CompactionSegment,
        FoldMade,
        Hit,
        Observed,
        Ready,
        Rewound,
        Stats,
    )
    from refold.session.session import Session
    from refold.stores import open_store

__version__ = "0.1.0"

_MODULES = {
    "refold.adapters.clients": "wrap",
    "refold.calls.compact": "acompact compact",
    "refold.calls.measure": "count fit_files fit_text measure",
    "refold.calls.outcome": "Outcome Plan Receipt Repaired",
    "refold.calls.plan": "plan",
    "refold.calls.repair": "repair validate",
    "refold.clients": "Client open_client",
    "refold.core.compaction.budget": "Breakdown Budget",
    "refold.core.compaction.edits": "Edit",
    "refold.core.compaction.file_budget": "FittedFile",
    "refold.core.compaction.flow": "Answer Ask CompactRequest",
    "refold.core.compaction.policy": "Policy",
    "refold.core.messages.message": "Document File Image Message Opaque Text Thinking ToolCall ToolResult",
    "refold.core.messages.text_cutting": "Clipped",
    "refold.core.messages.wire_rules": "Problem",
    "refold.core.models.prices": "Spent",
    "refold.core.models.windows": "Window window=lookup",
    "refold.core.overflow.detect": "OverflowInfo overflow",
    "refold.errors": "AnswerFailed Conflict DoesNotFit FormatError InvalidConversation LogCorrupt LogTooNew"
    " Overflow RefoldError RefoldWarning SessionNotFound StoreBusy StoreError StoreFull StoreReplaced"
    " StoreUnsure WindowUnknown",
    "refold.policies.clip_files": "clip",
    "refold.policies.systems.strategies": "Strategy Thread list_strategies register_strategy",
    "refold.session": "aopen open work",
    "refold.session.results": "Checkpoint CompactionSegment FoldMade Hit Observed Ready Rewound Stats",
    "refold.session.async_session": "AsyncSession",
    "refold.session.many": "Sessions",
    "refold.session.session": "Session",
    "refold.stores": "open_store",
}
"""The module of each public name; `window=lookup` is `lookup` in its module and `window` here."""

_SOURCES = {
    public: (module, own or public)
    for module, names in _MODULES.items()
    for public, _, own in (name.partition("=") for name in names.split())
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "presets":
        return import_module("refold.presets")
    if name not in _SOURCES:
        raise AttributeError(f"module 'refold' has no attribute {name!r}")
    module, own = _SOURCES[name]
    value = getattr(import_module(module), own)
    globals()[name] = value  # the next use finds it without asking here
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
    "Checkpoint",
    "Client",
    "Clipped",
    "CompactRequest",
    "CompactionSegment",
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
    "Rewound",
    "Session",
    "SessionNotFound",
    "Sessions",
    "Spent",
    "Stats",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreReplaced",
    "StoreUnsure",
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
    "wrap",
]
