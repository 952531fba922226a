"""Cursors: a reader's position in a list, as opaque text.

A cursor is valid for one list only. A cursor of the log contains the log's epoch, so that a cursor
from before a restore is detected. It also contains a digest of the event at its position, so that a
cursor of an event that the database has lost is detected. The digest is keyed, because the reader
may not see that event. A cursor of position 0, where no event is, has none, and neither has a
cursor of an earlier release. A cursor of any other list contains the last key of the page, and that
of a scan also the position of the log at which the scan began, with its digest.
"""

import base64
import binascii
import functools
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings
from django.db.models import Model, QuerySet
from django.utils.crypto import salted_hmac

from events.http.refusals import CursorLost, FieldCode, Invalid

if TYPE_CHECKING:  # the bench makes cursors without the apps
    from events.models import Identity

CURSOR_FIELD = "after"
LOG = "events"

# What keys and positions are, unless a list has ids: a number that the database can hold.
NUMBER = "[0-9]{1,18}"

KEY_ID_LENGTH = 4
DIGEST_BYTES = 8
DIGEST = f"[0-9a-f]{{{KEY_ID_LENGTH + 2 * DIGEST_BYTES}}}"

EventAt = Callable[[int], "Identity | None"]  # finds the event at a position
Row = TypeVar("Row")
ModelRow = TypeVar("ModelRow", bound=Model)


def log_cursor(epoch: str, position: int, event: "Identity | None" = None) -> str:
    """The cursor of a position in the log, with the digest of the event there.

    ``event`` None: no event is there.
    """
    return _cursor(LOG, epoch, [position], event)


def log_position(cursor: str, epoch: str, head: int, event_at: EventAt) -> int:
    """The position of a cursor of the log.

    ``event_at`` is called if the cursor has a digest.

    Raises ``Invalid`` if the text is not a cursor of the log, and ``CursorLost`` if its epoch is
    not ``epoch``, its position is beyond ``head``, or its digest is of another event.
    """
    (position,) = _numbers(cursor, LOG, 1, epoch, head, event_at)
    return position


def place_of(cursor: str) -> tuple[str, int]:
    """The epoch and the position of a cursor of the log. Raises ``Invalid`` if the text is none."""
    epoch, (position,), _ = _parts(cursor, LOG, 1)
    return epoch, position


def scan_cursor(
    name: str, epoch: str, start: int, key: int, event: "Identity | None" = None
) -> str:
    """The cursor of the list ``name`` after ``key``, in a scan that began at ``start``.

    A list that changes while it is read is scanned: every page says what it is complete up to.
    ``event`` is the one at ``start``, whose digest the cursor has. None: no event is there.
    """
    return _cursor(name, epoch, [start, key], event)


def scan_place(cursor: str, name: str, epoch: str, head: int, event_at: EventAt) -> tuple[int, int]:
    """The start and the key of a cursor of a scan. Raises as ``log_position``."""
    start, key = _numbers(cursor, name, 2, epoch, head, event_at)
    return start, key


def list_cursor(name: str, key: int | str) -> str:
    """The cursor of the list ``name`` after ``key``, the last key of a page."""
    return _encode(name, str(key))


def list_key(cursor: str, name: str, form: str = NUMBER) -> str:
    """The key of a cursor of the list ``name``. Raises ``Invalid`` for any other text."""
    key = _decode(cursor, name)
    if not re.fullmatch(form, key):
        raise invalid_cursor()
    return key


def list_page(
    rows: QuerySet[ModelRow],
    params: Mapping[str, Any],
    name: str,
    form: str = NUMBER,
    *,
    newest_first: bool = False,
) -> tuple[Sequence[ModelRow], str | None]:
    """A page of the list ``name``, and the cursor of the next one; None at the end of the list.

    ``rows`` are in the order of their primary keys, which have this form, or the other way round if
    ``newest_first``. ``params`` are the values of ``PageParameters``. Raises ``Invalid`` for a
    cursor of another list.
    """
    if "after" in params:
        key = list_key(params["after"], name, form)
        rows = rows.filter(**{"pk__lt" if newest_first else "pk__gt": key})
    limit = params["limit"]
    return page_of(list(rows[: limit + 1]), limit, lambda row: list_cursor(name, row.pk))


