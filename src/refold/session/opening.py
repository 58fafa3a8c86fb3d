"""Open the state of a session from the options of `open`: check them, open the store and the summariser."""

import inspect
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from refold.calls.conversation import Count
from refold.calls.summariser import (
    ASK_SECONDS,
    AskTarget,
    choose_answerer,
    open_summariser,
    summariser_field,
    summariser_price,
    summariser_window,
)
from refold.core.compaction.circuit_breaker import Limits
from refold.core.compaction.flow import ASYNCHRONOUS, Answerer, Ask
from refold.core.compaction.policy import Policy
from refold.core.models.prices import sends_bill
from refold.core.models.spending_limits import CAP_NAMES, Caps, parse_caps
from refold.core.tokens.units import parse_window
from refold.errors import LogCorrupt, LogTooNew, RefoldError, StoreError, warn_caller
from refold.policies import presets
from refold.redaction import Mode
from refold.session.events import EventQueue, Listeners
from refold.session.export_folder import find_archive
from refold.session.state.session_log import SessionLog
from refold.session.state.session_state import SessionState
from refold.session.state.settings import Background, NativeCall, Settings, Summariser, find_fingerprint
from refold.session.telemetry import telemetry
from refold.stores import Durability, Store, open_store

DEFAULT_STORE: Final = "sqlite:"


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """The options of `open`, in the order of its parameters."""

    model: str | None = None
    store: str | os.PathLike[str] | Store | None = None
    policy: str | Policy | None = None
    ask: AskTarget = None
    window: int | str | None = None
    endpoint: str | None = None
    count: Count = None
    format: str | None = None
    durability: Durability | None = None
    redaction: Mode = "off"
    background: Background = False
    limits: Limits | None = None
    max_dollars: float | str | None = None
    max_dollars_per_hour: float | str | None = None
    max_summary_tokens_per_hour: int | str | None = None
    now: Callable[[], float] | None = None
    ask_timeout: float | None = ASK_SECONDS
    archive: str | os.PathLike[str] | None = None
    native: NativeCall | None = None
    account: str | None = None


_CHECKS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "model": ("a name", lambda value: isinstance(value, str)),
    "endpoint": ("an address", lambda value: isinstance(value, str)),
    "count": ("a callable or a name", lambda value: callable(value) or isinstance(value, str)),
    "limits": ("refold.core.compaction.circuit_breaker.Limits", lambda value: isinstance(value, Limits)),
    "now": ("a callable", callable),
    "native": ("a callable from messages to the provider's response", callable),
    "account": ("a name", lambda value: isinstance(value, str)),
    "archive": ("a folder", lambda value: isinstance(value, str | os.PathLike)),
}
"""For each option, the expected kind of value in words, and the check for it."""


def open_state(name: str, options: OpenOptions, *, asynchronous: bool = False) -> SessionState:
    """Return the state of a session; wrong options are refused before anything is opened."""
    if not isinstance(name, str) or not name:
        raise RefoldError("a session has a name: refold.open('my-task')")
    ask = open_summariser(options.ask)
    for option, (expected, is_valid) in _CHECKS.items():
        value = getattr(options, option)
        if value is not None and not is_valid(value):
            raise RefoldError(f"{option} is {expected}, not {type(value).__name__}")
    if not asynchronous and any(map(inspect.iscoroutinefunction, (options.ask, options.native))):
        raise RefoldError(ASYNCHRONOUS)
    if options.background not in (True, False, "queue"):
        raise RefoldError(f"background is True, False or 'queue', not {options.background!r}")
    redact = _make_redaction(options.redaction)
    policy = presets.get(options.policy or "refold")
    settings = Settings(
        policy=policy,
        model=options.model,
        endpoint=options.endpoint or "",
        window=None if options.window is None else parse_window(options.window),
        count=options.count,
        format=options.format,
        background=options.background,
        limits=options.limits or Limits(),
        caps=_read_caps(options, ask, policy),
        archive=find_archive(options.archive, name) if options.archive else "",
        account=find_fingerprint(options.account or ""),
    )
    listeners = Listeners()
    if (record := telemetry()) is not None:
        listeners.subscribe(record)
    answer = choose_answerer(ask, asynchronous=asynchronous, timeout=options.ask_timeout)
    native = _make_native_answerer(options, asynchronous=asynchronous)
    return SessionState(
        name=name,
        log=SessionLog(find_store(options.store, options.durability)),
        settings=settings,
        summariser=replace(_describe_summariser(ask, answer, redact, policy), native=native),
        now=options.now or time.time,
        events=EventQueue(listeners),
        redact=redact,
        redact_stored=redact if options.redaction == "storage" else None,
    )


