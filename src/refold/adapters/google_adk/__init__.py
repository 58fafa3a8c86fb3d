"""Google ADK: every model call of an app goes through a Refold session; ADK's events stay whole.

`RefoldPlugin` is given to the app. Before each model call it says which conversation this is, offers the tool
`recall`, and puts a `RefoldLlm` around the agent's model. That one folds the contents, sends them, and sends
once more after a refusal for size: a plugin alone can only answer an error, it cannot send again.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from contextvars import ContextVar
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Self

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session as AdkSession
from google.adk.tools.base_tool import BaseTool
from google.genai import types
from pydantic import PrivateAttr

from refold.adapters.base import Adapter, AsyncTurn, UsageChunks
from refold.adapters.bridge import Wire
from refold.adapters.google_adk.contents import BRIDGE, dump, to_json
from refold.adapters.model_client import ModelClient
from refold.calls.summariser import AskTarget
from refold.core.compaction.flow import Answer, Ask
from refold.core.overflow.detect import overflow
from refold.errors import RefoldError, warn_caller
from refold.session.async_session import AsyncSession
from refold.session.session import Session

_KEPT_THERE: Final = (
    "this model keeps the conversation at the provider (use_interactions_api): Refold cannot fold it, and"
    " passes its requests on"
)


# -- the model ---------------------------------------------------------------------------------------------


class RefoldLlm(BaseLlm):
    """A model whose requests go through a session. It is also of the class of the model that it stands for.

    ADK looks at that class: models that pair calls by id, or that keep the conversation at the provider, get
    other contents. `RefoldPlugin` makes these; programs need not.
    """

    _refold_plugin: Any = PrivateAttr()
    _refold_model: BaseLlm = PrivateAttr()

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002  # ADK passes it so
    ) -> AsyncGenerator[LlmResponse, None]:
        """Send the view of the request's contents, and pass the responses on."""
        responses = self._refold_plugin.generate(self._refold_model, llm_request, stream=stream)
        async with aclosing(responses) as passed:
            async for response in passed:
                yield response

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a copy of the model alone: a copied agent is not the plugin's, until the plugin meets it."""
        return deepcopy(self._refold_model, memo)


@lru_cache(maxsize=64)  # one for each class of models, and few are in use
def _join(kind: Any) -> type[RefoldLlm]:
    """Return the class that is both `RefoldLlm` and a model's own."""
    return type(
        f"Refold{kind.__name__}", (RefoldLlm, kind), {"__module__": __name__, "__doc__": kind.__doc__}
    )


def _wrap(model: BaseLlm, plugin: "RefoldPlugin") -> RefoldLlm:
    """Return a copy of a model of a class that is both the model's and `RefoldLlm`."""
    wrapped = copy(model)
    kind: Any = type(model)
    private = {**(model.__pydantic_private__ or {}), "_refold_plugin": plugin, "_refold_model": model}
    # pydantic would take both for fields of the model
    object.__setattr__(wrapped, "__class__", _join(kind))
    object.__setattr__(wrapped, "__pydantic_private__", private)
    return wrapped


def _belongs_to(model: BaseLlm, plugin: "RefoldPlugin") -> bool:
    """True if requests to a model come to this plugin; those of two apps may share an agent."""
    while isinstance(model, RefoldLlm):
        private = model.__pydantic_private__ or {}
        if private["_refold_plugin"] is plugin:
            return True
        model = private["_refold_model"]
    return False


class _Responses(UsageChunks):
    """Reads the responses of a model: the last whole one reports usage, and an error may be a response."""

    def __init__(self) -> None:
        super().__init__(lambda response: None if response.partial else _read_usage(response))

    def find_refusal(self, chunk: LlmResponse) -> Any | None:
        """Return the text of an error that is a refusal for size."""
        text = f"{chunk.error_code}: {chunk.error_message}" if chunk.error_code else ""
        return text if text and overflow(text) else None


def _read_usage(response: LlmResponse) -> Wire | None:
    """Return the usage of a response as the API reports it."""
    usage = response.usage_metadata
    return None if usage is None else {"usageMetadata": dump(usage)}


