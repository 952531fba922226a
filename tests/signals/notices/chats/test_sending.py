"""Notices reach chats beside the mail: once, at a rate, and without holding each other up."""

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network

import pytest
import time_machine
from django.core.mail.backends.locmem import EmailBackend
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from desks.models import Chat, QueuedNotice
from desks.models.chat import Problem, Service
from desks.models.notice import MAIL, NoticeKind
from desks.notices import outbox
from desks.notices.outbox import write_security
from signals.notices.chats.actions import request_test
from signals.notices.chats.sending import finish, send_to_chat, send_to_chats, take_for_chats
from signals.notices.chats.telegram import add_telegram, new_code
from signals.notices.sending import LEASE
from signals.outbound.answers import Answer, Fault
from signals.outbound.guarded_client import Client
from signals.outbound.schedule import NOTICES
from tests.config.test_waits import beside, wait_for_another_to_wait
from tests.notices import elsewhere, send, table_away
from tests.signals.notices.chats.stage import MINUTE, SECOND, a_chat, heard_by, queued, send_once
from tests.signals.notices.test_sending import a_notice
from tests.signals.outbound.listeners import endpoint, reply
from tests.signals.webhooks.runner.stage import close_connections
from tests.signals.webhooks.runner.test_leases import in_own_connection

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def loopback(settings):
    settings.DELIVERY_ALLOW, settings.REQUIRE_HTTPS = [ip_network("127.0.0.0/8")], False


@pytest.fixture
def clock():
    with time_machine.travel(timezone.now(), tick=False) as traveller:
        yield traveller


@pytest.fixture
def listen():
    """Starts listeners that answer as told, until the test ends."""
    with ExitStack() as stack:
        yield lambda answer=None: stack.enter_context(endpoint(answer))


def subjects(heard):
    return [body["content"].split("**")[1] for body in heard_by(heard)]


def replies(statuses):
    """Answers with one status after the other."""

    def write(handler, request):
        reply(next(statuses))(handler, request)

    return write


