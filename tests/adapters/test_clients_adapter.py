"""`refold.wrap`: the clients of both SDKs behave as before, and their requests go through a session."""

import asyncio
import gc
import inspect
import threading
from weakref import WeakSet

import pytest

REASON = "the SDK is not installed: pip install 'refold[openai,anthropic]'"
openai = pytest.importorskip("openai", reason=REASON)
anthropic = pytest.importorskip("anthropic", reason=REASON)

from pydantic import BaseModel  # comes with both SDKs

import refold
from refold.testing import Provider

WINDOW = 4000
CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Turn 1: hi"}]}
RESPONSES = {"model": "gpt-4o", "input": [{"role": "user", "content": "Turn 1: hi"}]}
MESSAGES = {"model": "claude-sonnet-5", "max_tokens": 100, "messages": CHAT["messages"]}
OPENED = WeakSet()  # a test drops a client to see who else holds it
TEXT = "the build failed in module parser because of a missing brace " * 12


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


@pytest.fixture(autouse=True)
def no_socket_is_left():
    """The collector would find it in a later test, and that one would fail."""
    yield
    while OPENED:
        OPENED.pop().close()


def plain_client(provider, kind=openai.OpenAI, **options):
    address = provider.url if kind.__module__.startswith("openai") else provider.root
    client = kind(base_url=address, api_key="none", max_retries=0, **options)
    if isinstance(client, openai.OpenAI | anthropic.Anthropic):
        OPENED.add(client)
    return client


def wrapped_client(provider, kind=openai.OpenAI, **options):
    options = {"store": "memory:", "window": WINDOW, **options}
    return refold.wrap(plain_client(provider, kind), "task", **options)


def count_requests(client):
    return client.refold.stats().totals.requests


# -- the object ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [openai.OpenAI, openai.AsyncOpenAI, anthropic.Anthropic, anthropic.AsyncAnthropic]
)
def test_the_class_is_the_same_and_the_caller_s_client_is_untouched(provider, kind):
    client = plain_client(provider, kind)
    resources = [client.models, client.with_raw_response]
    before = dict(vars(client))
    wrapped = refold.wrap(client, "task", store="memory:", window=WINDOW)
    assert type(wrapped) is kind
    assert wrapped is not client
    assert vars(client) == before
    assert [client.models, client.with_raw_response] == resources
    assert wrapped.models is not client.models
    assert wrapped.refold.name == "task"


def test_a_subclass_with_a_constructor_of_its_own_can_be_wrapped(provider):
    class Company(openai.OpenAI):
        def __init__(self, address):
            super().__init__(base_url=address, api_key="none")

    client = refold.wrap(Company(provider.url), "task", store="memory:", window=WINDOW)
    assert isinstance(client, Company)
    client.chat.completions.create(**CHAT)
    assert count_requests(client) == 1


def test_azure_s_client_goes_through_the_session(provider):
    azure = openai.AzureOpenAI(base_url=provider.url, api_key="none", api_version="2024-10-21")
    client = refold.wrap(azure, "task", store="memory:", window=WINDOW)
    client.chat.completions.create(**CHAT)
    assert (type(client), count_requests(client)) == (openai.AzureOpenAI, 1)


@pytest.mark.parametrize("value", [object(), "client", openai])
def test_other_objects_are_refused_in_one_line(value):
    with pytest.raises(refold.RefoldError, match="cannot wrap"):
        refold.wrap(value, "task", store="memory:")


def test_a_class_is_no_client():
    told = r"cannot wrap the class OpenAI: pass a client, such as openai\.OpenAI\(\)"
    with pytest.raises(refold.RefoldError, match=told):
        refold.wrap(openai.OpenAI, "task", store="memory:")


def test_a_wrapped_client_is_not_wrapped_again(provider):
    client = wrapped_client(provider)
    with pytest.raises(refold.RefoldError, match="wrapped already"):
        refold.wrap(client, "other", store="memory:")
    with pytest.raises(refold.RefoldError, match="wrapped already"):
        refold.wrap(client.with_options(timeout=5), "other", store="memory:")


