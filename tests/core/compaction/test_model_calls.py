"""Every question to a model is weighed before it is asked, noted and priced."""

from dataclasses import dataclass

import pytest

from refold.core.compaction.cached_prefix import CachedPrefix
from refold.core.compaction.flow import Answer, Ask, Failed, run
from refold.core.compaction.model_calls import ModelCall, watch_calls
from refold.core.compaction.task import Step, Task
from refold.core.messages.message_text import visible_text
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import Allowance
from refold.core.models.windows import Price
from refold.core.tokens.counting import Counter
from refold.testing import Scripted

COUNTER = Counter(name="length", text=len, visible=visible_text)
SONNET = Price(3, 15, 0.3, 3.75)
PREFIX = CachedPrefix(
    format="anthropic", provider="anthropic", model="m", tokens=1_000, cached=900, price=SONNET
)


def task(**fields):
    return Task(messages=(), sizes=(), counter=COUNTER, window=10_000, room=10_000, **fields)


@dataclass
class Asking:
    """A flow that asks rounds of questions and says what came of them."""

    rounds: list
    closed: bool = False

    def flow(self):
        try:
            for asks in self.rounds:
                replies = yield tuple(asks)
            return Step(note=" ".join(type(reply).__name__ for reply in replies))
        finally:
            self.closed = True


def asked(*rounds, answers, before=None, **fields):
    """The step, the calls and the model after rounds of questions."""
    model, calls, asking = Scripted(answers), [], Asking(list(rounds))
    flow = watch_calls(asking.flow(), task(**fields), calls, before or Spent())
    step = run(flow, model)
    assert asking.closed
    return step, calls, model


def test_what_asks_nobody_is_passed_on():
    """A step is no flow."""
    step, calls = Step(note="done"), []
    assert run(watch_calls(step, task(), calls, Spent()), Scripted()) is step
    assert calls == []


def test_a_call_has_what_the_provider_reports_and_its_price():
    """Model, tokens, caches and dollars."""
    answer = Answer(
        text="ab",
        model="claude-sonnet-4-5",
        provider="anthropic",
        input_tokens=10_000,
        output_tokens=100,
        cache_read=9_000,
        cache_write=500,
        prefixed=True,
    )
    _, (call,), _ = asked([Ask("question", purpose="initial")], answers=[answer])
    assert call.dollars == pytest.approx((500 * 3 + 9_000 * 0.3 + 500 * 3.75 + 100 * 15) / 1e6)
    assert (call.purpose, call.model, call.prefixed, call.estimated) == (
        "initial",
        "claude-sonnet-4-5",
        True,
        False,
    )
    assert call.spent == Spent(
        calls=1, input=10_000, output=100, cache_read=9_000, cache_write=500, dollars=call.dollars
    )


def test_what_nobody_reports_is_estimated_and_says_so():
    """A plain callable gives text alone; whoever is asked may still have a price."""
    _, (call,), _ = asked([Ask("question", system="sys")], answers=["ab"], ask_price=SONNET)
    assert (call.prompt_tokens, call.answer_tokens, call.estimated) == (11, 2, True)
    assert call.dollars == pytest.approx((11 * 3 + 2 * 15) / 1e6)
    _, (call,), _ = asked([Ask("question")], answers=["ab"])
    assert call.dollars is None
    assert call.spent.unpriced == 1


def test_half_a_report_is_half_an_estimate():
    """Either number may be missing."""
    _, (call,), _ = asked([Ask("question")], answers=[Answer(text="ab", input_tokens=70)])
    assert (call.prompt_tokens, call.answer_tokens, call.estimated) == (70, 2, True)
    _, (call,), _ = asked([Ask("question")], answers=[Answer(text="ab", output_tokens=9)])
    assert (call.prompt_tokens, call.answer_tokens, call.estimated) == (8, 9, True)


def test_a_question_behind_a_prefix_is_estimated_with_it():
    """But not where whoever answered took the text."""
    ask = Ask("question", prefix=PREFIX, closing="sum up")
    _, (call,), _ = asked([ask], answers=[Answer(text="ab", prefixed=True)], ask_price=SONNET)
    assert (call.prompt_tokens, call.cache_read, call.cache_write) == (1_006, 900, 106)
    _, (call,), _ = asked([ask], answers=["ab"])
    assert (call.prompt_tokens, call.cache_read) == (8, 0)


def test_a_call_that_failed_counts_with_its_question():
    """A provider bills what it had read."""
    step, (call,), _ = asked([Ask("question")], answers=[OSError("down")], ask_price=SONNET)
    assert step.note == Failed.__name__
    assert call == ModelCall(
        purpose="summary",
        prompt_tokens=8,
        answer_tokens=0,
        failed="OSError: down",
        estimated=True,
        dollars=8 * 3 / 1e6,
    )


def test_no_question_is_asked_that_would_pass_a_cap():
    """It is weighed with an answer as long as it may be."""
    left = Allowance(tokens=100, tokens_cap="the cap is reached")
    step, calls, model = asked([Ask("q" * 60, max_tokens=41)], answers=["a"], allowance=left)
    assert step == Step(note="no model is asked: the cap is reached", failed=True, capped=True)
    assert (calls, model.asked) == ([], [])
    step, calls, _ = asked([Ask("q" * 60, max_tokens=40)], answers=["a"], allowance=left)
    assert not step.capped
    assert len(calls) == 1


def test_several_questions_are_weighed_together_and_after_those_before_them():
    """Rounds of one stage, and stages before it."""
    left = Allowance(tokens=100, tokens_cap="full")
    _, calls, _ = asked([Ask("q" * 60), Ask("q" * 60)], answers=["a", "b"], allowance=left)
    assert calls == []
    step, calls, model = asked([Ask("q" * 60)], [Ask("q" * 60)], answers=["a", "b"], allowance=left)
    assert step.capped
    assert len(calls) == len(model.asked) == 1
    step, calls, _ = asked([Ask("q" * 60)], answers=["a"], allowance=left, before=Spent(calls=1, input=50))
    assert step.capped


def test_dollars_are_weighed_at_the_price_of_whoever_is_asked():
    """Ten tokens at 3 dollars a million, and ten written at 15."""
    ask = Ask("q" * 10, max_tokens=10)
    enough, short = (Allowance(dollars=amount / 1e6, dollars_cap="full") for amount in (181, 179))
    assert not asked([ask], answers=["a"], allowance=enough, ask_price=SONNET)[0].capped
    assert asked([ask], answers=["a"], allowance=short, ask_price=SONNET)[0].capped
