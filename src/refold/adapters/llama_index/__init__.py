"""LlamaIndex: an LLM object whose chats are folded; the memory of the agent keeps every message.

    llm = refolded(OpenAI("gpt-4o"), "t1")
    agent = FunctionAgent(tools=[*tools, llm.refold.recall], llm=llm)
    await agent.run("go on", memory=RefoldMemory.of(llm))

The LLM is the place, and not the memory: a memory sees a turn when it has ended, and the tool calls of a
running turn lie in the agent's own list until then.
"""

import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextvars import Context
from functools import cached_property
from typing import Any, TypeVar

from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms.llm import LLM
from llama_index.core.memory.types import BaseMemory
from llama_index.core.tools import FunctionTool

from refold.adapters.base import Adapter, AsyncTurn, RecallWhen, Turn, UsageChunks
from refold.adapters.llama_index.messages import BRIDGE, from_wire, to_wire
from refold.calls.summariser import AskTarget
from refold.core.compaction.flow import Answer, Ask
from refold.core.compaction.policy import Policy
from refold.core.messages.repair import MISSING
from refold.core.tokens.usage import read_usage
from refold.errors import RefoldError
from refold.session.async_session import AsyncSession
from refold.session.events import Listener
from refold.session.session import Session
from refold.session.steps.recall import NAME
from refold.stores import Store

L = TypeVar("L", bound=LLM)


