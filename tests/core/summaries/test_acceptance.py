"""Whether an answer is accepted as a summary, and the state of the work at the cut."""

from functools import partial

import pytest

import refold
from growth import count_lines, stop_hang
from refold.core.compaction.flow import Answer, Failed
from refold.core.messages.message import Message
from refold.core.summaries.acceptance import (
    _empty_words,
    find_content,
    is_stand_in,
    make_stand_in,
    reject_copy,
    reject_reply,
    reject_text,
    reject_thin,
)
from refold.core.summaries.tidy import fit_sections, tidy_summary
from refold.core.summaries.work_state import STATE_SENTENCES, find_state
from refold.testing import assistant, call, result, summary, user

GOOD = "The user wants a parser; it is done except for dates."


def test_a_summary_passes():
    assert reject_reply(Answer(text=GOOD)) == ""


@pytest.mark.parametrize("finish", ["stop", "end_turn", "STOP", "completed", "eos", ""])
def test_any_ordinary_end_passes(finish):
    assert reject_reply(Answer(text=GOOD, finish=finish)) == ""


def test_a_failure_is_told_with_its_kind():
    assert reject_reply(Failed(TimeoutError("60 s"))) == "the model failed: TimeoutError: 60 s"


def test_a_failure_with_a_long_text_is_told_shortly():
    assert len(reject_reply(Failed(ValueError("x" * 10_000)))) == 300


@pytest.mark.parametrize("finish", ["length", "max_tokens", "MAX_TOKENS", "incomplete", "max_output_tokens"])
def test_a_summary_that_was_cut_off_does_not_pass(finish):
    """The torture matrix, F: pi#7048 kept a summary cut in mid-word."""
    assert reject_reply(Answer(text=GOOD, finish=finish)) == "the summary was cut off"


@pytest.mark.parametrize("finish", ["tool_calls", "tool_use", "function_call"])
def test_a_tool_call_is_no_summary(finish):
    assert reject_reply(Answer(text=GOOD, finish=finish)) == "the model called a tool instead of summarising"
    assert reject_reply(Answer(text=GOOD, calls=1)) == "the model called a tool instead of summarising"


@pytest.mark.parametrize("finish", ["refusal", "content_filter", "SAFETY", "safety", "RECITATION"])
def test_a_refusal_is_no_summary(finish):
    assert reject_reply(Answer(text=GOOD, finish=finish)) == "the model refused"


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_nothing_is_no_summary(text):
    """The torture matrix, F: lossless-claw#877, 22 % empty."""
    assert reject_reply(Answer(text=text)) == "the summary was empty"
    assert reject_reply(Answer(text=text, reasoning=" \n")) == "the summary was empty"


def test_reasoning_alone_is_no_summary():
    assert reject_reply(Answer(text=" ", reasoning="let me see")) == "only reasoning, no summary"


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
    assert reject_reply(Answer(text=text)) == "the model wrote a tool call instead of a summary"


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
    assert reject_reply(Answer(text=text)) == "the model refused or asked for the conversation"


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
    assert reject_reply(Answer(text=text)) == ""


def test_no_answer_hangs_a_pattern():
    with stop_hang():
        for text in (" " * 5_000_000 + "x", "sorry " * 1_000_000, "{" + " " * 5_000_000, "please " * 700_000):
            reject_reply(Answer(text=text))


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
        "THOUGHT: I will now run the tests of the parser.",
        "Great, the fix works. Next, let me look at the parser.",
    ],
)
def test_going_on_is_no_summary(text):
    """Fault C16: the summariser continues the conversation or answers the user."""
    assert reject_text(text, ENGLISH) == "it goes on with the conversation instead of telling it"


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
    assert reject_text(text, ENGLISH) == ""


@pytest.mark.parametrize(
    ("text", "told", "why"),
    [
        (ENGLISH, GERMAN, "it is written in English, the conversation in German"),
        (CHINESE, ENGLISH, "it is written in Chinese or Japanese, the conversation in English"),
        (GERMAN, GERMAN, ""),
        (ENGLISH, "kurz", ""),
        ("a b c d", GERMAN, ""),
        ("x = foo(bar); return baz " * 11, GERMAN, ""),
        (CHINESE + ENGLISH, ENGLISH, ""),
    ],
)
def test_the_language_of_the_conversation(text, told, why):
    """On doubt it passes: code, short texts and mixed ones have no language."""
    assert reject_text(text, told) == why


