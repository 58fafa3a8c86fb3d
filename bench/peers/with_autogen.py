"""AutoGen: the model contexts that keep a part of the history; none of them asks a model.

    tokens     TokenLimitedChatCompletionContext(token_limit=budget); the client counts as a provider does
               where it can ask (the matrix) and four characters a token where not (the speed): the OpenAI
               client's own counter loads its vocabulary from the network
    buffered   BufferedChatCompletionContext, as many messages as fit the budget on average of the first turn
    head_tail  HeadAndTailChatCompletionContext, a fifth of that number at the head, the rest at the tail

https://microsoft.github.io/autogen/stable/user-guide/core-user-guide/components/model-context.html
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from autogen_core import FunctionCall
from autogen_core.model_context import (
    BufferedChatCompletionContext,
    HeadAndTailChatCompletionContext,
    TokenLimitedChatCompletionContext,
)
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    SystemMessage,
    UserMessage,
)
from autogen_ext.models.replay import ReplayChatCompletionClient
from serving import HUGE, Adapter, Answer, Messages, Thunk, serve, tokens


class Client(ReplayChatCompletionClient):
    """The client for tests, with a counter that knows calls and results."""

    def __init__(self, counted: Callable[[str], int]) -> None:
        super().__init__([])
        self.counted = counted

    def count_tokens(self, messages: Sequence[Any], *, tools: Sequence[Any] = ()) -> int:
        """What is said, and four tokens a message."""
        del tools
        return sum(self.counted(str(message.content)) + 4 for message in messages)


class AutoGen(Adapter):
    """The three contexts."""

    package = "autogen-core"
    ways = ("tokens", "buffered", "head_tail")

    def __init__(self, way: str) -> None:
        super().__init__(way)
        self.loop = asyncio.new_event_loop()
        self.said: Messages = []
        self.size = 0
        """Messages that a buffer of this conversation holds; chosen once."""

    def fold(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """What the context shows."""
        del ask, window  # no model is asked
        # an assistant's system message is not part of its context
        head = messages[:1] if messages and messages[0]["role"] == "system" else []
        return head + from_autogen(self._shown(self._context(messages[len(head) :], budget)))

    def turn(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """The context keeps every message and shows a part."""
        self.said += messages
        self.size = self.size or _fitting(messages, budget)
        return self.fold(self.said, budget, ask, window)

    def start(self) -> None:
        """A new conversation."""
        self.said, self.size = [], 0

    def kept(self) -> str:
        """Everything stays in the context."""
        return json.dumps(self.said, ensure_ascii=False)

    def _context(self, messages: Messages, budget: int) -> Any:
        chat = to_autogen(messages)
        if self.way == "tokens":
            client = Client(self.counted)
            return TokenLimitedChatCompletionContext(client, token_limit=budget, initial_messages=chat)
        size = max(2, min(self.size or _fitting(messages, budget), len(chat)))
        if self.way == "buffered":
            return BufferedChatCompletionContext(buffer_size=size, initial_messages=chat)
        head = max(1, size // 5)
        return HeadAndTailChatCompletionContext(head, max(1, size - head), initial_messages=chat)

    def _shown(self, context: Any) -> list[Any]:
        shown: list[Any] = self.loop.run_until_complete(context.get_messages())
        return shown

    def convert(self, messages: Messages) -> Thunk:
        """Its own messages of plain dicts."""
        return lambda: to_autogen(messages)

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """What to show where all of it may be shown."""
        context = self._context(messages, HUGE)
        return lambda: lambda: self._shown(context)

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """Cut to a quarter."""
        context = self._context(messages, tokens(messages) // 4)
        return lambda: lambda: self._shown(context)


def _fitting(messages: Messages, budget: int) -> int:
    """How many messages like these fit a budget."""
    return len(to_autogen(messages)) * budget // max(1, tokens(messages))


def to_autogen(messages: Messages) -> list[Any]:
    """OpenAI's shape as AutoGen's messages; results of parallel calls share one."""
    made: list[Any] = []
    names: dict[str, str] = {}
    for message in messages:
        role, content = message["role"], message.get("content") or ""
        if role == "tool":
            name = message["tool_call_id"]
            result = FunctionExecutionResult(content=content, call_id=name, name=names.get(name, "tool"))
            if made and isinstance(made[-1], FunctionExecutionResultMessage):
                made[-1].content.append(result)
            else:
                made.append(FunctionExecutionResultMessage(content=[result]))
        elif role == "user":
            made.append(UserMessage(content=content, source="user"))
        elif role == "system":
            made.append(SystemMessage(content=content))
        else:
            thought = content if isinstance(content, str) else json.dumps(content)
            calls = [
                FunctionCall(call["id"], call["function"]["arguments"], call["function"]["name"])
                for call in message.get("tool_calls", ())
            ]
            names.update({call.id: call.name for call in calls})
            said = {"content": calls, "thought": thought} if calls else {"content": thought}
            made.append(AssistantMessage(source="assistant", **said))
    return made


def from_autogen(chat: list[Any]) -> Messages:
    """Back to OpenAI's shape."""
    made: Messages = []
    for message in chat:
        if isinstance(message, FunctionExecutionResultMessage):
            made += [
                {"role": "tool", "tool_call_id": result.call_id, "content": result.content}
                for result in message.content
            ]
        elif isinstance(message, AssistantMessage) and isinstance(message.content, list):
            calls = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in message.content
            ]
            made.append({"role": "assistant", "content": _blocks(message.thought or ""), "tool_calls": calls})
        else:
            roles = {"UserMessage": "user", "AssistantMessage": "assistant", "SystemMessage": "system"}
            made.append({"role": roles[message.type], "content": _blocks(message.content)})
    return made


def _blocks(text: str) -> Any:
    """Thinking blocks travelled as text: AutoGen has no place for a signature."""
    return json.loads(text) if text.startswith('[{"type": "thinking"') else text


if __name__ == "__main__":
    serve(AutoGen)
