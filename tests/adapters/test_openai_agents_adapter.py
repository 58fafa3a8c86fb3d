"""Refold inside the OpenAI Agents SDK: real runners and models against a provider on this machine."""

import asyncio
import json
import logging
import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest

import refold
from refold.testing import Call, Provider, Reply

pytest.importorskip("agents", reason="needs the SDK: pip install 'refold[openai-agents]'")

from agents import (
    Agent,
    Model,
    ModelResponse,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIProvider,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    RunState,
    SessionSettings,
    SQLiteSession,
    Usage,
    function_tool,
)
from agents.memory import OpenAIResponsesCompactionSession
from agents.run_config import ModelInputData
from openai import AsyncOpenAI, BadRequestError
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from openai.types.responses.response_output_item import McpCall

from refold.adapters.openai_agents import RefoldSession, recall_tool, runs

WINDOW = 4_000
OUTPUT = "a line of output that a tool has written " * 80


@function_tool
def look(n: int) -> str:
    """Look at a value."""
    return f"value {n}: {OUTPUT}"


def make_session(**options):
    return RefoldSession("t", **{"store": "memory:", "window": WINDOW, **options})


def make_agent(*, model="gpt-4o", **options):
    return Agent("helper", instructions="You look at values.", model=model, **{"tools": [look], **options})


def drive(provider, work, wire="responses", config=None):
    """Run `work(config)` in an event loop with a client of its own, closed behind it."""

    async def run():
        async with AsyncOpenAI(base_url=provider.url, api_key="none", max_retries=0) as client:
            models = OpenAIProvider(openai_client=client, use_responses=wire == "responses")
            return await work(RunConfig(model_provider=models, tracing_disabled=True))

    return asyncio.run(run())


async def talk(agent, session, config, turns):
    for number in turns:
        question = f"Turn {number}: what is the value of thing {number}?"
        options = {"session": session, "run_config": config}
        if number % 3 == 0:
            result = Runner.run_streamed(agent, question, **options)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, question, **options)
    return result


@pytest.mark.few_values(1)
@pytest.mark.parametrize("wire", ["responses", "openai"])
def test_the_items_are_those_that_the_sdk_would_keep_itself(wire):
    """With folds and a refusal, the session gives what SQLiteSession gives without Refold."""
    session = make_session()

    async def work(config):
        await talk(make_agent(), session, session.run_config(config), range(1, 4))
        provider.refuse_next = 1
        await talk(make_agent(), session, session.run_config(config), range(4, 6))
        return await session.get_items()

    async def plainly(config):
        own = SQLiteSession("t")
        await talk(make_agent(), own, config, range(1, 6))
        items = await own.get_items()
        own.close()
        return items

    with Provider(limit=WINDOW, parallel=True) as provider:
        kept = drive(provider, work, wire)
    with Provider(limit=10_000_000, parallel=True) as plain:
        expected = drive(plain, plainly, wire)
    assert kept == expected
    assert provider.problems == []
    assert len(provider.refused) == 1
    assert len(session.session().folds()) >= 2
    assert session.session().stats().totals.requests == len(provider.answered)


def test_a_handoff_goes_on_in_the_same_conversation():
    session = make_session()

    async def work(config):
        config = session.run_config(config)
        second = Agent("second", instructions="You look too.", model="gpt-4o", tools=[look])
        first = make_agent(handoffs=[second])
        await talk(first, session, config, range(1, 5))
        handed = await Runner.run(first, "CALL transfer_to_second {}", session=session, run_config=config)
        await talk(second, session, config, range(7, 10))
        return handed

    with Provider(limit=WINDOW) as provider:
        handed = drive(provider, work)
    assert handed.last_agent.name == "second"
    assert provider.problems == []
    log = [entry.value for entry in session.session().log(kinds=["said"])]
    users = [item["content"] for item in log if item.get("role") == "user"]
    assert len(users) == 8
    assert "You look too." in str(provider.requests[-1].body["instructions"])


