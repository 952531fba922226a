"""Models of customers: users, desks, connections, bots, cards, elections and notices."""

from desks.models.automation import Automation
from desks.models.card import Card
from desks.models.connection import Connection
from desks.models.desk import Desk
from desks.models.digest import Digest
from desks.models.election import Election
from desks.models.notice import Bookmark, Notice, NoticeChoice, RefusalTold
from desks.models.user import User

__all__ = [
    "Automation",
    "Bookmark",
    "Card",
    "Connection",
    "Desk",
    "Digest",
    "Election",
    "Notice",
    "NoticeChoice",
    "RefusalTold",
    "User",
]
