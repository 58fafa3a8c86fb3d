"""OpenAI's Agents SDK: a real run over a SQLiteSession with a limit; no model summarises.

The limit is a number of items: as many as fit the budget on average of the first turn. Its
OpenAIResponsesCompactionSession needs OpenAI's service and is left out.

https://openai.github.io/openai-agents-python/sessions/
"""

import asyncio
import json
import uuid
from collections.abc import Callable
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, SessionSettings, SQLiteSession, Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from serving import HUGE, Adapter, Answer, Messages, Thunk, flat, serve


class Recorder(Model):
    """A model that remembers what it was sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *_more: Any, **_options: Any) -> Any:  # noqa: A002
        """One answer."""
        del system_instructions
        self.sent = list(input)
        text = ResponseOutputText(text="Done.", type="output_text", annotations=[])
        said = ResponseOutputMessage(
            id="m", content=[text], role="assistant", status="completed", type="message"
        )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *_more: Any, **_options: Any) -> Any:
        """Not needed here."""
        raise NotImplementedError


class OpenAIAgents(Adapter):
    """Sessions with a limit."""

    package = "openai-agents"
    ways = ("session",)

    def __init__(self, way: str) -> None:
        super().__init__(way)
        self.loop = asyncio.new_event_loop()
        self.session = SQLiteSession("matrix")
        self.limit = 0

    def fold(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """What a run sends."""
        self.start()
        return self.turn(messages, budget, ask, window)

    def start(self) -> None:
        """A new session in memory."""
        self.session = SQLiteSession(uuid.uuid4().hex)
        self.limit = 0

    def turn(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """The last message is the run's input, what was said before stands in the session."""
        del ask, window  # no model is asked
        head = messages[:1] if messages and messages[0]["role"] == "system" else []
        items = to_items(messages[len(head) :])
        self.limit = self.limit or max(1, len(items) * budget // max(1, len(flat(items)) // 4))
        waits = items[-1].get("type") == "function_call"  # then the tools run before there is a request
        self.loop.run_until_complete(self.session.add_items(items if waits else items[:-1]))
        if waits:
            return head + from_items(self.loop.run_until_complete(self.session.get_items(self.limit)))
        model = Recorder()
        self.loop.run_until_complete(self._run(model, items[-1:], self.limit))
        self.loop.run_until_complete(self.session.pop_item())  # what the model said is not part of the case
        return head + from_items(model.sent)

    async def _run(self, model: Recorder, items: list[Any], limit: int) -> None:
        agent = Agent(name="agent", model=model)
        config = RunConfig(tracing_disabled=True, session_settings=SessionSettings(limit=limit))
        await Runner.run(agent, items, session=self.session, run_config=config)

    def kept(self) -> str:
        """The session keeps every item."""
        return json.dumps(self.loop.run_until_complete(self.session.get_items()), ensure_ascii=False)

    def convert(self, messages: Messages) -> Thunk:
        """Its own messages of plain dicts."""
        return lambda: to_items(messages)

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """Fetch the items of a session, all of them."""
        return self._fetched(messages, HUGE)

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """Fetch the last quarter."""
        return self._fetched(messages, max(1, len(messages) // 4))

    def _fetched(self, messages: Messages, limit: int) -> Callable[[], Thunk]:
        session = SQLiteSession(f"bench-{id(messages)}-{limit}")
        self.loop.run_until_complete(session.add_items(to_items(messages[1:])))
        return lambda: lambda: self.loop.run_until_complete(session.get_items(limit))


def to_items(messages: Messages) -> list[Any]:
    """OpenAI's chat shape as items of its Responses API."""
    made: list[Any] = []
    for message in messages:
        if "type" in message:  # an item already
            made.append(message)
            continue
        role, content = message["role"], message.get("content")
        if role == "tool":
            made.append(
                {"type": "function_call_output", "call_id": message["tool_call_id"], "output": content}
            )
            continue
        for block in content if isinstance(content, list) else ():
            if block["type"] == "thinking":
                made.append(
                    {
                        "type": "reasoning",
                        "id": f"rs_{len(made)}",
                        "summary": [],
                        "encrypted_content": json.dumps(block),
                    }
                )
            else:
                made.append({"role": role, "content": block["text"]})
        if isinstance(content, str) and content:
            made.append({"role": role, "content": content})
        made += [
            {"type": "function_call", "call_id": call["id"], **call["function"]}
            for call in message.get("tool_calls", ())
        ]
    return made


def _beside(items: list[Any]) -> list[Any]:
    """The same items, each result behind its call: the Responses API matches them by id alone."""
    made: list[Any] = []
    for item in items:
        place = len(made)
        if item.get("type") == "function_call_output":
            calls = [
                n for n, other in enumerate(made) if _pair(other) and other["call_id"] == item["call_id"]
            ]
            place = calls[-1] + 1 if calls else place
            while place < len(made) and _pair(made[place]):
                place += 1
        made.insert(place, item)
    return made


def _pair(item: Any) -> bool:
    return item.get("type") in ("function_call", "function_call_output")


def from_items(items: list[Any]) -> Messages:
    """Back to chat messages: what an assistant said, thought and called in a row is one message."""
    made: Messages = []
    for item in _beside(items):
        kind = item.get("type", "message")
        if kind == "compaction":
            made.append(item)
            continue
        if kind == "function_call_output":
            made.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
            continue
        role = item.get("role", "assistant")
        # what an assistant says opens a message, but for words behind a thought; calls join what stands there
        goes_on = bool(made) and made[-1].get("role") == role == "assistant"
        if not (goes_on and (kind != "message" or isinstance(made[-1]["content"], list))):
            made.append({"role": role, "content": ""})
        last = made[-1]
        if kind == "reasoning":
            last["content"] = [json.loads(item["encrypted_content"])]
        elif kind == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            last.setdefault("tool_calls", []).append(
                {"id": item["call_id"], "type": "function", "function": function}
            )
        elif isinstance(last["content"], list):
            last["content"].append({"type": "text", "text": item["content"]})
        else:
            last["content"] = item["content"]
    return made


if __name__ == "__main__":
    serve(OpenAIAgents)
