"""Sessions: conversations that are kept in a store and stay inside their window. This opens them."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from refold.arguments import Seconds, check_arguments
from refold.calls.conversation import Count
from refold.calls.summariser import ASK_SECONDS, AskTarget
from refold.core.compaction.circuit_breaker import Limits
from refold.core.compaction.policy import Policy
from refold.core.models.spending_limits import CAP_NAMES
from refold.redaction import Mode
from refold.session.async_session import AsyncSession
from refold.session.opening import OpenOptions, find_store, open_state
from refold.session.session import Session
from refold.session.state.fold_leases import FOLD_SECONDS, LEASE_SECONDS, FoldLease
from refold.session.state.settings import Background, NativeCall
from refold.session.steps.background import fold_in_background
from refold.stores import JOB_NOTE, Durability, Store


@check_arguments
def open(  # noqa: A001  # the word users know
    name: str,
    *,
    model: str | None = None,
    store: str | os.PathLike[str] | Store | None = None,
    policy: str | Policy = "refold",
    ask: AskTarget = None,
    window: int | str | None = None,
    endpoint: str = "",
    count: Count = None,
    format: str | None = None,  # noqa: A002  # the word users know
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
) -> Session:
    """Open a conversation by its name; it is created when something is said in it.

    model, window, policy, count, format   as for `measure`
    store        an address, a path or an open store; `REFOLD_STORE`, else a file in the user's data folder
    ask          who writes summaries: a callable, a client or an address; without it no model is needed
    endpoint, account   where the requests go, and a name for whose key it is: windows and blocks differ
    durability   "full" survives a loss of power, "normal" the end of the process
    redaction    "off", "export" (secrets do not reach summaries and files) or "storage" (nor the store)
    background   prepare folds while the conversation goes on; "queue": in processes that call `work`
    limits, max_...     how often it may be compacted; what summaries may cost (`REFOLD_MAX_DOLLARS`, ...)
    now          a clock, in seconds since the epoch
    ask_timeout  seconds for each question to `ask`; None: no deadline. A client by address has its own
    archive      a folder of this session alone, in which each fold keeps the originals as files
    native       has the provider compact: takes messages, with `system` and `tools`, returns the response
    """
    options = OpenOptions(
        model, store, policy, ask, window, endpoint, count, format, durability, redaction, background,
        limits, max_dollars, max_dollars_per_hour, max_summary_tokens_per_hour, now, ask_timeout, archive,
        native, account,
    )  # fmt: skip
    return Session(open_state(name, options), owns_store=not _is_open(store))


@check_arguments
def aopen(
    name: str,
    *,
    model: str | None = None,
    store: str | os.PathLike[str] | Store | None = None,
    policy: str | Policy = "refold",
    ask: AskTarget = None,
    window: int | str | None = None,
    endpoint: str = "",
    count: Count = None,
    format: str | None = None,  # noqa: A002  # the word users know
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
) -> AsyncSession:
    """Open a conversation for an event loop; the options are those of `open`."""
    options = OpenOptions(
        model, store, policy, ask, window, endpoint, count, format, durability, redaction, background,
        limits, max_dollars, max_dollars_per_hour, max_summary_tokens_per_hour, now, ask_timeout, archive,
        native, account,
    )  # fmt: skip
    return AsyncSession(open_state(name, options, asynchronous=True), owns_store=not _is_open(store))


def _is_open(store: Any) -> bool:
    """True for a store that the caller has opened and closes itself."""
    return store is not None and not isinstance(store, str | os.PathLike)


@check_arguments
def work(
    store: str | Store,
    *,
    seconds: float = FOLD_SECONDS,
    model: str | None = None,
    policy: str | Policy | None = None,
    ask: AskTarget = None,
    window: int | str | None = None,
    endpoint: str | None = None,
    count: Count = None,
    format: str | None = None,  # noqa: A002  # the word users know
    durability: Durability | None = None,
    redaction: Mode = "off",
    background: Background = False,
    limits: Limits | None = None,
    max_dollars: float | str | None = None,
    max_dollars_per_hour: float | str | None = None,
    max_summary_tokens_per_hour: int | str | None = None,
    now: Callable[[], float] | None = None,
    ask_timeout: Seconds | None = ASK_SECONDS,
) -> list[str]:
    """Fold the sessions in a store's queue until none is left, and return their names.

    Sessions that were opened with `background="queue"` offer themselves. Any number of processes on any
    number of hosts may work on one store; each session is folded by one of them. The options are those of
    `open`, above all `ask`; policy, model, window and caps are those of the session unless given. `seconds`
    is how long one fold may take. If a process dies, others take its work over within 15 seconds.
    """
    opened = find_store(store, durability)
    options = OpenOptions(
        model, opened, policy, ask, window, endpoint, count, format, durability, redaction, background,
        limits, max_dollars, max_dollars_per_hour, max_summary_tokens_per_hour, now, ask_timeout,
    )  # fmt: skip
    try:
        return _fold_queue(opened, options, seconds)
    finally:
        if not _is_open(store):
            opened.close()


def _fold_queue(store: Store, options: OpenOptions, seconds: float) -> list[str]:
    """Take one session after another from the queue and fold it."""
    names: list[str] = []
    holder = f"{os.getpid()}-{id(store):x}-{time.monotonic_ns():x}"
    while (lease := store.take(holder=holder, seconds=min(seconds, LEASE_SECONDS))) is not None:
        note = store.note(f"{JOB_NOTE}{lease.session}")
        job: dict[str, Any] = json.loads(note) if note else {}
        own = {
            key: job[key]
            for key in ("policy", "model", "endpoint", "window", "format", *CAP_NAMES)
            if job.get(key) is not None and getattr(options, key) is None
        }
        state = open_state(lease.session, replace(options, **own))
        state.request.more = int(job.get("beside", 0))
        session = Session(state, owns_store=False)
        session.run_flow(fold_in_background(state, lambda _attempt: None, FoldLease(store, lease, seconds)))
        session.close()
        names.append(lease.session)
    return names
