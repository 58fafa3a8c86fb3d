"""Every way a provider can fail: an `AnswerFailed` in time that tells why, and the conversation goes on."""

import asyncio
import copy
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import stamina

import fake_provider as fake
import refold
from fake_provider import HURRIED, LLAMA_CPP, PATIENT, VLLM, says, sends, status
from refold import Ask
from refold.clients import open_client
from refold.errors import AnswerFailed, Overflow, RefoldError

SECRET = "test-key-0123456789"
AGAIN = {"retry_after": "0"}
ERROR = {"error": {"message": "it is broken", "type": "server_error"}}

FAILURES = {
    "401": (status(401, {"error": {"message": f"bad key {SECRET}"}}), "check"),
    "402": (status(402, {"error": {"message": "no money left"}}), "402): no money left"),
    "403": (status(403), "check"),
    "404": (status(404, {"error": "no such model"}), "404): no such model"),
    "400": (status(400, {"detail": [{"msg": "field required"}]}), "400): field required"),
    "429": (status(429, {"error": {"message": "slow down"}}, **AGAIN), "429): slow down"),
    "500": (status(500, ERROR, **AGAIN), "500): it is broken"),
    "529": (status(529, {"type": "error", "error": {"message": "Overloaded"}}, **AGAIN), "529): Overloaded"),
    "502 html": (status(502, b"<html>Bad Gateway</html>", "text/html", **AGAIN), "failed (502)"),
    "204": (status(204), "refused the question (204)"),
    "redirect": (status(302, b"", location="http://127.0.0.1:1/"), "redirects elsewhere (302)"),
    "hangs before headers": (fake.hang_before_headers, "did not answer within 0.6 seconds"),
    "slow headers": (fake.slow_headers, "did not answer within 0.6 seconds"),
    "hangs mid-stream": (fake.hang_mid_stream, "said nothing for 0.3 seconds"),
    "pings for ever": (fake.pings_for_ever, "did not answer within 0.6 seconds"),
    "hangs up": (fake.hang_up, "broke off without an answer"),
    "cut": (fake.cut_stream, "broke off in the middle"),
    "short": (fake.short_stream, "before the answer was complete"),
    "html": (sends(b"<html>Login</html>", "text/html"), "answered with text/html"),
    "no content type": (sends(b"data: {}", ""), "no content type"),
    "empty stream": (sends(b""), "empty stream"),
    "only done": (sends(b"data: [DONE]\n\n"), "empty stream"),
    "only pings": (sends(b": ping\n\n: ping\n\n"), "empty stream"),
    "not json": (sends(b"data: {oops\n\n"), "not JSON"),
    "no object": (sends(b"data: 7\n\n"), "unknown shape"),
    "deep json": (sends(b"[" * 200_000, "application/json"), "not JSON"),
    "unknown shape": (sends(b'{"hello": 1}', "application/json"), "unknown shape"),
    "error as json": (sends(json.dumps(ERROR).encode(), "application/json"), "it is broken"),
    "error event": (fake.fails_after_200(ERROR), "failed while answering: it is broken"),
    "huge": (fake.huge, "more than 8,388,608 bytes"),
    "size, llama.cpp": (status(400, LLAMA_CPP), "for its size (6,030 tokens, limit 4,096)"),
    "size, vllm": (status(400, VLLM), "for its size (6,050 tokens, limit 4,096)"),
    "size, after 200": (fake.fails_after_200(fake.ANTHROPIC), "for its size (213,462 tokens, limit 200,000)"),
    "size, 413": (status(413), "for its size"),
}


HANGS = ("hangs before headers", "slow headers", "hangs mid-stream", "pings for ever")


def deadlines(name):
    return HURRIED if name in HANGS else PATIENT


@dataclass
class Failing:
    """How the provider fails."""

    name: str
    why: str

    @property
    def deadlines(self):
        return deadlines(self.name)


@pytest.fixture(params=FAILURES)
def failing(request, provider):
    behaviour, why = FAILURES[request.param]
    provider.script = [behaviour]
    return Failing(request.param, why)


# -- the error ---------------------------------------------------------------------------------------------


@pytest.mark.few_values(12)
def test_every_failure_is_told_in_one_line(provider, failing, opened, ask):
    client = opened("compatible", **failing.deadlines)
    with pytest.raises(AnswerFailed) as caught:
        ask(client)
    assert failing.why in str(caught.value)
    assert str(caught.value).startswith(client.name)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "name", ["500", "hangs mid-stream", "short", "error event", "empty stream", "not json"]
)
def test_every_wire_fails_alike(provider, wire, opened, name):
    provider.script = [FAILURES[name][0]]
    with pytest.raises(AnswerFailed, match=r"\w") as caught:
        opened(wire, **deadlines(name)).ask(Ask("?"))
    assert FAILURES[name][1] in str(caught.value)


@pytest.mark.parametrize("wire", ["responses"])
def test_a_response_that_failed_is_an_error(provider, opened, wire):
    error = {
        "code": "context_length_exceeded",
        "message": "Your input exceeds the context window of this model.",
    }
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error, "output": []}}
    provider.script = [sends(fake.data(failed))]
    with pytest.raises(AnswerFailed, match="for its size"):
        opened(wire).ask(Ask("?"))


