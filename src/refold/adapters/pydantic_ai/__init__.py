"""Pydantic AI: the capability `Refold` keeps what an agent sends within its model's window.

    agent = Agent("openai:gpt-4o", capabilities=[Refold(ask="openai:gpt-4o-mini")])
    result = agent.run_sync("go on", message_history=history, conversation_id="thread-1")

The message history of Pydantic AI stays whole. The view is made at the model's door, by a model around the
one that serves the request, so that each model of a fallback is measured against its own window.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from copy import copy
from dataclasses import replace
from typing import Any, Final, Self

from pydantic_ai import RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, SystemPromptPart, UserPromptPart
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import RequestUsage

from refold.adapters.base import Adapter, AsyncTurn
from refold.adapters.model_client import ModelClient
from refold.adapters.pydantic_ai.messages import BRIDGE, to_wire
from refold.calls.summariser import AskTarget
from refold.core.compaction.flow import Answer, Ask
from refold.errors import RefoldError
from refold.session.async_session import AsyncSession

_WRAPS_MODELS: Final = hasattr(AbstractCapability, "get_wrapper_model")
"""False in Pydantic AI 2.60, where a capability replaces the model before each request instead."""
_COMPACTIONS: Final = frozenset(
    {"CompactOnRequest", "ClearToolResults", "ClampOversizedMessages", "DeduplicateFileReads"}
)
"""Capabilities of the harness that shorten histories; the others have `Compaction` in their names."""
_PROVIDER_COMPACTIONS: Final = ("openai_context_management", "anthropic_context_management")
"""Settings by which a provider shortens the history by itself."""


class Refold(Adapter[Model], AbstractCapability[Any]):
    """A capability: each conversation of an agent is a session, by its `conversation_id`.

    The options are those of `Adapter`. `ask` may be a model of Pydantic AI. A callable `key` is given the
    `RunContext`.
    """

    key_advice = "pass conversation_id= to the run"
    _run: RunContext[Any] | None = None

    def read_ask(self, ask: AskTarget | Model) -> AskTarget:
        """Return who writes summaries, which may be a model of Pydantic AI."""
        return _to_client(ask) if isinstance(ask, Model) else ask

    async def for_run(self, ctx: RunContext[Any]) -> Self:
        """Return a copy for one run: runs at the same time share the sessions and nothing else."""
        self.sessions.store  # noqa: B018  # opened here, so that every copy has the same sessions
        bound = copy(self)
        bound._run = ctx  # noqa: SLF001  # a copy of ours
        return bound

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """Refuse a second compaction beside this one."""
        found: list[AbstractCapability[Any]] = []
        root = getattr(ctx, "root_capability", None)
        if root is not None:
            root.apply(found.append)
        for other in found:
            name = type(other).__name__
            if name.endswith("Compaction") or name in _COMPACTIONS:
                raise RefoldError(f"{name} compacts beside Refold: remove it from capabilities=")
        if sum(isinstance(other, Refold) for other in found) > 1:
            raise RefoldError("the agent has Refold twice: remove one from capabilities=")

    def get_wrapper_model(self, model: Model) -> Model | None:
        """Return the model with Refold at its door; each model of a fallback has a door of its own."""
        if self._run is None:  # outside of a run there is no conversation
            return None
        if isinstance(model, FallbackModel):
            fallback = copy(model)
            fallback.models = [self.get_wrapper_model(each) or each for each in model.models]
            return fallback
        return RefoldModel(model, self, self._run)

    async def before_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002  # the hook's own argument
        request_context: ModelRequestContext,
    ) -> ModelRequestContext:
        """Put Refold at the model's door where Pydantic AI has no hook for that."""
        if _WRAPS_MODELS:
            return request_context
        model = self.get_wrapper_model(request_context.model)
        return replace(request_context, model=model or request_context.model)

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """Return the tool by which the model reads what was folded."""
        if self.recall_when is False:
            return None
        definition = self.recall_tool
        tool = Tool.from_schema(
            self._answer_recall,
            name=definition.name,
            description=definition.description,
            json_schema=dict(definition.parameters),
            takes_ctx=True,
        )
        tool.prepare = self._offer_recall
        return _RecallToolset([tool], id="refold")

    async def _answer_recall(self, ctx: RunContext[Any], **arguments: Any) -> str:
        return await (await self._find_session(ctx)).answer_recall(arguments)

    async def _offer_recall(self, ctx: RunContext[Any], tool: ToolDefinition) -> ToolDefinition | None:
        if self.recall_when == "always":
            return tool
        is_offered = await (await self._find_session(ctx)).recall_tool(when="folded", name=self.recall_name)
        return tool if is_offered else None

    def put_recall_last(self, parameters: ModelRequestParameters) -> ModelRequestParameters:
        """Return the parameters with `recall` behind the other tools, so that their cached prefix stays."""
        tools = parameters.function_tools
        if self.recall_when is False or not tools or tools[-1].name == self.recall_name:
            return parameters
        return replace(parameters, function_tools=sorted(tools, key=lambda t: t.name == self.recall_name))

    async def _find_session(self, ctx: RunContext[Any]) -> Any:
        return await self.sessions.aget(self.find_key(ctx.conversation_id, request=ctx))

    async def begin_turn(
        self,
        ctx: RunContext[Any],
        model: Model,
        messages: Sequence[ModelMessage],
        parameters: ModelRequestParameters,
    ) -> AsyncTurn[ModelMessage]:
        """Return the turn of one request, measured against the model that serves it."""
        session = await self._find_session(ctx)
        await self._refuse_other_recall(session, parameters.function_tools)
        self.follow_model(
            session,
            f"{model.system}:{model.model_name}",
            endpoint=model.base_url,
            window=model.context_window,
        )
        system = "\n\n".join(part.content for part in parameters.instruction_parts or ())
        tools = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
            for tool in (*parameters.function_tools, *parameters.output_tools)
        ]
        tools = [{"type": "function", "function": function} for function in tools]
        return AsyncTurn(session, BRIDGE, messages, system=system or None, tools=tools)

    async def _refuse_other_recall(self, session: AsyncSession, tools: Sequence[ToolDefinition]) -> None:
        """Refuse a tool with the name of ours while ours is not offered; later Pydantic AI refuses it."""
        name = self.recall_name
        if self.recall_when != "folded" or all(tool.name != name for tool in tools):
            return
        if not await session.recall_tool(when="folded", name=name):
            raise RefoldError(
                f"the agent has a tool {name!r} of its own: pass another recall_name= to Refold"
            )