def test_an_agent_that_is_a_tool_has_a_conversation_of_its_own():
    session = make_session()

    async def work(config):
        config = session.run_config(config)
        inner = Agent("inner", instructions="You help.", model="gpt-4o")
        outer = make_agent(tools=[look, inner.as_tool("ask_inner", "Ask the inner agent.")])
        await talk(outer, session, config, [1, 2])
        await Runner.run(outer, 'CALL ask_inner {"input": "hello"}', session=session, run_config=config)
        await talk(outer, session, config, [4])

    with Provider() as provider:
        drive(provider, work)
    assert provider.problems == []
    log = session.session().log(kinds=["said"])
    users = [entry.value["content"] for entry in log if entry.value.get("role") == "user"]
    assert len(users) == 4
    assert "hello" not in users
    names = {each.name for each in session.sessions.store.sessions()}
    assert len(names) == 3, "the items, what the agent was asked, and what the inner agent was asked"


@pytest.mark.few_values(1)
@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_that_is_a_tool_recalls_from_its_own_conversation(streamed):
    session, steps, got = make_session(recall="folded"), iter(range(1, 20)), []

    def answer(request):
        if request.body["instructions"] != "You help.":
            is_new = request.messages[-1].get("role") == "user"
            return Reply("", (Call("ask_inner", {"input": "find it"}),)) if is_new else "done"
        if (step := next(steps)) < 12:
            return Reply("", (Call("look", {"n": step}),))
        if step == 12:
            return Reply("", (Call("recall", {"query": "value 1"}),))
        got.append(request.messages[-1]["output"])
        return "found"

    async def work(config):
        config = session.run_config(config)
        inner = Agent("inner", instructions="You help.", model="gpt-4o", tools=[look, recall_tool()])
        asks = inner.as_tool("ask_inner", "Ask.", max_turns=20)
        run = {"session": session, "run_config": config, "max_turns": 20}
        outer = make_agent(tools=[look, recall_tool(), asks])
        if not streamed:
            await Runner.run(outer, "My secret is a banana.", **run)
        else:
            async for _ in Runner.run_streamed(outer, "My secret is a banana.", **run).stream_events():
                pass

    with Provider(answer=answer) as provider:
        drive(provider, work)
    assert provider.problems == []
    assert "value 1: a line of output" in got[0]
    assert "banana" not in got[0]


def test_calls_of_recall_that_nobody_answers_are_forgotten():
    """A run may be stopped before its tools are called; the last callers are still known."""
    session = make_session()

    def call_recall(conversation, call_id):
        call = SimpleNamespace(type="function_call", name="recall", call_id=call_id)
        session.end_turn(SimpleNamespace(session=SimpleNamespace(name=conversation)), [call])

    for number in range(1000):
        call_recall("t:inner", f"call_{number}")
    call_recall("t", "call_998")  # servers on one's own machine count the calls of each answer
    assert len(session._askers) < 1000

    async def work():
        for conversation, fruit in (("t:inner", "a banana"), ("t", "a cherry")):
            own = await session.asession(conversation, create=True)
            await own.say({"role": "user", "content": fruit})
        query = '{"query": "banana cherry"}'
        return [await session.answer_recall(call, query) for call in ("call_998", "call_999")]

    found = [[fruit in text for fruit in ("banana", "cherry")] for text in asyncio.run(work())]
    assert found == [[False, True], [True, False]]


def test_a_tool_of_a_server_may_have_the_name_of_ours():
    class Served(Model):
        async def get_response(self, *_args, **_options):
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            message = ResponseOutputMessage(
                id="m", role="assistant", status="completed", type="message", content=[text]
            )
            call = McpCall(
                id="c", arguments="{}", name="recall", server_label="s", type="mcp_call", output="x"
            )
            return ModelResponse(output=[call, message], usage=Usage(), response_id=None)

        def stream_response(self, *_args, **_options):
            raise NotImplementedError

    async def work(config):
        session = make_session()
        agent = make_agent(model=session.wrap(Served()))
        return await Runner.run(agent, "hi", session=session, run_config=session.run_config(config))

    with Provider() as provider:
        assert drive(provider, work).final_output == "done"


