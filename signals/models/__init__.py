"""Models of accepted signals, of webhook subscriptions, and of chats for notices."""

from signals.models.chat import Chat, ChatCode, ChatMessage
from signals.models.delivery import DeliveryAttempt
from signals.models.signal import Outcome, Signal, SignalQuerySet
from signals.models.subscription import Subscription, SubscriptionSecret

__all__ = [
    "Chat",
    "ChatCode",
    "ChatMessage",
    "DeliveryAttempt",
    "Outcome",
    "Signal",
    "SignalQuerySet",
    "Subscription",
    "SubscriptionSecret",
]
