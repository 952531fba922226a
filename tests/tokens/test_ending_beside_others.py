"""The end of an account beside whoever locks its rows at the same time, on PostgreSQL.

The turn that ends an account holds the lock of the log. In a deadlock all signals would wait until
PostgreSQL finds it, and then the turn could fail.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.db import connection
from django.test import Client
from django.utils import timezone

from desks.models import Chat, Desk, QueuedNotice, User
from desks.models.notice import NoticeKind
from events.actors import SYSTEM
from signals.notices.chats import actions
from signals.notices.chats.sending import finish, take_for_chats
from signals.notices.triggers import LASTING, follow, write_lost_keys
from signals.outbound.answers import Answer
from signals.webhooks.models import Subscription
from tests.config.accounts.test_notices import add_totp
from tests.config.test_waits import beside
from tests.factories import PASSWORD
from tests.notices import write
from tests.signals.notices.chats.stage import DISCORD, a_chat
from tests.signals.notices.test_sending import a_notice
from tests.signals.webhooks.runner.test_leases import in_own_connection
from tests.signals.webhooks.stage import an_active_webhook
from tests.staff import a_client, verified
from tokens.account_closing import close_account, deactivate
from tokens.actions import generate_secret
from tokens.choices import Source

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite locks no rows"),
]

DAY = timedelta(days=1)
NEW_NOTICE = 'INSERT INTO "desks_queuednotice"'


# --- What locks rows of an account: a statement of it in the middle, and the function -------------

Other = tuple[str, Callable[[], object]]


def taken(desk: Desk) -> QueuedNotice:
    """A notice that is being sent to a chat of the desk's owner. Another one waits."""
    a_chat(desk.user)
    for kind in (NoticeKind.SILENCE, NoticeKind.CONSENT):
        a_notice(desk.user, kind)
    [notice] = take_for_chats(timezone.now())
    return notice


def reauthenticated(user: User) -> Client:
    browser = a_client(verified(user), "password")
    browser.post("/accounts/reauthenticate/", {"password": PASSWORD})
    return browser


def post(browser: Client, path: str) -> None:
    assert browser.post(path).status_code == 302


def generate(desk: Desk) -> None:
    """Generates a secret of the desk's bot. The former one ends in five days."""
    bot = desk.automations.first()
    generate_secret(source=Source.TRADINGVIEW, automation=bot, overlap=5 * DAY, actor=SYSTEM)


def a_chat_that_took_a_notice(desk: Desk) -> Other:
    notice = taken(desk)
    deletion = 'DELETE FROM "desks_queuednotice"'
    return deletion, lambda: finish(notice, Answer(status=204), timezone.now())


def a_chat_that_is_turned_off(desk: Desk) -> Other:
    notice = taken(desk)
    return NEW_NOTICE, lambda: finish(notice, Answer(status=404), timezone.now())


def a_sender_that_takes_notices(desk: Desk) -> Other:
    a_chat(desk.user)
    a_notice(desk.user)
    return 'UPDATE "signals_chat"', lambda: take_for_chats(timezone.now())


def an_owner_who_removes_a_chat(desk: Desk) -> Other:
    chat = a_chat(desk.user)
    return NEW_NOTICE, lambda: actions.remove(chat=chat, now=timezone.now())


def an_owner_who_tests_a_chat(desk: Desk) -> Other:
    chat = a_chat(desk.user)
    return NEW_NOTICE, lambda: actions.request_test(chat=chat, now=timezone.now())


def an_owner_who_adds_a_chat(desk: Desk) -> Other:
    def add() -> None:
        actions.add(user=desk.user, url=DISCORD, now=timezone.now())

    return 'INSERT INTO "signals_chat"', add


def an_owner_who_removes_a_second_factor(desk: Desk) -> Other:
    browser = reauthenticated(desk.user)
    add_totp(browser)
    return NEW_NOTICE, lambda: post(browser, "/accounts/2fa/totp/deactivate/")


def an_owner_who_cancels_a_change_of_address(desk: Desk) -> Other:
    browser = reauthenticated(desk.user)
    EmailAddress.objects.create(user=desk.user, email="new@example.com")
    return 'DELETE FROM "account_emailaddress"', lambda: post(browser, "/accounts/email/cancel/")


def a_follower_that_replaces_notices_of_ends(desk: Desk) -> Other:
    for _ in range(2):
        write()
        generate(desk)
    return NEW_NOTICE, lambda: follow(timezone.now())


def a_writer_of_lost_keys(desk: Desk) -> Other:
    an_active_webhook(desk)
    Subscription.objects.update(key_id="gone", key_lost_at=timezone.now() - 2 * LASTING)
    return NEW_NOTICE, lambda: write_lost_keys(timezone.now())


OTHERS = [
    a_chat_that_took_a_notice,
    a_chat_that_is_turned_off,
    a_sender_that_takes_notices,
    an_owner_who_removes_a_chat,
    an_owner_who_tests_a_chat,
    an_owner_who_adds_a_chat,
    an_owner_who_removes_a_second_factor,
    an_owner_who_cancels_a_change_of_address,
    a_follower_that_replaces_notices_of_ends,
    a_writer_of_lost_keys,
]


# --- The tests ------------------------------------------------------------------------------------


@contextmanager
def paused(statement: str, reached: Event, ended: Event) -> Iterator[None]:
    """This session stops before such a statement until another waits for its locks or ends."""

    def wait(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if statement in sql and not reached.is_set():
            reached.set()
            backend = connection.connection.info.backend_pid
            with beside() as observer:
                blocked = "SELECT 1 FROM pg_locks WHERE %s = ANY(pg_blocking_pids(pid))"
                while not ended.is_set() and not observer.execute(blocked, [backend]).fetchone():
                    pass
        return execute(sql, *rest)

    with connection.execute_wrapper(wait):
        yield


def close(desk: Desk) -> None:
    assert close_account(desk)


def end(desk: Desk) -> None:
    deactivate(user=desk.user, actor=SYSTEM)


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other.__name__)
@pytest.mark.parametrize("ending", [close, end], ids=["closed", "deactivated"])
def test_neither_is_the_victim_of_a_deadlock(desk, bot, other, ending):
    statement, function = other(desk)
    reached, ended = Event(), Event()

    def lock_and_wait() -> None:
        with paused(statement, reached, ended):
            function()

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(in_own_connection, lock_and_wait)
        first.add_done_callback(lambda _: reached.set())
        reached.wait()
        assert not first.done(), first.result()
        second = threads.submit(in_own_connection, ending, desk=desk)
        second.add_done_callback(lambda _: ended.set())
        first.result()
        second.result()
    assert not User.objects.get(pk=desk.user_id).is_active
    assert not Chat.objects.exists()


def test_who_sends_to_chats_waits_for_none_that_is_locked(desk, stranger):
    locked, free = (a_chat(each.user) for each in (desk, stranger))
    for each in (desk, stranger):
        a_notice(each.user)
    with beside() as other:
        other.execute("SELECT 1 FROM signals_chat WHERE id = %s FOR UPDATE", [locked.pk])
        assert [notice.chat for notice in take_for_chats(timezone.now())] == [free]
    assert [notice.chat for notice in take_for_chats(timezone.now())] == [locked]
