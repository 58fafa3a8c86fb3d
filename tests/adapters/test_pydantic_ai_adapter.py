"""Refold inside Pydantic AI: real agents and models against a provider on this machine."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

import refold
from refold.testing import Provider

pytest.importorskip("pydantic_ai", reason="needs pydantic-ai: pip install 'refold[pydantic-ai]'")
pytest.importorskip("openai", reason="needs the models of OpenAI: pip install 'pydantic-ai-slim[openai]'")
pytest.importorskip("anthropic", reason="needs the models of Anthropic: pydantic-ai-slim[anthropic]")

from pydantic_ai import (
    Agent,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError, UserError
from pydantic_ai.messages import (
    FilePart,
    ImageUrl,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from refold.adapters.base import Turn
from refold.adapters.pydantic_ai import Refold
from refold.adapters.pydantic_ai.messages import BRIDGE, from_wire, to_wire
from sample_sizes import sample

WIRES = ("openai", "responses", "anthropic")
WINDOW = 4_000
OUTPUT = "a line of output that a tool has written " * 80
PICTURE = BinaryContent(data=b"\x89PNG" + bytes(60), media_type="image/png")
PAPER = BinaryContent(data=b"%PDF-1.7 " + bytes(60), media_type="application/pdf")


def make_model(wire, provider, name=None):
    if wire == "anthropic":
        own = AnthropicProvider(base_url=provider.root, api_key="none")
        return AnthropicModel(name or "claude-sonnet-4-6", provider=own)
    kind = OpenAIResponsesModel if wire == "responses" else OpenAIChatModel
    name = name or ("gpt-5" if wire == "responses" else "gpt-4o")  # encrypted reasoning is for reasoners
    return kind(name, provider=OpenAIProvider(base_url=provider.url, api_key="none"))


def make_agent(model, capability, **options):
    agent = Agent(model, capabilities=[capability] if capability else [], **options)

    @agent.tool_plain
    def look(n: int = 0) -> str:
        return f"value {n}: {OUTPUT}"

    return agent


def make_refold(**options):
    return Refold(**{"store": "memory:", "window": WINDOW, **options})


async def talk(agent, turns, history=(), key="t"):
    """Let an agent do some turns, every third one streamed; returns its history."""
    history = list(history)
    for number in turns:
        question = f"Turn {number}: what is the value of thing {number}?"
        if number % 3 == 0:
            async with agent.run_stream(question, message_history=history, conversation_id=key) as stream:
                await stream.get_output()
            history = stream.all_messages()
        else:
            result = await agent.run(question, message_history=history, conversation_id=key)
            history = result.all_messages()
    return history


def drive(agent, coroutine):
    """Run a coroutine in an event loop of its own, with the agent's connections open and closed in it."""

    async def run():
        async with agent:
            return await coroutine

    return asyncio.run(run())


def ask(agent, prompt=None, **options):
    return drive(agent, agent.run(prompt, **options))


def mask(history):
    """Return a history as plain values, without its times and ids of runs."""
    masked = {"timestamp", "run_id", "provider_url", "conversation_id"}

    def strip(value):
        if isinstance(value, dict):
            return {name: strip(inner) for name, inner in value.items() if name not in masked}
        return [strip(inner) for inner in value] if isinstance(value, list) else value

    return strip(ModelMessagesTypeAdapter.dump_python(history, mode="json"))


