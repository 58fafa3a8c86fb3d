"""`wrap`: a client of `openai` or `anthropic` whose requests go through a session.

Whatever asks a model ends in the client's `post`: create, parse, stream, their `beta` twins, raw responses.
The copy that `wrap` makes has a `post` of its own. The caller's client, its class and its messages stay as
they are.
"""

import copy
import os
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from functools import cached_property, partial, wraps
from typing import Any, TypeVar

from refold.adapters.clients.requests import (
    DOORS,
    ClientRequest,
    give_back,
    is_at_provider,
    join_extra_body,
    read_answer,
)
from refold.adapters.option_checks import check_listener, check_model
from refold.adapters.watched_streams import watch, watch_async
from refold.arguments import Seconds
from refold.calls.conversation import Count
from refold.calls.summariser import ASK_SECONDS, AskTarget
from refold.core.compaction.circuit_breaker import Limits
from refold.core.compaction.policy import Policy
from refold.errors import RefoldError, warn_caller
from refold.redaction import Mode
from refold.session import aopen, turns
from refold.session import open as open_session
from refold.session.async_session import AsyncSession
from refold.session.events import Listener
from refold.session.own_turn import AsyncOwnTurn, OwnTurn
from refold.session.session import Session
from refold.session.state.settings import Background, NativeCall
from refold.session.turns import View
from refold.stores import Durability, Store

C = TypeVar("C")


def wrap(
    client: C,
    name: str,
    *,
    model: str | None = None,
    store: str | os.PathLike[str] | Store | None = None,
    policy: str | Policy = "refold",
    ask: AskTarget = None,
    window: int | str | None = None,
    count: Count = None,
    durability: Durability | None = None,
    redaction: Mode = "off",
    background: Background = False,
    limits: Limits | None = None,
    max_dollars: float | str | None = None,
    max_dollars_per_hour: float | str | None = None,
    max_summary_tokens_per_hour: int | str | None = None,
    now: Callable[[], float] | None = None,
    ask_timeout: Seconds | None = ASK_SECONDS,
    archive: str | os.PathLike[str] | None = None,
    native: NativeCall | None = None,
    account: str = "",
    on_event: Listener | None = None,
) -> C:
    """Return a copy of a client whose requests go through the session of that name.

    client     an `openai.OpenAI`, `anthropic.Anthropic`, their async twins or subclasses such as Azure's
    name       the conversation; `client.refold` is its session
    model      the model to measure against; by default that of each request
    on_event   called with every event of the session

    The other options are those of `refold.open`. The endpoint is the client's `base_url`.
    """
    options: dict[str, Any] = {
        "model": model, "store": store, "policy": policy, "ask": ask, "window": window, "count": count,
        "durability": durability, "redaction": redaction, "background": background, "limits": limits,
        "max_dollars": max_dollars, "max_dollars_per_hour": max_dollars_per_hour,
        "max_summary_tokens_per_hour": max_summary_tokens_per_hour, "now": now, "ask_timeout": ask_timeout,
        "archive": archive, "native": native, "account": account,
        "endpoint": str(getattr(client, "base_url", "")), "format": _find_format(client),
    }  # fmt: skip
    session = _open_session(client, name, on_event, options)
    return _attach(_copy_client(client), _Link(session, client, model, window))


def _open_session(
    client: Any, name: Any, on_event: Listener | None, options: dict[str, Any]
) -> Session | AsyncSession:
    """Open the session of a client; wrong arguments are refused before its store is opened."""
    if not isinstance(name, str) or not name.strip():
        raise RefoldError(f"{name!r} is no name of a session: use a text that is not empty")
    check_listener(on_event)
    check_model(options["model"])
    session = (aopen if _is_async(client) else open_session)(name, **options)
    if on_event is not None:
        session.subscribe(on_event)
    return session


def _find_library(client: Any) -> str:
    """Return the library of a client, "" for any other object; no library is imported for it."""
    bases = (base for base in type(client).__mro__ if base.__name__ in ("SyncAPIClient", "AsyncAPIClient"))
    module = next((base.__module__.partition(".")[0] for base in bases), "")
    return module if module in ("openai", "anthropic") else ""


def _find_format(client: Any) -> str | None:
    """Return the format of a client's messages; that of OpenAI's depends on the call."""
    return "anthropic" if _find_library(client) == "anthropic" else None


