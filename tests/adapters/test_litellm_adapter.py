"""LiteLLM through the adapter: the functions, the class, the hook of the proxy."""

import asyncio
import os

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # LiteLLM fetches a table otherwise

from conformance_case import need

need("litellm", extra="litellm")

import litellm  # skipped above where it is missing
from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

import refold
from refold.adapters.litellm import RefoldHook, RefoldLiteLLM, acompletion, completion
from refold.testing import Provider

pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM warns about its own libraries

WINDOW = 4000
TEXT = "the build failed in module parser because of a missing brace " * 12
HI = [{"role": "user", "content": "Turn 1: hi"}]


def history(turns):
    found = []
    for turn in range(turns):
        found += [
            {"role": "user", "content": f"question {turn} {TEXT}"},
            {"role": "assistant", "content": f"answer {turn} {TEXT}"},
        ]
    return [*found, {"role": "user", "content": "and now?"}]


@pytest.fixture
def provider():
    with Provider(limit=WINDOW) as running:
        yield running
    assert running.problems == []


@pytest.fixture
def adapter(provider):
    made = RefoldLiteLLM(store="memory:", window=WINDOW, key="task")
    yield made
    made.close()


def address(provider):
    return {"model": "openai/gpt-4o", "api_base": provider.url, "api_key": "none", "max_retries": 0}


def count_requests(adapter, key="task"):
    return adapter.session(key).stats().totals.requests


def test_the_functions_take_a_session(provider):
    with refold.open("task", store="memory:", window=WINDOW, format="openai") as session:
        assert completion(session, messages=history(20), **address(provider)).choices[0].message.content
        chunks = list(completion(session, messages=history(20), stream=True, **address(provider)))
        assert session.stats().totals.requests == 2
        assert len(session.folds()) == 1
    assert all(getattr(chunk, "usage", None) is None for chunk in chunks)


def test_the_functions_take_an_async_session(provider):
    async def talk():
        session = refold.aopen("task", store="memory:", window=WINDOW, format="openai")
        await acompletion(session, messages=history(20), **address(provider))
        stream = await acompletion(session, messages=history(20), stream=True, **address(provider))
        assert len([chunk async for chunk in stream]) > 2
        totals = (await session.stats()).totals
        await session.close()
        return totals.requests

    assert asyncio.run(talk()) == 2


def test_a_stream_is_litellm_s_own_class_with_its_attributes(provider, adapter):
    stream = adapter.completion(messages=HI, stream=True, **address(provider))
    plain = litellm.completion(messages=HI, stream=True, **address(provider))
    assert isinstance(stream, litellm.CustomStreamWrapper)
    assert (stream.model, stream.custom_llm_provider) == (plain.model, plain.custom_llm_provider)
    ours, theirs = ([chunk.choices[0].delta.content for chunk in each] for each in (stream, plain))
    assert ours == theirs


def test_a_caller_who_asks_for_the_usage_sees_it(provider, adapter):
    options = {"stream_options": {"include_usage": True}}
    *_, last = adapter.completion(messages=HI, stream=True, **options, **address(provider))
    assert last.usage.prompt_tokens > 0
    assert count_requests(adapter) == 1


@pytest.mark.parametrize("in_stream", [False, True])
def test_a_refused_stream_is_begun_again(provider, in_stream):
    provider.refuse_in_stream = in_stream
    adapter = RefoldLiteLLM(store="memory:", window=64_000, key="task")
    assert len(list(adapter.completion(messages=history(20), stream=True, **address(provider)))) > 2
    assert [request.outcome for request in provider.requests] == ["refused", "answered"]
    adapter.close()


def test_a_second_refusal_is_litellm_s_error_with_ours_as_its_cause(provider, adapter):
    provider.refuse_next = 2
    with pytest.raises(litellm.ContextWindowExceededError) as error:
        adapter.completion(messages=history(20), **address(provider))
    assert isinstance(error.value.__cause__, refold.Overflow)


def test_messages_of_litellm_stay_objects_in_the_caller_s_list(provider, adapter):
    messages = list(HI)
    answer = adapter.completion(messages=messages, **address(provider)).choices[0].message
    messages += [answer, {"role": "user", "content": "Turn 2: more"}]
    adapter.completion(messages=messages, **address(provider))
    assert messages[1] is answer
    assert len(adapter.session("task").log(kinds=["said"])) == 3


@pytest.mark.parametrize("where", [{"metadata": {"session_id": "a"}}, {"litellm_session_id": "a"}])
def test_the_session_is_the_one_that_the_request_names(provider, where):
    adapter = RefoldLiteLLM(store="memory:", window=WINDOW)
    adapter.completion(messages=HI, **where, **address(provider))
    assert count_requests(adapter, "a") == 1
    adapter.close()


