"""Refold inside Google ADK: keys, sub-agents, refusals to start, recall, and what ADK's own compaction breaks."""

import asyncio
import os
from base64 import b64decode
from contextlib import aclosing
from copy import deepcopy
from datetime import UTC, datetime
from importlib.util import find_spec

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # LiteLLM would fetch a table

import pytest
from conformance_case import SYSTEM, Summariser, look, need

need(
    "google.adk.agents",
    "google.adk.apps.app",
    "google.adk.models",
    "google.adk.runners",
    "google.adk.sessions",
    "google.adk.tools",
    "google.adk.tools.agent_tool",
    "sqlalchemy",
    extra="google-adk",
)

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig, ResumabilityConfig
from google.adk.models import Gemini
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.tools import google_search
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types

import refold
from refold.adapters.google_adk import RefoldLlm, RefoldPlugin
from refold.adapters.google_adk.contents import from_wire, to_wire
from refold.testing import PIXEL, Provider

pytestmark = [
    pytest.mark.filterwarnings("ignore", "error::refold.RefoldWarning"),
    pytest.mark.usefixtures("collect_clients"),
]

WINDOW = 4000
CONFIRM = "adk_request_confirmation"


def open_model(provider, kind=Gemini):
    around = types.HttpOptions(base_url=provider.root)
    return kind(model="gemini-2.5-flash", client_kwargs={"api_key": "none", "http_options": around})


def say(*parts):
    made = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    return types.Content(role="user", parts=made)


class Talk:
    """One app with Refold over a database of sessions, in one event loop."""

    def __init__(self, provider, agent=None, *, plugin=None, service=None, **app):
        self.provider = provider
        agent = agent or LlmAgent(name="boxes", model=open_model(provider), instruction=SYSTEM, tools=[look])
        self.plugin = plugin or RefoldPlugin(store="memory:", window=WINDOW, ask=Summariser())
        self.service = service or InMemorySessionService()
        self.app = App(name="app", root_agent=agent, plugins=[self.plugin], **app)
        self.runner = Runner(app=self.app, session_service=self.service, auto_create_session=True)

    async def turn(self, text, *, key="t", user="ann", stream=False):
        message = text if isinstance(text, types.Content) else say(text)
        mode = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
        events = self.runner.run_async(user_id=user, session_id=key, new_message=message, run_config=mode)
        return [event async for event in events]

    async def turns(self, first, last, **options):
        for number in range(first, last + 1):
            await self.turn(f"Turn {number}: what is in the next box?", **options)

    async def stored(self, key="t", user="ann"):
        return await self.service.get_session(app_name="app", user_id=user, session_id=key)

    async def session(self, key="t", user="ann", **options):
        return await self.plugin.asession(await self.stored(key, user), **options)

    def sent(self):
        return [request for request in self.provider.requests if request.outcome == "answered"]


def run(work, **options):
    """Run a coroutine function with a provider; every request must be valid and fit."""

    async def inside():
        with Provider(limit=WINDOW, **options) as provider:
            result = await work(provider)
            assert provider.problems == []
            return result

    return asyncio.run(inside())


def texts(events):
    parts = [part for event in events for part in (event.content.parts if event.content else ()) or ()]
    return [part.text for part in parts if part.text]


def calls(events):
    return [call for event in events for call in event.get_function_calls()]


# -- contents ----------------------------------------------------------------------------------------------