class Refold(Adapter[LLM]):
    """Sessions for LLM objects of LlamaIndex; `wrap` gives an LLM whose chats go through a session.

    The options are those of `Adapter`. `ask` may be an LLM of LlamaIndex. A callable `key` is given the list
    of messages of a request.
    """

    key_advice = 'name it: refolded(llm, "thread-1"), or Refold(...).wrap(llm, "thread-1")'

    def read_ask(self, ask: AskTarget | LLM) -> AskTarget:
        """Return who writes summaries, which may be an LLM of LlamaIndex."""
        return LLMAnswerer(ask) if isinstance(ask, LLM) else ask

    def set_up(self) -> None:
        """Remember the classes of wrapped LLMs."""
        self._classes: dict[type[LLM], type[LLM]] = {}

    def wrap(self, llm: L, key: str | None = None) -> L:
        """Return a copy of an LLM whose chats go through the session of a key; `llm` stays as it is."""
        if not isinstance(llm, LLM):
            raise RefoldError(f"cannot wrap {type(llm).__name__}: pass an LLM of LlamaIndex")
        if isinstance(llm, RefoldedChats):
            raise RefoldError("this LLM is wrapped already: wrap the LLM that it was made from")
        kind = type(llm)
        if kind not in self._classes:
            self._classes[kind] = _make_class(kind)
        copy = llm.model_copy()
        copy.__class__ = self._classes[kind]  # the fields are the same; only the four calls are others
        object.__setattr__(copy, "_refold", self)
        object.__setattr__(copy, "_refold_key", key)
        return copy

    @cached_property
    def recall(self) -> FunctionTool:
        """The tool by which a model reads what was folded, for an adapter that was made with a key."""
        return self.recall_of(None)

    def recall_of(self, key: str | None) -> FunctionTool:
        """Return the same tool for the session of a key."""
        parts = self.recall_tool

        def recall(query: str = "", handle: str = "") -> str:
            session = self.open_session(self.find_key(key))
            return session.answer_recall({"query": query, "handle": handle})

        async def arecall(query: str = "", handle: str = "") -> str:
            session = await self.sessions.aget(self.find_key(key))
            return await session.answer_recall({"query": query, "handle": handle})

        return FunctionTool.from_defaults(
            recall, name=parts.name, description=parts.description, async_fn=arecall
        )

    @property
    def store_address(self) -> str | None:
        """The address of the store, for a program that starts again; None if it was given as an object."""
        return str(self._store) if isinstance(self._store, str | os.PathLike) else None

    def begin(
        self, llm: LLM, messages: Sequence[ChatMessage], options: Mapping[str, Any]
    ) -> Turn[ChatMessage]:
        """Return the turn of a chat with an LLM that `wrap` gave."""
        session = self.sessions.get(self._find_key(llm, messages))
        self._follow_llm(session, llm)
        return Turn(session, BRIDGE, messages, tools=options.get("tools"), say=True)

    async def abegin(
        self, llm: Any, messages: Sequence[ChatMessage], options: Mapping[str, Any]
    ) -> AsyncTurn[ChatMessage]:
        """Do the same in an event loop."""
        session = await self.sessions.aget(self._find_key(llm, messages))
        self._follow_llm(session, llm)
        return AsyncTurn(session, BRIDGE, messages, tools=options.get("tools"), say=True)

    def offer(self, session: Session, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a chat, without `recall` while it is only for what is folded."""
        if self.recall_when != "folded" or session.recall_tool(when="folded") is not None:
            return options
        return self._hide_recall(options)

    async def aoffer(self, session: AsyncSession, options: dict[str, Any]) -> dict[str, Any]:
        """Do the same in an event loop."""
        if self.recall_when != "folded" or await session.recall_tool(when="folded") is not None:
            return options
        return self._hide_recall(options)

    def _hide_recall(self, options: dict[str, Any]) -> dict[str, Any]:
        tools = [tool for tool in options.get("tools") or () if _read_tool_name(tool) != self.recall_name]
        return {**options, "tools": tools or None}

    def _find_key(self, llm: Any, messages: Sequence[ChatMessage]) -> str:
        return self.find_key(llm._refold_key, request=messages)  # noqa: SLF001  # `wrap` has set it

    def _follow_llm(self, session: Session | AsyncSession, llm: LLM) -> None:
        """Measure against the model of an LLM."""
        endpoint = getattr(llm, "api_base", None) or getattr(llm, "base_url", None)
        self.follow_model(
            session,
            name_model(llm),
            endpoint=endpoint if isinstance(endpoint, str) else None,
            window=llm.metadata.context_window,
        )


def refolded(
    llm: L,
    key: str,
    *,
    policy: str | Policy = "refold",
    ask: AskTarget | LLM = None,
    store: str | os.PathLike[str] | Store | None = None,
    window: int | str | None = None,
    model: str | None = None,
    max_dollars: float | str | None = None,
    recall: RecallWhen = "always",
    recall_name: str = NAME,
    on_event: Listener | None = None,
    options: Mapping[str, Any] | None = None,
) -> L:
    """Return a copy of an LLM whose chats go through the session of a key; `.refold` is its `Refold`.

    Many conversations over one store: `Refold(...)` once, and `refold.wrap(llm, key)` for each.
    """
    adapter = Refold(
        policy=policy,
        ask=ask,
        store=store,
        window=window,
        model=model,
        max_dollars=max_dollars,
        recall=recall,
        recall_name=recall_name,
        key=key,
        on_event=on_event,
        options=options,
    )
    return adapter.wrap(llm)


class RefoldedChats:
    """The four chats of an LLM that `wrap` gave; it stands before the LLM's own class."""

    _refold: Refold

    @property
    def refold(self) -> Refold:
        """The adapter: its sessions, the tool `recall`, `close()`."""
        return self._refold

    def chat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        """Chat with the view of the session."""
        adapter, inner = self._refold, super().chat  # type: ignore[misc]  # the class behind has it
        turn = adapter.begin(self, messages, options)
        return turn.send(lambda view: inner(view, **adapter.offer(turn.session, options)), read_answer)

    async def achat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        """Do the same in an event loop."""
        adapter, inner = self._refold, super().achat  # type: ignore[misc]  # the class behind has it
        turn = await adapter.abegin(self, messages, options)

        async def call(view: list[ChatMessage]) -> ChatResponse:
            return await inner(view, **await adapter.aoffer(turn.session, options))

        return await turn.send(call, read_answer)

    def stream_chat(self, messages: Sequence[ChatMessage], **options: Any) -> Iterator[ChatResponse]:
        """Do the same with a stream."""
        adapter, inner = self._refold, super().stream_chat  # type: ignore[misc]  # the class behind has it
        turn = adapter.begin(self, messages, options)
        return turn.stream(lambda view: inner(view, **adapter.offer(turn.session, options)), LastChunk)

    async def astream_chat(
        self, messages: Sequence[ChatMessage], **options: Any
    ) -> AsyncGenerator[ChatResponse, None]:
        """Do the same with a stream in an event loop."""
        adapter, inner = self._refold, super().astream_chat  # type: ignore[misc]  # the class behind has it
        turn = await adapter.abegin(self, messages, options)

        async def call(view: list[ChatMessage]) -> Any:
            return await inner(view, **await adapter.aoffer(turn.session, options))

        return turn.stream(call, LastChunk)


def _make_class(kind: Any) -> type[LLM]:
    """Return a class of LLMs like `kind` whose chats go through a session."""
    fields = {
        "__module__": kind.__module__,
        "__annotations__": {"_refold": Any, "_refold_key": Any},
        "_refold": PrivateAttr(),
        "_refold_key": PrivateAttr(default=None),
    }
    made: type[LLM] = type(kind)(kind.__name__, (RefoldedChats, kind), fields)
    return made


class LastChunk(UsageChunks):
    """Reads a stream of LlamaIndex, where each chunk holds the answer as far as it came."""

    def __init__(self) -> None:
        super().__init__(lambda chunk: _find_usage(chunk) or None)
        self._last: ChatResponse | None = None

    def add(self, chunk: ChatResponse) -> None:
        """Keep the chunk, and the usage where it has one."""
        self._last = chunk
        super().add(chunk)

    def assemble(self) -> Any:
        """Return the answer as chat completions have it."""
        return None if self._last is None else _write_answer(self._last, super().assemble())


def read_answer(response: ChatResponse) -> Any:
    """Return an answer with its usage as chat completions have it."""
    return _write_answer(response, _find_usage(response))


def _write_answer(response: ChatResponse, usage: Any) -> Any:
    return {"choices": [{"message": to_wire(response.message)[0]}], "usage": usage}


def _find_usage(response: ChatResponse) -> Any:
    """Return the usage in what the provider's SDK gave; None if it has none."""
    raw = response.raw
    if isinstance(raw, dict):
        return raw.get("usage")
    # the last event of a stream of Responses has the whole answer
    return getattr(raw, "usage", None) or getattr(getattr(raw, "response", None), "usage", None)


def name_model(llm: LLM) -> str:
    """Return provider and name of an LLM's model; the provider is in the name of its package."""
    modules = (kind.__module__.split(".") for kind in type(llm).__mro__)
    package = next((parts for parts in modules if parts[:2] == ["llama_index", "llms"]), [])
    name = llm.metadata.model_name
    return f"{package[2]}:{name}" if len(package) > 2 and name else name


def _read_tool_name(tool: Any) -> Any:
    return (tool.get("function") or tool).get("name") if isinstance(tool, dict) else None


class RefoldMemory(BaseMemory):
    """The memory of an agent: every message, read from Refold's log when a program starts again.

    It cuts nothing, because the LLM that `wrap` gave makes the view. It has what the model has seen, but no
    system message in front: an agent puts its own there at each chat. For agents that write their own
    thoughts into the messages (ReActAgent), use a memory of LlamaIndex.
    """

    key: str
    store: str | None = None
    _refold: Refold | None = PrivateAttr(default=None)
    _messages: list[ChatMessage] | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, llm: Any, key: str | None = None) -> "RefoldMemory":
        """Return the memory of an LLM that `wrap` or `refolded` gave."""
        adapter: Refold = llm.refold
        name = adapter.find_key(key or llm._refold_key)  # noqa: SLF001  # `wrap` has set it
        memory = cls(key=name, store=adapter.store_address)
        memory._refold = adapter
        return memory

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex stores it."""
        return "RefoldMemory"

    @classmethod
    def from_defaults(cls, **options: Any) -> "RefoldMemory":
        """Make a memory of its fields."""
        return cls(**options)

    def get_all(self) -> list[ChatMessage]:
        """Return every message."""
        return list(self._load())

    def get(self, input: str | None = None, **options: Any) -> list[ChatMessage]:  # noqa: A002, ARG002  # as LlamaIndex names them
        """Return every message."""
        return self.get_all()

    def put(self, message: ChatMessage) -> None:
        """Append a message; Refold stores it when the model is asked next."""
        self._load().append(message)

    def set(self, messages: list[ChatMessage]) -> None:
        """Replace the messages."""
        self._messages = list(messages)

    def reset(self) -> None:
        """Begin anew; what was said stays in the log."""
        self._messages = []

    def _load(self) -> list[ChatMessage]:
        """Return the messages, from the log at first."""
        if self._messages is None:
            adapter = self._refold or Refold(store=self.store)
            items = [entry.value for entry in adapter.open_session(self.key).log(kinds=["said"])]
            last: dict[str, Any] = next((item for item in reversed(items) if item["role"] != "tool"), {})
            answered = {item.get("tool_call_id") for item in items}
            missing = [call["id"] for call in last.get("tool_calls") or () if call["id"] not in answered]
            # Who is interrupted leaves calls open, which a provider refuses.
            items += [{"role": "tool", "tool_call_id": name, "content": MISSING.result} for name in missing]
            self._messages = from_wire(items)
            if self._refold is None:
                adapter.close()
        return self._messages


class LLMAnswerer:
    """An LLM of LlamaIndex that writes summaries, apart from the agent that runs."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self.model = name_model(llm)
        self.window = llm.metadata.context_window

    def __call__(self, question: Ask) -> Answer:
        """Ask the LLM, outside of the agent's run, which would trace it as a step of its own."""
        system = [ChatMessage(role="system", content=question.system)] if question.system else []
        reply = Context().run(self._llm.chat, [*system, ChatMessage(role="user", content=question.text)])
        usage = read_usage({"usage": _find_usage(reply)})
        return Answer(
            text=reply.message.content or "",
            model=self.model,
            input_tokens=usage.input if usage else None,
            output_tokens=usage.output if usage else None,
        )