def _is_async(client: Any) -> bool:
    if not _find_library(client):
        given = f"the class {client.__name__}" if isinstance(client, type) else type(client).__name__
        raise RefoldError(
            f"cannot wrap {given}: pass a client, such as openai.OpenAI() or anthropic.Anthropic()"
        )
    if "refold" in vars(client):
        raise RefoldError("this client is wrapped already: wrap the client that it was made from")
    return any(base.__name__ == "AsyncAPIClient" for base in type(client).__mro__)


def _copy_client(client: C) -> C:
    """Return a client of the same class and connections, without the resources that know the first one."""
    copied = copy.copy(client)
    for name in list(vars(copied)):
        if isinstance(getattr(type(copied), name, None), cached_property):
            del vars(copied)[name]
    return copied


def _attach(client: Any, link: "_Link") -> Any:
    """Let a client's requests go through a session; so do those of the copies that it makes."""
    make_copy = client.copy

    @wraps(make_copy)
    def copy_attached(*arguments: Any, **options: Any) -> Any:
        return _attach(make_copy(*arguments, **options), link)

    is_async = isinstance(link.session, AsyncSession)
    client.post = (_make_async_post if is_async else _make_post)(client, client.post, link)
    client.close = (_make_async_close if is_async else _make_close)(client, client.close, link)
    client.is_closed = partial(link.is_closed, client.is_closed)
    client.copy = client.with_options = copy_attached
    client.refold = link.session
    messages: Any = client.beta.messages if _find_format(client) == "anthropic" else None
    if hasattr(messages, "thread"):  # by default the provider holds a tool runner's list: it cannot be folded
        messages.tool_runner = partial(messages.tool_runner, thread=False)
    return client


class _Link:
    """What a wrapped client and its copies share."""

    def __init__(
        self, session: Session | AsyncSession, origin: Any, model: str | None, window: int | str | None
    ) -> None:
        self.session: Any = session
        self._origin: Any = origin
        """The client that was wrapped, until `release`."""
        self._weak_origin = weakref.ref(origin)
        self.late: deque[Any] = deque()
        """Answers whose streams were dropped; they are observed with the next request."""
        self._model, self._window = model, window
        self._served: tuple[str, str] | None = None
        self._has_warned = False

    def read_request(self, client: Any, path: str, arguments: Mapping[str, Any]) -> "ClientRequest | None":
        """Return a request that has a history; None if it is passed on as it is."""
        arguments = join_extra_body(arguments)
        door, body = DOORS.get(path.partition("?")[0]), arguments.get("body")
        if door is None or not isinstance(body, Mapping) or not body.get(door.history):
            return None
        if is_at_provider(body):
            self._warn_once()
            return None
        self._follow(body.get("model"), str(client.base_url))
        return ClientRequest.of(door, body, {**arguments})

    def release(self, client: Any) -> bool:
        """Let go of the client that was wrapped; True if nobody else holds the connections of `client`.

        The caller may still have it, and so does every other open wrap of it.
        """
        self._origin = None
        held = self._weak_origin()
        return held is None or held._client is not client._client  # noqa: SLF001  # both clients' name for it

    def is_closed(self, is_disconnected: Callable[[], bool]) -> bool:
        """True if a client was closed; its connections may be open for others."""
        return self._origin is None or is_disconnected()

    def _follow(self, model: Any, endpoint: str) -> None:
        """Measure against the model and the endpoint that serve now."""
        if self._served == (model, endpoint):
            return
        self._served = (model, endpoint)
        if self._model is None and isinstance(model, str):
            self.session.use(model=model, window=self._window, endpoint=endpoint)
        else:
            self.session.use(endpoint=endpoint)

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            warn_caller(
                "the history of this request is kept by the provider (previous_response_id, conversation or"
                " thread), so that it cannot be folded: send the whole list instead"
            )


# -- sync ---------------------------------------------------------------------------------------------------


def _make_post(client: Any, inner: Callable[..., Any], link: _Link) -> Callable[..., Any]:
    @wraps(inner)
    def post(path: str, **arguments: Any) -> Any:
        request = link.read_request(client, path, arguments)
        if request is None:
            return inner(path, **arguments)
        return _send(link, request, partial(inner, path))

    return post


