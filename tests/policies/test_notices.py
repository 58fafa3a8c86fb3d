"""The words of each system for what leaves without a model, to the letter."""

from types import SimpleNamespace

import refold
from refold import Message, Text, ToolCall, ToolResult, presets

CODEBUDDY = presets.get("codebuddy").stages[-1].words
OPAL = presets.get("opal").stages[-1].words


def umwelten(turns=0):
    """The words of Umwelten's strategy without a model."""
    truncate = next(one for one in refold.list_strategies() if one.id == "truncate")
    return truncate.make(presets.get("umwelten").stages[0].keep, {"keep_turns": turns}).words


def summary(text, kind="summary"):
    return Message("user", text, source="summarization", meta={"kind": kind, "text": text})


def notice(words, messages, read=(), modified=()):
    """What stands for messages that leave, with these files."""
    files = SimpleNamespace(read=read, modified=modified)
    return words(messages, SimpleNamespace(messages=len(messages), files=files, request=""), None)


def traffic():
    return [
        Message("user", "please read\nboth files"),
        Message("assistant", (Text("reading"), ToolCall("1", "read", "{}"), ToolCall("2", "read", "{}"))),
        Message("tool", (ToolResult("1", (Text("one"),)),)),
        Message("user", (ToolResult("2", (Text("two"),)),)),
        Message("assistant", "done"),
        Message("user", ""),
    ]


def test_codebuddy():
    """CodeBuddy, tier 4: counts of each kind, then the first line of what was asked."""
    messages = traffic()
    assert notice(CODEBUDDY, messages) == (
        "[Conversation context — 6 earlier messages removed to fit context window]\n"
        "User messages: 2, Assistant responses: 2, Tool calls: 2\n"
        "Topics discussed:\n"
        "- please read"
    )


def test_codebuddy_without_topics():
    """CodeBuddy, tier 4: no heading where nobody asked anything."""
    messages = traffic()[1:]
    assert "Topics" not in notice(CODEBUDDY, messages)


def test_codebuddy_keeps_an_earlier_summary():
    """CodeBuddy, tier 4: a model's summary that leaves is told on; it counts as nobody's message."""
    messages = [summary("WHAT WAS"), summary("old notice", "notice"), *traffic()]
    text = notice(CODEBUDDY, messages)
    assert text.startswith("[Conversation context — 8 earlier messages removed")
    assert "User messages: 2, Assistant responses: 2" in text
    assert text.endswith("- please read\nWHAT WAS")
    assert "old notice" not in text


def test_codebuddy_lists_ten_topics():
    """CodeBuddy, tier 4: up to ten topics."""
    messages = [Message("user", f"topic {i}") for i in range(12)]
    text = notice(CODEBUDDY, messages)
    assert text.count("\n- ") == 10
    assert "topic 9" in text
    assert "topic 10" not in text


def test_opal():
    """Opal, truncation: how many messages of each role, sorted, and the files as tags."""
    messages = traffic()
    assert notice(OPAL, messages, read=("a.py",), modified=("b.py",)) == (
        "[Conversation summary — older messages were compacted]\n\n"
        "[Compacted 6 messages: 2 assistant, 2 tool_result, 2 user]\n\n"
        "<read-files>\na.py\n</read-files>\n\n<modified-files>\nb.py\n</modified-files>"
    )
    again = notice(OPAL, [summary("WHAT WAS"), *messages])
    assert again.endswith("3 user]\nWHAT WAS")


def test_umwelten():
    """Umwelten, "Truncate" and decisions: says how many turns stay only where some do."""
    messages = traffic()
    assert notice(umwelten(), messages) == "(Earlier conversation omitted.)"
    some = notice(umwelten(5), messages)
    assert some == "(Earlier conversation omitted; last 5 turns retained.)"
    again = notice(umwelten(2), [summary("WHAT WAS"), *messages])
    assert again == "(Earlier conversation omitted; last 2 turns retained.)\nWHAT WAS"
