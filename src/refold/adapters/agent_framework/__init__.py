"""Microsoft Agent Framework: every call of a chat client goes through a Refold session.

`RefoldMiddleware` stands inside the loop of tool calls, so that a long turn folds as well. It hands the
client a view of the messages. The agent's history keeps all of them.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

from agent_framework import (
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationContext,
    FunctionTool,
    Message,
    ResponseStream,
    add_usage_details,
)

from refold.adapters.agent_framework.messages import BRIDGE
from refold.adapters.base import Adapter, AsyncTurn
from refold.adapters.bridge import Wire
from refold.adapters.model_client import ModelClient
from refold.core.compaction.flow import Answer, Ask
from refold.errors import RefoldError, warn_caller
from refold.session.async_session import AsyncSession
from refold.session.chunks import ProviderChunks

_SECOND: Final = (
    "compaction_strategy compacts the same messages: remove compaction_strategy= from the agent and from its"
    " chat client"
)
_KEPT_THERE: Final = (
    "this conversation is kept by the service (service_session_id): Refold cannot fold it, and passes its"
    " requests on"
)
CallNext = Callable[[], Awaitable[None]]


class _Updates:
    """Reads the updates of a stream: their reports of usage are summed, as the framework does."""

    def __init__(self) -> None:
        self._usage: Any = None

    def find_refusal(self, chunk: ChatResponseUpdate) -> Any | None:
        """Return a refusal that is an event of the stream; clients make an empty update of it."""
        raw = chunk.raw_representation
        return None if chunk.contents or raw is None else ProviderChunks().find_refusal(raw)

    def is_opening(self, chunk: ChatResponseUpdate) -> bool:
        """True for an update without content."""
        return not chunk.contents

    def add(self, chunk: ChatResponseUpdate) -> None:
        """Add the reports of an update."""
        for content in chunk.contents or ():
            if content.type == "usage":
                self._usage = add_usage_details(self._usage, content.usage_details)

    def assemble(self) -> Wire | None:
        """Return all that was reported."""
        return None if self._usage is None else {"usage_details": dict(self._usage)}


def _read_usage(response: ChatResponse) -> Wire | None:
    return None if response.usage_details is None else {"usage_details": dict(response.usage_details)}


def _ask_client(client: Any) -> ModelClient:
    """Return a summariser over a chat client: one plain question, without tools and sessions."""
    model = str(_find_model(client, {}) or "")

    async def answer(question: Ask) -> Answer:
        options: dict[str, Any] = {"instructions": question.system} if question.system else {}
        if question.max_tokens:
            options["max_tokens"] = question.max_tokens
        asked = Message(role="user", contents=[Content.from_text(str(question))])
        response = await client.get_response([asked], options=options)
        usage = response.usage_details or {}
        contents = [content for message in response.messages for content in message.contents]
        return Answer(
            text=response.text,
            finish=str(response.finish_reason or "stop"),
            calls=sum(1 for content in contents if content.type == "function_call"),
            model=model,
            input_tokens=usage.get("input_token_count"),
            output_tokens=usage.get("output_token_count"),
            cache_read=usage.get("cache_read_input_token_count") or 0,
        )

    return ModelClient(model, answer)


def _find_model(client: Any, options: Mapping[str, Any]) -> str | None:
    """Return the model's name as the request or the client has it; clients differ in their word for it."""
    names = (options.get("model"), *(getattr(client, name, None) for name in ("model", "model_id")))
    return next((name for name in names if isinstance(name, str) and name), None)


