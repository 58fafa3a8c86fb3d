"""The base of every adapter: its options, its sessions by key, one turn of a conversation."""

import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NoReturn, TypeAlias, TypeVar, cast

from refold.adapters.bridge import Bridge
from refold.adapters.option_checks import check_key_and_options, check_recall, check_session_options
from refold.calls.summariser import AskTarget
from refold.core.compaction.policy import Policy
from refold.core.models.windows import lookup
from refold.errors import RefoldError, SessionNotFound, WindowUnknown
from refold.session import turns
from refold.session.async_session import AsyncSession
from refold.session.chunks import ChunkReader, ProviderChunks
from refold.session.events import Listener
from refold.session.many import MAX_OPEN, Sessions
from refold.session.own_turn import AsyncOwnTurn, OwnTurn
from refold.session.session import Session
from refold.session.steps.recall import NAME, OfferedWhen, schema
from refold.session.turns import View
from refold.stores import Store

N = TypeVar("N")
M = TypeVar("M")
S = TypeVar("S")
RecallWhen: TypeAlias = OfferedWhen | Literal[False]
Key: TypeAlias = str | Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class RecallTool:
    """The tool by which a model reads what was folded, for frameworks that build tools from their parts."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The arguments as a JSON Schema."""


class Adapter(Generic[M]):
    """Sessions by key over one store. Every adapter has these options and calls.

    An adapter says in fields and methods what is its own. `M` is what the framework calls a model.
    """

    wire_format: ClassVar[str] = "openai"
    """The wire format of the items that `to_wire` makes."""
    key_advice: ClassVar[str] = "give the conversation an id"
    """How the framework's users name a conversation; each adapter says it in its own words."""

    def __init__(
        self,
        key: Key | None = None,
        *,
        policy: str | Policy = "refold",
        ask: AskTarget | M = None,
        store: str | os.PathLike[str] | Store | None = None,
        window: int | str | None = None,
        model: str | None = None,
        max_dollars: float | str | None = None,
        recall: RecallWhen = "always",
        recall_name: str = NAME,
        on_event: Listener | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the options; the store is opened when the first session is.

        key          the session's key, or a callable that finds it; else the framework's own id is the key
        policy, ask, store, window, model, max_dollars    as for `refold.open`; `ask` may also be a model of
                     the framework, which is asked plainly
        recall       "always": the model has the tool from the first turn on; "folded": once something is
                     folded; False: never
        recall_name  the tool's name, where the agent has a `recall` of its own
        on_event     called with every event of every session
        options      more options of `refold.open`
        """
        check_recall(recall, recall_name)
        check_key_and_options(key, options)
        self.recall_when: RecallWhen = recall
        self.recall_name, self._key = recall_name, key
        self._model, self._window = model, window
        self._options = {
            "format": self.wire_format,
            "policy": policy,
            "ask": self.read_ask(ask),
            "window": window,
            "model": model,
            "max_dollars": max_dollars,
            **(options or {}),
        }
        check_session_options(self._options, on_event, store)
        self._store, self._on_event = store, on_event
        self._opened: dict[str, Sessions] = {}
        self._served: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self.set_up()

    def read_ask(self, ask: AskTarget | M) -> AskTarget:
        """Return who writes summaries; an adapter makes a client of a model of its framework."""
        return cast("AskTarget", ask)

    def set_up(self) -> None:
        """Make what an adapter keeps beside its sessions."""

    @property
    def sessions(self) -> Sessions:
        """The sessions of this adapter, over one store; copies of the adapter have the same."""
        opened = self._opened.get("sessions")
        if opened is None:
            made = Sessions(store=self._store, on_event=self._on_event, **self._options)
            opened = self._opened.setdefault("sessions", made)  # of two threads one is the first
            if opened is not made:
                made.close()
        return opened

    def session(self, key: str | int | None = None, *, create: bool = False) -> Session:
        """Return the session of a key: its log, folds, `unfold`, `recall`, receipts and costs.

        key      may be left out where the adapter was made with one
        create   True to open it before the conversation has begun; else a key that is not known is refused
        """
        session = self.open_session(self.find_key(key))
        if not create and not session.unsaved:
            self._refuse_unknown(session.name)
        return session

    async def asession(self, key: str | int | None = None, *, create: bool = False) -> AsyncSession:
        """Return the session of a key for an event loop."""
        session = await self.sessions.aget(self.find_key(key))
        if not create and not session.unsaved:
            from asyncio import to_thread  # expensive to import; whoever is here has imported it already

            await to_thread(self._refuse_unknown, session.name)
        return session

    def _refuse_unknown(self, name: str) -> None:
        """Raise if nothing was said under a name: an empty session would hide a mistyped key."""
        if name != self._key and self.sessions.store.head(name) is None:
            raise SessionNotFound(
                f"nothing was said in a conversation {name!r}: check the key, or pass create=True"
            )

    def open_session(self, name: str) -> Session:
        """Return the session of a name for a request, which may be its first."""
        session = self.sessions.get(name)
        served = self._served.get(session.name)
        if served is not None and session.model != served["model"]:  # it was followed in an event loop
            session.use(**served)
        return session

    def close(self) -> None:
        """Close the sessions and the store."""
        if self._opened:
            self.sessions.close()

    async def aclose(self) -> None:
        """Close the sessions of the event loop, then do as `close`."""
        if self._opened:
            await self.sessions.aclose()

    def find_key(self, found: str | int | None, *parts: str | None, request: Any = None) -> str:
        """Return the key of a session.

        found     the framework's id of the conversation, or None if it has none
        parts     what tells a conversation inside it apart, such as the name of a sub-agent
        request   what a callable `key` is given; None where the caller of the adapter names the session
        """
        if callable(self._key) and request is not None:
            return self._key(request)
        if isinstance(found, int) and not isinstance(found, bool):
            found = str(found)  # also 0
        own = self._key if isinstance(self._key, str) else None
        first = (own or found) if request is not None else (found or own)
        if not first:
            self._refuse_missing_key()
        if not isinstance(first, str):
            raise RefoldError(f"{first!r} is no key of a session: use a text that is not empty, or a number")
        return ":".join((first, *(part for part in parts if part)))

    def _refuse_missing_key(self) -> NoReturn:
        raise RefoldError(
            f"{type(self).__name__} cannot tell which conversation this is: {self.key_advice}, or pass key="
        )

    def follow_model(
        self,
        session: Session | AsyncSession,
        model: str | None,
        *,
        endpoint: str | None = None,
        window: int | None = None,
    ) -> None:
        """Measure against the model that serves now, unless the caller has named one.

        window   the framework's own number, which is taken where no table has the model
        """
        if model and self._model is None and session.model != model:
            believed = self._window or (None if is_listed(model) else window)
            served: dict[str, Any] = {"model": model, "window": believed, "endpoint": endpoint}
            session.use(**served)
            self._served[session.name] = served
            if len(self._served) > MAX_OPEN:
                self._served.popitem(last=False)

    @property
    def recall_tool(self) -> RecallTool:
        """The tool `recall` as a framework's user would define it."""
        function = schema("openai", self.recall_name)["function"]
        return RecallTool(function["name"], function["description"], function["parameters"])


def is_listed(model: str) -> bool:
    """True if a table has the window of a model."""
    try:
        return lookup(model, fallback=None).source != "provider default"
    except WindowUnknown:
        return False


class _Request(Generic[N, S]):
    """One request of a framework: its messages, and the turn of the session that they are sent in."""

    own_turn: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        session: S,
        bridge: Bridge[N],
        natives: Sequence[N],
        *,
        system: Any = None,
        tools: Sequence[Any] | None = None,
        say: bool = False,
    ) -> None:
        """Translate the messages.

        say   True to store the answer as soon as it is there, where the framework's history may be rebuilt
              from the log; else it comes with the next list
        """
        self.session, self._say = session, say
        self._translated = bridge.translate(natives)
        beside = {"system": system, "tools": tools or None}
        self._own: Any = self.own_turn(session, self._translated.items, beside, is_own=True)

    def _translate_call(self, call: Callable[[list[N]], Any]) -> Callable[[View], Any]:
        return lambda view: call(self._translated.restore(view))