class TestEachChannel:
    """A notice has a row for the mail and one for each chat, and none waits for another."""

    def test_a_notice_goes_by_mail_and_to_every_chat_of_its_reader(self, member, stranger, listen):
        first, second, other = listen(), listen(), listen()
        for user, heard in ((member, first), (member, second), (stranger.user, other)):
            a_chat(user, heard.url())
        a_notice(member)
        assert send_once() == 2
        assert [mail.subject for mail in send()] == ["Chart is silent"]
        assert subjects(first) == subjects(second) == ["Chart is silent"]
        assert other.requests == []

    @pytest.mark.parametrize("first", ["mail", "chats"])
    def test_whichever_is_first_each_is_sent_once(self, member, listen, first):
        a_chat(member, listen().url())
        a_notice(member)
        steps = [lambda: len(send()), send_once]
        done = [step() for step in (steps if first == "mail" else steps[::-1]) * 2]
        assert done == [1, 1, 0, 0]
        assert not QueuedNotice.objects.exists()

    def test_security_notices_go_to_chats_but_not_those_for_another_address(self, member):
        a_chat(member)
        a_notice(member, NoticeKind.SECURITY, "Changed")
        a_notice(member, NoticeKind.SECURITY, "Old", address="old@example.com")
        assert queued() == ["Changed"]

    def test_a_chat_that_is_off_gets_nothing(self, member):
        chat = a_chat(member)
        Chat.objects.filter(pk=chat.pk).update(problem=Problem.REFUSED)
        a_notice(member)
        assert queued() == []

    def test_a_chat_that_is_added_later_gets_nothing_of_before(self, member):
        a_notice(member)
        a_chat(member)
        assert queued() == []

    def test_while_mails_fail_chats_do_not_wait_and_who_has_no_address_gets_them(
        self, member, stranger, listen, monkeypatch
    ):
        def fails(backend, messages):
            raise OSError

        monkeypatch.setattr(EmailBackend, "send_messages", fails)
        heard = listen()
        for user in (member, stranger.user):  # the stranger's address is not verified
            a_chat(user, heard.url())
            a_notice(user)
        assert send() == []
        assert send_once() == 2
        assert QueuedNotice.objects.get().user == member

    def test_no_more_than_a_bounded_number_waits_for_a_chat(self, member, monkeypatch):
        monkeypatch.setattr(outbox, "MAX_WAITING_OF_CHAT", 3)
        a_chat(member)
        for _ in range(5):
            a_notice(member)
        assert len(queued()) == 3
        assert QueuedNotice.objects.filter(channel=MAIL).count() == 5

    def test_a_security_notice_is_two_statements_however_many_chats_there_are(self, member):
        """It is written under the lock of the log."""
        for _ in range(3):
            a_chat(member)
        with transaction.atomic(), CaptureQueriesContext(connection) as queries:
            write_security(member.pk, "Changed", "It was.", at=timezone.now())
        assert len(queries) == 2
        assert len(queued()) == 3

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite locks no rows")
    def test_a_security_notice_does_not_wait_for_the_lock_of_a_chat(self, member):
        chat = a_chat(member)

        @contextmanager
        def locked():
            with transaction.atomic():
                yield Chat.objects.select_for_update().get(pk=chat.pk)

        with elsewhere(locked()):
            write_security(member.pk, "Changed", "It was.", at=timezone.now())
        assert queued(chat) == ["Changed"]

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite locks no rows")
    def test_a_code_of_telegram_is_locked_after_its_user_as_by_a_turn_that_ends_the_desk(
        self, member
    ):
        now = timezone.now()
        code = new_code(user=member, now=now)
        with ThreadPoolExecutor(1) as threads, beside() as other:
            other.execute("SELECT 1 FROM desks_user WHERE id = %s FOR UPDATE", [member.pk])
            added = threads.submit(
                in_own_connection, add_telegram, code=code, number=4_712_345_678, now=now
            )
            wait_for_another_to_wait(other)
            other.execute("DELETE FROM signals_chatcode")
            other.commit()
            assert added.result() is None

    @pytest.mark.django_db(transaction=True)
    def test_while_nothing_can_be_sent_to_chats_every_mail_is_sent(self, member, listen):
        heard = listen()
        a_chat(member, heard.url())
        a_notice(member)
        a_notice(member, NoticeKind.SECURITY, "Password changed", priority=0)
        with table_away(Chat):
            with pytest.raises(DatabaseError):
                take_for_chats(timezone.now())
            mailed = [message.subject for message in send()]
        assert mailed == ["Password changed", "Chart is silent"]
        assert send_once() == 1
        assert subjects(heard) == ["Password changed"]


class TestPace:
    def test_a_chat_gets_one_message_a_second_security_first(self, member, listen, clock):
        heard = listen()
        a_chat(member, heard.url())
        for kind, priority in (("consent", 2), ("silence", 1), ("security", 0)):
            a_notice(member, NoticeKind(kind), kind, priority=priority)
        sent = []
        for _ in range(5):
            sent.append(send_once())
            clock.shift(SECOND)
        assert sent == [1, 1, 1, 0, 0]
        assert subjects(heard) == ["security", "silence", "consent"]

    def test_a_service_gets_25_a_second_and_another_one_is_not_held_up(self, member):
        for _ in range(40):
            request_test(chat=a_chat(member), now=timezone.now())
        request_test(chat=a_chat(member, service=Service.SLACK), now=timezone.now())
        services = [notice.channel for notice in take_for_chats(timezone.now())]
        assert (services.count("discord"), services.count("slack")) == (25, 1)


