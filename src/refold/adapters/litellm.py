"""LiteLLM: `completion` and `acompletion` through a session, also those of a `Router`; a hook for its proxy.

    adapter = RefoldLiteLLM(ask="openai/gpt-4o-mini")
    adapter.completion(model="openai/gpt-4o", messages=messages, metadata={"session_id": "t1"})

A callback of the proxy cannot send a request again: there a refusal for size reaches the caller, and the next
request is folded.
"""

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import litellm
from litellm.integrations.custom_logger import CustomLogger

from refold.adapters.base import Adapter, Key, RecallWhen
from refold.adapters.watched_streams import AsyncWatchedChunks, WatchedChunks
from refold.calls.summariser import AskTarget
from refold.core.compaction.flow import Answer, Ask
from refold.core.compaction.policy import Policy
from refold.errors import Overflow, RefoldError
from refold.session import turns
from refold.session.async_session import AsyncSession
from refold.session.events import Listener
from refold.session.own_turn import AsyncOwnTurn, OwnTurn
from refold.session.session import Session
from refold.session.steps.recall import NAME
from refold.session.turns import View
from refold.stores import Store

_COMPRESSION: Final = "CompressionInterceptionLogger"
"""LiteLLM's own callback that shortens messages."""
_CHATS: Final = frozenset({"completion", "acompletion"})
_KEY_FIELDS: Final = ("litellm_session_id", "session_id")


def completion(session: Session, model: str, messages: Sequence[Any], **arguments: Any) -> Any:
    """Call `litellm.completion` through a session, with the same arguments and the same answer.

    The session measures against the model that it was opened with.
    """
    return _send(session, deque(), litellm.completion, {**arguments, "model": model, "messages": messages})


async def acompletion(session: AsyncSession, model: str, messages: Sequence[Any], **arguments: Any) -> Any:
    """Call `litellm.acompletion` through a session, with the same arguments and the same answer."""
    return await _asend(session, litellm.acompletion, {**arguments, "model": model, "messages": messages})


class RefoldLiteLLM(Adapter[str]):
    """LiteLLM with sessions by key. It has `completion` and `acompletion`, as the module `litellm` has."""

    key_advice = "pass metadata={'session_id': ...} or litellm_session_id=..."

    def __init__(
        self,
        key: Key | None = None,
        *,
        policy: str | Policy = "refold",
        ask: AskTarget = None,
        store: str | os.PathLike[str] | Store | None = None,
        window: int | str | None = None,
        model: str | None = None,
        max_dollars: float | str | None = None,
        recall: RecallWhen = "always",
        recall_name: str = NAME,
        on_event: Listener | None = None,
        options: Mapping[str, Any] | None = None,
        router: Any = None,
    ) -> None:
        """Keep the options.

        ask      as for `refold.open`; a name with a slash, such as "openai/gpt-4o-mini", is asked by LiteLLM
        router   a `litellm.Router` that sends the requests; by default `litellm` itself does
        The others are those of every adapter.
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
        self._router = router
        self._late: WeakKeyDictionary[Session, deque[Any]] = WeakKeyDictionary()

    def read_ask(self, ask: AskTarget) -> AskTarget:
        """Return who writes summaries; a model with a name as LiteLLM writes it is asked by LiteLLM."""
        if not isinstance(ask, str) or "://" in ask:
            return ask
        provider, slash, _ = ask.partition("/")
        return _Summariser(ask) if slash and ":" not in provider else ask

    def completion(self, model: str, messages: Sequence[Any], **arguments: Any) -> Any:
        """Do as `litellm.completion`; the session is that of `metadata.session_id`."""
        call = litellm.completion if self._router is None else self._router.completion
        session = self.open_session(self._find_key(arguments))
        self.follow(session, model, arguments)
        late = self._late.setdefault(session, deque())
        return _send(session, late, call, {**arguments, "model": model, "messages": messages})

    async def acompletion(self, model: str, messages: Sequence[Any], **arguments: Any) -> Any:
        """Do as `litellm.acompletion`; the session is that of `metadata.session_id`."""
        call = litellm.acompletion if self._router is None else self._router.acompletion
        session = await self.sessions.aget(self._find_key(arguments))
        self.follow(session, model, arguments)
        return await _asend(session, call, {**arguments, "model": model, "messages": messages})

    def _find_key(self, arguments: Mapping[str, Any]) -> str:
        return self.find_key(find_session_id(arguments), request=arguments)

    def follow(self, session: Session | AsyncSession, model: str, arguments: Mapping[str, Any]) -> None:
        """Measure against the model that serves; of the deployments of a router, the one with least room."""
        known = [] if self._router is None else self._router.get_model_list(model_name=model) or []
        names = [str(one["litellm_params"]["model"]) for one in known] or [model]
        model = min(names, key=lambda name: _find_window(name) or 0)
        self.follow_model(session, model, endpoint=arguments.get("api_base"), window=_find_window(model))


def _find_window(model: str) -> int | None:
    """Return the window in LiteLLM's table, which has some models with and some without their provider."""
    for name in (model, model.partition("/")[2]):
        row = litellm.model_cost.get(name) or {}
        if isinstance(tokens := row.get("max_input_tokens") or row.get("max_tokens"), int):
            return tokens
    return None