def test_a_refusal_for_size_is_recognised_with_its_numbers(provider, opened, ask):
    provider.script = [status(400, LLAMA_CPP)]
    with pytest.raises(AnswerFailed) as caught:
        ask(opened("compatible"))
    assert isinstance(caught.value.cause, Overflow)
    assert (caught.value.cause.limit, caught.value.cause.requested) == (4096, 6030)
    assert len(provider.seen) == 1


def test_nobody_at_the_address_is_told(ask):
    with pytest.raises(AnswerFailed, match="cannot be reached"):
        ask(open_client("http://127.0.0.1:9/v1#m", total_seconds=2))


def test_a_name_that_nobody_has_is_told():
    with pytest.raises(AnswerFailed, match=r"cannot be reached|did not answer"):
        open_client("http://no-such-host.invalid/v1#m", total_seconds=2).ask(Ask("?"))


# -- asking again ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [408, 409, 429, 500, 503, 529])
def test_a_failure_that_may_pass_is_asked_again_once(provider, opened, ask, code):
    provider.script = [status(code, **AGAIN), says("Then it worked.")]
    assert ask(opened("compatible")).text == "Then it worked."


def test_a_connection_that_breaks_before_an_answer_is_tried_again(provider, opened):
    provider.script = [fake.hang_up, says("Then it worked.")]
    assert opened("compatible").ask(Ask("?")).text == "Then it worked."


@pytest.mark.parametrize(
    ("name", "times"),
    [
        *[(name, 2) for name in ("500", "429", "529")],
        *[(name, 1) for name in ("401", "402", "403", "404", "400", "redirect", "size, vllm", "size, 413")],
        *[(name, 1) for name in ("cut", "short", "error event", "empty stream", "hangs mid-stream")],
    ],
)
def test_how_often_a_failure_is_asked(provider, opened, name, times):
    provider.script = [FAILURES[name][0]]
    with pytest.raises(AnswerFailed):
        opened("compatible", **deadlines(name)).ask(Ask("?"))
    assert len(provider.seen) == times


def test_a_wait_is_honoured(provider, opened):
    provider.script = [status(429, retry_after_ms="300"), says("Then it worked.")]
    waits = []
    stamina.instrumentation.set_on_retry_hooks([lambda details: waits.append(details.wait_for)])
    try:
        assert opened("compatible").ask(Ask("?")).text == "Then it worked."
    finally:
        stamina.instrumentation.set_on_retry_hooks(None)
    assert waits == [0.3]


@pytest.mark.parametrize("wait", ["30", "21", "Fri, 31 Dec 2199 23:59:59 GMT"])
def test_a_wait_that_is_too_long_is_not_waited_for(provider, opened, wait):
    provider.script = [status(429, retry_after=wait), says("too late")]
    with pytest.raises(AnswerFailed, match="429"):
        opened("compatible").ask(Ask("?"))
    assert len(provider.seen) == 1


def test_who_let_time_run_out_is_not_asked_again_so_soon(provider, opened):
    """A long summary has many questions; each would wait as long."""
    provider.script = [fake.hang_before_headers]
    client = opened("compatible", **HURRIED)
    with pytest.raises(AnswerFailed):
        client.ask(Ask("?"))
    with pytest.raises(AnswerFailed, match="not asked again so soon"):
        client.ask(Ask("?"))
    assert len(provider.seen) == 1


@pytest.mark.parametrize(
    ("wire", "model", "message", "gone", "there"),
    [
        ("anthropic", "m", "`temperature` is deprecated for this model.", "temperature", "max_tokens"),
        ("chat", "m", "Unsupported value: 'temperature' does not support 0.", "temperature", "stream"),
        ("compatible", "m", "Unsupported parameter: 'max_tokens'", "max_tokens", "max_completion_tokens"),
        ("chat", "m", "unexpected: max_completion_tokens", "max_completion_tokens", "max_tokens"),
        ("chat", "o3", "Unrecognized request argument: reasoning_effort", "reasoning_effort", "stream"),
        ("responses", "o3", "Unsupported parameter: reasoning", "reasoning", "store"),
        ("compatible", "m", "extra inputs are not permitted: stream_options", "stream_options", "stream"),
    ],
)
def test_a_parameter_that_a_model_refuses_is_left_out(provider, opened, wire, model, message, gone, there):
    provider.script = [status(400, {"error": {"message": message}}), says("Without it.")]
    assert opened(wire, model).ask(Ask("?", max_tokens=9)).text == "Without it."
    assert gone in provider.seen[0].json
    assert gone not in provider.seen[1].json
    assert there in provider.seen[1].json


def test_a_parameter_that_is_refused_for_ever_ends(provider, opened):
    provider.script = [status(400, {"error": {"message": "temperature is not supported"}})]
    with pytest.raises(AnswerFailed, match="temperature is not supported"):
        opened("compatible").ask(Ask("?"))
    assert len(provider.seen) == 2