LESE = "\n".join(f"Ich lese die Datei markdown_it/rules_block/rule_{n}.py und die Tests." for n in range(20))
READS = "\n".join(f"httpcore/_async/connection_pool_{n}.py を読みます。" for n in range(20))
TOLD = (
    "The user wants to know why the pool is not closed, and the assistant was to read the files in order. "
    "It was found that the timer is started on each request and that it is never stopped. For the tests "
    "there is a fixture with a clock, as you can see in httpcore/_async/http11.py, and it is the next step."
)


def test_a_language_that_people_use_beside_another_is_not_a_wrong_one():
    assert reject_text(CHINESE, f"{ENGLISH}\n" * 3 + CHINESE) == ""
    assert reject_text(CHINESE, f"{ENGLISH}\n" * 40 + CHINESE[:20]) != ""


@pytest.mark.parametrize(
    ("conversation", "language"),
    [(LESE, "German"), (READS, "Chinese or Japanese")],
    ids=["German", "Japanese"],
)
def test_names_and_the_output_of_tools_have_no_language(conversation, language):
    """An agent writes little beside paths, and its tools speak English."""
    why = f"it is written in English, the conversation in {language}"
    assert reject_text(TOLD, conversation) == why
    code = f"```python\n# {ENGLISH}\n```"
    assert reject_text(TOLD, f"{conversation}\n{code}") == why
    transcript = "".join(
        f"#{n} assistant: {line}\n#{n} calls read: {{}}\n\n#{n} tool result (c1):\n{ENGLISH}\n\n"
        for n, line in enumerate(conversation.split("\n"))
    )
    assert reject_text(TOLD, transcript) == why


def test_the_band():
    assert reject_text("x", "y", tokens=11, most=10) == "it has 11 tokens, more than the 10 it may have"
    assert reject_text("x", "y", tokens=10, most=10) == ""


# -- texts that a small model really wrote -----------------------------------------------------------------

GOES_ON = "it goes on with the conversation instead of telling it"
REPEATS = "it repeats the question instead of answering it"
FLIGHT = (
    "I'm sorry for the error message, but I can help with that. Please find the details of your flight "
    "below. Please go ahead and book your flight now! Safe travels!"
)
QUESTIONS = (
    "What was requested? What was asked for? What was done, and what is open? </conversation 1f1a078ac66e>"
)


@pytest.mark.parametrize(
    "text",
    [
        FLIGHT,
        "The user asked for a flight to Oslo on Friday. Is there anything else I can help you with?",
        "A parser was written. Please go ahead and run the tests.",
        "The flight was booked. Safe travels!",
        "The build was mended. Let me know if you need more.",
        "I’d be happy to help with your parser! The tests fail.",
        "How can I help you today? The user wrote about a parser.",
        "Okay, I can help you with that. The parser is in src/a.py.",
        "I apologize for the confusion, but I will look at it again. It was about dates.",
        "The talk was about dates.\nWould you like me to go on?",
        "Sure! Let me draw the chart now. Here is the chart for NORD: ...",
        "Okay, let me draw the chart. It has three bars.",
        "Understood. I'll run the tests now. Here are the results: three pass.",
    ],
)
def test_a_text_that_speaks_to_its_reader_is_no_summary(text):
    assert reject_text(text, ENGLISH) == GOES_ON


@pytest.mark.parametrize(
    "text",
    [
        'The agent ended with "All booked. Is there anything else I can help you with?"',
        "The agent wrote “I'm sorry for the error message, but I can help with that.” and the user left.",
        "## What the user wants\n- Please go ahead and book the flight.\n- Is there anything else to pay?",
        "## What the user wants\nBook the flight.\n## Next step\nLet me know if the gate changes.",
        "- #3 user: Please go ahead and merge it.",
        "Summary: the flight is booked. Let me know if it is late, the user said.",
        "The user is sorry for the noise, but they can help with the release on Friday.",
        "The user asked whether there is anything else to pay; the agent said no.",
        "Sure! Let me summarise the conversation. The user wants a chart for NORD.",
        "Okay, I'll summarize what happened so far. The user wants a chart for NORD.",
        "Certainly. Here is what happened so far: the user said 'let me see the chart'.",
    ],
)
def test_a_summary_that_quotes_such_words_passes(text):
    assert reject_text(text, ENGLISH) == ""


def test_only_the_ends_of_a_text_are_looked_at():
    assert (
        reject_text("A flight was booked. Is there anything else? the agent asked. Nothing is open.", "")
        == ""
    )
    long = "".join(f"The user booked {chr(97 + n % 26)}{chr(97 + n // 26)}. " for n in range(676)) * 2
    assert reject_text(long + "Safe travels!", "") == ""  # too long to be looked through, and no small talk


