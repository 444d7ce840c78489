"""Spans of time for an OpenTelemetry collector, where one is named: sent in the background."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota import __version__
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

PATH = "/v1/traces"


class Traces:
    """Takes spans that are over; a thread of the library sends them, some at a time."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("rota", __version__)

    def tell(self, name: str, taken_s: float, facts: dict[str, str | int]) -> None:
        ended_ns = time.time_ns()
        began_ns = ended_ns - int(taken_s * 1e9)
        span = self._tracer.start_span(name, attributes=facts, start_time=began_ns)
        span.end(ended_ns)

    def close(self) -> None:
        """What waits is sent, if that does not take long."""
        self._provider.force_flush(2000)
        self._provider.shutdown()


def open_traces(url: str) -> Traces | None:
    """None where no collector is named; ``Rejected`` says what is missing."""
    if not url:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        why = f"server.traces: {error}; install it with: pip install 'rota[otel]'"
        raise Rejected(why) from None
    resource = Resource.create({"service.name": "rota", "service.version": __version__})
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(endpoint=url.rstrip("/") + PATH, timeout=5)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Traces(provider)
