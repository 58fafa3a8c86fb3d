"""OpenTelemetry metrics and spans from a session's events; they never hold the text of a message.

    metric                        unit          attributes
    refold.context.tokens         {token}                               histogram
    refold.context.ratio          1                                     histogram
    refold.context.warnings       {warning}     refold.level            counter
    refold.compactions            {compaction}  refold.trigger          counter
    refold.compaction.failures    {compaction}                          counter
    refold.compaction.skips       {compaction}                          counter
    refold.compaction.duration    s             refold.outcome          histogram
    refold.tokens.saved           {token}                               counter
    refold.overflows              {refusal}     refold.provider, refold.recovered   counter
    refold.unfolds                {fold}                                counter

Each attempt is one span `refold.compaction`. Reasons are left out, because they may quote an error, and an
error may quote a message. Needs the extra `otel`.
"""

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from refold.session.events import (
    CompactionEnd,
    CompactionFailed,
    CompactionSkipped,
    CompactionStart,
    ContextWarning,
    Event,
    OverflowMet,
    StoreFailed,
    Unfolded,
    UsageUpdate,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

_SCOPE: Final = "refold"
_OPEN: Final = 1_024
"""Attempts that may be under way at once; older ones are taken for abandoned. A lower number would end
spans of live sessions in a large service, a higher one only takes memory."""
# Bounds of the histograms: close where decisions are taken, at common windows, and at usual answer times.
_RATIOS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.25)
_SIZES: Final = (1e3, 2e3, 4e3, 8e3, 16e3, 32e3, 64e3, 100e3, 128e3, 200e3, 400e3, 1e6, 2e6)
_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)

Attributes: TypeAlias = dict[str, str | bool | int | float | list[str]]


def telemetry(
    *, meters: "MeterProvider | None" = None, tracers: "TracerProvider | None" = None
) -> Callable[[Event], None] | None:
    """Return a listener that records metrics and spans; None if OpenTelemetry is not installed.

    The providers are the process's own unless given.
    """
    try:
        from opentelemetry import metrics, trace
    except ImportError:
        return None
    meter = metrics.get_meter(_SCOPE, meter_provider=meters)
    return _Recorder(meter, trace.get_tracer(_SCOPE, tracer_provider=tracers))


class _Recorder:
    """Turn events into measurements; several threads may call it at once."""

    def __init__(self, meter: "Meter", tracer: "Tracer") -> None:
        self._tracer = tracer
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Span, float]] = {}
        self._tokens = _histogram(meter, "context.tokens", "{token}", "What fills the context", _SIZES)
        self._ratio = _histogram(meter, "context.ratio", "1", "Share of the room that is used", _RATIOS)
        self._duration = _histogram(meter, "compaction.duration", "s", "How long an attempt took", _SECONDS)
        count = meter.create_counter
        self._warnings = count("refold.context.warnings", "{warning}", "Levels that were reached")
        self._compactions = count("refold.compactions", "{compaction}", "Attempts that became a fold")
        self._failures = count("refold.compaction.failures", "{compaction}", "Attempts that came to nothing")
        self._skips = count("refold.compaction.skips", "{compaction}", "Attempts that were due and not made")
        self._saved = count("refold.tokens.saved", "{token}", "Tokens that folds took out of the context")
        self._overflows = count("refold.overflows", "{refusal}", "Refusals for size")
        self._unfolds = count("refold.unfolds", "{fold}", "Folds that were undone")
        self._outages = count("refold.store.failures", "{failure}", "Times that a store failed")

    def __call__(self, event: Event) -> None:
        """Record one event."""
        match event:
            case UsageUpdate():
                self._tokens.record(event.tokens)
                self._ratio.record(event.ratio)
            case ContextWarning():
                self._warnings.add(1, {"refold.level": event.level})
            case CompactionStart():
                self._start(event)
            case CompactionEnd():
                self._compactions.add(1, {"refold.trigger": event.receipt.trigger})
                self._saved.add(max(0, event.tokens_before - event.tokens_after))
                self._end(event, "folded", _fold_attributes(event))
            case CompactionFailed():
                self._failures.add(1)
                self._end(event, "failed", {})
            case CompactionSkipped():
                self._skips.add(1)
                self._end(event, "skipped", {})
            case OverflowMet():
                who: Attributes = {"refold.provider": (event.provider or "unknown")[:64]}
                self._overflows.add(1, {**who, "refold.recovered": event.recovered})
            case Unfolded():
                self._unfolds.add(1)
            case StoreFailed():
                self._outages.add(1)

    def _start(self, event: CompactionStart) -> None:
        attributes: Attributes = {"refold.session": event.session[:200], "refold.trigger": event.trigger}
        span = self._tracer.start_span(
            "refold.compaction", attributes=attributes, start_time=_nanoseconds(event.at)
        )
        with self._lock:
            left = [self._open.pop(event.session, None)]
            if len(self._open) >= _OPEN:
                left.append(self._open.pop(next(iter(self._open))))
            self._open[event.session] = (span, event.at)
        for abandoned in left:
            if abandoned:
                abandoned[0].set_attribute("refold.outcome", "abandoned")
                abandoned[0].end()

    def _end(
        self, event: CompactionEnd | CompactionFailed | CompactionSkipped, outcome: str, more: Attributes
    ) -> None:
        with self._lock:
            span, began = self._open.pop(event.session, (None, event.at))
        if span is None:
            return
        span.set_attributes({"refold.outcome": outcome, **more})
        if outcome == "failed":
            from opentelemetry.trace import StatusCode

            span.set_status(StatusCode.ERROR)
        if event.at >= began:  # a clock that was set back measures no duration
            self._duration.record(event.at - began, {"refold.outcome": outcome})
        span.end(_nanoseconds(max(event.at, began)))


def _histogram(meter: "Meter", name: str, unit: str, what: str, bounds: tuple[float, ...]) -> Any:
    return meter.create_histogram(f"refold.{name}", unit, what, explicit_bucket_boundaries_advisory=bounds)


def _fold_attributes(event: CompactionEnd) -> Attributes:
    receipt = event.receipt
    dollars = receipt.spent.dollars if receipt.calls else None
    return {
        **({} if dollars is None else {"refold.model.dollars": dollars}),
        "refold.fold": event.fold,
        "refold.policy": receipt.policy,
        "refold.window": receipt.window,
        "refold.window.source": receipt.window_source,
        "refold.stages": list(event.stages),
        "refold.messages.before": event.messages_before,
        "refold.messages.after": event.messages_after,
        "refold.tokens.before": event.tokens_before,
        "refold.tokens.after": event.tokens_after,
        "refold.model.calls": len(receipt.calls),
        "refold.model.tokens": sum(call.prompt_tokens + call.answer_tokens for call in receipt.calls),
    }


def _nanoseconds(at: float) -> int | None:
    """Return a time as OpenTelemetry takes it; None, which means now, for a number that is no time."""
    return int(at * 1e9) if math.isfinite(at) and 0 <= at < 9e9 else None