def _send(link: _Link, request: ClientRequest, inner: Callable[..., Any]) -> Any:
    session: Session = link.session
    while link.late:
        session.observe(link.late.popleft())
    own = OwnTurn(session, request.items, request.beside, is_own=True)
    view = own.prepare()

    def call(view: View) -> Any:
        return inner(**request.with_view(view))

    if request.is_streamed or request.raw == "stream":
        return _open(link, own, request, call, view)
    return give_back(turns.send(own, call, view, say=False, read=read_answer))


def _open(link: _Link, own: OwnTurn, request: ClientRequest, call: Callable[[View], Any], view: View) -> Any:
    """Return a response whose body is not read yet."""
    response = turns.open_source(own, call, view)

    def watch_stream(stream: Any) -> Any:
        reopen = (lambda view: call(view).parse()) if request.raw else call
        watch(stream, own, link.late, reopen, view, is_hidden=request.is_hidden)
        return stream

    if request.raw == "stream":
        take_in = watch_stream if request.is_streamed else own.observe
        response.parse = _take_in_once(response.parse, take_in)
    else:
        watch_stream(response.parse() if request.raw else response)
    return response


def _take_in_once(parse: Callable[..., Any], take_in: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a `parse` that lets the session see what it returns for the first time."""
    seen: list[Any] = []

    @wraps(parse)
    def parse_and_take_in(*arguments: Any, **options: Any) -> Any:
        parsed = parse(*arguments, **options)
        if not seen:
            seen.append(True)
            take_in(read_answer(parsed))
        return give_back(parsed)

    return parse_and_take_in


def _make_close(client: Any, close: Callable[[], None], link: _Link) -> Callable[[], None]:
    @wraps(close)
    def close_both() -> None:
        try:
            link.session.close()
        finally:
            if link.release(client):
                close()

    return close_both


# -- async --------------------------------------------------------------------------------------------------


def _make_async_post(client: Any, inner: Callable[..., Any], link: _Link) -> Callable[..., Any]:
    @wraps(inner)
    async def post(path: str, **arguments: Any) -> Any:
        request = link.read_request(client, path, arguments)
        if request is None:
            return await inner(path, **arguments)
        return await _asend(link, request, partial(inner, path))

    return post


async def _asend(link: _Link, request: ClientRequest, inner: Callable[..., Any]) -> Any:
    session: AsyncSession = link.session
    own = AsyncOwnTurn(session, request.items, request.beside, is_own=True)
    view = await own.prepare()

    async def call(view: View) -> Any:
        return await inner(**request.with_view(view))

    if request.is_streamed or request.raw == "stream":
        return await _aopen(own, request, call, view)
    return give_back(await turns.asend(own, call, view, say=False, read=read_answer))


async def _aopen(own: AsyncOwnTurn, request: ClientRequest, call: Callable[[View], Any], view: View) -> Any:
    """Do the same as `_open` in an event loop."""
    response = await turns.aopen_source(own, call, view)

    async def reopen(view: View) -> Any:
        fresh = await call(view)
        return await _parse(fresh.parse) if request.raw else fresh

    async def take_in(parsed: Any) -> None:
        if request.is_streamed:
            watch_async(parsed, own, reopen, view, is_hidden=request.is_hidden)
        else:
            await own.observe(parsed)

    if request.raw == "stream":
        response.parse = _atake_in_once(response.parse, take_in)
    else:
        await take_in(await _parse(response.parse) if request.raw else response)
    return response


async def _parse(parse: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return what a raw response holds; `parse` is awaited in newer versions of the clients."""
    parsed = parse(*arguments, **options)
    return await parsed if hasattr(parsed, "__await__") else parsed


def _atake_in_once(parse: Callable[..., Any], take_in: Callable[[Any], Any]) -> Callable[..., Any]:
    """Do the same as `_take_in_once` in an event loop."""
    seen: list[Any] = []

    @wraps(parse)
    async def parse_and_take_in(*arguments: Any, **options: Any) -> Any:
        parsed = await _parse(parse, *arguments, **options)
        if not seen:
            seen.append(True)
            await take_in(read_answer(parsed))
        return give_back(parsed)

    return parse_and_take_in


def _make_async_close(client: Any, close: Callable[[], Any], link: _Link) -> Callable[[], Any]:
    @wraps(close)
    async def close_both() -> None:
        try:
            await link.session.close()
        finally:
            if link.release(client):
                await close()

    return close_both
