"""LangChain: SummarizationMiddleware, ContextEditingMiddleware and trim_messages, as documented.

    summarization   trigger at the budget, the last half of it kept, half of the summariser's window to it;
                    in turns a graph with a checkpointer, whose earlier states can be read back
    editing         ClearToolUsesEdit at the budget, the last three results kept (the default)
    trim            strategy "last", system kept, starts on a human message, ends on a human or tool message:
                    where no human message fits, as in a long loop of calls, only the system prompt is left

Editing and trimming change the request alone: in turns the state keeps every message.

https://docs.langchain.com/oss/python/langchain/middleware/built-in
https://langchain-ai.github.io/langgraph/how-tos/create-react-agent-manage-message-history
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from chats import ScriptedChat, from_langchain, to_langchain
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, SummarizationMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, RemoveMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately, trim_messages
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from serving import HUGE, Adapter, Answer, Messages, Thunk, at_once, serve

THREAD: Any = {"configurable": {"thread_id": "matrix"}}


class LangChain(Adapter):
    """The three ways."""

    package = "langchain"
    ways = ("summarization", "editing", "trim")

    def __init__(self, way: str) -> None:
        super().__init__(way)
        self.chat: list[Any] = []
        self.saver = InMemorySaver()

    def fold(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """What the model is sent."""
        folder = self._folder(budget, ScriptedChat.asking(ask, window))
        # an agent's system prompt is not part of its messages; trimming keeps it by its own means
        system, rest = ([], to_langchain(messages)) if self.way == "trim" else _apart(to_langchain(messages))
        return from_langchain(system + folder(rest))

    def start(self) -> None:
        """A new thread."""
        self.chat, self.saver = [], InMemorySaver()

    def turn(self, messages: Messages, budget: int, ask: Callable[[str], Answer], window: int) -> Messages:
        """The state is replaced by the summary and what is kept, or it keeps all and the request is cut."""
        chat = to_langchain(messages)
        if self.way != "summarization":
            self.chat += chat
            return self.fold(from_langchain(self.chat), budget, ask, window)
        system, rest = _apart(chat)
        self.chat = system or self.chat
        middleware = self._summarization(budget, ScriptedChat.asking(ask, window))
        graph = StateGraph(MessagesState)
        graph.add_node("before_model", lambda state: middleware.before_model(state, None) or {})  # type: ignore[arg-type]
        graph.add_edge(START, "before_model")
        done = graph.compile(checkpointer=self.saver).invoke({"messages": rest}, THREAD)
        return from_langchain(self.chat + done["messages"])

    def kept(self) -> str:
        """Earlier checkpoints hold what the state no longer has; a function's caller keeps the list."""
        if self.way != "summarization":
            return super().kept()
        states = StateGraph(MessagesState).add_node("n", lambda _: {}).add_edge(START, "n")
        history = states.compile(checkpointer=self.saver).get_state_history(THREAD)
        return "\n".join(str(from_langchain(state.values.get("messages", []))) for state in history)

    def _folder(self, budget: int, model: ScriptedChat) -> Callable[[list[Any]], list[Any]]:
        """From a chat to what is sent, all that can be made before standing ready."""
        if self.way == "trim":
            return partial(
                trim_messages,
                max_tokens=budget,
                strategy="last",
                token_counter=count_tokens_approximately,
                start_on="human",
                end_on=("human", "tool"),
                include_system=True,
            )
        if self.way == "editing":
            editing = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=budget)])
            return lambda chat: _edited(editing, chat, model)
        middleware = self._summarization(budget, model)

        def summarized(chat: list[Any]) -> list[Any]:
            update = middleware.before_model({"messages": chat}, None)  # type: ignore[arg-type]
            if update is None:
                return chat
            return [message for message in update["messages"] if not isinstance(message, RemoveMessage)]

        return summarized

    @staticmethod
    def _summarization(budget: int, model: ScriptedChat) -> SummarizationMiddleware[Any, Any]:
        return SummarizationMiddleware(
            model=model,
            trigger=("tokens", budget),
            keep=("tokens", max(1, budget // 2)),
            trim_tokens_to_summarize=max(1, model.window // 2),
        )

    def convert(self, messages: Messages) -> Thunk:
        """Its own messages of plain dicts."""
        return lambda: to_langchain(messages)

    def decide(self, messages: Messages) -> Callable[[], Thunk]:
        """Whether it is time, with a budget that is never reached."""
        chat, folder = to_langchain(messages), self._folder(HUGE, ScriptedChat.asking(at_once, 128_000))
        return lambda: lambda: folder(chat)

    def act(self, messages: Messages) -> Callable[[], Thunk]:
        """Cut to a quarter; the summary's trigger is twice what is kept."""
        chat, model = to_langchain(messages), ScriptedChat.asking(at_once, 128_000)
        quarter = count_tokens_approximately(chat) // 4
        folder = self._folder(quarter * 2 if self.way == "summarization" else quarter, model)
        return lambda: lambda: folder(chat)

    def estimate(self, messages: Messages) -> Thunk:
        """`count_tokens_approximately`, the default of all three."""
        chat = to_langchain(messages)
        return lambda: count_tokens_approximately(chat)


def _edited(editing: ContextEditingMiddleware, chat: list[Any], model: ScriptedChat) -> list[Any]:
    sent: list[Any] = []

    def handler(request: ModelRequest[Any]) -> ModelResponse[Any]:
        sent.extend(request.messages)
        return ModelResponse(result=[AIMessage("")])

    editing.wrap_model_call(ModelRequest(model=model, messages=chat), handler)
    return sent


def _apart(chat: list[Any]) -> tuple[list[Any], list[Any]]:
    first = 1 if chat and isinstance(chat[0], SystemMessage) else 0
    return chat[:first], chat[first:]


if __name__ == "__main__":
    serve(LangChain)
