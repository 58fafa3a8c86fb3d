"""Every rule of every provider: its stable name, its place, and what it says to a person."""

import pytest

from refold import Problem
from refold.formats import get

USER = {"role": "user", "content": "hi"}
ASK = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
ANSWER = {"role": "tool", "tool_call_id": "c", "content": "x"}
BROKEN = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}],
}
TWICE = {"role": "assistant", "content": None, "tool_calls": [ASK["tool_calls"][0], ASK["tool_calls"][0]]}
USE = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "x"}
BLOCK = {"type": "compaction", "content": "what was said", "signature": "s"}
ADDITION = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}
PARTS = {"role": "user", "parts": [{"text": "hi"}]}
CALL = {"functionCall": {"name": "f", "args": {}}}
RESPONSE = {"functionResponse": {"name": "f", "response": {"output": "x"}}}


def by(role, *blocks):
    return {"role": role, "content": list(blocks)}


def parts(role, *values):
    return {"role": role, "parts": list(values)}


CASES = [
    ("openai", [ANSWER], 0, "result-without-call", "no call before this result has the id 'c'"),
    ("openai", [ASK, USER], 0, "call-without-result", "call 'c' of 'f' has no result"),
    ("openai", [ASK], 0, "open-call", "call 'c' of 'f' has no result"),
    ("openai", [ASK, ANSWER, ANSWER], 2, "duplicate-result", "call 'c' is answered a second time"),
    ("openai", [TWICE, ANSWER], 0, "duplicate-call-id", "the call id 'c' is used twice"),
    (
        "openai",
        [ASK, USER, ANSWER],
        2,
        "results-not-adjacent",
        "the result of call 'c' does not stand directly behind its call",
    ),
    ("openai", [BROKEN, ANSWER], 0, "invalid-arguments", "the arguments of call 'c' are not JSON"),
    ("openai", [{"role": "critic"}], 0, "unknown-role", "the role 'critic' is not known"),
    ("openai", [{"role": "user"}], 0, "empty-content", "a user message needs content"),
    (
        "openai",
        [{"role": "assistant"}],
        0,
        "content-null-without-calls",
        "an assistant message without tool calls needs content",
    ),
    ("responses", [{"role": "user"}], 0, "empty-content", "a user message needs content"),
    (
        "responses",
        [{"type": "reasoning", "summary": []}],
        0,
        "reasoning-without-item",
        "a reasoning item is followed by nothing, not by the item it led to",
    ),
    (
        "responses",
        [{"type": "reasoning", "summary": []}, USER],
        0,
        "reasoning-without-item",
        "a reasoning item is followed by user, not by the item it led to",
    ),
    (
        "responses",
        [{**USER, "id": "m"}, {**USER, "id": "m"}],
        1,
        "duplicate-item-id",
        "the item id 'm' occurs twice",
    ),
    (
        "anthropic",
        [by("assistant", {"type": "text", "text": "x"})],
        0,
        "first-not-user",
        "the first message is from the assistant",
    ),
    (
        "anthropic",
        [{"role": "system", "content": "s"}, USER],
        0,
        "system-inside",
        "a system message stands directly behind a user's turn, and before a reply or last",
    ),
    ("anthropic", [{"role": "user", "content": ""}], 0, "empty-content", "a message needs content"),
    (
        "anthropic",
        [by("user", {"type": "text", "text": " "})],
        0,
        "empty-text",
        "a text needs something to read",
    ),
    (
        "anthropic",
        [USER, by("assistant", {**USE, "id": "a.b"})],
        1,
        "invalid-call-id",
        "the call id 'a.b' has characters that are not allowed",
    ),
    ("anthropic", [by("user", USE)], 0, "wrong-role", "only the assistant calls tools"),
    ("anthropic", [USER, by("assistant", USE, RESULT)], 1, "wrong-role", "tool results come from the user"),
    (
        "anthropic",
        [USER, by("assistant", {**USE, "input": "{"})],
        1,
        "invalid-arguments",
        "the arguments of call 'c' are not an object",
    ),
    (
        "anthropic",
        [USER, by("assistant", {"type": "thinking", "thinking": "x"})],
        1,
        "thinking-without-signature",
        "thinking needs its signature: keep it verbatim or drop it whole",
    ),
    (
        "anthropic",
        [USER, by("assistant", USE), by("user", {"type": "text", "text": "x"}, RESULT)],
        2,
        "results-not-first",
        "tool results come first in the user's turn behind the call",
    ),
    (
        "anthropic",
        [USER, by("assistant", BLOCK)],
        1,
        "compaction-misplaced",
        "a signed compaction block is the first block of the first message, from the assistant",
    ),
    (
        "anthropic",
        [by("assistant", BLOCK), USER, by("assistant", BLOCK), USER],
        0,
        "compaction-ambiguous",
        "more than one compaction block has content: send only the latest",
    ),
    (
        "anthropic",
        [USER, by("assistant", {"type": "compaction", "content": ""})],
        1,
        "compaction-empty",
        "the content of a compaction block is null or a text",
    ),
    (
        "anthropic",
        [by("user", ADDITION)],
        0,
        "wrong-role",
        "a tool_addition block stands in a system message",
    ),
    (
        "anthropic",
        [USER, by("system", {"type": "image", "source": {"type": "url", "url": "u"}})],
        1,
        "wrong-role",
        "a system message holds text and changes of tools only",
    ),
    (
        "responses",
        [{"type": "compaction_trigger"}, USER],
        0,
        "trigger-not-last",
        "a compaction trigger is the last item of the input",
    ),
    (
        "responses",
        [USER, {"type": "configuration_update"}],
        1,
        "empty-configuration-update",
        "an update of the configuration has `reasoning`, `text`, or both",
    ),
    (
        "responses",
        [USER, {"type": "compaction", "encrypted_content": ""}],
        1,
        "compaction-empty",
        "a compaction item needs its encrypted content, as it came",
    ),
    (
        "converse",
        [by("user", {"text": "a"}), by("user", {"text": "b"})],
        1,
        "roles-not-alternating",
        "two messages of the user stand side by side",
    ),
    (
        "converse",
        [by("user", {"text": "a"}), by("assistant", {"toolUse": {"toolUseId": "a.b", "name": "f"}})],
        1,
        "invalid-call-id",
        "the call id 'a.b' is not 1 to 64 letters, digits, _ and -",
    ),
    (
        "anthropic",
        [{**USER, "clear_at": "never"}],
        0,
        "invalid-clear-at",
        "`clear_at` stands in a system message and is `never` or `next_user_message`",
    ),
    (
        "anthropic",
        [USER, {"role": "system", "content": "x", "clear_at": "tomorrow"}],
        1,
        "invalid-clear-at",
        "`clear_at` stands in a system message and is `never` or `next_user_message`",
    ),
    ("gemini", [parts("user")], 0, "empty-content", "a content needs parts"),
    ("gemini", [parts("user", {"text": ""})], 0, "empty-text", "a text needs something to read"),
    (
        "gemini",
        [PARTS, parts("model", CALL), parts("user", RESPONSE, RESPONSE)],
        2,
        "call-response-count",
        "2 function responses stand behind 1 function calls",
    ),
    (
        "gemini",
        [PARTS, parts("model", {"text": "x"}), parts("model", CALL)],
        2,
        "call-not-behind-user",
        "function calls stand directly behind the user or a function response",
    ),
]


@pytest.mark.parametrize(
    ("name", "items", "index", "rule", "words"), CASES, ids=[f"{case[0]}-{case[3]}" for case in CASES]
)
def test_a_problem_has_its_place_its_rule_and_its_words(name, items, index, rule, words):
    wire = get(name)
    assert Problem(index, rule, words) in wire.check(wire.parse(items))


def test_arguments_as_an_object_say_that_text_is_wanted():
    wire = get("openai")
    item = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}],
    }
    assert Problem(0, "invalid-arguments", "the arguments of call 'c' are not JSON text") in wire.check(
        wire.parse([item])
    )
