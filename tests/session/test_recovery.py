"""After a refusal for size: every policy folds below what was sent, at once, and the turn is sent again."""

import asyncio

import pytest
from talks import SUMMARY, dumped, opened, reply, sound, talk, usage, user, values, wired

import refold
from refold.errors import Overflow
from refold.testing import Scripted
from sample_sizes import cover_pairs

POLICIES = ("refold", "ripple", "codebuddy", "umwelten", "neurolink", "opal")
OPAL_SUMMARY = (
    "## Goal\nAnswer numbered questions about Greek letters.\n## Progress\nEvery question so far was answered; "
    "src/f1.py, src/f2.py and src/f3.py were read.\n## Next Steps\nAnswer the last question."
)
WITHOUT_NUMBERS = (
    "Your input exceeds the context window of this model. Please adjust your input and try again."
)

OPAL_HISTORY = [
    message
    for number in range(140)
    for message in (user(f"user {number} " + "c" * 970), reply(f"reply {number} " + "c" * 970))
]


def refuse(requested, limit):
    """How OpenAI refuses a request for its size."""
    words = f"This model's maximum context length is {limit} tokens. However, your messages resulted in {requested} tokens."
    return RuntimeError(words)


def size(messages, policy, **parts):
    """The size of a request by the policy's own count, the whole of it."""
    return refold.measure(messages, policy=policy, model="gpt-4o", **parts).breakdown.total


@pytest.mark.few_values(3)
@pytest.mark.parametrize(
    ("policy", "ratio", "numbers", "model"),
    cover_pairs(POLICIES, [1.1, 4.5, 20], [False, True], [False, True]),
)
def test_every_policy_recovers_whatever_the_estimate_says(policy, ratio, numbers, model):
    """The provider counts `ratio` times what we count, and takes nine tenths of what was sent."""
    history = wired(values(18), "openai")
    ask = Scripted(OPAL_SUMMARY) if model else None
    with opened(window=None, model="gpt-4o", policy=policy, ask=ask) as session:
        ready = session.prepare(history)
        sent = size(ready.messages, policy)
        limit = int(ratio * sent * 0.9)
        error = refuse(int(ratio * sent), limit) if numbers else RuntimeError(WITHOUT_NUMBERS)
        observed = session.observe(error)
        assert observed.send_again
        assert "already within its target" not in observed.reason
        assert ratio * size(observed.messages, policy) <= limit
        assert size(observed.messages, policy) <= 0.7 * sent
        assert sound(observed.messages, "openai") == []
        assert observed.messages[-1] == history[-1]
        assert session.view() == observed.messages
        assert not model or bool(ask.asked) == (policy == "opal")
        assert ratio * size(session.prepare(history).messages, policy) <= limit
        assert session.original("#1-#73") == history


@pytest.mark.few_values(3)
@pytest.mark.parametrize("shape", ["anthropic", "responses", "gemini"])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_wire_gets_a_valid_list(policy, shape):
    history = wired(values(12), shape)
    with opened(window=None, model="gpt-4o", policy=policy, format=shape) as session:
        session.prepare(history)
        observed = session.observe(RuntimeError(WITHOUT_NUMBERS))
        assert observed.send_again
        assert sound(observed.messages, shape) == []


