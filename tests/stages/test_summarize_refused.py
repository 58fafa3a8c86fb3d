"""A summariser that refuses a question for its size is asked again, in the window that it named."""

import asyncio
import re

import pytest

import refold
from fake_provider import FakeProvider, says
from refold import presets
from refold.core.compaction.cached_prefix import CachedPrefix
from refold.core.compaction.flow import Ask, Failed, run
from refold.core.compaction.model_calls import find_next_window
from refold.core.models.windows import Price
from refold.core.tokens.estimate import estimate
from refold.errors import AnswerFailed
from refold.stages.requests import JOINT, Answered, Request, merge_summaries

SUMMARY = (
    "Ships are moored at berths; the tide decides when the pilot comes. The user asks how to moor each ship, "
    "one after the other, and the answer names its berth, which is seven times the number of the ship. "
    "Because of the tide the pilot is called first, in every case, before a ship is moored. Nothing was "
    "forbidden, nothing failed, no file was read or written, and no berth was given to two ships. What is "
    "open is the last question; it is of the same kind as those before it, and it waits for its berth. "
    "Who goes on from here calls the pilot first as well, looks at the tide, and names the berth by its "
    "number. Other harbours, other pilots and other tides did not come up, and nobody asked for a list."
)
NAMED = "prompt is too long: {size} tokens > {limit} maximum"
SILENT = "context_length_exceeded"


def talk(turns=40):
    tide = "because of the tide we call the pilot first. " * 30
    return [
        {"role": role, "content": text}
        for i in range(turns)
        for role, text in (
            ("user", f"Question {i}: how do we moor ship {i}?"),
            ("assistant", f"Answer {i}: berth {i * 7}. {tide}"),
        )
    ]


class Small:
    """A summariser that reads no more than `limit` tokens, as it counts them."""

    def __init__(self, limit, words=NAMED, scale=1.0):
        self.limit, self.words, self.scale = limit, words, scale
        self.asked, self.refused = [], 0

    def __call__(self, ask):
        size = round((estimate(ask) + estimate(ask.system)) * self.scale)
        if size > self.limit:
            self.refused += 1
            raise RuntimeError(self.words.format(size=size, limit=self.limit))
        self.asked.append(str(ask))
        return SUMMARY


def untold(outcome, asked):
    kept, text = [message["content"] for message in outcome.messages], "\n".join(asked)
    left = [m["content"] for m in talk() if m["content"] not in kept]
    assert left
    return [words for words in left if words not in text]


@pytest.mark.each_value
@pytest.mark.slow
@pytest.mark.parametrize("limit", [2_500, 4_096, 8_000])
@pytest.mark.parametrize("scale", [1.0, 1.4], ids=["counts as we do", "counts more"])
def test_the_next_question_fits_the_limit_that_was_named(limit, scale):
    """One refusal, then the conversation in parts; everything that leaves was read."""
    model = Small(limit, scale=scale)
    outcome = refold.compact(talk(), window=128_000, force=True, ask=model)
    assert outcome.stages == ("summarize",)
    assert model.refused == 1
    assert untold(outcome, model.asked) == []


@pytest.mark.slow
def test_every_question_is_in_the_receipt():
    model = Small(2_500)
    outcome = refold.compact(talk(), window=128_000, force=True, ask=model)
    failed = [call for call in outcome.receipt.calls if call.failed]
    assert len(outcome.receipt.calls) == len(model.asked) + 1
    assert [bool(re.search(r"\d+ tokens > 2500 maximum", call.failed)) for call in failed] == [True]
    assert [call.next_window for call in failed] == [2_500]
    assert {call.next_window for call in outcome.receipt.calls if not call.failed} == {None}


@pytest.mark.slow
def test_without_a_number_the_question_is_halved():
    """11,000 tokens, then 5,700, then 2,900."""
    model = Small(4_096, SILENT)
    outcome = refold.compact(talk(), window=128_000, force=True, ask=model)
    assert outcome.stages == ("summarize",)
    assert untold(outcome, model.asked) == []
    rounds = {call.next_window for call in outcome.receipt.calls if call.failed}
    assert 1 <= len(rounds) <= 3