def page_of(
    rows: Sequence[Row], limit: int, cursor: Callable[[Row], str]
) -> tuple[Sequence[Row], str | None]:
    """The first ``limit`` rows, and the cursor of the next page; None at the end of the list.

    ``rows`` are the rows of the page and, if there is one, the row after it. ``cursor`` makes the
    cursor of the page after a row.
    """
    page = rows[:limit]
    return page, cursor(page[-1]) if len(rows) > limit else None


def invalid_cursor() -> Invalid:
    """The refusal of text that is not a cursor of this list."""
    detail = "Send the value of next from an earlier response of this list, unchanged."
    return Invalid.field(CURSOR_FIELD, FieldCode.CURSOR, detail)


def _digest(epoch: str, event: "Identity", secret_key: str) -> str:
    """The id of the key, and the digest of an event of this epoch under it."""
    key_id, key = _cursor_key(secret_key)
    text = "\n".join([epoch, *map(str, event)])
    return key_id + hashlib.blake2b(text.encode(), key=key, digest_size=DIGEST_BYTES).hexdigest()


def _is_of(digest: str, epoch: str, event: "Identity | None") -> bool:
    """Whether a digest is of this event. It is also if its key is not configured any more."""
    secret_keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    keys = [key for key in secret_keys if digest.startswith(_cursor_key(key)[0])]
    expected = [_digest(epoch, event, key) for key in keys] if event else []
    return not keys or any(hmac.compare_digest(digest, one) for one in expected)


@functools.cache
def _cursor_key(secret_key: str) -> tuple[str, bytes]:
    """The key of the digests that is derived from a key of the service, and its id."""
    key = salted_hmac("events.http.cursors", "", secret_key, algorithm="sha256").digest()
    return hashlib.sha256(b"key id" + key).hexdigest()[:KEY_ID_LENGTH], key


def _cursor(name: str, epoch: str, numbers: Sequence[int], event: "Identity | None") -> str:
    """The cursor of the list ``name`` with these numbers. The first is a position of the log."""
    digest = [_digest(epoch, event, settings.SECRET_KEY)] if event else []
    return _encode(name, ".".join([epoch, *map(str, numbers), *digest]))


def _numbers(
    cursor: str, name: str, count: int, epoch: str, head: int, event_at: EventAt
) -> list[int]:
    """The numbers in a cursor that ``_cursor`` has made. Raises as ``log_position``."""
    cursor_epoch, numbers, digest = _parts(cursor, name, count)
    if cursor_epoch != epoch or numbers[0] > head:
        raise CursorLost
    if digest and not _is_of(digest, epoch, event_at(numbers[0])):
        raise CursorLost
    return numbers


def _parts(cursor: str, name: str, count: int) -> tuple[str, list[int], str]:
    """The epoch, the numbers, and the digest in a cursor; the digest is empty if it has none."""
    epoch, *numbers = _decode(cursor, name).split(".")
    digest = numbers.pop() if numbers and re.fullmatch(DIGEST, numbers[-1]) else ""
    if len(numbers) != count or not all(re.fullmatch(NUMBER, number) for number in numbers):
        raise invalid_cursor()
    return epoch, [int(number) for number in numbers], digest


def _encode(name: str, value: str) -> str:
    return base64.urlsafe_b64encode(f"{name}:{value}".encode()).decode().rstrip("=")


def _decode(cursor: str, name: str) -> str:
    """The value in a cursor of the list ``name``."""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        raise invalid_cursor() from None
    value = text.rpartition(":")[2]
    if _encode(name, value) != cursor:
        raise invalid_cursor()
    return value
