"""LangChain: SummarizationMiddleware, ContextEditingMiddleware and trim_messages, as documented.

    summarization   trigger at the budget, keep the last half of it, up to the summariser's window to
    summarise
    editing         ClearToolUsesEdit at the budget, the last three results kept (the default)
    trim            strategy "last", system kept, starts on a human message, ends on a human or tool message

https://docs.langchain.com/oss/python/langchain/middleware/built-in
"""

from collections.abc import Callable
from typing import Any

from chats import ScriptedChat, from_langchain, to_langchain
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, SummarizationMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, RemoveMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately, trim_messages
from serving import HUGE, Adapter, Answer, Messages, Thunk, at_once, serve


class LangChain(Adapter):
    """The three ways."""

    package = "langchain"
    ways = ("summarization", "editing", "trim")

    def fold(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """What the model is sent."""
        return from_langchain(self._folded(to_langchain(messages), budget, ScriptedChat.asking(ask, window)))

    def _folded(self, chat: list[Any], budget: int, model: ScriptedChat) -> list[Any]:
        if self.way == "trim":
            return trim_messages(
                chat,
                max_tokens=budget,
                strategy="last",
                token_counter=count_tokens_approximately,
                start_on="human",
                end_on=("human", "tool"),
                include_system=True,
            )
        # an agent's system prompt is not part of its messages
        system, rest = _apart(chat)
        if self.way == "editing":
            return system + self._edited(rest, budget, model)
        middleware = SummarizationMiddleware(
            model=model,
            trigger=("tokens", budget),
            keep=("tokens", max(1, budget // 2)),
            trim_tokens_to_summarize=max(4_000, model.window // 2),
        )
        update = middleware.before_model({"messages": rest}, None)
        if update is None:
            return system + rest
        return system + [message for message in update["messages"] if not isinstance(message, RemoveMessage)]

    @staticmethod
    def _edited(chat: list[Any], budget: int, model: ScriptedChat) -> list[Any]:
        middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=budget)])
        sent: list[Any] = []

        def handler(request: ModelRequest[Any]) -> ModelResponse[Any]:
            sent.extend(request.messages)
            return ModelResponse(result=[AIMessage("")])

        middleware.wrap_model_call(ModelRequest(model=model, messages=chat), handler)
        return sent

    def kept(self) -> str:
        """The state's messages are replaced; trimming and editing change the request alone."""
        return self.held() if self.way == "summarization" else super().kept()

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """Whether it is time, with a budget that is never reached."""
        chat, model = to_langchain(messages), ScriptedChat.asking(at_once, 128_000)
        return lambda: lambda: self._folded(chat, HUGE, model)

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """Cut to a quarter."""
        chat, model = to_langchain(messages), ScriptedChat.asking(at_once, 128_000)
        quarter = count_tokens_approximately(chat) // 4
        return lambda: lambda: self._folded(chat, quarter, model)

    def estimate(self, messages: Messages) -> Thunk:
        """`count_tokens_approximately`, the default of all three."""
        chat = to_langchain(messages)
        return lambda: count_tokens_approximately(chat)


def _apart(chat: list[Any]) -> tuple[list[Any], list[Any]]:
    first = 1 if chat and isinstance(chat[0], SystemMessage) else 0
    return chat[:first], chat[first:]


if __name__ == "__main__":
    serve(LangChain)