def test_wrap_has_every_option_of_open_but_those_that_the_client_tells():
    own, of_open = (inspect.signature(call).parameters for call in (refold.wrap, refold.open))
    assert set(of_open) - set(own) == {"endpoint", "format"}
    assert set(own) - set(of_open) == {"client", "on_event"}
    assert {name: p.default for name, p in own.items() if name in of_open} == {
        name: p.default for name, p in of_open.items() if name in own
    }


def test_options_reach_the_session_and_wrong_ones_are_refused(provider):
    events = []
    client = wrapped_client(provider, on_event=events.append)
    client.chat.completions.create(**CHAT)
    assert [event.kind for event in events] == ["usage_update"]
    with pytest.raises(refold.RefoldError, match="policy"):
        wrapped_client(provider, policy="no such policy")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("", {}, "'' is no name of a session"),
        (" \n", {}, "is no name of a session"),
        (None, {}, "None is no name of a session"),
        ("task", {"on_event": 3}, "on_event is 3: it must be a callable"),
        ("task", {"model": ""}, "model is '': it must be a name, or None"),
    ],
)
def test_a_blank_name_and_wrong_options_are_refused_at_once(provider, name, options, message):
    with pytest.raises(refold.RefoldError, match=message):
        refold.wrap(plain_client(provider), name, store="memory:", **options)


def test_copies_carry_the_session(provider):
    client = wrapped_client(provider)
    for copied in (client.with_options(timeout=5), client.copy(max_retries=1)):
        assert type(copied) is openai.OpenAI
        assert copied.refold is client.refold
        copied.chat.completions.create(**CHAT)
        copied.with_options(timeout=6).chat.completions.create(**CHAT)
    assert count_requests(client) == 4
    assert inspect.signature(client.copy) == inspect.signature(plain_client(provider).copy)


def test_closing_the_client_closes_its_session(provider, tmp_path):
    with wrapped_client(provider, store=f"jsonl:{tmp_path}") as client:
        client.chat.completions.create(**CHAT)
    assert client.is_closed()
    with pytest.raises(refold.RefoldError):
        client.refold.say("more")


@pytest.mark.parametrize("is_kept", [True, False])
def test_closing_a_wrapped_client_leaves_the_connections_to_who_holds_them(provider, is_kept):
    client = plain_client(provider)
    ann, bob = (refold.wrap(client, name, store="memory:", window=WINDOW) for name in ("ann", "bob"))
    if is_kept:
        ann.close()
        client.chat.completions.create(**CHAT)
        client.close()
        assert bob.is_closed()
        return
    del client
    ann.close()
    assert (ann.is_closed(), bob.is_closed()) == (True, False)
    bob.chat.completions.create(**CHAT)
    with pytest.raises(refold.RefoldError, match="closed"):
        ann.chat.completions.create(**CHAT)
    connections = bob._client
    bob.close()
    assert connections.is_closed


def test_a_copy_with_connections_of_its_own_closes_them(provider):
    client = plain_client(provider)
    wrapped = refold.wrap(client, "task", store="memory:", window=WINDOW)
    connections = openai.DefaultHttpxClient()
    wrapped.copy(http_client=connections).close()
    assert (connections.is_closed, client.is_closed()) == (True, False)
    client.close()


def test_closing_an_async_wrapped_client_leaves_the_caller_s_open(provider):
    async def talk():
        client = plain_client(provider, openai.AsyncOpenAI)
        async with refold.wrap(client, "task", store="memory:", window=WINDOW) as wrapped:
            await wrapped.chat.completions.create(**CHAT)
        await client.chat.completions.create(**CHAT)
        assert (wrapped.is_closed(), client.is_closed()) == (True, False)
        await client.close()

    asyncio.run(talk())


def test_the_endpoint_and_the_model_are_those_of_each_request(provider):
    client = refold.wrap(plain_client(provider), "task", store="memory:")
    client.chat.completions.create(**CHAT)
    assert client.refold.model == "gpt-4o"
    assert client.refold.budget().window == 128_000
    client.chat.completions.create(**{**CHAT, "model": "gpt-4"})
    assert client.refold.budget().window == refold.window("gpt-4").tokens


def test_a_model_that_was_named_stays(provider):
    client = refold.wrap(plain_client(provider), "task", store="memory:", model="gpt-4o")
    client.chat.completions.create(**{**CHAT, "model": "my-deployment"})
    assert client.refold.model == "gpt-4o"