def find_session_id(arguments: Mapping[str, Any]) -> str | None:
    """Return the id by which a request names its conversation; None if it names none."""
    holders = [arguments.get(name) or {} for name in ("metadata", "litellm_metadata")]
    values = [holder.get(name) for holder in (arguments, *holders) for name in _KEY_FIELDS]
    return next((str(value) for value in values if value), None)


@dataclass(frozen=True, slots=True)
class _Summariser:
    """A model that LiteLLM asks for summaries, without tools, callbacks' sessions and streaming."""

    model: str

    @property
    def name(self) -> str:
        """The model's name: it has no address of its own."""
        return self.model

    @property
    def window(self) -> int | None:
        """Tokens that a question and its answer may have together; None if no table has the model."""
        return _find_window(self.model)

    def ask(self, question: Ask) -> Answer:
        """Ask from a thread."""
        return _read_summary(litellm.completion(**self._write(question)))

    async def aask(self, question: Ask) -> Answer:
        """Ask inside an event loop."""
        return _read_summary(await litellm.acompletion(**self._write(question)))

    def close(self) -> None:
        """Do nothing: LiteLLM keeps its own connections."""

    def _write(self, question: Ask) -> dict[str, Any]:
        system = [{"role": "system", "content": question.system}] if question.system else []
        messages = [*system, {"role": "user", "content": str(question)}]
        return {"model": self.model, "messages": messages, "max_tokens": question.max_tokens}


def _read_summary(response: Any) -> Answer:
    choice, usage = response.choices[0], getattr(response, "usage", None)
    return Answer(
        text=choice.message.content or "",
        finish=choice.finish_reason or "stop",
        calls=len(choice.message.tool_calls or ()),
        model=response.model or "",
        input_tokens=getattr(usage, "prompt_tokens", None),
        output_tokens=getattr(usage, "completion_tokens", None),
    )


def _refuse_second_compaction() -> None:
    if any(type(callback).__name__ == _COMPRESSION for callback in litellm.callbacks):
        raise RefoldError(
            "LiteLLM compresses messages, too: take compression_interception out of litellm.callbacks"
        )


# -- one request --------------------------------------------------------------------------------------------


def _ask_for_usage(arguments: dict[str, Any]) -> bool:
    """Ask a stream for its usage; returns True if the caller did not."""
    options = arguments.get("stream_options") or {}
    if not arguments.get("stream") or "include_usage" in options:
        return False
    arguments["stream_options"] = {**options, "include_usage": True}
    return True


def _is_usage_chunk(chunk: Any) -> bool:
    """True for the chunk at the end that has nothing but the usage; LiteLLM gives it an empty choice."""
    if getattr(chunk, "usage", None) is None:
        return False
    return not any(
        choice.finish_reason or choice.delta.content or choice.delta.tool_calls for choice in chunk.choices
    )


def _with_view(arguments: Mapping[str, Any], view: View) -> dict[str, Any]:
    return {**arguments, "messages": view.messages}


class _Stream(litellm.CustomStreamWrapper):  # type: ignore[misc]  # LiteLLM has no types here
    """A stream of LiteLLM whose chunks a session watches."""

    def __init__(self, stream: Any, chunks: Any) -> None:
        self.__dict__.update(vars(stream))
        self._chunks = chunks

    def __next__(self) -> Any:
        return next(self._chunks)

    def close(self) -> None:
        """Stop reading; what came by now is counted."""
        self._chunks.close()

    async def __anext__(self) -> Any:
        return await anext(self._chunks)

    async def aclose(self) -> None:
        """Stop reading; what came by now is counted."""
        await self._chunks.aclose()


