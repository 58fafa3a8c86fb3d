"""Sessions: conversations that rest in a store and stay inside their window; how one is opened."""

import inspect
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, TypedDict, Unpack, cast

from refold.calls.conversation import Count, refuse_unknown
from refold.calls.summariser import (
    AskTarget,
    choose_answerer,
    open_summariser,
    summariser_field,
    summariser_price,
    summariser_window,
)
from refold.core.compaction.circuit_breaker import Limits
from refold.core.compaction.flow import Answerer, Ask
from refold.core.compaction.policy import Policy
from refold.core.models.spending_limits import CAP_NAMES, Caps, read_caps
from refold.core.tokens.units import parse_tokens
from refold.errors import RefoldError, RefoldWarning
from refold.policies import presets
from refold.redaction.redact import Memory, Mode
from refold.redaction.redact import redactor as make_redactor
from refold.session.events import Listeners
from refold.session.results import Background, Settings
from refold.session.session import AsyncSession, Session
from refold.session.state.session_state import SessionState
from refold.session.state.spending_totals import Summariser
from refold.session.steps.background import JOB, LEASE_SECONDS, fold_in_background
from refold.session.steps.context import RequestContext
from refold.session.telemetry import telemetry
from refold.stores import Durability, Store, open_store

DEFAULT_STORE: Final = "sqlite:"


class Choices(TypedDict, total=False):
    """How a session is opened."""

    model: str | None
    """`"gpt-4o"`, `"anthropic:claude-sonnet-4-20250514"`: finds the window and the way to count."""
    store: str | os.PathLike[str] | Store | None
    """A SQLite file, an address (`memory:`, `jsonl:DIR`, `sqlite:FILE`, `postgresql://...`), or a store."""
    policy: str | Policy
    ask: AskTarget
    """Who summarises: a callable, a client, an address or several; without it no model is needed."""
    window: int | str | None
    endpoint: str
    """The address the requests go to, where windows differ by endpoint."""
    count: Count
    format: str | None
    durability: Durability | None
    """`full` survives a loss of power, `normal` (the default) the end of the process."""
    redaction: Mode
    background: Background
    """Prepare folds while the conversation goes on, from 70 % of the room on; "queue": `work` makes them."""
    limits: Limits
    """How often may be compacted."""
    max_dollars: float | str | None
    """What summaries may cost in the whole session; `REFOLD_MAX_DOLLARS` where it is not given."""
    max_dollars_per_hour: float | str | None
    """And in an hour; `REFOLD_MAX_DOLLARS_PER_HOUR`."""
    max_summary_tokens_per_hour: int | str | None
    """Tokens that summaries may read and write in an hour; `REFOLD_MAX_SUMMARY_TOKENS_PER_HOUR`."""
    now: Callable[[], float]


def open(name: str, **choices: Unpack[Choices]) -> Session:  # noqa: A001  # the word users know
    """Open a conversation by its name; it is made when something is said in it.

    model, window, policy, count, format   as for `measure`
    store        an address or an open store; `REFOLD_STORE`, else a file in the user's data folder
    ask          who summarises; without it no model is needed
    durability   "full" survives a loss of power, "normal" the end of the process
    redaction    "off", "export" (secrets do not reach summaries and files) or "storage" (nor the store)
    background   prepare folds while the conversation goes on; "queue": in processes that call `work`
    max_dollars, max_dollars_per_hour, max_summary_tokens_per_hour
                 what summaries may cost; beyond it no model is asked, what needs none still works

    >>> session = open("doc", store="memory:", window="8k")
    >>> session.say("hi"), session.view()
    ('#1', [{'role': 'user', 'content': 'hi'}])
    """
    state, own = _opened(name, choices)
    return Session(state, owns_store=own)


def aopen(name: str, **choices: Unpack[Choices]) -> AsyncSession:
    """Open a conversation for an event loop; takes what `open` takes."""
    state, own = _opened(name, choices, asynchronous=True)
    return AsyncSession(state, owns_store=own)


def work(store: str | Store, *, seconds: float = LEASE_SECONDS, **choices: Any) -> list[str]:
    """Fold the sessions that wait in a store's queue until none waits; gives their names.

    Sessions that were opened with `background="queue"` offer themselves. Any number of processes on any
    number of hosts may work on one store; each session is folded by one of them. `choices` as for `open`,
    above all `ask`; policy, model, window and caps are those of the session unless given.
    """
    own = isinstance(store, str)
    opened = open_store(store) if isinstance(store, str) else store
    holder = f"{os.getpid()}-{id(opened):x}-{time.monotonic_ns():x}"
    done: list[str] = []
    try:
        while (lease := opened.take(holder=holder, seconds=seconds)) is not None:
            note = opened.note(f"{JOB}{lease.session}")
            job: dict[str, Any] = json.loads(note) if note else {}
            known = ("policy", "model", "endpoint", "window", "format", *CAP_NAMES)
            told = {key: job[key] for key in known if job.get(key) is not None}
            state, _ = _opened(lease.session, cast("Choices", {**told, **choices, "store": opened}))
            session = Session(state, owns_store=False)
            session.drive(
                fold_in_background(
                    state, RequestContext(more=int(job.get("beside", 0))), lambda _made: None, lease
                )
            )
            session.close()
            done.append(lease.session)
    finally:
        if own:
            opened.close()
    return done