# -- types, errors and streams are those of the plain client ------------------------------------------------


class Fruit(BaseModel):
    """What is parsed."""

    name: str


def calls(client):
    """Every way to ask a model, with what it returns."""
    if isinstance(client, openai.OpenAI):
        return {
            "create": lambda: client.chat.completions.create(**CHAT),
            "create a stream": lambda: client.chat.completions.create(stream=True, **CHAT),
            "create with usage": lambda: client.chat.completions.create(
                stream=True, stream_options={"include_usage": True}, **CHAT
            ),
            "chat stream": lambda: client.chat.completions.stream(**CHAT),
            "beta chat": lambda: client.beta.chat.completions.create(**CHAT),
            "responses": lambda: client.responses.create(**RESPONSES),
            "responses of a text": lambda: client.responses.create(model="gpt-4o", input="Turn 1: hi"),
            "responses events": lambda: client.responses.create(stream=True, **RESPONSES),
            "responses stream": lambda: client.responses.stream(**RESPONSES),
            "raw": lambda: client.chat.completions.with_raw_response.create(**CHAT),
            "raw stream": lambda: client.chat.completions.with_raw_response.create(stream=True, **CHAT),
            "raw responses": lambda: client.responses.with_raw_response.create(**RESPONSES),
            "streaming response": lambda: client.chat.completions.with_streaming_response.create(**CHAT),
            "streaming events": lambda: client.responses.with_streaming_response.create(
                stream=True, **RESPONSES
            ),
        }
    return {
        "create": lambda: client.messages.create(**MESSAGES),
        "create a stream": lambda: client.messages.create(stream=True, **MESSAGES),
        "stream": lambda: client.messages.stream(**MESSAGES),
        "beta": lambda: client.beta.messages.create(**MESSAGES),
        "beta stream": lambda: client.beta.messages.stream(**MESSAGES),
        "raw": lambda: client.messages.with_raw_response.create(**MESSAGES),
        "raw stream": lambda: client.messages.with_raw_response.create(stream=True, **MESSAGES),
        "streaming response": lambda: client.messages.with_streaming_response.create(**MESSAGES),
    }


def use(value):
    """Read a returned value to its end; returns the types on the way."""
    types = [type(value).__name__]
    if hasattr(value, "__enter__") and not hasattr(value, "__iter__"):
        with value as opened:
            return types + use(opened)
    if hasattr(value, "parse"):
        return types + use(value.parse())
    if hasattr(value, "__next__"):
        types += [type(chunk).__name__ for chunk in value]
    return types


@pytest.mark.parametrize("kind", [openai.OpenAI, anthropic.Anthropic])
def test_every_call_gives_the_same_types_and_is_counted(provider, kind):
    plain, wrapped = plain_client(provider, kind), wrapped_client(provider, kind)
    for number, (name, call) in enumerate(calls(wrapped).items(), 1):
        assert use(call()) == use(calls(plain)[name]()), name
        assert count_requests(wrapped) == number, name


async def ause(value):
    """The same in an event loop."""
    value = await value if hasattr(value, "__await__") else value
    types = [type(value).__name__]
    if hasattr(value, "__aenter__") and not hasattr(value, "__aiter__"):
        async with value as opened:
            return types + await ause(opened)
    if hasattr(value, "parse"):
        return types + await ause(value.parse())
    if hasattr(value, "__anext__"):
        types += [type(chunk).__name__ async for chunk in value]
    return types


