"""`refold.adapters.langchain` with the real LangChain and LangGraph against a provider on this machine."""

import asyncio
from base64 import b64decode
from pathlib import Path

import pytest
from conformance import run_fragment, run_page

pytest.importorskip("langchain", reason="langchain is not installed: pip install 'refold[langchain]'")
pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")

from langchain.agents import create_agent
from langchain.agents.middleware import (
    ContextEditingMiddleware,
    ModelFallbackMiddleware,
    SummarizationMiddleware,
)
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

import refold
from refold.adapters.base import Turn
from refold.adapters.langchain import RefoldMiddleware
from refold.adapters.langchain.messages import BRIDGE, from_wire, to_wire
from refold.adapters.langchain.models import read_policy
from refold.testing import PIXEL, Provider

# the SDKs close their sockets when they are collected
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
WINDOW = 4000
THREAD = {"configurable": {"thread_id": "t1"}}


@tool
def look(n: int) -> str:
    """Look into box n."""
    return f"Box {n} is open. " + f"Shelf {n} holds parts in a bag. " * 20


def open_chat(provider, **options):
    options = {"model": "gpt-4o", "stream_usage": True, **options}
    return ChatOpenAI(base_url=provider.url, api_key="none", max_retries=0, **options)


def open_refold(**options):
    return RefoldMiddleware(**{"store": "memory:", "window": WINDOW, **options})


def say(agent, *texts, config=THREAD):
    for text in texts:
        state = agent.invoke({"messages": [("user", text)]}, config)
    return state["messages"]


def number_turns(count, start=1):
    return [f"Turn {i}: what is in box {i}?" for i in range(start, start + count)]


@pytest.fixture
def provider():
    with Provider(limit=WINDOW) as running:
        yield running
    assert running.problems == []


@pytest.fixture
def middleware():
    made = open_refold()
    yield made
    made.close()


@pytest.fixture
def agent(provider, middleware):
    return create_agent(open_chat(provider), [look], middleware=[middleware], checkpointer=InMemorySaver())


# -- the conversation ------------------------------------------------------------------------------------------


def test_recall_is_the_last_tool_of_every_request(agent, provider):
    say(agent, *number_turns(3))
    assert all(request.tool_names == ["look", "recall"] for request in provider.requests)


def test_recall_may_be_offered_only_where_something_is_folded(provider):
    agent = create_agent(
        open_chat(provider), [look], middleware=[open_refold(recall="folded")], checkpointer=InMemorySaver()
    )
    say(agent, *number_turns(10))
    offered = ["recall" in request.tool_names for request in provider.requests]
    assert not offered[0]
    assert offered[-1]
    assert offered == sorted(offered)


def test_a_recall_tool_of_the_agent_itself_is_named_in_an_error(provider):
    @tool
    def recall(query: str) -> str:
        """Ask the archive."""
        return "nothing"

    agent = create_agent(
        open_chat(provider), [recall], middleware=[open_refold()], checkpointer=InMemorySaver()
    )
    with pytest.raises(refold.RefoldError, match="pass recall_name= to RefoldMiddleware"):
        say(agent, "hi")
    renamed = open_refold(recall_name="read_folded")
    agent = create_agent(open_chat(provider), [recall], middleware=[renamed], checkpointer=InMemorySaver())
    say(agent, "hi")
    assert provider.requests[-1].tool_names == ["recall", "read_folded"]


def test_a_run_without_a_thread_is_refused_with_what_to_do(provider):
    agent = create_agent(open_chat(provider), [look], middleware=[open_refold()])
    with pytest.raises(refold.RefoldError, match="thread_id"):
        say(agent, "hi", config={})


def test_a_key_of_the_caller_sees_the_config_of_the_run(provider):
    own = open_refold(
        key=lambda config: f"{config['configurable']['tenant']}/{config['configurable']['thread_id']}"
    )
    agent = create_agent(open_chat(provider), [look], middleware=[own], checkpointer=InMemorySaver())
    say(agent, "RECALL box", config={"configurable": {"thread_id": "t", "tenant": "ann"}})
    assert own.session("ann/t").stats().said == 3