class TestFailures:
    def test_it_is_tried_again_with_a_growing_pause(self, member, listen, clock, caplog):
        heard = listen(reply(500))
        chat = a_chat(member, heard.url("/secret-path"))
        a_notice(member)
        pauses = []
        for _ in range(4):
            assert send_once() == 1
            chat.refresh_from_db()
            pauses.append((chat.next_attempt_at - timezone.now()) / MINUTE)
            clock.move_to(chat.next_attempt_at)
        assert pauses == [1, 5, 30, 120]
        assert (chat.failures, chat.last_status, chat.problem) == (4, 500, "")
        assert "A notice was not sent to a chat: discord (500)." in caplog.text
        for secret in ("secret-path", str(heard.port), "127.0.0.1"):
            assert secret not in caplog.text

    def test_a_chat_that_fails_repeats_no_mail_and_holds_up_no_other_chat(
        self, member, listen, clock
    ):
        failing, working = listen(reply(500)), listen()
        a_chat(member, failing.url())
        a_chat(member, working.url())
        a_notice(member)
        send_once()
        assert len(send()) == 1
        clock.shift(MINUTE)
        send_once()
        assert (len(failing.requests), len(working.requests)) == (2, 1)
        assert send() == []

    def test_what_the_service_asks_for_is_waited(self, member, listen, clock):
        heard = listen(reply(429, Retry_After="7"))
        chat = a_chat(member, heard.url())
        a_notice(member)
        send_once()
        chat.refresh_from_db()
        assert chat.next_attempt_at == timezone.now() + 7 * SECOND
        request_test(chat=chat, now=timezone.now())
        assert send_once() == 0  # not even a test comes before that
        clock.shift(7 * SECOND)
        assert send_once() == 1

    def test_a_service_that_is_down_can_ask_for_more_and_not_for_less(self, member, listen, clock):
        chat = a_chat(member, listen(reply(503, Retry_After="600")).url())
        hasty = a_chat(member, listen(reply(503, Retry_After="1")).url())
        a_notice(member)
        send_once()
        for row, seconds in ((chat, 600), (hasty, 60)):
            row.refresh_from_db()
            assert row.next_attempt_at == timezone.now() + seconds * SECOND

    @pytest.mark.parametrize("status", [401, 403, 404, 410])
    def test_one_that_is_gone_is_off_and_its_owner_is_told_by_mail(self, member, listen, status):
        heard = listen(reply(status))
        chat = a_chat(member, heard.url())
        for _ in range(2):
            a_notice(member)
        send_once()
        chat.refresh_from_db()
        assert (chat.problem, chat.next_attempt_at) == (Problem.REFUSED, None)
        assert queued() == []
        notice = QueuedNotice.objects.get(kind=NoticeKind.ENDINGS)
        assert notice.subject == "A chat gets no more notices"
        assert f"Discord: Desk gets no more notices. It answered {status}." in notice.body
        assert send_once() == 0  # the notice itself does not go there
        assert notice.subject in [mail.subject for mail in send()]

    def test_it_is_off_after_three_days_of_failures_only(self, member, listen, clock):
        chat = a_chat(member, listen(reply(500)).url())
        start = timezone.now()
        while not chat.problem:
            if not queued(chat):
                a_notice(member)
            send_once()
            chat.refresh_from_db()
            clock.move_to(chat.next_attempt_at or timezone.now())
        assert chat.problem == Problem.FAILED
        assert NOTICES.give_up_after <= timezone.now() - start < 2 * NOTICES.give_up_after

    def test_a_test_that_arrives_turns_it_on_again_and_one_that_fails_does_not(
        self, member, listen
    ):
        statuses = iter([404, 500, 204])
        chat = a_chat(member, listen(replies(statuses)).url())
        for problem in (Problem.REFUSED, Problem.REFUSED, ""):
            request_test(chat=chat, now=timezone.now())
            assert send_once() == 1
            chat.refresh_from_db()
            assert chat.problem == problem
            assert queued(chat) == []
        assert QueuedNotice.objects.count() == 1  # told once
        assert (chat.failures, chat.last_sent_at is None) == (0, False)

    def test_a_message_that_is_not_taken_does_not_hold_up_the_next_one(self, member, listen, clock):
        heard = listen(replies(iter([400, 204])))
        a_chat(member, heard.url())
        for name in ("odd", "next"):
            a_notice(member, subject=name)
        send_once()
        clock.shift(MINUTE)
        send_once()
        assert subjects(heard) == ["odd", "next"]
        assert queued() == []

    def test_a_redirect_is_a_failure_and_not_followed(self, member, listen):
        elsewhere = listen()
        heard = listen(reply(307, Location=elsewhere.url()))
        chat = a_chat(member, heard.url())
        a_notice(member)
        send_once()
        chat.refresh_from_db()
        assert (chat.last_status, elsewhere.requests) == (307, [])

    def test_nothing_is_sent_inside_the_own_network(self, member, listen, settings):
        heard = listen()
        settings.DELIVERY_ALLOW = []
        chat = a_chat(member, heard.url())
        a_notice(member)
        send_once()
        chat.refresh_from_db()
        assert (chat.last_error, heard.connections) == (Fault.FORBIDDEN, 0)

    def test_a_host_of_ntfy_that_the_operator_removed_is_sent_nothing(
        self, member, listen, settings
    ):
        heard = listen()
        chat = a_chat(member, heard.url("/topic"), Service.NTFY)
        settings.NTFY_HOSTS = []
        request_test(chat=chat, now=timezone.now())
        send_once()
        assert heard.connections == 0
        settings.NTFY_HOSTS = [chat.host]
        request_test(chat=chat, now=timezone.now())
        send_once()
        assert [body["topic"] for body in heard_by(heard)] == ["topic"]

    def test_a_service_of_a_later_release_is_sent_nothing_and_tried_again(self, member, listen):
        heard, chat = listen(), a_chat(member)
        request_test(chat=chat, now=timezone.now())
        QueuedNotice.objects.update(channel="matrix")
        Chat.objects.update(service="matrix")
        assert send_once() == 1
        chat.refresh_from_db()
        assert (chat.failures, chat.problem, queued(chat)) == (1, "", ["A test notice"])
        assert heard.connections == 0