@pytest.mark.parametrize("kind", [openai.AsyncOpenAI, anthropic.AsyncAnthropic])
def test_every_call_of_an_async_client_gives_the_same_types_and_is_counted(provider, kind):
    async def compare():
        plain, wrapped = plain_client(provider, kind), wrapped_client(provider, kind)
        pick = {
            openai.AsyncOpenAI: lambda client: [
                lambda: client.chat.completions.create(**CHAT),
                lambda: client.chat.completions.create(stream=True, **CHAT),
                lambda: client.chat.completions.stream(**CHAT),
                lambda: client.responses.create(**RESPONSES),
                lambda: client.responses.stream(**RESPONSES),
                lambda: client.chat.completions.with_raw_response.create(**CHAT),
                lambda: client.chat.completions.with_raw_response.create(stream=True, **CHAT),
                lambda: client.responses.with_streaming_response.create(stream=True, **RESPONSES),
                lambda: client.responses.with_streaming_response.create(**RESPONSES),
            ],
            anthropic.AsyncAnthropic: lambda client: [
                lambda: client.messages.create(**MESSAGES),
                lambda: client.messages.create(stream=True, **MESSAGES),
                lambda: client.messages.stream(**MESSAGES),
                lambda: client.beta.messages.stream(**MESSAGES),
                lambda: client.messages.with_raw_response.create(**MESSAGES),
                lambda: client.messages.with_raw_response.create(stream=True, **MESSAGES),
                lambda: client.messages.with_streaming_response.create(**MESSAGES),
            ],
        }[kind]
        for number, (ours, theirs) in enumerate(zip(pick(wrapped), pick(plain), strict=True), 1):
            assert await ause(ours()) == await ause(theirs()), number
            assert (await wrapped.refold.stats()).totals.requests == number, number
        await wrapped.close()
        await plain.close()

    asyncio.run(compare())


def test_parsed_answers_are_parsed():
    def answer(request):
        return '{"name": "apple"}'

    with Provider(answer=answer) as provider:
        client = wrapped_client(provider)
        parsed = client.chat.completions.parse(response_format=Fruit, **CHAT)
        assert parsed.choices[0].message.parsed == Fruit(name="apple")
        assert client.responses.parse(text_format=Fruit, **RESPONSES).output_parsed == Fruit(name="apple")
        raw = client.chat.completions.with_raw_response.parse(response_format=Fruit, **CHAT)
        assert raw.parse().choices[0].message.parsed == Fruit(name="apple")
        assert count_requests(client) == 3


