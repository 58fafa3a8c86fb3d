"""Agents of Pydantic AI in the conformance suite: chat completions, Responses and Messages; histories in JSON files."""

from base64 import b64decode
from typing import ClassVar

from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, Line, look, mask, need, outline

need("pydantic_ai", "openai", "anthropic", extra="pydantic-ai")

import asyncio
import gc

import pydantic_ai
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import BinaryContent
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from refold.adapters.pydantic_ai import Refold

MODELS = {**MODEL, "responses": "gpt-5"}  # Pydantic AI sends encrypted reasoning to reasoning models only
CHANCE = ("timestamp", "run_id", "conversation_id", "usage", "provider_url", "history_digest")


def open_client(wire, setup):
    """Return a client for one event loop."""
    if wire == "anthropic":
        return AsyncAnthropic(base_url=setup.root, api_key="none", max_retries=0)
    return AsyncOpenAI(base_url=setup.url, api_key="none", max_retries=0)


def open_model(wire, client):
    """Return the model for a wire."""
    if wire == "anthropic":
        return AnthropicModel(MODELS[wire], provider=AnthropicProvider(anthropic_client=client))
    kind = OpenAIResponsesModel if wire == "responses" else OpenAIChatModel
    return kind(MODELS[wire], provider=OpenAIProvider(openai_client=client))


def look_or_tell(n: int, note: str = "") -> str:
    """Look into box n and return what is in it."""
    try:
        return look(n, note)
    except ValueError as error:
        return f"Error: {error}"


class PydanticAgent(Agent):
    """An agent with one tool; its histories are files, as `ModelMessagesTypeAdapter` writes them."""

    def __init__(self, wire, setup):
        self._wire, self._setup = wire, setup
        self._refold = Refold(**setup.options) if setup.with_refold else None
        self._client = open_client(wire, setup)

    def run(self, key, text, *, stream=False):
        loop = asyncio.new_event_loop()  # one for each thread that runs a turn
        asyncio.set_event_loop(loop)
        client = open_client(self._wire, self._setup)
        try:
            told = {"message_history": self._load(key), "conversation_id": key}
            agent = self._build(client)
            result = agent.run_stream_sync(text, **told) if stream else agent.run_sync(text, **told)
            output = result.get_output() if stream else result.output
            return self._save(key, result, output)
        finally:
            loop.run_until_complete(client.close())
            asyncio.set_event_loop(None)
            loop.close()

    async def arun(self, key, text, *, stream=False):
        agent, told = self._build(self._client), {"message_history": self._load(key), "conversation_id": key}
        if not stream:
            result = await agent.run(text, **told)
            return self._save(key, result, result.output)
        async with agent.run_stream(text, **told) as result:
            output = await result.get_output()
        return self._save(key, result, output)

    def history(self, key):
        return mask(ModelMessagesTypeAdapter.dump_python(self._load(key), mode="json"), *CHANCE)

    def outline(self, key) -> list[Line]:
        return outline([item for message in self._load(key) for item in write_items(message)], "openai")

    def session(self, key):
        return self._refold.session(key)

    def rewind(self, key, turns):
        history = self._load(key)
        starts = [at for at, message in enumerate(history) if message.parts[-1].part_kind == "user-prompt"]
        self._path(key).write_bytes(ModelMessagesTypeAdapter.dump_json(history[: starts[-turns]]))

    async def show_image(self, key, text, png):
        return await self._show(key, text, BinaryContent(data=b64decode(png), media_type="image/png"))

    async def show_document(self, key, text, pdf):
        return await self._show(key, text, BinaryContent(data=b64decode(pdf), media_type="application/pdf"))

    async def _show(self, key, text, shown):
        told = {"message_history": self._load(key), "conversation_id": key}
        result = await self._build(self._client).run([text, shown], **told)
        return self._save(key, result, result.output)

    async def interrupt(self, key, text):
        told = {"message_history": self._load(key), "conversation_id": key}
        async with self._build(self._client).iter(text, **told) as run:
            async for node in run:
                if pydantic_ai.Agent.is_call_tools_node(node):
                    break
        # Pydantic AI takes no prompt behind calls without results; this is its own way to close them.
        repair = getattr(pydantic_ai.messages, "repair_messages", list)
        self._path(key).write_bytes(ModelMessagesTypeAdapter.dump_json(repair(run.all_messages())))

    async def close(self):
        await self._client.close()
        if self._refold is not None:
            await self._refold.aclose()

    def _build(self, client):
        agent = pydantic_ai.Agent(
            open_model(self._wire, client),
            instructions=SYSTEM,
            capabilities=[self._refold] if self._refold else [],
        )
        agent.tool_plain(look_or_tell, name="look")
        return agent

    def _path(self, key):
        return self._setup.folder / f"{key}.json"

    def _load(self, key):
        path = self._path(key)
        return ModelMessagesTypeAdapter.validate_json(path.read_bytes()) if path.exists() else []

    def _save(self, key, result, output):
        part = self._path(f"{key}.part")
        part.write_bytes(result.all_messages_json())
        part.replace(self._path(key))
        return output


def write_items(message):
    """Return the chat items of a message, as far as the suite compares them."""
    if isinstance(message, ModelResponse):
        calls = [
            {
                "id": part.tool_call_id,
                "type": "function",
                "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
            }
            for part in message.parts
            if part.part_kind == "tool-call"
        ]
        return [
            {"role": "assistant", "content": message.text or "", **({"tool_calls": calls} if calls else {})}
        ]
    return [
        {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.content}
        if part.part_kind == "tool-return"
        else {"role": "user", "content": write_prompt(part.content)}
        for part in message.parts
    ]


def write_prompt(content):
    return (
        content if isinstance(content, str) else "\n".join(text for text in content if isinstance(text, str))
    )


class PydanticCase(Case):
    """An agent of Pydantic AI over one of three wires."""

    name = "pydantic_ai"
    modes = ("async", "astream", "sync", "stream")
    skips: ClassVar = {
        "empty_answer": "Pydantic AI does not take an empty answer: it asks again, and then raises"
    }

    def __init__(self, wire="openai", page=None):
        self.wire, self.page = wire, page

    def open(self, setup):
        return PydanticAgent(self.wire, setup)


class TestPydanticChat(Conformance):
    """Chat completions."""

    case = PydanticCase("openai", page="docs/adapters/pydantic-ai.md")

    def test_12_the_examples_of_the_documentation_run(self, monkeypatch, tmp_path):
        """Close afterwards what `run_sync` leaves open: Pydantic AI keeps its HTTP client and its loop."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        super().test_12_the_examples_of_the_documentation_run(monkeypatch, tmp_path)
        for client in [found for found in gc.get_objects() if type(found).__name__ == "AsyncClient"]:
            loop.run_until_complete(client.aclose())
        asyncio.set_event_loop(None)
        loop.close()


class TestPydanticResponses(Conformance):
    """The Responses API with encrypted reasoning."""

    case = PydanticCase("responses")


class TestPydanticAnthropic(Conformance):
    """Anthropic's Messages with signed thinking."""

    case = PydanticCase("anthropic")
