"""The methods that other programs call: functions from plain data to plain data, and the table of them.

The name, order and types of a method's parameters are those of its function. Knows sessions and no transport.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, get_args, get_origin

from refold import __version__
from refold.config import settings as config
from refold.core.compaction.policy import Policy
from refold.core.overflow.detect import overflow
from refold.core.tokens.units import parse_tokens
from refold.errors import AnswerFailed, FormatError
from refold.policies import presets
from refold.remote.plain import plain_record
from refold.remote.protocol import INVALID_PARAMS, NO_METHOD, Failure
from refold.remote.registry import OpenSession, SessionRegistry
from refold.session.steps.recall import read_with_results

Handle: TypeAlias = str | int
Size: TypeAlias = int | str | None
MOST_HITS: Final = 1_000
"""Most hits of one search: a thousand entries are megabytes of JSON, and nobody reads more."""
_KEEP_KNOBS: Final = {"opal": "keep_recent", "refold": "keep_tokens", "thrifty": "keep_tokens"}
"""Policies that keep a number of tokens, and the name of their knob."""
_OUTCOME: Final = (
    *("compacted", "fits", "met_target", "reason", "stages", "tier", "level", "summary"),
    *("messages_before", "messages_after", "tokens_before", "tokens_after", "tokens_saved", "used_after"),
)


async def initialize(registry: SessionRegistry, **_params: Any) -> dict[str, Any]:
    """Return the version, the methods, and the sessions of the store."""
    return {
        "name": "refold",
        "version": __version__,
        "methods": sorted(METHODS),
        "events": "session/event",
        "store": registry.store.address,
        "sessions": await registry.names(),
    }


async def agent_state(registry: SessionRegistry, session_id: str | None = None) -> dict[str, Any]:
    """Return the state of a session or, without a name, the list of sessions."""
    if session_id is None:
        return {"version": __version__, "store": registry.store.address, "sessions": await registry.names()}
    return await state(registry, session_id)


async def open_session(
    registry: SessionRegistry,
    session_id: str,
    *,
    model: str | None = None,
    window: Size = None,
    policy: str | None = None,
    format: str | None = None,  # noqa: A002  # the word users know
) -> dict[str, Any]:
    """Open a session, or continue it with other settings; returns its state."""
    await registry.open(session_id, model=model, window=window, policy=policy, format=format)
    return await state(registry, session_id)


async def state(registry: SessionRegistry, session_id: str) -> dict[str, Any]:
    """Return the state of a session, for a status line."""
    current = await registry.get(session_id)
    async with registry.reading(session_id) as session:
        stats, budget = await session.stats(), await session.budget()
    return {
        "session_id": session_id,
        "status": "compacting" if current.compacting else "idle",
        "model": session.model,
        "policy": current.policy,
        "context_window": budget.window,
        "window_source": budget.window_source,
        "current_context_tokens": stats.current_context_tokens,
        "total_tokens": stats.totals.input + stats.totals.output,
        "room": stats.room,
        "ratio": stats.ratio,
        "level": stats.level,
        "should_compact": stats.should_compact,
        "message_count": stats.messages,
        "said": stats.said,
        "folds": stats.folds,
    }


async def read_stats(registry: SessionRegistry, session_id: str) -> dict[str, Any]:
    """Return what fills the context now, and what all requests cost together."""
    async with registry.reading(session_id) as session:
        stats, budget = await session.stats(), await session.budget()
    return {
        "session_id": session_id,
        **stats.as_dict(),
        "context_window": budget.window,
        "total_tokens": stats.totals.input + stats.totals.output,
        "breakdown": budget.breakdown.as_dict(),
    }


async def compact(
    registry: SessionRegistry,
    session_id: str,
    *,
    keep_recent: Size = None,
    strategy: str | None = None,
    focus: str = "",
    target: int | str | list[Any] | None = None,
) -> dict[str, Any]:
    """Fold now; `keep_recent` is how many tokens of the newest messages stay as they are."""
    current = await registry.get(session_id)
    async with current.turn:  # in its place among the calls; others continue while the model answers
        policy: str | Policy | None = strategy
        keep: int | None = None
        if keep_recent is not None:
            policy, keep = _choose_kept(registry, current, strategy, parse_tokens(keep_recent, "keep_recent"))
    try:
        outcome = await current.session.compact(policy, keep=keep, focus=focus, target=target)
    finally:
        current.compacting = False  # also if the call was cancelled, which sends no event
    folds = await current.session.folds() if outcome.compacted else []
    return plain_record(
        session_id=session_id,
        **{name: getattr(outcome, name) for name in _OUTCOME},
        fold=folds[-1].name if folds else None,
        files=outcome.files,
        receipt=outcome.receipt.as_dict(),
    )


def _choose_kept(
    registry: SessionRegistry, current: OpenSession, strategy: str | None, tokens: int
) -> tuple[str | Policy | None, int | None]:
    """Return a policy that keeps this many tokens, or the number of newest messages that have them."""
    name = strategy or current.policy
    if name in _KEEP_KNOBS:
        settings = registry.defaults.settings
        policy = presets.get(name, **{**settings.knobs_of(name), _KEEP_KNOBS[name]: tokens})
        return config.apply_settings(policy, settings), None
    loaded = current.session.state.loaded
    count, size = 0, 0
    for message_size in reversed(loaded.sizes[loaded.fixed :]):
        size += message_size
        if loaded.counter.tokens(size) > tokens:
            break
        count += 1
    return strategy, count


async def say(
    registry: SessionRegistry,
    session_id: str,
    message: str | dict[str, Any] | list[Any],
    *,
    key: str | None = None,
) -> dict[str, Any]:
    """Add a text of the user, a message, or several; a second call with the same key adds nothing."""
    async with registry.writing(session_id) as session:
        return {"session_id": session_id, "handle": await session.say(message, key=key)}


async def prepare(
    registry: SessionRegistry,
    session_id: str,
    *,
    messages: list[Any] | None = None,
    system: Any = None,
    tools: list[Any] | None = None,
    prompt: str | None = None,
) -> dict[str, Any]:
    """Compact if it is due, and return what to send."""
    if messages == []:  # the library takes it for a new beginning; sent by a program it is a mistake
        raise FormatError(
            "is empty: leave it out to send what was said, or session/rewind to 'start'", path="messages"
        )
    async with registry.writing(session_id) as session:
        ready = await session.prepare(messages, system=system, tools=tools, prompt=prompt)
    return plain_record(
        session_id=session_id,
        messages=ready.messages,
        budget=ready.budget,
        compacted=ready.outcome.compacted,
        fits=ready.outcome.fits,
        reason=ready.outcome.reason,
        fold=ready.fold,
        unsaved=ready.unsaved,
    )


async def observe(
    registry: SessionRegistry, session_id: str, *, response: Any = None, error: Any = None
) -> dict[str, Any]:
    """Take a provider's response, or its error as JSON or text; says whether to send again."""
    if (response is None) == (error is None):
        raise FormatError("give either a response or an error", path="params")
    if error is not None and overflow(error) is None:
        error = AnswerFailed(str(error))
    async with registry.writing(session_id) as session:
        observed = await session.observe(response if error is None else error)
    names = ("send_again", "messages", "reason", "usage", "finish", "budget", "reverted", "unsaved")
    return plain_record(session_id=session_id, **{name: getattr(observed, name) for name in names})