class _RecallToolset(FunctionToolset[Any]):
    """The tool by which the model reads what was folded."""

    @property
    def label(self) -> str:
        """How errors name it, such as the one for two tools of one name."""
        return f"the capability Refold(recall_name={next(iter(self.tools))!r})"


class RefoldModel(WrapperModel):
    """A model that is sent views. `Refold` puts it around the model of each request."""

    def __init__(self, wrapped: Model, refold: Refold, run: RunContext[Any]) -> None:
        super().__init__(wrapped)
        self._refold, self._run = refold, run

    async def __aenter__(self) -> Self:
        """Do nothing: the agent opens and closes its models."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send the view, once more after a refusal for size."""
        parameters = self._refold.put_recall_last(model_request_parameters)
        turn = await self._begin(messages, model_settings, parameters)

        async def call(view: list[ModelMessage]) -> ModelResponse:
            return await self.wrapped.request(_join_requests(view), model_settings, parameters)

        response: ModelResponse = await turn.send(call, read=_write_answer)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse, None]:
        """Do the same with a stream, which begins again as long as it has given no event."""
        parameters = self._refold.put_recall_last(model_request_parameters)
        turn = await self._begin(messages, model_settings, parameters)
        async with AsyncExitStack() as opened:

            async def call(view: list[ModelMessage]) -> StreamedResponse:
                async with AsyncExitStack() as stack:
                    streamed = await stack.enter_async_context(
                        self.wrapped.request_stream(
                            _join_requests(view), model_settings, parameters, run_context
                        )
                    )
                    await _await_first_event(streamed)
                    opened.push_async_exit(stack.pop_all())
                return streamed

            streamed = await turn.open(call)
            try:
                yield streamed
            finally:
                with suppress(
                    RefoldError
                ):  # the words are with the consumer; the next turn tells the trouble
                    await turn.observe(_write_answer(streamed.get()))

    async def count_tokens(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> RequestUsage:
        """Count the view, which is what will be sent."""
        turn = await self._begin(messages, model_settings, model_request_parameters)
        view = _join_requests(await turn.prepare())
        return await self.wrapped.count_tokens(view, model_settings, model_request_parameters)

    async def _begin(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> AsyncTurn[ModelMessage]:
        for name in _PROVIDER_COMPACTIONS:
            if settings and settings.get(name):
                raise RefoldError(f"{name} compacts beside Refold: remove it from the model settings")
        return await self._refold.begin_turn(self._run, self.wrapped, messages, parameters)


def _join_requests(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Return the messages with no two requests side by side, as Pydantic AI hands them to a model."""
    joined: list[ModelMessage] = []
    for message in messages:
        last = joined[-1] if joined else None
        if isinstance(message, ModelRequest) and isinstance(last, ModelRequest):
            joined[-1] = replace(message, parts=[*last.parts, *message.parts])
        else:
            joined.append(message)
    return joined


async def _await_first_event(streamed: StreamedResponse) -> None:
    """Wait for the first event, so that a refusal inside the stream comes while it can be begun again."""
    events = aiter(streamed)
    first = await anext(events, None)

    async def replay() -> AsyncIterator[Any]:
        if first is not None:
            yield first
        async for event in events:
            yield event

    # Where a response keeps its iterator; Pydantic AI's own fallback replays the first event in the same way.
    streamed._event_iterator = replay()  # noqa: SLF001


def _write_answer(response: ModelResponse) -> dict[str, Any]:
    """Return a response as chat would have given it: the message, why it ended, the usage."""
    usage, details = response.usage, response.provider_details or {}
    finish = details.get("finish_reason") or response.finish_reason
    return {
        "choices": [{"message": to_wire(response)[0], "finish_reason": finish}],
        "model": response.model_name,
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
            "completion_tokens_details": {"reasoning_tokens": usage.details.get("reasoning_tokens", 0)},
            "cache_creation_input_tokens": usage.cache_write_tokens,
        },
    }


def _to_client(model: Model) -> ModelClient:
    """Return a model of Pydantic AI as the one that writes summaries, plain and without tools."""

    async def answer(question: Ask) -> Answer:
        parts = [SystemPromptPart(question.system)] if question.system else []
        request = ModelRequest(parts=[*parts, UserPromptPart(question.text)])
        settings = ModelSettings(max_tokens=question.max_tokens) if question.max_tokens else None
        response = await model.request([request], settings, ModelRequestParameters())
        return Answer(
            text=response.text or "",
            finish=response.finish_reason or "stop",
            model=response.model_name or model.model_name,
            provider=model.system,
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
            cache_read=response.usage.cache_read_tokens,
            cache_write=response.usage.cache_write_tokens,
        )

    return ModelClient(f"{model.system}:{model.model_name}", answer)
