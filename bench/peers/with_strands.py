"""Strands: a real agent with the SummarizingConversationManager, as its documentation sets it up.

Proactive compression is on (70 % of the window, which is the budget); where the model still refuses, by the
exact count of a provider and with a tenth to spare, the agent reduces and asks again, as it does in life.
The summariser is the agent's `aux_model`. Ten recent messages are kept, as by default, and fewer where the
budget is so small that ten of them could never fit. In turns a FileSessionManager stores the conversation.
`sliding` is the SlidingWindowConversationManager, the agent's default.

https://strandsagents.com/docs/user-guide/concepts/agents/conversation-management/
https://strandsagents.com/docs/user-guide/concepts/agents/session-management/
"""

import asyncio
import json
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from serving import HUGE, Adapter, Answer, Messages, ModelFailed, Thunk, at_once, flat, serve
from strands import Agent
from strands.agent.conversation_manager import (
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from strands.event_loop.event_loop import _estimate_input_tokens
from strands.hooks import BeforeModelCallEvent, MessageAddedEvent
from strands.models.model import Model
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException


class Scripted(Model):
    """A model by a function from the messages to an answer."""

    def __init__(self, answer: Callable[[list[Any], str], Answer], window: int) -> None:
        self.answer, self.config = answer, {"context_window_limit": window}

    def update_config(self, **model_config: Any) -> None:
        """Change the configuration."""
        self.config.update(model_config)

    def get_config(self) -> Any:
        """The configuration."""
        return self.config

    def structured_output(
        self, output_model: Any, prompt: Any, system_prompt: Any = None, **kwargs: Any
    ) -> Any:
        """Not needed here."""
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: str | None = None, **_more: Any
    ) -> AsyncIterator[Any]:
        """One answer as a stream."""
        del tool_specs
        said = self.answer(messages, system_prompt or "")
        yield {"messageStart": {"role": "assistant"}}
        if said.text:
            yield {"contentBlockDelta": {"delta": {"text": said.text}}}
            yield {"contentBlockStop": {}}
        for number in range(said.calls):
            use = {"toolUse": {"name": "read_file", "toolUseId": f"call_{number}"}}
            yield {"contentBlockStart": {"start": use}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": "{}"}}}}
            yield {"contentBlockStop": {}}
        ends = {"length": "max_tokens", "refusal": "content_filtered", "tool_calls": "tool_use"}
        yield {"messageStop": {"stopReason": ends.get(said.finish, "end_turn")}}


class Strands(Adapter):
    """The two managers."""

    package = "strands-agents"
    ways = ("summarizing", "sliding")

    def __init__(self, way: str) -> None:
        super().__init__(way)
        self.head: Messages = []
        self.agent: Agent | None = None
        self.stored = tempfile.TemporaryDirectory(prefix="strands-")
        self.session: FileSessionManager | None = None

    def fold(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """What the agent sends when the model takes no more than the budget."""
        head = messages[:1] if messages and messages[0]["role"] == "system" else []
        agent = self._agent(to_strands(messages), budget, _summariser(ask, window))
        return head + self._sent(agent, budget)

    def start(self) -> None:
        """A new agent."""
        self.head, self.agent = [], None

    def turn(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """The agent goes on: its messages are changed in place, and a session manager stores what is said."""
        head = messages[:1] if messages and messages[0]["role"] == "system" else []
        self.head, said = head or self.head, to_strands(messages)
        aux = _summariser(ask, window)
        if self.agent is None:
            self.session = FileSessionManager(uuid.uuid4().hex, storage_dir=self.stored.name)
            self.agent = self._agent(said, budget, aux, session_manager=self.session)
        else:
            self.agent.aux_model = aux
            for message in said:
                self.agent.messages.append(message)
                self.agent.hooks.invoke_callbacks(MessageAddedEvent(agent=self.agent, message=message))
        if any("toolUse" in block for block in self.agent.messages[-1]["content"]):
            return self.head + from_strands(self.agent.messages)  # tools run first; no model is called
        sent = self._sent(self.agent, budget)
        self.agent.messages.pop()  # what the model said is not part of the case
        return self.head + sent

    def _sent(self, agent: Agent, budget: int) -> Messages:
        """What the model takes when the agent is called."""
        sent: list[Any] = []
        agent.model.answer = self._taking(budget, sent)  # type: ignore[attr-defined]  # a Scripted
        agent()
        return from_strands(sent)

    def _taking(self, budget: int, sent: list[Any]) -> Callable[[list[Any], str], Answer]:
        """A model that refuses what is over the budget and remembers what it took."""

        def answer(messages: list[Any], _system: str) -> Answer:
            if sum(self.counted(_text(message)) for message in from_strands(messages)) > budget * 1.1:
                raise ContextWindowOverflowException("prompt is too long")
            sent[:] = [dict(message) for message in messages]
            return Answer("Done.")

        return answer

    def _agent(self, messages: list[Any], budget: int, aux: Model, **more: Any) -> Agent:
        manager: Any = SlidingWindowConversationManager(proactive_compression=True)
        if self.way == "summarizing":
            manager = SummarizingConversationManager(
                preserve_recent_messages=max(1, min(10, budget // 400)), proactive_compression=True
            )
        model = Scripted(lambda *_: Answer("Done."), budget)
        return Agent(
            model=model,
            aux_model=aux,
            messages=messages,
            conversation_manager=manager,
            callback_handler=None,
            **more,
        )

    def kept(self) -> str:
        """What the session manager stored."""
        assert self.session is not None  # noqa: S101  # a conversation was started
        assert self.agent is not None  # noqa: S101  # with an agent
        stored = self.session.list_messages(self.session.session_id, self.agent.agent_id)
        return json.dumps(from_strands([entry.to_message() for entry in stored]), ensure_ascii=False)

    def convert(self, messages: Messages) -> Thunk:
        """Its own messages of plain dicts."""
        return lambda: to_strands(messages)

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """The estimate from the last usage and the threshold, as before every call of the model."""
        chat = to_strands(messages)
        last = max(place for place, message in enumerate(chat) if message["role"] == "assistant")
        chat[last]["metadata"] = {"usage": {"inputTokens": 1_000, "outputTokens": 20, "totalTokens": 1_020}}
        agent = self._agent(chat, HUGE, _summariser(at_once, 128_000))
        manager = agent.conversation_manager
        loop = asyncio.new_event_loop()

        def decided() -> object:
            tokens = loop.run_until_complete(_estimate_input_tokens(agent))
            event = BeforeModelCallEvent(agent=agent, invocation_state={}, projected_input_tokens=tokens)
            manager._on_before_model_call_threshold(event)  # noqa: SLF001  # what the hook calls
            return manager.apply_management(agent)

        return lambda: decided

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """One reduction."""
        chat, aux = to_strands(messages), _summariser(at_once, 128_000)

        def fresh() -> Thunk:
            agent = self._agent(list(chat), HUGE, aux)
            return lambda: agent.conversation_manager.reduce_context(agent)

        return fresh

    def estimate(self, messages: Messages) -> Thunk:
        """`Model.count_tokens`, its heuristic."""
        chat, model, loop = to_strands(messages), _summariser(at_once, 128_000), asyncio.new_event_loop()
        return lambda: loop.run_until_complete(model.count_tokens(chat))


def _summariser(ask: Callable[[str], Answer], window: int) -> Scripted:
    def answer(messages: list[Any], system: str) -> Answer:
        try:
            return ask(f"{system}\n{flat(messages)}")
        except ModelFailed as failed:
            if failed.kind == "overflow":
                raise ContextWindowOverflowException(str(failed)) from failed
            raise

    return Scripted(answer, window)


def _text(message: dict[str, Any]) -> str:
    """What a provider counts of a message."""
    content = message["content"]
    calls = "".join(
        call["function"]["name"] + call["function"]["arguments"] for call in message.get("tool_calls", ())
    )
    return (content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)) + calls


def to_strands(messages: Messages) -> list[Any]:
    """OpenAI's shape as Bedrock's; the system prompt is not a message there."""
    made: list[Any] = []
    for message in messages:
        role, content = message["role"], message.get("content")
        if role == "system":
            continue
        if role == "tool":
            result = {
                "toolUseId": message["tool_call_id"],
                "status": "success",
                "content": [{"text": content}],
            }
            if made and made[-1]["role"] == "user" and "toolResult" in made[-1]["content"][0]:
                made[-1]["content"].append({"toolResult": result})
            else:
                made.append({"role": "user", "content": [{"toolResult": result}]})
            continue
        blocks: list[Any] = [{"text": content}] if isinstance(content, str) and content else []
        for block in content if isinstance(content, list) else ():
            if block["type"] == "thinking":
                text = {"text": block["thinking"], "signature": block["signature"]}
                blocks.append({"reasoningContent": {"reasoningText": text}})
            else:
                blocks.append({"text": block["text"]})
        for call in message.get("tool_calls", ()):
            function = call["function"]
            use = {
                "toolUseId": call["id"],
                "name": function["name"],
                "input": json.loads(function["arguments"]),
            }
            blocks.append({"toolUse": use})
        made.append({"role": role, "content": blocks})
    return made


def from_strands(chat: list[Any]) -> Messages:
    """Back to OpenAI's shape."""
    made: Messages = []
    for message in chat:
        texts, calls, thoughts = [], [], []
        for block in message["content"]:
            if "toolResult" in block:
                result = block["toolResult"]
                text = "".join(part.get("text", "") for part in result["content"])
                made.append({"role": "tool", "tool_call_id": result["toolUseId"], "content": text})
            elif "toolUse" in block:
                use = block["toolUse"]
                function = {"name": use["name"], "arguments": json.dumps(use["input"])}
                calls.append({"id": use["toolUseId"], "type": "function", "function": function})
            elif "reasoningContent" in block:
                told = block["reasoningContent"]["reasoningText"]
                thoughts.append(
                    {"type": "thinking", "thinking": told["text"], "signature": told["signature"]}
                )
            elif "text" in block:
                texts.append(block["text"])
        if not (texts or calls or thoughts):
            continue
        content: Any = "\n".join(texts)
        content = [*thoughts, *({"type": "text", "text": text} for text in texts)] if thoughts else content
        made.append({"role": message["role"], "content": content, **({"tool_calls": calls} if calls else {})})
    return made


if __name__ == "__main__":
    serve(Strands)