def _ask_model(model: BaseLlm) -> ModelClient:
    """Return a summariser over an ADK model: one plain question, without tools and callbacks."""

    async def answer(question: Ask) -> Answer:
        config = types.GenerateContentConfig(
            system_instruction=question.system or None, max_output_tokens=question.max_tokens
        )
        asked = types.Content(role="user", parts=[types.Part(text=str(question))])
        request = LlmRequest(model=model.model, contents=[asked], config=config)
        response = LlmResponse()
        async for response in model.generate_content_async(request):  # noqa: B007  # the last one is whole
            pass
        if response.error_code:
            raise RefoldError(f"{response.error_code}: {response.error_message}")
        return _read_answer(response, model.model)

    return ModelClient(model.model, answer)


def _read_answer(response: LlmResponse, model: str) -> Answer:
    parts = (response.content and response.content.parts) or []
    usage = response.usage_metadata
    finish = response.finish_reason
    return Answer(
        text="".join(part.text for part in parts if part.text and not part.thought),
        finish="length" if finish is types.FinishReason.MAX_TOKENS else "stop",
        calls=sum(1 for part in parts if part.function_call),
        model=model,
        input_tokens=usage.prompt_token_count if usage else None,
        output_tokens=usage.candidates_token_count if usage else None,
        cache_read=(usage and usage.cached_content_token_count) or 0,
    )


# -- the plugin --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Which conversation a request belongs to. A request that another app sends has no place here."""

    key: str
    request: LlmRequest


class _Recall(BaseTool):
    """The tool `recall` for the conversation of one request."""

    def __init__(self, plugin: "RefoldPlugin", key: str) -> None:
        tool = plugin.recall_tool
        super().__init__(name=tool.name, description=tool.description)
        self._plugin, self._key, self._tool = plugin, key, tool

    def _get_declaration(self) -> types.FunctionDeclaration:
        tool = self._tool
        return types.FunctionDeclaration(
            name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters)
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> dict[str, str]:  # noqa: ARG002
        """Return what was said, word for word."""
        session = await self._plugin.sessions.aget(self._key)
        return {"result": await session.answer_recall(args)}


