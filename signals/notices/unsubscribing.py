"""Links that turn a kind of notice off without signing in (RFC 8058)."""

from django.conf import settings
from django.core import signing
from django.urls import reverse

from desks.models import Notice
from desks.models.notice_kinds import NO_MORE, OF_A_DESK, OF_STAFF, NoticeKind

SALT = "signals.notices.unsubscribing"
CAN_BE_OFF = {**OF_A_DESK, **OF_STAFF, **NO_MORE}


def link_of(notice: Notice) -> str:
    """The link that turns the notice's kind off for its reader; empty if it cannot be off."""
    if notice.kind not in CAN_BE_OFF:
        return ""
    token = signing.dumps([notice.user_id, notice.kind], salt=SALT)
    return settings.BASE_URL + reverse("stop-notices", args=[token])


def read(token: str) -> tuple[int, NoticeKind] | None:
    """The user and the kind of a link; None if it is not ours. It does not expire."""
    try:
        user_id, kind = signing.loads(token, salt=SALT)
    except signing.BadSignature:
        return None
    return user_id, NoticeKind(kind)
