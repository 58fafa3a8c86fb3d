"""Strands agents in the conformance suite: OpenAI's and Anthropic's models, on a file session."""

from base64 import b64decode
from typing import ClassVar

import pytest
from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, Line, Setup, look, mask, need, outline

need("strands", "openai", "anthropic", extra="strands")

import strands
from strands.agent.conversation_manager import NullConversationManager
from strands.hooks import HookProvider, MessageAddedEvent
from strands.models.anthropic import AnthropicModel
from strands.models.openai import OpenAIModel
from strands.session.file_session_manager import FileSessionManager

from refold.adapters.strands import RefoldConversationManager

CHANCE = ("metadata", "tracking_id")


class Stop(HookProvider):
    """Stops an agent behind its next call of a tool, as a crash would."""

    def __init__(self):
        self.is_next = False

    def register_hooks(self, registry, **kwargs):
        registry.add_callback(MessageAddedEvent, self.stop)

    def stop(self, event):
        if self.is_next and "toolUse" in event.message["content"][-1]:
            self.is_next = False
            raise ConnectionAbortedError("stopped before the tool")


def open_model(wire, setup):
    """Return the model for a wire, as users build it for a server of their own."""
    if wire == "anthropic":
        options = {"base_url": setup.root, "api_key": "none", "max_retries": 0}
        return AnthropicModel(client_args=options, model_id=MODEL[wire], max_tokens=1000)
    options = {"base_url": setup.url, "api_key": "none", "max_retries": 0}
    return OpenAIModel(client_args=options, model_id=MODEL[wire])


class StrandsAgent(Agent):
    """An agent for each conversation, each on a file session, and one manager for all."""

    def __init__(self, wire: str, setup: Setup):
        self._wire, self._setup = wire, setup
        self._manager = RefoldConversationManager(**setup.options) if setup.with_refold else None
        self._agents: dict[str, strands.Agent] = {}
        self._past: dict[str, list] = {}
        self._stop = Stop()

    def run(self, key, text, *, stream=False):
        assert not stream
        return self._end(key, self._open(key)(text))

    async def arun(self, key, text, *, stream=False):
        agent = self._open(key)
        if not stream:
            return self._end(key, await agent.invoke_async(text))
        async for event in agent.stream_async(text):
            last = event
        return self._end(key, last["result"])

    def history(self, key):
        return mask(self._open(key).messages, *CHANCE)

    def outline(self, key) -> list[Line]:
        items = [{"role": one["role"], "content": one["content"]} for one in self._open(key).messages]
        return outline(items, "converse")

    def session(self, key):
        return self._manager.session(key)

    def rewind(self, key, turns):
        self._open(key).messages[:] = self._past[key][-1 - turns]

    async def show_image(self, key, text, png):
        picture = {"image": {"format": "png", "source": {"bytes": b64decode(png)}}}
        return self._end(key, await self._open(key).invoke_async([{"text": text}, picture]))

    async def show_document(self, key, text, pdf):
        document = {"document": {"format": "pdf", "name": "page", "source": {"bytes": b64decode(pdf)}}}
        return self._end(key, await self._open(key).invoke_async([{"text": text}, document]))

    async def interrupt(self, key, text):
        self._stop.is_next = True
        with pytest.raises(Exception, match="stopped before the tool"):  # of Strands, around the hook's
            await self._open(key).invoke_async(text)

    async def close(self):
        for agent in self._agents.values():
            if isinstance(agent.model, AnthropicModel):  # its client keeps connections
                await agent.model.client.close()
        if self._manager is not None:
            self._manager.close()

    def _open(self, key):
        if key not in self._agents:
            self._agents[key] = strands.Agent(
                model=open_model(self._wire, self._setup),
                tools=[strands.tool(look)],
                system_prompt=SYSTEM,
                conversation_manager=self._manager or NullConversationManager(),
                session_manager=FileSessionManager(session_id=key, storage_dir=str(self._setup.folder)),
                hooks=[self._stop],
                callback_handler=None,
            )
        return self._agents[key]

    def _end(self, key, result):
        self._past.setdefault(key, []).append(list(self._agents[key].messages))
        return str(result).strip()


class StrandsCase(Case):
    """An agent of Strands over one of two wires."""

    name = "strands"
    format = "converse"
    skips: ClassVar = {"one_key": "an agent of Strands refuses a second call while one is running"}

    def __init__(self, wire: str = "openai", page: str | None = None):
        self.wire, self.page = wire, page
        # Anthropic's client keeps connections of an event loop, and a plain call starts a loop of its own
        self.modes = ("async", "astream") if wire == "anthropic" else ("sync", "async", "astream")

    def open(self, setup):
        return StrandsAgent(self.wire, setup)


class TestStrands(Conformance):
    """OpenAI's model."""

    case = StrandsCase(page="docs/adapters/strands.md")


class TestStrandsAnthropic(Conformance):
    """Anthropic's model, with signed thinking."""

    case = StrandsCase("anthropic")