class RefoldPlugin(Adapter[BaseLlm], BasePlugin):
    """Keeps the conversations of an app inside the model's window.

    >>> from google.adk.apps import App  # doctest: +SKIP
    >>> App(name="app", root_agent=agent, plugins=[RefoldPlugin()])  # doctest: +SKIP

    The options are those of `Adapter`. `ask` may be one of ADK's models, such as
    `Gemini(model="gemini-2.5-flash")`. A callable `key` is given ADK's context of the callback.
    """

    wire_format = "gemini"
    key_advice = "give the ADK session an id"

    def read_ask(self, ask: AskTarget | BaseLlm) -> AskTarget:
        """Return who writes summaries, which may be one of ADK's models."""
        return _ask_model(ask) if isinstance(ask, BaseLlm) else ask

    def set_up(self) -> None:
        """Name the plugin for ADK; no request has come yet."""
        BasePlugin.__init__(self, "refold")
        self._place: ContextVar[_Place | None] = ContextVar("refold_place", default=None)
        self._has_warned = False

    # -- sessions ------------------------------------------------------------------------------------------

    def session(
        self, key: str | int | AdkSession | None = None, *, agent: str | None = None, create: bool = False
    ) -> Session:
        """Return the session of a conversation.

        key      ADK's own session, or the key: `app:user:session`
        agent    the name of a sub-agent, which has a session of its own
        create   True to open it before the conversation has begun
        """
        return super().session(self._find_name(key, agent), create=create)

    async def asession(
        self, key: str | int | AdkSession | None = None, *, agent: str | None = None, create: bool = False
    ) -> AsyncSession:
        """Return the session of a conversation for an event loop."""
        return await super().asession(self._find_name(key, agent), create=create)

    def _find_name(self, key: str | int | AdkSession | None, agent: str | None) -> str:
        if isinstance(key, AdkSession):
            key = _make_key(key)
        elif key is not None and self._key is None and str(key).count(":") < 2:  # app:user:session
            # An id alone would name another conversation, which is empty.
            raise RefoldError(f"{key!r} is no key: pass ADK's session, or `app:user:session`")
        return self.find_key(key, agent)

    async def close(self) -> None:  # type: ignore[override]  # ADK awaits it
        """Close the sessions and the store; the runner's `close` does it."""
        await self.aclose()
        self._opened.clear()  # a plugin that is used again opens its store again

    # -- what ADK calls ------------------------------------------------------------------------------------

    async def before_run_callback(self, *, invocation_context: Any) -> None:
        """Refuse a second compaction: it would fold what Refold has folded, and lose the rest."""
        if invocation_context.events_compaction_config is not None:
            raise RefoldError(
                "EventsCompactionConfig compacts the same events: remove events_compaction_config from the"
                " App"
            )
        for plugin in invocation_context.plugin_manager.plugins:
            if getattr(plugin, "_num_invocations_to_keep", None):
                raise RefoldError(
                    f"{type(plugin).__name__} drops the contents that Refold folds: remove"
                    " num_invocations_to_keep, or the plugin"
                )

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        """Note which conversation the request belongs to, and let it go through `RefoldLlm`."""
        context = callback_context.get_invocation_context()
        key = self._find_request_key(callback_context, context)
        agent = context.agent
        if not _belongs_to(agent.canonical_model, self):
            agent.model = _wrap(agent.canonical_model, self)
        if await self._offers_recall(key, llm_request):
            llm_request.append_tools([_Recall(self, key)])
        self._place.set(_Place(key, llm_request))

    def _find_request_key(self, callback_context: Any, context: Any) -> str:
        agent = context.agent
        is_root = agent.parent_agent is None and "/" not in (context.node_path or "")
        return self.find_key(
            _make_key(context.session),
            None if is_root else agent.name,
            context.isolation_scope,  # of one task among several that an agent works on
            request=callback_context,
        )

    async def _offers_recall(self, key: str, request: LlmRequest) -> bool:
        when, config = self.recall_when, request.config
        others = [tool for tool in config.tools or () if not getattr(tool, "function_declarations", None)]
        if when is False or others or config.response_schema or config.response_json_schema:
            return False  # models refuse functions beside built-in tools, and beside a schema of the answer
        if self.recall_name in request.tools_dict:
            raise RefoldError(f"the agent has a tool {self.recall_name!r} of its own: pass recall_name=")
        if when == "always":  # the session need not be asked, which every request would pay for
            return True
        return await (await self.sessions.aget(key)).recall_tool(when=when) is not None

    # -- one request ---------------------------------------------------------------------------------------

    async def generate(
        self, model: BaseLlm, request: LlmRequest, *, stream: bool
    ) -> AsyncGenerator[LlmResponse, None]:
        """Send a request's contents as a view, once more after a refusal, and pass the responses on."""
        place = self._place.get()
        if place is None or place.request is not request or self._is_kept_there(request):
            responses = model.generate_content_async(request, stream)
        else:
            responses = self._send(await self.sessions.aget(place.key), model, request, stream=stream)
        async with aclosing(responses) as passed:
            async for response in passed:
                yield response

    def _is_kept_there(self, request: LlmRequest) -> bool:
        """True if the provider has the history, and the request only what is new."""
        if not request.previous_interaction_id:
            return False
        if not self._has_warned:
            self._has_warned = True
            warn_caller(_KEPT_THERE)
        return True

    async def _send(
        self, session: AsyncSession, model: BaseLlm, request: LlmRequest, *, stream: bool
    ) -> AsyncGenerator[LlmResponse, None]:
        self.follow_model(session, request.model or model.model, endpoint=getattr(model, "base_url", None))
        whole, config = request.contents, request.config
        turn = AsyncTurn(
            session, BRIDGE, whole, system=to_json(config.system_instruction), tools=to_json(config.tools)
        )

        def call(contents: list[types.Content]) -> AsyncGenerator[LlmResponse, None]:
            # Models change the request, such as for a cached prefix: each attempt has its own.
            request.contents, request.config = contents, config.model_copy()
            return model.generate_content_async(request, stream)

        try:
            async with aclosing(turn.stream(call, _Responses)) as responses:
                async for response in responses:
                    yield response
        finally:
            request.contents = whole


def _make_key(session: AdkSession) -> str:
    """Return the key of an ADK session. Its id is only unique for one user of one app.

    A colon in a name is written otherwise, so that no user can name the session of another.
    """
    parts = (session.app_name, session.user_id, session.id)
    return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts)
