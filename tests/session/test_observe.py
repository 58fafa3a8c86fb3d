"""What a provider's answer means: usage in every shape, refusals for size, silent cuts, hostile words."""

import pytest
from talks import SUMMARY, dumped, folding, kinds, opened, reply, talk, usage, user

import refold
from refold.errors import Overflow
from refold.testing import Scripted

DAY = 86_400.0
OPENAI = {
    "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
    "usage": {
        "prompt_tokens": 1_000,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 600},
    },
}
RESPONSES = {
    "object": "response",
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}],
    "usage": {"input_tokens": 1_000, "output_tokens": 50, "input_tokens_details": {"cached_tokens": 600}},
}
ANTHROPIC = {
    "type": "message",
    "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "ok"}],
    "usage": {
        "input_tokens": 300,
        "output_tokens": 50,
        "cache_read_input_tokens": 600,
        "cache_creation_input_tokens": 100,
    },
}
GEMINI = {
    "candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [{"text": "ok"}]}}],
    "usageMetadata": {
        "promptTokenCount": 1_000,
        "candidatesTokenCount": 50,
        "cachedContentTokenCount": 600,
        "totalTokenCount": 1_050,
    },
}
TOO_LONG = (
    "This model's maximum context length is 16384 tokens. However, your messages resulted in 20000 tokens."
)


@pytest.mark.parametrize("answer", [OPENAI, RESPONSES, ANTHROPIC, GEMINI], ids=["o", "r", "a", "g"])
def test_usage_in_four_shapes(answer):
    seen = []
    with opened() as session:
        session.subscribe(seen.append)
        session.prepare(talk(5))
        observed = session.observe(answer)
        assert not observed
        assert observed.usage.context == 1_000
        assert observed.usage.cache_read == 600
        assert observed.finish == "stop"
        assert observed.budget.used == 1_000
        assert observed.budget.count_source == "usage+estimate"
        (entry,) = session.log(kinds=("usage",))
        assert entry.value["cache_read"] == 600
        assert session.stats().current_context_tokens == 1_000
        assert seen[-1].kind == "usage_update"
        assert seen[-1].tokens == 1_000
        assert seen[-1].window == 8_000
        session.observe(answer)
        totals = session.stats().totals
        assert (totals.requests, totals.output, totals.cache_read) == (2, 100, 1_200)


@pytest.mark.parametrize(
    "report",
    [
        None,
        {},
        {"prompt_tokens": 0},
        {"prompt_tokens": "many"},
        {"prompt_tokens": [1]},
        {"prompt_tokens": True},
        "usage",
        [1, 2],
    ],
    ids=range(8),
)
def test_hostile_usage_is_ignored(report):
    with opened() as session:
        session.prepare(talk(5))
        before = session.budget()
        observed = session.observe({"choices": OPENAI["choices"], "usage": report})
        assert observed.usage is None
        assert observed.budget == before
        assert kinds(session, "usage") == []


@pytest.mark.parametrize("value", [None, "", 7.5, object(), b"x", [], "all fine", {"a": {"b": 1}}])
def test_what_is_no_answer_says_nothing(value):
    with opened() as session:
        session.prepare(talk(2))
        assert not session.observe(value)
        assert kinds(session, "usage") == []


def test_observe_before_anything_was_said():
    with opened() as session:
        assert not session.observe(OPENAI)
        assert session.stats().totals.requests == 1


@pytest.mark.parametrize(("factor", "after"), [(0.7, 1), (2.0, 1), (0.5, 4)])
def test_the_count_converges(factor, after, memory):
    """However far off the estimate is, reports make it right within a few per cent.

    One report suffices, unless it is so low that it may leave tokens out: then others have to confirm it.
    """
    with opened(window=200_000, store=memory) as session:
        history = talk(5)
        real = 0.0
        for turn in range(6):
            ready = session.prepare(history)
            real = factor * ready.budget.breakdown.total
            if turn >= after:
                assert abs(ready.budget.used - real) <= 0.03 * real
            session.observe(usage(round(real)))
            history += talk(4, start=turn)
        again = opened(window=200_000, store=memory)
        ready = again.prepare(history)
        real = factor * ready.budget.breakdown.total
        assert abs(ready.budget.used - real) <= 0.03 * real


def test_usage_without_prepare_is_not_counted_twice(memory):
    with opened(store=memory) as session:
        for message in talk(5):
            session.say(message)
        session.observe(usage(1_000))
        assert session.budget().used == 1_000
    again = opened(store=memory)
    assert again.budget().used == 1_000
    again.say("more words " * 20)
    assert 1_000 < again.budget().used < 1_150