@pytest.mark.parametrize(
    "text",
    [
        QUESTIONS,
        "What was requested? What was asked for?",
        "<conversation 1f1a078ac66e>\nThe user wants a parser.",
        "The user wants a parser.\n</conversation>",
        "The user wants a parser.\n</ Previous-Summary 1f1a>",
        "## Done\nWhat was finished, with the outcome.\n## What failed\nWhat was tried, and how it failed.",
    ],
)
def test_a_text_that_repeats_the_question_is_no_summary(text):
    asked = (
        "## Done\nWhat was finished, with the outcome.\n## What failed\nWhat was tried, and how it failed."
    )
    assert reject_text(text, ENGLISH, asked=asked) == REPEATS


def test_the_mark_of_the_question_belongs_in_no_summary():
    text = "The user wants a parser, see the mark 1f1a078ac66e there."
    assert reject_text(text, ENGLISH, nonce="1f1a078ac66e") == REPEATS
    assert reject_text(text, ENGLISH, nonce="000000000000") == ""
    assert reject_text(text, ENGLISH) == ""


@pytest.mark.parametrize(
    "text",
    [
        "What was requested? A parser for dates. What is open? Nothing. It is done and tested.",
        "The user asked: what is a fold? Which stages are there? Both were answered.",
        "The page has a tag </conversation> that the parser does not know. It is open.",
        "## Done\nWhat was finished, with the outcome.\nThe parser reads dates.\nThe tests pass.",
        "What is the port?",
    ],
)
def test_a_summary_that_has_questions_or_tags_in_it_passes(text):
    asked = "## Done\nWhat was finished, with the outcome."
    assert reject_text(text, ENGLISH, asked=asked) == ""


def test_a_stand_in_is_known():
    text = make_stand_in(4_000, None)
    assert is_stand_in(text)
    assert 3_900 < len(text) < 4_100
    assert is_stand_in(f"## History Summary\n\n{text}\n\n---\n\n## Turn\n\n{make_stand_in(10, 5)}")
    assert len(make_stand_in(4_000, 5).split()) == 6
    assert not is_stand_in("summary " * 500)  # a model that does not find its end
    assert not is_stand_in(f"{text} of the talk")
    assert not is_stand_in("")


@pytest.mark.parametrize("text", ["word " * 400, "The user wants to book a flight. " * 60])
def test_a_text_without_an_end_is_no_summary(text):
    assert reject_text(text, ENGLISH) == "it says the same again and again"


def test_a_text_that_repeats_a_little_passes():
    rows = "".join(f"- src/module_{n}.py: read, word{chr(97 + n)} changed, tests pass\n" for n in range(26))
    assert reject_text(rows, ENGLISH) == ""
    assert reject_text("word " * 59, ENGLISH) == ""


