"""The control area's pages of the log, signals and webhooks, and what other pages show."""

from signals.admin import events, sections, signals, subscriptions

__all__ = ["events", "sections", "signals", "subscriptions"]