def test_another_model_does_not_build_on_the_report():
    with opened(model="gpt-4o") as session:
        session.prepare(talk(5))
        session.observe(usage(3_000))
        assert session.budget().used == 3_000
        session.model = "gpt-4"
        assert session.budget().count_source != "usage+estimate"
        session.model = "gpt-4o"
        assert session.budget().used == 3_000


@pytest.mark.few_values(2)
@pytest.mark.parametrize(
    "refusal",
    [
        TOO_LONG,
        {"error": {"message": TOO_LONG, "code": "context_length_exceeded"}},
        RuntimeError(TOO_LONG),
        ValueError("outer"),
    ],
    ids=["text", "body", "error", "cause"],
)
def test_a_refusal_folds_once_without_a_model(refusal):
    if isinstance(refusal, ValueError):
        refusal.__cause__ = RuntimeError(TOO_LONG)
    seen = []
    model = Scripted(SUMMARY)
    with opened(window=32_000, ask=model) as session:
        session.subscribe(seen.append)
        history = talk(60, size=800)
        assert session.prepare(history).messages is history
        seen.clear()
        observed = session.observe(refusal)
        assert observed
        assert observed.send_again
        assert not model.asked
        assert observed.messages[-1] == history[-1]
        assert (observed.budget.window, observed.budget.window_source) == (32_000, "given")
        scale = 20_000 / refold.measure(history, window=16_384).used
        told = refold.measure(observed.messages, window=16_384)
        assert told.used * max(1, scale) <= 0.70 * told.room
        assert [one.kind for one in seen] == ["compaction_start", "compaction_end", "overflow"]
        assert seen[-1].recovered
        assert (seen[-1].limit, seen[-1].requested) == (16_384, 20_000)
        with pytest.raises(Overflow) as caught:
            session.observe(refusal)
        assert (caught.value.limit, caught.value.requested) == (16_384, 20_000)
        assert session.prepare(history).messages == observed.messages
        assert session.observe(usage(9_000)).reverted is None
        assert session.observe(refusal) is not None  # another turn may be refused again


def test_a_turn_that_was_answered_may_be_refused_again():
    with opened(window=32_000) as session:
        session.prepare(talk(80, size=800))
        assert session.observe(TOO_LONG)
        session.observe(usage(6_000))
        observed = session.observe(TOO_LONG)
        assert observed.reason.startswith("refused for size")


def test_a_refusal_that_cannot_be_helped_says_so():
    with opened(window=32_000) as session:
        history = [user("hi")]
        session.prepare(history)
        observed = session.observe("Your input exceeds the context window of this model.")
        assert not observed
        assert observed.messages is None
        assert "refused for size" in observed.reason
        assert session.view() == history


def test_learned_windows_are_kept_for_one_endpoint_and_model(lasting):
    name = {"endpoint": "https://a.example/v1", "model": "gpt-4o", "window": None}
    session = opened(store=lasting(), **name)
    session.prepare(talk(5))
    session.observe(TOO_LONG)
    assert opened(store=lasting(), **name).budget().window == 16_384
    store = lasting()
    for other in ({"endpoint": "https://b.example/v1"}, {"model": "gpt-4.1"}):
        assert opened(store=store, **{**name, **other}).budget().window > 16_384


def test_a_window_that_was_given_wins_over_a_learned_one(memory):
    """The refusal is still learned, for sessions that were given no window."""
    for name in ("one", "two"):
        with opened(name, store=memory, model="gpt-4o", window=64_000) as session:
            session.prepare(talk(100, size=800))
            assert session.observe(TOO_LONG)
            assert (session.budget().window, session.budget().window_source) == (64_000, "given")
    learned = opened("three", store=memory, model="gpt-4o", window=None).budget()
    assert (learned.window, learned.window_source) == (16_384, "learned")
    assert opened("four", store=memory, model="gpt-4o", window=128_000).budget().window == 128_000


def test_a_learned_window_is_forgotten_after_a_while(memory, clock):
    session = opened(store=memory, now=clock, window=None, model="gpt-4o")
    session.prepare(talk(5))
    session.observe(TOO_LONG)
    assert session.budget().window == 16_384
    clock.time += 31 * DAY
    assert opened(store=memory, now=clock, window=None, model="gpt-4o").budget().window == 128_000