CONTENTS = [
    types.Content(role="user", parts=[types.Part(text="hi")]),
    types.Content(role="user", parts=[types.Part(text=""), types.Part(text="x", thought=None)]),
    types.Content(
        role="user", parts=[types.Part(inline_data=types.Blob(data=b64decode(PIXEL), mime_type="image/png"))]
    ),
    types.Content(
        role="user", parts=[types.Part(file_data=types.FileData(file_uri="gs://a/b", mime_type="a/b"))]
    ),
    types.Content(
        role="model", parts=[types.Part(text="so", thought=True, thought_signature=b"\xff\xfe>>??")]
    ),
    types.Content(
        role="model",
        parts=[
            types.Part(
                function_call=types.FunctionCall(
                    name="look", args={"n": 1, "deep": [{"a": None, "b": 1.5, "c": True}], "": {}}, id="c1"
                ),
                thought_signature=b"sig",
            )
        ],
    ),
    types.Content(
        role="user",
        parts=[
            types.Part(
                function_response=types.FunctionResponse(
                    name="look",
                    id="c1",
                    response={
                        "at": datetime(2026, 1, 2, tzinfo=UTC),
                        "raw": b"\x00\xff",
                        "many": (1, 2),
                        "by": {1: "one"},
                    },
                    scheduling=types.FunctionResponseScheduling.SILENT,
                )
            )
        ],
    ),
    types.Content(
        role="model",
        parts=[
            types.Part(executable_code=types.ExecutableCode(code="1", language=types.Language.PYTHON)),
            types.Part(
                code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="1")
            ),
        ],
    ),
    types.Content(role="model", parts=[]),
    types.Content(parts=[types.Part(text="nobody")]),
]


@pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
def test_a_content_on_the_wire_is_what_pydantic_writes(content):
    (item,) = to_wire(content)
    assert item == content.model_dump(mode="json", by_alias=True, exclude_none=True)
    (again,) = from_wire([item])
    assert to_wire(again) == [item]


# -- keys --------------------------------------------------------------------------------------------------


def test_two_users_with_the_same_session_id_have_two_sessions():
    async def work(provider):
        talk = Talk(provider)
        await talk.turn("Turn 1: NOTOOL my word is alpha", user="ann")
        await talk.turn("Turn 1: NOTOOL my word is beta", user="bob")
        ann, bob = await talk.session(user="ann"), await talk.session(user="bob")
        assert (ann.name, bob.name) == ("app:ann:t", "app:bob:t")
        assert not await bob.recall("alpha")
        assert await ann.recall("alpha")

    run(work)


def test_a_colon_in_an_id_names_nobody_elses_session():
    async def work(provider):
        talk = Talk(provider)
        await talk.turn("NOTOOL one", user="a:b", key="c")
        await talk.turn("NOTOOL two", user="a", key="b:c")
        one, two = await talk.session("c", "a:b"), await talk.session("b:c", "a")
        assert one.name != two.name
        assert not await two.recall("one")

    run(work)


def test_an_id_alone_is_refused_as_a_key():
    plugin = RefoldPlugin(store="memory:")
    with pytest.raises(refold.RefoldError, match="pass ADK's session"):
        plugin.session("t")
    assert plugin.session("app:ann:t", create=True).name == "app:ann:t"
    with pytest.raises(refold.SessionNotFound, match="nothing was said"):
        plugin.session("app:ann:u")
    plugin = RefoldPlugin(store="memory:", key="mine")
    assert plugin.session().name == "mine"


def test_a_key_of_the_callers_own():
    async def work(provider):
        plugin = RefoldPlugin(store="memory:", key=lambda context: f"tenant-{context.session.user_id}")
        talk = Talk(provider, plugin=plugin)
        await talk.turn("NOTOOL hi")
        assert (await (await plugin.asession("tenant-ann")).stats()).said == 1

    run(work)


def test_a_sub_agent_has_a_session_of_its_own():
    async def work(provider):
        model = open_model(provider)
        helper = LlmAgent(name="helper", model=model, instruction=SYSTEM, tools=[look])
        root = LlmAgent(name="root", model=model, instruction=SYSTEM, sub_agents=[helper])
        talk = Talk(provider, root)
        await talk.turn('CALL transfer_to_agent {"agent_name": "helper"}')
        await talk.turns(1, 14)
        own, others = await talk.session(agent="helper"), await talk.session()
        assert own.name == "app:ann:t:helper"
        assert await own.folds()
        assert not await others.folds()
        assert {event.author for event in (await talk.stored()).events} == {"user", "root", "helper"}

    run(work)


def test_an_agent_as_a_tool_has_a_session_of_its_own():
    async def work(provider):
        model = open_model(provider)
        helper = LlmAgent(name="helper", model=model, instruction=SYSTEM)
        root = LlmAgent(name="root", model=model, instruction=SYSTEM, tools=[AgentTool(helper)])
        talk = Talk(provider, root)
        await talk.turn('CALL helper {"request": "NOTOOL the sum"}')
        names = {entry.name for entry in talk.plugin.sessions.store.sessions()}
        assert "app:ann:t" in names
        assert len(names) == 2

    run(work)


