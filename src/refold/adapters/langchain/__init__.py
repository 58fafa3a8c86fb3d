"""LangChain agents: `RefoldMiddleware` shows the model a view; the agent's state keeps every message.

    agent = create_agent("openai:gpt-4o", tools=tools, middleware=[RefoldMiddleware()], checkpointer=saver)
    agent.invoke({"messages": [("user", "go on")]}, {"configurable": {"thread_id": "t1"}})

It wraps the model call itself. So it sees every request, every answer and every refusal, also inside a long
turn of tool calls, and never writes to the agent's state: checkpoints and time travel stay as they are.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain.tools import ToolRuntime
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config

from refold.adapters.base import Adapter, AsyncTurn, Key, RecallWhen, Turn
from refold.adapters.langchain.messages import BRIDGE
from refold.adapters.langchain.models import ModelAnswerer, ModelFacts, read_model, read_policy
from refold.calls.summariser import AskTarget
from refold.core.compaction.policy import Policy
from refold.errors import RefoldError, warn_caller
from refold.session.async_session import AsyncSession
from refold.session.events import Listener
from refold.session.session import Session
from refold.session.steps.recall import NAME
from refold.stores import Store

_OTHER_COMPACTION: Final = frozenset(
    {
        "SummarizationMiddleware",
        "DeepAgentsSummarizationMiddleware",
        "SummarizationToolMiddleware",
        "ContextEditingMiddleware",
    }
)
"""Classes of LangChain and deepagents that shorten the history themselves; their subclasses too."""
_MAX_DESCRIBED: Final = 256
"""Definitions of tools that are kept; agents that make tools for each request would fill the memory."""


class RefoldMiddleware(Adapter[BaseChatModel], AgentMiddleware):
    """Keeps an agent's conversations inside the model's window; one session for each thread and sub-agent.

    In `middleware=[...]` it stands behind retries and fallbacks, so that each attempt is measured, and before
    prompt caching. `close()` closes the store.
    """

    key_advice = 'run the agent with {"configurable": {"thread_id": "..."}}'

    def __init__(
        self,
        key: Key | None = None,
        *,
        name: str = "RefoldMiddleware",
        policy: str | Policy = "refold",
        ask: AskTarget | BaseChatModel = None,
        store: str | os.PathLike[str] | Store | None = None,
        window: int | str | None = None,
        model: str | None = None,
        max_dollars: float | str | None = None,
        recall: RecallWhen = "always",
        recall_name: str = NAME,
        on_event: Listener | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the options; they are those of every adapter, see `Adapter`.

        key     a callable is given the run's config
        name    "SummarizationMiddleware" takes the place of the one that deepagents has built in
        ask     may also be a chat model of LangChain; it is called without the agent's tools and callbacks
        """
        super().__init__(
            key,
            policy=policy,
            ask=ask,
            store=store,
            window=window,
            model=model,
            max_dollars=max_dollars,
            recall=recall,
            recall_name=recall_name,
            on_event=on_event,
            options=options,
        )
        self._name = name

    def read_ask(self, ask: AskTarget | BaseChatModel) -> AskTarget:
        """Return who writes summaries, which may be a chat model of LangChain."""
        return ModelAnswerer(ask) if isinstance(ask, BaseChatModel) else ask

    def set_up(self) -> None:
        """Remember the model of the last request, and the definitions of tools."""
        self._last_model: tuple[Any, ModelFacts] | None = None
        self._described: dict[int, tuple[Any, Any]] = {}

    @classmethod
    def like(
        cls,
        other: Any,
        *,
        name: str = "RefoldMiddleware",
        store: str | os.PathLike[str] | Store | None = None,
        max_dollars: float | str | None = None,
        recall: RecallWhen = "always",
        key: Key | None = None,
        on_event: Listener | None = None,
    ) -> "RefoldMiddleware":
        """Make one that takes over `trigger`, `keep` and `model` of a `SummarizationMiddleware`.

        Refold folds by tokens. A trigger by the number of messages is left out with a warning; `keep` by the
        number of messages is what the policy keeps anyway, and more if there is room.
        """
        return cls(
            name=name,
            policy=read_policy(other),
            ask=other.model,
            store=store,
            max_dollars=max_dollars,
            recall=recall,
            key=key,
            on_event=on_event,
        )

    @property
    def name(self) -> str:
        """The name of this middleware in the agent."""
        return self._name

    @property
    def tools(self) -> Sequence[BaseTool]:
        """The tool `recall`, unless it is switched off; `create_agent` reads it."""
        _refuse_other_compaction(self)
        return () if self.recall_when is False else (self.recall,)

    @cached_property
    def recall(self) -> BaseTool:
        """The tool by which the model reads what was folded, word for word."""
        parts = self.recall_tool

        def recall(runtime: ToolRuntime, query: str = "", handle: str = "") -> str:
            session = self.sessions.get(self._find_key(runtime.state))
            return session.answer_recall({"query": query, "handle": handle})

        async def arecall(runtime: ToolRuntime, query: str = "", handle: str = "") -> str:
            session = await self.sessions.aget(self._find_key(runtime.state))
            return await session.answer_recall({"query": query, "handle": handle})

        return StructuredTool.from_function(
            recall,
            arecall,
            name=parts.name,
            description=parts.description,
            args_schema=dict(parts.parameters),
        )

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse:
        """Call the model with the view, once more after a refusal for size."""
        session = self.sessions.get(self._find_key(request.state))
        self._follow_request(session, request)

        def call(view: list[AnyMessage]) -> ModelResponse:
            is_folded = self.recall_when == "folded" and session.recall_tool(when="folded") is not None
            tools = self._arrange_tools(request.tools, is_folded=is_folded)
            return handler(request.override(messages=view, tools=tools))

        turn = Turn(session, BRIDGE, request.messages, **self._describe_request(request))
        return turn.send(call, read_answer)

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Do the same in an event loop."""
        session = await self.sessions.aget(self._find_key(request.state))
        self._follow_request(session, request)

        async def call(view: list[AnyMessage]) -> ModelResponse:
            is_folded = self.recall_when == "folded" and await session.recall_tool(when="folded") is not None
            tools = self._arrange_tools(request.tools, is_folded=is_folded)
            return await handler(request.override(messages=view, tools=tools))

        turn = AsyncTurn(session, BRIDGE, request.messages, **self._describe_request(request))
        return await turn.send(call, read_answer)

    def pre_model_hook(self, state: Any) -> dict[str, Any]:
        """Fold for `create_react_agent`, which shows a hook no refusal, no usage and no model.

        So a refusal for size reaches the caller, sizes are estimated, and `model=` or `window=` must be
        given. `create_agent` has none of these limits. The tool: `tools=[*tools, middleware.recall]`.
        """
        session = self.sessions.get(self._find_key(state))
        return {"llm_input_messages": Turn(session, BRIDGE, _read_messages(state)).prepare()}

    def _find_key(self, state: Any) -> str:
        """Return the key of the running conversation: the thread, and inside it the sub-agent."""
        config = get_config()
        thread = config.get("configurable", {}).get("thread_id")
        parts = _name_subgraph(config, _read_messages(state))
        return self.find_key(None if thread is None else str(thread), *parts, request=config)

    def _follow_request(self, session: Session | AsyncSession, request: ModelRequest) -> None:
        """Measure against the model of a request; one that compacts or keeps the history is refused."""
        last = self._last_model
        if last is None or last[0] is not request.model:
            _check_model(request.model)
            last = self._last_model = (request.model, read_model(request.model))
        facts = last[1]  # not of the attribute: another thread may have set it to its own model
        self.follow_model(session, facts.name, endpoint=facts.endpoint, window=facts.window)

    def _arrange_tools(self, tools: Sequence[Any], *, is_folded: bool) -> list[Any]:
        """Return the tools to offer, `recall` last: LangChain puts a middleware's tools first."""
        if self.recall_when is False:
            return list(tools)
        others = [tool for tool in tools if tool is not self.recall]
        if any(_read_tool_name(tool) == self.recall_name for tool in others):
            raise RefoldError(
                f"the agent has a tool {self.recall_name!r} of its own: pass recall_name= to "
                f"{type(self).__name__}"
            )
        return [*others, self.recall] if self.recall_when == "always" or is_folded else others

    def _describe_request(self, request: ModelRequest) -> dict[str, Any]:
        """Return what a request carries beside its messages, to be measured."""
        system = request.system_message
        tools = self._arrange_tools(request.tools, is_folded=True)
        return {
            "system": None if system is None else system.content,
            "tools": [self._describe_tool(tool) for tool in tools],
        }

    def _describe_tool(self, tool: Any) -> Any:
        """Return the definition of a tool; kept, because LangChain takes a millisecond to write it."""
        known = self._described.get(id(tool))
        if known is None or known[0] is not tool:
            if len(self._described) >= _MAX_DESCRIBED:
                self._described.clear()
            known = (tool, tool if isinstance(tool, dict) else convert_to_openai_tool(tool))
            self._described[id(tool)] = known
        return known[1]


