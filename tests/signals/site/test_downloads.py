"""Exports: one at a time for each desk, and a quarter of a process's threads for all of them."""

import gc
import json
import socket
import sys
import threading
import time
from datetime import timedelta

import pytest
from django.test import RequestFactory
from django.utils import timezone

from events.http.refusals import Unavailable
from signals.site import downloads
from signals.site.downloads import ExportLease
from tests import factories, pages, staff
from tests.client import signed_in

pytestmark = pytest.mark.django_db

CSV, DATA = "/activity.csv", "/accounts/data/"


@pytest.fixture
def browser(desk):
    """A browser of the desk's owner, who signed in a moment ago."""
    return staff.a_client(desk.user)


@pytest.fixture(params=[CSV, DATA])
def ask(request, browser):
    """Asks for each kind of file."""
    method = browser.get if request.param == CSV else browser.post
    return lambda: method(request.param)


def whole(answer):
    assert answer.status_code == 200, pages.words(answer)
    return b"".join(answer.streaming_content)


def assert_refused(answer, sentence):
    assert (answer.status_code, pages.problem(answer)) == (503, "unavailable")
    assert sentence in pages.words(answer)
    assert int(answer["Retry-After"]) > 0


def send(connection, answer):
    for part in answer:
        connection.sendall(part)


def leave(answer):
    """What the server does when a connection is lost, without closing that to the database."""
    for close in answer._resource_closers:
        close()


def is_free():
    """Whether every place of this process is free."""
    taken = 0
    while downloads._places.acquire(blocking=False):
        taken += 1
    for _ in range(taken):
        downloads._places.release()
    return taken == downloads.MAX_CONCURRENT


# --- One at a time --------------------------------------------------------------------------------


def test_a_desk_has_one_export_at_a_time_of_either_kind(browser, stranger, ask):
    first = ask()
    for again in (browser.get(CSV), browser.post(DATA)):
        assert_refused(again, "An export of your account is being made")
    assert whole(signed_in(stranger.user).get(CSV))
    assert whole(first)
    assert whole(browser.get(CSV))
    assert whole(browser.post(DATA))
    assert not ExportLease.objects.exists()
    assert is_free()


def test_a_client_that_leaves_ends_its_export(browser, ask):
    begun = ask()
    next(iter(begun.streaming_content))
    leave(begun)
    assert is_free()
    assert whole(browser.get(CSV))


def test_the_lease_of_a_process_that_died_ends_by_itself(desk, browser):
    dead = ExportLease.take(desk.pk)
    assert_refused(browser.get(CSV), "is being made")
    left = ExportLease.objects.get().until - timezone.now()
    assert timedelta() < left <= timedelta(minutes=1)
    ExportLease.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert whole(browser.get(CSV))
    assert not dead.renew()


def test_who_lost_the_lease_neither_goes_on_nor_ends_that_of_another(desk, browser, monkeypatch):
    monkeypatch.setattr(downloads, "RENEWED_AFTER", timedelta())
    monkeypatch.setattr(downloads, "MAX_SILENCE", 0)
    begun = browser.get(CSV)
    next(iter(begun.streaming_content))
    ExportLease.objects.update(until=timezone.now() - timedelta(seconds=1))
    other = ExportLease.take(desk.pk)
    with pytest.raises(BrokenPipeError):
        list(begun.streaming_content)
    assert ExportLease.objects.get().holder == other.holder


def test_a_lease_is_renewed_while_the_file_is_made(desk, browser, monkeypatch):
    monkeypatch.setattr(downloads, "RENEWED_AFTER", timedelta())
    monkeypatch.setattr(downloads, "MAX_SILENCE", 0)
    begun = browser.get(CSV)
    ExportLease.objects.update(until=timezone.now() + timedelta(seconds=1))
    soon = ExportLease.objects.get().until
    parts = iter(begun.streaming_content)
    next(parts)
    next(parts)
    assert ExportLease.objects.get().until > soon
    assert whole(begun)


def test_head_makes_no_file(browser):
    for _ in range(2):
        answer = browser.head(CSV)
        assert (answer.status_code, b"".join(answer.streaming_content)) == (200, b"")
    assert not ExportLease.objects.exists()


# --- A quarter of the threads ---------------------------------------------------------------------


def test_exports_have_a_quarter_of_the_threads_and_the_pages_the_rest(card, browser, settings):
    assert downloads.MAX_CONCURRENT == settings.THREADS // 4
    others = [factories.a_ready_desk(card) for _ in range(downloads.MAX_CONCURRENT)]
    begun = [signed_in(other.user).get(CSV) for other in others]
    for refused in (browser.get(CSV), browser.post(DATA)):
        assert_refused(refused, "as many exports as it can")
    assert browser.get("/activity").status_code == 200
    assert whole(begun[0])
    assert whole(browser.get(CSV))
    assert [bool(whole(each)) for each in begun[1:]] == [True] * (len(begun) - 1)
    assert is_free()


def test_an_answer_that_is_never_sent_keeps_no_place(browser):
    """For example because the session ended meanwhile, so that its middleware raises."""
    assert browser.get(CSV).status_code == 200
    gc.collect()
    assert is_free()


# --- Limits ---------------------------------------------------------------------------------------


def test_exports_are_limited_and_a_refused_one_does_not_count(browser, settings):
    settings.LIMITS = {**settings.LIMITS, "minting": "2/hour"}
    first = browser.get(CSV)
    assert browser.get(CSV).status_code == 503
    assert whole(first)
    assert whole(browser.post(DATA))
    for beyond in (browser.get(CSV), browser.post(DATA)):
        assert (beyond.status_code, pages.problem(beyond)) == (429, "rate_limited")
    assert not ExportLease.objects.exists()
    assert is_free()


# --- Parts ----------------------------------------------------------------------------------------


@pytest.fixture
def no_switches():
    """A thread goes on until it waits: the interpreter does not interrupt it for another."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(600)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.once
def test_the_statements_of_others_do_not_wait_for_an_export_that_computes(desk, no_switches):
    """Ten short waits of another thread, as for statements, end before the export has ended."""
    request = RequestFactory().get(CSV)
    pauses = 1000
    lines = (json.dumps([0] * 500).encode() for _ in range(pauses * downloads.LINES_BETWEEN_PAUSES))
    answer = downloads.download(request, desk, lines, filename="x", content_type="text/plain")
    export = threading.Thread(target=lambda: any(False for _ in answer.streaming_content))
    export.start()
    for _ in range(10):
        time.sleep(0.0002)
    is_computing = export.is_alive()
    export.join()
    leave(answer)
    assert is_computing


def test_a_client_that_takes_no_part_is_left(desk, monkeypatch):
    monkeypatch.setattr(downloads, "PART_TIMEOUT", 0.1)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        request = RequestFactory().get(CSV)
        request.META["gunicorn.socket"] = ours
        endless = iter(lambda: b"x" * downloads.PART, None)
        answer = downloads.download(request, desk, endless, filename="x", content_type="text/plain")
        with pytest.raises(TimeoutError):
            send(ours, answer)
        leave(answer)
    assert not ExportLease.objects.exists()
    assert is_free()


def test_the_process_is_asked_before_the_database(desk, django_assert_num_queries):
    request = RequestFactory().get(CSV)
    for _ in range(downloads.MAX_CONCURRENT):
        downloads._places.acquire()
    try:
        with django_assert_num_queries(0), pytest.raises(Unavailable):
            downloads.download(request, desk, [], filename="x", content_type="text/plain")
    finally:
        for _ in range(downloads.MAX_CONCURRENT):
            downloads._places.release()