def keep_newest(data):
    """Leave the newest question and what came behind it."""
    items = data.model_data.input
    last = max(n for n, item in enumerate(items) if item.get("role") == "user")
    return ModelInputData(input=items[last:], instructions=data.model_data.instructions)


@pytest.mark.few_values(1)
@pytest.mark.parametrize(
    "cut",
    [
        {"session_settings": SessionSettings(limit=6)},
        {"session_settings": SessionSettings(limit=0)},
        {"call_model_input_filter": keep_newest},
    ],
)
def test_a_conversation_is_the_same_whatever_a_limit_or_a_filter_leaves(cut):
    session = make_session(window=100_000)

    async def work(config):
        config = session.run_config(replace(config, **cut))
        await talk(make_agent(), session, config, range(1, 5))

    with Provider() as provider:
        drive(provider, work)
    assert provider.problems == []
    assert {each.name for each in session.sessions.store.sessions()} == {"t", "t:items"}
    assert session.session().recall("value of thing 1"), "what a limit left out is not found"


@pytest.mark.few_values(1)
@pytest.mark.parametrize("limit", [None, 4])
def test_an_agent_that_is_a_tool_is_apart_in_every_run(limit):
    session = make_session(window=100_000)

    async def work(config):
        config = session.run_config(replace(config, session_settings=SessionSettings(limit=limit)))
        inner = Agent("inner", instructions="You help.", model="gpt-4o", tools=[look])
        outer = make_agent(tools=[look, inner.as_tool("ask_inner", "Ask the inner agent.")])
        for number in (2, 5):
            await talk(outer, session, config, [number, number + 1])
            question = f'Turn {number}: CALL ask_inner {{"input": "Turn {number}: hello"}}'
            await Runner.run(outer, question, session=session, run_config=config)

    # a limit cuts between reasoning and its call, with or without Refold; the real API would refuse that
    with Provider(reasoning=limit is None) as provider:
        drive(provider, work)
    assert provider.problems == []
    names = {each.name for each in session.sessions.store.sessions()}
    assert len(names) == 4, "the items, the conversation, and the inner agent's two"
    said = [entry.value for entry in session.session().log(kinds=["said"])]
    assert not [item for item in said if str(item.get("content")).endswith(": hello")]


def test_runs_at_once_on_a_new_conversation_are_one_conversation():
    """The second run is asked while the first one awaits results, and their lists begin with other words."""
    session = make_session()

    async def work(config):
        is_begun, is_called, is_answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @function_tool(name_override="look")
        async def wait(n: int) -> str:
            """Look at a value."""
            is_called.set()
            await is_answered.wait()
            return f"value {n}"

        async def begin_behind(data):
            await is_begun.wait()
            return data.model_data

        async def ask_behind(data):
            is_begun.set()
            await is_called.wait()
            return data.model_data

        async def ask(text, input_filter):
            own = session.run_config(replace(config, call_model_input_filter=input_filter))
            await Runner.run(make_agent(tools=[wait]), text, session=session, run_config=own)
            is_answered.set()

        await asyncio.gather(ask("Turn 1", begin_behind), ask("Turn 2: NOTOOL", ask_behind))
        await Runner.run(
            make_agent(), "Turn 3: NOTOOL", session=session, run_config=session.run_config(config)
        )
        return await session.get_items()

    with Provider(limit=WINDOW) as provider:
        items = drive(provider, work)
    assert {info.name for info in session.sessions.store.sessions()} == {"t:items", "t"}
    assert session.session().stats().totals.requests == len(provider.answered) == 4
    assert [item["content"] for item in items if item.get("role") == "user"] == [
        "Turn 1",
        "Turn 2: NOTOOL",
        "Turn 3: NOTOOL",
    ]
    said = [entry.value for entry in session.session().log(kinds=["said"])]
    assert said == items[: len(said)]


