"""OpenAI Agents SDK: `RefoldSession` keeps a conversation, and its model is sent views of it.

    session = RefoldSession("thread-1", ask="openai:gpt-4o-mini")
    result = await Runner.run(agent, "go on", session=session, run_config=session.run_config())

The session gives the runner its items back exactly as they were added. The view is made at the model's door,
by the provider of models in the run's configuration: the session alone is asked once in a run, and sees no
tool call inside it. What the model is asked is a log of its own, because handoffs and filters change it.
"""

import hashlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import Any, Final, Self

from agents import FunctionTool, Model, ModelProvider, ModelSettings, ModelTracing, MultiProvider, RunConfig
from agents.items import ModelResponse
from agents.memory import OpenAIResponsesCompactionSession
from agents.memory.session import SessionABC
from agents.run_config import CallModelData
from agents.tool_context import ToolContext

from refold.adapters.base import Adapter, AsyncTurn, RecallTool, RecallWhen
from refold.adapters.bridge import Bridge, Wire
from refold.adapters.openai_agents.runs import KnownItems, OwnRequests, append_items, read_items
from refold.adapters.openai_agents.wire import Events, hold_errors, read_usage, to_client, write_tool
from refold.calls.summariser import AskTarget
from refold.core.compaction.policy import Policy
from refold.errors import RefoldError, warn_caller
from refold.session.async_session import AsyncSession
from refold.session.events import Listener
from refold.session.many import MAX_OPEN
from refold.session.steps.recall import NAME
from refold.stores import Store

_BRIDGE: Final[Bridge[Wire]] = Bridge(lambda item: (item,), list)
"""Items of the runner are Responses items already."""
_BYPASSED: Final = (
    "a run of RefoldSession {!r} did not ask its model through Refold, so that nothing is folded: pass"
    " run_config=session.run_config() to the Runner"
)