def test_a_parsed_answer_that_was_cut_off_is_counted_and_raises_the_client_s_error(provider):
    choice = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": "{"}}
    usage = {"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 13}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o"}
    provider.fail_next(200, {**head, "choices": [choice], "usage": usage})
    client = wrapped_client(provider)
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(response_format=Fruit, **CHAT)
    assert count_requests(client) == 1


def parses(client):
    """Every way to ask for a parsed answer but OpenAI's streams, which end before they report usage."""
    if isinstance(client, openai.OpenAI | openai.AsyncOpenAI):
        chat, responses = {"response_format": Fruit, **CHAT}, {"text_format": Fruit, **RESPONSES}
        return [
            lambda: client.chat.completions.parse(**chat),
            lambda: client.responses.parse(**responses),
            lambda: client.chat.completions.with_raw_response.parse(**chat),
            lambda: client.chat.completions.with_streaming_response.parse(**chat),
        ]
    messages = {"output_format": Fruit, **MESSAGES}
    return [
        lambda: client.messages.parse(**messages),
        lambda: client.beta.messages.parse(**messages),
        lambda: client.beta.messages.with_raw_response.parse(**messages),
        lambda: client.messages.stream(**messages),
        lambda: client.beta.messages.stream(**messages),
    ]


@pytest.mark.parametrize("kind", [openai.OpenAI, anthropic.Anthropic])
def test_an_answer_that_the_client_cannot_parse_is_counted(kind):
    with Provider(answer=lambda _: "this is no JSON") as provider:
        client, plain = wrapped_client(provider, kind), plain_client(provider, kind)
        for count, (ask, ask_plainly) in enumerate(zip(parses(client), parses(plain), strict=True), 1):
            with pytest.raises(ValueError) as expected:
                use(ask_plainly())
            with pytest.raises(type(expected.value)) as caught:
                use(ask())
            assert str(caught.value) == str(expected.value)
            assert count_requests(client) == count


@pytest.mark.parametrize("kind", [openai.AsyncOpenAI, anthropic.AsyncAnthropic])
def test_an_answer_that_an_async_client_cannot_parse_is_counted(kind):
    async def play(provider):
        client = wrapped_client(provider, kind)
        for count, ask in enumerate(parses(client), 1):
            with pytest.raises(ValueError):
                await ause(ask())
            assert (await client.refold.stats()).totals.requests == count
        await client.close()

    with Provider(answer=lambda _: "this is no JSON") as provider:
        asyncio.run(play(provider))


@pytest.mark.parametrize("status", [401, 403, 404, 422, 500])
def test_errors_are_those_of_the_plain_client(provider, status):
    errors = []
    for client in (plain_client(provider), wrapped_client(provider)):
        provider.fail_next(status)
        with pytest.raises(openai.APIStatusError) as error:
            client.chat.completions.create(**CHAT)
        found, behind = error.value, (error.value.__cause__, error.value.__context__)
        errors.append((type(found), found.body, *map(type, behind)))
    assert errors[0] == errors[1]


def test_an_error_of_a_stream_comes_at_the_call(provider):
    client = wrapped_client(provider)
    provider.fail_next(403)
    with pytest.raises(openai.PermissionDeniedError):
        client.chat.completions.create(stream=True, **CHAT)


def test_the_caller_s_list_and_arguments_stay_as_they_are(provider):
    client, messages = wrapped_client(provider), history(20)
    before, options = [dict(message) for message in messages], {"include_obfuscation": False}
    stream = client.chat.completions.create(
        model="gpt-4o", messages=messages, stream=True, stream_options=options
    )
    list(stream)
    assert (messages, options) == (before, {"include_obfuscation": False})
    sent = provider.requests[-1]
    assert len(sent.messages) < len(messages)
    assert sent.body["stream_options"] == {"include_obfuscation": False, "include_usage": True}


# -- what the session does ----------------------------------------------------------------------------------


def test_a_refusal_is_recovered_and_the_caller_sees_nothing(provider):
    client = refold.wrap(plain_client(provider), "task", store="memory:", window=64_000)
    client.chat.completions.create(model="gpt-4o", messages=history(20))
    assert [request.outcome for request in provider.requests] == ["refused", "answered"]
    assert count_requests(client) == 1


@pytest.mark.few_values(2)
@pytest.mark.parametrize("in_stream", [False, True])
@pytest.mark.parametrize("way", ["create", "stream", "raw", "streaming"])
def test_a_refused_stream_is_begun_again_as_the_same_object(provider, in_stream, way):
    provider.refuse_in_stream = in_stream
    client = refold.wrap(plain_client(provider), "task", store="memory:", window=64_000)
    request, completions = {"model": "gpt-4o", "messages": history(20)}, client.chat.completions
    opened = {
        "create": lambda: completions.create(stream=True, **request),
        "stream": lambda: completions.stream(**request),
        "raw": lambda: completions.with_raw_response.create(stream=True, **request),
        "streaming": lambda: completions.with_streaming_response.create(stream=True, **request),
    }[way]()
    assert len(use(opened)) > 3
    assert [request.outcome for request in provider.requests] == ["refused", "answered"]
    assert count_requests(client) == 1


@pytest.mark.parametrize("in_stream", [None, False, True])
def test_a_refusal_is_believed_whatever_numbers_it_names(in_stream):
    """Some servers name the numbers of another deployment; nothing but this request was sent."""
    with Provider() as roomy:
        roomy.refuse_next, roomy.refuse_in_stream = 1, bool(in_stream)
        client = refold.wrap(plain_client(roomy), "task", store="memory:")
        request = {"model": "gpt-4o", "messages": history(20)}
        use(client.chat.completions.create(**request, stream=in_stream is not None))
        assert [request.outcome for request in roomy.requests] == ["refused", "answered"]
        assert roomy.requests[1].used < roomy.requests[0].used < 10_000 < roomy.limit


def test_a_second_refusal_is_the_client_s_error_with_ours_as_its_cause(provider):
    client = wrapped_client(provider)
    provider.refuse_next = 2
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="gpt-4o", messages=history(20))
    assert isinstance(error.value.__cause__, refold.Overflow)


def test_a_stream_that_is_closed_early_is_observed(provider):
    client = wrapped_client(provider, anthropic.Anthropic)
    with client.messages.create(stream=True, **MESSAGES) as stream:
        next(stream)
    assert stream.response.is_closed
    assert count_requests(client) == 1


def test_a_stream_that_is_dropped_is_observed_with_the_next_request(provider):
    client = wrapped_client(provider, anthropic.Anthropic)
    for _ in client.messages.create(stream=True, **MESSAGES):
        break
    gc.collect()
    assert count_requests(client) == 0
    client.messages.create(**MESSAGES)
    assert count_requests(client) == 2