def test_items_that_a_callback_puts_in_front_belong_to_the_conversation():
    session = make_session(window=100_000)

    def put_rule_first(history, new):
        return [{"role": "developer", "content": "Be brief."}, *history, *new]

    async def work(config):
        config = session.run_config(replace(config, session_input_callback=put_rule_first))
        await talk(make_agent(), session, config, [1, 2])

    with Provider() as provider:
        drive(provider, work)
    users = [
        e.value["content"] for e in session.session().log(kinds=["said"]) if e.value.get("role") == "user"
    ]
    assert [text[:6] for text in users] == ["Turn 1", "Turn 2"]
    assert provider.requests[-1].messages[0]["content"] == "Be brief."


def make_items(*words):
    return [{"role": "user", "content": word} for word in words]


def test_system_messages_in_front_are_items_like_others():
    """The SDK's own session gives every item back, and takes each of them back alone."""

    async def work(session):
        given = [{"role": "system", "content": "Be kind."}, {"role": "developer", "content": "Be short."}]
        await session.add_items([*given, *make_items("a")])
        seen = [await session.get_items(), [await session.pop_item() for _ in range(2)]]
        seen.append(await session.get_items())
        await session.clear_session()
        await session.add_items(given)
        return [*seen, await session.get_items()]

    own = SQLiteSession("t")
    assert asyncio.run(work(make_session())) == asyncio.run(work(own))
    own.close()


def test_items_that_are_known_are_not_read_again(tmp_path, monkeypatch):
    address = f"sqlite:{tmp_path / 'refold.db'}"
    read, log = [], runs.read_log

    def note_read(*arguments, **named):
        entries = yield from log(*arguments, **named)
        read.append(len(entries))
        return entries

    monkeypatch.setattr(runs, "read_log", note_read)

    async def work():
        here, there = make_session(store=address), make_session(store=address)
        await here.add_items(make_items("a", "b", "c"))
        first = await here.get_items()
        first[0]["content"] = "changed by the runner"
        await there.add_items(make_items("d"))
        await here.add_items(make_items("e"))
        items = await here.get_items()
        await here.aclose()
        await there.aclose()
        return items

    assert asyncio.run(work()) == make_items("a", "b", "c", "d", "e")
    assert read == [3]  # the last known one, that of the other session, and the one behind it


def test_items_are_given_back_as_the_log_keeps_them():
    pytest.importorskip("detect_secrets", reason="redaction needs the extra redact")
    session = make_session(options={"redaction": "storage"})
    secret = "my key is sk-proj-" + "a1B2c3D4e5F6g7H8" * 3

    async def work():
        await session.add_items(make_items(secret))
        return await session.get_items(), await session.with_id("t").get_items()

    here, anew = asyncio.run(work())
    assert here == anew
    assert secret not in here[0]["content"]


def test_items_that_another_process_took_back_are_noticed(tmp_path):
    address = f"sqlite:{tmp_path / 'refold.db'}"

    async def work():
        here, there = make_session(store=address), make_session(store=address)
        await here.add_items(make_items("a", "b", "c"))
        assert await here.get_items() == make_items("a", "b", "c")
        await there.pop_item()
        seen = [await here.get_items()]
        await there.pop_item()
        await there.add_items(make_items("x", "y", "z"))
        seen.append(await here.get_items())
        await there.clear_session()
        seen.append(await here.get_items())
        await here.aclose()
        await there.aclose()
        return seen

    assert asyncio.run(work()) == [make_items("a", "b"), make_items("a", "x", "y", "z"), []]


def test_a_popped_item_is_a_branch_and_a_cleared_session_begins_again():
    session = make_session(window=100_000)

    async def work(config):
        config = session.run_config(config)
        await talk(make_agent(), session, config, range(1, 4))
        popped = []
        while not popped or popped[-1].get("role") != "user":
            popped.append(await session.pop_item())
        await talk(make_agent(), session, config, [7])
        users = [item["content"] for item in await session.get_items() if item.get("role") == "user"]
        hits = session.session().recall("thing 3")
        await session.clear_session()
        assert await session.pop_item() is None
        await talk(make_agent(), session, config, [8])
        return popped, users, hits, await session.get_items()

    with Provider() as provider:
        popped, users, hits, items = drive(provider, work)
    assert "thing 3" in popped[-1]["content"]
    assert [text[:6] for text in users] == ["Turn 1", "Turn 2", "Turn 7"]
    assert hits, "what was popped is gone"
    assert "thing 8" in items[0]["content"]
    assert "thing 8" in json.dumps(provider.requests[-1].messages)
    assert "thing 7" not in json.dumps(provider.requests[-1].messages)


