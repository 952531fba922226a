"""The control area's pages of the log and of signals, and what other pages show of both."""

from signals.admin import events, sections, signals

__all__ = ["events", "sections", "signals"]
