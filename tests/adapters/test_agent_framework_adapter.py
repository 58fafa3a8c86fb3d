"""Refold inside Microsoft's Agent Framework: keys, approvals, refusals to start, and two of its own issues."""

import asyncio
import json

import pytest
from conformance_case import SYSTEM, Summariser, look, need

need("agent_framework", "agent_framework_openai", extra="agent-framework")

import openai
from agent_framework import Agent, AgentSession, Content, Message, SlidingWindowStrategy, tool
from agent_framework.openai import OpenAIChatCompletionClient

import refold
from refold.adapters.agent_framework import RefoldMiddleware
from refold.adapters.agent_framework.messages import BRIDGE, from_wire, to_wire
from refold.adapters.base import Turn
from refold.testing import PIXEL, Provider

pytestmark = [
    pytest.mark.filterwarnings("ignore", "error::refold.RefoldWarning"),
    pytest.mark.usefixtures("collect_clients"),
]

WINDOW = 4000
PICTURE = f"data:image/png;base64,{PIXEL}"


def run(work, **options):
    """Run a coroutine function with a provider; every request must be valid."""

    async def inside():
        with Provider(limit=WINDOW, **options) as provider:
            result = await work(provider)
            assert provider.problems == []
            return result

    return asyncio.run(inside())


def open_client(provider):
    client = openai.AsyncOpenAI(base_url=provider.url, api_key="none", max_retries=0)
    return OpenAIChatCompletionClient(model="gpt-4o", async_client=client)


def open_refold(**options):
    return RefoldMiddleware(**{"store": "memory:", "window": WINDOW, "ask": Summariser(), **options})


def open_agent(provider, middleware, *tools, **options):
    return Agent(
        client=open_client(provider),
        instructions=SYSTEM,
        tools=[tool(look), *tools, middleware.recall],
        middleware=[middleware],
        **options,
    )


async def talk(agent, session, first, last):
    for number in range(first, last + 1):
        await agent.run(f"Turn {number}: what is in the next box?", session=session)


def messages_of(session):
    return next(state["messages"] for state in session.state.values() if "messages" in state)


# -- messages ----------------------------------------------------------------------------------------------

CALL = Content.from_function_call(call_id="c1", name="look", arguments='{"n": 1}')
MESSAGES = [
    (Message("user", ["hi"]), [{"role": "user", "content": "hi"}]),
    (Message("assistant", []), [{"role": "assistant", "content": ""}]),
    (
        Message("assistant", [Content.from_text("so"), CALL]),
        [
            {
                "role": "assistant",
                "content": "so",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"n": 1}'}}
                ],
            }
        ],
    ),
    (
        Message(
            "tool",
            [
                Content.from_function_result(call_id="c1", result="one"),
                Content.from_function_result(call_id="c2", result={"n": 2}),
            ],
        ),
        [
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": '{"n": 2}'},
        ],
    ),
    (
        Message("user", [Content.from_text("see"), Content.from_uri(PICTURE, media_type="image/png")]),
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": PICTURE}},
                ],
            }
        ],
    ),
]


@pytest.mark.parametrize(("message", "items"), MESSAGES, ids=range(len(MESSAGES)))
def test_a_message_on_the_wire(message, items):
    assert to_wire(message) == items
    assert [item for again in from_wire(items) for item in to_wire(again)] == items


def test_a_message_that_was_saved_and_loaded_reads_the_same():
    for message, items in MESSAGES:
        assert to_wire(Message.from_dict(json.loads(json.dumps(message.to_dict())))) == items


@pytest.mark.parametrize("media", ["application/pdf", "audio/wav", "video/mp4", "image/png"])
def test_media_are_measured_as_what_they_are_and_read_again(media):
    data = b"%PDF-1.4\n1 0 obj << /Type /Page >> endobj\n" + bytes(range(256)) * 2000
    sent = Message("user", [Content.from_data(data=data, media_type=media)])
    items = to_wire(sent)
    assert refold.count(items, format="openai") < 20_000
    (again,) = from_wire(json.loads(json.dumps(items)))
    assert again.contents == sent.contents


