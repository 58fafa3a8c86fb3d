"""LangChain's messages and a scripted chat model; shared by the adapters of LangChain and langmem."""

import json
import uuid
from collections.abc import Callable
from typing import Any

from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from serving import Answer, Messages, ModelFailed, flat


class ScriptedChat(BaseChatModel):
    """A chat model that answers through the protocol and fails as providers' models do."""

    ask: Callable[[str], Answer]
    window: int

    @classmethod
    def asking(cls, ask: Callable[[str], Answer], window: int) -> "ScriptedChat":
        """A model with a profile, as the providers' models have one."""
        return cls(ask=ask, window=window, profile={"max_input_tokens": window})

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_options: Any
    ) -> ChatResult:
        del stop, run_manager
        try:
            said = self.ask(flat(from_langchain(messages)))
        except ModelFailed as failed:
            if failed.kind == "overflow":
                raise ContextOverflowError(str(failed)) from failed
            if failed.kind == "timeout":
                raise TimeoutError(str(failed)) from failed
            raise
        calls = [{"name": "read_file", "args": {}, "id": f"call_{n}"} for n in range(said.calls)]
        message = AIMessage(said.text, tool_calls=calls, response_metadata={"finish_reason": said.finish})
        return ChatResult(generations=[ChatGeneration(message=message)])


def to_langchain(messages: Messages) -> list[Any]:
    """OpenAI's shape as LangChain's messages, each with an id as LangGraph gives them."""
    return [_message(message) for message in messages]


def _message(message: dict[str, Any]) -> BaseMessage:
    role, content, name = message["role"], message.get("content") or "", str(uuid.uuid4())
    if role == "system":
        return SystemMessage(content, id=name)
    if role == "user":
        return HumanMessage(content, id=name)
    if role == "tool":
        return ToolMessage(content, tool_call_id=message["tool_call_id"], id=name)
    calls = [
        {
            "id": call["id"],
            "name": call["function"]["name"],
            "args": json.loads(call["function"]["arguments"]),
        }
        for call in message.get("tool_calls", ())
    ]
    return AIMessage(content, tool_calls=calls, id=name)


def from_langchain(chat: list[Any]) -> Messages:
    """Back to OpenAI's shape; content that is a list stays one."""
    roles = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
    made: Messages = []
    for message in chat:
        told: dict[str, Any] = {"role": roles[message.type], "content": message.content}
        if message.type == "tool":
            told["tool_call_id"] = message.tool_call_id
        if calls := getattr(message, "tool_calls", None):
            told["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["name"], "arguments": json.dumps(call["args"])},
                }
                for call in calls
            ]
        made.append(told)
    return made