def read_answer(response: ModelResponse) -> Any:
    """Return the usage of a response as chat completions report it; the response if it has none."""
    usage = next((getattr(message, "usage_metadata", None) for message in response.result), None)
    if not usage:
        return None
    read = usage.get("input_token_details") or {}
    written = usage.get("output_token_details") or {}
    return {
        "usage": {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "cache_creation_input_tokens": read.get("cache_creation") or 0,
            "prompt_tokens_details": {"cached_tokens": read.get("cache_read") or 0},
            "completion_tokens_details": {"reasoning_tokens": written.get("reasoning") or 0},
        }
    }


def _read_messages(state: Any) -> Sequence[AnyMessage]:
    """Return the messages of an agent's state, which may be a dict or a model."""
    messages = state.get("messages") if isinstance(state, dict) else getattr(state, "messages", None)
    return messages or ()


def _name_subgraph(config: Mapping[str, Any], messages: Sequence[AnyMessage]) -> tuple[str, ...]:
    """Return what tells a sub-agent's conversation apart inside a thread; nothing for the agent itself.

    The namespace of a sub-graph holds ids that are new in every run. Its first message has one id for as
    long as the conversation lasts, so that a sub-agent that is given a history goes on with its session.
    """
    path = str(config.get("configurable", {}).get("checkpoint_ns") or "").split("|")[:-1]
    nodes = [node.partition(":")[0] for node in path if not node.isdigit()]
    if not nodes:
        return ()
    agent = config.get("metadata", {}).get("lc_agent_name")
    first = messages[0].id if messages else None
    return (*nodes, *((str(agent),) if agent else ()), *((str(first),) if first else ()))


