"""langmem: `summarize_messages` with its running summary, as its documentation sets it up.

`max_tokens` is the budget, also for the summariser's request (langmem takes one number for both); at most a
quarter of it and 256 tokens, its default, are planned for the summary.

https://langchain-ai.github.io/langmem/guides/summarization/
"""

from collections.abc import Callable
from typing import Any

from chats import ScriptedChat, from_langchain, to_langchain
from langchain_core.messages.utils import count_tokens_approximately
from langmem.short_term import RunningSummary, summarize_messages
from serving import HUGE, Adapter, Answer, Messages, Thunk, at_once, serve


class LangMem(Adapter):
    """Summaries that run along."""

    package = "langmem"
    ways = ("summarize",)

    def __init__(self, way: str) -> None:
        super().__init__(way)
        self.chat: list[Any] = []
        self.summary: RunningSummary | None = None

    def fold(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """Summarise once, with no summary before."""
        done = _summarized(to_langchain(messages), None, budget, ScriptedChat.asking(ask, window))
        return from_langchain(done.messages)

    def start(self) -> None:
        """A new conversation."""
        self.chat, self.summary = [], None

    def turn(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """The messages stay in the graph's state; the summary runs along."""
        self.chat += to_langchain(messages)
        done = _summarized(self.chat, self.summary, budget, ScriptedChat.asking(ask, window))
        self.summary = done.running_summary or self.summary
        return from_langchain(done.messages)

    def kept(self) -> str:
        """The state holds every message."""
        return str(from_langchain(self.chat))

    def convert(self, messages: Messages) -> Thunk:
        """Its own messages of plain dicts."""
        return lambda: to_langchain(messages)

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """Whether it is time, with a budget that is never reached."""
        chat, model = to_langchain(messages), ScriptedChat.asking(at_once, 128_000)
        return lambda: lambda: _summarized(chat, None, HUGE, model)

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """Cut to a quarter."""
        chat, model = to_langchain(messages), ScriptedChat.asking(at_once, 128_000)
        quarter = count_tokens_approximately(chat) // 4
        return lambda: lambda: _summarized(chat, None, quarter, model)

    def estimate(self, messages: Messages) -> Thunk:
        """`count_tokens_approximately`, its default."""
        chat = to_langchain(messages)
        return lambda: count_tokens_approximately(chat)


def _summarized(chat: list[Any], summary: RunningSummary | None, budget: int, model: ScriptedChat) -> Any:
    return summarize_messages(
        chat,
        running_summary=summary,
        model=model,
        max_tokens=budget,
        max_summary_tokens=max(1, min(256, budget // 4)),
    )


if __name__ == "__main__":
    serve(LangMem)