def test_name_provider_and_endpoint_come_from_the_model(agent, provider, middleware):
    say(agent, "hi")
    assert middleware.session("t1").model == "openai:gpt-4o"


def test_the_window_of_a_profile_holds_for_a_model_that_no_table_has(provider):
    own = open_refold(window=None)
    chat = open_chat(provider, model="acme-large", profile={"max_input_tokens": 3210})
    say(create_agent(chat, [look], middleware=[own], checkpointer=InMemorySaver()), "hi")
    assert own.session("t1").budget().window == 3210


def test_behind_a_fallback_the_model_that_answers_is_measured(provider):
    own = open_refold(window=None)
    fallback = ModelFallbackMiddleware(open_chat(provider, model="gpt-4.1"))
    agent = create_agent(
        open_chat(provider), [look], middleware=[fallback, own], checkpointer=InMemorySaver()
    )
    provider.fail_next(500)
    say(agent, "NOTOOL hi")
    assert own.session("t1").model == "openai:gpt-4.1"


def test_usage_is_missing_where_the_stream_does_not_report_it_and_counted_where_it_does(provider):
    for stream_usage, counted in ((False, 0), (True, 2)):
        own = open_refold()
        chat = open_chat(provider, stream_usage=stream_usage)
        agent = create_agent(chat, [look], middleware=[own], checkpointer=InMemorySaver())
        list(agent.stream({"messages": [("user", "Turn 1")]}, THREAD, stream_mode="messages"))
        assert own.session("t1").stats().totals.requests == counted


def test_cached_tokens_are_counted(agent, provider, middleware):
    say(agent, *number_turns(3))
    cached = sum(request.usage.cached for request in provider.requests)
    assert middleware.session("t1").stats().totals.cache_read == cached > 0


# -- other ways to change a history ----------------------------------------------------------------------------


def test_messages_that_are_removed_leave_a_branch_behind(agent, middleware):
    messages = say(agent, *number_turns(3))
    agent.update_state(THREAD, {"messages": [RemoveMessage(message.id) for message in messages[-4:]]})
    messages = say(agent, "Turn 9: another box")
    session = middleware.session("t1")
    assert session.stats().said == len(messages) - 1 == 11
    assert [hit.number for hit in session.recall("Turn 3")][:1] == [9]
    assert session.recall("Turn 3")[0].folded


def test_time_travel_goes_on_from_the_older_checkpoint_without_a_new_summary(provider):
    asked = []

    def summarise(question):
        asked.append(question)
        return "The user asked for one box after another; the agent opened each and said what is in it."

    own = open_refold(ask=summarise)
    agent = create_agent(open_chat(provider), [look], middleware=[own], checkpointer=InMemorySaver())
    say(agent, *number_turns(12))
    ends = [state for state in agent.get_state_history(THREAD) if not state.next]
    before = len(asked)
    messages = say(agent, "NOTOOL Turn 50: and now?", config=ends[1].config)
    assert len(messages) == 11 * 4 + 2
    assert own.session("t1").stats().said == len(messages) - 1
    assert len(asked) == before


def test_tool_artifacts_stay_in_the_state_and_never_reach_the_model(provider, middleware):
    @tool(response_format="content_and_artifact")
    def draw(n: int) -> tuple[str, dict]:
        """Draw box n."""
        return f"drawn {n}. " + "a line and a line. " * 60, {"pixels": "SECRET" * 10}

    agent = create_agent(open_chat(provider), [draw], middleware=[middleware], checkpointer=InMemorySaver())
    messages = say(agent, *(f'CALL draw {{"n": {i}}}' for i in range(12)))
    assert middleware.session("t1").folds()
    assert all(m.artifact for m in messages if isinstance(m, ToolMessage))
    assert not any(b"SECRET" in request.raw for request in provider.requests)


# -- sub-agents ------------------------------------------------------------------------------------------------


