"""The boundary to the summariser: whatever a callable does, the history gets smaller and the call returns."""

import asyncio
import contextlib
import contextvars
import functools
import gc
import json
import os
import signal
import threading

import pytest

import refold

TALK = [
    {"role": role, "content": f"{n}: " + "words about the harbour and the crane limiter " * 40}
    for n in range(12)
    for role in ("user", "assistant")
]
GOOD = (
    "The harbour crane has a limiter that both sides talk about in all messages. The user writes words about "
    "the harbour, the assistant repeats them; nothing was decided about the limiter, and nothing is open."
)


@pytest.fixture
def never():
    """An event that nobody sets before the test is over: what waits for it hangs."""
    event = threading.Event()
    yield event
    event.set()


def compact(ask, **options):
    return refold.compact(TALK, ask=ask, window=4_000, **options)


async def acompact(ask, **options):
    return await refold.acompact(TALK, ask=ask, window=4_000, **options)


# -- the deadline ------------------------------------------------------------------------------------------


def test_a_callable_that_hangs_is_given_up(never):
    outcome = compact(lambda _: never.wait() or GOOD, ask_timeout=0.05)
    assert outcome.stages == ("digest",)
    assert "no answer within 0.05 seconds" in outcome.reason


def test_a_session_whose_summariser_hangs_goes_on(never):
    session = refold.open("t", store="memory:", window=4_000, ask=lambda _: never.wait(), ask_timeout=0.05)
    assert session.prepare(TALK).outcome.stages == ("digest",)


def test_a_callable_that_hangs_in_an_event_loop_is_given_up(never):
    async def run():
        asleep = asyncio.Event()

        async def model(_question):
            await asleep.wait()

        session = refold.aopen("t", store="memory:", window=4_000, ask=model, ask_timeout=0.05)
        ready = await session.prepare(TALK)
        plain = await acompact(lambda _: never.wait(), ask_timeout=0.05)
        return ready.outcome.stages, plain.stages, plain.reason

    *stages, reason = asyncio.run(run())
    assert stages == [("digest",), ("digest",)]
    assert "no answer within 0.05 seconds" in reason


def test_a_coroutine_that_refuses_to_be_cancelled_is_left_behind():
    """`asyncio.timeout` would wait for it."""

    async def run():
        free, cancelled = asyncio.Event(), []

        async def model(_question):
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    cancelled.append(True)
            raise ValueError("too late to matter")

        outcome = await acompact(model, ask_timeout=0.05)
        free.set()
        return outcome.stages, bool(cancelled)

    assert asyncio.run(run()) == (("digest",), True)


def test_a_plain_callable_does_not_stop_the_event_loop():
    """It may only answer after the loop has run 20 times meanwhile."""

    async def run():
        turned = threading.Event()

        def model(_question):
            assert turned.wait(30), "the loop stands still"
            return GOOD

        asked = asyncio.ensure_future(acompact(model))
        for _ in range(20):
            await asyncio.sleep(0.001)
        turned.set()
        return (await asked).stages

    assert asyncio.run(run()) == ("summarize",)


def test_a_plain_callable_that_gives_a_coroutine_or_a_task_works_in_an_event_loop():
    async def model(_question):
        await asyncio.sleep(0)
        return GOOD

    class Model:
        async def __call__(self, question):
            return await model(question)

    asks = (
        model,
        Model(),
        functools.partial(model),
        lambda question: model(str(question)),
        lambda question: asyncio.get_running_loop().create_task(model(question)),
    )

    async def run():
        return [(await acompact(ask)).stages for ask in asks]

    assert asyncio.run(run()) == [("summarize",)] * len(asks)


def test_cancelling_the_call_cancels_the_question():
    async def run():
        begun, ended = asyncio.Event(), []

        async def model(_question):
            begun.set()
            try:
                await asyncio.sleep(3_600)
            finally:
                ended.append(True)

        task = asyncio.ensure_future(acompact(model))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        return bool(ended)

    assert asyncio.run(run())


def test_a_failure_in_the_moment_of_cancelling_is_no_complaint_of_the_loop():
    complaints = []

    async def go():
        asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about))
        begun = asyncio.Event()

        async def ask(_):
            begun.set()
            outer.cancel()  # takes effect when this task has failed
            raise ConnectionError("the model is away")

        outer = asyncio.ensure_future(acompact(ask))
        await begun.wait()
        with contextlib.suppress(asyncio.CancelledError):
            await outer
        gc.collect()

    asyncio.run(go())
    assert not complaints


def test_without_a_deadline_the_callable_runs_in_the_thread_of_the_caller():
    """Some libraries hold a connection for each thread."""
    threads = []

    def model(_question):
        threads.append(threading.current_thread())
        return GOOD

    compact(model, ask_timeout=None)
    assert set(threads) == {threading.current_thread()}
    threads.clear()
    compact(model)
    assert threading.current_thread() not in threads
    assert all(thread.daemon for thread in threads), "one that hangs must not keep the program alive"


