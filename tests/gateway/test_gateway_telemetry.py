"""OpenTelemetry from the gateway: spans and metrics of its sessions come out, and hold nothing of a caller.

A process has one provider of each kind, which nobody can take back: each test has a process of its own.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from recording_upstream import LIMIT

PROGRAM = """
import json, sys
sys.path[:0] = sys.argv[1:]
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
spans, reader, tracers = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(tracers)
metrics.set_meter_provider(MeterProvider([reader]))

from client_bodies import ClaudeCode
from recording_upstream import answer_json, running_gateway, running_upstream, send
from refold.gateway import HistoryOptions

ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "canary-answer"}],
          "model": "claude-sonnet-4-5", "usage": {"input_tokens": 20000, "output_tokens": 10}}
TOO_LONG = {"type": "error", "error": {"type": "invalid_request_error",
            "message": "prompt is too long: 31000 tokens > 30000 maximum canary-refusal"}}
histories = HistoryOptions(store="memory:", window=30_000, tenancy="key", tenant_secret="canary-tenant-secret")
with running_upstream() as upstream, running_gateway(upstream, histories) as gateway:
    upstream.script = [answer_json(ANSWER)] * 20 + [answer_json(TOO_LONG, 400), answer_json(ANSWER)]
    for session in ("one", "two", "three"):
        client = ClaudeCode(session=session, task=f"canary-task {session}", words=500)
        for steps in range(14, 24):
            request = client.request(steps)
            headers = {**request.headers, "x-api-key": "canary-key", "Authorization": "Bearer canary-bearer"}
            path = request.path + "&key=canary-query"
            assert send(gateway, "POST", path, request.bytes, list(headers.items())).status == 200
print(json.dumps({"spans": [json.loads(span.to_json()) for span in spans.get_finished_spans()],
                  "metrics": json.loads(reader.get_metrics_data().to_json())}))
"""


@pytest.fixture(scope="module")
def told():
    """What the exporters were given, and the raw text of it."""
    pytest.importorskip("opentelemetry.sdk", reason="the SDK of OpenTelemetry is not installed")
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, Path(__file__).parents[:2])],
        capture_output=True, text=True, timeout=4 * LIMIT, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    return json.loads(ran.stdout), ran.stdout


def test_every_fold_of_the_gateway_is_a_span(told):
    spans = told[0]["spans"]
    assert {span["name"] for span in spans} == {"refold.compaction"}
    sessions = {span["attributes"]["refold.session"] for span in spans}
    assert sessions == {"claude-code:one", "claude-code:two", "claude-code:three"}
    folded = [span["attributes"] for span in spans if span["attributes"]["refold.outcome"] == "folded"]
    assert len(folded) >= len(sessions)
    assert all(fold["refold.tokens.after"] < fold["refold.tokens.before"] for fold in folded)


def test_the_metrics_of_all_conversations_add_up(told):
    (resource,) = told[0]["metrics"]["resource_metrics"]
    (scope,) = [scope for scope in resource["scope_metrics"] if scope["scope"]["name"] == "refold"]
    metrics = {metric["name"]: metric["data"]["data_points"] for metric in scope["metrics"]}
    assert len(metrics) == len(scope["metrics"]), "one instrument for all sessions"
    folds = [span for span in told[0]["spans"] if span["attributes"]["refold.outcome"] == "folded"]
    assert sum(point["value"] for point in metrics["refold.compactions"]) == len(folds)
    assert sum(point["count"] for point in metrics["refold.context.tokens"]) >= 30
    (refusal,) = metrics["refold.overflows"]
    assert (refusal["value"], refusal["attributes"]["refold.recovered"]) == (1, True)


def test_neither_key_nor_query_nor_text_comes_out(told):
    text = told[1]
    assert "refold.tokens.before" in text
    assert "canary" not in text
    assert "beta=true" not in text