def open_with_subagent(provider, own):
    """Return an agent whose tool runs another agent, both with the same middleware."""
    inner = create_agent(open_chat(provider), [look], middleware=[own], name="helper")

    @tool
    def ask_helper(text: str) -> str:
        """Ask the helper."""
        return inner.invoke({"messages": [("user", text)]})["messages"][-1].text

    return create_agent(open_chat(provider), [ask_helper], middleware=[own], checkpointer=InMemorySaver())


def test_each_conversation_with_a_sub_agent_is_a_session_of_its_own(provider):
    events = []
    own = open_refold(on_event=events.append)
    agent = open_with_subagent(provider, own)
    say(agent, 'CALL ask_helper {"text": "Turn 1 STEPS 12"}', 'CALL ask_helper {"text": "Turn 2 STEPS 12"}')
    names = {event.session for event in events}
    assert len(names) == 3
    assert own.session("t1").stats().said == 7
    subs = sorted(name for name in names if name != "t1")
    assert all(name.startswith("t1:tools:helper:") for name in subs)
    assert [own.session(name).stats().said for name in subs] == [25, 25]
    assert all(own.session(name).folds() for name in subs)


def test_a_sub_agent_recalls_from_its_own_session(provider):
    own = open_refold()
    agent = open_with_subagent(provider, own)
    messages = say(agent, "the word is zebra NOTOOL", 'CALL ask_helper {"text": "RECALL zebra giraffe"}')
    (result,) = [message for message in messages if isinstance(message, ToolMessage)]
    assert "giraffe" in result.text
    assert "the word is" not in result.text


def test_a_sub_graph_that_is_given_the_history_goes_on_with_its_session(provider):
    asked, events = [], []
    own = open_refold(
        on_event=events.append,
        ask=lambda question: asked.append(question) or "Boxes were opened one after another.",
    )
    inner = create_agent(open_chat(provider), [look], middleware=[own], name="worker")
    graph = StateGraph(MessagesState).add_node("worker", inner).add_edge(START, "worker")
    agent = graph.compile(checkpointer=InMemorySaver())
    messages = say(agent, *number_turns(12))
    (name,) = {event.session for event in events}
    assert name.startswith("t1:worker:")
    session = own.session(name)
    assert session.stats().said == len(messages) - 1
    assert len(asked) == sum(fold.spent.calls for fold in session.folds()) >= 1


# -- other compaction ------------------------------------------------------------------------------------------


def test_another_middleware_that_shortens_the_history_is_refused_when_the_agent_is_made(provider):
    chat = open_chat(provider)
    for other in (SummarizationMiddleware(model=chat), ContextEditingMiddleware()):
        for stack in ([open_refold(), other], [other, open_refold()]):
            with pytest.raises(refold.RefoldError) as caught:
                create_agent(chat, [look], middleware=stack)
            text = str(caught.value)
            assert (
                f"{type(other).__name__} shortens the history as well: take it out of middleware=[...]"
                == text
            )


def test_a_provider_that_compacts_is_refused_and_one_that_keeps_the_history_is_warned_of(provider):
    chat = open_chat(provider, use_responses_api=True, context_management=[{"type": "compaction"}])
    with pytest.raises(refold.RefoldError, match="leave context_management out"):
        say(create_agent(chat, [look], middleware=[open_refold()], checkpointer=InMemorySaver()), "hi")
    chat = open_chat(provider, use_responses_api=True, use_previous_response_id=True)
    with pytest.warns(refold.RefoldWarning, match="set it to False"):
        say(create_agent(chat, [look], middleware=[open_refold()], checkpointer=InMemorySaver()), "NOTOOL hi")


def test_like_takes_over_trigger_keep_and_model(provider):
    chat = open_chat(provider)
    own = RefoldMiddleware.like(
        SummarizationMiddleware(
            model=chat, trigger=[("tokens", 2000), ("messages", 80)], keep=("tokens", 500)
        ),
        store="memory:",
    )
    agent = create_agent(chat, [look], middleware=[own], checkpointer=InMemorySaver())
    say(agent, *number_turns(10))
    turns = [request for request in provider.requests if request.tools]
    assert own.session("t1").folds()
    assert max(request.used for request in turns) <= 2600
    assert any(
        "Write the memory" in str(request.messages) for request in provider.requests if not request.tools
    )