@pytest.mark.parametrize("wire", sample(WIRES, 1))
def test_a_long_talk_folds_and_the_history_is_as_without_refold(wire):
    """Requests stay valid and within the window; the history does not show that Refold is there."""

    def run(limit, capability):
        with Provider(limit=limit, parallel=True) as provider:
            agent = make_agent(make_model(wire, provider), capability, instructions="You look at values.")
            return provider, drive(agent, talk(agent, range(1, 7)))

    capability = make_refold()
    provider, history = run(WINDOW, capability)
    _, plain = run(10_000_000, None)
    session = capability.session("t")
    assert provider.problems == []
    assert provider.refused == []
    assert max(request.used for request in provider.requests) <= WINDOW
    assert len(session.folds()) >= 2
    items = [item for message in history for item in to_wire(message)]
    assert [entry.value for entry in session.log(kinds=["said"])] == items[:-1]
    assert session.stats().totals.requests == len(provider.answered)
    assert [message.kind for message in history] == [message.kind for message in plain]
    texts = [part["content"] for message in mask(history) for part in message["parts"] if "content" in part]
    assert texts == [p["content"] for message in mask(plain) for p in message["parts"] if "content" in p]


@pytest.mark.few_values(1)
@pytest.mark.parametrize("in_stream", [False, True])
@pytest.mark.parametrize("wire", sample(WIRES, 1))
def test_a_refusal_for_size_is_recovered_unseen(wire, in_stream):
    async def run(agent, turn):
        history = await talk(agent, range(1, turn))
        provider.refuse_next = 1
        return await talk(agent, [turn], history)

    for turn in (2, 3):  # at the call, and streamed
        capability = make_refold()
        with Provider(limit=WINDOW, refuse_in_stream=in_stream) as provider:
            agent = make_agent(make_model(wire, provider), capability)
            history = drive(agent, run(agent, turn))
        assert len(provider.refused) == 1
        assert provider.problems == []
        assert len(history) == turn * 4
        assert len(capability.session("t").folds()) == 1


@pytest.mark.few_values(1)
@pytest.mark.parametrize("turn", [5, 6])
def test_a_second_refusal_is_the_frameworks_error_with_ours_as_its_cause(turn):
    async def run(agent):
        history = await talk(agent, range(1, turn))
        provider.refuse_next = 2
        await talk(agent, [turn], history)

    with Provider(limit=WINDOW) as provider:
        agent = make_agent(make_model("openai", provider), make_refold())
        with pytest.raises(ModelHTTPError) as caught:
            drive(agent, run(agent))
    assert isinstance(caught.value.__cause__, refold.Overflow)
    assert len(provider.refused) == 2


def test_another_error_passes_as_it_is():
    with Provider() as provider:
        provider.fail_next(401)
        agent = make_agent(make_model("openai", provider), make_refold())
        with pytest.raises(ModelHTTPError) as caught:
            drive(agent, talk(agent, [1]))
    assert caught.value.status_code == 401
    assert len(provider.requests) == 1


@pytest.mark.parametrize("wire", sample(WIRES, 1))
def test_a_history_saved_as_json_goes_on_with_the_same_request(wire, tmp_path):
    """A new process with the saved history and Refold's store sends what one process would have sent."""

    def run(*parts, store):
        with Provider(limit=WINDOW) as provider:
            saved = b"[]"
            for turns in parts:
                capability = make_refold(store=store)
                agent = make_agent(make_model(wire, provider), capability)
                history = ModelMessagesTypeAdapter.validate_json(saved)
                saved = ModelMessagesTypeAdapter.dump_json(drive(agent, talk(agent, turns, history)))
                capability.close()
            return provider.requests[-1].messages

    whole = run(range(1, 9), store=f"sqlite:{tmp_path}/one.db")
    resumed = run(range(1, 7), range(7, 9), store=f"sqlite:{tmp_path}/two.db")
    assert resumed == whole


def test_a_conversation_store_goes_on():
    stores = pytest.importorskip("pydantic_ai.conversation_store", reason="since Pydantic AI 2.6x")
    capability = make_refold()
    store = stores.InMemoryConversationStore()

    async def run(agent):
        for number in range(1, 9):
            known = await store.load("kept")
            told = {"conversation_id": "kept"} if known is None else {"conversation": known}
            result = await agent.run(f"Turn {number}: what is thing {number}?", **told)
            await store.save(result.conversation)

    with Provider(limit=WINDOW) as provider:
        agent = make_agent(make_model("openai", provider), capability)
        drive(agent, run(agent))
    assert provider.problems == []
    session = capability.session("kept")
    assert session.folds()
    assert len(session.log(kinds=["said"])) == 8 * 4 - 1


