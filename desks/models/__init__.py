"""Models of customers: users, desks, connections, bots, cards and elections."""

from desks.models.automation import Automation
from desks.models.card import Card
from desks.models.connection import Connection
from desks.models.desk import Desk
from desks.models.election import Election
from desks.models.user import User

__all__ = ["Automation", "Card", "Connection", "Desk", "Election", "User"]