@pytest.mark.parametrize("name", [None, ""])
def test_a_call_without_an_id_may_be_left_open(name):
    """Servers on one's own machine give calls no id."""
    call = Content.from_function_call(call_id=name, name="look", arguments="{}")
    natives = [Message("user", ["look"]), Message("assistant", [call]), Message("user", ["go on"])]
    session = open_refold().session("k", create=True)
    assert Turn(session, BRIDGE, natives).prepare()[2].contents[0].call_id == ""
    answered = Message("tool", [Content.from_function_result(call_id=name, result="Box 1 is open.")])
    assert Turn(session, BRIDGE, [*natives[:2], answered]).prepare()[2] is answered


def test_an_approval_is_carried():
    asked = Message("assistant", [Content.from_function_approval_request(id="a1", function_call=CALL)])
    (item,) = to_wire(asked)
    (again,) = from_wire([item])
    assert again.contents[0].type == "function_approval_request"
    assert again.contents[0].function_call.call_id == "c1"


# -- keys and refusals to start ----------------------------------------------------------------------------


def test_an_agent_without_a_session_is_refused_with_advice():
    async def work(provider):
        agent = open_agent(provider, open_refold())
        with pytest.raises(refold.RefoldError, match=r"session=agent.create_session\(\)"):
            await agent.run("hi")
        keyed = open_refold(key="mine")
        await open_agent(provider, keyed).run("NOTOOL hi")
        assert keyed.session().stats().said == 1

    run(work)


@pytest.mark.parametrize("place", ["agent", "client", "run"])
def test_a_compaction_strategy_beside_it_is_refused(place):
    async def work(provider):
        strategy = SlidingWindowStrategy(keep_last_groups=3)
        middleware = open_refold()
        client, own = open_client(provider), {"compaction_strategy": strategy} if place == "agent" else {}
        if place == "client":
            client.compaction_strategy = strategy
        agent = Agent(client=client, middleware=[middleware], **own)
        options = {"compaction_strategy": strategy} if place == "run" else {}
        with pytest.raises(refold.RefoldError, match="remove compaction_strategy="):
            await agent.run("hi", session=agent.create_session(), **options)
        assert provider.requests == []

    run(work)


def test_a_conversation_that_the_service_keeps_passes_with_one_warning():
    async def work(provider):
        middleware = open_refold()
        agent = open_agent(provider, middleware)
        session = AgentSession(session_id="t", service_session_id="resp_1")
        with pytest.warns(refold.RefoldWarning, match="kept by the service"):
            await agent.run("NOTOOL hi", session=session)
        await agent.run("NOTOOL again", session=session)
        with pytest.raises(refold.SessionNotFound, match="nothing was said"):
            await middleware.asession("t")

    run(work)


def test_window_and_price_come_from_the_client():
    async def work(provider):
        middleware = open_refold(window=None)
        agent = open_agent(provider, middleware)
        await agent.run("NOTOOL hi", session=agent.create_session(session_id="t"))
        stats = middleware.session("t").stats()
        assert stats.window == refold.window("gpt-4o").tokens
        assert stats.spent.dollars

    run(work)


# -- summaries, recall, streams ----------------------------------------------------------------------------


def test_a_chat_client_may_write_the_summaries():
    async def work(provider):
        middleware = open_refold(ask=open_client(provider))
        agent = open_agent(provider, middleware)
        await talk(agent, agent.create_session(session_id="t"), 1, 14)
        session = await middleware.asession("t")
        asked = [request for request in provider.requests if not request.tools]
        assert asked
        assert (await session.stats()).summaries.calls == len(asked)

    run(work)


@pytest.mark.parametrize("when", ["folded", False])
def test_recall_is_hidden_while_it_is_not_offered(when):
    async def work(provider):
        agent = open_agent(provider, open_refold(recall=when))
        await talk(agent, agent.create_session(session_id="t"), 1, 12)
        offered = ["recall" in request.tool_names for request in provider.requests]
        assert offered[0] is False
        assert offered[-1] is (when == "folded")
        assert offered == sorted(offered)

    run(work)


def test_a_stream_that_begins_again_is_the_clients_own_to_its_end():
    async def work(provider):
        middleware = open_refold()
        agent = open_agent(provider, middleware)
        session = agent.create_session(session_id="t")
        await talk(agent, session, 1, 4)
        provider.refuse_next = 1
        stream = agent.run("Turn 5: NOTOOL", session=session, stream=True)
        updates = [update async for update in stream]
        response = await stream.get_final_response()
        assert len(provider.refused) == 1
        assert len([update for update in updates if update.text]) > 1
        assert response.text == "".join(update.text for update in updates)
        assert response.usage_details["input_token_count"] == provider.requests[-1].usage.input

    run(work)


