"""Microsoft's agent-framework: `apply_compaction` with a token budget over three strategies.

The order is that of its documentation, gentle to hard: old tool results collapse, older groups are summarised
(at most the summariser's window at once), then a sliding window; its own fallback enforces the budget.
`truncation` is the TruncationStrategy alone, to a quarter of the budget's trigger.

https://learn.microsoft.com/agent-framework/concepts/agents/conversations/compaction
"""

import asyncio
import copy
from collections.abc import Callable
from typing import Any

from agent_framework import (
    CharacterEstimatorTokenizer,
    ChatResponse,
    Content,
    Message,
    SlidingWindowStrategy,
    SummarizationStrategy,
    TokenBudgetComposedStrategy,
    ToolResultCompactionStrategy,
    TruncationStrategy,
    apply_compaction,
)
from serving import HUGE, Adapter, Answer, Messages, Thunk, at_once, flat, serve


class Client:
    """A chat client that answers through the protocol."""

    def __init__(self, ask: Callable[[str], Answer]) -> None:
        self.ask = ask

    async def get_response(self, messages: list[Message], **_options: Any) -> ChatResponse[Any]:
        """One answer."""
        said = self.ask(flat(from_framework(messages)))
        contents: list[Any] = [said.text] if said.text else []
        contents += [
            Content.from_function_call(f"call_{number}", "read_file", arguments="{}")
            for number in range(said.calls)
        ]
        ends = {"length": "length", "refusal": "content_filter", "tool_calls": "tool_calls"}
        return ChatResponse(
            messages=[Message("assistant", contents)], finish_reason=ends.get(said.finish, "stop")
        )


class AgentFramework(Adapter):
    """The two ways."""

    package = "agent-framework-core"
    ways = ("composed", "truncation")

    def __init__(self, way: str) -> None:
        super().__init__(way)
        self.loop = asyncio.new_event_loop()
        self.chat: list[Message] = []

    def fold(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """What is left in."""
        return from_framework(self._folded(to_framework(messages), self._strategy(budget, ask, window)))

    def start(self) -> None:
        """A new conversation."""
        self.chat = []

    def turn(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """The history keeps what is excluded, marked as such."""
        self.chat += to_framework(messages)
        return from_framework(self._folded(self.chat, self._strategy(budget, ask, window)))

    def kept(self) -> str:
        """Excluded messages stay in the history."""
        return str(from_framework(self.chat))

    def _folded(self, chat: list[Message], strategy: Any) -> list[Message]:
        tokenizer = CharacterEstimatorTokenizer()
        return self.loop.run_until_complete(apply_compaction(chat, strategy=strategy, tokenizer=tokenizer))

    def _strategy(self, budget: int, ask: Callable[[str], Answer], window: int) -> Any:
        tokenizer = CharacterEstimatorTokenizer()
        if self.way == "truncation":
            return TruncationStrategy(max_n=budget, compact_to=max(1, budget // 4), tokenizer=tokenizer)
        summarize = SummarizationStrategy(
            client=Client(ask), target_count=4, threshold=2, max_summary_input_tokens=window * 3 // 4
        )
        steps = [
            ToolResultCompactionStrategy(keep_last_tool_call_groups=1),
            summarize,
            SlidingWindowStrategy(keep_last_groups=20),
        ]
        return TokenBudgetComposedStrategy(token_budget=budget, tokenizer=tokenizer, strategies=steps)

    def convert(self, messages: Messages) -> Thunk:
        """Its own messages of plain dicts."""
        return lambda: to_framework(messages)

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """Whether it is time; annotations of the turn before are there, as in life."""
        chat, strategy = to_framework(messages), self._strategy(HUGE, at_once, 128_000)
        self._folded(chat, strategy)

        def fresh() -> Thunk:
            chat.append(Message("user", ["And now the next module, please."]))
            return lambda: self._folded(chat, strategy)

        return fresh

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """Cut to a quarter."""
        chat = to_framework(messages)
        quarter = len(flat(messages)) // 16

        def fresh() -> Thunk:
            mine = [copy.copy(message) for message in chat]
            for message in mine:
                message.additional_properties = {}
            budget = quarter if self.way == "composed" else quarter * 4
            return lambda: self._folded(mine, self._strategy(budget, at_once, 128_000))

        return fresh

    def estimate(self, messages: Messages) -> Thunk:
        """Four characters a token, over the serialised messages."""
        from agent_framework._compaction import (
            annotate_message_groups,
            annotate_token_counts,
            included_token_count,
        )

        chat, tokenizer = to_framework(messages), CharacterEstimatorTokenizer()

        def estimated() -> int:
            annotate_message_groups(chat, force_reannotate=True)
            annotate_token_counts(chat, tokenizer=tokenizer, force_retokenize=True)
            return included_token_count(chat)

        return estimated


def to_framework(messages: Messages) -> list[Message]:
    """OpenAI's shape as messages with contents."""
    made: list[Message] = []
    for message in messages:
        role, content = message["role"], message.get("content")
        if role == "tool":
            contents = [Content.from_function_result(message["tool_call_id"], result=content)]
            made.append(Message("tool", contents))
            continue
        contents = [Content.from_text(content)] if isinstance(content, str) and content else []
        for block in content if isinstance(content, list) else ():
            if block["type"] == "thinking":
                contents.append(
                    Content.from_text_reasoning(text=block["thinking"], protected_data=block["signature"])
                )
            else:
                contents.append(Content.from_text(block["text"]))
        contents += [
            Content.from_function_call(
                call["id"], call["function"]["name"], arguments=call["function"]["arguments"]
            )
            for call in message.get("tool_calls", ())
        ]
        made.append(Message(role, contents))
    return made


def from_framework(chat: list[Message]) -> Messages:
    """Back to OpenAI's shape."""
    made: Messages = []
    for message in chat:
        texts, calls, thoughts = [], [], []
        for part in message.contents:
            if part.type == "function_result":
                made.append({"role": "tool", "tool_call_id": part.call_id, "content": str(part.result)})
            elif part.type == "function_call":
                function = {"name": part.name, "arguments": part.arguments}
                calls.append({"id": part.call_id, "type": "function", "function": function})
            elif part.type == "text_reasoning":
                thoughts.append({"type": "thinking", "thinking": part.text, "signature": part.protected_data})
            elif part.type == "text":
                texts.append(part.text)
        if not (texts or calls or thoughts):
            continue
        content: Any = "\n".join(texts)
        content = [*thoughts, *({"type": "text", "text": text} for text in texts)] if thoughts else content
        made.append(
            {"role": str(message.role), "content": content, **({"tool_calls": calls} if calls else {})}
        )
    return made


if __name__ == "__main__":
    serve(AgentFramework)