def _make_redaction(mode: Mode) -> Callable[[Any], Any] | None:
    """Return what takes secrets out in a mode; None where nothing does."""
    if mode == "off":
        return None
    from refold.redaction.redact import SecretMemory, make_redactor  # slow to import, and most keep it off

    make_redactor(mode)
    return SecretMemory()


def _read_caps(options: OpenOptions, ask: Any, policy: Policy) -> Caps:
    """Return the caps from the options or the environment, and warn of those that cannot be kept."""
    variables = {name: os.environ.get(f"REFOLD_{name.upper()}", "").strip() for name in CAP_NAMES}
    values = {name: getattr(options, name) for name in CAP_NAMES}
    caps = parse_caps(
        {name: value for name, value in variables.items() if value}
        | {name: value for name, value in values.items() if value is not None}
    )
    if caps.in_dollars and ask is not None and summariser_price(ask, policy.window) is None:
        summariser = summariser_field(ask, "name") or summariser_field(ask, "model") or "the summariser"
        problem = f"no price is known for {summariser}, so that a cap in dollars cannot be held"
        advice = "before it has answered: set max_summary_tokens_per_hour"
        warn_caller(f"{problem} {advice}")
    return caps


def find_store(
    address: str | os.PathLike[str] | Store | None, durability: Durability | None, *, scope: str | None = None
) -> Store:
    """Return an open store as it is, or open the one at an address; the user's own store by default.

    scope   tenant whose store is opened; an open store has its own
    """
    if address is not None and not isinstance(address, str | os.PathLike):
        if not hasattr(address, "head"):
            raise RefoldError(f"store is an address, a path or a store, not {type(address).__name__}")
        return address
    from refold.config.settings import default_store  # reads files, which a named store does not need

    chosen = address or default_store()
    if chosen:
        return open_store(chosen, durability=durability, scope=scope)
    return _open_default(durability, scope)


def _open_default(durability: Durability | None, scope: str | None) -> Store:
    """Open the user's own store, or one in memory where no file can be made, as in a read-only home.

    Nobody has named it, so that no mistyped address is hidden.
    """
    try:
        return open_store(DEFAULT_STORE, durability=durability, scope=scope)
    except (LogCorrupt, LogTooNew):
        raise
    except StoreError as error:
        warn_caller(
            f"{error}: the session is kept in memory and is gone with this process; name a store to keep it"
            " (store=, REFOLD_STORE)"
        )
        return open_store("memory:")


def _describe_summariser(
    ask: Any, answer: Answerer | None, redact: Callable[[Any], Any] | None, policy: Policy
) -> Summariser:
    """Return the summariser as far as it describes itself, of several the first; it never sees a secret."""
    if answer is not None and redact is not None:
        answer = _redact_questions(answer, redact)
    return Summariser(
        ask=answer,
        window=summariser_window(ask, policy.window),
        model=summariser_field(ask, "model"),
        provider=summariser_field(ask, "provider"),
        format=summariser_field(ask, "format"),
        price=summariser_price(ask, policy.window),
        sends_bill=sends_bill(summariser_field(ask, "name")),
    )


def _make_native_answerer(options: OpenOptions, *, asynchronous: bool) -> Answerer | None:
    """Return what has the provider compact in time; it gets what it gets in every turn, unredacted."""
    call = options.native
    if call is None:
        return None
    return choose_answerer(
        lambda question: call(question.native), asynchronous=asynchronous, timeout=options.ask_timeout
    )


def _redact_questions(answer: Answerer, redact: Callable[[Any], Any]) -> Answerer:
    def answer_redacted(question: Ask) -> Any:
        clean = Ask(
            str(redact(question.text)),
            system=str(redact(question.system)),
            max_tokens=question.max_tokens,
            purpose=question.purpose,
        )
        return answer(clean)

    return answer_redacted
