"""Two turns at once on one conversation, on a real socket: a refused one is sent a view of its own list."""

import asyncio
import json
import urllib.error
import urllib.request

import pytest

import refold
from refold.adapters.base import Adapter, AsyncTurn, Turn
from refold.adapters.bridge import Bridge
from refold.testing import Provider

BRIDGE = Bridge(lambda item: (item,), list)
TEXT = "the build failed in module parser because of a missing brace " * 12
WINDOW = 4000


def history(turns, question):
    found = []
    for turn in range(turns):
        found += [
            {"role": "user", "content": f"question {turn} {TEXT}"},
            {"role": "assistant", "content": f"answer {turn} {TEXT}"},
        ]
    return [*found, {"role": "user", "content": question}]


FIRST, SECOND = history(8, "What about the first one?"), history(6, "What about the second one?")


@pytest.fixture
def provider():
    with Provider(limit=WINDOW) as running:
        yield running
    assert running.problems == []


@pytest.fixture
def adapter():
    made = Adapter(store="memory:", window=WINDOW)
    yield made
    made.close()


def post(provider, messages):
    """Send a request as any program does."""
    body = json.dumps({"model": "gpt-4o", "messages": messages}).encode()
    request = urllib.request.Request(f"{provider.url}/chat/completions", body)
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise RuntimeError(error.read().decode()) from None


def last_words(request):
    return request.messages[-1]["content"]


@pytest.mark.parametrize("refusals", [1, 2], ids=["one is refused", "both are refused"])
def test_the_refused_turn_is_sent_its_own_list(provider, adapter, refusals):
    """The second turn begins and ends while the first one waits for its answer."""
    session, calls = adapter.session("k", create=True), []

    def overtake(view):
        calls.append(view)
        if len(calls) == 1:
            provider.refuse_next = refusals - 1
            Turn(session, BRIDGE, SECOND).send(lambda other: post(provider, other))
            provider.refuse_next = 1
        return post(provider, view)

    answered = Turn(session, BRIDGE, FIRST).send(overtake)
    assert answered["choices"]
    refused, again = provider.requests[-2:]
    assert [refused.outcome, again.outcome] == ["refused", "answered"]
    assert last_words(again) == "What about the first one?"
    assert again.used < refused.used
    assert calls[1][-1] is FIRST[-1]
    assert "second" not in json.dumps(again.messages)


def test_a_second_refusal_is_the_providers_error_also_then(provider, adapter):
    session, calls = adapter.session("k", create=True), []

    def overtake(view):
        calls.append(view)
        provider.refuse_next = 0
        Turn(session, BRIDGE, SECOND).send(lambda other: post(provider, other))
        provider.refuse_next = 1
        return post(provider, view)

    with pytest.raises(RuntimeError, match="context") as caught:
        Turn(session, BRIDGE, FIRST).send(overtake)
    assert isinstance(caught.value.__cause__, refold.Overflow)
    assert len(calls) == 2


def test_tasks_at_once_are_each_sent_their_own_list(provider, adapter):
    """Both requests are under way before one is refused, and both are refused before one is sent again."""

    async def talk():
        session, both = await adapter.asession("k", create=True), asyncio.Barrier(2)

        async def send(messages):
            calls = []

            async def call(view):
                calls.append(view)
                if len(calls) > 1:
                    return await asyncio.to_thread(post, provider, view)
                await both.wait()
                try:
                    return await asyncio.to_thread(post, provider, view)
                finally:
                    await both.wait()

            await AsyncTurn(session, BRIDGE, messages).send(call)
            return calls[-1]

        provider.refuse_next = 2
        try:
            return await asyncio.gather(send(FIRST), send(SECOND))
        finally:
            await adapter.aclose()

    sent = asyncio.run(talk())
    assert [view[-1] for view in sent] == [FIRST[-1], SECOND[-1]]
    assert sorted(map(last_words, provider.answered)) == [FIRST[-1]["content"], SECOND[-1]["content"]]


def test_no_word_of_either_turn_is_lost(provider, adapter):
    session = adapter.session("k", create=True)

    def overtake(view):
        Turn(session, BRIDGE, SECOND).send(lambda other: post(provider, other))
        return post(provider, view)

    Turn(session, BRIDGE, FIRST).send(overtake)
    for word in ("first", "second"):
        assert any(f"the {word} one" in hit.text for hit in session.recall(f"about the {word} one"))