def test_a_text_of_few_lines_over_and_over_is_no_summary():
    looped = "## Open\n- The test of the parser is run again.\n" * 8
    assert reject_text(looped, ENGLISH) == "it says the same again and again"
    assert reject_text(looped[: len(looped) // 4], ENGLISH) == ""


@pytest.mark.parametrize("joint", ["\n", " "])
def test_a_long_list_that_differs_in_its_numbers_is_no_loop(joint):
    steps = [
        f"- Step {n}: `part_{n}.ex` has `annotate_{n}/2` now, and its {n} tests passed." for n in range(60)
    ]
    assert reject_text(joint.join(steps), ENGLISH) == ""
    assert reject_text(joint.join(steps[:6] * 10), ENGLISH) == "it says the same again and again"


def test_words_without_an_end_are_a_loop():
    assert reject_text("and the test of the parser " * 100, ENGLISH) == "it says the same again and again"


def test_many_files_may_have_one_status():
    """Each heading says something new, so that it is no loop, and nothing of it is dropped."""
    text = "\n".join(f"## src/part_{n}.py\n- It was ported, and its tests pass." for n in range(12))
    assert reject_text(text, ENGLISH) == ""
    assert tidy_summary(text) == text


def test_a_transcript_that_goes_on_is_no_summary():
    """Its outputs are invented."""
    went_on = (
        "I list the files.\n\n#2 user: <returncode>0</returncode>\n<output>\na.py\n</output>\n\n#3 user: ok"
    )
    assert reject_text(went_on, ENGLISH) == "it goes on with the conversation instead of telling it"
    quoted = "## Done\nThe files were listed:\n#2 user: a.py\n- #3 user: what then?\nSee #4 for more."
    assert reject_text(quoted, ENGLISH) == ""


def test_two_people_may_want_the_same():
    text = (
        "### Alice\n- Wants a refund to the original card\n\n### Bob\n- Wants a refund to the original card"
    )
    assert tidy_summary(text) == text


def test_a_line_that_a_section_has_said_twice_or_just_before_is_dropped():
    run, mend = "- The test of the parser is run again.", "- The parser of dates is mended."
    text = f"## Done\n{run}\n{run}\n{mend}\n{run}\n{mend}\n{run}\n- None\n- None\n- None"
    assert tidy_summary(text) == f"## Done\n{run}\n{mend}\n{run}\n{mend}\n- None\n- None\n- None"


def test_a_line_that_another_section_has_said_is_dropped_and_an_empty_section_too():
    """A small model fills the headings that it was asked for."""
    waits = "- The user waits for the next step."
    text = f"Memory\n\n## Open\n{waits}\n\n## Failed\n\n{waits}\n\n## Files\n{waits}\n- a.py was read by it"
    left = f"Memory\n\n## Open\n{waits}\n\n## Files\n- a.py was read by it"
    assert tidy_summary(text) == left


@pytest.mark.parametrize(
    "line",
    [
        "There were no failures in the process.",
        "- No errors.",
        "There were no files mentioned in the conversation.",
        "No decisions yet.",
    ],
)
def test_a_section_that_says_in_other_words_that_there_is_nothing_is_dropped(line):
    assert tidy_summary(f"## Done\n- It is mended.\n\n## Failed\n{line}") == "## Done\n- It is mended.\n"


@pytest.mark.parametrize("line", ["No files are to be deleted.", "No errors in app.log may be ignored."])
def test_a_rule_that_begins_with_no_stays(line):
    text = f"## Done\n- It is mended.\n\n## Failed\n{line}"
    assert tidy_summary(text) == text


class TestFitSections:
    """A long summary loses the ends of its sections."""

    def test_each_section_keeps_its_first_lines(self):
        parts = [f"## Part {at}\n" + "\n".join(f"- line {at}.{n} of it" for n in range(9)) for at in range(4)]
        text = "\n\n".join(parts)
        fitted = fit_sections(text, len(text) // 2, len)
        for at in range(4):
            assert f"## Part {at}\n- line {at}.0 of it\n- line {at}.1 of it" in fitted
        assert "line 3.8" not in fitted
        assert len(text) // 4 <= len(fitted) <= len(text) // 2

    def test_what_fits_is_not_touched(self):
        text = "## A\n\n- one\n\n\n## B\n- two"
        assert fit_sections(text, len(text), len) == text

    @pytest.mark.parametrize("text", ["one line " * 40, "## Done\n" + "- a line\n" * 40, ""])
    def test_one_section_is_not_cut_here(self, text):
        assert fit_sections(text, min(50, len(text) - 1), len) == ""

    def test_two_long_paragraphs_are_not_cut_here(self):
        assert fit_sections(f"## A\n{'words ' * 40}\n## B\n{'words ' * 40}", 100, len) == ""

    def test_a_section_ends_with_the_first_line_that_does_not_fit(self):
        text = f"## A\n- one\n- {'long ' * 30}\n- three\n## B\n" + "- two\n" * 9
        assert fit_sections(text, 70, len) == "## A\n- one\n\n## B\n" + "\n".join(["- two"] * 8)

    def test_a_heading_above_headings_stays_with_them(self):
        text = "## History\n\n### Done\n- one\n- two\n\n### Open\n- three\n- four"
        assert fit_sections(text, 50, len).startswith("## History\n\n### Done\n- one")

    def test_many_sections_beside_a_long_one_take_time_in_proportion(self):
        def fit(size):
            text = "# a\nx\n" * size + "# last\n" + "y\n" * size
            return count_lines(lambda: fit_sections(text, len(text) // 2, len))

        assert fit(200) < fit(100) * 2.5

    @pytest.mark.parametrize("block", ["```\nmake a\n\nmake b\n```", "| a | b |\n|---|---|\n| 1 | 2 |"])
    def test_code_and_tables_stay_whole_or_leave(self, block):
        text = f"## A\n- one\n{block}\n- after\n\n## B\n- two\n" + "- more of it\n" * 9
        for limit in range(20, len(text)):
            fitted = fit_sections(text, limit, len)
            assert (block in fitted) == (block.split("\n")[0] in fitted)
            assert len(fitted) <= limit


def test_code_stays_behind_a_line_that_is_code_by_itself():
    call = "curl -X POST localhost:8000/orders"
    text = f"## Done\n```make build```\n\n```\n{call}\n{call}\n```\n## Next\n- None"
    assert tidy_summary(text) == text


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_code_and_a_command_that_is_needed_twice_stay(fence):
    line = "return parser.read_empty_lines()"
    text = (
        f"{fence}\n{line}\n{line}\n{line}\n{fence}\n    {line}\n    {line}\n    {line}\n{line}\nthen\n{line}"
    )
    assert tidy_summary(text) == text


def test_a_table_stays_whole():
    line = "| --------------- | ------ |"
    text = f"## Files\n| path | status |\n{line}\n## Values\n| name of the host | port |\n{line}\n{line}"
    assert tidy_summary(text) == text


def test_another_kind_of_fence_inside_code_is_code():
    line = "return parser.read_empty_lines()"
    text = f"~~~\n```\n{line}\n{line}\n```\n{line}\n{line}\n~~~\n## Done"
    assert tidy_summary(text) == text


def test_lines_of_the_question_are_dropped():
    """Models of 1.5 billion parameters write the explanations of headings down before they begin."""
    asked = "## Decisions\nEach with its reason.\n## What the user wants\nRequests and corrections, the newest last."
    text = (
        "## What the user wants\nRequests and corrections, the newest last.\n## Decisions\n"
        "Each with its reason.\n- SQLite is the default, because it needs no server.\n## Open\n- the docs"
    )
    left = "## Decisions\n- SQLite is the default, because it needs no server.\n## Open\n- the docs"
    assert tidy_summary(text, asked) == left


@pytest.mark.parametrize(
    "line",
    [
        *("None.", "- None", "N/A", "- No open requests or tasks.", "No files were read or changed."),
        *("- No failed attempts.", "No next steps.", "There are no decisions.", "Nothing."),
    ],
)
def test_a_section_that_says_that_there_is_nothing_is_dropped(line):
    assert tidy_summary(f"## Done\n- the parser\n\n## Files\n{line}\n") == "## Done\n- the parser\n"


@pytest.mark.parametrize(
    "line",
    [
        *(
            "- No tests for dates yet.",
            "No files were changed, only read: a.py",
            "- no",
            "Nothing is tested.",
        ),
        "- No decision: Ann wants Redis, Bo wants SQLite.",
    ],
)
def test_a_section_that_begins_with_no_may_say_something(line):
    text = f"## Done\n- the parser\n\n## Open\n{line}"
    assert tidy_summary(text) == text


@pytest.mark.parametrize(
    "line",
    [
        *(
            "- No other files are to be changed.",
            "No new files are to be created",
            "- No files to be deleted",
        ),
        *("- No questions are to be asked.", "No decision was made on the colour of the form."),
    ],
)
def test_a_section_with_one_rule_stays(line):
    text = f"## What the user wants\n{line}\n## Done\n- the parser"
    assert tidy_summary(text) == text


def test_a_heading_that_comes_again_keeps_what_is_new_under_it():
    """Summaries that no model joined stand side by side."""
    first, again = "- Never push to main without a review.", "- Use tabs in every file of Go."
    text = f"## What the user wants\n{first}\n---\n## What the user wants\n{again}"
    assert tidy_summary(text) == text
    assert tidy_summary(f"## Done\n{first}\n## Done\n{first}\n## Done") == f"## Done\n{first}"


def test_a_first_line_without_a_heading_stays():
    line = "The parser of dates is mended."
    assert tidy_summary(f"{line}\n{line}") == line
    assert tidy_summary(f"{line}\nEach with its reason.", "Each with its reason.") == line


def test_many_blank_lines_become_one_except_in_code():
    text = "## Open\n\n\n\n- the docs\n```\na\n\n\nb\n```"
    assert tidy_summary(text) == "## Open\n\n- the docs\n```\na\n\n\nb\n```"


def test_a_copy_of_the_conversation_is_no_summary():
    said = [f"THOUGHT: step {n} looks at the parser of module {n}." for n in range(8)]
    reject = partial(reject_copy, conversation="\n".join(said), answers=said)
    copies = "it copies the conversation instead of telling it"
    assert reject("\n".join(said[:5])) == copies
    quoted = "\n".join(["## Rules of the user, word for word", *said[:3], "Everything else is done by now."])
    assert reject(f"{quoted}\nThe parser was read in eight modules.\nNothing failed so far.") == ""
    assert reject("\n".join(said[:3])) == ""
    talk = [
        "Please read the parser of dates.",
        "The parser of dates has two faults.",
        "Then mend both of them.",
    ]
    talk += ["Both faults are mended and tested."]
    assert reject_copy("\n".join(talk), "\n".join(talk), talk[1::2]) == copies
    whole = "\n".join(said[:4])
    assert reject_copy(whole, whole, [whole]) == copies


RULES = [f"- Rule {n}: never change a file of module {n}." for n in range(6)]
CODE = [f"    module_{n} = read_module(path_of({n}))" for n in range(6)]
TABLE = [f"| db{n}.harbour.lan | port 543{n} |" for n in range(6)]


@pytest.mark.parametrize(
    ("quoted", "answers"),
    [
        pytest.param(RULES, ["I follow them all."], id="rules of the user"),
        pytest.param(
            [*RULES, "I read module 1 first.", "Module 1 is read."],
            ["I read module 1 first.", "Module 1 is read."],
            id="rules and answers",
        ),
        pytest.param(["```", *CODE, "```"], CODE, id="code"),
        pytest.param(CODE, CODE, id="indented code"),
        pytest.param(TABLE, TABLE, id="table"),
        pytest.param(
            ["The plan, accepted by the user:", *RULES], ["\n".join(RULES), "\n".join(RULES)], id="plan"
        ),
    ],
)
def test_a_summary_may_quote_rules_code_and_tables(quoted, answers):
    """The question asks for the user's words word for word, and for values as they stand."""
    conversation = "\n".join([*quoted, *answers])
    text = "\n".join(
        ["## What the user wants", *quoted, "## Done", "- Module 3 was read and nothing was found."]
    )
    assert reject_copy(text, conversation, answers) == ""


@pytest.mark.parametrize("text", ["OK.", "Okay!", "Done.", "Understood, will do.", "N/A", "- none"])
def test_an_acknowledgement_is_no_summary(text):
    assert reject_reply(Answer(text=text)) == "an acknowledgement, no summary"


@pytest.mark.parametrize(
    "text", ["Done: the parser.", "S", "Nothing is open.", "Yes to berth 4.", "OK " * 90]
)
def test_what_says_something_is_no_acknowledgement(text):
    assert reject_reply(Answer(text=text)) == ""


@pytest.mark.slow
def test_no_text_hangs_a_pattern():
    hostile = ("what " * 500_000, "<" * 2_000_000, "? " * 1_000_000, "sorry " * 300_000, '" ' * 1_000_000)
    with stop_hang():
        for text in hostile:
            reject_text(text, ENGLISH, nonce="1f1a078ac66e", asked=ENGLISH)


# -- the state of the work -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "state"),
    [
        ([], "working"),
        ([user("go")], "working"),
        ([user("go"), call("bash")], "awaiting tool"),
        ([user("go"), call("bash", id="c"), result("c", "ok")], "working"),
        ([call("bash", id="c"), user("stop")], "working"),
        ([user("go"), assistant("Which of the two do you mean?")], "awaiting user"),
        (
            [user("go"), assistant("The plan is ready. Shall I proceed with the deletion?")],
            "awaiting approval",
        ),
        ([user("go"), assistant("All tests pass; the fix is in.")], "finished"),
        ([user("go"), assistant("I look:\n```bash\nls\n```")], "working"),
        ([summary("was")], "working"),
        ([call("bash", id="c"), assistant("done with it")], "finished"),
        ([call("a", id="c"), user("hm"), call("b", id="d"), user("x"), call("b", id="e")], "awaiting tool"),
        ([call("b", id="d"), Message("assistant", ())], "finished"),
    ],
)
def test_the_state_at_the_cut(messages, state):
    """The torture matrix, H."""
    assert find_state(messages) == state
    assert STATE_SENTENCES[state].startswith("State: ")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ('I will drop tables t1 to t9.\n\nPlease confirm with "yes" to proceed.', "awaiting approval"),
        ("Reply YES and I will delete the bucket.", "awaiting approval"),
        ("I wait for your go-ahead.", "awaiting approval"),
        ("Let me know if you would like to proceed with the booking.", "awaiting approval"),
        ("Bitte bestätigen Sie mit Ja.", "awaiting approval"),
        ("Confirme com sim para continuar.", "awaiting approval"),
        ("Veuillez confirmer.", "awaiting approval"),
        ("続けてよろしいでしょうか。", "awaiting approval"),
        ("请确认是否删除。", "awaiting approval"),
        ("Let me know which option you prefer.", "awaiting user"),
        ("Please provide your user ID, and I look it up.", "awaiting user"),
        ("どちらがよいか教えてください。", "awaiting user"),
        ("All is done. Let me know if you need anything else!", "finished"),
        ("Please let me know how I can help further.", "finished"),
        ('The dialog says "Please confirm" now.', "finished"),
        ("Dear guest, please confirm your stay.\n\nThe letter is in letter.txt.", "finished"),
    ],
)
def test_a_request_needs_no_question_mark(text, state):
    assert find_state([user("go"), assistant(text)]) == state


@pytest.mark.parametrize(
    "text",
    [
        "La prueba confirma que el arreglo funciona.",
        "Il test conferma per tre volte il risultato.",
        "تم تأكيد الطلب وإرسال البريد.",
        "Deine Freigabe liegt vor; alles ist ausgerollt.",
        "Die neuen Tests bestätigen sie.",
        "The wizard asks people to type yes before it deletes.",
        "The three runs confirm by independent means that it works.",
        "部署已完成，用户已收到“请确认”的邮件。",
        "El log indica que todo está bien.",
        "Il log indica un errore alla riga 3, che ho corretto.",
        "I fixed the bug. If anything else breaks, please tell me.",
        "The docs now tell users: please share your logs.",
        "修复完成。如有任何问题，请告诉我。",
        "修正しました。何かあれば教えてください。",
        "수정했습니다. 궁금한 점이 있으면 언제든지 알려 주세요.",
        "Fertig. Sag mir, wenn noch etwas fehlt.",
        "Bitte geben Sie Bescheid, falls etwas fehlt.",
        "C'est fait. Dites-moi si autre chose manque.",
        "Все готово. Пожалуйста, сообщите, если что-то не так.",
    ],
)
def test_a_report_that_asks_the_reader_nothing_is_finished(text):
    assert find_state([user("go"), assistant(text)]) == "finished"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("To go on, reply YES.", "awaiting approval"),
        ("Ich warte auf deine Freigabe.", "awaiting approval"),
        ("Antworten Sie bitte mit Ja.", "awaiting approval"),
        ("Pour continuer, répondez oui.", "awaiting approval"),
        ("Confirma con sí.", "awaiting approval"),
        ("Rispondi sì per continuare.", "awaiting approval"),
        ("يرجى تأكيد الطلب.", "awaiting approval"),
        ("진행해도 될까요.", "awaiting approval"),
        ("Please tell me your user ID.", "awaiting user"),
        ("Sag mir, welche Datei du meinst.", "awaiting user"),
        ("Per favore, indica il nome.", "awaiting user"),
        ("请告诉我您的订单号。", "awaiting user"),
        ("이름을 알려 주세요.", "awaiting user"),
    ],
)
def test_an_order_to_the_reader_is_a_request(text, state):
    assert find_state([user("go"), assistant(text)]) == state