async def read_view(registry: SessionRegistry, session_id: str) -> dict[str, Any]:
    """Return what the model sees."""
    async with registry.reading(session_id) as session:
        return plain_record(session_id=session_id, messages=await session.view())


async def checkpoint(registry: SessionRegistry, session_id: str, *, name: str = "") -> dict[str, Any]:
    """Mark this place by a name."""
    async with registry.writing(session_id) as session:
        word = await session.checkpoint(name)
        return {"session_id": session_id, "name": word, "said": session.state.view.said}


async def list_checkpoints(registry: SessionRegistry, session_id: str) -> dict[str, Any]:
    """List the checkpoints of every branch, oldest first."""
    async with registry.reading(session_id) as session:
        return plain_record(session_id=session_id, checkpoints=await session.checkpoints())


async def read_segment(
    registry: SessionRegistry, session_id: str, *, strategy: str | None = None
) -> dict[str, Any]:
    """Return the messages that a compaction would fold now; null where it would fold none."""
    async with registry.reading(session_id) as session:
        return plain_record(session_id=session_id, segment=await session.segment(strategy))


async def unfold(registry: SessionRegistry, session_id: str, *, fold: str | None = None) -> dict[str, Any]:
    """Undo a fold, the latest by default; `fold` is None if nothing is folded."""
    async with registry.writing(session_id) as session:
        name = await session.unfold(fold)
        stats = await session.stats()
    return {
        "session_id": session_id,
        "fold": name,
        "message_count": stats.messages,
        "current_context_tokens": stats.current_context_tokens,
    }


async def rewind(registry: SessionRegistry, session_id: str, to: Handle) -> dict[str, Any]:
    """Go back to a message, a checkpoint or an entry."""
    async with registry.writing(session_id) as session:
        said = await session.rewind(to)
        return {"session_id": session_id, "said": int(said), "folded_again": list(said.folded_again)}


async def recall(
    registry: SessionRegistry, session_id: str, query: str, *, limit: int = 10
) -> dict[str, Any]:
    """Search everything that was ever said."""
    if not 1 <= limit <= MOST_HITS:
        raise FormatError(f"takes a number from 1 to {MOST_HITS:,}", path="limit")
    async with registry.reading(session_id) as session:
        return plain_record(session_id=session_id, hits=await session.recall(query, limit=limit))


async def read_original(registry: SessionRegistry, session_id: str, handle: Handle) -> dict[str, Any]:
    """Return messages word for word, folded or not."""
    async with registry.reading(session_id) as session:
        return plain_record(session_id=session_id, messages=await session.original(handle))


