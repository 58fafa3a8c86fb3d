"""Addresses and clients wherever `ask` is taken: plain calls and sessions, for threads and event loops."""

import asyncio

import pytest

import refold
from fake_provider import LLAMA_CPP, says, status
from refold.clients import open_client
from refold.errors import RefoldError

HISTORY = [
    {"role": role, "content": f"{number}: " + "words about the harbour and its berths " * 25}
    for number in range(12)
    for role in ("user", "assistant")
]
SUMMARY = (
    "They spoke of the harbour and its berths, from 0 to 11, and nothing is left to do. Each message has the same "
    "words about the harbour and its berths; nothing was decided, nothing failed, and no file was read."
)


@pytest.fixture(params=["address", "client", "list", "commas"])
def who(request, provider):
    provider.script = [says(SUMMARY)]
    address = f"{provider.url}/v1#m"
    return {
        "address": address,
        "client": open_client(address),
        "list": ["http://127.0.0.1:9/v1#nobody", address],
        "commas": f"http://127.0.0.1:9/v1#nobody, {address}",
    }[request.param]


@pytest.mark.few_values(2)
def test_a_compaction_asks_whoever_is_named(provider, who):
    outcome = refold.compact(HISTORY, ask=who, window=8_000, force=True)
    assert SUMMARY in outcome.summary
    assert "summarize" in outcome.stages


def test_a_compaction_in_an_event_loop_asks_whoever_is_named(provider, who):
    outcome = asyncio.run(refold.acompact(HISTORY, ask=who, window=8_000, force=True))
    assert SUMMARY in outcome.summary


def test_questions_fit_the_window_of_whoever_answers(provider):
    provider.script = [says(SUMMARY)]
    client = open_client(f"{provider.url}/v1#m", window=2_500)
    refold.compact(HISTORY, ask=client, window=8_000, force=True)
    assert len(provider.seen) > 1
    sizes = [refold.count(message["content"]) for seen in provider.seen for message in seen.json["messages"]]
    assert max(sizes) < 2_500


def test_a_session_asks_whoever_is_named(provider, who):
    with refold.open("s", store="memory:", window=8_000, ask=who) as session:
        ready = session.prepare(HISTORY)
        session.compact()
        log = len(session.log())
    assert ready.messages
    assert provider.seen
    assert log > len(HISTORY)


def test_a_session_in_an_event_loop_asks_whoever_is_named(provider, who):
    async def go():
        async with refold.aopen("s", store="memory:", window=8_000, ask=who) as session:
            await session.prepare(HISTORY)
            await session.compact()

    asyncio.run(go())
    assert provider.seen


def test_a_session_whose_model_fails_keeps_its_log_and_goes_on(provider):
    provider.script = [status(400, LLAMA_CPP)]
    with refold.open("s", store="memory:", window=8_000, ask=f"{provider.url}/v1#m") as session:
        session.prepare(HISTORY)
        outcome = session.compact()
        said = [entry for entry in session.log() if entry.kind == "said"]
        view = session.view()
    # There is room, so nothing leaves that no model has read.
    assert not outcome.compacted
    assert "the model failed" in outcome.reason
    assert len(said) == len(HISTORY)
    assert list(view) == list(HISTORY)


@pytest.mark.parametrize("window", [1_500, 100_000])
def test_a_question_fits_the_window_of_the_client(provider, window):
    """A small summariser is asked in several questions, each of which it can read."""
    provider.script = [says(SUMMARY)]
    client = open_client(f"{provider.url}/v1#m", window=window)
    refold.compact(HISTORY, ask=client, window=8_000, force=True)
    sizes = [refold.count(seen.json["messages"]) for seen in provider.seen]
    assert max(sizes) <= window
    assert (len(sizes) > 1) == (window == 1_500)


@pytest.mark.parametrize("wrong", [7, {"a": 1}, object()])
def test_what_is_nobody_is_refused(wrong):
    with pytest.raises(RefoldError, match="ask is a callable from the prompt to the answer, a client"):
        refold.compact(HISTORY, ask=wrong)


def test_a_wrong_address_is_refused_before_anything_is_done():
    with pytest.raises(RefoldError, match="'nobody:model' is no address of a model"):
        refold.compact(HISTORY, ask="nobody:model")