def test_like_a_share_of_the_window_and_a_number_of_messages(provider):
    chat = open_chat(provider, profile={"max_input_tokens": 100_000})
    policy = read_policy(
        SummarizationMiddleware(model=chat, trigger=("fraction", 0.4), keep=("fraction", 0.1))
    )
    assert policy.trigger.fraction == 0.4
    assert policy.target.fraction < 0.4
    kept = refold.presets.get("refold", keep_tokens=10_000)
    assert policy.stages == kept.stages
    with pytest.warns(refold.RefoldWarning, match="number of messages"):
        RefoldMiddleware.like(SummarizationMiddleware(model=chat, trigger=("messages", 50)), store="memory:")
    with pytest.warns(refold.RefoldWarning, match="token_counter is not taken over"):
        read_policy(SummarizationMiddleware(model=chat, trigger=("tokens", 50), token_counter=len))


def test_a_chat_model_summarises_apart_from_the_agent_that_runs(provider):
    own = open_refold(ask=open_chat(provider, model="gpt-4o-mini"))
    agent = create_agent(open_chat(provider), [look], middleware=[own], checkpointer=InMemorySaver())
    streamed = []
    for text in number_turns(8):
        for chunk, _ in agent.stream({"messages": [("user", text)]}, THREAD, stream_mode="messages"):
            streamed.append(chunk)
    summaries = [request for request in provider.requests if request.model == "gpt-4o-mini"]
    spent = own.session("t1").stats().summaries
    assert summaries
    assert not any(request.tools or request.stream for request in summaries)
    assert {chunk.response_metadata.get("model_name") for chunk in streamed} <= {None, "gpt-4o"}
    assert spent.calls == len(summaries)
    assert spent.dollars > 0


# -- create_react_agent ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
def test_the_hook_of_create_react_agent_folds_and_leaves_the_state_whole(provider):
    from langgraph.prebuilt import create_react_agent

    own = open_refold()
    agent = create_react_agent(
        open_chat(provider),
        [look, own.recall],
        prompt="You help.",
        pre_model_hook=own.pre_model_hook,
        checkpointer=InMemorySaver(),
    )
    messages = say(agent, *number_turns(10))
    asyncio.run(
        agent.ainvoke({"messages": [("user", "RECALL box 1")]}, {"configurable": {"thread_id": "t2"}})
    )
    assert len(messages) == 40
    assert own.session("t1").folds()
    assert own.session("t1").stats().said == 39
    assert "no refusal" in RefoldMiddleware.pre_model_hook.__doc__.splitlines()[0]


# -- upstream issues -------------------------------------------------------------------------------------------


def call(n, *ids):
    return AIMessage("", tool_calls=[{"id": name, "name": "look", "args": {"n": n}} for name in ids])


def result(name):
    return ToolMessage("Box is open. " * 20, tool_call_id=name, name="look")


TALK = [
    message
    for i in range(24)
    for message in (HumanMessage(f"Question {i}"), AIMessage(f"Answer {i}. " + "It works as planned. " * 30))
]
TANGLED = [
    *TALK,
    HumanMessage("start"),
    call(1, "a1"),
    HumanMessage("a word in between"),
    call(2, "b1"),
    result("b1"),
    result("a1"),
    AIMessage("done"),
    HumanMessage("next"),
    AIMessage("ok"),
]
"""The results of two calls in one run, as in the issue: only one of the calls stands right before them."""


def test_langchain_38352_an_orphaned_result_does_not_reach_the_provider():
    """Upstream keeps the result of a call that it has summarised away, and the provider answers 400."""
    with Provider(reject_invalid=True) as strict:
        chat = open_chat(strict)
        theirs = SummarizationMiddleware(model=chat, trigger=("messages", 4), keep=("messages", 5))
        agent = create_agent(chat, [look], middleware=[theirs])
        with pytest.raises(Exception, match="a1") as caught:
            agent.invoke({"messages": [*TANGLED, HumanMessage("NOTOOL go on")]})
        assert getattr(caught.value, "status_code", None) == 400
    with Provider(reject_invalid=True, limit=WINDOW) as strict:
        own = open_refold()
        agent = create_agent(open_chat(strict), [look], middleware=[own], checkpointer=InMemorySaver())
        messages = agent.invoke({"messages": [*TANGLED, HumanMessage("NOTOOL go on")]}, THREAD)["messages"]
        assert strict.problems == []
        assert own.session("t1").folds()
        assert len(messages) == len(TANGLED) + 2


