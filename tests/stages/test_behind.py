"""A summary asked for behind the conversation itself: when, with which words, and what if it goes wrong."""

from dataclasses import replace

import pytest

from refold.core.compaction.cached_prefix import CachedPrefix
from refold.core.compaction.flow import Answer, run
from refold.core.compaction.task import Step, Task
from refold.core.messages import transcript
from refold.core.messages.message import Message
from refold.core.models.windows import Price
from refold.core.summaries import wrappers
from refold.policies.house import house_counter
from refold.policies.keep_rules import LastMessages
from refold.stages.summarize import Summarize
from refold.testing import Scripted

COUNTER = house_counter(None)
PROSE = "we looked at the parser and changed the second rule of the grammar again " * 30
TOLD = "## What the user wants\nThe user wants the parser mended.\n## Done\nThe second rule was changed."
PREFIX = CachedPrefix(
    format="anthropic",
    provider="anthropic",
    model="claude-sonnet-4-5",
    tokens=6_000,
    cached=5_800,
    price=Price(3, 15, 0.3, 3.75),
)
MESSAGES = tuple(Message("user" if i % 2 == 0 else "assistant", f"message {i} {PROSE}") for i in range(12))
STAGE = Summarize(
    keep=LastMessages(messages=2),
    prompt="refold",
    style=transcript.house_layout,
    frame=wrappers.wrap_summary,
    ledger_tokens=500,
    originals=True,
)


def work(**fields):
    known = {"window": 32_768, "room": 32_768, "model": True, "ask_window": 32_768, "prefix": PREFIX}
    return Task(messages=MESSAGES, sizes=tuple(COUNTER.sizes(MESSAGES)), counter=COUNTER, **known | fields)


def proposed(task, *answers, stage=STAGE):
    model = Scripted(list(answers) or TOLD)
    step = stage(task)
    return (step if isinstance(step, Step) else run(step, model)), model.asked


def test_the_question_is_one_message_behind_the_conversation():
    """It says who speaks, what leaves, and that all of it is data."""
    step, (ask,) = proposed(work())
    assert step.edits
    assert ask.prefix is PREFIX
    assert ask.purpose == "behind"
    assert ask.closing.startswith("This message comes from the program")
    assert "message 9" in ask.closing
    assert "message 10" not in ask.closing
    assert "do not call tools" in ask.closing
    assert "{{" not in ask.closing


def test_whoever_takes_only_text_gets_all_of_it():
    """The question itself is the transcript with its prompt, as ever."""
    _, (ask,) = proposed(work())
    _, (plain,) = proposed(work(prefix=None))
    assert ask.text == plain.text
    assert (ask.system, ask.max_tokens) == (plain.system, plain.max_tokens)
    assert plain.prefix is None
    assert "message 3" in ask


@pytest.mark.parametrize(
    "fields",
    [
        {"tokens": 27_000, "cached": 27_000},  # with the answer it would not fit into 0.9 of the window
        {"cached": 0},
        {"tokens": 20_000, "cached": 2_000},  # mostly cold
        {"price": None},
    ],
)
def test_where_it_does_not_fit_or_is_not_cheaper_the_transcript_is_sent(fields):
    """House law 12, and money."""
    _, (ask,) = proposed(work(prefix=replace(PREFIX, **fields)))
    assert ask.prefix is None
    assert ask.purpose != "behind"


def test_a_transcript_in_several_pieces_is_no_match():
    """Each piece is a question of its own."""
    _, asked = proposed(work(ask_window=3_000))
    assert len(asked) > 1
    assert all(ask.prefix is None for ask in asked)


def test_a_window_too_small_for_a_summary_is_too_small_behind_the_conversation():
    """Nobody is asked."""
    step, asked = proposed(work(ask_window=600))
    assert (step.edits, asked) == ((), [])


@pytest.mark.parametrize(
    "bad",
    [
        Answer(text="", calls=1, finish="tool_calls"),
        Answer(text="cut", finish="length"),
        "Sure, I'll go ahead and fix the next rule now.",
        OSError("down"),
    ],
    ids=["a tool call", "cut off", "it goes on", "nobody answered"],
)
def test_after_a_bad_answer_the_transcript_is_sent_once(bad):
    """The gate judges it like any other; the second question does not show the conversation as one."""
    step, (first, second) = proposed(work(), bad, TOLD)
    assert step.edits
    assert (first.prefix, second.prefix) == (PREFIX, None)
    assert "an answer was turned down" in second


def test_two_bad_answers_leave_the_history():
    """And the next stage has its turn."""
    step, asked = proposed(work(), "", "")
    assert (step.edits, step.failed, len(asked)) == ((), True, 2)


def test_systems_and_callers_with_words_of_their_own_are_asked_as_they_are():
    """Only the house's prompt has words for it."""
    for changed in (
        replace(STAGE, prompt="refold.policies.systems:prompts/opal.md"),
        replace(STAGE, instructions="Be short."),
    ):
        _, asked = proposed(work(), stage=changed)
        assert [ask.prefix for ask in asked] == [None]
