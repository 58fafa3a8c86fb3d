"""No bad summary passes: every way a summariser can fail has its verdict."""

import time

import pytest

from refold.core.flow import Answer, Failed
from refold.core.gate import misfit, verdict

GOOD = "The user wants a parser; it is done except for dates."


def test_a_summary_passes():
    assert verdict(Answer(text=GOOD)) == ""


@pytest.mark.parametrize("finish", ["stop", "end_turn", "STOP", "completed", "eos", ""])
def test_any_ordinary_end_passes(finish):
    assert verdict(Answer(text=GOOD, finish=finish)) == ""


def test_a_failure_is_told_with_its_kind():
    assert verdict(Failed(TimeoutError("60 s"))) == "the model failed: TimeoutError: 60 s"


def test_a_failure_with_a_long_text_is_told_shortly():
    assert len(verdict(Failed(ValueError("x" * 10_000)))) == 300


@pytest.mark.parametrize("finish", ["length", "max_tokens", "MAX_TOKENS", "incomplete", "max_output_tokens"])
def test_a_summary_that_was_cut_off_does_not_pass(finish):
    """The torture matrix, F: pi#7048 kept a summary cut in mid-word."""
    assert verdict(Answer(text=GOOD, finish=finish)) == "the summary was cut off"


@pytest.mark.parametrize("finish", ["tool_calls", "tool_use", "function_call"])
def test_a_tool_call_is_no_summary(finish):
    assert verdict(Answer(text=GOOD, finish=finish)) == "the model called a tool instead of summarising"
    assert verdict(Answer(text=GOOD, calls=1)) == "the model called a tool instead of summarising"


@pytest.mark.parametrize("finish", ["refusal", "content_filter", "SAFETY", "safety", "RECITATION"])
def test_a_refusal_is_no_summary(finish):
    assert verdict(Answer(text=GOOD, finish=finish)) == "the model refused"


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_nothing_is_no_summary(text):
    """The torture matrix, F: lossless-claw#877, 22 % empty."""
    assert verdict(Answer(text=text)) == "the summary was empty"
    assert verdict(Answer(text=text, reasoning=" \n")) == "the summary was empty"


def test_reasoning_alone_is_no_summary():
    assert verdict(Answer(text=" ", reasoning="let me see")) == "only reasoning, no summary"


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "read"}</tool_call>',
        "\n<function_calls>\n<invoke>",
        '{"name": "read", "arguments": {}}',
        '{ "tool" : "read"}',
        ' {"function": {}}',
    ],
)
def test_a_tool_call_written_as_text_is_no_summary(text):
    assert verdict(Answer(text=text)) == "the model wrote a tool call instead of a summary"


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, but I can’t summarize this.",
        "I am sorry. I am unable to do that",
        "Sorry, I cannot see the conversation",
        "Apologies, but I'm not able to do this.",
        "Unfortunately, I cannot summarise it.",
        "I cannot assist with this request.",
        "I can't help with that",
        "I am unable to summarize the conversation.",
        "i won't comply",
        "Please provide the conversation you would like me to summarize.",
        "Could you please share the transcript?",
        "Can you paste the text",
        "There is no conversation to summarize.",
        "I don't see any conversation here.",
        "I do not see a transcript",
        "   I'm sorry, but I can't do that",
    ],
)
def test_a_refusal_or_a_request_for_the_conversation_is_no_summary(text):
    """The torture matrix, F: langmem#69, "please provide the conversation" became the memory."""
    assert verdict(Answer(text=text)) == "the model refused or asked for the conversation"


@pytest.mark.parametrize(
    "text",
    [
        "The user said: I'm sorry, but I can't help with that.",
        "I read the file and cannot reproduce the error.",
        "Please note the constraint: no new dependencies.",
        "Sorry state of the tests: three of ten fail. Next: mend them.",
        "There is no error left.",
        '{"goal": "parse dates"}',
        "User asked to provide the transcript as JSON.",
    ],
)
def test_a_summary_that_speaks_of_such_things_passes(text):
    assert verdict(Answer(text=text)) == ""


def test_a_hostile_answer_is_judged_in_no_time():
    start = time.process_time()
    for text in (" " * 5_000_000 + "x", "sorry " * 1_000_000, "{" + " " * 5_000_000, "please " * 700_000):
        verdict(Answer(text=text))
    assert time.process_time() - start < 0.5


# -- the text against what it stands for -------------------------------------------------------------------

ENGLISH = (
    "The user wants the parser to be fixed and it is not done yet, for the tests are in the way of it. " * 3
)
GERMAN = (
    "Der Nutzer will, dass der Parser und die Tests nicht mehr auf den alten Daten laufen, die wir haben. "
    * 3
)
CHINESE = "用户希望修复解析器，并且不要修改测试文件。部署在星期五是被禁止的，因为团队周末不在。" * 2


@pytest.mark.parametrize(
    "text",
    [
        "Sure, I will fix the parser.",
        "Let me check the file first.",
        "I'll go ahead and run the tests.",
        "Hello there! How can I help?",
        "Thanks, that works.",
        "user: and now?",
        "#12 assistant: done",
        "You're welcome!",
    ],
)
def test_going_on_is_no_summary(text):
    """Fault C16: the summariser continues the conversation or answers the user."""
    assert misfit(text, ENGLISH) == "it goes on with the conversation instead of telling it"


@pytest.mark.parametrize(
    "text",
    [
        "Sure, here is the summary:\nThe user wants it.",
        "Let me summarize: this is an overview.",
        "## What the user wants\nA parser.",
        "The user said: sure, let me check.",
        "User wants a parser.",
        "S",
        "",
    ],
)
def test_a_summary_that_only_sounds_like_it_passes(text):
    assert misfit(text, ENGLISH) == ""


@pytest.mark.parametrize(
    ("text", "told", "why"),
    [
        (ENGLISH, GERMAN, "it is written in English, the conversation in German"),
        (CHINESE, ENGLISH, "it is written in Chinese or Japanese, the conversation in English"),
        (GERMAN, GERMAN, ""),
        (ENGLISH, "kurz", ""),
        ("a b c d", GERMAN, ""),
        ("x = foo(bar); return baz " * 40, GERMAN, ""),
        (CHINESE + ENGLISH, ENGLISH, ""),
    ],
)
def test_the_language_of_the_conversation(text, told, why):
    """On doubt it passes: code, short texts and mixed ones have no language."""
    assert misfit(text, told) == why


def test_the_band():
    assert misfit("x", "y", tokens=11, most=10) == "it has 11 tokens, more than the 10 it may have"
    assert misfit("x", "y", tokens=10, most=10) == ""
