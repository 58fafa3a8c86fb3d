"""Strands Agents: `RefoldConversationManager` sends the view, and leaves `agent.messages` whole.

Strands' own managers change the agent's list. This one stands in their place and never touches it: it wraps
the model for the time of each call, and the wrapper sends the view. Strands 1.62 has a public door for that
(middleware); in older versions the agent's model is replaced before a call and put back behind it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from strands import tool
from strands.agent.conversation_manager import ConversationManager, SlidingWindowConversationManager
from strands.hooks import AfterModelCallEvent, AgentInitializedEvent, BeforeModelCallEvent
from strands.models import Model
from strands.types.tools import ToolContext

from refold.adapters.base import Adapter, AsyncTurn
from refold.adapters.model_client import ModelClient
from refold.adapters.strands.messages import (
    BRIDGE,
    AnswerChunks,
    Native,
    add_blocks,
    find_endpoint,
    name_model,
    read_config,
    split_added,
)
from refold.calls.summariser import AskTarget
from refold.core.compaction.flow import Answer, Ask
from refold.core.tokens.responses import read_response
from refold.errors import RefoldError
from refold.session.results import Observed, Ready
from refold.session.session import Session

_PARAMS: Final = ("params", "additional_request_fields", "additional_args")
"""Fields of a model's configuration that are passed on to the provider."""
_AGENT_ID: Final = "default"
"""The id of an agent that was given none."""


class RefoldConversationManager(Adapter[Model], ConversationManager):
    """Keep Strands agents inside their context window; `agent.messages` stays whole.

    The options are those of `Adapter`. `ask` may be a model of Strands. A callable `key` is given the agent.
    Without `key` it is the id of the agent's session manager, with the agent's id behind it if it was given
    one.
    """

    wire_format = "converse"
    key_advice = "give the agent a session_manager"

    def read_ask(self, ask: AskTarget | Model) -> AskTarget:
        """Return who writes summaries, which may be a model of Strands."""
        if not isinstance(ask, Model):
            return ask
        name = name_model(ask)
        return ModelClient(name, partial(_ask_model, ask, name))

    def set_up(self) -> None:
        """Set up the manager, and make the tool `recall`."""
        ConversationManager.__init__(self)
        self.recall = None if self.recall_when is False else self._make_recall()
        self._tools: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()

    def register_hooks(self, registry: Any, **kwargs: Any) -> None:
        """Ask Strands to be called when the agent is made, and around each call of its model."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, self._attach)
        registry.add_callback(BeforeModelCallEvent, self._begin_call)
        registry.add_callback(AfterModelCallEvent, self._end_call)

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """Do nothing: the agent's list stays whole."""

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:  # noqa: ARG002  # as Strands calls it
        """Fold now; a refusal comes here only when a folded request was refused as well, and is raised."""
        if e is not None:
            raise e
        self.open_session(self.find_agent_key(agent)).compact()

    def get_state(self) -> dict[str, Any]:
        """Return the state of a default manager that has removed nothing.

        Strands refuses a state that another class has saved, so this one can be restored with or without us.
        """
        return SlidingWindowConversationManager().get_state()

    def restore_from_session(self, state: dict[str, Any]) -> None:  # noqa: ARG002  # as Strands calls it
        """Take the whole history, whatever manager has saved the session."""
        self.removed_message_count = 0

    def find_agent_key(self, agent: Any) -> str:
        """Return the key of an agent's session."""
        found = getattr(getattr(agent, "_session_manager", None), "session_id", None)
        part = agent.agent_id if self._key is None and agent.agent_id != _AGENT_ID else None
        return self.find_key(found, part, request=agent)

    def _make_recall(self) -> Any:
        parts = self.recall_tool

        @tool(
            name=parts.name,
            description=parts.description,
            inputSchema={"json": dict(parts.parameters)},
            context=True,
        )
        def recall(tool_context: ToolContext, query: str = "", handle: str = "") -> str:
            session = self.open_session(self.find_agent_key(tool_context.agent))
            return session.answer_recall({"query": query, "handle": handle})

        return recall

    def _attach(self, event: AgentInitializedEvent) -> None:
        """Check the agent's key, offer it `recall`, and stand at its model's door."""
        agent = event.agent
        self.find_agent_key(agent)
        if self.recall is not None:
            known = agent.tool_registry.registry.get(self.recall_name)
            if known is None:
                agent.tool_registry.register_tool(self.recall)
            elif known is not self.recall:
                raise RefoldError(
                    f"the agent has a tool {self.recall_name!r} of its own: pass recall_name= or recall=False"
                )
        if hasattr(agent, "add_middleware"):
            from strands.middleware import InvokeModelStage  # not in versions before 1.62

            agent.add_middleware(InvokeModelStage.Input, self._wrap_model)

    def _wrap_model(self, context: Any) -> Any:
        return context.replace(model=_ModelDoor(self, context.agent, context.model))

    def _begin_call(self, event: BeforeModelCallEvent) -> None:
        agent = event.agent
        self._refuse_others(event)
        if not hasattr(agent, "add_middleware") and not isinstance(agent.model, _ModelDoor):
            agent.model = cast("Any", _ModelDoor(self, agent, agent.model))

    def _end_call(self, event: AfterModelCallEvent) -> None:
        if isinstance(event.agent.model, _ModelDoor):
            event.agent.model = event.agent.model.inner

    def _refuse_others(self, event: BeforeModelCallEvent) -> None:
        """Refuse what would shorten the conversation beside us."""
        agent = event.agent
        callbacks = agent.hooks.get_callbacks_for(event)
        managers = [agent.conversation_manager, *(getattr(call, "__self__", None) for call in callbacks)]
        for other in managers:
            if isinstance(other, ConversationManager) and other is not self:
                raise RefoldError(
                    f"{type(other).__name__} would change the messages beside Refold: "
                    "give the agent one conversation_manager only"
                )
        config = read_config(agent.model)
        for name in _PARAMS:
            if "context_management" in (config.get(name) or {}):
                raise RefoldError(
                    f"the provider would compact beside Refold: remove context_management from its {name}"
                )

    def follow_agent(self, agent: Any, model: Any) -> Session:
        """Return the session of an agent, measured against the model that serves now."""
        session = self.open_session(self.find_agent_key(agent))
        window = getattr(model, "context_window_limit", None)
        self.follow_model(session, name_model(model), window=window, endpoint=find_endpoint(model))
        return session

    def choose_specs(self, session: Session, specs: Sequence[Any]) -> list[Any]:
        """Return the tools to offer: `recall` from the first fold on, if the user wants it so."""
        if self.recall_when != "folded" or session.recall_tool(when="folded") is not None:
            return list(specs)
        return [spec for spec in specs if spec["name"] != self.recall_name]

    def list_tools(self, agent: Any, specs: Sequence[Any]) -> list[Any]:
        """Return tools as Converse has them; the same list while they are the same, which is counted once."""
        tools = [{"toolSpec": spec} for spec in specs]
        if tools != self._tools.get(agent):
            self._tools[agent] = tools
        return self._tools[agent]


