"""The end of a user's chats, with the desk (contract, section 1)."""

from typing import Any

from django.dispatch import receiver

from desks.models import Desk
from signals.notices.chats.models import Chat, ChatCode
from tokens.ending import desk_ends


@receiver(desk_ends)
def remove_all(sender: Any, desk: Desk, **options: Any) -> None:
    """Removes the chats of a desk's owner, in the turn that ends the desk."""
    Chat.objects.filter(user=desk.user_id).delete_locked()
    ChatCode.objects.filter(user=desk.user_id).delete()