class RefoldSession(Adapter[Model], SessionABC):
    """A session of the SDK: the items of one conversation, and Refold's session beside them."""

    wire_format = "responses"

    def __init__(
        self,
        session_id: str,
        *,
        policy: str | Policy = "refold",
        ask: AskTarget | Model = None,
        store: str | os.PathLike[str] | Store | None = None,
        window: int | str | None = None,
        model: str | None = None,
        max_dollars: float | str | None = None,
        recall: RecallWhen = "always",
        recall_name: str = NAME,
        on_event: Listener | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the options; the store is opened when it is first needed.

        session_id   the name of the conversation, which is the session's key
        ask          who writes summaries: an address such as "openai:gpt-4o-mini", a model of the SDK, or any
                     callable; without it folds are made without a model

        The other options are those of every adapter; `Adapter` explains them.
        """
        super().__init__(
            session_id,
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
        self.session_id = session_id
        self.session_settings = None
        self.own_requests = OwnRequests()
        self._known = KnownItems()
        self._askers: dict[str, str] = {}
        """The conversations whose models call `recall`, by the ids of these calls, which may come again."""

    def read_ask(self, ask: AskTarget | Model) -> AskTarget:
        """Return who writes summaries, which may be a model of the SDK."""
        return to_client(ask) if isinstance(ask, Model) else ask

    def with_id(self, session_id: str) -> Self:
        """Return the session of another conversation, with the same options and the same store."""
        self.sessions.store  # noqa: B018  # opened here, so that both have the same
        other = copy(self)
        other.session_id = other._key = session_id  # noqa: SLF001  # a copy of ours
        other.own_requests, other._known, other._askers = OwnRequests(), KnownItems(), {}  # noqa: SLF001
        return other

    def run_config(self, config: RunConfig | None = None) -> RunConfig:
        """Return a configuration of runs in which every model is sent views of this conversation.

        config   the configuration to start from; its model and its provider of models are wrapped
        """
        config = config or RunConfig()
        model = self.wrap(config.model) if isinstance(config.model, Model) else config.model
        own_filter = config.call_model_input_filter

        def check(data: CallModelData[Any]) -> Any:
            if config.model is None and isinstance(data.agent.model, Model):
                _refuse_unwrapped(data.agent.model, data.agent.name)
            return own_filter(data) if own_filter else data.model_data

        provider = RefoldProvider(self, config.model_provider)
        return replace(config, model=model, model_provider=provider, call_model_input_filter=check)

    def wrap(self, model: Model) -> "RefoldModel":
        """Return a model that is sent views of this conversation, for an agent that has a model object."""
        return model if isinstance(model, RefoldModel) else RefoldModel(model, self)

    # -- the runner's items --------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items of the conversation, or the last `limit` of them."""
        _refuse_compaction_around(sys._getframe(1))  # noqa: SLF001  # nothing else tells who wraps a session
        items = await self._read_items()
        self.own_requests.begin_run(items[0] if items else None)
        return items if limit is None else items[-limit:] if limit > 0 else []

    async def add_items(self, items: list[Any]) -> None:
        """Append items."""
        if items:
            session = await self._open_items()
            self._known = await session.run_flow(append_items(session.state, items, self._known))
        if self.own_requests.is_bypassed(items):
            warn_caller(_BYPASSED.format(self.session_id))

    async def pop_item(self) -> Any | None:
        """Take the last item back and return it; the log keeps it on a branch of its own."""
        items = await self._read_items()
        if items:
            await (await self._open_items()).rewind(len(items) - 1)
        return items[-1] if items else None

    async def clear_session(self) -> None:
        """Take all items back."""
        if await self._read_items():
            await (await self._open_items()).rewind(0)

    async def _read_items(self) -> list[Any]:
        session = await self._open_items()
        self._known = await session.run_flow(read_items(session.state, self._known))
        # Read anew, because the runner may change what it is given; at once, which takes half of the time.
        items: list[Any] = json.loads(f"[{','.join(self._known.bodies)}]")
        return items

    async def _open_items(self) -> AsyncSession:
        return await self.sessions.aget(f"{self.session_id}:items")

    # -- the model's door ----------------------------------------------------------------------------------

    async def begin_turn(
        self,
        model: Model,
        system: str | None,
        given: str | list[Wire],
        tools: list[Any],
        handoffs: Sequence[Any],
    ) -> tuple[AsyncTurn[Wire], list[Any]]:
        """Return the turn of one request, and its tools."""
        self.own_requests.note_request()
        items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        session = await self.sessions.aget(self._find_conversation(items))
        chosen = await self.choose_tools(tools, session)
        client = getattr(model, "_client", None)
        name = getattr(model, "model", None)
        self.follow_model(
            session,
            f"openai:{name}" if client is not None and name else name,
            endpoint=str(client.base_url) if client is not None else None,
        )
        offered = [write_tool(tool) for tool in (*chosen, *handoffs)]
        return AsyncTurn(session, _BRIDGE, items, system=system, tools=offered), chosen

    def _find_conversation(self, items: Sequence[Any]) -> str:
        """Return the key for a list: an agent that is a tool of another one has a conversation of its own."""
        if self.own_requests.accept(items):
            return self.session_id
        text = json.dumps(items[0] if items else None, sort_keys=True, default=str)
        return f"{self.session_id}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def end_turn(self, turn: AsyncTurn[Wire], output: Sequence[Any]) -> None:
        """Note the items of an answer, and who calls `recall` in it."""
        calls = [item for item in output if getattr(item, "type", None) == "function_call"]
        asked = [call.call_id for call in calls if call.name == self.recall_name]
        if turn.session.name == self.session_id:
            self.own_requests.note_answer(output)
        known = self._askers | dict.fromkeys(asked, turn.session.name)
        self._askers = dict(list(known.items())[-MAX_OPEN:])  # a run that was stopped never answers

    async def answer_recall(self, call: str, arguments: str) -> str:
        """Answer a call of `recall` from the conversation in which it was made."""
        asker = self._askers.pop(call, self.session_id)
        return await (await self.asession(asker, create=True)).answer_recall(arguments)

    async def choose_tools(self, tools: list[Any], session: AsyncSession | None = None) -> list[Any]:
        """Return the tools with `recall` at the end, which keeps the cached prefix, or without it for now."""
        recall = [tool for tool in tools if tool.name == self.recall_name]
        if recall and self.recall_when == "folded":
            session = session or await self.sessions.aget(self.session_id)
            recall = recall if await session.recall_tool(when="folded") else []
        others = [tool for tool in tools if tool.name != self.recall_name]
        return others + (recall if self.recall_when else [])


class RefoldProvider(ModelProvider):
    """Models by name, each of which is sent views of one conversation; `run_config` makes it."""

    def __init__(self, session: RefoldSession, inner: ModelProvider | None = None) -> None:
        self.session = session
        self._inner = inner or MultiProvider()

    def get_model(self, model_name: str | None) -> Model:
        """Return a model by its name."""
        return self.session.wrap(self._inner.get_model(model_name))

    async def aclose(self) -> None:
        """Close the provider inside."""
        await self._inner.aclose()


class RefoldModel(Model):
    """A model that is sent views of a conversation."""

    def __init__(self, inner: Model, session: RefoldSession) -> None:
        self.inner, self.session = inner, session

    def __getattr__(self, name: str) -> Any:
        if name in ("inner", "session"):  # not set yet, as in a copy
            raise AttributeError(name)
        return getattr(self.inner, name)

    async def get_response(  # noqa: PLR0917  # the interface of the SDK
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002  # the interface's name
        model_settings: ModelSettings,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: ModelTracing,
        **options: Any,
    ) -> ModelResponse:
        """Send the view, once more after a refusal for size."""
        _refuse_settings(model_settings)

        async def call(items: Any) -> ModelResponse:
            return await self.inner.get_response(
                system_instructions, items, model_settings, tools, output_schema, handoffs, tracing, **options
            )

        session = self.session
        if self._is_kept_by_provider(options):
            tools = await session.choose_tools(tools)
            return await call(input)
        turn, tools = await session.begin_turn(self.inner, system_instructions, input, tools, handoffs)
        with hold_errors():
            response: ModelResponse = await turn.send(call, read=read_usage)
        session.end_turn(turn, response.output)
        return response

    async def stream_response(  # noqa: PLR0917  # the interface of the SDK
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002  # the interface's name
        model_settings: ModelSettings,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: ModelTracing,
        **options: Any,
    ) -> AsyncGenerator[Any, None]:
        """Do the same with a stream, which begins again as long as it has given no words."""
        _refuse_settings(model_settings)
        if model_settings.include_usage is None:  # chat completions report no usage without it
            model_settings = replace(model_settings, include_usage=True)

        def call(items: Any) -> Any:
            return self.inner.stream_response(
                system_instructions, items, model_settings, tools, output_schema, handoffs, tracing, **options
            )

        session = self.session
        if self._is_kept_by_provider(options):
            tools = await session.choose_tools(tools)
            events = call(input)
        else:
            turn, tools = await session.begin_turn(self.inner, system_instructions, input, tools, handoffs)
            events = self._stream(call, turn)
        async with aclosing(events) as passed:
            with hold_errors():
                first = await anext(passed, None)
            if first is not None:
                yield first
            async for event in passed:
                yield event

    async def _stream(self, call: Any, turn: AsyncTurn[Wire]) -> AsyncGenerator[Any, None]:
        async with aclosing(turn.stream(call, Events)) as events:
            async for event in events:
                if event.type == "response.completed":
                    self.session.end_turn(turn, event.response.output)
                yield event

    def _is_kept_by_provider(self, options: Mapping[str, Any]) -> bool:
        """True if the provider keeps the history, so that there is nothing to fold; warns about it."""
        name = next((name for name in ("previous_response_id", "conversation_id") if options.get(name)), None)
        if name is not None:
            self.session.own_requests.note_request()
            warn_caller(f"{name} keeps the history at the provider, where Refold cannot fold it")
        return name is not None

    async def close(self) -> None:
        """Close the model inside."""
        await self.inner.close()

    def get_retry_advice(self, request: Any) -> Any:
        """Return the advice of the model inside."""
        return self.inner.get_retry_advice(request)

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self.inner._cleanup_on_run_end(owner)  # noqa: SLF001  # what the runner calls


def recall_tool(name: str = NAME) -> FunctionTool:
    """Return the tool by which the model of an agent reads what was folded.

    It finds the conversation in the run's configuration, so that one agent may serve many conversations.
    """
    parts: RecallTool = Adapter[Model](recall_name=name).recall_tool

    async def answer(ctx: ToolContext[Any], arguments: str) -> str:
        provider = ctx.run_config.model_provider if ctx.run_config is not None else None
        if not isinstance(provider, RefoldProvider):
            raise RefoldError("recall needs a conversation: run the agent with session.run_config()")
        return await provider.session.answer_recall(ctx.tool_call_id, arguments)

    return FunctionTool(
        name=parts.name,
        description=parts.description,
        params_json_schema=dict(parts.parameters),
        on_invoke_tool=answer,
        strict_json_schema=False,
    )


def _refuse_settings(settings: ModelSettings) -> None:
    if getattr(settings, "context_management", None):
        raise RefoldError("context_management compacts beside Refold: remove it from ModelSettings")


def _refuse_unwrapped(model: Model, agent: str) -> None:
    if not isinstance(model, RefoldModel):
        raise RefoldError(
            f"agent {agent!r} has a model object, which run_config() does not reach: pass"
            " session.run_config(RunConfig(model=...)), or give the agent session.wrap(model)"
        )


def _refuse_compaction_around(caller: Any) -> None:
    if isinstance(caller.f_locals.get("self"), OpenAIResponsesCompactionSession):
        raise RefoldError(
            "OpenAIResponsesCompactionSession compacts beside Refold: give the RefoldSession to the runner"
        )