def test_a_dead_call_at_the_end_is_work():
    """A call that nobody answered and that is not open any more."""
    assert find_state([call("bash", id="c"), summary("x")]) == "working"


# -- what a text must hold -----------------------------------------------------------------------------------

JUNK = [
    "...",
    "…",
    "a",
    "no",
    "42",
    "Summary:",
    "I don't know.",
    "OK.",
    "-",
    "???",
    "```\n```",
    "**Summary**",
    "# Summary",
    "## What the user wants\n## Done\n## Open",
    "N/A",
    "null",
    "{}",
    "undefined",
    "The summary.",
    "Summary of the conversation.",
    "Here is the summary of the conversation:",
    "This is a summary.",
    "The user asked a question and the assistant answered it.",
    "The user and the assistant had a conversation.",
    "The conversation covered various topics.",
    "Several topics were discussed, and the assistant provided helpful answers to the user's questions.",
    "The user asked for help with a task. The assistant helped. Everything was completed successfully.",
    "A productive discussion took place in which both parties exchanged information on several matters.",
    "I have summarized the conversation above.",
    "Nothing important was discussed.",
    "The assistant provided detailed information and the user was happy.",
    "lorem ipsum",
    "[summary]",
    "Test.",
]


def work_talk():
    """Six thousand tokens of work with names, decisions and a rule, that vary from message to message."""
    causes = (
        "the parser drops the last comma",
        "the retry loop sleeps twice",
        "the cache ignores the tenant",
    )
    messages = [
        {"role": "user", "content": "Fix the failing test in tests/test_parser.py. Never touch setup.cfg."}
    ]
    for n in range(40):
        first, second = causes[n % 3], causes[(n + 1) % 3]
        said = f"It seems that {first} in module {n}; we decided to rewrite it because {second}. " * 6
        messages += [
            {"role": "assistant", "content": said},
            {"role": "user", "content": f"Good, but {second}. The owner is Ann. Continue with {n + 1}."},
        ]
    return messages


