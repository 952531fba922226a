"""While the database or the cache is down, requests get 503 and reveal nothing."""

import ctypes
import socket
import struct
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection
from django.test import Client

from desks.models import Desk
from events.models import Head
from tests import patience, staff
from tests.client import DESKS, HOOK, get, push, signed_in
from tests.factories import PASSWORD, UserFactory, a_platform_token
from tests.pages import problem, words
from tests.signals.bodies import fanout

pytestmark = pytest.mark.django_db

NOBODY = "redis://127.0.0.1:1/0"
LOGIN = "/accounts/login/"


@contextmanager
def away(of=""):
    """The database fails for every statement that contains this text."""

    def refuse(execute, sql, params, many, context):
        if of in sql:
            raise OperationalError("server closed the connection unexpectedly")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(refuse):
        yield


def test_a_page_asks_to_come_again():
    browser = signed_in(UserFactory.create())
    with away():
        answer = browser.get("/desk/enrol")
    assert (answer.status_code, problem(answer)) == (503, "unavailable")
    assert answer["Retry-After"] == "1"
    said = words(answer)
    assert "The database is not available. If you sent a form, look whether it took effect" in said
    assert "Try again in less than a minute." in said
    assert "nonce" not in said


def test_a_page_promises_no_time_while_only_an_operator_can_end_it(desk):
    browser = signed_in(desk.user)
    Head.objects.update(halted=True)
    answer = browser.post("/desk/connect", {"venue": "Kraken", "trade_only": "on"})
    assert (answer.status_code, problem(answer)) == (503, "unavailable")
    said = words(answer)
    assert "Nothing is recorded until an operator allows it again. Trying again does not" in said
    assert "Try again in" not in said


def test_so_it_does_when_only_the_session_cannot_be_saved(desk):
    """The framework would say that it was the sender's fault: 400."""
    browser = signed_in(desk.user)
    with away('UPDATE "django_session"'):
        answer = browser.post("/desk/withdraw")
    assert (answer.status_code, problem(answer)) == (503, "unavailable")


SO_ATTACH_FILTER = 26  # of Linux
NOTHING_PASSES = struct.pack("HBBI", 0x06, 0, 0, 0)  # one instruction of a packet filter: drop


def swallow(descriptor):
    """From now on nothing that is sent to this socket arrives, not even that something did."""
    program = ctypes.create_string_buffer(NOTHING_PASSES)
    with socket.socket(fileno=descriptor) as line:
        filtered = struct.pack("HL", 1, ctypes.addressof(program))
        line.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filtered)
        line.detach()


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no network")
def test_a_network_that_swallows_everything_is_noticed(monkeypatch):
    """Only this limit is the service's own: a busy machine takes longer to connect."""
    token = a_platform_token()
    limit = "tcp_user_timeout"
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], limit, patience._options[limit])
    connection.close()
    connection.ensure_connection()
    swallow(connection.connection.pgconn.socket)
    answer = get(DESKS, token)
    connection.close()
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


def test_without_the_cache_signing_in_asks_to_come_again(settings, caplog):
    user = UserFactory.create()
    settings.CACHES = {"default": settings_of_cache(NOBODY)}
    login = {"login": user.email, "password": PASSWORD}
    answer = Client(raise_request_exception=False).post(LOGIN, login)
    assert (answer.status_code, problem(answer)) == (503, "unavailable")
    assert answer["Retry-After"] == "1"
    assert "A request waited in vain for: cache " in caplog.text


def test_without_the_cache_a_session_goes_on_and_consent_can_be_withdrawn(settings, desk):
    settings.CACHES = {"default": settings_of_cache(NOBODY)}
    browser = staff.a_client(desk.user, "password", seconds_ago=400)
    assert browser.get("/desk").status_code == 200
    assert browser.post("/desk/withdraw").status_code == 302
    assert Desk.objects.get().enrolled is None


def settings_of_cache(url):
    return {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": url}


def test_what_is_told_of_it_names_no_path(caplog):
    """A path may hold a credential."""
    token = a_platform_token()
    with away():
        get(f"{DESKS}/usr_hidden", token)
        push(fanout(), token)
    assert "A request waited in vain for: database " in caplog.text
    assert "hidden" not in caplog.text
    assert HOOK not in caplog.text