async def expand_handle(registry: SessionRegistry, session_id: str, handle: str) -> dict[str, Any]:
    """Return messages word for word, and the results of their calls; for models."""
    async with registry.reading(session_id) as session:
        _, items = await session.run_flow(read_with_results(session.state, handle))
        return plain_record(session_id=session_id, messages=items)


async def list_folds(registry: SessionRegistry, session_id: str) -> dict[str, Any]:
    """List the folds of this branch, oldest first."""
    async with registry.reading(session_id) as session:
        return plain_record(session_id=session_id, folds=await session.folds())


async def pin(
    registry: SessionRegistry, session_id: str, *, handle: Handle = -1, pinned: bool = True
) -> dict[str, Any]:
    """Keep a message in every view, or no longer."""
    async with registry.writing(session_id) as session:
        act = session.pin if pinned else session.unpin
        return {"session_id": session_id, "handle": await act(handle), "pinned": pinned}


async def export(
    registry: SessionRegistry, session_id: str, directory: str, *, form: str = "ripple"
) -> dict[str, Any]:
    """Write the session as files."""
    async with registry.writing(session_id) as session:
        return {"session_id": session_id, "files": await session.export(directory, form=form)}


# -- the table -------------------------------------------------------------------------------------------

Types: TypeAlias = tuple[type, ...]
_TYPE_NAMES: Final = {str: "a text", int: "a number", list: "a list", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class Method:
    """One method: the function that serves it, and its parameters in the order for calls with a list."""

    act: Callable[..., Awaitable[Any]]
    takes: Mapping[str, Types]
    needs: int
    """Number of parameters, from the first on, that are required."""

    def read(self, sent: Mapping[str, Any] | list[Any]) -> dict[str, Any]:
        """Return the parameters by name, each checked for its type; raises `Failure` if one is wrong."""
        if isinstance(sent, list):
            if len(sent) > len(self.takes):
                raise Failure(
                    INVALID_PARAMS, f"at most {len(self.takes)} parameters: {', '.join(self.takes)}"
                )
            sent = dict(zip(self.takes, sent, strict=False))
        # null stands for a parameter that is not there
        params = {name: value for name, value in sent.items() if value is not None}
        for name, value in params.items():
            if name not in self.takes:
                near = get_close_matches(name, self.takes, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.takes) or 'none'}"
                raise Failure(INVALID_PARAMS, f"there is no parameter {name!r}; {hint}")
            types = self.takes[name]
            if isinstance(value, bool):  # in Python also an int, in JSON not
                fits = bool in types or object in types
            elif value == "":  # a size may be text such as "32k", but not empty
                fits = str in types and int not in types
            else:
                fits = isinstance(value, types)
            if not fits:
                expected = " or ".join(_TYPE_NAMES.get(kind, kind.__name__) for kind in types)
                raise Failure(INVALID_PARAMS, f"{name} takes {expected}")
        for name in list(self.takes)[: self.needs]:
            if name not in params:
                raise Failure(INVALID_PARAMS, f"{name} is missing")
        return params


def _read_signature(act: Callable[..., Awaitable[Any]]) -> Method:
    """Make the method of a function from its parameters behind the registry."""
    _, *parameters = inspect.signature(act).parameters.values()
    takes: dict[str, Types] = {}
    for parameter in parameters:
        kinds = get_args(parameter.annotation) if isinstance(parameter.annotation, UnionType) else ()
        takes[parameter.name] = tuple(
            object if kind is Any else get_origin(kind) or kind
            for kind in kinds or (parameter.annotation,)
            if kind is not NoneType
        )
    return Method(act, takes, sum(parameter.default is parameter.empty for parameter in parameters))


_ACTS: Final[Mapping[str, Callable[..., Awaitable[Any]]]] = {
    "agent/state": agent_state,
    "session/open": open_session,
    "session/say": say,
    "session/prepare": prepare,
    "session/observe": observe,
    "session/compact": compact,
    "session/stats": read_stats,
    "session/view": read_view,
    "session/checkpoint": checkpoint,
    "session/checkpoints": list_checkpoints,
    "session/segment": read_segment,
    "session/unfold": unfold,
    "session/rewind": rewind,
    "session/recall": recall,
    "session/original": read_original,
    "session/folds": list_folds,
    "session/pin": pin,
    "session/export": export,
}
_FOREIGN: Final = ("clientInfo", "capabilities", "processId", "protocolVersion")
"""Parameters that clients of language servers and of MCP send along; they are accepted and ignored."""
METHODS: Final[Mapping[str, Method]] = {
    "initialize": Method(initialize, dict.fromkeys(_FOREIGN, (object,)), 0),
    **{name: _read_signature(act) for name, act in _ACTS.items()},
}


def find_method(name: str) -> Method:
    """Return the method of a name; raises `Failure` if there is none."""
    if name in METHODS:
        return METHODS[name]
    near = get_close_matches(name, METHODS, 1)
    hint = f"did you mean {near[0]}?" if near else "initialize lists those there are"
    raise Failure(NO_METHOD, f"there is no method {name!r}; {hint}")
