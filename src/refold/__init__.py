"""Keep long conversations with language models inside the context window without losing what was said."""

from refold import presets
from refold.compacting import acompact, compact, repair, validate
from refold.core.budget import Breakdown, Budget
from refold.core.edits import Edit
from refold.core.files import FittedFile
from refold.core.flow import Answer, Ask
from refold.core.messages import (
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
from refold.core.overflow import OverflowInfo, overflow
from refold.core.policy import Policy
from refold.core.shapes import Problem
from refold.core.texts import Clipped
from refold.core.windows import Window
from refold.core.windows import lookup as window
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
    StoreError,
    WindowUnknown,
)
from refold.measuring import count, fit_files, fit_text, measure
from refold.outcome import Outcome, Plan, Receipt, Repaired
from refold.planning import plan
from refold.saving import clip
from refold.strategies import Strategy, Thread, list_strategies, register_strategy

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AnswerFailed",
    "Ask",
    "Breakdown",
    "Budget",
    "Clipped",
    "Conflict",
    "Document",
    "DoesNotFit",
    "Edit",
    "File",
    "FittedFile",
    "FormatError",
    "Image",
    "InvalidConversation",
    "LogCorrupt",
    "LogTooNew",
    "Message",
    "Opaque",
    "Outcome",
    "Overflow",
    "OverflowInfo",
    "Plan",
    "Policy",
    "Problem",
    "Receipt",
    "RefoldError",
    "RefoldWarning",
    "Repaired",
    "SessionNotFound",
    "StoreError",
    "Strategy",
    "Text",
    "Thinking",
    "Thread",
    "ToolCall",
    "ToolResult",
    "Window",
    "WindowUnknown",
    "acompact",
    "clip",
    "compact",
    "count",
    "fit_files",
    "fit_text",
    "list_strategies",
    "measure",
    "overflow",
    "plan",
    "presets",
    "register_strategy",
    "repair",
    "validate",
    "window",
]