class RefoldMiddleware(Adapter[Any], ChatMiddleware):
    """Keeps the conversations of an agent inside the model's window.

    >>> refold = RefoldMiddleware()  # doctest: +SKIP
    >>> agent = Agent(client=client, tools=[look, refold.recall], middleware=[refold])  # doctest: +SKIP

    The options are those of `Adapter`. `ask` may be a chat client of the framework. A callable `key` is given
    the `ChatContext`, or the context of a call of `recall`. The model is shown `recall` if the agent has
    `RefoldMiddleware.recall` among its tools.
    """

    key_advice = "run the agent with session=agent.create_session()"

    def read_ask(self, ask: Any) -> Any:
        """Return who writes summaries, which may be a chat client of the framework."""
        return _ask_client(ask) if hasattr(ask, "get_response") else ask

    def set_up(self) -> None:
        """Remember what was warned of, and the definitions of tools."""
        self._has_warned = False
        self._specs: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    @cached_property
    def recall(self) -> FunctionTool:
        """The tool `recall`; put it last among the agent's tools."""
        tool = self.recall_tool

        async def recall(context: FunctionInvocationContext, query: str = "", handle: str = "") -> str:
            session = await self.sessions.aget(self._find_session_key(context))
            return await session.answer_recall({"query": query, "handle": handle})

        return FunctionTool(
            name=tool.name, description=tool.description, func=recall, input_model=dict(tool.parameters)
        )

    async def process(self, context: ChatContext, call_next: CallNext) -> None:
        """Send a view of the messages, once more after a refusal for size; the messages stay whole."""
        if context.kwargs.get("compaction_strategy") or getattr(context.client, "compaction_strategy", None):
            raise RefoldError(_SECOND)
        if self._is_kept_there(context):
            await call_next()
            return
        session = await self.sessions.aget(self._find_session_key(context))
        turn = await self._begin_turn(context, session)
        if context.stream:
            context.result = _stream(turn, context, call_next)
            return
        whole = context.messages

        async def call(messages: list[Message]) -> ChatResponse:
            context.messages = messages
            await call_next()
            return context.result

        try:
            context.result = await turn.send(call, _read_usage)
        finally:
            context.messages = whole

    def _find_session_key(self, context: ChatContext | FunctionInvocationContext) -> str:
        return self.find_key(context.session.session_id if context.session else None, request=context)

    def _is_kept_there(self, context: ChatContext) -> bool:
        """True if the service has the history, and the request only what is new."""
        options, session = context.options or {}, context.session
        if not (options.get("conversation_id") or (session and session.service_session_id)):
            return False
        if not self._has_warned:
            self._has_warned = True
            warn_caller(_KEPT_THERE)
        return True

    async def _begin_turn(self, context: ChatContext, session: AsyncSession) -> AsyncTurn[Message]:
        options = context.options or {}
        self.follow_model(session, _find_model(context.client, options))
        if self.recall_when != "always" and options.get("tools"):
            options = context.options = {**options, "tools": await self._choose_tools(session, options)}
        tools = [spec for tool in options.get("tools") or () if (spec := self._write_tool(tool))]
        return AsyncTurn(
            session, BRIDGE, list(context.messages), system=options.get("instructions"), tools=tools
        )

    async def _choose_tools(self, session: AsyncSession, options: Mapping[str, Any]) -> list[Any]:
        """Return the tools without `recall` where it is not offered."""
        when = self.recall_when
        if when is not False and await session.recall_tool(when=when) is not None:
            return list(options["tools"])
        return [tool for tool in options["tools"] if tool is not self.recall]

    def _write_tool(self, tool: Any) -> Any:
        """Return the definition of a tool, which is counted; an agent's tools are the same in every turn."""
        if isinstance(tool, Mapping):
            return dict(tool)
        if tool not in self._specs and hasattr(tool, "to_json_schema_spec"):
            self._specs[tool] = tool.to_json_schema_spec()
        return self._specs.get(tool)


def _stream(
    turn: AsyncTurn[Message], context: ChatContext, call_next: CallNext
) -> ResponseStream[ChatResponseUpdate, ChatResponse]:
    """Return a stream that begins again if the first update is a refusal; the client's own one ends it."""
    whole = context.messages
    own: list[Any] = []

    async def call(messages: list[Message]) -> Any:
        context.messages = messages
        await call_next()
        own[:] = [context.result]
        return context.result

    async def pass_updates() -> AsyncGenerator[ChatResponseUpdate, None]:
        try:
            async for update in turn.stream(call, _Updates):
                yield update
        finally:
            context.messages = whole

    async def finish(_: Any) -> ChatResponse:
        return await own[0].get_final_response()

    return ResponseStream(pass_updates(), finalizer=finish)