# -- secrets -----------------------------------------------------------------------------------------------


@pytest.mark.few_values(10)
def test_a_key_is_in_no_error_log_or_repr(provider, failing, caplog):
    caplog.set_level(logging.DEBUG)
    environment = provider.environment(REFOLD_API_KEY=SECRET)
    client = open_client(provider.address("gemini"), environment=environment, **failing.deadlines)
    with pytest.raises(AnswerFailed) as caught:
        client.ask(Ask("?"))
    assert SECRET in str(provider.seen[0].headers)
    error = caught.value
    told = [str(error), repr(error), repr(error.cause), repr(vars(error)), repr(client), client.name]
    assert not any(SECRET in text for text in [*told, caplog.text])


@pytest.mark.parametrize("code", [400, 500])
def test_a_key_that_a_server_repeats_is_not_repeated(provider, opened, caplog, code):
    caplog.set_level(logging.DEBUG)
    provider.script = [status(code, {"error": {"message": f"what\x1b is {SECRET}?"}}, **AGAIN)]
    with pytest.raises(AnswerFailed, match=r"what  is \[key\]\?"):
        opened("chat").ask(Ask("?"))
    assert SECRET not in caplog.text


# -- the conversation --------------------------------------------------------------------------------------

HISTORY = [
    {"role": role, "content": f"{number}: " + "words about the harbour and its berths " * 25}
    for number in range(12)
    for role in ("user", "assistant")
]


def shortened(outcome):
    assert outcome.compacted
    assert outcome.fits
    assert outcome.summary is None or "Half of" not in outcome.summary
    assert any(call.failed for call in outcome.receipt.calls)
    assert SECRET not in str(outcome.receipt.as_dict())


@pytest.mark.few_values(12)
@pytest.mark.parametrize("drive", ["compact", "acompact"])
def test_a_compaction_succeeds_by_the_next_stage_whatever_fails(provider, failing, drive, monkeypatch):
    monkeypatch.setenv("REFOLD_API_KEY", SECRET)
    before = copy.deepcopy(HISTORY)
    client = open_client(f"{provider.url}/v1#m", **failing.deadlines)
    options = {"ask": client, "window": 4_000, "force": True}
    outcome = (
        refold.compact(HISTORY, **options)
        if drive == "compact"
        else asyncio.run(refold.acompact(HISTORY, **options))
    )
    shortened(outcome)
    assert before == HISTORY
    assert provider.seen


NO_SUMMARY = {
    "empty": says(""),
    "only reasoning": says("", reasoning="hm"),
    "tool call": says("", calls=1, finish="tool_calls"),
    "refusal": says("I cannot do that.", refusal=True),
    "cut off": says("Half of a summ", finish="length"),
}


@pytest.mark.each_value
@pytest.mark.parametrize("name", NO_SUMMARY)
@pytest.mark.parametrize("wire", ["chat", "responses", "anthropic", "gemini"])
def test_an_answer_that_is_no_summary_leaves_it_to_the_next_stage(provider, opened, name, wire):
    provider.script = [NO_SUMMARY[name]]
    before = copy.deepcopy(HISTORY)
    outcome = refold.compact(HISTORY, ask=opened(wire), window=4_000, force=True)
    assert outcome.compacted
    assert outcome.fits
    assert "summarize" not in outcome.stages
    assert before == HISTORY


# -- leaving -----------------------------------------------------------------------------------------------


def test_a_question_can_be_cancelled_at_any_moment(provider, opened):
    provider.script = [fake.hang_mid_stream]
    client = opened("compatible", total_seconds=30, idle_seconds=30)

    async def left():
        task = asyncio.ensure_future(client.aask(Ask("?")))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(left())


def test_a_wrong_option_is_told():
    with pytest.raises(RefoldError, match="has no option 'threads'"):
        open_client("http://127.0.0.1:9/v1#m", threads=1)
    with pytest.raises(TypeError, match="tempreture"):
        open_client("http://127.0.0.1:9/v1#m", tempreture=1)


def test_a_server_that_takes_too_long_for_its_first_byte_is_told(provider, opened):
    provider.script = [fake.hang_before_headers]
    with pytest.raises(AnswerFailed, match=r"said nothing for 0\.2 seconds"):
        opened("compatible", first_seconds=0.2).ask(Ask("?"))


def test_a_response_that_ends_without_its_output_is_told(provider, opened):
    provider.script = [sends(fake.data({"type": "response.completed", "response": {"status": "completed"}}))]
    with pytest.raises(AnswerFailed, match="gave nothing in its answer"):
        opened("responses").ask(Ask("?"))


def test_one_client_serves_many_at_once(provider, opened):
    client = opened("compatible")

    async def many():
        return await asyncio.gather(*(client.aask(Ask(f"{number}?")) for number in range(8)))

    with ThreadPoolExecutor(8) as threads:
        answers = [*threads.map(client.ask, [Ask("?")] * 8), *asyncio.run(many()), *asyncio.run(many())]
    assert {answer.text for answer in answers} == {"A summary."}
    assert len(provider.seen) == 24