def _opened(name: str, choices: Choices, *, asynchronous: bool = False) -> tuple[SessionState, bool]:
    """The state of a session, and whether its store is its own."""
    refuse_unknown(choices, Choices.__annotations__)
    if not isinstance(name, str) or not name:
        raise RefoldError("a session has a name: refold.open('my-task')")
    ask, window = open_summariser(choices.get("ask")), choices.get("window")
    _refuse_wrong(choices)
    if not asynchronous and inspect.iscoroutinefunction(choices.get("ask")):
        raise RefoldError("this model is asynchronous: open the session with `refold.aopen(...)`")
    if choices.get("background", False) not in (True, False, "queue"):
        raise RefoldError(f"background is True, False or 'queue', not {choices['background']!r}")
    redactor = make_redactor(choices.get("redaction", "off"))
    settings = Settings(
        chosen=presets.get(choices.get("policy") or "refold"),
        model=choices.get("model"),
        endpoint=choices.get("endpoint", ""),
        window=None if window is None else parse_tokens(window),
        count=choices.get("count"),
        format=choices.get("format"),
        background=choices.get("background", False),
        limits=choices.get("limits") or Limits(),
        caps=_caps(choices, ask),
    )
    redact = None if redactor.mode == "off" else Memory()
    given = choices.get("store")
    own = given is None or isinstance(given, str | os.PathLike)
    state = SessionState(
        store=_store(given, choices.get("durability")),
        name=name,
        settings=settings,
        ask=_redacted(choose_answerer(ask, asynchronous=asynchronous), redact),
        ask_window=summariser_window(ask),
        summariser=_summariser(ask),
        now=choices.get("now") or time.time,
        listeners=_listeners(),
        redact=redact,
        to_store=redact if redactor.mode == "storage" else None,
    )
    return state, own


_KINDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "model": ("a name", lambda value: isinstance(value, str)),
    "endpoint": ("an address", lambda value: isinstance(value, str)),
    "count": ("a callable or a name", lambda value: callable(value) or isinstance(value, str)),
    "limits": ("refold.core.compaction.circuit_breaker.Limits", lambda value: isinstance(value, Limits)),
    "now": ("a callable", callable),
    "store": (
        "an address, a path or a store",
        lambda value: isinstance(value, str | os.PathLike) or hasattr(value, "append"),
    ),
}


def _summariser(ask: Any) -> Summariser:
    """Who is asked, as far as it tells; of several the first."""
    told = {word: summariser_field(ask, word) for word in ("model", "provider", "format")}
    return Summariser(**told, price=summariser_price(ask))


def _caps(choices: Choices, ask: Any) -> Caps:
    """The caps, of the arguments or of the environment; warns of those that cannot be held."""
    set_here = {name: value for name in CAP_NAMES if (value := choices.get(name)) is not None}
    variables = {name: os.environ.get(f"REFOLD_{name.upper()}", "").strip() for name in CAP_NAMES}
    caps = read_caps({name: value for name, value in variables.items() if value} | set_here)
    if caps.in_dollars and ask is not None and summariser_price(ask) is None:
        who = summariser_field(ask, "name") or summariser_field(ask, "model") or "the summariser"
        told = f"no price is known for {who}, so that a cap in dollars cannot be held before it has answered"
        warnings.warn(f"{told}: set max_summary_tokens_per_hour", RefoldWarning, stacklevel=4)
    return caps


def _refuse_wrong(choices: Choices) -> None:
    """Refuse what can only be a slip, before anything is opened."""
    for name, (what, fits) in _KINDS.items():
        value = choices.get(name)
        if value is not None and not fits(value):
            raise RefoldError(f"{name} is {what}, not {type(value).__name__}")


def _store(given: str | os.PathLike[str] | Store | None, durability: Durability | None) -> Store:
    if isinstance(given, os.PathLike):
        given = f"sqlite:{os.fspath(given)}"
    if given is not None and not isinstance(given, str):
        return given
    from refold.config.settings import default_store  # reads files as well, which a given store does not need

    return open_store(given or default_store() or DEFAULT_STORE, durability=durability)


def _redacted(ask: Answerer | None, redact: Callable[[Any], Any] | None) -> Answerer | None:
    """Somebody to ask who never sees a secret."""
    if ask is None or redact is None:
        return ask

    def asked(question: Ask) -> Any:
        clean = Ask(
            str(redact(question.text)),
            system=str(redact(question.system)),
            max_tokens=question.max_tokens,
            purpose=question.purpose,
        )
        return ask(clean)

    return asked


def _listeners() -> Listeners:
    """Those who listen from the start: telemetry, where it is installed."""
    listeners = Listeners()
    if (record := telemetry()) is not None:
        listeners.subscribe(record)
    return listeners