class _ThreadedSession:
    """A session for whichever event loop is running: Strands starts one for each call of an agent.

    It is opened with the first call, in the same thread.
    """

    session: Session

    def __init__(self, open_session: Callable[[], Session]) -> None:
        self._open = open_session

    @property
    def state(self) -> Any:
        return self.session.state

    async def prepare(self, messages: Sequence[Any], *, system: Any, tools: Any) -> Ready:
        return await asyncio.to_thread(self._prepare, messages, system, tools)

    def _prepare(self, messages: Sequence[Any], system: Any, tools: Any) -> Ready:
        self.session = self._open()
        return self.session.prepare(messages, system=system, tools=tools)

    async def observe(self, answer: Any, *, say: bool = False) -> Observed:
        return await asyncio.to_thread(self.session.observe, answer, say=say)

    async def _run_without_store(self, flow: Any) -> Observed:
        return await asyncio.to_thread(self.session._run_without_store, flow)  # noqa: SLF001  # our session


class _ModelDoor:
    """An agent's model for one call: it is given the whole history, and sends the view."""

    def __init__(self, manager: RefoldConversationManager, agent: Any, inner: Any) -> None:
        self._manager, self._agent, self.inner = manager, agent, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def stream(
        self, messages: list[Native], tool_specs: Any = None, system_prompt: Any = None, **more: Any
    ) -> AsyncGenerator[Any, None]:
        """Stream the answer to the view; a refusal for size is answered with a smaller one."""
        manager, specs = self._manager, tool_specs or ()
        threaded = _ThreadedSession(partial(manager.follow_agent, self._agent, self.inner))
        said, added = split_added(messages, more.get("dynamic_trailing_blocks", 0))
        system = system_prompt or more.get("system_prompt_content")
        tools = manager.list_tools(self._agent, specs)
        turn = AsyncTurn(cast("Any", threaded), BRIDGE, said, system=system, tools=tools)

        def call(view: list[Native]) -> Any:
            offered = manager.choose_specs(threaded.session, specs)
            return self.inner.stream(add_blocks(view, added), offered or None, system_prompt, **more)

        async with aclosing(turn.stream(call, partial(AnswerChunks, self.inner))) as chunks:
            async for chunk in chunks:
                yield chunk


async def _ask_model(model: Any, name: str, question: Ask) -> Answer:
    """Ask a model of Strands plainly: without tools or hooks of an agent."""
    messages = [{"role": "user", "content": [{"text": question.text}]}]
    chunks = AnswerChunks(model)
    async for chunk in model.stream(messages, None, question.system or None):
        chunks.add(chunk)
    response = read_response(chunks.assemble())
    usage = response.usage
    return Answer(
        text=chunks.text,
        finish=response.finish,
        model=name,
        input_tokens=None if usage is None else usage.input,
        output_tokens=None if usage is None else usage.output,
    )
