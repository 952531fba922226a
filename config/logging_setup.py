"""Structured logs: one JSON object per line.

No text can break a line. An exception is logged with its type, its text and its traceback, without
the values of variables. All Python loggers use this format, including gunicorn's.
"""

import logging

import structlog
from gunicorn.config import Config
from gunicorn.glogging import Logger
from structlog.tracebacks import ExceptionDictTransformer

MAX_FRAMES = 30
# What the line of a request says. Other libraries' extras may hold a URL.
OF_REQUESTS = ("method", "route", "status", "who", "outcome", "ms")


_renderer = structlog.processors.JSONRenderer(separators=(",", ":"), default=repr)
_exceptions = structlog.processors.ExceptionRenderer(
    ExceptionDictTransformer(show_locals=False, max_frames=MAX_FRAMES)
)


def formatter() -> logging.Formatter:
    """Returns the formatter for records of Python's logging module."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.stdlib.ExtraAdder(OF_REQUESTS),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _exceptions,
            _renderer,
        ],
    )


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
        "formatters": {"json": {"()": "config.logging_setup.formatter"}},
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
