"""The words of each system for what leaves without a model, to the letter."""

import re
from types import SimpleNamespace

import pytest

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
    assert notice(umwelten(2), [summary(again, "notice"), *messages]) == again


# -- counts over several folds -------------------------------------------------------------------------------


def talk(count, start=0, size=1_500):
    words = "one word after the other " * (size // 20)
    return [
        {"role": ("user", "assistant")[n % 2], "content": f"m{n} {words[:size]}"}
        for n in range(start, start + count)
    ]


HEADERS = {
    "codebuddy": r"\[(?:Conversation Summary|Earlier conversation summary|Conversation context) — (\d+) ",
    "opal": r"\[Conversation summary — older messages were compacted\]\n\n\[Compacted (\d+) messages: ",
    "refold": r'<refold-summary [^>]*messages="(\d+)"',
}
FAILING = {
    "no model": None,
    "a model": lambda _ask, _n: "SUMMARY",
    "a model that fails at first": lambda _ask, n: "SUMMARY" if n % 3 == 0 else 1 / 0,
}


@pytest.mark.each_value
@pytest.mark.parametrize("answer", FAILING.values(), ids=FAILING.keys())
@pytest.mark.parametrize("policy", HEADERS)
def test_counts_are_cumulative(policy, answer):
    """The number in a notice is that of all messages that have left since the conversation began."""
    asked = []
    ask = None if answer is None else lambda prompt: answer(prompt, asked.append(prompt) or len(asked))
    knobs = {"keep_recent_tokens": 1_500, "strategy": "truncate"} if policy == "opal" else {}
    kept, said, folds = [], 0, 0
    for added in (24, 10, 11, 30, 8):
        kept, said = [*kept, *talk(added, said)], said + added
        made = presets.get(policy, **knobs)
        outcome = refold.compact(kept, policy=made, window=9_000, force=policy == "opal", ask=ask)
        kept = outcome.messages
        folds += outcome.compacted
        (told,) = filter(None, (re.match(HEADERS[policy], message["content"]) for message in kept))
        assert int(told[1]) == said - (len(kept) - 1)
    assert folds >= 3


def test_counts_of_each_kind_are_cumulative():
    """CodeBuddy and Opal: in a list of the caller's the kinds are read from the earlier notice."""
    for policy, line in (
        ("codebuddy", "User messages: 20, Assistant responses: 20, Tool calls: 0"),
        ("opal", "[Compacted 40 messages: 20 assistant, 20 user]"),
    ):
        made = presets.get(policy, **({"keep_recent_tokens": 1_500} if policy == "opal" else {}))
        kept = []
        for start in (0, 22):
            kept = [*kept, *talk(22, start)]
            kept = refold.compact(kept, policy=made, window=9_000, force=True).messages
        assert line in kept[0]["content"]
        assert len(kept) == 5


def test_kinds_of_summarised_messages_are_told_apart():
    """CodeBuddy, tier 4: of a summary in a list only the number of messages is known, not their kinds."""
    text = "[Conversation Summary — 16 earlier messages compacted]\n\nWHAT WAS"
    kept = [{"role": "system", "content": text}, *talk(20)]
    for start in (20, 36):
        kept = refold.compact(kept, policy="codebuddy", window=9_000, force=True).messages
        first, second, *rest = kept[0]["content"].split("\n")
        gone = start + 16 - 4
        assert first == f"[Conversation context — {gone} earlier messages removed to fit context window]"
        each = (gone - 16) // 2
        assert second == (
            f"User messages: {each}, Assistant responses: {each}, Tool calls: 0, summarised before: 16"
        )
        assert rest.count("WHAT WAS") == 1
        assert rest[0] == "Topics discussed:"
        assert rest[1].startswith("- m0 ")
        kept += talk(16, start)


def test_a_session_goes_on_counting_kinds():
    """Opal: a notice that a model's summary follows and precedes counts all, and repeats the summary."""
    working = [True]
    session = refold.open(
        "s",
        policy=presets.get("opal", keep_recent_tokens=1_500),
        window=9_000,
        store="memory:",
        ask=lambda _prompt: "SUMMARY" if working[0] else 1 / 0,
    )
    for start in (0, 20, 40):
        for message in talk(20, start):
            session.say(message)
        session.compact()
        working[0] = False
    gone = 60 - (len(session.view()) - 1)
    assert session.view()[0]["content"] == (
        "[Conversation summary — older messages were compacted]\n\n"
        f"[Compacted {gone} messages: {gone // 2} assistant, {gone // 2} user]\nSUMMARY"
    )


def test_a_session_knows_the_kinds_of_what_a_model_summarised():
    """CodeBuddy: the fold's own data says what a summary stands for, also in the plain tier after another."""
    working = [True]
    session = refold.open(
        "s",
        policy="codebuddy",
        window=9_000,
        store="memory:",
        ask=lambda _prompt: "SUMMARY" if working[0] else 1 / 0,
    )
    for start in (0, 20):
        for message in talk(20, start):
            session.say(message)
        session.compact()
        working[0] = False
    lines = session.view()[0]["content"].split("\n")
    assert lines[0] == "[Conversation context — 36 earlier messages removed to fit context window]"
    assert lines[1] == "User messages: 18, Assistant responses: 18, Tool calls: 0"
    assert lines[-1] == "SUMMARY"