def _check_model(model: Any) -> None:
    """Refuse a model whose provider compacts as well; warn of one whose history lies at the provider."""
    kind = type(model).__name__
    if getattr(model, "context_management", None):
        raise RefoldError(
            f"{kind} has context_management, and Refold folds as well: leave context_management out"
        )
    if getattr(model, "use_previous_response_id", None):
        warn_caller(
            f"{kind} has use_previous_response_id: what the provider keeps cannot be folded; set it to False"
        )


def _refuse_other_compaction(own: AgentMiddleware) -> None:
    """Raise if the agent that is being made has another middleware that shortens the history.

    LangChain tells a middleware nothing of its neighbours. They are in `middleware`, the argument of
    `create_agent`, which is on the stack while it asks for the tools of each.
    """
    frame: Any = sys._getframe(2)  # noqa: SLF001  # the only way to the neighbours
    while frame is not None and frame.f_code.co_name != "create_agent":
        frame = frame.f_back
    for other in () if frame is None else frame.f_locals.get("middleware") or ():
        kinds = {kind.__name__.lstrip("_") for kind in type(other).__mro__}
        if other is not own and kinds & _OTHER_COMPACTION:
            advice = "take it out of middleware=[...]"
            if "DeepAgentsSummarizationMiddleware" in kinds:  # deepagents adds it by itself
                advice = 'pass name="SummarizationMiddleware" to RefoldMiddleware, which replaces it'
            raise RefoldError(f"{type(other).__name__} shortens the history as well: {advice}")


def _read_tool_name(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return getattr(tool, "name", None)
    return tool.get("name") or (tool.get("function") or {}).get("name")
