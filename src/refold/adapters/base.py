"""The base of every adapter: its sessions, the way from a framework's messages to a view and back, one turn.

An adapter brings two functions. `to_wire` gives the wire items of one message of the framework; one message
may be several items, such as a request with three tool results. `from_wire` makes messages of the framework
from items that a fold made or changed. Everything else comes back as the very object that went in.
"""

import os
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NoReturn, TypeAlias, TypeVar

from refold.adapters.option_checks import check_key_and_options, check_recall, check_session_options
from refold.calls.summariser import AskTarget
from refold.core.compaction.policy import Policy
from refold.core.models.windows import lookup
from refold.errors import RefoldError, WindowUnknown
from refold.session import turns
from refold.session.async_session import AsyncSession
from refold.session.chunks import ChunkReader, ProviderChunks
from refold.session.events import Listener
from refold.session.many import MAX_OPEN, Sessions
from refold.session.results import Ready
from refold.session.session import Session
from refold.session.steps.recall import NAME, OfferedWhen, schema
from refold.session.turns import View
from refold.stores import Store

N = TypeVar("N")
RecallWhen: TypeAlias = OfferedWhen | Literal[False]
Key: TypeAlias = str | Callable[[Any], str]
Wire: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecallTool:
    """The tool by which a model reads what was folded, for frameworks that build tools from their parts."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The arguments as a JSON Schema."""