@pytest.mark.parametrize("keep", [2, 5, 9])
def test_langchain_34282_a_cut_inside_parallel_results_is_never_made(keep, provider):
    """LangChain 1.1 kept results of calls that it had summarised; whatever the cut, a view has both or none."""
    ids = [f"c{i}" for i in range(10)]
    history = [*TALK, HumanMessage("Read these files"), call(1, *ids), *map(result, ids)]
    policy = refold.presets.get("refold", trigger_tokens=2500, keep_tokens=keep * 60)
    own = open_refold(policy=policy)
    agent = create_agent(open_chat(provider), [look], middleware=[own], checkpointer=InMemorySaver())
    agent.invoke({"messages": [*history, HumanMessage("NOTOOL go on")]}, THREAD)
    assert own.session("t1").folds()


# -- messages --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("hi", name="ann"),
        SystemMessage("Be short."),
        ToolMessage("it failed", tool_call_id="c1", status="error", name="look"),
        AIMessage("", tool_calls=[{"id": "c1", "name": "look", "args": {"n": 1, "deep": {"a": [1, "ä"]}}}]),
        AIMessage([{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "ok"}]),
        AIMessage(
            [
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
                {"type": "text", "text": "ok"},
            ]
        ),
        AIMessage([{"type": "text", "text": "ok"}], response_metadata={"output_version": "v1"}),
        AIMessage(
            [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "so"},
                {"type": "thinking", "thinking": "oh", "signature": "t"},
            ],
            tool_calls=[{"id": "c1", "name": "look", "args": {"n": 1}}],
        ),
        HumanMessage([{"type": "text", "text": "hi"}, {"type": "file", "file_id": "file-1"}]),
        HumanMessage([{"type": "text", "text": "hi"}, {"guardContent": {"text": {"text": "mind this"}}}]),
    ],
)
def test_a_message_that_is_made_anew_says_the_same(message):
    (item,) = to_wire(message)
    (made,) = from_wire([item])
    assert to_wire(made) == (item,)
    assert refold.count([item], format="openai") > 0  # it is read as a chat item
    assert type(made) is type(message)
    assert made.content == message.content


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
        {"type": "image", "source_type": "base64", "data": PIXEL, "mime_type": "image/png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "media", "data": PIXEL, "mime_type": "image/png"},
    ],
)
def test_media_are_measured_as_what_they_are(block):
    large = {key: value * 5000 if value == PIXEL else value for key, value in block.items()}
    (item,) = to_wire(HumanMessage([large]))
    assert refold.count([item], format="openai") < 5000


def test_a_picture_as_bedrock_has_it_is_measured_as_one():
    picture = {"image": {"format": "png", "source": {"bytes": b64decode(PIXEL) * 5000}}}
    assert refold.count(list(to_wire(HumanMessage([picture]))), format="openai") < 5000


def test_media_in_bytes_are_written_as_base64():
    for block in (
        {"type": "media", "data": b"abc", "mime_type": "application/pdf"},
        {"type": "document", "source": {"bytes": b"abc", "media_type": "application/pdf"}},
    ):
        (item,) = to_wire(HumanMessage([block]))
        assert item["content"][0]["file"]["file_data"] == "data:application/pdf;base64,YWJj"


