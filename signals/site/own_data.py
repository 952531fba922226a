"""A customer's own data as one ZIP file of JSON and CSV, written while it is sent.

Nothing is held in memory but one page of events and one chunk of the file. No secret, token,
digest or session key is in it: only what the pages and the API show to the owner.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar
from zipfile import ZIP_DEFLATED, ZipFile

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.db.models import Model, QuerySet

from desks.models import Automation, Desk, Election
from desks.models.chat import Chat
from desks.visibility import desk_visibility
from events.feed import Page, Query, Visibility, read_head, read_page, serialize_event
from events.times import to_rfc3339
from signals.webhooks.models import Subscription
from signals.webhooks.records import record_of
from tokens.models import SigningSecret, Token

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PAGE_SIZE = 200
CHUNK = 64 * 1024  # bytes

Row = Mapping[str, object]
AnyRow = TypeVar("AnyRow", bound=Model)
Rows = Callable[[], Iterable[Row]]


def export(desk: Desk) -> Iterator[bytes]:
    """The ZIP file, in chunks: one after each row, and most are empty.

    Events up to the head at the beginning are in it.
    """
    outbox = _Outbox()
    with ZipFile(outbox, "w", ZIP_DEFLATED) as archive:
        for name, rows in _tables(desk, read_head().position).items():
            for ending, write in (("json", _json), ("csv", _csv)):
                with archive.open(f"{name}.{ending}", "w", force_zip64=True) as member:
                    for text in write(rows()):
                        member.write(text.encode())
                        yield outbox.take() if outbox.size >= CHUNK else b""
    yield outbox.take()


class _Outbox(io.RawIOBase):
    """A file that cannot seek. What is written waits until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0

    def write(self, data: "ReadableBuffer") -> int:
        part = bytes(data)
        self._parts.append(part)
        self.size += len(part)
        return len(part)

    def take(self) -> bytes:
        taken, self._parts, self.size = b"".join(self._parts), [], 0
        return taken


def _json(rows: Iterable[Row]) -> Iterator[str]:
    """A JSON array, one row a line."""
    separator = "[\n"
    for row in rows:
        yield separator + json.dumps(row, ensure_ascii=False)
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"


def _csv(rows: Iterable[Row]) -> Iterator[str]:
    """CSV with a header."""
    for number, row in enumerate(rows):
        if number == 0:
            yield csv_line(row)
        yield csv_line(row.values())


def csv_line(values: Iterable[object]) -> str:
    """A line of CSV. What is nested is JSON. No cell holds a formula."""
    line = io.StringIO()
    csv.writer(line).writerow([safe_cell(value) for value in values])
    return line.getvalue()


# A formula begins with one of these. The second line has the full-width and small forms.
_SIGNS = (
    r"=+\-@\t\r\n"
    r"\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212"
)
# It begins at the beginning of a cell, or after what separates cells in some locale: a spreadsheet
# that expects semicolons reads one cell as several.
_FORMULA = re.compile(rf"""(^|[,;|\t\r\n])([\s"']*)(?=[{_SIGNS}])""")


def safe_cell(value: object) -> str:
    """The text of a cell of CSV, marked with an apostrophe where a formula would begin."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
    return "" if text is None else _FORMULA.sub(r"\1'\2", str(text))


def _tables(desk: Desk, head: int) -> dict[str, Rows]:
    elections = Election.objects.filter(desk=desk).select_related("card")
    webhooks = Subscription.objects.of_owner(desk)
    return {
        "account": lambda: [_account(desk)],
        "second_factors": lambda: map(_factor, Authenticator.objects.filter(user=desk.user_id)),
        "sessions": lambda: map(_session, _paged(UserSession.objects.filter(user=desk.user_id))),
        "bots": lambda: map(_bot, _paged(Automation.objects.filter(desk=desk))),
        "elections": lambda: map(_election, _paged(elections)),
        "tokens": lambda: (row.as_event_data() for row in _paged(Token.objects.filter(desk=desk))),
        "secrets": lambda: (
            row.as_event_data() for row in _paged(SigningSecret.objects.of_desk(desk))
        ),
        "webhooks": lambda: [record_of(webhook) for webhook in webhooks.all()],
        "chats": lambda: (chat.as_record() for chat in Chat.objects.filter(user=desk.user_id)),
        "events": lambda: _events(desk, head),
    }


def _paged(rows: QuerySet[AnyRow]) -> Iterator[AnyRow]:
    """The rows in the order of their keys. No cursor of the database stays open between pages."""
    ordered = rows.order_by("pk")
    page = list(ordered[:PAGE_SIZE])
    while page:
        yield from page
        page = list(ordered.filter(pk__gt=page[-1].pk)[:PAGE_SIZE])


def _account(desk: Desk) -> Row:
    user, connection = desk.user, getattr(desk, "connection", None)
    return {
        "userId": desk.public_id,
        "email": user.email,
        "addresses": list(EmailAddress.objects.filter(user=user).values("email", "verified")),
        "joinedAt": to_rfc3339(user.date_joined),
        "lastSignInAt": to_rfc3339(user.last_login),
        "timeZone": user.time_zone,
        "theme": user.theme,
        "venue": connection and connection.venue,
        "connectedAt": connection and to_rfc3339(connection.connected_at),
    }


def _factor(factor: Authenticator) -> Row:
    """The kind of a second factor, and its times. Never its seed, codes or key."""
    return {
        "type": str(factor.Type(factor.type).label),
        "createdAt": to_rfc3339(factor.created_at),
        "lastUsedAt": to_rfc3339(factor.last_used_at),
    }


def _session(session: UserSession) -> Row:
    return {
        "address": session.ip,
        "browser": session.user_agent,
        "signedInAt": to_rfc3339(session.created_at),
    }


def _bot(bot: Automation) -> Row:
    return {
        **bot.as_change_data(),
        "createdAt": to_rfc3339(bot.created_at),
        "removedAt": to_rfc3339(bot.removed_at),
    }


def _election(election: Election) -> Row:
    return {
        "pair": election.pair,
        "direction": election.direction,
        "card": election.card and election.card.name,
        "botId": election.automation_id,
        "electedAt": to_rfc3339(election.elected_at),
        "opened": election.opened,
        "closed": election.closed,
        "reason": election.reason,
    }


def _events(desk: Desk, head: int) -> Iterator[Row]:
    """The desk's view of the log, oldest first, as its token reads it."""
    for page in all_pages(Query(last=head, limit=PAGE_SIZE), desk_visibility(desk)):
        for event in page.events:
            yield serialize_event(event, platform=False)


def all_pages(query: Query, visibility: Visibility) -> Iterator[Page]:
    """Every page of the query, each read when it is asked for."""
    more = True
    while more:
        page = read_page(query, visibility)
        yield page
        query, more = replace(query, after=page.examined), page.more
