"""The control area's pages of all rooms, for Django."""

from signals.control import events, sections, signals
from signals.webhooks import admin as webhooks

__all__ = ["events", "sections", "signals", "webhooks"]
