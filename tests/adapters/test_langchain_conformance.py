"""LangChain agents in the conformance suite: chat completions, Responses and Messages, on a SQLite checkpointer."""

import sqlite3
from itertools import count

import pytest
from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, Line, Setup, look, mask, need, outline

need("langchain", "langchain_openai", "langchain_anthropic", "langgraph.checkpoint.sqlite", extra="langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import ToolMessage, convert_to_openai_messages
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from refold.adapters.langchain import RefoldMiddleware

CHANCE = ("id", "usage_metadata", "token_usage", "usage", "created_at", "completed_at")
SECONDS = count(60)
"""A timeout for each model: LangChain keeps connections by address and timeout, also those of a closed event
loop, and a port of an earlier test may come again."""


def open_model(wire, setup):
    """Return the chat model for a wire, as users build it for a server of their own."""
    common = {"model": MODEL[wire], "api_key": "none", "max_retries": 0, "stream_usage": True}
    common["timeout"] = next(SECONDS)
    if wire == "anthropic":
        return ChatAnthropic(base_url=setup.root, **common)
    options = {"use_responses_api": True, "output_version": "responses/v1"} if wire == "responses" else {}
    return ChatOpenAI(base_url=setup.url, **common, **options)


@wrap_tool_call
def tell_errors(request, handler):
    """Answer a tool that fails with its error, as LangChain's documentation does."""
    try:
        return handler(request)
    except ValueError as error:
        return ToolMessage(f"Error: {error}", tool_call_id=request.tool_call["id"], status="error")


@wrap_tool_call
async def atell_errors(request, handler):
    """Do the same in an event loop."""
    try:
        return await handler(request)
    except ValueError as error:
        return ToolMessage(f"Error: {error}", tool_call_id=request.tool_call["id"], status="error")


class LangChainAgent(Agent):
    """`create_agent` with one tool, and a SQLite checkpointer as its memory."""

    def __init__(self, wire: str, setup: Setup):
        self._wire, self._setup = wire, setup
        self._path = str(setup.folder / "checkpoints.sqlite")
        self._connection = sqlite3.connect(self._path, check_same_thread=False)
        self._saver = SqliteSaver(self._connection)
        self._refold = RefoldMiddleware(**setup.options) if setup.with_refold else None
        self._model = open_model(wire, setup)
        self._from: dict[str, dict] = {}

    def run(self, key, text, *, stream=False):
        agent, config = self._build(self._saver), self._take_config(key)
        asked = {"messages": [("user", text)]}
        if not stream:
            return agent.invoke(asked, config)["messages"][-1].text
        chunks = [chunk for chunk, _ in agent.stream(asked, config, stream_mode="messages")]
        assert chunks
        return self._messages(key)[-1].text

    async def arun(self, key, text, *, stream=False):
        asked, config = {"messages": [("user", text)]}, self._take_config(key)
        async with AsyncSqliteSaver.from_conn_string(self._path) as saver:
            agent = self._build(saver, tell=atell_errors)
            if stream:
                async for _ in agent.astream(asked, config, stream_mode="messages"):
                    pass
                return (await agent.aget_state(config)).values["messages"][-1].text
            return (await agent.ainvoke(asked, config))["messages"][-1].text

    def history(self, key):
        return mask([message.model_dump(mode="json") for message in self._messages(key)], *CHANCE)

    def outline(self, key) -> list[Line]:
        return outline(convert_to_openai_messages(self._messages(key), text_format="string"), "openai")

    def session(self, key):
        return self._refold.session(key)

    def rewind(self, key, turns):
        """Go back in time to the checkpoint at the end of an earlier turn."""
        ends = [past for past in self._build(self._saver).get_state_history(_config(key)) if not past.next]
        self._from[key] = ends[turns].config

    def show_image(self, key, text, png):
        return self._show(key, text, {"type": "image", "base64": png, "mime_type": "image/png"})

    def show_document(self, key, text, pdf):
        data = {"base64": pdf, "mime_type": "application/pdf", "filename": "page.pdf"}
        return self._show(key, text, {"type": "file", **data})

    def _show(self, key, text, block):
        content = [{"type": "text", "text": text}, block]
        asked = {"messages": [{"role": "user", "content": content}]}
        return self._build(self._saver).invoke(asked, self._take_config(key))["messages"][-1].text

    def interrupt(self, key, text):
        agent = self._build(self._saver, interrupt_before=["tools"])
        agent.invoke({"messages": [("user", text)]}, self._take_config(key))

    def close(self):
        self._connection.close()
        if self._refold is not None:
            self._refold.close()

    def _build(self, saver, tell=tell_errors, **options):
        middleware = [tell] if self._refold is None else [tell, self._refold]
        tools = [StructuredTool.from_function(look)]
        return create_agent(
            self._model, tools, system_prompt=SYSTEM, middleware=middleware, checkpointer=saver, **options
        )

    def _take_config(self, key):
        return self._from.pop(key, None) or _config(key)

    def _messages(self, key):
        state = self._build(self._saver).get_state(self._from.get(key) or _config(key))
        return state.values.get("messages") or []


def _config(key):
    return {"configurable": {"thread_id": key}}


class LangChainCase(Case):
    """An agent of LangChain over one of three wires."""

    name = "langchain"
    page = "docs/adapters/langchain.md"

    def __init__(self, wire: str = "openai", page: str | None = None):
        self.wire, self.page = wire, page

    def open(self, setup):
        return LangChainAgent(self.wire, setup)


class TestLangChainChat(Conformance):
    """Chat completions."""

    case = LangChainCase("openai", page="docs/adapters/langchain.md")


@pytest.mark.full
class TestLangChainResponses(Conformance):
    """The Responses API with encrypted reasoning."""

    case = LangChainCase("responses")


@pytest.mark.full
class TestLangChainAnthropic(Conformance):
    """Anthropic's Messages with signed thinking."""

    case = LangChainCase("anthropic")
