"""Agent Framework in the conformance suite: chat completions and Responses, sessions saved as JSON files."""

import json
from typing import ClassVar

import pytest
from conformance import Conformance
from conformance_case import MODEL, SYSTEM, Agent, Case, Line, look, mask, need, outline, write_json

need("agent_framework", "agent_framework_openai", extra="agent-framework")

import openai
from agent_framework import Agent as FrameworkAgent
from agent_framework import AgentSession, Content, Message, tool
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

from refold.adapters.agent_framework import RefoldMiddleware

CHANCE = ("id", "message_id", "usage_details", "created_at", "response_id")
pytestmark = pytest.mark.usefixtures("collect_clients")


class FrameworkCaseAgent(Agent):
    """An agent with one tool; its session is a file, as `AgentSession.to_dict` gives it."""

    def __init__(self, wire, setup):
        self._folder = setup.folder
        self._refold = RefoldMiddleware(**setup.options) if setup.with_refold else None
        self._client = openai.AsyncOpenAI(base_url=setup.url, api_key="none", max_retries=0)
        kind = OpenAIChatClient if wire == "responses" else OpenAIChatCompletionClient
        client = kind(model=MODEL[wire], async_client=self._client)
        # Without it the framework tells the model only that a tool failed, and not how.
        client.function_invocation_configuration["include_detailed_errors"] = True
        self._agent = FrameworkAgent(
            client=client,
            name="boxes",
            instructions=SYSTEM,
            tools=[tool(look), *([self._refold.recall] if self._refold else [])],
            middleware=[self._refold] if self._refold else None,
            default_options={"store": False} if wire == "responses" else None,
        )

    async def arun(self, key, text, *, stream=False):
        return await self._arun(key, text, stream)

    async def _arun(self, key, asked, stream=False):
        session = self._load(key)
        if not stream:
            response = await self._agent.run(asked, session=session)
        else:
            updates = self._agent.run(asked, session=session, stream=True)
            assert [update async for update in updates]
            response = await updates.get_final_response()
        self._save(key, session)
        return response.messages[-1].text if response.messages else ""

    def history(self, key):
        return mask([message.to_dict() for message in self._messages(key)], *CHANCE)

    def outline(self, key):
        return [line for message in self._messages(key) for line in _to_lines(message)]

    def session(self, key):
        return self._refold.session(key)

    def rewind(self, key, turns):
        session = self._load(key)
        messages = self._find_messages(session)
        users = [index for index, message in enumerate(messages) if message.role == "user"]
        del messages[users[-turns] :]
        self._save(key, session)

    async def show_image(self, key, text, png):
        return await self._show(key, text, f"data:image/png;base64,{png}", "image/png")

    async def show_document(self, key, text, pdf):
        return await self._show(key, text, f"data:application/pdf;base64,{pdf}", "application/pdf")

    async def _show(self, key, text, uri, media_type):
        shown = Content.from_uri(uri, media_type=media_type)
        return await self._arun(key, Message(role="user", contents=[Content.from_text(text), shown]))

    async def close(self):
        await self._client.close()
        if self._refold is not None:
            await self._refold.aclose()

    def _file(self, key):
        return self._folder / f"{key}.json"

    def _load(self, key):
        if not self._file(key).exists():
            return self._agent.create_session(session_id=key)
        return AgentSession.from_dict(json.loads(self._file(key).read_text()))

    def _save(self, key, session):
        write_json(self._file(key), session.to_dict())

    def _find_messages(self, session):
        return next((state["messages"] for state in session.state.values() if "messages" in state), [])

    def _messages(self, key):
        return self._find_messages(self._load(key))


def _to_lines(message):
    """Return the lines of a message, read from the framework's own contents."""
    items, said = [], {"role": message.role, "content": message.text, "tool_calls": []}
    for content in message.contents:
        if content.type == "function_call":
            function = {"name": content.name, "arguments": content.arguments}
            said["tool_calls"].append({"id": content.call_id, "type": "function", "function": function})
        elif content.type == "function_result":
            items.append({"role": "tool", "tool_call_id": content.call_id, "content": content.result})
    if message.role != "tool":
        items.insert(0, said if said["tool_calls"] else {"role": message.role, "content": message.text})
    lines: list[Line] = outline(items, "openai")
    return lines


class FrameworkCase(Case):
    """An agent of Agent Framework over one of two wires."""

    name = "agent-framework"
    modes = ("async", "astream")
    skips: ClassVar = {
        "one_key": "the session's file is written by the program, at the end of a turn",
        "interrupt": "a turn that is stopped is not in the history",
    }

    def __init__(self, wire="openai", page=None):
        self.wire, self.page = wire, page

    def open(self, setup):
        return FrameworkCaseAgent(self.wire, setup)


class TestAgentFrameworkChat(Conformance):
    """Chat completions."""

    case = FrameworkCase("openai", page="docs/adapters/agent-framework.md")


class TestAgentFrameworkResponses(Conformance):
    """The Responses API, whose history the agent keeps."""

    case = FrameworkCase("responses")
