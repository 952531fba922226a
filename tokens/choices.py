"""Sources of signals and scopes of tokens. Without Django, for the pure modules of ``signals``."""

from events.choices import TextEnum


class Source(TextEnum):
    """The source that a signal names. It decides which secret must sign the signal."""

    TRADINGVIEW = "tradingview"
    FLOOR = "floor"
    NOX = "nox"


class Scope(TextEnum):
    """Who owns a token: a desk or the platform."""

    DESK = "desk"
    PLATFORM = "platform"