@pytest.fixture
def loop():
    """The event loop of `run_sync`, closed behind it."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    asyncio.set_event_loop(None)
    made.close()


def test_run_sync_and_iter_go_through_refold(loop):
    capability = make_refold()

    async def iterate(agent, history):
        async with agent.iter("Turn 2: and then?", message_history=history, conversation_id="t") as run:
            async for _ in run:
                pass
        return run.result.all_messages()

    with Provider() as provider:
        agent = make_agent(make_model("openai", provider), capability)
        loop.run_until_complete(agent.__aenter__())
        history = agent.run_sync("Turn 1: begin", conversation_id="t").all_messages()
        history = loop.run_until_complete(iterate(agent, history))
        loop.run_until_complete(agent.__aexit__(None, None, None))
    assert len(history) == 8
    assert capability.session("t").stats().totals.requests == len(provider.requests) == 4
    assert len(capability.session("t").log(kinds=["said"])) == 7


def test_a_stream_left_early_is_observed_and_the_next_turn_goes_on():
    capability = make_refold()

    async def run(agent):
        async with agent.run_stream("NOTOOL Turn 1", conversation_id="t") as stream:
            async for _ in stream.stream_text():
                break
        return await talk(agent, [2], stream.all_messages())

    with Provider() as provider:
        agent = make_agent(make_model("openai", provider), capability)
        drive(agent, run(agent))
    assert provider.problems == []
    assert len(provider.requests) == 3


def test_two_runs_at_once_on_one_capability_do_not_mix():
    capability = make_refold()

    async def run(agent):
        return await asyncio.gather(*(talk(agent, range(1, 7), key=key) for key in ("ann", "bob")))

    with Provider(limit=WINDOW) as provider:
        provider.refuse_once_over = 2_000
        agent = make_agent(make_model("openai", provider), capability)
        histories = drive(agent, run(agent))
    assert provider.problems == []
    for key, history in zip(("ann", "bob"), histories, strict=True):
        items = [item for message in history for item in to_wire(message)]
        assert [e.value for e in capability.session(key).log(kinds=["said"])] == items[:-1]


def test_the_model_of_a_fallback_is_measured_against_its_own_window():
    """The first model fails in mid-turn; the second one has a smaller window, and gets a smaller view."""
    capability = Refold(store="memory:")

    async def run(agent, first):
        history = await talk(agent, range(1, 11))
        first.fail_next(503, times=9)
        await talk(agent, [11], history)

    with Provider() as first, Provider(limit=8_192) as second:
        model = FallbackModel(make_model("openai", first), make_model("openai", second, "gpt-4"))
        agent = make_agent(model, capability)
        drive(agent, run(agent, first))
    assert max(request.used for request in first.requests) > 8_192
    assert second.answered
    assert second.refused == []
    assert second.problems == []
    assert capability.session("t").model == "openai:gpt-4"


def test_the_model_recalls_what_was_folded():
    capability = make_refold()

    async def run(agent):
        history = await talk(agent, range(1, 9))
        asked = await agent.run("RECALL thing 1", message_history=history, conversation_id="t")
        return asked.all_messages()

    with Provider(limit=WINDOW) as provider:
        agent = make_agent(make_model("openai", provider), capability)
        history = drive(agent, run(agent))
    returns = [p for m in history for p in m.parts if isinstance(p, ToolReturnPart)]
    assert returns[-1].tool_name == "recall"
    assert "what is the value of thing 1?" in returns[-1].content
    assert provider.problems == []


def test_recall_is_offered_as_the_options_say():
    def run(capability):
        with Provider(limit=WINDOW) as provider:
            agent = make_agent(make_model("openai", provider), capability)
            drive(agent, talk(agent, range(1, 9)))
            return [request.tool_names for request in provider.requests]

    always = run(make_refold(recall_name="read_back"))
    assert all(sorted(names) == ["look", "read_back"] for names in always)
    folded = run(make_refold(recall="folded"))
    assert list(folded[0]) == ["look"]
    assert "recall" in folded[-1]
    never = run(make_refold(recall=False))
    assert all(list(names) == ["look"] for names in never)


@pytest.mark.parametrize("when", ["always", "folded"])
def test_another_tool_named_recall_is_told_how_to_rename_ours(when):
    def recall(topic: str) -> str:
        """Recall a topic."""
        return topic

    with Provider() as provider:
        agent = make_agent(make_model("openai", provider), make_refold(recall=when), tools=[recall])
        with pytest.raises((refold.RefoldError, UserError), match="recall_name="):
            ask(agent, "hello", conversation_id="t")
        assert provider.requests == []
        capability = make_refold(recall=when, recall_name="read_back")
        agent = make_agent(make_model("openai", provider), capability, tools=[recall])
        ask(agent, "hello", conversation_id="t")
    assert "recall" in provider.requests[-1].tool_names


def test_unfold_between_two_turns_shows_in_the_next_request():
    capability = make_refold(window=100_000)

    async def run(agent):
        history = await talk(agent, range(1, 9))
        session = await capability.asession("t")
        await session.compact(target=2_000)
        history = await talk(agent, [9], history)
        await session.unfold()
        await talk(agent, [10], history)

    with Provider() as provider:
        agent = make_agent(make_model("openai", provider), capability)
        drive(agent, run(agent))
    sizes = [len(request.messages) for request in provider.requests]
    assert sizes[-4] < sizes[-5]
    assert sizes[-1] == 10 * 4 - 1
    assert provider.problems == []


def test_an_edited_message_begins_a_branch():
    capability = make_refold(window=100_000)

    async def run(agent):
        history = await talk(agent, range(1, 5))
        await talk(agent, [9], history[:8])
        return history

    with Provider() as provider:
        agent = make_agent(make_model("openai", provider), capability)
        drive(agent, run(agent))
    session = capability.session("t")
    assert len(session.log(kinds=["said"])) == 2 * 4 + 3
    assert session.recall("thing 4"), "the branch that was left is gone"


@pytest.mark.few_values(1)
@pytest.mark.parametrize("wire", WIRES)
def test_pictures_papers_and_signed_thinking_are_sent_whole_or_not_at_all(wire):
    capability = make_refold(window=12_000)

    async def run(agent):
        prompts = ["Turn 0: look at these", PICTURE, PAPER, ImageUrl(url="https://example.com/a.png")]
        result = await agent.run(prompts, conversation_id="t")
        history = await talk(agent, range(1, 6), result.all_messages())
        await (await capability.asession("t")).compact()
        await talk(agent, [8, 9], history)
        return history

    with Provider() as provider:
        agent = make_agent(make_model(wire, provider), capability)
        history = drive(agent, run(agent))
    assert provider.problems == []  # the provider knows its signatures and encrypted items again
    bodies = [str(request.body) for request in provider.requests]
    for data in (PICTURE.base64, PAPER.base64, "https://example.com/a.png"):
        assert data in bodies[0]
        assert all(body.count(data) == body.count(data[:30]) for body in bodies), "a part of a file was sent"
    if wire != "openai":
        signed = [p.signature for m in history for p in m.parts if isinstance(p, ThinkingPart)]
        assert all(signed)
    assert history[0].parts[0].content[1] is PICTURE


def test_calls_that_wait_for_approval_are_kept_until_they_are_answered():
    capability = make_refold()
    with Provider(limit=WINDOW) as provider:
        agent = make_agent(
            make_model("openai", provider), capability, output_type=[str, DeferredToolRequests]
        )

        @agent.tool_plain(requires_approval=True)
        def delete(name: str = "") -> str:
            return f"deleted {name}"

        history = drive(agent, talk(agent, range(1, 6)))
        asked = ask(agent, 'CALL delete {"name": "x"}', message_history=history, conversation_id="t")
        assert isinstance(asked.output, DeferredToolRequests)
        answers = DeferredToolResults(approvals={call.tool_call_id: True for call in asked.output.approvals})
        done = ask(
            agent, message_history=asked.all_messages(), deferred_tool_results=answers, conversation_id="t"
        )
    assert provider.problems == []
    results = [p for m in done.all_messages() for p in m.parts if isinstance(p, ToolReturnPart)]
    assert results[-1].content == "deleted x"


def test_a_tool_that_asks_for_another_try_is_told_and_counted():
    capability = make_refold()
    with Provider() as provider:
        agent = Agent(make_model("openai", provider), capabilities=[capability])

        @agent.tool(retries=2)
        def look(ctx: RunContext, n: int = 0) -> str:
            if ctx.retry == 0:
                raise ModelRetry("look again")
            return f"value {n}"

        ask(agent, "STEPS 2 Turn 1: look", conversation_id="t")
    assert provider.problems == []
    results = [e.value for e in capability.session("t").log(kinds=["said"]) if e.value["role"] == "tool"]
    assert "look again" in results[0]["content"]
    assert results[1]["content"].startswith("value")


def test_a_summariser_may_be_a_model_of_the_framework():
    with Provider(limit=WINDOW) as provider, Provider() as helper:
        summariser = make_model("openai", helper, "gpt-4o-mini")
        capability = make_refold(ask=summariser)
        agent = make_agent(make_model("openai", provider), capability)

        async def run():
            async with summariser:
                await talk(agent, range(1, 9))

        drive(agent, run())
    assert helper.requests
    assert not any(request.tools for request in helper.requests)
    folds = capability.session("t").folds()
    assert sum(fold.spent.calls for fold in folds) == len(helper.requests)


class SummarizingCompaction(AbstractCapability):
    """Named as the capability of the harness."""


def test_a_second_compaction_is_refused():
    with Provider() as provider:
        agent = Agent(make_model("openai", provider), capabilities=[SummarizingCompaction(), make_refold()])
        with pytest.raises(refold.RefoldError, match="SummarizingCompaction compacts beside Refold"):
            ask(agent, "hi")
        agent = Agent(make_model("responses", provider), capabilities=[make_refold()])
        settings = {"openai_context_management": [{"type": "compaction", "compact_threshold": 1_000}]}
        with pytest.raises(refold.RefoldError, match="openai_context_management compacts beside Refold"):
            ask(agent, "hi", model_settings=settings)
    assert provider.requests == []


def test_the_key_may_be_found_in_the_run_context():
    capability = make_refold(key=lambda ctx: f"tenant-{ctx.deps.tenant}")
    with Provider() as provider:
        agent = make_agent(make_model("openai", provider), capability, deps_type=SimpleNamespace)
        ask(agent, "hi", deps=SimpleNamespace(tenant="ann"))
    assert len(capability.session("tenant-ann").log(kinds=["said"])) == 3


def test_a_conversation_without_an_id_is_known_by_the_id_in_its_history():
    capability = make_refold()
    with Provider() as provider:
        agent = make_agent(make_model("openai", provider), capability)
        first = ask(agent, "Turn 1: begin")
        second = ask(agent, "Turn 2: go on", message_history=first.all_messages())
    key = second.all_messages()[-1].conversation_id
    assert len(capability.session(key).log(kinds=["said"])) == 7


MESSAGES = [
    ModelRequest(parts=[SystemPromptPart("Be kind."), UserPromptPart("hi")]),
    ModelRequest(parts=[UserPromptPart(["look", PICTURE, PAPER, ImageUrl(url="https://example.com/a.png")])]),
    ModelRequest(parts=[ToolReturnPart("look", {"a": 1}, "c1"), ToolReturnPart("look", "two", "c2")]),
    ModelRequest(parts=[ToolReturnPart("look", ["seen", PICTURE], "c3", outcome="failed")]),
    ModelResponse(parts=[TextPart("")]),
    ModelResponse(
        parts=[
            ThinkingPart("hm", signature="s1", provider_name="anthropic"),
            TextPart("so"),
            ToolCallPart("look", {"n": 1}, "c1", id="fc_1", provider_name="openai"),
            ToolCallPart("look", '{"n": 2}', "c2"),
        ],
        provider_name="anthropic",
    ),
]


def test_items_of_a_message_are_the_same_each_time_and_after_json():
    saved = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(MESSAGES))
    for message, loaded in zip(MESSAGES, saved, strict=True):
        assert to_wire(message) == to_wire(message) == to_wire(loaded)
        assert refold.count(list(to_wire(message)), format="openai") >= 0


def test_messages_that_are_made_again_have_files_and_signatures_as_they_were():
    made = from_wire([item for message in MESSAGES for item in to_wire(message)])
    assert [message.kind for message in made] == ["request", "response", "response"]
    request, _, response = made
    contents = next(p.content for p in request.parts if not isinstance(p.content, str))
    assert contents == ["look", PICTURE, PAPER, ImageUrl(url="https://example.com/a.png")]
    failed = next(p for p in request.parts if getattr(p, "tool_call_id", "") == "c3")
    assert failed.outcome == "failed"
    assert failed.content[1] == PICTURE
    assert [type(part) for part in response.parts] == [ThinkingPart, TextPart, ToolCallPart, ToolCallPart]
    assert response.parts[0] == MESSAGES[-1].parts[0]
    assert response.parts[2].id == "fc_1"
    assert response.parts[2].args_as_dict() == {"n": 1}
    assert response.provider_name == "anthropic"


@pytest.mark.usefixtures("loop")
def test_an_answer_with_a_file_goes_on_and_is_made_again_as_it_was():
    drawn = FilePart(
        BinaryContent.narrow_type(PICTURE),
        id="ig_1",
        provider_name="openai",
        provider_details={"size": "small"},
    )
    answers = iter(
        [ModelResponse([TextPart("Here."), drawn, FilePart(PAPER)]), ModelResponse([TextPart("Red.")])]
    )
    agent = Agent(FunctionModel(lambda messages, info: next(answers)), capabilities=[make_refold()])
    drawing = agent.run_sync("Draw a fox.", conversation_id="t")
    then = agent.run_sync("Which colour?", message_history=drawing.all_messages(), conversation_id="t")
    assert then.output == "Red."
    answer = drawing.all_messages()[-1]
    (item,) = to_wire(answer)
    assert [block["type"] for block in item["content"]] == ["text", "image_url", "file"]
    assert from_wire([item])[0].parts == answer.parts


def think(text):
    return ThinkingPart(text, signature=f"signed {text}", provider_name="anthropic")


CALLED = ToolCallPart("look", '{"n": 1}', "c1")


@pytest.mark.parametrize(
    "parts",
    [
        [think("a"), TextPart("so"), think("b"), CALLED],
        [TextPart("so"), think("a"), think("b"), TextPart("then"), think("c")],
        [think("a"), think("b"), TextPart("so"), CALLED],
    ],
)
def test_thinking_of_a_message_that_is_made_again_stands_where_it_stood(parts):
    (item,) = to_wire(ModelResponse(parts))
    assert from_wire([item])[0].parts == parts


@pytest.mark.parametrize(
    "parts",
    [
        [think("a"), CALLED, think("b"), TextPart("so")],  # chat has calls last
        [think("a"), TextPart(""), think("b"), CALLED],  # an empty text is none
    ],
)
def test_thinking_whose_place_is_lost_is_left_out_whole(parts):
    (item,) = to_wire(ModelResponse(parts))
    assert item["reasoning_content"] == "a\nb"
    assert not [part for part in from_wire([item])[0].parts if isinstance(part, ThinkingPart)]


REASONED = ThinkingPart("hm", id="rs_1", signature="e", provider_name="openai")
SAID = TextPart("so", id="msg_1")
NAMED = ToolCallPart("look", '{"n": 1}', "c1", id="fc_1", provider_name="openai")
SEARCHED = NativeToolCallPart("web_search", {"query": "q"}, "ws_1", id="ws_1", provider_name="openai")


def make_anew(item, *, keeps_thinking):
    """Return the parts of an item that a fold has changed."""
    lost = () if keeps_thinking else ("thinking_blocks", "reasoning_content")
    (made,) = from_wire([{key: item[key] for key in item if key not in lost}])
    return made.parts


def test_ids_of_responses_stay_with_the_reasoning_and_leave_with_it():
    """OpenAI refuses an item whose reasoning item is missing, and a reasoning item without the item behind it."""
    (item,) = to_wire(ModelResponse([REASONED, SAID, NAMED]))
    assert make_anew(item, keeps_thinking=True) == [REASONED, SAID, NAMED]
    assert make_anew(item, keeps_thinking=False) == [TextPart("so"), replace(NAMED, id=None)]


def test_reasoning_stays_with_calls_that_the_provider_ran():
    """Their ids cannot be left out, so no stage may take the reasoning."""
    parts = [REASONED, SEARCHED, SAID, NAMED]
    (item,) = to_wire(ModelResponse(parts))
    assert make_anew(item, keeps_thinking=False) == parts
    (item,) = to_wire(ModelResponse([think("a"), SEARCHED, TextPart("so")]))
    assert make_anew(item, keeps_thinking=False) == [SEARCHED, TextPart("so")]


def test_a_call_that_gemini_has_signed_is_sent_whole_or_not_at_all():
    history = [ModelRequest(parts=[UserPromptPart("write ten files")])]
    signed = {"provider_name": "google", "provider_details": {"thought_signature": "c2lnbmVk"}}
    for n in range(10):
        big = {"path": f"f{n}", "content": "a line of code\n" * 150}
        history.append(ModelResponse([TextPart(f"step {n}"), ToolCallPart("write", big, f"c{n}", **signed)]))
        history.append(ModelRequest(parts=[ToolReturnPart("write", "ok " * 30, f"c{n}")]))
    session = refold.open("t", store="memory:", window=6000, format="openai", model="gemini-3-pro")
    sent = Turn(session, BRIDGE, history).prepare()
    calls = [part for message in sent for part in message.parts if part.part_kind == "tool-call"]
    assert 0 < len(calls) < 10
    assert all(call.args_as_dict()["content"] == "a line of code\n" * 150 for call in calls)


def test_a_call_that_is_shortened_leaves_the_thinking_before_it_where_it_is():
    history = [ModelRequest(parts=[UserPromptPart("write ten files")])]
    for n in range(10):
        big = ToolCallPart("write", {"path": f"f{n}", "content": "a line of code\n" * 150}, f"c{n}")
        history.append(ModelResponse([think(f"{n}a"), TextPart(f"step {n}"), think(f"{n}b"), big]))
        history.append(ModelRequest(parts=[ToolReturnPart("write", "ok " * 30, f"c{n}")]))
    session = refold.open(
        "t", store="memory:", window=6000, format="openai", model="anthropic:claude-sonnet-5"
    )
    sent = Turn(session, BRIDGE, history).prepare()
    made = [m for m in sent if m.kind == "response" and not any(m is old for old in history)]
    orders = [[part.part_kind for part in message.parts] for message in made]
    assert ["thinking", "text", "thinking", "tool-call"] in orders
    assert all(order[:3] != ["thinking", "thinking", "text"] for order in orders)