@pytest.mark.parametrize(
    ("kind", "encoding"), [("image", "png"), ("document", "pdf"), ("audio", "mp3"), ("video", "mp4")]
)
def test_media_as_bedrock_has_them_are_stored_and_come_back_as_bytes(kind, encoding, middleware):
    block = {kind: {"format": encoding, "name": "it", "source": {"bytes": b64decode(PIXEL)}}}
    shown = [HumanMessage([{"text": "Look."}, block]), AIMessage("ok"), HumanMessage([{"text": "And?"}])]
    session = middleware.session("t1", create=True)
    assert Turn(session, BRIDGE, shown).prepare() == shown
    (anew,) = from_wire([session.log(kinds=["said"])[0].value])
    assert anew.content == shown[0].content
    there = {"document": {"format": "pdf", "source": {"s3Location": {"uri": "s3://it"}}}}
    assert from_wire(to_wire(HumanMessage([there])))[0].content == [there]


REASONED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
SAID = {"type": "text", "text": "ok", "id": "msg_1"}
SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
CALLED = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"n": 1}'}
STANDARD = {"type": "tool_call", "id": "c1", "name": "look", "args": {"n": 1}, "extras": {"item_id": "fc_1"}}
CALLS = [{"id": "c1", "name": "look", "args": {"n": 1}}]


def make_anew(item, *, keeps_thinking):
    """Return the message of an item that a fold has changed."""
    lost = () if keeps_thinking else ("thinking_blocks", "reasoning_content")
    (made,) = from_wire([{key: item[key] for key in item if key not in lost}])
    return made


@pytest.mark.parametrize("call", [CALLED, STANDARD], ids=["responses", "standard"])
def test_ids_of_responses_stay_with_the_reasoning_and_leave_with_it(call):
    """OpenAI refuses an item whose reasoning item is missing, and a reasoning item without the item behind it."""
    (item,) = to_wire(AIMessage([REASONED, SAID, call], tool_calls=CALLS))
    made = make_anew(item, keeps_thinking=True)
    assert made.content == [REASONED, SAID, CALLED]
    assert [call["id"] for call in made.tool_calls] == ["c1"]
    made = make_anew(item, keeps_thinking=False)
    assert made.content == [{"type": "text", "text": "ok"}]
    assert [call["id"] for call in made.tool_calls] == ["c1"]


def test_reasoning_stays_with_calls_that_the_provider_ran():
    """Their ids cannot be left out, so no stage may take the reasoning."""
    (item,) = to_wire(AIMessage([REASONED, SEARCHED, SAID, CALLED], tool_calls=CALLS))
    assert not {"thinking_blocks", "reasoning_content"} & item.keys()
    assert make_anew(item, keeps_thinking=False).content == [REASONED, SEARCHED, SAID, CALLED]


def test_thinking_of_anthropic_may_leave_calls_that_it_ran():
    ran = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    (item,) = to_wire(AIMessage([thinking, ran, {"type": "text", "text": "ok"}]))
    assert make_anew(item, keeps_thinking=False).content == [ran, {"type": "text", "text": "ok"}]


def test_thinking_behind_a_call_is_left_out_of_a_message_that_is_made_anew():
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {"n": 1}}
    called = [{"id": "c1", "name": "look", "args": {"n": 1}}]
    (item,) = to_wire(AIMessage([thinking, call, thinking], tool_calls=called))
    assert item["reasoning_content"] == "hm\nhm"
    (made,) = from_wire([item])
    assert not made.content
    assert made.tool_calls[0]["id"] == "c1"


def test_a_cache_point_is_no_part_of_a_message():
    """Callers move it from turn to turn, which would begin a branch each time."""
    texts = [{"type": "text", "text": "hi"}, "a text about a cachePoint"]
    assert to_wire(HumanMessage([*texts, {"cachePoint": {"type": "default"}}])) == to_wire(
        HumanMessage(texts)
    )
    assert len(to_wire(HumanMessage(texts))[0]["content"]) == 2


def test_an_uploaded_file_is_sent_as_it_was():
    asked = [{"type": "text", "text": "NOTOOL what is it?"}, {"type": "file", "file_id": "file-1"}]
    with Provider() as provider:
        agent = create_agent(open_chat(provider), [look], middleware=[open_refold(window=100_000)])
        agent.invoke({"messages": [HumanMessage(asked)]}, THREAD)
    assert provider.requests[0].messages[0]["content"][1] == {"type": "file", "file": {"file_id": "file-1"}}


