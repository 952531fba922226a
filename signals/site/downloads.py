"""Files of a desk's data, which the web server makes while it sends them (contract, section 7).

A desk has one at a time, in whichever process, and a process gives them a quarter of its threads,
as it does to mails. nginx takes the file as fast as it is made, however slowly its client reads.
"""

import errno
import secrets
import socket
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.http import HttpRequest, StreamingHttpResponse

from desks.models import Desk
from events.http import rate_limits
from events.http.refusals import Unavailable
from events.unavailable_reasons import Wait, give_way
from events.writer_queue import DATABASE_ERRORS

LEASE = timedelta(seconds=60)


class ExportLease(models.Model):
    """The lease of the process that makes a file of this desk's data.

    It ends by itself, by the database's clock, so that a process that was killed holds up its desk
    for a minute at most. A process that goes on renews it. No transaction stays open meanwhile.
    """

    desk = models.OneToOneField("desks.Desk", models.CASCADE, primary_key=True, related_name="+")
    holder = models.CharField(max_length=32)
    until = models.DateTimeField()

    objects = models.Manager["ExportLease"]()

    def __str__(self) -> str:
        return f"export of {self.desk_id}"

    @classmethod
    def take(cls, desk_id: int) -> Self | None:
        """Takes the lease of this desk. None if another process holds it."""
        lease = cls(desk_id=desk_id, holder=secrets.token_hex(16))
        ended = cls.objects.filter(desk_id=desk_id, until__lte=Now())
        if not ended.update(holder=lease.holder, until=Now() + LEASE):
            lease.until = Now() + LEASE  # the database's time
            cls.objects.bulk_create([lease], ignore_conflicts=True)
        return lease if lease._own().exists() else None

    def renew(self) -> bool:
        """Whether the lease was still this one's."""
        return bool(self._own().update(until=Now() + LEASE))

    def end(self) -> None:
        self._own().delete()

    def _own(self) -> models.QuerySet["ExportLease"]:
        return ExportLease.objects.filter(desk_id=self.desk_id, holder=self.holder)


# The files that one process makes at once.
MAX_CONCURRENT = max(1, settings.THREADS // 4)
_places = threading.BoundedSemaphore(MAX_CONCURRENT)

PART = 256 * 1024  # bytes that are sent together
PART_TIMEOUT = 20  # seconds that a client has to take them
MAX_SILENCE = 5  # seconds after which a smaller part is sent
RENEWED_AFTER = LEASE / 3

LINES_BETWEEN_PAUSES = 5

RETRY_AFTER = 10  # seconds
IS_RUNNING = (
    "An export of your account is being made, and each account has one at a time. Wait until it "
    "has ended, then try again."
)
NO_PLACE = (
    "The service makes as many exports as it can at the same time. Wait a few seconds, then try "
    "again."
)


def download(
    request: HttpRequest, desk: Desk, parts: Iterable[bytes], *, filename: str, content_type: str
) -> StreamingHttpResponse:
    """The response with a file that consists of these parts, and is made while it is sent.

    Raises ``Unavailable`` if the desk has another one, or the process no place for one more, and
    ``RateLimited``. To HEAD the file is empty and counts for nothing.
    """
    body = iter(()) if request.method == "HEAD" else _Body(request, desk, parts)
    response = StreamingHttpResponse(body, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{filename}"'
    return response


class _Body:
    """The bytes of a file, as the server asks for them.

    From the beginning to ``close`` it holds a place of the process and the desk's lease. The place
    is free again also if nobody asks for a byte, and nobody closes it.
    """

    def __init__(self, request: HttpRequest, desk: Desk, parts: Iterable[bytes]) -> None:
        self._lease: ExportLease | None = None
        if not _places.acquire(blocking=False):
            raise Unavailable(Wait.DOWNLOADS, NO_PLACE, RETRY_AFTER)
        self._leave = weakref.finalize(self, _places.release)
        try:
            self._lease = ExportLease.take(desk.pk)
            if self._lease is None:
                raise Unavailable(Wait.DOWNLOADS, IS_RUNNING, RETRY_AFTER)
            rate_limits.consume("minting", str(desk.user_id))
        except BaseException:
            self.close()
            raise
        self._socket: socket.socket | None = request.META.get("gunicorn.socket")
        self._bytes = self._make(parts, self._lease)

    def __iter__(self) -> Iterator[bytes]:
        return self._bytes

    def close(self) -> None:
        """Frees place and lease, however the file ended."""
        self._leave()
        lease, self._lease = self._lease, None
        if lease is not None:
            with suppress(*DATABASE_ERRORS):  # it ends by itself
                lease.end()

    def _make(self, parts: Iterable[bytes], lease: ExportLease) -> Iterator[bytes]:
        """Larger parts, each of which the client has to take in time. A given part is a line."""
        if self._socket is not None:
            self._socket.settimeout(PART_TIMEOUT)  # of all of a part, not of each byte
        waiting: list[bytes] = []
        size, sent = 0, 0.0
        renewed = time.monotonic()
        for part in give_way(parts, LINES_BETWEEN_PAUSES):
            now = time.monotonic()
            if timedelta(seconds=now - renewed) >= RENEWED_AFTER:
                renewed = now
                if not lease.renew():
                    raise BrokenPipeError(errno.EPIPE, "The lease of an export is another's.")
            waiting.append(part)
            size += len(part)
            if size >= PART or (size and now - sent >= MAX_SILENCE):
                yield b"".join(waiting)
                waiting, size, sent = [], 0, time.monotonic()
        yield b"".join(waiting)
