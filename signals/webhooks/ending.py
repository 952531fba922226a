"""The end of a desk's subscriptions, with the desk (contract, section 1)."""

from typing import Any

from django.dispatch import receiver

from desks.models import Desk
from events.log import Turn
from signals.webhooks.actions import remove_rows
from signals.webhooks.models import Subscription
from tokens.ending import desk_ends


@receiver(desk_ends)
def remove_all(sender: Any, desk: Desk, turn: Turn, **options: Any) -> None:
    """Removes the subscriptions of a desk that ends, in the turn that ends it."""
    remove_rows(turn, Subscription.objects.of_owner(desk.pk))