def test_a_dropped_stream_never_waits_for_the_session_s_lock(provider):
    """The garbage collector may drop it in a thread that holds the lock."""
    client = wrapped_client(provider)
    for _ in client.chat.completions.create(stream=True, **CHAT):
        break

    class Collecting:
        """Collects garbage while the session counts a text."""

        def __call__(self, text):
            gc.collect()
            return len(text) // 4

    other = wrapped_client(provider, count=Collecting())
    for _ in range(3):
        for _ in other.chat.completions.create(stream=True, **CHAT):
            break
    other.chat.completions.create(**CHAT)
    assert count_requests(other) >= 1


def test_an_async_stream_that_is_closed_early_is_observed(provider):
    async def talk():
        client = wrapped_client(provider, anthropic.AsyncAnthropic)
        async with await client.messages.create(stream=True, **MESSAGES) as stream:
            await anext(stream)
        seen = (await client.refold.stats()).totals.requests
        await client.close()
        return seen

    assert asyncio.run(talk()) == 1


def test_a_caller_who_asks_for_no_usage_is_not_asked_for(provider):
    client = wrapped_client(provider)
    list(client.chat.completions.create(stream=True, stream_options={"include_usage": False}, **CHAT))
    assert provider.requests[-1].body["stream_options"] == {"include_usage": False}


def test_usage_that_is_asked_for_in_the_extra_body_is_shown(provider):
    extra = {"stream_options": {"include_usage": True}}
    chunks = [
        list(client.chat.completions.create(stream=True, extra_body=extra, **CHAT))
        for client in (plain_client(provider), wrapped_client(provider))
    ]
    assert [chunk.usage is None for chunk in chunks[1]] == [chunk.usage is None for chunk in chunks[0]]
    assert chunks[1][-1].usage.prompt_tokens > 0


@pytest.mark.parametrize(
    ("usage", "is_shown"), [({"include": True}, True), ({"include": False}, False), (1, False)]
)
def test_usage_that_is_asked_for_as_openrouter_has_it_is_shown(provider, usage, is_shown):
    client = wrapped_client(provider)
    *_, last = client.chat.completions.create(stream=True, extra_body={"usage": usage}, **CHAT)
    assert (last.usage is not None) == is_shown
    assert client.refold.stats().totals.requests == 1


def test_a_history_in_the_extra_body_is_the_one_that_is_folded(provider):
    client = wrapped_client(provider)
    extra = {"messages": history(40), "temperature": openai.Omit(), "seed": 3}
    client.chat.completions.create(temperature=0.5, extra_body=extra, **CHAT)
    sent = provider.requests[-1].body
    assert len(sent["messages"]) < 81
    assert (sent["messages"][-1]["content"], sent["seed"]) == ("and now?", 3)
    assert "temperature" not in sent
    assert len(client.refold.log(kinds=["said"])) == 81


@pytest.mark.parametrize(
    "more",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"extra_body": {"previous_response_id": "resp_1"}},
    ],
)
def test_a_history_at_the_provider_is_passed_on_with_one_warning(provider, more):
    client = wrapped_client(provider)
    with pytest.warns(refold.RefoldWarning, match="kept by the provider"):
        client.responses.create(**RESPONSES, **more)
    client.responses.create(**RESPONSES, **more)  # warnings are errors in the tests
    assert client.refold.log() == []


RUN = {**MESSAGES, "messages": [{"role": "user", "content": "STEPS 12 go"}]}


def look(n: int = 0) -> str:
    """Look into a box."""
    return f"Box {n} is empty. " * 40


async def alook(n: int = 0) -> str:
    """Look into a box."""
    return look(n)


def test_a_tool_runner_sends_its_whole_list_and_is_folded(provider):
    """By default the SDK has the provider hold the list, where nothing can be folded."""
    client = wrapped_client(provider, anthropic.Anthropic)
    tools = [anthropic.beta_tool(look, name="look")]
    answers = list(client.beta.messages.tool_runner(tools=tools, **RUN))
    assert (len(answers), answers[-1].stop_reason) == (13, "end_turn")
    assert client.refold.folds()
    assert max(request.used for request in provider.requests) <= WINDOW
    assert not any("thread" in request.body for request in provider.requests)
    assert count_requests(client) == 13
    again = client.with_options(timeout=5).beta.messages.tool_runner(tools=tools, stream=True, **RUN)
    assert [stream.get_final_message().stop_reason for stream in again][-1] == "end_turn"
    assert "thread" not in provider.requests[-1].body