def _send(session: Session, late: deque[Any], inner: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    _refuse_second_compaction()
    is_hidden = _is_usage_chunk if _ask_for_usage(arguments) else None
    while late:
        session.observe(late.popleft())
    own = OwnTurn(session, arguments["messages"], {"tools": arguments.get("tools")}, is_own=True)
    view = own.prepare()

    def call(view: View) -> Any:
        return inner(**_with_view(arguments, view))

    if not arguments.get("stream"):
        return turns.send(own, call, view, say=False)
    stream = turns.open_source(own, call, view)
    opened = [stream]
    chunks = WatchedChunks(own, late, lambda view: opened.pop() if opened else call(view), view, is_hidden)
    return _Stream(stream, chunks)


async def _asend(session: AsyncSession, inner: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    _refuse_second_compaction()
    is_hidden = _is_usage_chunk if _ask_for_usage(arguments) else None
    own = AsyncOwnTurn(session, arguments["messages"], {"tools": arguments.get("tools")}, is_own=True)
    view = await own.prepare()

    async def call(view: View) -> Any:
        return await inner(**_with_view(arguments, view))

    if not arguments.get("stream"):
        return await turns.asend(own, call, view, say=False)
    stream = await turns.aopen_source(own, call, view)
    opened = [stream]

    async def reopen(view: View) -> Any:
        return opened.pop() if opened else await call(view)

    return _Stream(stream, AsyncWatchedChunks(own, reopen, view, is_hidden))


# -- the proxy ----------------------------------------------------------------------------------------------


class RefoldHook(CustomLogger):  # type: ignore[misc]  # LiteLLM has no types here
    """A callback for LiteLLM's proxy and for `litellm.callbacks`: folds async requests that name a session.

    A request without a session passes as it is. Two users of the proxy have two sessions, also if they name
    them alike.
    """

    def __init__(
        self,
        *,
        policy: str | Policy = "refold",
        ask: AskTarget = None,
        store: str | os.PathLike[str] | Store | None = None,
        window: int | str | None = None,
        model: str | None = None,
        max_dollars: float | str | None = None,
        key: Key | None = None,
        on_event: Listener | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the options, which are those of `RefoldLiteLLM`."""
        super().__init__()
        self._key = key
        self.adapter = RefoldLiteLLM(
            policy=policy,
            ask=ask,
            store=store,
            window=window,
            model=model,
            max_dollars=max_dollars,
            recall=False,
            key=key,
            on_event=on_event,
            options=options,
        )

    def session(self, key: str | int) -> Session:
        """Return the session of a key: its id, behind the hash of the user's key where there is one."""
        return self.adapter.session(key)

    def close(self) -> None:
        """Close the sessions and the store."""
        self.adapter.close()

    def _find_key(self, request: Mapping[str, Any]) -> str | None:
        """Return the key of a request's session; None if it names none."""
        found = find_session_id(request)
        if found is None and self._key is None:
            return None
        metadata = request.get("metadata") or request.get("litellm_metadata") or {}
        owner = metadata.get("user_api_key_hash") or metadata.get("user_api_key")
        return self.adapter.find_key(found and ":".join(filter(None, (owner, found))), request=request)

    async def _observe(self, kwargs: Mapping[str, Any], answer: Any) -> None:
        key = self._find_key(kwargs.get("litellm_params") or {})
        if key is None or kwargs.get("call_type") not in _CHATS:
            return
        with suppress(Overflow):  # refused once more; the caller has the provider's own error
            await (await self.adapter.sessions.aget(key)).observe(answer)

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any] | None:
        """Put the view in the place of the messages, after the deployment was chosen."""
        key, messages = self._find_key(kwargs), kwargs.get("messages")
        if key is None or not messages or getattr(call_type, "value", call_type) not in _CHATS:
            return None
        _refuse_second_compaction()
        session = await self.adapter.sessions.aget(key)
        self.adapter.follow(session, str(kwargs.get("model") or ""), kwargs)
        sent = _with_view(kwargs, await session.prepare(messages, tools=kwargs.get("tools")))
        _ask_for_usage(sent)
        return sent

    async def async_log_success_event(
        self,
        kwargs: dict[str, Any],
        response_obj: Any,
        start_time: Any,  # noqa: ARG002  # LiteLLM passes the times to every callback
        end_time: Any,  # noqa: ARG002
    ) -> None:
        """Count the usage of an answer."""
        await self._observe(kwargs, response_obj)

    async def async_log_failure_event(
        self,
        kwargs: dict[str, Any],
        response_obj: Any,
        start_time: Any,  # noqa: ARG002  # LiteLLM passes the times to every callback
        end_time: Any,  # noqa: ARG002
    ) -> None:
        """Learn from a refusal for size, so that the next request is folded."""
        await self._observe(kwargs, kwargs.get("exception") or response_obj)
