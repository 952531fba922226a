"""The models of all packages, for Django. Other code imports them from their packages."""

from desks.models import Chat, ChatCode
from signals.intake.models import Signal
from signals.notices.models import KnownConcern, TelegramReader
from signals.outbound.schedule import Rate
from signals.site.downloads import ExportLease
from signals.webhooks.models import DeliveryAttempt, Subscription, SubscriptionSecret

__all__ = [
    "Chat",
    "ChatCode",
    "DeliveryAttempt",
    "ExportLease",
    "KnownConcern",
    "Rate",
    "Signal",
    "Subscription",
    "SubscriptionSecret",
    "TelegramReader",
]
