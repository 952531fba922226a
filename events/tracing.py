"""Traces: the context that a caller sends (W3C Trace Context), and spans where telemetry is on.

A request belongs to its caller's trace. What is sent of an event later belongs to a trace of the
event's own, whose id is computed from that of the message. So nothing is stored for it, all
attempts are in one trace, and no customer learns the trace of another's request. The request links
to it.

``events.telemetry`` makes spans that are recorded. Until it is started nothing of OpenTelemetry is
imported, and a span only carries its context.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import ClassVar, NamedTuple, Self

# Every other version, form or case is no context.
_TRACEPARENT = re.compile(
    r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII
)


class TraceContext(NamedTuple):
    """A place in a trace, in lower-case hex. ``flags`` are 01 if its spans are recorded."""

    trace_id: str
    span_id: str
    flags: str = "00"

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


def parse(header: str) -> TraceContext | None:
    """The context of a ``traceparent`` header; None if it is not well formed."""
    found = _TRACEPARENT.fullmatch(header)
    return TraceContext(*found.groups()) if found else None


def of_message(message_id: str) -> TraceContext:
    """The context of a webhook's message: the same wherever it is computed."""
    digest = hashlib.sha256(message_id.encode()).hexdigest()
    return TraceContext(digest[:32], digest[32:48])


class Span:
    """A part of the work of a trace, with its ``context``. This one is not recorded.

    ``parent`` is the context of the caller. ``trace`` is the context of a trace in which this span
    has no parent. Without either the span is part of the one around it. ``describe`` is called when
    the span ends without an error: so it takes no time before, while a lock is held for example.
    """

    describe: Callable[["Span"], None] | None = None

    # The spans that are recorded instead, where telemetry is on.
    recorded: ClassVar[type["Span"] | None] = None

    def __init__(
        self, name: str, *, parent: TraceContext | None = None, trace: TraceContext | None = None
    ) -> None:
        self.name, self.parent, self.trace = name, parent, trace
        self.context = trace or parent

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends it."""

    def note(
        self,
        found: Mapping[str, str | int | None],
        *,
        name: str | None = None,
        is_error: bool = False,
    ) -> None:
        """Notes attributes, without those that are None; and the name, if it was not known before.

        Never note a path, a query, a body, an address, or the text of an error.
        """

    def link(self, position: int, epoch: str) -> None:
        """Links the span to the trace of what is sent of an event."""


def span(
    name: str, *, parent: TraceContext | None = None, trace: TraceContext | None = None
) -> Span:
    """A span to enter with ``with``."""
    return (Span.recorded or Span)(name, parent=parent, trace=trace)
