"""What the service says of itself: one line of JSON each, for a program to read.

A line is one object, so no text in it can end it or begin another; an exception stands in it by its
type, its text and where it was raised, without the values of variables. Every logger of Python
speaks so, gunicorn's own too; ``told`` says the lines of requests without their detour.
"""

import json
import logging
import sys
from typing import Any

import structlog
from gunicorn.glogging import Logger
from structlog.tracebacks import ExceptionDictTransformer
from structlog.types import Processor

MOST_FRAMES = 30

_every_line: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
]


# Made once: a JSON encoder for each line would take longer than all the rest of it.
_encoder = json.JSONEncoder(separators=(",", ":"), default=repr)
_renderer = structlog.processors.JSONRenderer(lambda line, **_: _encoder.encode(line))
_exceptions = structlog.processors.ExceptionRenderer(
    ExceptionDictTransformer(show_locals=False, max_frames=MOST_FRAMES)
)


def formatter() -> logging.Formatter:
    """What makes a line of a record that some logger of Python hands on."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_every_line, structlog.stdlib.add_logger_name],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _exceptions,
            _renderer,
        ],
    )


def requests_logger(level: str) -> Any:
    """The logger of the lines about requests, which are said at level info."""
    return structlog.wrap_logger(
        structlog.WriteLogger(sys.stderr),
        processors=[*_every_line, _renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    ).bind()


class GunicornLogger(Logger):  # type: ignore[misc]
    """The server's own lines, in the same form."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(formatter())
