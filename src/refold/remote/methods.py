"""What can be asked for over JSON-RPC: each method with its parameters, read and checked here."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from refold import __version__
from refold.remote import desk_acts
from refold.remote.desk import Desk
from refold.remote.protocol import INVALID_PARAMS, NO_METHOD, Failure

Kind: TypeAlias = tuple[type, ...]
_TEXT: Final[Kind] = (str,)
_SIZE: Final[Kind] = (int, str)
_ANY: Final[Kind] = (object,)
_LIST: Final[Kind] = (list,)
_WORDS: Final = {str: "a text", int: "a number", list: "a list", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class Method:
    """One method: what does it, and what it takes, in the order for those who send a list."""

    act: Callable[..., Awaitable[Any]]
    takes: Mapping[str, Kind]
    needs: int = 1
    """How many of the parameters, from the first on, must be there."""
    about: str = ""

    def read(self, given: Mapping[str, Any] | list[Any]) -> dict[str, Any]:
        """The parameters by name, each of its kind; `Failure` where one is wrong."""
        if isinstance(given, list):
            if len(given) > len(self.takes):
                raise Failure(
                    INVALID_PARAMS, f"at most {len(self.takes)} parameters: {', '.join(self.takes)}"
                )
            given = dict(zip(self.takes, given, strict=False))
        # null stands for a parameter that is not there
        params = {name: value for name, value in given.items() if value is not None}
        for name, value in params.items():
            if name not in self.takes:
                near = get_close_matches(name, self.takes, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.takes) or 'none'}"
                raise Failure(INVALID_PARAMS, f"there is no parameter {name!r}; {hint}")
            if not _fits(value, self.takes[name]):
                kinds = " or ".join(_WORDS.get(kind, kind.__name__) for kind in self.takes[name])
                raise Failure(INVALID_PARAMS, f"{name} takes {kinds}")
        for name in list(self.takes)[: self.needs]:
            if name not in params:
                raise Failure(INVALID_PARAMS, f"{name} is missing")
        return params


def _fits(value: Any, kinds: Kind) -> bool:
    if isinstance(value, bool):
        return bool in kinds or object in kinds
    if value == "":
        return str in kinds and int not in kinds
    return isinstance(value, kinds)


async def initialize(desk: Desk, **_params: Any) -> dict[str, Any]:
    """Who answers, what it can do, and which sessions there are."""
    return {
        "name": "refold",
        "version": __version__,
        "methods": sorted(METHODS),
        "events": "session/event",
        "store": desk.store.address,
        "sessions": await desk.names(),
    }


async def state(desk: Desk, *, session_id: str | None = None) -> dict[str, Any]:
    """How one session stands; without a name, which there are."""
    if session_id is None:
        return {"version": __version__, "store": desk.store.address, "sessions": await desk.names()}
    return await desk.state(session_id)


_SESSION: Final[dict[str, Kind]] = {"session_id": _TEXT}

METHODS: Final[Mapping[str, Method]] = {
    "initialize": Method(
        initialize,
        {"clientInfo": _ANY, "capabilities": _ANY, "processId": _ANY, "protocolVersion": _ANY},
        0,
        "who answers, its methods, the sessions of the store",
    ),
    "agent/state": Method(state, _SESSION, 0, "how a session stands: window, tokens, level, status"),
    "session/open": Method(
        Desk.open,
        {**_SESSION, "model": _TEXT, "window": _SIZE, "policy": _TEXT, "format": _TEXT},
        1,
        "open a session, or begin one; gives its state",
    ),
    "session/say": Method(
        desk_acts.say, {**_SESSION, "message": (str, dict, list)}, 2, "add a message, or several"
    ),
    "session/prepare": Method(
        desk_acts.prepare,
        {**_SESSION, "messages": _LIST, "system": _ANY, "tools": _LIST, "prompt": _TEXT},
        1,
        "compact if it is time to; gives the messages to send",
    ),
    "session/observe": Method(
        desk_acts.observe,
        {**_SESSION, "response": _ANY, "error": _ANY},
        1,
        "take in a provider's response or error; says whether to send again",
    ),
    "session/compact": Method(
        Desk.compact,
        {**_SESSION, "keep_recent": _SIZE, "strategy": _TEXT, "focus": _TEXT, "target": _SIZE},
        1,
        "fold now; `keep_recent` is a number of tokens",
    ),
    "session/stats": Method(
        Desk.stats, _SESSION, 1, "what fills the context, against what all requests cost"
    ),
    "session/view": Method(desk_acts.view, _SESSION, 1, "what the model sees"),
    "session/checkpoint": Method(
        desk_acts.checkpoint, {**_SESSION, "name": _TEXT}, 1, "mark this place by a name"
    ),
    "session/unfold": Method(
        desk_acts.unfold, {**_SESSION, "fold": _TEXT}, 1, "undo a fold, the latest by default"
    ),
    "session/rewind": Method(
        desk_acts.rewind, {**_SESSION, "to": (str, int)}, 2, "go back to a message, a checkpoint or an entry"
    ),
    "session/recall": Method(
        desk_acts.recall, {**_SESSION, "query": _TEXT, "limit": (int,)}, 2, "search everything that was said"
    ),
    "session/original": Method(
        desk_acts.original, {**_SESSION, "handle": (str, int)}, 2, "what was said, word for word"
    ),
    "session/folds": Method(desk_acts.folds, _SESSION, 1, "every fold of this branch"),
    "session/pin": Method(
        desk_acts.pin,
        {**_SESSION, "handle": (str, int), "pinned": (bool,)},
        1,
        "keep a message in every view, or no longer",
    ),
    "session/export": Method(
        desk_acts.export, {**_SESSION, "directory": _TEXT, "form": _TEXT}, 2, "write the session as files"
    ),
}


def find(name: str) -> Method:
    """The method of a name; `Failure` where there is none."""
    if name in METHODS:
        return METHODS[name]
    near = get_close_matches(name, METHODS, 1)
    hint = f"did you mean {near[0]}?" if near else "initialize lists those there are"
    raise Failure(NO_METHOD, f"there is no method {name!r}; {hint}")