def test_an_async_tool_runner_sends_its_whole_list_and_is_folded(provider):
    async def play():
        client = wrapped_client(provider, anthropic.AsyncAnthropic)
        tools = [anthropic.beta_async_tool(alook, name="look")]
        runner = client.beta.messages.tool_runner(tools=tools, **RUN)
        assert (await runner.until_done()).stop_reason == "end_turn"
        assert await client.refold.folds()
        await client.close()

    asyncio.run(play())
    assert len(provider.requests) == 13


def test_threads_that_were_asked_for_are_passed_on_with_one_warning(provider):
    provider.limit = 100_000
    client = wrapped_client(provider, anthropic.Anthropic, window=100_000)
    tools = [anthropic.beta_tool(look, name="look")]
    with pytest.warns(refold.RefoldWarning, match="kept by the provider"):
        answers = list(client.beta.messages.tool_runner(tools=tools, thread=None, **RUN))
    assert (len(answers), answers[-1].stop_reason) == (13, "end_turn")
    thread = client.beta.messages.thread(model="claude-sonnet-5", max_tokens=100)
    for turn in range(3):
        thread.send({"role": "user", "content": f"NOTOOL hello {turn}"})  # warnings are errors in the tests
    sent = [(request.body["thread"]["type"], len(request.body["messages"])) for request in provider.requests]
    assert sent == [("create", 1), *[("continue", 1)] * 12, ("create", 1), *[("continue", 1)] * 2]
    assert len(provider.requests[-1].messages) == 5


def test_a_list_that_starts_a_thread_is_folded(provider):
    """It is the whole list; what the thread adds to it later is not seen."""
    client = wrapped_client(provider, anthropic.Anthropic)
    thread = client.beta.messages.thread(model="claude-sonnet-5", max_tokens=100, messages=history(40))
    thread.send()
    assert client.refold.folds()
    assert provider.requests[-1].body["thread"] == {"type": "create"}
    assert len(thread.messages) == 82


def test_messages_from_an_iterator_are_all_sent(provider):
    client = wrapped_client(provider, anthropic.Anthropic)
    client.messages.create(**{**MESSAGES, "messages": iter(history(2))})
    assert len(provider.requests[-1].messages) == 5


def test_other_endpoints_are_left_alone(provider):
    client = wrapped_client(provider)
    assert list(client.models.list())
    assert client.refold.log() == []


def test_two_threads_on_one_client_lose_no_word(provider):
    client = wrapped_client(provider)
    failed = []

    def talk(name):
        messages = []
        try:
            for turn in range(8):
                messages.append({"role": "user", "content": f"thread {name} turn {turn} {TEXT}"})
                answer = client.chat.completions.create(model="gpt-4o", messages=messages)
                messages.append(answer.choices[0].message)
        except Exception as error:  # noqa: BLE001  # told by the main thread
            failed.append(error)

    threads = [threading.Thread(target=talk, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for name in ("one", "two"):
        for turn in range(8):
            assert any(
                f"thread {name} turn {turn} " in hit.text for hit in client.refold.recall(f"{name} {turn}")
            )


# -- two requests at once -----------------------------------------------------------------------------------


def test_a_refused_request_is_sent_its_own_list_also_if_another_one_came_between(provider):
    """The other request is made while the first one is on its way to the provider."""
    others = [history(8), [*history(8)[:-1], {"role": "user", "content": "something else?"}]]

    def overtake(request):
        if len(others) == 2:
            client.chat.completions.create(model="gpt-4o", messages=others.pop())
            provider.refuse_next = 1

    connections = openai.DefaultHttpxClient(event_hooks={"request": [overtake]})
    plain = plain_client(provider, http_client=connections)
    client = refold.wrap(plain, "task", store="memory:", window=WINDOW)
    client.chat.completions.create(model="gpt-4o", messages=others[0])
    first, *_, refused, again = provider.requests
    assert first.messages[-1]["content"] == "something else?"
    assert [refused.outcome, again.outcome] == ["refused", "answered"]
    assert again.messages[-1]["content"] == "and now?"
    client.close()
    plain.close()