class Turn(_Request[N, Session]):
    """One request of a framework: its messages in, the view to send out, the answer or the error observed.

    `send` and `stream` do all of it. A framework that has a hook for each step calls `prepare` and `observe`.
    """

    own_turn = OwnTurn
    _own: OwnTurn

    def prepare(self) -> list[N]:
        """Return the messages to send."""
        return self._translated.restore(self._own.prepare())

    def observe(self, answer: Any) -> list[N] | None:
        """Take in a response or an error; returns the messages to send again, or None."""
        observed = self._own.observe(answer)
        return self._translated.restore(observed) if observed.send_again else None

    def send(self, call: Callable[[list[N]], Any], read: Callable[[Any], Any] | None = None) -> Any:
        """Call the model with the view, once more after a refusal for size, and return its response.

        read   the answer in the response, where `Session.observe` cannot find it by itself
        """
        own = self._own
        return turns.send(own, self._translate_call(call), own.prepare(), say=self._say, read=read)

    def stream(
        self, call: Callable[[list[N]], Any], reader: Callable[[], ChunkReader] = ProviderChunks
    ) -> Iterator[Any]:
        """Do the same as `send` with a stream; `reader` tells what the framework's chunks mean."""
        own = self._own
        return turns.stream(own, self._translate_call(call), own.prepare(), say=self._say, reader=reader)


