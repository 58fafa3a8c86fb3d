"""Numbers for operators, as Prometheus reads them. Labels say nothing of a caller or a conversation."""

import re
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from refold.gateway.history.turns import Turn

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_FAMILIES: Final = re.compile(r"claude|gpt|codex|o\d|gemini|llama|qwen|mistral|deepseek|grok")
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""Bounds of the time to the first byte: a model thinks for some seconds, sometimes for minutes."""


class Metrics:
    """The counters of one gateway, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._found: dict[tuple[Any, tuple[str, ...]], Any] = {}
        self.requests = Counter(
            "refold_gateway_requests",
            "Requests that were answered, by wire, family of the model and outcome.",
            ("wire", "model", "outcome"),
            registry=self.registry,
        )
        self.folds = Counter(
            "refold_gateway_folds",
            "Requests with a history, by what was done to it (x-refold-fold).",
            ("wire", "fold"),
            registry=self.registry,
        )
        self.tokens = Counter(
            "refold_gateway_tokens",
            "Estimated tokens of histories, as callers sent them and as they went on.",
            ("wire", "side"),
            registry=self.registry,
        )
        self.open = Gauge(
            "refold_gateway_open_requests", "Requests that are being answered.", registry=self.registry
        )
        self.unsaved = Gauge(
            "refold_gateway_unsaved_messages",
            "Messages that only wait in memory, because the store fails.",
            registry=self.registry,
        )
        self.first_byte = Histogram(
            "refold_gateway_first_byte_seconds",
            "Seconds from a request's headers to the headers of the upstream's answer.",
            ("wire",),
            buckets=_SECONDS,
            registry=self.registry,
        )

    def note_turn(self, wire: str, turn: Turn) -> None:
        """Count what was done to a history."""
        self.find(self.folds, wire, turn.fold).inc()
        if turn.tokens is not None:
            for side, tokens in zip(("received", "sent"), turn.tokens, strict=True):
                self.find(self.tokens, wire, side).inc(tokens)

    def find(self, metric: Counter | Histogram, *labels: str) -> Any:
        """Return a metric with its labels; the library takes ten times as long to find one again."""
        known = self._found.get((metric, labels))
        if known is None:
            known = self._found[metric, labels] = metric.labels(*labels)
        return known

    def write(self) -> bytes:
        """Return all numbers as text."""
        return generate_latest(self.registry)


def find_family(model: str) -> str:
    """Return the family of a model: one of a dozen words, whatever a caller writes.

    >>> find_family("claude-opus-4-8"), find_family("my-secret-model")
    ('claude', 'other')
    """
    match = _FAMILIES.search(model.lower())
    return "other" if match is None else re.sub(r"^o\d$", "o", match[0])
