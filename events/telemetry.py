"""Spans that OpenTelemetry records and sends. Needs the extra ``telemetry``.

OpenTelemetry's own variables configure it: ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_SERVICE_NAME``,
``OTEL_TRACES_SAMPLER`` and the others. Spans are sent by a thread of the process in batches. While
the collector is away they are dropped, and no request waits for it.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Self

from opentelemetry import trace as api
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from events import tracing
from events.tracing import TraceContext

# The id of the trace that the next root begins; None: a random one.
_next_trace: ContextVar[int | None] = ContextVar("next_trace", default=None)


class _Ids(RandomIdGenerator):
    def generate_trace_id(self) -> int:
        return _next_trace.get() or super().generate_trace_id()


class RecordedSpan(tracing.Span):
    """A span that is recorded, unless the sampler leaves it out."""

    def __enter__(self) -> Self:
        chosen = _next_trace.set(int(self.trace.trace_id, 16) if self.trace else None)
        try:
            self._span = api.get_tracer("signals").start_span(self.name, self._context())
        finally:
            _next_trace.reset(chosen)
        found = self._span.get_span_context()
        self.context = TraceContext(
            api.format_trace_id(found.trace_id),
            api.format_span_id(found.span_id),
            "01" if found.trace_flags.sampled else "00",
        )
        # An exception's text and traceback may hold a secret.
        self._use = api.use_span(
            self._span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        )
        self._use.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.note({"error.type": kind.__name__})
        elif self.describe is not None:
            self.describe(self)
        self._use.__exit__(kind, error, traceback)

    def _context(self) -> Context | None:
        """The context in which the span starts; None is that of the span around it."""
        if self.trace is not None:
            return Context()
        return None if self.parent is None else api.set_span_in_context(_remote(self.parent))

    def note(
        self,
        found: Mapping[str, str | int | None],
        *,
        name: str | None = None,
        is_error: bool = False,
    ) -> None:
        if name:
            self._span.update_name(name)
        if is_error:
            self._span.set_status(api.StatusCode.ERROR)
        known = {key: value for key, value in found.items() if value is not None}
        self._span.set_attributes(known)

    def link(self, position: int, epoch: str) -> None:
        context = tracing.of_message(f"evt_{position}_{epoch}")
        self._span.add_link(_remote(context).get_span_context())


def _remote(context: TraceContext) -> api.NonRecordingSpan:
    return api.NonRecordingSpan(
        api.SpanContext(
            int(context.trace_id, 16),
            int(context.span_id, 16),
            is_remote=True,
            trace_flags=api.TraceFlags(int(context.flags, 16)),
        )
    )


def start(exporter: SpanExporter | None = None) -> None:
    """Records spans from now on, and sends them to ``exporter``, usually the collector's."""
    provider = TracerProvider(id_generator=_Ids())
    provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
    api.set_tracer_provider(provider)
    tracing.Span.recorded = RecordedSpan