@pytest.mark.parametrize("words", [SILENT, "prompt is too long: 900000 tokens > 800000 maximum"])
def test_who_refuses_everything_is_left_after_three_more_rounds(words):
    """Also where the numbers in the error do not help."""
    model = Small(0, words)
    outcome = refold.compact(talk(), window=128_000, force=True, ask=model)
    assert not outcome.compacted
    assert "the model failed" in outcome.reason
    rounds = [call for call in outcome.receipt.calls if re.fullmatch(r"initial( 1/\d+)?", call.purpose)]
    assert 2 <= len(rounds) <= 4


def test_a_limit_that_no_question_fits_is_an_end():
    model = Small(100)
    outcome = refold.compact(talk(), window=128_000, force=True, ask=model)
    assert model.refused == 1
    assert "a window of 100 tokens is too small for a summariser" in outcome.reason


def test_another_failure_is_not_asked_again():
    asked = []

    def broken(ask):
        asked.append(ask)
        raise RuntimeError("out of order")

    refold.compact(talk(), window=128_000, force=True, ask=broken)
    assert len(asked) == 1


@pytest.mark.slow
def test_the_same_holds_in_an_event_loop():
    model = Small(2_500)

    async def ask(question):
        return model(question)

    outcome = asyncio.run(refold.acompact(talk(), window=128_000, force=True, ask=ask))
    assert outcome.stages == ("summarize",)
    assert untold(outcome, model.asked) == []


@pytest.mark.parametrize("policy", ["ripple", "codebuddy", "opal", "neurolink"])
def test_every_policy_that_asks_is_asked_again(policy):
    """Ripple leaves the middle out, the others ask in parts."""
    model = Small(4_096)
    outcome = refold.compact(talk(), window=16_000, force=True, policy=policy, ask=model)
    assert model.refused >= 1
    assert SUMMARY in outcome.summary


def refuse_above(limit):
    """A server that reads `limit` tokens."""

    def behave(connection):
        words = "".join(message["content"] for message in connection.request.json["messages"])
        size = estimate(words)
        if size <= limit:
            says(SUMMARY)(connection)
            return
        connection.head(400, "application/json")
        text = f"This model's maximum context length is {limit} tokens. However, you requested {size} tokens."
        connection.send(b'{"error": {"message": "%s", "code": "context_length_exceeded"}}' % text.encode())

    return behave


@pytest.mark.slow
def test_a_server_that_refuses_is_asked_again_and_its_limit_holds_for_the_session():
    """The second fold does not begin with a refusal."""
    with FakeProvider([refuse_above(4_000)]) as provider:
        session = refold.open("s", window=128_000, store="memory:", ask=f"{provider.url}/v1#m")
        for message in talk():
            session.say(message)
        first = session.compact()
        for message in talk():
            session.say(message)
        second = session.compact()
    assert (first.stages, second.stages) == (("summarize",), ("summarize",))
    assert [bool(call.failed) for call in first.receipt.calls][:2] == [True, False]
    assert not any(call.failed for call in second.receipt.calls)


@pytest.mark.slow
def test_a_limit_that_is_hardly_one_is_not_kept():
    """A misread number must not end all summaries of a session."""
    words = ["prompt is too long: 30000 tokens > 12 maximum"]

    def ask(_question):
        if words:
            raise RuntimeError(words.pop())
        return SUMMARY

    session = refold.open("s", window=128_000, store="memory:", ask=ask)
    for message in talk():
        session.say(message)
    assert not session.compact().compacted
    assert session.compact().stages == ("summarize",)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1_500, 2_500])
def test_a_small_limit_is_kept_once_questions_in_it_are_answered(limit):
    model = Small(limit)
    session = refold.open("s", window=128_000, store="memory:", ask=model)
    for _ in range(2):
        for message in talk():
            session.say(message)
        assert session.compact().stages == ("summarize",)
    assert model.refused == 1


# -- merging -----------------------------------------------------------------------------------------------


