"""`refold.adapters.llama_index` with the real LlamaIndex against a provider on this machine."""

import asyncio
import json
from io import BytesIO
from pathlib import Path

import pytest

pytest.importorskip(
    "llama_index.core", reason="llama-index-core is not installed: pip install 'refold[llama-index]'"
)
pytest.importorskip("llama_index.llms.openai", reason="llama-index-llms-openai is not installed")

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    CitableBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import Context, JsonSerializer
from llama_index.llms.openai import OpenAI, OpenAIResponses

import refold
from refold.adapters.base import Turn
from refold.adapters.llama_index import Refold, RefoldMemory, name_model, refolded
from refold.adapters.llama_index.messages import BRIDGE, from_wire, to_wire
from refold.testing import Provider

WINDOW = 4000
# LlamaIndex says in a warning that the memory is not part of a saved context
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:Skipping serialization",
        "ignore::DeprecationWarning",
        "ignore::ResourceWarning",  # the SDKs close their sockets when they are collected
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
    pytest.mark.usefixtures("collect_clients"),
]


def look(n: int) -> str:
    """Look into box n."""
    return f"Box {n} is open. " + f"Shelf {n} holds parts in a bag. " * 20


def open_llm(provider, **options):
    counted = {"stream_options": {"include_usage": True}}
    return OpenAI(
        "gpt-4o", api_base=provider.url, api_key="none", max_retries=0, additional_kwargs=counted, **options
    )


def fold(provider, key="t1", **options):
    return refolded(open_llm(provider), key, **{"store": "memory:", "window": WINDOW, **options})


async def talk(agent, memory, turns):
    for text in turns:
        answer = await agent.run(text, memory=memory)
    return str(answer)


def number_turns(count):
    return [f"Turn {i}: what is in box {i}?" for i in range(1, count + 1)]


@pytest.fixture
def provider():
    with Provider(limit=WINDOW) as running:
        yield running
    assert running.problems == []


def test_the_llm_that_is_handed_over_stays_as_it_is(provider):
    plain = open_llm(provider)
    folded = refolded(plain, "t1", store="memory:")
    assert type(plain) is OpenAI
    assert isinstance(folded, OpenAI)
    assert folded.class_name() == plain.class_name()
    assert folded.metadata == plain.metadata
    assert not hasattr(plain, "refold")


def test_what_cannot_be_wrapped_is_refused_in_one_line(provider):
    with pytest.raises(refold.RefoldError, match="cannot wrap str: pass an LLM of LlamaIndex"):
        refolded("gpt-4o", "t1", store="memory:")
    with pytest.raises(refold.RefoldError, match="wrapped already: wrap the LLM that it was made from"):
        refolded(fold(provider), "t2", store="memory:")
    with pytest.raises(refold.RefoldError, match="key is '': it must be a text, not empty"):
        fold(provider, "")
    with pytest.raises(refold.RefoldError, match=r"cannot tell .* refolded\(llm, \"thread-1\"\)"):
        Refold(store="memory:").wrap(open_llm(provider)).chat([ChatMessage("Hello.")])


def test_name_and_window_come_from_the_llm(provider):
    llm = refolded(open_llm(provider), "t1", store="memory:")
    llm.chat([ChatMessage("NOTOOL hi")])
    assert llm.refold.session().model == "openai:gpt-4o" == name_model(llm)
    assert llm.refold.session().budget().window == 128_000


def test_chats_of_all_four_kinds_are_folded_and_counted(provider):
    llm = fold(provider)
    messages = []

    async def run():
        for i in range(24):
            messages.append(ChatMessage(f"NOTOOL Turn {i}. " + "A word and another one. " * 40))
            if i % 4 == 0:
                answer = llm.chat(messages)
            elif i % 4 == 1:
                *_, answer = llm.stream_chat(messages)
            elif i % 4 == 2:
                answer = await llm.achat(messages)
            else:
                async for chunk in await llm.astream_chat(messages):
                    answer = chunk
            messages.append(answer.message)

    asyncio.run(run())
    stats = llm.refold.session().stats()
    assert stats.folds
    assert stats.said == len(messages) == 48
    assert stats.totals.requests == 24


def test_a_memory_is_read_from_the_log_when_a_program_starts_again(tmp_path, provider):
    address = f"sqlite:{tmp_path / 'refold.db'}"
    kept = []
    for turns in (number_turns(6), ["Turn 7: and now?"]):
        llm = fold(provider, store=address)
        memory = RefoldMemory.of(llm)
        assert [to_wire(message) for message in memory.get_all()] == kept
        agent = FunctionAgent(tools=[look, llm.refold.recall], llm=llm, streaming=False)
        asyncio.run(talk(agent, memory, turns))
        kept = [to_wire(message) for message in memory.get_all()]
        llm.refold.close()
    assert len(kept) == 28
    session = refold.open("t1", store=address)
    assert session.stats().said == 28
    session.close()