# -- a second compaction, and other plugins ----------------------------------------------------------------


def test_adks_own_compaction_beside_it_is_refused():
    async def work(provider):
        own = EventsCompactionConfig(compaction_interval=3, overlap_size=1)
        talk = Talk(provider, events_compaction_config=own)
        with pytest.raises(RuntimeError, match="remove events_compaction_config") as refused:
            await talk.turn("hi")
        assert isinstance(refused.value.__cause__, refold.RefoldError)
        assert provider.requests == []

    run(work)


def test_a_plugin_that_drops_history_is_refused():
    async def work(provider):
        talk = Talk(provider)
        talk.app.plugins.append(ContextFilterPlugin(num_invocations_to_keep=2))
        runner = Runner(app=talk.app, session_service=talk.service, auto_create_session=True)
        with pytest.raises(RuntimeError, match="remove num_invocations_to_keep"):
            _ = [
                event async for event in runner.run_async(user_id="a", session_id="b", new_message=say("hi"))
            ]

    run(work)


# -- the model ---------------------------------------------------------------------------------------------


def test_the_wrapped_model_is_of_its_own_class_and_idle_without_the_plugin():
    seen = []

    def note(callback_context, llm_response):
        seen.append(callback_context.get_invocation_context().agent.model)

    async def work(provider):
        model = open_model(provider)
        agent = LlmAgent(name="boxes", model=model, tools=[look], after_model_callback=note)
        talk = Talk(provider, agent)
        await talk.turn("NOTOOL one")
        assert isinstance(seen[0], RefoldLlm)
        assert isinstance(seen[0], Gemini)
        agent.model = seen[0]  # as an agent that ADK does not copy for each run
        app = App(name="app", root_agent=agent)
        alone = Runner(app=app, session_service=talk.service, auto_create_session=True)
        events = alone.run_async(user_id="ann", session_id="alone", new_message=say("NOTOOL two"))
        assert texts([event async for event in events])
        assert provider.requests[-1].tool_names == ["look"]
        assert {entry.name for entry in talk.plugin.sessions.store.sessions()} == {"app:ann:t"}

    run(work)


class Quiet(BaseLlm):
    """A model that can be copied; Gemini's own cannot once it has connections."""

    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="quiet")]))


def test_a_copied_model_is_the_users_own():
    copies = []

    def copy_model(callback_context, llm_response):
        copies.append(deepcopy(callback_context.get_invocation_context().agent.model))

    async def work(provider):
        agent = LlmAgent(name="boxes", model=Quiet(model="quiet"), after_model_callback=copy_model)
        await Talk(provider, agent).turn("hi")
        assert [type(copied) for copied in copies] == [Quiet]

    run(work)


def test_two_apps_may_share_an_agent():
    async def work(provider):
        one = Talk(provider)
        two = Talk(provider, one.app.root_agent)
        for number in range(3):
            await one.turn(f"NOTOOL one {number}")
            await two.turn(f"NOTOOL two {number}")
        for talk, word in ((one, "two"), (two, "one")):
            session = await talk.session()
            assert (await session.stats()).totals.requests == 3
            assert not await session.recall(word)

    run(work)


def test_window_and_price_come_from_the_agents_model():
    async def work(provider):
        talk = Talk(provider, plugin=RefoldPlugin(store="memory:"))
        await talk.turn("NOTOOL hi")
        session = await talk.session()
        stats = await session.stats()
        assert session.model == "gemini-2.5-flash"
        assert stats.window == refold.window("gemini-2.5-flash").tokens
        assert stats.spent.dollars

    run(work)


def test_adks_model_may_write_the_summaries():
    async def work(provider):
        plugin = RefoldPlugin(store="memory:", window=WINDOW, ask=open_model(provider))
        talk = Talk(provider, plugin=plugin)
        await talk.turns(1, 14)
        session = await talk.session()
        asked = [request for request in provider.requests if not request.tools]
        assert asked
        assert await session.folds()
        assert (await session.stats()).summaries.calls == len(asked)

    run(work)


