"""The control area's pages of all packages, for Django."""

from signals.control import customers, events, signals, stories
from signals.webhooks import admin as webhooks

__all__ = ["customers", "events", "signals", "stories", "webhooks"]