def test_context_variables_of_the_caller_are_seen():
    tenant = contextvars.ContextVar("tenant")
    tenant.set("acme")
    seen = []
    compact(lambda _: seen.append(tenant.get()) or GOOD)
    assert set(seen) == {"acme"}


def test_ctrl_c_in_the_callable_stops_at_once():
    asked = []

    def model(question):
        asked.append(question)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact(model)
    assert len(asked) == 1


def test_ctrl_c_while_a_callable_hangs_stops_at_once(never):
    def model(_question):
        os.kill(os.getpid(), signal.SIGINT)
        never.wait()

    with pytest.raises(KeyboardInterrupt):
        compact(model, ask_timeout=3_600)


def test_a_loop_that_was_closed_meanwhile_hurts_nobody(never):
    """The thread that was left behind ends by itself."""
    threads = []

    def model(_question):
        threads.append(threading.current_thread())
        never.wait()
        return GOOD

    assert asyncio.run(acompact(model, ask_timeout=0.05)).stages == ("digest",)
    never.set()
    threads[0].join(30)
    assert not threads[0].is_alive()


@pytest.mark.parametrize("seconds", [0, -1, "60", True, float("nan"), float("inf"), 90_000])
def test_a_wrong_deadline_is_refused_with_the_range(seconds):
    for call in (
        lambda: compact(lambda _: GOOD, ask_timeout=seconds),
        lambda: refold.open("t", store="memory:", window=4_000, ask_timeout=seconds),
    ):
        expected = "^ask_timeout=.*: expected seconds from above 0 to 86,400, or none$"
        with pytest.raises(refold.RefoldError, match=expected):
            call()


class OwnClient:
    """A client as a program may write one."""

    name, model, window = "own", "own", None

    def __init__(self, wait, *, has_deadline):
        self.wait = wait
        self.has_deadline = has_deadline
        self.threads = []

    def ask(self, _question):
        self.threads.append(threading.current_thread())
        self.wait()
        return refold.Answer(text=GOOD)

    async def aask(self, question):
        return await asyncio.to_thread(self.ask, question)

    def close(self):
        pass


def test_a_client_that_has_a_deadline_keeps_it_unless_another_is_asked_for(never):
    client = OwnClient(lambda: None, has_deadline=True)
    assert compact(client).stages == ("summarize",)
    assert compact([client, client]).stages == ("summarize",)
    assert set(client.threads) == {threading.current_thread()}
    assert compact(OwnClient(never.wait, has_deadline=True), ask_timeout=0.05).stages == ("digest",)
    bounded = OwnClient(lambda: None, has_deadline=False)
    assert compact([bounded, client]).stages == ("summarize",)
    assert threading.current_thread() not in bounded.threads
    assert asyncio.run(acompact(client)).stages == ("summarize",)


# -- what it gives -----------------------------------------------------------------------------------------

ODD = {
    "nothing": None,
    "bytes": b"The crane limiter",
    "a number": 42,
    "a list": [GOOD],
    "no text": refold.Answer(text=None),
    "bytes as text": refold.Answer(text=GOOD.encode()),
    "a number as text": refold.Answer(text=7),
    "a tool call without text": refold.Answer(text=None, calls=1),
    "a refusal without text": refold.Answer(text=None, finish="refusal"),
    "nothing but control characters": "\x00\x1b\x07" * 900,
}


@pytest.mark.few_values(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_what_is_no_text_leaves_the_next_stage_to_do_it(name):
    session = refold.open("t", store="memory:", window=4_000, ask=lambda _: ODD[name])
    outcome = session.prepare(TALK).outcome
    assert outcome.stages == ("digest",)
    assert outcome.reason.startswith("summarize: ")
    assert asyncio.run(acompact(lambda _: ODD[name])).stages == ("digest",)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nothing", "the model gave NoneType where text was expected"),
        ("bytes as text", "the model gave bytes where text was expected"),
        ("no text", "the model gave NoneType where text was expected"),
        ("a tool call without text", "the model called a tool instead of summarising"),
        ("a refusal without text", "the model refused"),
        ("nothing but control characters", "the summary was empty"),
    ],
)
def test_the_reason_names_the_fault(name, told):
    assert told in compact(lambda _: ODD[name]).reason


@pytest.mark.few_values(2)
@pytest.mark.parametrize(
    "field",
    [
        {"input_tokens": "7"},
        {"input_tokens": -5, "output_tokens": float("nan")},
        {"output_tokens": 10**30},
        {"calls": None, "finish": None},
        {"finish": ["stop"], "model": 5, "provider": b"x"},
        {"reasoning": None, "cache_read": "many", "cache_write": True, "prefixed": "no"},
    ],
)
def test_odd_reports_beside_a_good_summary_are_ignored(field):
    outcome = compact(lambda _: refold.Answer(text=GOOD, **field))
    assert outcome.stages == ("summarize",)
    calls = [call for report in outcome.receipt.stages for call in report.calls]
    assert calls
    assert all(call.estimated and 0 < call.prompt_tokens < 100_000 for call in calls)