class AsyncTurn(_Request[N, AsyncSession]):
    """The same in an event loop."""

    own_turn = AsyncOwnTurn
    _own: AsyncOwnTurn

    async def prepare(self) -> list[N]:
        """Return the messages to send."""
        return self._translated.restore(await self._own.prepare())

    async def observe(self, answer: Any) -> list[N] | None:
        """Take in a response or an error; returns the messages to send again, or None."""
        observed = await self._own.observe(answer)
        return self._translated.restore(observed) if observed.send_again else None

    async def send(self, call: Callable[[list[N]], Any], read: Callable[[Any], Any] | None = None) -> Any:
        """Call the model with the view, once more after a refusal for size, and return its response."""
        own, send = self._own, self._translate_call(call)
        return await turns.asend(own, send, await own.prepare(), say=self._say, read=read)

    async def open(self, call: Callable[[list[N]], Any]) -> Any:
        """Return what `call` opens with the view, such as a stream, also after a refusal for size.

        The caller observes it at its end.
        """
        return await turns.aopen_source(self._own, self._translate_call(call), await self._own.prepare())

    async def stream(
        self, call: Callable[[list[N]], Any], reader: Callable[[], ChunkReader] = ProviderChunks
    ) -> AsyncGenerator[Any, None]:
        """Do the same as `send` with a stream; `reader` tells what the framework's chunks mean."""
        from contextlib import aclosing  # imports asyncio, which is expensive

        own, send = self._own, self._translate_call(call)
        chunks = turns.astream(own, send, await own.prepare(), say=self._say, reader=reader)
        # Without `aclosing` a consumer that stops early would leave the inner generator open.
        async with aclosing(chunks) as passed:
            async for chunk in passed:
                yield chunk


class UsageChunks:
    """Reads a framework's chunks: the last one of which `read` makes an answer is observed.

    read        the answer in a chunk, such as the chunk that reports usage; None if it has none
    is_opening  True for chunks that have no words yet
    """

    def __init__(
        self, read: Callable[[Any], Any | None], is_opening: Callable[[Any], bool] | None = None
    ) -> None:
        self._read, self._is_opening = read, is_opening
        self._answer: Any = None

    def find_refusal(self, chunk: Any) -> Any | None:  # noqa: ARG002  # frameworks raise their errors
        """Return None: frameworks raise a refusal instead of passing it on."""
        return None

    def is_opening(self, chunk: Any) -> bool:
        """True for a chunk without words."""
        return self._is_opening is not None and self._is_opening(chunk)

    def add(self, chunk: Any) -> None:
        """Keep the answer of a chunk."""
        answer = self._read(chunk)
        if answer is not None:
            self._answer = answer

    def assemble(self) -> Any:
        """Return the answer that came last."""
        return self._answer
