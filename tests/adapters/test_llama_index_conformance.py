"""LlamaIndex's FunctionAgent in the conformance suite; context and memory are saved as JSON after each turn."""

import base64
import json
from typing import ClassVar

import pytest
from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, Line, Setup, look, mask, need, outline, write_json

need("llama_index.core", "llama_index.llms.openai", extra="llama-index")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, DocumentBlock, ImageBlock, TextBlock
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, JsonSerializer
from llama_index.llms.openai import OpenAI
from llama_index.llms.openai.utils import to_openai_message_dicts

from refold.adapters.llama_index import Refold

pytestmark = pytest.mark.usefixtures("collect_clients")
WHOLE = 10_000_000
"""A memory that cuts nothing; by default LlamaIndex's own forgets what is over three quarters of the window."""


async def alook(n: int, note: str = "") -> str:
    """Do as `look`, and not in a thread: LlamaIndex takes results of parallel calls in the order they end."""
    return look(n, note)


class LlamaIndexAgent(Agent):
    """One `FunctionAgent` for each conversation, with its context in a file."""

    def __init__(self, setup: Setup):
        self._setup = setup
        self._refold = Refold(**setup.options) if setup.with_refold else None
        self._llms: dict[str, OpenAI] = {}
        self._llm = OpenAI(
            MODEL["openai"],
            api_base=setup.url,
            api_key="none",
            max_retries=0,
            additional_kwargs={"stream_options": {"include_usage": True}},
        )

    async def arun(self, key, text, *, stream=False):
        agent = self._build(key, streaming=stream)
        context = self._load_context(agent, key)
        memory = ChatMemoryBuffer.from_defaults(self._messages(key), token_limit=WHOLE)
        handler = agent.run(text, ctx=context, memory=memory, max_iterations=100)
        if stream:
            async for _ in handler.stream_events():
                pass
        result = await handler
        self._save(key, memory.get_all())
        write_json(self._path(f"{key}.context"), context.to_dict(serializer=JsonSerializer()))
        return str(result)

    def history(self, key):
        return mask([message.model_dump(mode="json") for message in self._messages(key)], "id")

    def outline(self, key) -> list[Line]:
        return outline(to_openai_message_dicts(self._messages(key)), "openai")

    def session(self, key):
        return self._refold.session(key)

    def rewind(self, key, turns):
        messages = self._messages(key)
        asked = [index for index, message in enumerate(messages) if message.role == "user"]
        self._save(key, messages[: asked[-turns]])

    async def show_image(self, key, text, png):
        picture = ImageBlock(image=base64.b64decode(png), image_mimetype="image/png")
        return await self.arun(key, ChatMessage(role="user", blocks=[TextBlock(text=text), picture]))

    async def show_document(self, key, text, pdf):
        data, kind = base64.b64decode(pdf), "application/pdf"
        document = DocumentBlock(data=data, title="page.pdf", document_mimetype=kind)
        return await self.arun(key, ChatMessage(role="user", blocks=[TextBlock(text=text), document]))

    def close(self):
        if self._refold is not None:
            self._refold.close()

    def _build(self, key, *, streaming=False):
        tools = [FunctionTool.from_defaults(look, async_fn=alook)]
        llm = self._llm
        if self._refold is not None:
            tools.append(self._refold.recall_of(key))
            llm = self._llms.get(key) or self._llms.setdefault(key, self._refold.wrap(llm, key))
        return FunctionAgent(tools=tools, llm=llm, system_prompt=SYSTEM, streaming=streaming)

    def _path(self, name):
        return self._setup.folder / f"{name}.json"

    def _messages(self, key):
        path = self._path(key)
        return (
            [ChatMessage.model_validate(item) for item in json.loads(path.read_text())]
            if path.exists()
            else []
        )

    def _save(self, key, messages):
        write_json(self._path(key), [message.model_dump(mode="json") for message in messages])

    def _load_context(self, agent, key):
        path = self._path(f"{key}.context")
        if not path.exists():
            return Context(agent)
        return Context.from_dict(agent, json.loads(path.read_text()), serializer=JsonSerializer())


class LlamaIndexCase(Case):
    """A `FunctionAgent` over chat completions."""

    name = "llama-index"
    modes = ("async", "astream")
    page = "docs/adapters/llama-index.md"
    skips: ClassVar = {"interrupt": "a turn that is stopped leaves nothing but the question in the memory"}

    def open(self, setup):
        return LlamaIndexAgent(setup)


class TestLlamaIndex(Conformance):
    """The checks."""

    case = LlamaIndexCase()