def test_a_request_that_names_no_session_is_refused_with_advice(provider):
    adapter = RefoldLiteLLM(store="memory:", window=WINDOW)
    with pytest.raises(refold.RefoldError, match="session_id"):
        adapter.completion(messages=HI, **address(provider))


def test_the_window_is_that_of_the_model_of_each_request(provider):
    adapter = RefoldLiteLLM(store="memory:", key="task")
    for model, window in (("openai/gpt-4o", 128_000), ("openai/gpt-4", refold.window("gpt-4").tokens)):
        adapter.completion(messages=HI, **{**address(provider), "model": model})
        assert adapter.session().budget().window == window
    adapter.close()


def test_of_a_router_s_deployments_the_smallest_window_counts(provider):
    deployments = [
        {"model_name": "box", "litellm_params": {**address(provider), "model": f"openai/{name}"}}
        for name in ("gpt-4o", "gpt-4")
    ]
    adapter = RefoldLiteLLM(store="memory:", key="task", router=litellm.Router(model_list=deployments))
    adapter.completion(model="box", messages=HI)
    assert adapter.session().budget().window == refold.window("gpt-4").tokens
    adapter.close()


def test_litellm_writes_the_summaries(provider, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_API_BASE", provider.url)
    adapter = RefoldLiteLLM(store="memory:", window=WINDOW, key="task", ask="openai/gpt-4o-mini")
    adapter.completion(messages=history(20), **address(provider))
    assert [request.model for request in provider.requests][-2:] == ["gpt-4o-mini", "gpt-4o"]
    assert adapter.session().stats().spent.calls >= 1
    adapter.close()


def test_litellm_s_own_compression_beside_ours_is_refused(provider, adapter, monkeypatch):
    name = "litellm.integrations.compression_interception.handler"
    handler = pytest.importorskip(name, reason="this version of LiteLLM compresses nothing")
    compressing = object.__new__(handler.CompressionInterceptionLogger)
    monkeypatch.setattr(litellm, "callbacks", [compressing])
    with pytest.raises(refold.RefoldError, match="compression_interception"):
        adapter.completion(messages=HI, **address(provider))


# -- the hook -----------------------------------------------------------------------------------------------


@pytest.fixture
def hook(provider, monkeypatch):
    made = RefoldHook(store="memory:", window=WINDOW)
    monkeypatch.setattr(litellm, "callbacks", [made])
    yield made
    made.close()


def test_the_hook_folds_counts_and_keeps_users_apart(provider, hook):
    """One event loop for all of it: LiteLLM's worker, which tells callbacks of answers, belongs to one."""

    async def talk():
        named = {"metadata": {"session_id": "a"}, **address(provider)}
        await litellm.acompletion(messages=history(20), **named)
        stream = await litellm.acompletion(messages=history(20), stream=True, **named)
        assert len([chunk async for chunk in stream]) > 2
        await litellm.acompletion(messages=HI, **address(provider))  # names no session
        for owner in ("one", "two"):
            metadata = {"session_id": "b", "user_api_key_hash": owner}
            messages = [{"role": "user", "content": f"I am {owner}"}]
            await litellm.acompletion(messages=messages, metadata=metadata, **address(provider))
        await GLOBAL_LOGGING_WORKER.flush()
        return [
            (await (await hook.adapter.asession(key)).stats()).totals.requests
            for key in ("a", "one:b", "two:b")
        ]

    assert asyncio.run(talk()) == [2, 1, 1]
    assert [len(request.messages) for request in provider.requests][2:] == [1, 1, 1]
    assert len(provider.requests[0].messages) < 41
    assert hook.session("a").folds()
    texts = [[entry.text for entry in hook.session(f"{n}:b").log(kinds=["said"])] for n in ("one", "two")]
    assert texts == [["I am one"], ["I am two"]]


def test_the_hook_learns_from_a_refusal_and_folds_the_next_request(provider):
    hook = RefoldHook(store="memory:", window=64_000)
    asked = {"metadata": {"session_id": "a"}, "litellm_params": {"metadata": {"session_id": "a"}}}

    async def talk():
        first = await hook.async_pre_call_deployment_hook({**asked, "messages": history(20)}, "acompletion")
        with pytest.raises(litellm.ContextWindowExceededError) as refused:
            litellm.completion(messages=first["messages"], **address(provider))
        for _ in range(2):  # a router may try twice
            kwargs = {**asked, "call_type": "acompletion", "exception": refused.value}
            await hook.async_log_failure_event(kwargs, None, None, None)
        return await hook.async_pre_call_deployment_hook({**asked, "messages": history(20)}, "acompletion")

    assert len(asyncio.run(talk())["messages"]) < 41
    hook.close()
