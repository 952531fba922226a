"""Models of customers: users, desks, connections, bots, cards, elections, notices and chats."""

from desks.models.automation import Automation
from desks.models.card import Card
from desks.models.chat import Chat, ChatCode
from desks.models.desk import Connection, Desk
from desks.models.election import Election
from desks.models.notice import Bookmark, NoticeChoice, QueuedNotice, RefusalTold
from desks.models.user import User

__all__ = [
    "Automation",
    "Bookmark",
    "Card",
    "Chat",
    "ChatCode",
    "Connection",
    "Desk",
    "Election",
    "NoticeChoice",
    "QueuedNotice",
    "RefusalTold",
    "User",
]
