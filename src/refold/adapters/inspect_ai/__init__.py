"""Inspect AI: a model whose conversations are folded, as `refold/<model>` or by `Refold.wrap`.

    eval(task, model="refold/openai/gpt-4o", model_args={"store": "sqlite:refold.db"})

    refold = Refold(store="sqlite:refold.db")
    react(tools=[*tools, refold.recall], model=refold.wrap("openai/gpt-4o"))

Each sample is a session of its own, by the sample's `uuid`. The sample keeps every message. The view is made
at the model's door, where refusals and usage are seen. `react(compaction=Refold())` is a shorter way that
sees neither.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from inspect_ai.event import CompactionEvent
from inspect_ai.log import transcript
from inspect_ai.model import (
    ChatMessage,
    ChatMessageUser,
    CompactionStrategy,
    GenerateConfig,
    Model,
    ModelAPI,
    ModelOutput,
    get_model,
    get_model_info,
    modelapi,
)
from inspect_ai.solver._task_state import sample_state  # Inspect has no public call for it
from inspect_ai.tool import Tool, ToolChoice, ToolDef, ToolInfo, tool

from refold.adapters.base import Adapter, AsyncTurn, Key, RecallTool, RecallWhen
from refold.adapters.inspect_ai.messages import BRIDGE, MADE, to_wire, write_tools
from refold.adapters.inspect_ai.summariser import name_model, to_summariser
from refold.calls.summariser import AskTarget
from refold.core.compaction.policy import Policy
from refold.errors import Overflow, RefoldError
from refold.session.async_session import AsyncSession
from refold.session.events import CompactionEnd, Event, Listener
from refold.session.steps.recall import NAME
from refold.stores import Store

_OPTIONS: Final = ("policy", "ask", "store", "window", "max_dollars", "recall", "recall_name")
"""Options that may be given as model args, such as `-M store=sqlite:refold.db`."""


class Refold(Adapter[Model], CompactionStrategy):
    """As a strategy it folds when Inspect asks; it sees no usage and no refusal: `wrap` a model for those."""

    key_advice = "run it in a sample of an evaluation, or name it: refold.wrap(model, 'thread-1')"

    def __init__(
        self,
        key: Key | None = None,
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
        threshold: float = 0.9,
    ) -> None:
        """Keep the options; they are those of every adapter, see `Adapter`.

        key        a callable is given the `TaskState` of the sample
        ask        may also be a model of Inspect, or its name with a slash: "openai/gpt-4o-mini"
        threshold  of the strategy: tokens, or the share of the window, from which on Inspect asks for a fold
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
        # nothing is lost by a fold, so the model need not save anything into its memory before
        CompactionStrategy.__init__(self, type="summary", threshold=threshold, memory=False)

    def read_ask(self, ask: AskTarget | Model) -> AskTarget:
        """Return who writes summaries, which may be a model of Inspect or its name."""
        return to_summariser(ask)

    def set_up(self) -> None:
        """Write folds into the log of the evaluation as well."""
        self._on_event = _tell_both(self._on_event)

    def wrap(self, model: str | Model, name: str | None = None) -> Model:
        """Return a model whose conversations go through sessions; `model` stays as it is.

        name   outside of a sample the session's key; in a sample what tells the conversation of a sub-agent
               apart from that of the sample
        """
        inner = get_model(model)
        api = _PROVIDER(model_name=str(inner), inner=inner, refold=self, name=name)
        return Model(api, inner.config, dict(inner.model_args))

    @cached_property
    def recall(self) -> Tool:
        """The tool by which a model reads what was folded in its sample."""
        return self.recall_of(None)

    def recall_of(self, name: str | None) -> Tool:
        """Return the same tool for a model that was wrapped with this name."""

        async def execute(query: str = "", handle: str = "") -> str:
            session = await self.sessions.aget(self.find_sample_key(name))
            return await session.answer_recall({"query": query, "handle": handle})

        return _define_recall(execute, self.recall_tool)

    def find_sample_key(self, name: str | None) -> str:
        """Return the key of the conversation that runs now."""
        sample = sample_state()
        if sample is None:
            return self.find_key(name)
        return self.find_key(sample.uuid, name, request=sample)

    async def compact(
        self, model: Model, messages: list[ChatMessage], tools: list[ToolInfo]
    ) -> tuple[list[ChatMessage], ChatMessageUser | None]:
        """Fold what Inspect has gathered. A message of an earlier fold in it is known again."""
        if isinstance(model.api, RefoldAPI):
            raise _refuse_second("Refold")
        session = await self.sessions.aget(self.find_sample_key(None))
        self.follow(session, model)
        turn = AsyncTurn(session, BRIDGE, messages, tools=write_tools(tools))
        await turn.prepare()
        await session.compact()
        return await turn.prepare(), None

    def follow(self, session: AsyncSession, model: Model) -> None:
        """Measure against a model of Inspect."""
        info = get_model_info(str(model))
        self.follow_model(
            session,
            name_model(model),
            endpoint=model.api.base_url,
            window=info.input_tokens if info is not None else None,
        )


