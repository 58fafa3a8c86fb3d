"""Agents of the OpenAI Agents SDK in the conformance suite: Responses and chat completions, sessions on disk."""

import asyncio
import gc

from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, Line, look, mask, need, outline

need("agents", "openai", extra="openai-agents")

import agents
import pytest
from openai import AsyncOpenAI

from refold.adapters.openai_agents import RefoldSession, recall_tool


def look_or_tell(n: int) -> str:
    """Look into box n and return what is in it."""
    try:
        return look(n)
    except ValueError as error:
        return f"Error: {error}"


class AgentsAgent(Agent):
    """An agent with one tool, and a session for each conversation: ours, or the SDK's own in SQLite."""

    def __init__(self, wire, setup):
        self._wire, self._setup = wire, setup
        self._loop = asyncio.new_event_loop()
        self._clients = {}
        self._sessions = {}
        self._first = RefoldSession("first", **setup.options) if setup.with_refold else None

    def run(self, key, text, *, stream=False):
        asyncio.set_event_loop(self._loop)
        try:
            options = {"session": self._open(key), "run_config": self._configure(key, "sync")}
            return agents.Runner.run_sync(self._build(), text, max_turns=40, **options).final_output
        finally:
            asyncio.set_event_loop(None)

    async def arun(self, key, text, *, stream=False):
        options = {"session": self._open(key), "run_config": self._configure(key, "async"), "max_turns": 40}
        if not stream:
            return (await agents.Runner.run(self._build(), text, **options)).final_output
        result = agents.Runner.run_streamed(self._build(), text, **options)
        async for _ in result.stream_events():
            pass
        return result.final_output

    async def history(self, key):
        return mask(await self._open(key).get_items())

    async def outline(self, key) -> list[Line]:
        return outline(await self._open(key).get_items(), "responses")

    def session(self, key):
        return self._open(key).session()

    async def rewind(self, key, turns):
        session = self._open(key)
        while turns:
            turns -= (await session.pop_item()).get("role") == "user"

    async def show_image(self, key, text, png):
        picture = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{png}"}
        content = [{"type": "input_text", "text": text}, picture]
        return await self.arun(key, [{"role": "user", "content": content}])

    async def interrupt(self, key, text):
        options = {"session": self._open(key), "run_config": self._configure(key, "async")}
        result = await agents.Runner.run(self._build(needs_approval=True), text, **options)
        assert result.interruptions

    async def close(self):
        for name, client in self._clients.items():
            await (client.close() if name == "async" else asyncio.to_thread(self._close_sync, client))
        self._loop.close()
        if self._first is not None:
            await self._first.aclose()
        else:
            for session in self._sessions.values():
                session.close()

    def _close_sync(self, client):
        self._loop.run_until_complete(client.close())

    def _open(self, key):
        if key not in self._sessions:
            path = self._setup.folder / "sessions.db"
            own = self._first is None
            self._sessions[key] = agents.SQLiteSession(key, path) if own else self._first.with_id(key)
        return self._sessions[key]

    def _configure(self, key, name):
        if name not in self._clients:
            self._clients[name] = AsyncOpenAI(base_url=self._setup.url, api_key="none", max_retries=0)
        provider = agents.OpenAIProvider(
            openai_client=self._clients[name], use_responses=self._wire == "responses"
        )
        config = agents.RunConfig(model_provider=provider, tracing_disabled=True)
        return config if self._first is None else self._open(key).run_config(config)

    def _build(self, *, needs_approval=False):
        tool = agents.function_tool(look_or_tell, name_override="look", needs_approval=needs_approval)
        tools = [tool] if self._first is None else [tool, recall_tool()]
        return agents.Agent("boxes", instructions=SYSTEM, model=MODEL[self._wire], tools=tools)


class AgentsCase(Case):
    """An agent of the SDK over one of two wires."""

    name = "openai_agents"
    format = "responses"
    modes = ("async", "astream", "sync")

    def __init__(self, wire="responses", page=None):
        self.wire, self.page = wire, page

    def open(self, setup):
        return AgentsAgent(self.wire, setup)


class TestAgentsResponses(Conformance):
    """The Responses API with encrypted reasoning."""

    case = AgentsCase("responses", page="docs/adapters/openai-agents.md")

    @pytest.fixture(autouse=True)
    def closed_clients(self):
        """Close what `run_sync` in the examples leaves open: the SDK keeps its HTTP client and its loop."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        yield
        for client in [found for found in gc.get_objects() if type(found).__name__ == "AsyncOpenAI"]:
            loop.run_until_complete(client.close())
        asyncio.set_event_loop(None)
        loop.close()


class TestAgentsChat(Conformance):
    """Chat completions."""

    case = AgentsCase("openai")
