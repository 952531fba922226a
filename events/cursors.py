"""Cursors: where a reader stands, as opaque text.

A cursor of the log carries its epoch, so that one from before a restore that lost events is told
apart. A cursor of a list is the last key that was shown.
"""

import base64
import binascii

from events.refusals import CursorLost, Invalid

CURSOR_FIELD = "after"


def log_cursor(epoch: str, position: int) -> str:
    """The cursor that stands on a position of the log's present epoch."""
    return _opaque(f"{epoch}.{position}")


def log_position(cursor: str, epoch: str, head: int) -> int:
    """The position that a cursor stands on.

    Raises ``Invalid`` for text that is no cursor, and ``CursorLost`` for one of another epoch or
    beyond the head.
    """
    cursor_epoch, _, position = _readable(cursor).partition(".")
    if not _is_number(position):
        raise not_a_cursor()
    if cursor_epoch != epoch or int(position) > head:
        raise CursorLost
    return int(position)


def list_cursor(key: int) -> str:
    """The cursor that stands on the last key of a page."""
    return _opaque(str(key))


def list_key(cursor: str) -> int:
    """The key that a list's cursor stands on; raises ``Invalid``."""
    key = _readable(cursor)
    if not _is_number(key):
        raise not_a_cursor()
    return int(key)


def not_a_cursor() -> Invalid:
    """The refusal of a text that no list ever gave."""
    return Invalid.field(CURSOR_FIELD, "unknown", "Send the next of an earlier answer, unchanged.")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _opaque(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _readable(cursor: str) -> str:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        raise not_a_cursor() from None
    if _opaque(text) != cursor:
        raise not_a_cursor()
    return text
