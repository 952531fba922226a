"""A mail server that hangs or fails does not block or fail requests."""

import socket
import threading
import time

import pytest
from django.core.mail import EmailMessage
from django.core.mail.backends import smtp

from config.accounts import mails

pytestmark = pytest.mark.once


def send():
    message = EmailMessage("Subject", "What it says", "from@example.com", ["to@example.com"])
    mails.send(message, "test")


class Patient(smtp.EmailBackend):
    """Waits for longer than whoever sends."""

    def __init__(self, **options):
        super().__init__(**{**options, "timeout": 60})


@pytest.fixture
def silent_server(settings):
    """A mail server that sends single bytes slowly and never completes a line."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()
    taken = []

    def serve():
        while not over.is_set():
            try:
                taken.append(listener.accept()[0])
            except OSError:
                return

    def dribble():
        while not over.wait(0.05):
            for each in taken:
                each.send(b"2")

    threads = [threading.Thread(target=serve), threading.Thread(target=dribble)]
    for thread in threads:
        thread.start()
    settings.EMAIL_BACKEND = f"{__name__}.Patient"
    settings.EMAIL_HOST, settings.EMAIL_PORT = listener.getsockname()
    settings.EMAIL_TIMEOUT = 0.3
    yield
    over.set()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for thread in threads:
        thread.join()
    for each in taken:
        each.close()
    for _ in range(mails.MAX_CONCURRENT):  # leave no mail in progress for the next test
        assert mails._slots.acquire(timeout=60)
    for _ in range(mails.MAX_CONCURRENT):
        mails._slots.release()


def test_a_slow_server_is_waited_for_at_most_the_timeout(silent_server, caplog):
    began = time.monotonic()
    send()
    assert time.monotonic() - began >= 0.3
    assert "A mail was not sent: test (TimeoutError)." in caplog.text


def test_at_most_a_quarter_of_the_threads_waits(silent_server, settings, caplog):
    for _ in range(mails.MAX_CONCURRENT):
        send()
    settings.EMAIL_TIMEOUT = 3600
    send()
    assert f"A mail was not sent: test ({mails.MAX_CONCURRENT} others in progress)." in caplog.text


def test_a_server_that_is_down_is_logged_without_the_mail(settings, caplog):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    send()
    assert "A mail was not sent: test (ConnectionRefusedError)." in caplog.text
    assert "example.com" not in caplog.text


def test_failures_release_their_slot(settings, mailoutbox):
    settings.EMAIL_BACKEND = "nothing.that.there.is"
    for _ in range(mails.MAX_CONCURRENT + 1):
        send()
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    send()
    assert len(mailoutbox) == 1


def test_a_mail_for_which_no_thread_starts_takes_no_place(monkeypatch, caplog, mailoutbox):
    def fail(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        for _ in range(mails.MAX_CONCURRENT):
            send()
    assert "A mail was not sent: test (no thread)." in caplog.messages
    send()
    assert len(mailoutbox) == 1