@pytest.mark.parametrize(
    "text",
    [
        "maximum context length is 1 tokens",
        "This model's maximum context length is 1 tokens. However, your messages resulted in 999999999999 tokens",
        "maximum context length is 0 tokens, requested 1 tokens",
        "maximum context length is 99999999999999999999 tokens",
    ],
)
def test_a_hostile_limit_is_clamped(text):
    with opened(window=32_000) as session:
        history = talk(60, size=800)
        session.prepare(history)
        observed = session.observe(text)
        assert 1_024 <= session.budget().window <= 32_000
        if observed:
            assert observed.messages[-1] == history[-1]
            assert refold.measure(observed.messages, window=8_000).used >= 300
        assert session.original("#1-#121") == history


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("invalid api key"),
        TimeoutError("timed out"),
        {"error": {"message": "max_tokens is too large: 5", "type": "invalid_request_error"}},
        {"error": {"message": "rate limit reached: 10000 tokens per minute"}},
        KeyboardInterrupt(),
    ],
    ids=range(5),
)
def test_an_error_that_is_no_overflow(error):
    with opened() as session:
        history = talk(5)
        session.prepare(history)
        observed = session.observe(error)
        assert not observed
        assert observed.messages is None
        assert session.view() == history
        assert kinds(session) == ["said"] * len(history)


@pytest.mark.parametrize(
    ("raw", "finish"), [("length", "length"), ("tool_calls", "tool_calls"), ("content_filter", "refusal")]
)
def test_finish_reasons(raw, finish):
    with opened() as session:
        session.prepare(talk(2))
        answer = {
            "choices": [{"finish_reason": raw, "message": {"role": "assistant", "content": "ok"}}],
            "usage": {"prompt_tokens": 500, "completion_tokens": 2},
        }
        assert session.observe(answer).finish == finish


def test_an_answer_that_ended_at_the_window_is_a_refusal():
    with opened(window=None, policy=refold.presets.get("refold", unknown_window=32_000)) as session:
        session.prepare(talk(60, size=800))
        answer = {
            "type": "message",
            "stop_reason": "model_context_window_exceeded",
            "content": [{"type": "text", "text": "half"}],
            "usage": {"input_tokens": 16_000, "output_tokens": 384},
        }
        observed = session.observe(answer)
        assert observed
        assert observed.budget.window == 16_384
        totals = session.stats().totals  # it was paid for all the same
        assert (totals.requests, totals.input, totals.output) == (1, 16_000, 384)
    with opened(window=32_000) as session:
        session.prepare(talk(60, size=800))
        assert session.observe({**answer, "usage": None})


def test_a_report_alone_is_a_refusal_only_where_it_ended_at_the_window():
    report = {"model": "claude-opus-4-8", "usage": {"input_tokens": 16_000, "output_tokens": 384}}
    for finish, refused in (("end_turn", False), ("model_context_window_exceeded", True)):
        with opened(window=32_000) as session:
            session.prepare(talk(60, size=800))
            assert bool(session.observe({**report, "stop_reason": finish})) is refused


def test_an_answer_that_speaks_of_sizes_is_no_refusal():
    with opened(window=32_000) as session:
        history = talk(5)
        session.prepare(history)
        message = {"role": "assistant", "content": TOO_LONG}
        answer = {"choices": [{"finish_reason": "stop", "message": message}], "usage": {"prompt_tokens": 900}}
        assert not session.observe(answer)
        assert session.view() == history


def test_a_silent_cut_is_seen_in_two_reports_and_holds_in_its_session(memory):
    server = {"window": None, "model": "gpt-4o", "endpoint": "http://localhost:1/v1"}
    with opened(store=memory, **server) as session:
        history = talk(80, size=1_500)
        sent = session.prepare(history).budget.used
        assert sent > 16_000
        observed = session.observe(usage(4_098))
        assert not observed  # one report proves nothing
        assert (observed.budget.window, observed.budget.used) == (128_000, sent)
        history += [reply("done " * 100), user("go on " * 100)]
        session.prepare(history)
        observed = session.observe(usage(4_098))
        assert observed
        assert (observed.budget.window, observed.budget.window_source) == (4_096, "learned")
        assert dumped(observed.messages[-1]) == dumped(history[-1])
    assert opened(store=memory, **server).budget().window == 128_000


def test_less_than_expected_and_no_round_window_is_no_cut():
    with opened(window=128_000) as session:
        sent = session.prepare(talk(80, size=1_500)).budget.used
        assert not session.observe(usage(5_700))
        assert sent > 10_000


def test_a_reverted_fold_counts_as_a_failure(clock):
    session, history, ready = folding(now=clock)
    observed = session.observe(usage(20_000))
    assert observed.reverted == ready.fold
    assert session.state.accounting.breaker.since_turn >= 1
    assert session.budget().count_source == "usage+estimate"
    assert session.prepare([*history, reply("ok"), user("go on")]).messages


def test_a_fold_that_somebody_undid_is_not_judged(clock):
    session, _, _ = folding(now=clock)
    session.unfold()
    assert session.observe(usage(20_000)).reverted is None