def test_a_memory_of_an_interrupted_turn_can_be_sent_as_it_is(tmp_path, provider):
    store = f"sqlite:{tmp_path / 'log.db'}"
    with refold.open("t", store=store, format="openai") as session:
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"n": 1}'}}
        session.say([{"role": "user", "content": "Look."}, {"role": "assistant", "tool_calls": [call]}])
    memory = RefoldMemory.of(refolded(open_llm(provider), "t", store=store))
    copy = ChatMemoryBuffer.from_defaults(memory.get_all())
    copy.put(ChatMessage(role="user", content="NOTOOL go on"))
    open_llm(provider).chat(copy.get())
    assert provider.problems == []
    assert [message["role"] for message in provider.requests[0].messages] == [
        "user",
        "assistant",
        "tool",
        "user",
    ]


def test_a_memory_is_saved_by_its_key_and_store(tmp_path, provider):
    llm = fold(provider, store=f"sqlite:{tmp_path / 'refold.db'}")
    memory = RefoldMemory.of(llm)
    asyncio.run(talk(FunctionAgent(tools=[look], llm=llm), memory, number_turns(2)))
    saved = json.loads(json.dumps(memory.to_dict()))
    again = RefoldMemory.from_dict(saved)
    assert [to_wire(message) for message in again.get_all()] == [
        to_wire(message) for message in memory.get_all()
    ]
    again.reset()
    assert again.get() == []
    llm.refold.close()


@pytest.mark.parametrize("streaming", [True, False])
def test_a_react_agent_folds_and_its_memory_stays_whole(streaming):
    """The provider for tests writes no ReAct steps, so the answers are given here."""
    with Provider(
        limit=WINDOW, answer=lambda request: "Thought: I know it. \nAnswer: it is open. " + "Yes. " * 60
    ) as provider:
        llm = fold(provider, window=WINDOW)
        memory = ChatMemoryBuffer.from_defaults(token_limit=10_000_000)
        agent = ReActAgent(tools=[look], llm=llm, streaming=streaming)
        asyncio.run(talk(agent, memory, [f"{text} " + "Say more. " * 60 for text in number_turns(14)]))
        assert provider.problems == []
        assert max(request.used for request in provider.requests) <= WINDOW
    assert len(memory.get_all()) == 28
    assert llm.refold.session().folds()
    assert llm.refold.session().stats().totals.requests == 14


def test_agents_of_a_workflow_hand_over_inside_one_session(provider):
    llm = fold(provider)
    first = FunctionAgent(
        name="first", description="starts", tools=[look], llm=llm, can_handoff_to=["second"]
    )
    second = FunctionAgent(name="second", description="goes on", tools=[look], llm=llm)
    workflow = AgentWorkflow(agents=[first, second], root_agent="first")
    memory = ChatMemoryBuffer.from_defaults(token_limit=10_000_000)
    handoff = 'CALL handoff {"to_agent": "second", "reason": "it knows boxes"}'
    asyncio.run(talk(workflow, memory, [*number_turns(6), handoff, *number_turns(6)]))
    assert llm.refold.session().folds()
    results = [message.content for message in memory.get_all() if message.role == "tool"]
    assert any("second is now handling" in text for text in results)


def test_a_context_that_was_saved_goes_on(provider):
    llm = fold(provider)
    memory = ChatMemoryBuffer.from_defaults(token_limit=10_000_000)

    async def run():
        saved = None
        for text in number_turns(10):
            agent = FunctionAgent(tools=[look, llm.refold.recall], llm=llm)
            context = (
                Context(agent)
                if saved is None
                else Context.from_dict(agent, saved, serializer=JsonSerializer())
            )
            await agent.run(text, ctx=context, memory=memory)
            saved = json.loads(json.dumps(context.to_dict(serializer=JsonSerializer())))

    asyncio.run(run())
    assert len(memory.get_all()) == 40 == llm.refold.session().stats().said
    assert llm.refold.session().folds()


def test_a_chat_engine_uses_it_like_any_llm(provider):
    llm = fold(provider)
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=RefoldMemory.of(llm))
    for text in number_turns(3):
        engine.chat(text)
    assert llm.refold.session().stats().said == 6


def test_many_conversations_over_one_store_do_not_mix(provider):
    adapter = Refold(store="memory:", window=WINDOW)
    for key in ("ann", "bob"):
        adapter.wrap(open_llm(provider), key).chat([ChatMessage(f"NOTOOL I am {key}")])
    assert adapter.session("ann").original("#1") == [{"role": "user", "content": "NOTOOL I am ann"}]
    assert "I am bob" in adapter.recall_of("bob").call(query="bob").content
    with pytest.raises(refold.RefoldError, match="name it"):
        adapter.wrap(open_llm(provider)).chat([ChatMessage("hi")])


def test_recall_may_be_offered_only_where_something_is_folded(provider):
    llm = fold(provider, recall="folded")
    agent = FunctionAgent(tools=[look, llm.refold.recall], llm=llm)
    asyncio.run(talk(agent, RefoldMemory.of(llm), number_turns(10)))
    offered = ["recall" in request.tool_names for request in provider.requests]
    assert (offered[0], offered[-1]) == (False, True)
    assert offered == sorted(offered)


