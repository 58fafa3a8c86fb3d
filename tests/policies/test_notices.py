"""The words of each system for what leaves without a model, to the letter."""

from refold.core.compaction.task import Task
from refold.core.messages.file_operations import FileOps
from refold.core.messages.message import SUMMARY, Message, Text, ToolCall, ToolResult
from refold.core.summaries.wrappers import Covered
from refold.policies.systems.codebuddy import CODEBUDDY_COUNTER, codebuddy_notice
from refold.policies.systems.opal import opal_notice
from refold.policies.systems.strategies import UmweltenNotice

TASK = Task(messages=(), sizes=(), counter=CODEBUDDY_COUNTER, window=1_000, room=1_000)


def summary(text, kind="summary"):
    return Message("user", text, source=SUMMARY, meta={"kind": kind, "text": text})


def covered(messages, **more):
    return Covered(messages=len(messages), first=0, last=len(messages) - 1, **more)


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
    assert codebuddy_notice(messages, covered(messages), TASK) == (
        "[Conversation context — 6 earlier messages removed to fit context window]\n"
        "User messages: 2, Assistant responses: 2, Tool calls: 2\n"
        "Topics discussed:\n"
        "- please read"
    )


def test_codebuddy_without_topics():
    """CodeBuddy, tier 4: no heading where nobody asked anything."""
    messages = traffic()[1:]
    assert "Topics" not in codebuddy_notice(messages, covered(messages), TASK)


def test_codebuddy_keeps_an_earlier_summary():
    """CodeBuddy, tier 4: a model's summary that leaves is told on; it counts as nobody's message."""
    messages = [summary("WHAT WAS"), summary("old notice", "notice"), *traffic()]
    text = codebuddy_notice(messages, covered(messages), TASK)
    assert text.startswith("[Conversation context — 8 earlier messages removed")
    assert "User messages: 2, Assistant responses: 2" in text
    assert text.endswith("- please read\nWHAT WAS")
    assert "old notice" not in text


def test_codebuddy_lists_ten_topics():
    """CodeBuddy, tier 4: up to ten topics."""
    messages = [Message("user", f"topic {i}") for i in range(12)]
    text = codebuddy_notice(messages, covered(messages), TASK)
    assert text.count("\n- ") == 10
    assert "topic 9" in text
    assert "topic 10" not in text


def test_opal():
    """Opal, truncation: how many messages of each role, sorted, and the files as tags."""
    messages = traffic()
    files = FileOps(read=("a.py",), modified=("b.py",))
    assert opal_notice(messages, covered(messages, files=files), TASK) == (
        "[Conversation summary — older messages were compacted]\n\n"
        "[Compacted 6 messages: 2 assistant, 2 tool_result, 2 user]\n\n"
        "<read-files>\na.py\n</read-files>\n\n<modified-files>\nb.py\n</modified-files>"
    )
    told = opal_notice([summary("WHAT WAS"), *messages], covered(messages), TASK)
    assert told.endswith("3 user]\nWHAT WAS")


def test_umwelten():
    """Umwelten, "Truncate" and decisions: says how many turns stay only where some do."""
    messages = traffic()
    assert UmweltenNotice()(messages, covered(messages), TASK) == "(Earlier conversation omitted.)"
    told = UmweltenNotice(5)(messages, covered(messages), TASK)
    assert told == "(Earlier conversation omitted; last 5 turns retained.)"
    again = UmweltenNotice(2)([summary("WHAT WAS"), *messages], covered(messages), TASK)
    assert again == "(Earlier conversation omitted; last 2 turns retained.)\nWHAT WAS"
