"""Metrics and spans from a session's events."""

import json
import math
import subprocess
import sys

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from refold.calls.outcome import Receipt
from refold.core.compaction.model_calls import ModelCall
from refold.core.compaction.pipeline import Report
from refold.session import telemetry as module
from refold.session.events import (
    CompactionEnd,
    CompactionFailed,
    CompactionSkipped,
    CompactionStart,
    ContextWarning,
    OverflowMet,
    StoreFailed,
    Unfolded,
    UsageUpdate,
)
from refold.session.telemetry import telemetry

SECRET = "the user's own words"
CALL = ModelCall(purpose="summary", prompt_tokens=50, answer_tokens=10, failed=SECRET)
REPORT = Report(
    stage="summarize", accepted=True, reason=SECRET, tokens_before=9, tokens_after=3, calls=(CALL,)
)
RECEIPT = Receipt(
    policy="refold",
    trigger="threshold",
    window=100,
    window_source="table",
    count_source="estimate",
    estimated_tokens=90,
    stages=(REPORT,),
    reason=SECRET,
)


def at(seconds, session="s"):
    return {"session": session, "at": seconds}


def end(seconds=12.5, *, after=30, session="s"):
    return CompactionEnd(
        **at(seconds, session),
        messages_before=9,
        messages_after=4,
        tokens_before=90,
        tokens_after=after,
        stages=("prune", "summarize"),
        fold="b2:x",
        receipt=RECEIPT,
    )


class Recorded:
    def __init__(self):
        self.reader, self.exporter = InMemoryMetricReader(), InMemorySpanExporter()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.listen = telemetry(meters=self.meters, tracers=self.tracers)

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def metric(self, name):
        """The points of a metric as (attributes, value or (count, sum))."""
        data = self.reader.get_metrics_data()
        found = data.resource_metrics[0].scope_metrics[0].metrics if data else []
        (metric,) = [each for each in found if each.name == name]
        return [
            (dict(point.attributes), point.value if hasattr(point, "value") else (point.count, point.sum))
            for point in metric.data.data_points
        ]


@pytest.fixture
def recorded():
    recorded = Recorded()
    yield recorded
    recorded.meters.shutdown()
    recorded.tracers.shutdown()


def test_usage_fills_two_histograms(recorded):
    for tokens in (80, 90):
        recorded.listen(UsageUpdate(**at(1.0), tokens=tokens, window=100, ratio=tokens / 100))
    assert recorded.metric("refold.context.tokens") == [({}, (2, 170))]
    ((_, (count, total)),) = recorded.metric("refold.context.ratio")
    assert (count, total) == (2, pytest.approx(1.7))


def test_a_compaction_is_counted_with_what_it_saved(recorded):
    recorded.listen(CompactionStart(**at(10.0), trigger="threshold"))
    recorded.listen(end())
    assert recorded.metric("refold.compactions") == [({"refold.trigger": "threshold"}, 1)]
    assert recorded.metric("refold.tokens.saved") == [({}, 60)]
    assert recorded.metric("refold.compaction.duration") == [({"refold.outcome": "folded"}, (1, 2.5))]


def test_a_fold_that_saved_nothing_takes_nothing_away(recorded):
    recorded.listen(end(after=95))
    assert recorded.metric("refold.tokens.saved") == [({}, 0)]


def test_other_events_are_counted(recorded):
    recorded.listen(ContextWarning(**at(1.0), level="critical", used=95, room=100))
    recorded.listen(CompactionFailed(**at(1.0), reason=SECRET))
    recorded.listen(CompactionSkipped(**at(1.0), reason=SECRET))
    recorded.listen(OverflowMet(**at(1.0), provider="vllm", recovered=True))
    recorded.listen(OverflowMet(**at(1.0)))
    recorded.listen(Unfolded(**at(1.0), fold="b2:x"))
    recorded.listen(StoreFailed(**at(1.0), reason="no room left", unsaved=1))
    assert recorded.metric("refold.context.warnings") == [({"refold.level": "critical"}, 1)]
    assert recorded.metric("refold.compaction.failures") == [({}, 1)]
    assert recorded.metric("refold.compaction.skips") == [({}, 1)]
    assert recorded.metric("refold.overflows") == [
        ({"refold.provider": "vllm", "refold.recovered": True}, 1),
        ({"refold.provider": "unknown", "refold.recovered": False}, 1),
    ]
    assert recorded.metric("refold.unfolds") == [({}, 1)]
    assert recorded.metric("refold.store.failures") == [({}, 1)]
    assert not recorded.spans


