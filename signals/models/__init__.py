"""Models of accepted signals, of webhook subscriptions, of chats for notices, and of exports."""

from signals.models.chat import Chat, ChatCode, ChatMessage
from signals.models.delivery import DeliveryAttempt
from signals.models.export import ExportLease
from signals.models.signal import Outcome, Signal, SignalQuerySet
from signals.models.subscription import Subscription, SubscriptionSecret

__all__ = [
    "Chat",
    "ChatCode",
    "ChatMessage",
    "DeliveryAttempt",
    "ExportLease",
    "Outcome",
    "Signal",
    "SignalQuerySet",
    "Subscription",
    "SubscriptionSecret",
]