@pytest.mark.skipif(
    find_spec("google.adk.utils._event_loop_cache") is None,
    reason="Gemini's client belongs to one event loop in older releases of ADK",
)
def test_adks_model_may_write_a_summary_outside_the_event_loop():
    async def work(provider):
        plugin = RefoldPlugin(store="memory:", window=WINDOW, ask=open_model(provider))
        talk = Talk(provider, plugin=plugin)
        await talk.turns(1, 5)
        session = plugin.session(await talk.stored())
        assert (await asyncio.to_thread(session.compact, keep=2)).compacted

    run(work)


class Answering(Gemini):
    """A model that answers with an error instead of raising it, as some do."""

    async def generate_content_async(self, llm_request, stream=False):
        try:
            async for response in super().generate_content_async(llm_request, stream):
                yield response
        except Exception as error:  # noqa: BLE001  # whatever it is
            yield LlmResponse(error_code="INVALID_ARGUMENT", error_message=str(error))


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_that_comes_as_a_response_is_answered(stream):
    async def work(provider):
        agent = LlmAgent(
            name="boxes", model=open_model(provider, Answering), instruction=SYSTEM, tools=[look]
        )
        talk = Talk(provider, agent)
        await talk.turns(1, 4)
        provider.refuse_next = 1
        events = await talk.turn("Turn 5: NOTOOL", stream=stream)
        assert not any(event.error_code for event in events)
        assert texts(events)[-1].startswith("Answer ")
        assert len(provider.refused) == 1

    run(work)


def test_a_streamed_answer_comes_in_pieces_also_after_a_refusal():
    async def work(provider):
        talk = Talk(provider)
        await talk.turns(1, 4)
        provider.refuse_next = 1
        events = await talk.turn("Turn 5: NOTOOL", stream=True)
        assert sum(1 for event in events if event.partial) > 1

    run(work)


def test_instructions_that_adk_puts_between_the_contents_start_no_new_summary():
    """With a static instruction the other one stands before the last user message, in each turn anew."""

    async def work(provider):
        agent = LlmAgent(
            name="boxes",
            model=open_model(provider),
            static_instruction=SYSTEM,
            instruction="Today is a good day.",
        )
        summariser = Summariser()
        talk = Talk(provider, agent, plugin=RefoldPlugin(store="memory:", window=WINDOW, ask=summariser))
        for number in range(1, 20):
            await talk.turn(f"Turn {number}: {look(number)}")
        assert len(set(summariser.asked)) == len(summariser.asked) > 2
        assert all("Today is a good day." in str(request.messages) for request in talk.sent())
        assert max(request.used for request in talk.sent()) <= WINDOW

    run(work)


# -- recall ------------------------------------------------------------------------------------------------


def test_recall_is_left_out_beside_built_in_tools_and_schemas():
    async def work(provider):
        agent = LlmAgent(name="boxes", model=open_model(provider), tools=[google_search])
        talk = Talk(provider, agent)
        await talk.turn("NOTOOL hi")
        assert provider.requests[-1].tool_names == []

    run(work)


def test_an_agent_with_a_recall_of_its_own_is_told_to_rename_ours():
    def recall(query: str) -> str:
        """Recall products."""
        return query

    async def work(provider):
        agent = LlmAgent(name="boxes", model=open_model(provider), tools=[recall])
        with pytest.raises(RuntimeError, match="pass recall_name="):
            await Talk(provider, agent).turn("hi")
        named = RefoldPlugin(store="memory:", recall_name="recall_talk")
        await Talk(provider, agent, plugin=named).turn("NOTOOL hi")
        assert provider.requests[-1].tool_names == ["recall", "recall_talk"]

    run(work)


def test_a_tool_that_is_always_offered_is_no_question_to_the_session(monkeypatch):
    async def work(provider):
        asked = []
        monkeypatch.setattr(refold.AsyncSession, "recall_tool", lambda *_, **options: asked.append(options))
        await Talk(provider).turn("NOTOOL hi")
        assert provider.requests[-1].tool_names == ["look", "recall"]
        assert asked == []

    run(work)


