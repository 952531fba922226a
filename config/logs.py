"""Structured logs: one JSON object per line.

No text can break a line. An exception is logged with its type, its text and its traceback, without
the values of variables. All Python loggers use this format, including gunicorn's. The line of each
request does not pass through Python's logging module, which takes a third of the time.
"""

import json
import logging
import sys

import structlog
from gunicorn.config import Config
from gunicorn.glogging import Logger
from structlog.tracebacks import ExceptionDictTransformer
from structlog.types import Processor

MAX_FRAMES = 30

_every_line: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
]


# Created once: creating a JSON encoder takes longer than the rest of a line.
_encoder = json.JSONEncoder(separators=(",", ":"), default=repr)
_renderer = structlog.processors.JSONRenderer(lambda line, **_: _encoder.encode(line))
_exceptions = structlog.processors.ExceptionRenderer(
    ExceptionDictTransformer(show_locals=False, max_frames=MAX_FRAMES)
)


def formatter() -> logging.Formatter:
    """Returns the formatter for records of Python's logging module."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_every_line, structlog.stdlib.add_logger_name],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _exceptions,
            _renderer,
        ],
    )


def request_logger(level: str) -> structlog.typing.FilteringBoundLogger:
    """Returns the logger of requests. ``level`` is the least level to write."""
    logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(sys.stderr),
        processors=[*_every_line, _renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    return logger


class GunicornLogger(Logger):  # type: ignore[misc]
    """gunicorn's own log lines, in the same format."""

    def setup(self, cfg: Config) -> None:
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(formatter())


def logging_settings(level: str) -> dict[str, object]:
    """Returns the value of ``LOGGING``: every record as a line of JSON on standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "config.logs.formatter"}},
        "handlers": {"terminal": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["terminal"], "level": level.upper()},
        "loggers": {
            # They log URLs, which may hold secrets.
            "httpx2": {"level": "WARNING"},
            "httpcore2": {"level": "WARNING"},
            # A refusal is not an error of the process, and its path may hold a credential.
            "django.request": {"level": "CRITICAL"},
            "django.security": {"level": "ERROR"},
        },
    }
