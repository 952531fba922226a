"""Chats for tests. Their URLs lead to listeners on loopback, which no form would take."""

import asyncio
import json
from datetime import timedelta
from typing import Any

from django.utils import timezone

from desks.models import QueuedNotice, User
from desks.models.chat import Chat, Service
from signals.notices.chats.sending import finish, send_to_chat, take_for_chats
from signals.outbound.guarded_client import Client
from tests.signals.outbound.listeners import Heard
from tokens.models.secret import encrypt

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
DISCORD = "https://discord.com/api/webhooks/1234567890123456789/abcdefghij-KLMNOP_0123456789"
SLACK = "https://hooks.slack.com/services/T0001/B0001/abcdefgh01234567"
NTFY = "https://ntfy.sh/quietly-1f3a"


def a_chat(user: User, url: str = DISCORD, service: Service = Service.DISCORD) -> Chat:
    """A chat that sends to this URL, whatever that is."""
    host = url.split("/")[2]
    chat = Chat(user=user, service=service, name="Desk", host=host, created_at=timezone.now())
    encrypt(chat, url)
    chat.save()
    return chat


def queued(chat: Chat | None = None) -> list[str]:
    """The subjects of the notices that wait for a chat, or for all."""
    rows = QueuedNotice.objects.exclude(chat=None)
    return list((rows.filter(chat=chat) if chat else rows).values_list("subject", flat=True))


def heard_by(heard: Heard) -> list[Any]:
    """The bodies that a listener heard."""
    return [json.loads(request.body) for request in heard.requests]


def send_once(client: Client | None = None) -> int:
    """Sends the next notice of each chat. Returns how many were sent."""
    taken = take_for_chats(timezone.now())

    async def all_of_them() -> list[Any]:
        sender = client or Client()
        return await asyncio.gather(*(send_to_chat(sender, notice) for notice in taken))

    for notice, answer in zip(taken, asyncio.run(all_of_them()), strict=True):
        finish(notice, answer, timezone.now())
    return len(taken)