def test_an_llm_of_llama_index_summarises(provider):
    llm = fold(provider, ask=open_llm(provider))
    asyncio.run(talk(FunctionAgent(tools=[look], llm=llm), RefoldMemory.of(llm), number_turns(10)))
    spent = llm.refold.session().stats().summaries
    assert spent.calls >= 1
    assert spent.dollars > 0


@pytest.mark.parametrize(
    "message",
    [
        ChatMessage("hi"),
        ChatMessage(role="system", content="Be short."),
        ChatMessage(role="tool", content="it is open", additional_kwargs={"tool_call_id": "c1"}),
        ChatMessage(
            role="assistant",
            blocks=[
                ThinkingBlock(content="hm", additional_information={"signature": "s"}),
                TextBlock(text="I look."),
                ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"n": 1}),
            ],
        ),
        ChatMessage(
            role="assistant",
            blocks=[ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs='{"n": 1}')],
        ),
        ChatMessage(blocks=[TextBlock(text="see"), ImageBlock(url="https://example.org/a.png")]),
        ChatMessage(blocks=[ImageBlock(image=b"\x89PNG\r\n\x1a\n0000", detail="low")]),
        ChatMessage(blocks=[ImageBlock(path=Path(__file__)), AudioBlock(audio=b"RIFFxxxx", format="wav")]),
        ChatMessage(blocks=[DocumentBlock(data=b"%PDF-1.4", title="a.pdf"), VideoBlock(video=b"abcde")]),
        ChatMessage(
            blocks=[CitableBlock(title="a", source="b", content=[TextBlock(text="c")]), TextBlock(text="see")]
        ),
        ChatMessage(
            role="assistant",
            blocks=[
                ThinkingBlock(content="hm", additional_information={"signature": "s"}),
                TextBlock(text="I look."),
                ThinkingBlock(content="oh", additional_information={"signature": "t"}),
                ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"n": 1}),
            ],
        ),
    ],
)
def test_a_message_that_is_made_anew_says_the_same(message):
    (item,) = to_wire(message)
    (made,) = from_wire([item])
    assert made == message
    assert to_wire(made) == (item,)


def test_a_call_with_broken_arguments_comes_back_as_it_was():
    """Older integrations keep calls beside the blocks, as the model wrote them."""
    function = {"name": "look", "arguments": '{"n": '}
    call = {"id": "c1", "type": "function", "function": function}
    (item,) = to_wire(ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": [call]}))
    (anew,) = from_wire([item])
    assert to_wire(anew)[0]["tool_calls"] == [call]


@pytest.mark.parametrize(
    "call",
    [
        {"blocks": [ToolCallBlock(tool_name="look", tool_kwargs={"n": 1})]},
        {"additional_kwargs": {"tool_calls": [{"function": {"name": "look", "arguments": {"n": 1}}}]}},
        {"additional_kwargs": {"tool_calls": [{"type": "tool_use", "name": "look", "input": {"n": 1}}]}},
    ],
    ids=["block", "ollama", "anthropic"],
)
def test_a_call_without_an_id_goes_with_its_result(call):
    """Ollama and Gemini give calls no id; LlamaIndex writes the tool's name as the id of their results."""
    natives = [
        ChatMessage("look"),
        ChatMessage(role="assistant", **call),
        ChatMessage(role="tool", content="Box 1 is open.", additional_kwargs={"tool_call_id": "look"}),
    ]
    view = Turn(refold.open("t", store="memory:", format="openai"), BRIDGE, natives).prepare()
    assert all(a is b for a, b in zip(view, natives, strict=True))
    (made,) = from_wire(to_wire(natives[1]))
    assert made.blocks[0].tool_kwargs == {"n": 1}


def test_a_picture_whose_file_is_gone_is_named_and_one_in_a_buffer_is_kept(tmp_path):
    file = tmp_path / "a.png"
    file.write_bytes(b"abc")
    (item,) = to_wire(ChatMessage(blocks=[ImageBlock(path=file), ImageBlock(image=BytesIO(b"abc"))]))
    file.unlink()
    gone, kept = from_wire([json.loads(json.dumps(item))])[0].blocks
    assert "a.png" in gone.text
    assert kept.resolve_image().read() == b"abc"


def test_a_low_detail_is_counted():
    high, low = (ChatMessage(blocks=[ImageBlock(image=b"abc", detail=d)]) for d in ("high", "low"))
    assert refold.count(to_wire(low), format="openai") < refold.count(to_wire(high), format="openai")


def test_the_usage_of_a_stream_of_responses_is_read(provider):
    llm = refolded(OpenAIResponses("gpt-4o", api_base=provider.url, api_key="none"), "t1", store="memory:")
    list(llm.stream_chat([ChatMessage("NOTOOL hello")]))
    assert llm.refold.session().stats().totals.output > 0
    llm.refold.close()