def test_recall_once_something_is_folded():
    async def work(provider):
        plugin = RefoldPlugin(store="memory:", window=WINDOW, ask=Summariser(), recall="folded")
        talk = Talk(provider, plugin=plugin)
        await talk.turns(1, 12)
        offered = ["recall" in request.tool_names for request in provider.requests]
        assert offered == sorted(offered)
        assert offered[0] is False
        assert offered[-1] is True

    run(work)


# -- what ADK's own compaction breaks ----------------------------------------------------------------------


def test_adk_python_7236_an_orphaned_call_does_not_end_compaction(tmp_path):
    """A process died while a tool ran. ADK's compaction never runs again; here the talk folds and goes on."""

    async def work(provider):
        service = DatabaseSessionService(db_url=f"sqlite+aiosqlite:///{tmp_path / 'adk.db'}")
        talk = Talk(provider, service=service)
        await talk.turns(1, 9)
        session = await talk.session()
        before = len(await session.folds())
        events = talk.runner.run_async(
            user_id="ann", session_id="t", new_message=say("Turn 10: the next box?")
        )
        async with aclosing(events) as passed:
            async for event in passed:
                if event.get_function_calls():
                    break
        await talk.turns(11, 26)
        assert before >= 1
        assert len(await session.folds()) >= before + 2
        assert max(request.used for request in talk.sent()) <= WINDOW
        said = [entry.text for entry in await session.log(kinds=["said"])]
        assert any("Turn 10" in text for text in said)
        await service.close()

    run(work)


def test_adk_python_4740_a_pending_confirmation_survives_folds(tmp_path):
    """The user goes on for many turns, and confirms then."""
    pulled = []

    def pull(lever: int) -> str:
        """Pull a lever."""
        pulled.append(lever)
        return f"lever {lever} was pulled"

    async def work(provider):
        service = DatabaseSessionService(db_url=f"sqlite+aiosqlite:///{tmp_path / 'adk.db'}")
        tools = [look, FunctionTool(pull, require_confirmation=True)]
        agent = LlmAgent(name="boxes", model=open_model(provider), instruction=SYSTEM, tools=tools)
        talk = Talk(provider, agent, service=service)
        asked = [call for call in calls(await talk.turn('CALL pull {"lever": 7}')) if call.name == CONFIRM]
        await talk.turns(1, 16)
        assert len(await (await talk.session()).folds()) >= 2
        assert pulled == []
        answer = types.FunctionResponse(id=asked[0].id, name=CONFIRM, response={"confirmed": True})
        events = await talk.turn(say(types.Part(function_response=answer)))
        assert pulled == [7]
        assert texts(events)[-1].startswith("Answer ")
        await talk.turns(17, 18)
        await service.close()

    run(work)


def test_adk_python_5602_a_long_running_tool_is_resumed_after_folds(tmp_path):
    """Its first response says that it is pending; the true one comes many turns later, under the same id."""

    def export(n: int) -> dict:
        """Export the boxes."""
        return {"status": "pending", "ticket": n}

    async def work(provider):
        service = DatabaseSessionService(db_url=f"sqlite+aiosqlite:///{tmp_path / 'adk.db'}")
        tools = [look, LongRunningFunctionTool(export)]
        agent = LlmAgent(name="boxes", model=open_model(provider), instruction=SYSTEM, tools=tools)
        resumable = ResumabilityConfig(is_resumable=True)
        talk = Talk(provider, agent, service=service, resumability_config=resumable)
        events = await talk.turn('CALL export {"n": 3}')
        (call,) = [call for call in calls(events) if call.name == "export"]
        await talk.turns(1, 16)
        assert len(await (await talk.session()).folds()) >= 2
        done = types.FunctionResponse(id=call.id, name="export", response={"status": "done", "ticket": 3})
        events = await talk.turn(say(types.Part(function_response=done)))
        assert texts(events)[-1].startswith("Answer ")
        assert '"done"' in str(talk.sent()[-1].raw)
        await talk.turns(17, 18)
        await service.close()

    run(work)
