"""summarization-pydantic-ai: the ContextManagerCapability that its README recommends, and its two processors.

    manager     ContextManagerCapability(max_tokens=budget): compresses at 90 %, keeps what is in flight
    processor   create_summarization_processor: trigger at the budget, the last half of it kept
    sliding     create_sliding_window_processor: the same without a model

With the pydantic-ai that is pinned, what a capability's hook gives is the request alone: the run's history
stays whole, and the manager summarises anew at every request over its threshold. What a processor gives
replaces the history. No request is made while a call waits for its result.

https://github.com/vstorm-co/summarization-pydantic-ai
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_summarization import (
    ContextManagerCapability,
    count_tokens_approximately,
    create_sliding_window_processor,
    create_summarization_processor,
)
from serving import HUGE, Adapter, Answer, Messages, Thunk, at_once, flat, serve


class PydanticAI(Adapter):
    """The three ways."""

    package = "summarization-pydantic-ai"
    ways = ("manager", "processor", "sliding")

    def __init__(self, way: str) -> None:
        super().__init__(way)
        self.loop = asyncio.new_event_loop()
        self.head: Messages = []
        self.chat: list[Any] = []

    def fold(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """What the capability gives to the model."""
        del window  # there is no knob for the summariser's window
        # an agent's instructions are not part of its messages
        head = messages[:1] if messages and messages[0]["role"] == "system" else []
        return head + from_pydantic(self._folder(budget, ask)(to_pydantic(messages[len(head) :])))

    def _folder(self, budget: int, ask: Callable[[str], Answer]) -> Callable[[list[Any]], list[Any]]:
        model = FunctionModel(lambda chat, info: _answered(ask, chat, info))
        if self.way != "manager":
            sizes: Any = {"trigger": ("tokens", budget), "keep": ("tokens", max(1, budget // 2))}
            processor: Any = (
                create_sliding_window_processor(**sizes)
                if self.way == "sliding"
                else create_summarization_processor(model=model, **sizes)
            )
            return lambda chat: self.loop.run_until_complete(_awaited(processor(chat)))
        manager = ContextManagerCapability(max_tokens=budget, summarization_model=model)
        wishes = ModelRequestParameters()

        def folded(chat: list[Any]) -> list[Any]:
            request = ModelRequestContext(
                model=model, messages=chat, model_settings=None, model_request_parameters=wishes
            )
            done = self.loop.run_until_complete(manager.before_model_request(None, request))
            told: list[Any] = done.messages
            return told

        return folded

    def start(self) -> None:
        """A new run."""
        self.head, self.chat = [], []

    def turn(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """A capability changes the request, a processor the run's history too."""
        del window
        head = messages[:1] if messages and messages[0]["role"] == "system" else []
        self.head = head or self.head
        self.chat = [*self.chat, *to_pydantic(messages[len(head) :], self.chat)]
        if _waits(self.chat):
            return self.head + from_pydantic(self.chat)
        sent = self._folder(budget, ask)(self.chat)
        self.chat = self.chat if self.way == "manager" else list(sent)
        return self.head + from_pydantic(sent)

    def kept(self) -> str:
        """The run's history, `all_messages`."""
        return json.dumps(from_pydantic(self.chat), ensure_ascii=False)

    def convert(self, messages: Messages) -> Thunk:
        """Its own messages of plain dicts."""
        return lambda: to_pydantic(messages)

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """Whether it is time, with a budget that is never reached."""
        chat, folder = to_pydantic(messages), self._folder(HUGE, at_once)
        return lambda: lambda: folder(chat)

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """Cut; the capability keeps what is in flight, the window a quarter."""
        chat = to_pydantic(messages)
        folder = self._folder(count_tokens_approximately(chat) // 2, at_once)
        return lambda: lambda: folder(chat)

    def estimate(self, messages: Messages) -> Thunk:
        """Its default counter."""
        chat = to_pydantic(messages)
        return lambda: count_tokens_approximately(chat)


def _waits(chat: list[Any]) -> bool:
    """Whether the last message is a response with calls: the tools run before there is a request again."""
    last = chat[-1]
    return isinstance(last, ModelResponse) and any(isinstance(part, ToolCallPart) for part in last.parts)


async def _awaited(value: Any) -> Any:
    return await value if asyncio.iscoroutine(value) else value


def _answered(ask: Callable[[str], Answer], chat: list[Any], info: Any) -> ModelResponse:
    said = ask(f"{info.instructions or ''}\n{flat(from_pydantic(chat))}")
    parts: list[Any] = [TextPart(said.text)] if said.text else []
    parts += [ToolCallPart("read_file", {}, f"call_{number}") for number in range(said.calls)]
    ends = {"length": "length", "refusal": "content_filter", "tool_calls": "tool_call"}
    return ModelResponse(parts=parts, finish_reason=ends.get(said.finish, "stop"))


def to_pydantic(messages: Messages, before: list[Any] | None = None) -> list[Any]:
    """OpenAI's shape as requests and responses; results of parallel calls share a request."""
    made: list[Any] = []
    names: dict[str, str] = {
        part.tool_call_id: part.tool_name
        for message in before or ()
        for part in message.parts
        if isinstance(part, ToolCallPart)
    }
    for message in messages:
        role, content = message["role"], message.get("content")
        if role == "assistant":
            parts = [TextPart(content)] if isinstance(content, str) and content else []
            for block in content if isinstance(content, list) else ():
                if block["type"] == "thinking":
                    parts.append(
                        ThinkingPart(
                            block["thinking"], signature=block["signature"], provider_name="anthropic"
                        )
                    )
                else:
                    parts.append(TextPart(block["text"]))
            for call in message.get("tool_calls", ()):
                names[call["id"]] = call["function"]["name"]
                parts.append(
                    ToolCallPart(call["function"]["name"], call["function"]["arguments"], call["id"])
                )
            made.append(ModelResponse(parts=parts))
            continue
        if role == "tool":
            name = message["tool_call_id"]
            part: Any = ToolReturnPart(names.get(name, "tool"), content, name)
        else:
            part = SystemPromptPart(content) if role == "system" else UserPromptPart(content)
        if made and isinstance(made[-1], ModelRequest):
            made[-1].parts = [*made[-1].parts, part]
        else:
            made.append(ModelRequest(parts=[part]))
    return made


def from_pydantic(chat: list[Any]) -> Messages:
    """Back to OpenAI's shape."""
    made: Messages = []
    for message in chat:
        if isinstance(message, ModelResponse):
            made.append(_response(message))
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                content = part.model_response_str()
                made.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": content})
            else:
                role = "system" if isinstance(part, SystemPromptPart) else "user"
                made.append({"role": role, "content": part.content})
    return made


def _response(message: ModelResponse) -> dict[str, Any]:
    texts = [part.content for part in message.parts if isinstance(part, TextPart)]
    thoughts = [
        {"type": "thinking", "thinking": part.content, "signature": part.signature}
        for part in message.parts
        if isinstance(part, ThinkingPart)
    ]
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": part.args},
        }
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    content: Any = "\n".join(texts)
    content = [*thoughts, *({"type": "text", "text": text} for text in texts)] if thoughts else content
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


if __name__ == "__main__":
    serve(PydanticAI)