class Adapter:
    """Sessions by key over one store. Every adapter has these options and calls."""

    def __init__(
        self,
        *,
        format: str,  # noqa: A002  # the word users know
        policy: str | Policy = "refold",
        ask: AskTarget = None,
        store: str | os.PathLike[str] | Store | None = None,
        window: int | str | None = None,
        model: str | None = None,
        max_dollars: float | str | None = None,
        recall: RecallWhen = "always",
        recall_name: str = NAME,
        key: Key | None = None,
        on_event: Listener | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the options; the store is opened when the first session is.

        format       the wire format of the items that `to_wire` makes
        policy, ask, store, window, model, max_dollars    as for `refold.open`
        recall       "always": the model has the tool from the first turn on; "folded": once something is
                     folded; False: never
        recall_name  the tool's name, where the agent has a `recall` of its own
        key          the session's key, or a callable that finds it; else the framework's own id is the key
        on_event     called with every event of every session
        options      more options of `refold.open`
        """
        check_recall(recall, recall_name)
        check_key_and_options(key, options)
        self.recall_when: RecallWhen = recall
        self.recall_name, self._key = recall_name, key
        self._model, self._window = model, window
        self._options = {
            "format": format,
            "policy": policy,
            "ask": ask,
            "window": window,
            "model": model,
            "max_dollars": max_dollars,
            **(options or {}),
        }
        check_session_options(self._options, on_event)
        self._store, self._on_event = store, on_event
        self._opened: dict[str, Sessions] = {}
        self._served: OrderedDict[str, dict[str, Any]] = OrderedDict()

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

    def session(self, key: str | None = None) -> Session:
        """Return the session of a key: its log, folds, `unfold`, `recall`, receipts and costs.

        key   may be left out where the adapter was made with one
        """
        session = self.sessions.get(self.find_key(key))
        served = self._served.get(session.name)
        if served is not None and session.model != served["model"]:  # it was followed in an event loop
            session.use(**served)
        return session

    async def asession(self, key: str | None = None) -> AsyncSession:
        """Return the session of a key for an event loop."""
        return await self.sessions.aget(self.find_key(key))

    def close(self) -> None:
        """Close the sessions and the store."""
        if self._opened:
            self.sessions.close()

    async def aclose(self) -> None:
        """Close the sessions of the event loop, then do as `close`."""
        if self._opened:
            await self.sessions.aclose()

    def find_key(self, found: str | None, *parts: str | None, request: Any = None) -> str:
        """Return the key of a session.

        found     the framework's id of the conversation, or None if it has none
        parts     what tells a conversation inside it apart, such as the name of a sub-agent
        request   what a callable `key` is given; None where the caller of the adapter names the session
        """
        if callable(self._key) and request is not None:
            return self._key(request)
        own = self._key if isinstance(self._key, str) else None
        first = (own or found) if request is not None else (found or own)
        if not first:
            self._refuse_missing_key()
        return ":".join((first, *(part for part in parts if part)))

    def _refuse_missing_key(self) -> NoReturn:
        raise RefoldError(
            f"{type(self).__name__} cannot tell which conversation this is: {self.key_advice}, or pass key="
        )

    key_advice = "give the conversation an id"
    """How the framework's users name a conversation; each adapter says it in its own words."""

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


@dataclass(frozen=True, slots=True)
class Bridge(Generic[N]):
    """The way from a framework's messages to wire items and back."""

    to_wire: Callable[[N], Sequence[Wire]]
    """Depends on the message alone: ids by chance or the time would make each turn a branch."""
    from_wire: Callable[[Sequence[Wire]], Sequence[N]]

    def translate(self, natives: Sequence[N]) -> "Translated[N]":
        """Return the wire items of a list of messages."""
        items: list[Wire] = []
        owners: list[tuple[int, int]] = []
        for index, native in enumerate(natives):
            own = self.to_wire(native)
            items += own
            owners += [(index, len(own))] * len(own)
        return Translated(self, natives, items, owners)


@dataclass(frozen=True, slots=True)
class Translated(Generic[N]):
    """A list of messages, its wire items, and which items belong to which message."""

    bridge: Bridge[N]
    natives: Sequence[N]
    items: list[Wire]
    owners: list[tuple[int, int]]
    """For each item the index of its message, and how many items that message has."""

    def restore(self, view: View) -> list[N]:
        """Return a view in the framework's own messages.

        A message whose items all stand side by side comes back as the object that it was.
        """
        messages, origins = view.messages or [], view.origins
        if origins == list(range(len(self.items))):  # nothing is folded: the owners need not be found
            return list(self.natives)
        restored: list[N] = []
        made: list[Wire] = []
        at = 0
        while at < len(messages):
            index, size = self._find_owner(origins, at)
            if size:
                restored += self.bridge.from_wire(made) if made else ()
                restored.append(self.natives[index])
                made, at = [], at + size
            else:
                made.append(messages[at])
                at += 1
        return restored + list(self.bridge.from_wire(made) if made else ())

    def _find_owner(self, origins: Sequence[int | None], at: int) -> tuple[int, int]:
        """Return the message whose items begin here and are all there, and their number; else 0 items."""
        origin = origins[at]
        if origin is None:
            return 0, 0
        index, size = self.owners[origin]
        if origin and self.owners[origin - 1][0] == index:
            return 0, 0  # in the middle of a message
        whole = list(origins[at : at + size]) == list(range(origin, origin + size))
        return (index, size) if whole else (0, 0)


class Turn(Generic[N]):
    """One request of a framework: its messages in, the view to send out, the answer or the error observed.

    `send` and `stream` do all of it. A framework that has a hook for each step calls `prepare` and `observe`.
    """

    def __init__(
        self,
        session: Session,
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
        self.session = session
        self._translated = bridge.translate(natives)
        self._beside = {"system": system, "tools": tools or None}
        self._say = say

    def prepare(self) -> list[N]:
        """Return the messages to send."""
        return self._translated.restore(self._prepare())

    def observe(self, answer: Any) -> list[N] | None:
        """Take in a response or an error; returns the messages to send again, or None."""
        observed = self.session.observe(answer)
        return self._translated.restore(observed) if observed.send_again else None

    def send(self, call: Callable[[list[N]], Any], read: Callable[[Any], Any] | None = None) -> Any:
        """Call the model with the view, once more after a refusal for size, and return its response.

        read   the answer in the response, where `Session.observe` cannot find it by itself
        """
        return turns.send(self.session, self._translate_call(call), self._prepare(), say=self._say, read=read)

    def stream(
        self, call: Callable[[list[N]], Any], reader: Callable[[], ChunkReader] = ProviderChunks
    ) -> Iterator[Any]:
        """Do the same as `send` with a stream; `reader` tells what the framework's chunks mean."""
        return turns.stream(
            self.session, self._translate_call(call), self._prepare(), say=self._say, reader=reader
        )

    def _prepare(self) -> Ready:
        return self.session.prepare(self._translated.items, **self._beside)

    def _translate_call(self, call: Callable[[list[N]], Any]) -> Callable[[View], Any]:
        return lambda view: call(self._translated.restore(view))


class AsyncTurn(Generic[N]):
    """The same in an event loop."""

    def __init__(
        self,
        session: AsyncSession,
        bridge: Bridge[N],
        natives: Sequence[N],
        *,
        system: Any = None,
        tools: Sequence[Any] | None = None,
        say: bool = False,
    ) -> None:
        self.session = session
        self._translated = bridge.translate(natives)
        self._beside = {"system": system, "tools": tools or None}
        self._say = say

    async def prepare(self) -> list[N]:
        """Return the messages to send."""
        return self._translated.restore(await self._prepare())

    async def observe(self, answer: Any) -> list[N] | None:
        """Take in a response or an error; returns the messages to send again, or None."""
        observed = await self.session.observe(answer)
        return self._translated.restore(observed) if observed.send_again else None

    async def send(self, call: Callable[[list[N]], Any], read: Callable[[Any], Any] | None = None) -> Any:
        """Call the model with the view, once more after a refusal for size, and return its response."""
        return await turns.asend(
            self.session, self._translate_call(call), await self._prepare(), say=self._say, read=read
        )

    async def open(self, call: Callable[[list[N]], Any]) -> Any:
        """Return what `call` opens with the view, such as a stream, also after a refusal for size.

        The caller observes it at its end.
        """
        return await turns.aopen_source(self.session, self._translate_call(call), await self._prepare())

    async def stream(
        self, call: Callable[[list[N]], Any], reader: Callable[[], ChunkReader] = ProviderChunks
    ) -> AsyncGenerator[Any, None]:
        """Do the same as `send` with a stream; `reader` tells what the framework's chunks mean."""
        from contextlib import aclosing  # imports asyncio, which is expensive

        chunks = turns.astream(
            self.session, self._translate_call(call), await self._prepare(), say=self._say, reader=reader
        )
        # Without `aclosing` a consumer that stops early would leave the inner generator open.
        async with aclosing(chunks) as passed:
            async for chunk in passed:
                yield chunk

    async def _prepare(self) -> Ready:
        return await self.session.prepare(self._translated.items, **self._beside)

    def _translate_call(self, call: Callable[[list[N]], Any]) -> Callable[[View], Any]:
        return lambda view: call(self._translated.restore(view))


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
