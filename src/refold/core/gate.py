"""The gate no bad summary passes; a pure judge of what a summariser gave.

A verdict is a reason in words, or "" for good. What is judged here needs no model: whether the answer is
there, complete, an answer rather than a tool call, a refusal or a request for the conversation, and no
larger than it may be. Whether it makes the history smaller is judged by the pipeline.
"""

import re
from typing import Final

from refold.core.flow import Failed, Reply

_INCOMPLETE: Final = {"length", "max_tokens", "MAX_TOKENS", "incomplete", "max_output_tokens"}
_REFUSED: Final = {"refusal", "content_filter", "SAFETY", "safety", "RECITATION"}

_NO_SUMMARY: Final = re.compile(
    r"\s{0,20}(?:"
    r"(?:i['’]?m\s+sorry|i\s+am\s+sorry|sorry|apologies|unfortunately)[,.]?\s.{0,40}"
    r"\b(?:can['’]?t|cannot|unable|not able)\b"
    r"|i\s+(?:can['’]?t|cannot|am\s+unable\s+to|won['’]?t)\s+(?:help|assist|summari[sz]e|comply|provide|do\s+that)"
    r"|(?:please|could\s+you|can\s+you)\s+(?:please\s+)?(?:provide|share|paste|send)\s.{0,40}"
    r"\b(?:conversation|transcript|messages|text)\b"
    r"|(?:there\s+is|i\s+(?:do\s+not|don['’]?t)\s+see)\s+(?:no|any|a)\s+(?:conversation|transcript)\b"
    r")",
    re.IGNORECASE,
)
"""How answers begin that are no summaries, each seen in the wild (langmem#69 kept one as its memory)."""

_TOOL_CALL_TEXT: Final = re.compile(
    r"\s{0,20}(?:<tool_call>|<function_calls>|\{\s{0,8}\"(?:name|tool|function)\"\s{0,8}:)"
)


def verdict(reply: Reply) -> str:
    """Why this reply is no summary, or "" where it may be one."""
    if isinstance(reply, Failed):
        return f"the model failed: {type(reply.error).__name__}: {reply.error}"[:300]
    if reply.calls or reply.finish in {"tool_calls", "tool_use", "function_call"}:
        return "the model called a tool instead of summarising"
    if reply.finish in _INCOMPLETE:
        return "the summary was cut off"
    if reply.finish in _REFUSED:
        return "the model refused"
    if not reply.text.strip():
        return "only reasoning, no summary" if reply.reasoning.strip() else "the summary was empty"
    if _TOOL_CALL_TEXT.match(reply.text):
        return "the model wrote a tool call instead of a summary"
    if _NO_SUMMARY.match(reply.text[:400]):
        return "the model refused or asked for the conversation"
    return ""
