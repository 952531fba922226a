"""The end of a desk's subscriptions, with the desk (contract, section 1)."""

from typing import Any

from django.dispatch import receiver

from desks.models import Desk
from events.actors import Actor
from signals.models import Subscription
from signals.subscriptions.actions import remove
from tokens.ending import desk_ends


@receiver(desk_ends)
def remove_all(sender: Any, desk: Desk, actor: Actor, **options: Any) -> None:
    """Removes the subscriptions of a desk that ends, in the turn that ends it."""
    for subscription in Subscription.objects.of_owner(desk.pk):
        remove(subscription=subscription, actor=actor)