def merging(limit, words=NAMED, parts=6):
    model = Small(limit, words)
    request = Request(
        template="Join:\n{{conversation}}",
        merge="Join:\n{{conversation}}",
        system="You join.",
        nonce="n",
        window=8_000,
        output_tokens=1_000,
    )
    texts = [f"Part {number}. " + "Words about the harbour and its berths. " * 40 for number in range(parts)]
    return run(merge_summaries(request, texts, Answered()), model), model, texts


def test_a_refused_merge_is_asked_again_in_smaller_groups():
    text, model, _ = merging(1_500)
    assert (text, model.refused) == (SUMMARY, 1)
    assert len(model.asked) > 1


def test_a_merge_that_is_always_refused_puts_the_parts_side_by_side():
    text, model, texts = merging(0, SILENT)
    assert text == JOINT.join(texts)
    assert model.refused > 1


def test_a_merge_in_a_window_that_holds_nothing_puts_the_parts_side_by_side():
    text, model, texts = merging(50)
    assert (text, model.refused) == (JOINT.join(texts), 1)


# -- the window after a refusal ----------------------------------------------------------------------------


def refusal(words):
    return Failed(RuntimeError(words))


def test_the_window_is_the_limit_that_was_named():
    ask = Ask("word " * 20_000, max_tokens=2_000)
    size = estimate(ask) + 2_000
    assert (
        find_next_window(ask, refusal(f"prompt is too long: {size} tokens > 2500 maximum"), 32_768) == 2_500
    )
    assert (
        find_next_window(ask, refusal(f"prompt is too long: {size * 2} tokens > 2500 maximum"), 32_768)
        == 1_250
    )


def test_the_cause_of_a_failure_is_read():
    error = AnswerFailed(
        "the model failed", cause=RuntimeError("prompt is too long: 9000 tokens > 4000 maximum")
    )
    ask = Ask("word " * 20_000)
    assert find_next_window(ask, Failed(error), 32_768) == 4_000


def test_a_limit_above_the_question_halves_the_question():
    ask = Ask("word " * 4_000)
    words = "This model's maximum context length is 50000 tokens."
    assert find_next_window(ask, refusal(words), 32_768) == estimate(ask) // 2


def test_a_question_behind_the_conversation_has_the_size_of_the_conversation():
    prefix = CachedPrefix(
        format="anthropic", provider="anthropic", model="m", tokens=50_000, cached=0, price=Price(3, 15)
    )
    ask = Ask("short", prefix=prefix, closing="tell it", max_tokens=100)
    assert find_next_window(ask, refusal(SILENT), 64_000) == (50_100 + estimate("tell it")) // 2


def test_other_replies_teach_nothing():
    assert find_next_window(Ask("q"), refusal("out of order"), 8_000) is None
    assert find_next_window(Ask("q"), refold.Answer(text="fine"), 8_000) is None


@pytest.mark.slow
def test_a_refused_question_behind_the_conversation_is_asked_apart():
    """The first question rides on the cache; after its refusal the text is asked by itself."""
    seen = []

    class Cached:
        model, provider, format, name = "claude-sonnet-4-5", "anthropic", "anthropic", "anthropic"
        window = 200_000

        def __call__(self, ask):
            seen.append(ask.prefix is not None)
            if ask.prefix is not None:
                raise RuntimeError("prompt is too long: 30000 tokens > 20000 maximum")
            return SUMMARY

    session = refold.open(
        "s",
        model="claude-sonnet-4-5",
        window=200_000,
        store="memory:",
        ask=Cached(),
        policy=presets.get("refold"),
    )
    messages = talk(60)
    ready = session.prepare(messages)
    used = ready.budget.used
    session.observe(
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "ok"}],
            "model": "claude-sonnet-4-5",
            "usage": {"input_tokens": 10, "cache_read_input_tokens": used, "output_tokens": 1},
        }
    )
    outcome = session.compact()
    assert outcome.stages == ("summarize",)
    assert seen[0] is True
    assert seen[1:]
    assert not any(seen[1:])