@pytest.mark.few_values(3)
@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.slow
def test_junk_is_no_summary_of_six_thousand_tokens(junk):
    outcome = refold.compact(work_talk(), ask=lambda _: junk, window=4_000)
    assert outcome.stages == ("digest",)
    assert "Never touch setup.cfg" in str(outcome.messages)


@pytest.mark.parametrize(
    "text",
    [
        "The parser drops the last comma and the retry loop sleeps twice; both are rewritten. Never touch setup.cfg.",
        "- parser: drops a comma, rewritten\n- retry loop: sleeps twice\n- cache: ignores the tenant\n- setup.cfg: no",
    ],
)
def test_a_terse_summary_passes(text):
    outcome = refold.compact(work_talk(), ask=lambda _: text, window=4_000)
    assert outcome.stages == ("summarize",)


@pytest.mark.parametrize(("replaced", "least"), [(499, 0), (500, 1), (2_000, 3), (8_000, 5), (256_000, 10)])
def test_the_demand_grows_with_what_a_text_stands_for(replaced, least):
    words = [f"{chr(97 + n)}word" for n in range(26)]
    for count in range(12):
        why = reject_thin(" ".join(words[:count]), [" ".join(words * 4)], replaced=replaced)
        assert bool(why) is (count < min(least, 26 // 4))


def test_a_talk_that_says_little_is_told_in_few_words():
    talk = ["alpha beta gamma delta " * 90] * 9
    assert reject_thin("alpha", talk, replaced=4_000) == ""
    assert reject_thin("omega", talk, replaced=4_000) == "it tells nothing of the conversation"
    assert reject_thin("omega", ["w1 w2 alpha " * 900], replaced=4_000) == ""


def test_scripts_without_blanks_are_compared_by_pairs():
    talk = ["修复解析器，不要修改测试文件。部署在星期五是被禁止的。" * 40]
    assert reject_thin("解析器要修复，星期五禁止部署。", talk, replaced=4_000) == ""
    assert "nothing" in reject_thin("用户 对话 摘要", talk, replaced=4_000)


@pytest.mark.parametrize("text", ["...", "```\n```", "Summary:", "- \n- ", "42"])
def test_a_reply_without_words_is_none_for_every_policy(text):
    assert reject_reply(Answer(text=text)) == "the summary has no words"


def test_words_about_a_summary_tell_nothing():
    _empty_words.cache_clear()  # a law that was not traced may have asked for them
    assert find_content("Here is a summary of the conversation: the parser of dates") == {"pars", "date"}


def test_of_equal_sections_one_stays():
    section = "## Legend\nThe legend is not shown, and nobody waits for it.\n"
    text = f"{section}\n## Next\nDraw it.\n\n{section}\n{section}"
    assert tidy_summary(text) == f"{section}\n## Next\nDraw it.\n"


def test_two_files_may_have_equal_sections():
    text = "\n".join(f"## src/{name}.py\n### Status\nPorted; its tests pass." for name in "ab")
    assert tidy_summary(text) == text
    assert tidy_summary(f"{text}\n{text}") == text


def test_a_text_of_which_half_is_repeated_is_a_loop():
    lines = [f"- step {number} of the plan was done" for number in range(4)]
    assert reject_text("\n".join([*lines, *lines]), "") == "it says the same again and again"
    assert reject_text("\n".join([*lines, *lines[1:], "- and the end"]), "") == ""


@pytest.mark.parametrize(
    "item",
    [
        "### src/part_{}.py\nStatus: done\nTests: passing\n",
        "- path: src/part_{}.py\n  status: done\n  tests: pass\n",
        '  {{\n    "path": "src/part_{}.py",\n    "status": "done",\n    "tests": "pass"\n  }},\n',
        "<file>\n<path>src/part_{}.py</path>\n<status>done</status>\n<tests>pass</tests>\n</file>\n",
    ],
    ids=["headings", "YAML", "JSON", "XML"],
)
def test_what_every_item_of_a_list_has_is_no_loop(item):
    items = [item.format(number) for number in range(16)]
    assert reject_text("".join(items), "") == ""
    assert reject_text("".join(items[:2] * 8), "") == "it says the same again and again"