def test_a_compaction_is_a_span_from_start_to_end(recorded):
    recorded.listen(CompactionStart(**at(10.0), trigger="threshold"))
    recorded.listen(end())
    (span,) = recorded.spans
    assert (span.name, span.start_time, span.end_time) == (
        "refold.compaction",
        10_000_000_000,
        12_500_000_000,
    )
    assert dict(span.attributes) == {
        "refold.session": "s",
        "refold.trigger": "threshold",
        "refold.outcome": "folded",
        "refold.fold": "b2:x",
        "refold.policy": "refold",
        "refold.window": 100,
        "refold.window.source": "table",
        "refold.stages": ("prune", "summarize"),
        "refold.messages.before": 9,
        "refold.messages.after": 4,
        "refold.tokens.before": 90,
        "refold.tokens.after": 30,
        "refold.model.calls": 1,
        "refold.model.tokens": 60,
    }


def test_spans_of_sessions_do_not_mix(recorded):
    for session in ("a", "b"):
        recorded.listen(CompactionStart(**at(10.0, session), trigger="forced"))
    recorded.listen(end(session="b"))
    recorded.listen(end(session="a"))
    assert [span.attributes["refold.session"] for span in recorded.spans] == ["b", "a"]


def test_a_failed_span_is_an_error_and_a_skipped_one_is_not(recorded):
    for over in (
        CompactionFailed(**at(11.0), reason=SECRET, receipt=RECEIPT),
        CompactionSkipped(**at(11.0), reason=""),
    ):
        recorded.listen(CompactionStart(**at(10.0), trigger="threshold"))
        recorded.listen(over)
    failed, skipped = recorded.spans
    assert (failed.attributes["refold.outcome"], failed.status.status_code) == (
        "failed",
        StatusCode.ERROR,
    )
    assert (skipped.attributes["refold.outcome"], skipped.status.status_code) == (
        "skipped",
        StatusCode.UNSET,
    )


def test_no_text_is_told(recorded):
    """Law 14: what was said reaches no span and no metric."""
    recorded.listen(CompactionStart(**at(10.0), trigger="threshold"))
    recorded.listen(end())
    recorded.listen(CompactionStart(**at(10.0), trigger="threshold"))
    recorded.listen(CompactionFailed(**at(12.0), reason=SECRET, receipt=RECEIPT))
    told = [span.to_json() for span in recorded.spans] + [recorded.reader.get_metrics_data().to_json()]
    assert len(told) == 3
    assert SECRET not in json.dumps(told)


def test_a_start_that_never_ended_is_let_go_by_the_next(recorded):
    for _ in range(2):
        recorded.listen(CompactionStart(**at(10.0), trigger="threshold"))
    (span,) = recorded.spans
    assert span.attributes["refold.outcome"] == "abandoned"


def test_starts_that_never_end_do_not_pile_up(recorded, monkeypatch):
    monkeypatch.setattr(module, "_OPEN", 3)
    for number in range(5):
        recorded.listen(CompactionStart(**at(10.0, str(number)), trigger="threshold"))
    assert [span.attributes["refold.session"] for span in recorded.spans] == ["0", "1"]


def test_a_clock_that_was_set_back_measures_nothing(recorded):
    recorded.listen(CompactionStart(**at(10.0), trigger="threshold"))
    recorded.listen(end(5.0))
    (span,) = recorded.spans
    assert span.start_time == span.end_time
    with pytest.raises(ValueError, match="unpack"):
        recorded.metric("refold.compaction.duration")


@pytest.mark.parametrize("when", [math.nan, math.inf, -1.0, 1e300], ids=repr)
def test_a_time_that_cannot_be_is_now(recorded, when):
    recorded.listen(CompactionStart(**at(when), trigger="threshold"))
    recorded.listen(end(when))
    (span,) = recorded.spans
    assert span.start_time > 1e18


def test_the_process_own_providers_are_the_default():
    listen = telemetry()
    listen(CompactionStart(**at(10.0), trigger="threshold"))
    listen(end())


def test_without_the_library_there_is_no_telemetry(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert telemetry() is None


def test_the_library_is_imported_only_when_called():
    program = "import sys, refold.session.telemetry; print('opentelemetry' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