def test_an_invalid_call_that_was_answered_is_in_the_log_and_sent_as_it_was(middleware):
    bad = {"type": "invalid_tool_call", "id": "c1", "name": "look", "args": '{"n": ', "error": None}
    said = [
        HumanMessage("hi"),
        AIMessage("", invalid_tool_calls=[bad, {**bad, "id": None}]),
        ToolMessage("The arguments are no JSON.", tool_call_id="c1", status="error"),
        HumanMessage("NOTOOL go on"),
    ]
    with Provider() as provider:
        agent = create_agent(open_chat(provider), [look], middleware=[middleware])
        agent.invoke({"messages": said}, THREAD)
    calls = [call for m in provider.requests[0].messages for call in m.get("tool_calls") or ()]
    assert [call["function"] for call in calls] == 2 * [{"name": "look", "arguments": '{"n": '}]
    (item,) = to_wire(said[1])
    assert [call["id"] for call in item["tool_calls"]] == ["c1"]
    assert from_wire([item])[0].invalid_tool_calls == [bad]


@pytest.mark.parametrize("name", [None, ""])
def test_a_call_without_an_id_goes_with_its_result(name, middleware):
    """Servers on one's own machine give calls no id; LangChain takes no result without one."""
    call = {"name": "look", "args": {"n": 1}, "id": name}
    natives = [
        HumanMessage("look"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("Box 1 is open.", tool_call_id=""),
    ]
    view = Turn(middleware.session("k", create=True), BRIDGE, natives).prepare()
    assert all(a is b for a, b in zip(view, natives, strict=True))
    unanswered = Turn(middleware.session("u", create=True), BRIDGE, [*natives[:2], HumanMessage("go on")])
    assert unanswered.prepare()[2].tool_call_id == ""


def test_calls_inside_the_content_are_said_once():
    args = {"id": "c1", "name": "look", "args": {"n": 1}}
    for block in (
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"n": 1}},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"n": 1}'},
        {"type": "tool_call", **args},
    ):
        (item,) = to_wire(AIMessage([{"type": "text", "text": "I look."}, block], tool_calls=[args]))
        assert item["content"] == [{"type": "text", "text": "I look."}]
        assert len(item["tool_calls"]) == 1


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
def test_the_example_of_create_react_agent_runs(provider, monkeypatch, tmp_path):
    from langgraph.prebuilt import create_react_agent

    monkeypatch.setenv("REFOLD_STORE", f"sqlite:{tmp_path / 'refold.db'}")
    around = {"create_react_agent": create_react_agent, "RefoldMiddleware": RefoldMiddleware}
    around |= {"model": open_chat(provider), "tools": []}
    made = run_fragment("docs/adapters/langchain.md", "create_react_agent(", around)
    say(made["agent"], "Turn 1: hello NOTOOL")
    assert "Turn 1: hello" in made["folding"].session("t1").log()[0].text
    made["folding"].close()


def test_the_examples_of_the_migration_page_run(monkeypatch, tmp_path):
    page = Path(__file__).parents[2] / "docs" / "adapters" / "from-langchain-summarization.md"
    run_page(page, monkeypatch, tmp_path)


def test_agents_that_share_a_middleware_are_each_measured_against_their_model(provider, middleware):
    """A thread of another agent may run between the steps in which a model is looked at."""
    other = create_agent(open_chat(provider, model="gpt-4.1"), middleware=[middleware])

    class Interrupted(ChatOpenAI):
        def __getattribute__(self, name):
            if name == "context_management":
                say(other, "Hello.", config={"configurable": {"thread_id": "other"}})
            return super().__getattribute__(name)

    chat = Interrupted(model="gpt-4o", base_url=provider.url, api_key="none", max_retries=0)
    say(create_agent(chat, middleware=[middleware]), "Hello.")
    models = [middleware.session(key).model for key in ("t1", "other")]
    assert [model.rpartition(":")[2] for model in models] == ["gpt-4o", "gpt-4.1"]
