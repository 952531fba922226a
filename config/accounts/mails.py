"""Sends the mails of accounts. A failure never raises; a slow server blocks no thread for long."""

import logging
import threading
from concurrent.futures import Future

from django.conf import settings
from django.core.mail import EmailMessage

logger = logging.getLogger(__name__)

# The most mails that one process sends at once. A mail server that hangs blocks at most this many
# threads, each for at most EMAIL_TIMEOUT.
MAX_CONCURRENT = max(1, settings.THREADS // 4)
_slots = threading.BoundedSemaphore(MAX_CONCURRENT)


def send(message: EmailMessage, kind: str) -> None:
    """Sends a mail and waits at most ``EMAIL_TIMEOUT`` seconds for it. Raises nothing.

    A failure is logged with the mail's ``kind`` and the type of the error only: the error's text
    may contain the address or the mail.
    """
    if not _slots.acquire(blocking=False):
        logger.error("A mail was not sent: %s (%s others in progress).", kind, MAX_CONCURRENT)
        return
    sent: Future[None] = Future()
    thread = threading.Thread(target=_deliver, args=(message, sent), daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the process may start no more threads
        _slots.release()
        logger.error("A mail was not sent: %s (no thread).", kind)
        return
    try:
        sent.result(settings.EMAIL_TIMEOUT)
    except Exception as error:
        logger.error("A mail was not sent: %s (%s).", kind, type(error).__name__)


def _deliver(message: EmailMessage, sent: "Future[None]") -> None:
    try:
        message.send()
    except Exception as error:
        sent.set_exception(error)
    else:
        sent.set_result(None)
    finally:
        _slots.release()