def test_a_run_saved_at_an_approval_goes_on():
    session = make_session()

    async def work(config):
        config = session.run_config(config)

        @function_tool(needs_approval=True)
        def delete(name: str) -> str:
            """Delete a thing."""
            return f"deleted {name}"

        agent = make_agent(tools=[look, delete])
        await talk(agent, session, config, range(1, 6))
        call = 'CALL delete {"name": "x"}'
        asked = await Runner.run(agent, call, session=session, run_config=config)
        assert len(asked.interruptions) == 1
        state = await RunState.from_string(agent, asked.to_state().to_string())
        state.approve(state.get_interruptions()[0])
        done = await Runner.run(agent, state, session=session, run_config=config)
        await talk(agent, session, config, [9])
        return done, await session.get_items()

    with Provider(limit=WINDOW) as provider:
        done, items = drive(provider, work)
    assert done.interruptions == []
    assert provider.problems == []
    outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
    assert "deleted x" in outputs
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    assert len(calls) == len(set(calls)) == len(outputs)


def test_the_model_recalls_what_was_folded():
    session = make_session()

    async def work(config):
        config = session.run_config(config)
        agent = make_agent(tools=[recall_tool(), look])
        await talk(agent, session, config, range(1, 5))
        return await Runner.run(agent, "RECALL thing 1", session=session, run_config=config)

    with Provider(limit=WINDOW) as provider:
        result = drive(provider, work)
    assert "what is the value of thing 1?" in result.final_output
    assert {tuple(request.tool_names) for request in provider.requests} == {("look", "recall")}


def test_recall_may_wait_for_the_first_fold():
    session = make_session(recall="folded", recall_name="read_back")

    async def work(config):
        agent = make_agent(tools=[look, recall_tool("read_back")])
        await talk(agent, session, session.run_config(config), range(1, 7))

    with Provider(limit=WINDOW) as provider:
        drive(provider, work)
    assert provider.requests[0].tool_names == ["look"]
    assert provider.requests[-1].tool_names == ["look", "read_back"]


@pytest.mark.few_values(1)
@pytest.mark.parametrize("turn", [8, 9])
def test_a_second_refusal_is_the_provider_s_error_and_is_logged(turn, caplog):
    session = make_session()

    async def work(config):
        config = session.run_config(config)
        await talk(make_agent(), session, config, range(1, 6))
        caplog.clear()
        provider.refuse_next = 2
        await talk(make_agent(), session, config, [turn])

    with Provider(limit=WINDOW) as provider, pytest.raises(BadRequestError) as caught:
        drive(provider, work)
    assert isinstance(caught.value.__cause__, refold.Overflow)
    assert [record.levelno for record in caplog.records if record.name == "openai.agents"][:1] == [
        logging.ERROR
    ]


def test_a_recovered_refusal_leaves_no_error_in_the_log(caplog):
    session = make_session()

    async def work(config):
        config = session.run_config(config)
        await talk(make_agent(), session, config, range(1, 6))
        provider.refuse_next = 1
        await talk(make_agent(), session, config, [8])
        provider.refuse_next = 1
        await talk(make_agent(), session, config, [9])

    with Provider(limit=WINDOW) as provider:
        drive(provider, work)
    assert len(provider.refused) == 2
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_model_that_is_an_object_is_wrapped_or_refused():
    session = make_session()

    async def work(config):
        async with AsyncOpenAI(base_url=provider.url, api_key="none") as client:
            model = OpenAIChatCompletionsModel("gpt-4o", client)
            with pytest.raises(refold.RefoldError, match="agent 'helper' has a model object"):
                await talk(make_agent(model=model), session, session.run_config(config), [1])
            assert provider.requests == []
            await talk(make_agent(model=session.wrap(model)), session, session.run_config(config), [1])
            given = session.run_config(RunConfig(model=model, tracing_disabled=True))
            await talk(make_agent(model=model), session, given, [2])

    with Provider() as provider:
        drive(provider, work)
    assert session.session().stats().totals.requests == len(provider.requests) == 4
    assert session.session().model == "openai:gpt-4o"