def test_a_stream_that_is_left_early_is_counted_and_closed():
    async def work(provider):
        middleware = open_refold()
        agent = open_agent(provider, middleware)
        session = agent.create_session(session_id="t")
        stream = agent.run("Turn 1: NOTOOL", session=session, stream=True)
        async for update in stream:
            if update.text:
                break
        await agent.run("Turn 2: NOTOOL", session=session)
        assert (await (await middleware.asession("t")).stats()).totals.requests >= 1

    run(work)


# -- approvals ---------------------------------------------------------------------------------------------


def test_an_approval_may_come_after_folds():
    pulled = []

    @tool(approval_mode="always_require")
    def pull(lever: int) -> str:
        """Pull a lever."""
        pulled.append(lever)
        return f"lever {lever} was pulled"

    async def work(provider):
        middleware = open_refold()
        agent = open_agent(provider, middleware, pull)
        session = agent.create_session(session_id="t")
        await talk(agent, session, 1, 9)
        asked = await agent.run('CALL pull {"lever": 7}', session=session)
        (request,) = asked.user_input_requests
        await talk(agent, session, 10, 18)
        assert len(middleware.session("t").folds()) >= 2
        assert pulled == []
        loaded = AgentSession.from_dict(json.loads(json.dumps(session.to_dict())))
        approval = Message("user", [request.to_function_approval_response(True)])
        response = await agent.run(approval, session=loaded)
        assert pulled == [7]
        assert response.text.startswith("Answer ")
        await talk(agent, loaded, 19, 20)

    run(work)


# -- the framework's own issues ----------------------------------------------------------------------------


def test_agent_framework_8099_a_restored_history_has_every_message():
    """Its own compaction marks tool calls as excluded and saves no summary of them."""

    async def work(provider):
        middleware = open_refold()
        agent = open_agent(provider, middleware)
        session = agent.create_session(session_id="t")
        await agent.run("STEPS 25 look into all boxes", session=session)
        await talk(agent, session, 1, 8)
        whole = [message.to_dict() for message in messages_of(session)]
        restored = AgentSession.from_dict(json.loads(json.dumps(session.to_dict())))
        kept = messages_of(restored)
        assert [to_wire(message) for message in kept] == [to_wire(Message.from_dict(one)) for one in whole]
        assert (
            sum(1 for message in kept for content in message.contents if content.type == "function_result")
            == 33
        )
        assert not any("exclude" in json.dumps(message.to_dict()).lower() for message in kept)
        refolded = middleware.session("t")
        assert refolded.folds()
        items = [item for message in kept for item in to_wire(message)]
        said = [entry.value for entry in refolded.log(kinds=["said"])]
        assert said == items[: len(said)]
        assert len(items) - len(said) <= 1

    run(work)


@pytest.mark.parametrize("stream", [False, True])
def test_agent_framework_7518_a_turn_of_25_calls_folds_inside_the_loop(stream):
    async def work(provider):
        middleware = open_refold()
        agent = open_agent(provider, middleware)
        session = agent.create_session(session_id="t")
        if stream:
            updates = agent.run("STEPS 25 look into all boxes", session=session, stream=True)
            assert [update async for update in updates]
        else:
            await agent.run("STEPS 25 look into all boxes", session=session)
        assert len(provider.requests) == 26
        assert provider.refused == []
        assert middleware.session("t").folds()
        assert middleware.session("t").stats().totals.requests == 26

    run(work)


def test_reasoning_stays_with_calls_that_the_provider_ran():
    """OpenAI takes none without the other."""
    reasoning = Content.from_text_reasoning(id="rs_1", text="hm", protected_data="e")
    ran = Content.from_mcp_server_tool_call(
        call_id="mcp_1", tool_name="find", server_name="s", arguments="{}"
    )
    said = Content.from_text("so")
    for contents, kept in (([reasoning, ran, said], 3), ([reasoning, said], 1), ([ran, said], 2)):
        (made,) = from_wire(to_wire(Message(role="assistant", contents=contents)))
        assert [content.to_dict() for content in made.contents] == [
            content.to_dict() for content in contents[-kept:]
        ]