@pytest.mark.each_value
@pytest.mark.parametrize("limit", [512, 1_024, 2_048, 4_096])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_small_server_that_states_its_limit_is_believed(policy, limit):
    history = talk(limit // 60)
    with opened(window=None, endpoint="http://127.0.0.1:9/v1", model="gpt-4o", policy=policy) as session:
        sent = size(session.prepare(history).messages, policy)
        assert sent > limit
        words = (
            f"request ({sent} tokens) exceeds the available context size ({limit} tokens), try increasing it"
        )
        observed = session.observe(RuntimeError(words))
        assert observed.send_again
        assert size(observed.messages, policy) <= limit


@pytest.mark.parametrize("window", [4_000, 8_000, 16_000, 32_000])
def test_a_refusal_without_numbers_is_proof_in_every_window(window):
    history = talk(window // 400)
    with opened(window=window) as session:
        sent = session.prepare(history).budget.used
        assert sent < 0.6 * window
        observed = session.observe(RuntimeError(WITHOUT_NUMBERS))
        assert observed.send_again
        assert observed.budget.used <= 0.7 * sent


@pytest.mark.few_values(2)
@pytest.mark.parametrize("policy", POLICIES)
def test_one_long_paste_one_answer_one_question(policy):
    """Nothing may leave by the rules of four policies; Opal keeps the last two messages, CodeBuddy four."""
    history = [
        user("Here is the log:\n" + "error 42 at line 7\n" * 1_300),
        reply("It says so. " * 90),
        user("Now?"),
    ]
    with opened(window=8_192, policy=policy) as session:
        session.prepare(history)
        observed = session.observe(refuse(8_700, 8_192))
        assert observed.send_again
        assert len(observed.messages) == 3
        assert observed.messages[-1] == history[-1]
        assert policy not in ("opal", "codebuddy") or observed.messages[1] == history[1]


@pytest.mark.parametrize("policy", POLICIES)
def test_parts_that_are_no_history_count(policy):
    """Two fifths of the request are system prompt and tools: the history pays for all of the surplus."""
    parts = {"system": "You are careful. " * 400, "tools": [{"name": "read", "description": "Reads. " * 300}]}
    history = talk(40)
    with opened(window=None, model="gpt-4o", policy=policy) as session:
        session.prepare(history, **parts)
        sent = size(history, policy, **parts)
        observed = session.observe(refuse(9 * sent, 8 * sent))
        assert observed.send_again
        assert size(observed.messages, policy, **parts) <= 8 / 9 * sent


def test_a_prompt_that_leaves_no_room_for_the_usual_answer_is_still_sent():
    """Of a limit of 1,024 tokens a quarter is kept for the answer; a system prompt of 850 leaves less."""
    history = talk(6)
    with opened(window=None, model="gpt-4o") as session:
        session.prepare(history, system="word " * 850)
        observed = session.observe(refuse(2_000, 1_024))
        assert observed.send_again
        assert size(observed.messages, "refold", system="word " * 850) <= 1_024


@pytest.mark.parametrize("policy", POLICIES)
def test_the_last_request_stays_whole_where_it_fits(policy):
    request = user("Keep every word of this. " * 130)
    with opened(window=None, model="gpt-4o", policy=policy) as session:
        sent = size(session.prepare([*talk(10, last=False), request]).messages, policy)
        observed = session.observe(refuse(sent, int(sent * 0.8)))
        assert observed.send_again
        assert observed.messages[-1] == request


def test_the_last_request_is_not_cut_for_a_longer_answer():
    """System prompt and request fit into the limit, but not into the room beside the usual reserve."""
    parts = {"system": "word " * 1_150}
    request = user("Keep every word of this. " * 50)
    with opened(window=None, model="gpt-4o", policy="neurolink") as session:
        session.prepare([*talk(6, last=False), request], **parts)
        observed = session.observe(refuse(4_000, 2_800))
        assert observed.send_again
        assert observed.messages[-1] == request


@pytest.mark.few_values(2)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_last_request_is_cut_where_that_makes_it_fit(policy):
    request = user("".join(f"line {number} of a long paste\n" for number in range(2_000)))
    with opened(window=None, model="gpt-4o", policy=policy) as session:
        sent = size(session.prepare([user("hello"), reply("hi"), request]).messages, policy)
        observed = session.observe(refuse(sent, sent // 2))
        assert observed.send_again
        assert size(observed.messages, policy) <= sent // 2
        assert observed.messages[-1]["content"].startswith("line 0 of")


def test_the_last_request_is_whole_where_no_cut_makes_it_fit():
    """A pinned message is larger than the limit."""
    history = [
        user("pinned " * 3_000),
        reply("yes"),
        *talk(3, last=False),
        user("Do not touch the tests. " * 40),
    ]
    with opened(window=None, model="gpt-4o") as session:
        session.prepare(history)
        session.pin("#1")
        observed = session.observe(refuse(4_000, 1_500))
        shown = observed.messages if observed else session.view()
        assert shown[-1] == history[-1]
        assert shown[0] == history[0]


class TestOpal:
    """Its document, "Overflow recovery": a fifth of the window stays, forced; the model is asked first."""

    def recover(self, ask, error=None):
        with opened(window=100_000, policy="opal", ask=ask) as session:
            sent = session.prepare(OPAL_HISTORY).budget.used
            return session.observe(error or refuse(sent + 35_000, 100_000))

    def kept(self, observed):
        return sum(len(message["content"]) + 20 for message in observed.messages[1:]) // 4

    @pytest.mark.parametrize("error", [None, RuntimeError(WITHOUT_NUMBERS)], ids=["numbers", "none"])
    def test_a_fifth_of_the_window_stays_behind_the_summary(self, error):
        observed = self.recover(Scripted(OPAL_SUMMARY), error)
        assert "Answer the last question." in observed.messages[0]["content"]
        assert 19_000 <= self.kept(observed) <= 20_400

    @pytest.mark.parametrize("ask", [None, Scripted(RuntimeError("down"))], ids=["none", "fails"])
    def test_without_an_answer_its_notice_stands_in(self, ask):
        observed = self.recover(ask)
        assert observed.send_again
        assert "[Compacted " in observed.messages[0]["content"]
        assert 19_000 <= self.kept(observed) <= 20_400

    def test_a_tail_that_was_asked_for_does_not_hold_after_a_refusal(self):
        policy = refold.presets.get("opal", keep_recent_tokens=60_000)
        with opened(window=100_000, policy=policy) as session:
            session.prepare(OPAL_HISTORY)
            assert self.kept(session.observe(refuse(110_000, 100_000))) <= 20_400

    def test_an_open_breaker_keeps_the_model_out_and_says_so(self):
        ask = Scripted(OPAL_SUMMARY)
        with opened(window=8_000, policy="opal", ask=ask) as session:
            session.prepare(talk(20))
            session.state.accounting.record_breaker_event("fold", session.state.now())
            session.state.accounting.record_breaker_event("fold", session.state.now())
            observed = session.observe(refuse(9_000, 8_000))
            assert observed.send_again
            assert not ask.asked
            assert "the circuit breaker is open" in observed.outcome.receipt.stages[0].reason


def test_the_reason_is_the_same_everywhere():
    """In the answer, in the log, in the event and in the receipt."""
    seen = []
    with opened(window=8_000, policy="ripple") as session:
        session.subscribe(seen.append)
        session.prepare([user("hi")])
        observed = session.observe(RuntimeError(WITHOUT_NUMBERS))
        assert not observed.send_again
        why = observed.reason.removeprefix("refused for size; ")
        (attempt,) = session.log(kinds=("attempt",))
        (skipped,) = [one for one in seen if one.kind == "compaction_skipped"]
        assert why == attempt.value["reason"] == skipped.reason == observed.outcome.reason
        assert why == observed.outcome.receipt.reason
        assert "already within" not in why


def test_a_fold_that_recovers_is_told_in_one_reason():
    with opened(window=8_000) as session:
        session.prepare(talk(20))
        observed = session.observe(refuse(9_000, 8_000))
        assert observed.reason == f"refused for size; {observed.outcome.reason}"
        (fold,) = session.folds()
        assert fold.receipt["reason"] == observed.outcome.reason
        assert fold.receipt["trigger"] == "emergency"


def test_one_turn_is_folded_once_and_the_next_one_again():
    with opened(window=None, model="gpt-4o", policy="ripple") as session:
        history = talk(30)
        session.prepare(history)
        first = session.observe(RuntimeError(WITHOUT_NUMBERS))
        with pytest.raises(Overflow):
            session.observe(RuntimeError(WITHOUT_NUMBERS))
        session.prepare(history)
        second = session.observe(RuntimeError(WITHOUT_NUMBERS))
        assert second.send_again
        assert size(second.messages, "ripple") <= 0.7 * size(first.messages, "ripple")
        assert not session.observe(usage(500))
        assert session.observe(RuntimeError(WITHOUT_NUMBERS)).send_again


def test_a_forged_number_folds_deep_and_loses_nothing():
    with opened(window=32_000) as session:
        history = talk(60, size=800)
        sent = session.prepare(history).budget.used
        observed = session.observe(refuse(30 * sent, 1_024))
        assert observed.messages[-1] == history[-1]
        assert session.original("#1-#121") == history
        session.unfold()
        assert dumped(session.view()) == dumped(history)


def test_the_outcome_says_what_the_refusal_proves():
    """Sizes by the provider's count, against the provider's limit."""
    with opened(window=None, model="gpt-4o") as session:
        sent = session.prepare(talk(40)).budget.used
        observed = session.observe(refuse(10 * sent, 8 * sent))
        assert observed.outcome.budget.used == 10 * sent
        assert observed.outcome.budget.window == 8 * sent
        assert observed.outcome.used_after <= 0.7 * 8 * sent
        assert observed.outcome.fits


def test_a_limit_above_the_known_window_is_counted_against_what_was_refused():
    """The estimate is twenty times too low and the window sixteen times: half of the history still fits."""
    with opened(window=8_000) as session:
        sent = session.prepare(talk(20)).budget.used
        observed = session.observe(refuse(20 * sent, 16 * sent))
        assert observed.send_again
        assert 0.3 * sent <= size(observed.messages, "refold") <= 0.7 * sent


def test_the_cached_prefix_that_was_refused_is_not_asked_behind():
    ask = Scripted(SUMMARY)
    with opened(window=20_000, policy="opal", ask=ask) as session:
        session.prepare(talk(30))
        session.observe(usage(8_000, prompt_tokens_details={"cached_tokens": 7_000}))
        session.prepare([*talk(30), reply("ok"), user("go on")])
        session.observe(refuse(21_000, 20_000))
        assert all(question.prefix is None for question in ask.asked)


def test_in_an_event_loop_opal_asks_its_model_first():
    asked = []

    async def ask(question):
        asked.append(question)
        return OPAL_SUMMARY

    async def agent():
        async with refold.aopen("async", store="memory:", window=100_000, policy="opal", ask=ask) as session:
            await session.prepare(OPAL_HISTORY)
            return await session.observe(refuse(110_000, 100_000))

    observed = asyncio.run(agent())
    assert observed.send_again
    assert len(asked) == 1
    assert "Answer the last question." in observed.messages[0]["content"]


@pytest.mark.parametrize(
    "text", ["prompt is too long", "maximum context length is 60000 tokens, you sent 61000"]
)
def test_the_budget_after_a_refusal_says_the_limit_that_was_learned(text):
    """With or without numbers, in what `observe` returns and in every `prepare` after it."""
    messages = [
        {"role": ("user", "assistant")[n % 2], "content": f"m{n} " + "word " * 300} for n in range(401)
    ]
    session = refold.open("s", model="gpt-4o", store="memory:")
    before = session.prepare(messages).budget
    observed = session.observe(RuntimeError(text))
    after = session.prepare(messages).budget
    assert observed.send_again
    assert observed.budget.room == after.room == session.budget().room < before.room
    assert after.window_source == "learned"
    assert after.trigger_tokens < after.room


def test_a_window_of_the_caller_wins_over_a_refusal():
    """`window=` always wins: the turn is folded and sent again, and the budget stays the caller's."""
    messages = [
        {"role": ("user", "assistant")[n % 2], "content": f"m{n} " + "word " * 300} for n in range(61)
    ]
    session = refold.open("s", window=32_000, store="memory:")
    before = session.prepare(messages).budget
    assert session.observe(RuntimeError("prompt is too long")).send_again
    after = session.prepare(messages).budget
    assert (after.room, after.window_source) == (before.room, "given")
    assert after.used < before.used