def test_a_second_compaction_is_refused():
    session = make_session()

    async def around(config):
        outer = OpenAIResponsesCompactionSession("t", session)
        await talk(make_agent(), outer, session.run_config(config), [1])

    async def by_settings(config):
        settings = ModelSettings(context_management=[{"type": "compaction", "compact_threshold": 1_000}])
        await talk(make_agent(model_settings=settings), session, session.run_config(config), [1])

    with Provider() as provider:
        with pytest.raises(refold.RefoldError, match="OpenAIResponsesCompactionSession compacts beside"):
            drive(provider, around)
        with pytest.raises(refold.RefoldError, match="context_management compacts beside Refold"):
            drive(provider, by_settings)
    assert provider.requests == []


def test_a_history_at_the_provider_passes_through_with_a_warning():
    session = make_session()

    async def work(config):
        config = session.run_config(config)
        first = await Runner.run(make_agent(), "Turn 1: look", run_config=config)
        told = {"previous_response_id": first.last_response_id, "run_config": config}
        with pytest.warns(refold.RefoldWarning, match="previous_response_id keeps the history"):
            return await Runner.run(make_agent(), "Turn 2: and now?", **told)

    with Provider() as provider:
        result = drive(provider, work)
    assert result.final_output.startswith("Answer")
    assert provider.problems == []


def test_a_summariser_may_be_a_model_of_the_sdk():
    async def work(config):
        async with AsyncOpenAI(base_url=helper.url, api_key="none") as client:
            session = make_session(ask=OpenAIResponsesModel("gpt-4o-mini", client))
            await talk(make_agent(), session, session.run_config(config), range(1, 8))
            return session.session().folds()

    with Provider(limit=WINDOW) as provider, Provider() as helper:
        folds = drive(provider, work)
    assert helper.requests
    assert not any(request.tools for request in helper.requests)
    assert sum(fold.spent.calls for fold in folds) == len(helper.requests)


def test_conversations_of_one_store_do_not_mix_and_go_on_in_another_process(tmp_path):
    store = f"sqlite:{tmp_path}/kept.db"

    async def work(config):
        first = make_session(store=store)
        second = first.with_id("other")
        await asyncio.gather(
            talk(make_agent(), first, first.run_config(config), [1, 2]),
            talk(make_agent(), second, second.run_config(config), [3, 4]),
        )
        await first.aclose()
        again = make_session(store=store).with_id("other")
        await talk(make_agent(), again, again.run_config(config), [5])
        items = await again.get_items()
        await again.aclose()
        return items

    with Provider() as provider:
        items = drive(provider, work)
    users = [item["content"][:6] for item in items if item.get("role") == "user"]
    assert users == ["Turn 3", "Turn 4", "Turn 5"]
    assert provider.problems == []


def test_limits_give_the_last_items():
    async def work():
        session = make_session()
        await session.add_items([{"role": "user", "content": str(number)} for number in range(4)])
        return [await session.get_items(limit) for limit in (None, 2, 0, 9)]

    everything, two, none, all_of_them = asyncio.run(work())
    assert [item["content"] for item in two] == ["2", "3"]
    assert none == []
    assert everything == all_of_them


def test_a_run_without_run_config_is_warned_of():
    """Such a run works, but folds nothing: the session alone sees no request."""
    session = make_session()

    async def work(config):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if not await session.get_items():
                await session.add_items([{"role": "assistant", "content": "brought along from elsewhere"}])
        with pytest.warns(refold.RefoldWarning, match=r"'t'.*run_config=session.run_config\(\)") as warned:
            await talk(make_agent(), session, config, [1, 2])
        await talk(make_agent(), session, session.run_config(config), [3])
        return warned

    with Provider() as provider:
        warned = drive(provider, work)
    assert len(warned) == 2, "one for each run"
    assert session.session().stats().totals.requests == 2
