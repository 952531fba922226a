"""Erases the texts of signing secrets that have ended (contract, section 2). Their rows stay.

The log tells of a secret, and whether the Floor secret may sign for Nox depends on whether a Nox
secret was ever generated. A secret has ended if its ``ends_at`` is not after the log's time
(``Head.at``). No later turn has an earlier time, so none can accept or change such a secret. That
is why erasing needs no turn: it never locks a row that a turn waits for.
"""

import logging

from django.db import Error

from desks.models import Desk
from events.models import Head
from tokens.models import SigningSecret
from tokens.models.secret import SigningSecretQuerySet

MAX_ERASED = 500

logger = logging.getLogger(__name__)


def erase_ended() -> bool:
    """Erases a batch of texts. Returns whether there may be more."""
    ended = _ended_secrets()
    batch = list(ended.order_by("ends_at").values_list("pk", flat=True)[:MAX_ERASED])
    ended.filter(pk__in=batch).erase()
    return len(batch) == MAX_ERASED


def erase_secrets_of(desk: Desk) -> None:
    """Erases the texts of a closed desk, in one statement. What fails is left to the runner."""
    try:
        _ended_secrets().filter(automation__desk=desk).erase()
    except Error:
        logger.warning("The secrets of %s are not erased yet: the runner does it.", desk.public_id)


def _ended_secrets() -> SigningSecretQuerySet:
    """The secrets that have ended by the log's time, and whose text is still there."""
    return SigningSecret.objects.with_text().filter(ends_at__lte=Head.objects.get().at)
