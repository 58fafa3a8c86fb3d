"""LlamaIndex: the Memory that its documentation recommends, and the ChatSummaryMemoryBuffer before it.

    summary   ChatSummaryMemoryBuffer(llm, token_limit=budget / 2): deprecated, but the one that summarises
    memory    Memory.from_defaults(token_limit=budget): the newest messages stay in the queue, no model is
              asked. It never cuts inside a user's turn: a loop of calls stays whole however long it is

https://developers.llamaindex.ai/python/framework/module_guides/deploying/agents/memory/
"""

from collections.abc import Callable
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
    TextBlock,
    ThinkingBlock,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.memory import ChatSummaryMemoryBuffer, Memory
from serving import HUGE, Adapter, Answer, Messages, Thunk, at_once, serve, tokens


class Scripted(CustomLLM):
    """A model that answers through the protocol."""

    ask: Callable[[str], Answer]
    window: int

    @property
    def metadata(self) -> LLMMetadata:
        """The window."""
        return LLMMetadata(context_window=self.window)

    def complete(self, prompt: str, formatted: bool = False, **_options: Any) -> CompletionResponse:  # noqa: FBT001, FBT002
        """One answer."""
        del formatted
        said = self.ask(prompt)
        return CompletionResponse(text=said.text, raw={"finish_reason": said.finish})

    def stream_complete(self, prompt: str, formatted: bool = False, **_options: Any) -> Any:  # noqa: FBT001, FBT002
        """Not needed here."""
        raise NotImplementedError


class LlamaIndex(Adapter):
    """The two memories."""

    package = "llama-index-core"
    ways = ("summary", "memory")
    memory: Any = None
    head: Messages = []  # noqa: RUF012  # never changed in place

    def fold(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """What the memory gives to the model."""
        # an agent's system prompt is not part of its memory
        head = messages[:1] if messages and messages[0]["role"] == "system" else []
        memory = self._memory(to_llama(messages[len(head) :]), budget, Scripted(ask=ask, window=window))
        return head + from_llama(memory.get())

    def _memory(self, chat: list[ChatMessage], budget: int, llm: Scripted) -> Any:
        if self.way == "summary":
            return ChatSummaryMemoryBuffer.from_defaults(
                chat_history=list(chat), llm=llm, token_limit=max(1, budget // 2)
            )
        memory = Memory.from_defaults(token_limit=budget, token_flush_size=max(1, min(3_000, budget // 10)))
        memory.put_messages(chat)
        return memory

    def start(self) -> None:
        """A new memory."""
        self.memory: Any = None

    def turn(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """Put what was said, get what the model is sent."""
        head = messages[:1] if messages and messages[0]["role"] == "system" else []
        self.head = head or self.head
        llm, chat = Scripted(ask=ask, window=window), to_llama(messages[len(head) :])
        if self.memory is None:
            self.memory = self._memory(chat, budget, llm)
        else:
            for message in chat:
                self.memory.put(message)
        if self.way == "summary":
            self.memory.llm = llm
        return self.head + from_llama(self.memory.get())

    def kept(self) -> str:
        """The memory archives what left its queue; the buffer before it forgets."""
        return str([message.content for message in self._all()])

    def _all(self) -> list[Any]:
        if self.way == "summary":
            stored: list[Any] = self.memory.get_all()
            return stored
        from llama_index.core.storage.chat_store.sql import MessageStatus

        return [message for status in MessageStatus for message in self.memory.get_all(status=status)]

    def convert(self, messages: Messages) -> Thunk:
        """Its own messages of plain dicts."""
        return lambda: to_llama(messages)

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """What to give where all of it may be given."""
        memory = self._memory(to_llama(messages), HUGE, Scripted(ask=at_once, window=HUGE))
        return lambda: memory.get

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """Cut to a quarter."""
        chat, llm = to_llama(messages), Scripted(ask=at_once, window=128_000)
        quarter = tokens(messages) // 4
        if self.way == "memory":  # it cuts when it is told, not when it is asked
            return lambda: lambda: self._memory(chat, quarter, llm).get()

        def fresh() -> Thunk:
            return self._memory(chat, quarter * 2, llm).get  # type: ignore[no-any-return]

        return fresh

    def count(self, messages: Messages) -> Thunk:
        """As each counts its own messages, with the tokenizer that is the default."""
        chat = to_llama(messages)
        if self.way == "summary":
            buffer = ChatSummaryMemoryBuffer.from_defaults(llm=Scripted(ask=at_once, window=HUGE))
            return lambda: buffer._token_count_for_messages(chat)  # noqa: SLF001  # what it decides by
        memory = Memory.from_defaults(token_limit=HUGE)
        return lambda: memory._estimate_token_count(chat)  # noqa: SLF001  # what it decides by


def to_llama(messages: Messages) -> list[ChatMessage]:
    """OpenAI's shape; calls stand in additional_kwargs, as LlamaIndex's OpenAI model writes them."""
    made = []
    for message in messages:
        content, more = message.get("content") or "", {}
        if message.get("tool_calls"):
            more["tool_calls"] = message["tool_calls"]
        if message["role"] == "tool":
            more["tool_call_id"] = message["tool_call_id"]
        blocks: Any = content
        if isinstance(content, list):
            blocks = [
                ThinkingBlock(
                    content=block["thinking"], additional_information={"signature": block["signature"]}
                )
                if block["type"] == "thinking"
                else TextBlock(text=block["text"])
                for block in content
            ]
        made.append(ChatMessage(role=MessageRole(message["role"]), content=blocks, additional_kwargs=more))
    return made


def from_llama(chat: list[ChatMessage]) -> Messages:
    """Back to OpenAI's shape."""
    made: Messages = []
    for message in chat:
        content: Any = message.content
        if any(isinstance(block, ThinkingBlock) for block in message.blocks):
            content = [
                {
                    "type": "thinking",
                    "thinking": block.content,
                    "signature": block.additional_information.get("signature"),
                }
                if isinstance(block, ThinkingBlock)
                else {"type": "text", "text": block.text}
                for block in message.blocks
            ]
        told: dict[str, Any] = {"role": message.role.value, "content": content}
        told.update(
            {
                key: message.additional_kwargs[key]
                for key in ("tool_calls", "tool_call_id")
                if key in message.additional_kwargs
            }
        )
        made.append(told)
    return made


if __name__ == "__main__":
    serve(LlamaIndex)