@pytest.mark.few_values(2)
@pytest.mark.parametrize("mark", ["\ud800", "\x00", "\x1b[31m", "\x1b", "\x07", "\x9b"])
def test_a_summary_can_be_sent_whatever_characters_the_model_wrote(mark):
    session = refold.open("t", store="memory:", window=4_000, ask=lambda _: GOOD.replace(" ", f" {mark}", 9))
    ready = session.prepare(TALK)
    assert ready.outcome.stages == ("summarize",)
    sent = json.dumps(ready.messages, ensure_ascii=False).encode().decode()
    assert mark not in sent
    assert "The harbour crane has a limiter" in sent.replace("\ufffd", "")


def test_halves_of_a_character_are_joined_and_lines_stay():
    said = GOOD + "\r\n- A ship \ud83d\udea2 came.\r- Another\tone."
    (view,) = (m["content"] for m in compact(lambda _: said).messages if "harbour crane" in m["content"])
    assert "\n- A ship \N{SHIP} came.\n- Another\tone." in view


class Unreadable(Exception):
    def __str__(self):
        raise ValueError("no text for you")


@pytest.mark.parametrize(
    "error",
    [
        Unreadable(),
        ValueError("\ud800 \x1b[2J broken"),
        StopIteration("x"),
        MemoryError(),
        RecursionError("deep"),
        ExceptionGroup("several", [ValueError("a"), OSError("b")]),
        ValueError("x" * 5_000_000),
    ],
)
def test_an_error_of_any_kind_leaves_the_next_stage_to_do_it(error):
    def model(_question):
        raise error

    session = refold.open("t", store="memory:", window=4_000, ask=model)
    outcome = session.prepare(TALK).outcome
    assert outcome.stages == ("digest",)
    assert type(error).__name__ in outcome.reason
    assert len(outcome.reason) < 1_000
    outcome.reason.encode()
    assert "\x1b" not in outcome.reason
    assert asyncio.run(acompact(model)).stages == ("digest",)


def test_an_endless_answer_is_not_read():
    outcome = compact(lambda _: "The crane was moved and the limiter set to 40. " * 200_000)
    assert outcome.stages == ("digest",)
    assert "the answer has 9,400,000 characters; at most" in outcome.reason


def test_a_long_answer_is_judged_by_the_gate():
    """A few times the allowance is read, so that the reason is the true one."""
    outcome = compact(lambda _: GOOD * 90)
    assert "characters; at most" not in outcome.reason
    assert "it says the same again and again" in outcome.reason


def test_long_reasoning_before_a_good_summary_is_no_fault():
    assert compact(lambda _: f"<think>{'hm ' * 100_000}</think>{GOOD}").stages == ("summarize",)


# -- several questions -------------------------------------------------------------------------------------


def test_after_one_failure_the_rest_of_a_batch_is_not_asked():
    """A model that refused the first part of a history would be asked for each of the others."""
    asked = []

    def model(question):
        asked.append(question)
        raise RuntimeError("503 overloaded")

    model.window = 3_000
    outcome = refold.compact(TALK * 4, ask=model, window=16_000, force=True)
    assert len(asked) == 1
    calls = [call for report in outcome.receipt.stages for call in report.calls]
    assert [call.failed for call in calls] == ["RuntimeError: 503 overloaded"]
    assert "summarize: the model failed: RuntimeError: 503 overloaded" in outcome.reason


def test_a_batch_that_is_answered_is_asked_to_its_end():
    asked = []

    def model(question):
        asked.append(question.purpose)
        return GOOD

    model.window = 3_000
    assert refold.compact(TALK * 4, ask=model, window=16_000, force=True).stages == ("summarize",)
    assert len(asked) > 3
    assert any(purpose.startswith("merge") for purpose in asked)


@pytest.mark.parametrize(
    ("models", "takes_in"),
    [
        ({"gpt-5-mini": 400_000}, 272_000),
        ({"gpt-5-mini": 500_000}, 500_000),
        ({"claude-sonnet-4-6": 1_000_000, "gpt-5-mini": 400_000, "unknown": None}, 272_000),
        ({"unknown": None}, None),
        ({"unknown": 9_000}, 9_000),
    ],
    ids=["limited", "named larger", "several", "unknown", "given"],
)
def test_a_question_fits_what_the_summariser_takes_in(models, takes_in):
    """gpt-5-mini has a window of 400,000 and refuses a question above 272,000."""

    class Named:
        def __init__(self, **fields):
            vars(self).update(fields)

        def __call__(self, question):
            return GOOD

    clients = tuple(Named(model=model, window=window) for model, window in models.items())
    ask = clients[0] if len(clients) == 1 else Named(clients=clients, window=400_000)
    with refold.open("s", store="memory:", ask=ask) as session:
        assert session.state.summariser.window == takes_in


def test_many_hanging_parts_cost_one_deadline(never):
    begun = []

    def model(question):
        begun.append(question)
        never.wait()

    model.window = 3_000
    refold.compact(TALK * 4, ask=model, window=16_000, force=True, ask_timeout=0.05)
    assert len(begun) == 1