class RefoldAPI(ModelAPI):
    """The door of a model: takes the whole conversation, sends the view. Other hooks are the model's own."""

    def __init__(self, inner: Model, refold: Refold, name: str | None = None) -> None:
        api = inner.api
        super().__init__(str(inner), base_url=api.base_url, api_key=api.api_key)
        self.inner, self.refold, self.name = inner, refold, name

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not there yet: while it is copied
            raise AttributeError(name)
        return getattr(self.inner.api, name)

    async def generate(
        self,
        input: list[ChatMessage],  # noqa: A002  # as Inspect names it
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> Any:
        """Send the view, and once more after a refusal; returns what the model's own API returns."""
        _refuse_compacted(input)
        refold, last = self.refold, None
        session = await refold.sessions.aget(refold.find_sample_key(self.name))
        refold.follow(session, self.inner)

        async def call(view: list[ChatMessage]) -> Any:
            nonlocal last
            offered = await self._offer(session, tools)
            last = await self.inner.api.generate(view, offered, tool_choice, config)
            return last

        try:
            return await AsyncTurn(session, BRIDGE, input, tools=write_tools(tools)).send(call, read_answer)
        except Overflow:
            if last is None:
                raise
            return last  # a refusal that no fold can help: Inspect has its own word for it

    async def _offer(self, session: AsyncSession, tools: list[ToolInfo]) -> list[ToolInfo]:
        """Return the tools, without `recall` while it is only for what is folded."""
        refold = self.refold
        if refold.recall_when != "folded" or await session.recall_tool(when="folded") is not None:
            return tools
        return [each for each in tools if each.name != refold.recall_name]

    async def aclose(self) -> None:
        """Close the model's client and the sessions."""
        await self.inner.api.aclose()
        await self.refold.aclose()


def _pass_on(name: str) -> Any:
    def ask_inner(self: RefoldAPI, *args: Any, **options: Any) -> Any:
        return getattr(self.inner.api, name)(*args, **options)

    return ask_inner


# Inspect asks a model's API for its habits, such as limits; each version has more of them.
for _name, _hook in vars(ModelAPI).items():
    if callable(_hook) and not _name.startswith("_") and _name not in vars(RefoldAPI):
        setattr(RefoldAPI, _name, _pass_on(_name))


class RefusedForSize(Exception):  # a value: Inspect has made an answer of the error
    """A refusal for size, which Inspect gives as an answer with the stop reason `model_length`."""


def read_answer(result: Any) -> Any:
    """Return what a session observes: the answer with its usage, or the error."""
    output = result[0] if isinstance(result, tuple) else result
    if isinstance(output, Exception):
        return output
    # an answer that was cut at the window's end has this stop reason too, and usage
    if output.stop_reason == "model_length" and output.usage is None:
        return RefusedForSize(f"context_length_exceeded: {output.completion}")
    return _write_answer(output)


def _write_answer(output: ModelOutput) -> Any:
    usage = output.usage.model_dump(exclude_none=True) if output.usage is not None else None
    return {"choices": [{"message": to_wire(output.message)[0]}], "usage": usage}


def _refuse_compacted(messages: Sequence[ChatMessage]) -> None:
    """Refuse a conversation that Inspect, or the strategy of this module, has compacted before."""
    for message in messages:
        if message.metadata and message.role == "user":
            if MADE in message.metadata:
                raise _refuse_second("Refold")
            if "summary" in message.metadata:
                raise _refuse_second("a strategy of Inspect")


def _refuse_second(name: str) -> RefoldError:
    return RefoldError(f"{name} compacts beside this model: remove compaction= from the agent")


def _define_recall(execute: Any, parts: RecallTool) -> Tool:
    described = {name: each["description"] for name, each in parts.parameters["properties"].items()}
    return ToolDef(execute, name=parts.name, description=parts.description, parameters=described).as_tool()


@tool(name=NAME)
def recall() -> Tool:
    """Return the tool by which the model `refold/...` of an evaluation reads what was folded."""

    async def execute(query: str = "", handle: str = "") -> str:
        api = get_model().api
        if not isinstance(api, RefoldAPI):
            raise RefoldError("the model of this evaluation is not refold/...: use the recall of your Refold")
        session = await api.refold.sessions.aget(api.refold.find_sample_key(api.name))
        return await session.answer_recall({"query": query, "handle": handle})

    return _define_recall(execute, Refold().recall_tool)


def _tell_both(listener: Listener | None) -> Listener:
    """Return a listener that also writes folds into the log of the sample that runs."""

    def tell(event: Event) -> Any:
        if isinstance(event, CompactionEnd) and sample_state() is not None:
            _log_fold(event)
        return listener(event) if listener is not None else None

    return tell


def _log_fold(event: CompactionEnd) -> None:
    transcript()._event(  # noqa: SLF001  # Inspect has no public call for an event of its own kinds
        CompactionEvent(
            source="refold",
            tokens_before=event.tokens_before,
            tokens_after=event.tokens_after,
            metadata={"fold": event.fold, "session": event.session, "stages": list(event.stages)},
        )
    )


def open_api(
    model_name: str,
    base_url: str | None = None,
    api_key: str | None = None,
    config: GenerateConfig | None = None,
    *,
    inner: Model | None = None,
    refold: Refold | None = None,
    name: str | None = None,
    **model_args: Any,
) -> RefoldAPI:
    """Return the API of `refold/<model>`; model args that are no options of Refold are passed on."""
    options = {each: model_args.pop(each) for each in _OPTIONS if each in model_args}
    if refold is not None and options:
        raise RefoldError(f"refold= has its own options: leave out {', '.join(options)}")
    if inner is None:
        beside = {"base_url": base_url, "api_key": api_key, "config": config or GenerateConfig()}
        # not the cached model: `aclose` closes the client of this one
        inner = get_model(model_name, memoize=False, **beside, **model_args)
    return RefoldAPI(inner, refold or Refold(**options), name)


@modelapi(name="refold")
def refold_provider() -> Any:
    """Register `refold/<model>` with Inspect."""
    return open_api


_PROVIDER: Final[Any] = refold_provider