class TestLeases:
    def test_a_chat_is_of_one_process_until_its_lease_ends(self, member):
        request_test(chat=a_chat(member), now=timezone.now())
        now = timezone.now()
        assert len(take_for_chats(now)) == 1
        a_notice(member)
        request_test(chat=Chat.objects.get(), now=now)
        assert take_for_chats(now + LEASE - SECOND) == []
        assert len(take_for_chats(now + LEASE)) == 1

    def test_who_lost_the_lease_changes_nothing(self, member):
        chat = a_chat(member)
        request_test(chat=chat, now=timezone.now())
        now = timezone.now()
        (lost,) = take_for_chats(now)
        (held,) = take_for_chats(now + LEASE)
        finish(lost, Answer(status=410), now)
        assert (Chat.objects.get().problem, len(queued(chat))) == ("", 1)
        finish(held, Answer(status=204), now)
        assert queued(chat) == []

    def test_a_notice_that_came_meanwhile_is_not_overlooked(self, member, clock):
        request_test(chat=a_chat(member), now=timezone.now())
        now = timezone.now()
        (notice,) = take_for_chats(now)
        a_notice(member)
        finish(notice, Answer(status=204), now)
        assert [each.subject for each in take_for_chats(now + SECOND)] == ["Chart is silent"]

    def test_a_chat_that_was_removed_meanwhile_stays_removed(self, member):
        chat = a_chat(member)
        request_test(chat=chat, now=timezone.now())
        (notice,) = take_for_chats(timezone.now())
        chat.delete()
        finish(notice, Answer(status=204), timezone.now())
        assert not Chat.objects.exists()

    def test_a_notice_whose_chat_is_gone_is_deleted(self, member):
        """Another process may remove a chat between the two statements that write a notice."""
        chat = a_chat(member)
        a_notice(member)
        Chat.objects.filter(pk=chat.pk)._raw_delete(using="default")
        (notice,) = take_for_chats(timezone.now())
        answer = asyncio.run(send_to_chat(Client(), notice))
        finish(notice, answer, timezone.now())
        assert queued() == []

    def test_who_is_gone_meanwhile_is_sent_nothing_more(self, member, listen):
        heard = listen()
        chat = a_chat(member, heard.url())
        for _ in range(2):
            a_notice(member)
        type(member).objects.filter(pk=member.pk).update(is_active=False)
        send_once()
        assert (heard.requests, queued(chat)) == ([], [])


@pytest.mark.django_db(transaction=True)
@pytest.mark.processes
def test_the_service_sends_past_a_chat_that_hangs(member, listen, caplog):
    """The runner's own loop, in this process: one chat never answers, the other one gets all."""
    released = threading.Event()
    hanging = listen(lambda *_: released.wait(90))
    working = listen()
    a_chat(member, hanging.url())
    a_chat(member, working.url())
    for number in range(2):
        a_notice(member, subject=str(number))

    async def run() -> None:
        stop = asyncio.Event()
        service = asyncio.create_task(send_to_chats(stop))
        async with asyncio.timeout(60):
            while len(working.requests) < 2:
                await asyncio.sleep(0.02)
        stop.set()
        released.set()
        await service
        await close_connections()

    asyncio.run(run())
    assert subjects(working) == ["0", "1"]
    assert len(hanging.requests) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
