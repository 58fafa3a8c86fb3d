"""Agents of the OpenAI Agents SDK in the conformance suite: Responses and chat completions, sessions on disk."""

import asyncio
import gc

from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, Line, look, mask, need, outline

need("agents", "openai", extra="openai-agents")

import agents
from openai import AsyncOpenAI

from refold.adapters.openai_agents import RefoldSession, recall_tool


def look_or_tell(n: int, note: str = "") -> str:
    """Look into box n and return what is in it."""
    try:
        return look(n, note)
    except ValueError as error:
        return f"Error: {error}"


class AgentsAgent(Agent):
    """An agent with one tool, and a session for each conversation: ours, or the SDK's own in SQLite."""

    def __init__(self, wire, setup):
        self._wire, self._setup = wire, setup
        self._client = self._connect()
        self._sessions = {}
        self._first = RefoldSession("first", **setup.options) if setup.with_refold else None

    def run(self, key, text, *, stream=False):
        loop = asyncio.new_event_loop()  # one for each thread that runs a turn
        asyncio.set_event_loop(loop)
        client = self._connect()
        try:
            options = {"session": self._open(key), "run_config": self._configure(key, client)}
            return agents.Runner.run_sync(self._build(), text, max_turns=40, **options).final_output
        finally:
            loop.run_until_complete(client.close())
            asyncio.set_event_loop(None)
            loop.close()

    async def arun(self, key, text, *, stream=False):
        options = {
            "session": self._open(key),
            "run_config": self._configure(key, self._client),
            "max_turns": 40,
        }
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

    async def show_document(self, key, text, pdf):
        data = f"data:application/pdf;base64,{pdf}"
        document = {"type": "input_file", "filename": "page.pdf", "file_data": data}
        content = [{"type": "input_text", "text": text}, document]
        return await self.arun(key, [{"role": "user", "content": content}])

    async def interrupt(self, key, text):
        options = {"session": self._open(key), "run_config": self._configure(key, self._client)}
        result = await agents.Runner.run(self._build(needs_approval=True), text, **options)
        assert result.interruptions

    async def close(self):
        await self._client.close()
        if self._first is not None:
            await self._first.aclose()
        else:
            for session in self._sessions.values():
                session.close()

    def _connect(self):
        return AsyncOpenAI(base_url=self._setup.url, api_key="none", max_retries=0)

    def _open(self, key):
        if key not in self._sessions:
            path = self._setup.folder / "sessions.db"
            own = self._first is None
            self._sessions[key] = agents.SQLiteSession(key, path) if own else self._first.with_id(key)
        return self._sessions[key]

    def _configure(self, key, client):
        provider = agents.OpenAIProvider(openai_client=client, use_responses=self._wire == "responses")
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

    def test_12_the_examples_of_the_documentation_run(self, monkeypatch, tmp_path):
        """Close afterwards what `run_sync` leaves open: the SDK keeps its HTTP client and its loop."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        super().test_12_the_examples_of_the_documentation_run(monkeypatch, tmp_path)
        for client in [found for found in gc.get_objects() if type(found).__name__ == "AsyncOpenAI"]:
            loop.run_until_complete(client.close())
        asyncio.set_event_loop(None)
        loop.close()


class TestAgentsChat(Conformance):
    """Chat completions."""

    case = AgentsCase("openai")
