"""The SQL that writes a notice: one statement, because it may run under the lock of the log."""

from django.db import connection

from desks.models import Chat, QueuedNotice
from desks.models.notice import MAIL

MAX_WAITING_OF_CHAT = 100  # what comes after them is only mailed


def insert(notice: QueuedNotice, *, mail: bool = True, chats: bool = True) -> None:
    """Writes a notice as a row for the mail, and one for each chat of its reader that is on.

    One for an address of its own goes to no chat.
    """
    table = QueuedNotice._meta.db_table
    fields = [
        field
        for field in QueuedNotice._meta.concrete_fields
        if field.name not in ("id", "channel", "chat")
    ]
    columns = ", ".join(str(field.column) for field in fields)
    values = [
        field.get_db_prep_save(getattr(notice, field.attname), connection) for field in fields
    ]
    channels = []
    if mail:
        channels.append(f"SELECT '{MAIL}' AS channel, CAST(NULL AS bigint) AS chat_id")
    if chats and not notice.address:
        channels.append(
            f"SELECT service AS channel, id AS chat_id FROM {Chat._meta.db_table} AS chat"
            " WHERE user_id = %s AND problem = '' AND"
            f" (SELECT count(*) FROM {table} AS other WHERE other.chat_id = chat.id) < %s"
        )
        values += [notice.user_id, MAX_WAITING_OF_CHAT]
    if not channels:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({columns}, channel, chat_id)"
            f" SELECT {', '.join('%s' for _ in fields)}, channel, chat_id"
            f" FROM ({' UNION ALL '.join(channels)}) AS channels",
            values,
        )
