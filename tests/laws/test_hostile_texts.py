"""No text in any role ends a fold: signs without names, odd digits, halves of letters and of what tools print."""

import json
import random

import refold
from refold import Message, Text, ToolCall, ToolResult, formats
from sample_sizes import few_or_all, sample

PIECES = (
    *(" = 5", ": 5", "= ²", "is ½", "٣", "٢٠٢٦", "9" * 5_000, "1e999", "-0", "007", "1.2.3.4"),
    *("İ", "ß", "ﬁ", "\ud800", "👩‍👩‍👧", "\u0301", "\x00", "\x0c", "\x1c", "\x85", "\u2028", "\r"),
    *("", " ", "\n\n", "?", "。", ". ", "'", '"', "```", "**", "- ", "1. ", "- [ ] ", "|", "x" * 500),
    *("My name is", "I am", "No", "never", "Which one? It is 7.", "Call me", "set to", "->", "#²", "@b"),
    *("{", "[", "[" * 900, "[]", "{}", '{"":5}', '[1,"a",null,{}]', '{"error":[]}', '{"exit_code":"²"}'),
    *("[1e999]", '{"status":{"state":null}}', '{"todos":[null]}', "null", "- a: [", "a,b\n1", "+--+"),
    *("Traceback (most recent call last):", '  File "', "    at ", "E   ", "FAILED ", "error:"),
    *("== ² failed, ٣ passed in 0.1s ==", "Ran ² tests in 1s", "Tests: ² failed, ٣ total", "(² rows)"),
    *("HTTP/1.1 ٤٠٤ Not Found", "@@ -²,1 +1 @@", "diff --git", "+++", "commit ", "\x1b[", "\x1b]8;;"),
    *("[... ² lines left out]", "<refold-summary>", "<returncode>²</returncode>", "<output>", "sed -n '"),
)
"""Where a pattern, a cut or a conversion may find nothing, or something else than it was made for."""


def make_texts(seed, count):
    """Pieces one by one, then so many texts of several."""
    chance = random.Random(seed)
    joints = ("", "", " ", "\n", "\r\n")
    mixed = (
        chance.choice(joints).join(chance.choices(PIECES, k=chance.randrange(2, 9))) for _ in range(count)
    )
    return [*PIECES, *mixed]


def speak(text):
    """A text in every role, and as the arguments of calls."""
    said = text if text.strip() else "Well"
    calls = (
        ToolCall("a", "bash", {"command": text, "": 5}),
        ToolCall("b", "TodoWrite", json.dumps({"todos": text})),
    )
    return [
        Message("system", (Text(said[:40]),)),
        Message("user", (Text(said),)),
        Message("assistant", (Text(f"{said}\nWhich one?"), *calls)),
        *(Message("tool", (ToolResult(call.id, (Text(text),), name=call.name),)) for call in calls),
        Message("assistant", (Text(said),)),
        Message("user", (Text("Go on"),)),
    ]


def test_no_text_ends_a_fold_and_what_is_left_is_valid():
    for number, text in enumerate(make_texts(1, few_or_all(10, 5_000))):
        wire = ("openai", "anthropic", "responses", "gemini")[number % 4]
        history = formats.get(wire).render(speak(text))
        outcome = refold.compact(history, format=wire, window=250, policy="refold")
        assert refold.validate(outcome.messages, wire) == [], repr(text)
        assert outcome.tokens_after <= outcome.tokens_before, repr(text)


def test_no_text_ends_a_session_and_none_is_lost():
    for text in sample(make_texts(2, 2_000), 30):
        history = speak(text)
        with refold.open("talk", store="memory:", window=250) as session:
            session.prepare(history)
            session.recall(text[:100])
            session.observe({"choices": [{"message": {"content": text, "tool_calls": [{}]}}], "usage": {}})
            session.compact()
            assert session.original("#1-#6") == history[1:], repr(text)
