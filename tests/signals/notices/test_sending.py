"""Notices are sent as mails: once, at the pace, again after a failure, and with a way to stop."""

import re
import socketserver
import threading
from datetime import timedelta
from smtplib import SMTPDataError, SMTPRecipientsRefused

import pytest
import time_machine
from django.core import mail, signing
from django.core.mail.backends.locmem import EmailBackend
from django.test import Client
from django.utils import timezone

from desks.models import NoticeChoice, QueuedNotice
from desks.models.notice import LAST, MAIL, NoticeKind
from desks.notices import outbox
from events.actors import SYSTEM
from signals.notices.sending import (
    LEASE,
    MOST_ATTEMPTS,
    SALT,
    deliver_mails,
    failing_mails,
    mail_lag_seconds,
    send_mails,
    take,
)
from signals.notices.texts import new_notice
from tests.notices import send
from tests.pages import words
from tests.processes import run_together
from tokens.account_closing import deactivate

pytestmark = pytest.mark.django_db

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def a_notice(user, kind=NoticeKind.SILENCE, subject="Chart is silent", **columns) -> QueuedNotice:
    body = "It was expected.\n\nhttp://testserver/bots/bot_1?a=<b>&c"
    notice = new_notice(user, kind, subject, body, timezone.now())
    for name, value in columns.items():
        setattr(notice, name, value)
    outbox.write([notice])
    return QueuedNotice.objects.get(public_id=notice.public_id, channel=MAIL)


def test_a_notice_is_sent_once_as_text_and_html_with_a_fixed_message_id(member):
    notice = a_notice(member)
    (message,) = send()
    assert (message.to, message.subject) == ([member.email], "Chart is silent")
    assert message.extra_headers["Message-ID"] == f"<{notice.public_id}@testserver>"
    assert "It was expected." in message.body
    html, kind = message.alternatives[0]
    assert kind == "text/html"
    assert "<h1" in html
    assert "&lt;b&gt;" in html
    assert 'href="http://testserver/bots/bot_1?a=&lt;b&gt;&amp;c"' in html
    assert (send(), QueuedNotice.objects.count()) == ([], 0)


def test_a_mail_links_to_our_own_pages_only(member):
    """A browser's name or a host is chosen by whoever the notice warns of."""
    body = "Browser: https://evil.example/ http://testserver.evil.example www.evil.example <a>"
    outbox.write_security(member.pk, "New sign-in", body, at=timezone.now())
    html, _ = send()[0].alternatives[0]
    assert ("href" in html, "&lt;a&gt;" in html) == (False, True)


def test_security_comes_first_and_a_retired_card_last(member):
    for kind, priority in (("consent", 2), ("silence", 1), ("security", 0)):
        a_notice(member, NoticeKind(kind), kind, priority=priority)
    assert [message.subject for message in send()] == ["security", "silence", "consent"]


def test_a_notice_waits_for_its_time(member):
    a_notice(member, due_at=timezone.now() + MINUTE)
    assert send() == []
    with time_machine.travel(timezone.now() + MINUTE):
        assert len(send()) == 1


def test_who_has_no_verified_address_gets_security_notices_only(desk):
    a_notice(desk.user)
    a_notice(desk.user, NoticeKind.SECURITY, "A token was minted")
    assert [message.subject for message in send()] == ["A token was minted"]
    assert not QueuedNotice.objects.exists()


def test_a_deactivated_user_gets_nothing_more_and_an_address_of_its_own_is_kept(member):
    a_notice(member, NoticeKind.SECURITY)
    a_notice(member, NoticeKind.SECURITY, "Closed", address="old@example.com")
    type(member).objects.filter(pk=member.pk).update(is_active=False)
    (message,) = send()
    assert message.to == ["old@example.com"]


def test_the_lag_is_that_of_the_oldest_mail_that_is_due_but_of_those_that_come_last(member):
    assert mail_lag_seconds() == 0
    a_notice(member, due_at=timezone.now() + MINUTE)
    a_notice(member, due_at=timezone.now() - 2 * HOUR, priority=LAST)
    assert mail_lag_seconds() == 0
    a_notice(member, due_at=timezone.now() - HOUR)
    a_notice(member, due_at=timezone.now() - MINUTE)
    assert HOUR.total_seconds() <= mail_lag_seconds() < 2 * HOUR.total_seconds()


def test_a_mail_that_failed_is_counted_until_it_is_sent(member, monkeypatch):
    a_notice(member)
    assert failing_mails() == 0
    with monkeypatch.context() as patch:
        patch.setattr(EmailBackend, "send_messages", refuse)
        assert (send(), failing_mails()) == ([], 1)
    with time_machine.travel(timezone.now() + HOUR):
        assert (len(send()), failing_mails()) == (1, 0)


def refuse(backend, messages):
    raise ConnectionError


class TestPace:
    def test_no_more_notices_are_taken_than_the_pace_allows(self, member, settings):
        """All processes count by the clock of the database."""
        settings.NOTICE_RATE = "1/hour"
        for _ in range(10):
            a_notice(member)
        now = timezone.now()
        assert [len(take(MAIL, now)), len(take(MAIL, now + 24 * HOUR))] == [1, 0]

    def test_while_the_rate_is_off_all_are_taken(self, member, settings):
        settings.NOTICE_RATE = "off"
        for _ in range(10):
            a_notice(member)
        assert len(take(MAIL, timezone.now())) == 10


SMTP = "django.core.mail.backends.smtp.EmailBackend"


class MailServer(socketserver.ThreadingTCPServer):
    """Takes mails. After the answer to a mail whose subject is in ``answers``, it hangs up."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Conversation)
        self.taken: list[str] = []
        self.answers: dict[str, str] = {}


class Conversation(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self.say("220 Good morning")
        while line := self.rfile.readline():
            if line.strip().upper() == b"DATA":
                self.say("354 Go on")
                mail = b"".join(iter(self.rfile.readline, b".\r\n")).decode()
                (subject,) = re.findall(r"^Subject: (\w+)", mail, re.M)
                if subject in self.server.answers:
                    self.say(self.server.answers[subject])
                    return
                self.server.taken.append(subject)
            self.say("250 Yes")

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode() if text else b"")


@pytest.fixture
def mail_server(settings):
    with MailServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings.EMAIL_BACKEND = SMTP
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address
        yield server
        server.shutdown()


def attempts() -> list[int]:
    return sorted(QueuedNotice.objects.values_list("attempts", flat=True))


class TestFailures:
    @pytest.fixture
    def down(self, monkeypatch):
        """A mail server that fails until the list is emptied."""
        errors = [OSError("550 trader@example.com refused")]

        def fails(backend, messages):
            if errors:
                raise errors[0]
            mail.outbox.extend(messages)
            return len(messages)

        monkeypatch.setattr(EmailBackend, "send_messages", fails)
        return errors

    def test_it_is_tried_again_later_with_the_same_message_id(self, member, down, caplog):
        notice = a_notice(member)
        assert send() == []
        assert "A notice was not sent: silence (OSError). It is tried later." in caplog.text
        assert "example.com" not in caplog.text
        down.clear()
        assert send() == []
        with time_machine.travel(timezone.now() + 10 * MINUTE):
            (message,) = send()
        assert notice.public_id in message.extra_headers["Message-ID"]

    def test_of_a_batch_that_reaches_no_server_one_mail_uses_up_an_attempt(self, member, settings):
        settings.EMAIL_BACKEND = SMTP
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
        for _ in range(5):
            a_notice(member)
        send()
        assert attempts() == [1, 1, 1, 1, 2]
        assert not QueuedNotice.objects.due(MAIL, timezone.now()).exists()
        settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
        with time_machine.travel(timezone.now() + LEASE):
            assert len(send()) == 5

    def test_mails_that_are_refused_hold_up_no_other_however_slowly(self, member, monkeypatch):
        with time_machine.travel(timezone.now(), tick=False) as clock:

            def answers(backend, messages):
                clock.shift(8)
                if messages[0].subject == "Refused":
                    raise SMTPDataError(550, b"No")
                return 1

            monkeypatch.setattr(EmailBackend, "send_messages", answers)
            for subject in (*["Refused"] * 4, "Sent"):
                a_notice(member, subject=subject)
            deliver_mails(take(MAIL, timezone.now()))
        assert attempts() == [2, 2, 2, 2]

    def test_a_server_that_hangs_at_each_mail_holds_a_batch_for_two(
        self, member, monkeypatch, settings
    ):
        for _ in range(5):
            a_notice(member)
        with time_machine.travel(timezone.now(), tick=False) as clock:

            def hangs(backend, messages):
                clock.shift(settings.EMAIL_TIMEOUT)
                raise TimeoutError

            monkeypatch.setattr(EmailBackend, "send_messages", hangs)
            deliver_mails(take(MAIL, timezone.now()))
        assert attempts() == [1, 1, 1, 2, 2]

    @pytest.mark.parametrize("answer", ["", "421 Try again later", "554 Not this one"])
    def test_a_mail_at_which_the_server_hangs_up_holds_up_no_other(
        self, member, mail_server, answer
    ):
        subjects = ["before", "it", "after", "last"]
        _, it, *_ = [a_notice(member, subject=subject) for subject in subjects]
        mail_server.answers["it"] = answer
        send_mails(timezone.now())
        assert mail_server.taken == ["before", "after", "last"]
        left = QueuedNotice.objects.get()
        assert (left.public_id, left.attempts) == (it.public_id, 2)

    @pytest.mark.parametrize(
        "error",
        [SMTPRecipientsRefused({"trader@example.com": (550, b"unknown")}), SMTPDataError(554, b"")],
    )
    def test_a_mail_that_is_refused_holds_up_no_other(self, member, monkeypatch, error):
        refused = a_notice(member)
        others = {a_notice(member).public_id for _ in range(3)}

        def refuse_one(backend, messages):
            if any(refused.public_id in one.extra_headers["Message-ID"] for one in messages):
                raise error
            mail.outbox.extend(messages)

        monkeypatch.setattr(EmailBackend, "send_messages", refuse_one)
        assert len(send()) == len(others)
        assert QueuedNotice.objects.get().public_id == refused.public_id

    def test_it_is_given_up_after_three_days(self, member, down):
        a_notice(member)
        start = timezone.now()
        with time_machine.travel(start, tick=False) as clock:
            while QueuedNotice.objects.exists():
                send()
                clock.shift(HOUR)
            assert timedelta(days=2) < timezone.now() - start < timedelta(days=4)

    def test_a_mail_that_is_repeated_is_the_same_mail(self, member, monkeypatch):
        """The first is sent, and its process learns of no success."""
        repeated = []

        def fails_at_first(backend, messages):
            repeated.extend(messages)
            if len(repeated) == 1:
                raise TimeoutError

        monkeypatch.setattr(EmailBackend, "send_messages", fails_at_first)
        a_notice(member)
        send()
        with time_machine.travel(timezone.now() + 10 * MINUTE):
            send()
        first, second = repeated
        assert first.extra_headers == second.extra_headers
        assert (first.subject, first.body, first.alternatives) == (
            second.subject,
            second.body,
            second.alternatives,
        )

    def test_processes_that_die_before_they_try_use_up_no_attempt(self, member, down, settings):
        settings.NOTICE_RATE = "off"
        a_notice(member)
        with time_machine.travel(timezone.now(), tick=False) as clock:
            for _ in range(50):
                assert len(take(MAIL, timezone.now())) == 1
                clock.shift(LEASE)
            for pause in (MINUTE, 5 * MINUTE):  # those after the first attempt and the second
                send()
                assert QueuedNotice.objects.get().due_at == timezone.now() + pause
                clock.shift(pause)
            down.clear()
            assert len(send()) == 1

    def test_a_notice_that_ends_each_process_is_given_up_and_holds_up_no_other(
        self, member, monkeypatch, settings
    ):
        settings.NOTICE_RATE = "off"
        deadly, other = a_notice(member), a_notice(member)

        class Killed(BaseException):
            pass

        def dies(backend, messages):
            if deadly.public_id in messages[0].extra_headers["Message-ID"]:
                raise Killed
            mail.outbox.extend(messages)

        monkeypatch.setattr(EmailBackend, "send_messages", dies)
        deaths = 0
        with time_machine.travel(timezone.now(), tick=False) as clock:
            while QueuedNotice.objects.filter(pk=deadly.pk).exists():
                try:
                    send()
                except Killed:
                    deaths += 1
                clock.shift(LEASE)
        assert deaths == MOST_ATTEMPTS
        assert not QueuedNotice.objects.filter(pk=other.pk).exists()
        assert any(other.public_id in one.extra_headers["Message-ID"] for one in mail.outbox)


def test_what_a_process_took_and_did_not_send_is_taken_again_after_its_lease(member, settings):
    settings.NOTICE_RATE = "off"
    a_notice(member)
    now, lease = timezone.now(), LEASE
    assert len(take(MAIL, now)) == 1
    assert take(MAIL, now + lease - SECOND) == []
    assert len(take(MAIL, now + lease)) == 1


@pytest.mark.parametrize("lost", ["deleted", "taken again"])
def test_a_mail_whose_row_a_process_has_lost_is_not_sent(member, lost):
    a_notice(member)
    now = timezone.now()
    taken = take(MAIL, now)
    assert len(taken) == 1
    if lost == "deleted":
        QueuedNotice.objects.all().delete()
    else:
        assert len(take(MAIL, now + LEASE)) == 1
    deliver_mails(taken)
    assert mail.outbox == []


@pytest.mark.parametrize("attempts", [1, MOST_ATTEMPTS])
def test_a_mail_that_fails_after_its_lease_is_left_to_the_process_that_has_it(
    member, monkeypatch, attempts
):
    a_notice(member)
    QueuedNotice.objects.update(attempts=attempts)
    now = timezone.now()
    taken = take(MAIL, now)

    def takes_too_long(backend, messages):
        assert len(take(MAIL, now + LEASE)) == 1
        raise OSError

    monkeypatch.setattr(EmailBackend, "send_messages", takes_too_long)
    deliver_mails(taken)
    assert QueuedNotice.objects.get().due_at == now + 2 * LEASE


class TestUnsubscribing:
    @pytest.fixture
    def link(self, member):
        """The link of a mail, as its program finds it."""
        a_notice(member)
        (message,) = send()
        assert message.extra_headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        link = message.extra_headers["List-Unsubscribe"].strip("<>")
        assert link in message.body
        assert link in message.alternatives[0][0]
        return link.removeprefix("http://testserver")

    def test_one_click_turns_the_kind_off_without_cookie_or_session(self, member, link):
        program = Client(enforce_csrf_checks=True)
        body = {"List-Unsubscribe": "One-Click"}
        for _ in range(2):
            assert program.post(link, body).status_code == 200
        assert NoticeChoice.objects.get().off == ["silence"]
        assert not program.cookies

    def test_a_link_with_a_time_from_an_earlier_release_works(self, member, link):
        dated = signing.dumps([member.pk, "silence"], salt=SALT)
        assert Client().post(f"/notices/stop/{dated}").status_code == 200
        assert NoticeChoice.objects.get().off == ["silence"]

    def test_a_link_of_an_account_that_ended_stores_nothing(self, member, link):
        deactivate(user=member, actor=SYSTEM)
        assert Client().post(link).status_code == 200
        assert not NoticeChoice.objects.exists()

    def test_a_digest_that_waited_at_the_upgrade_is_sent_and_its_link_works(self, member):
        a_notice(member, NoticeKind.DIGEST, "Daily digest: 1 filled, 0 refused")
        (message,) = send()
        link = message.extra_headers["List-Unsubscribe"].strip("<>")
        assert Client().post(link.removeprefix("http://testserver")).status_code == 200

    def test_opening_the_link_only_asks(self, link):
        page = Client().get(link)
        assert "Turn these notices off?" in words(page)
        assert not NoticeChoice.objects.exists()

    @pytest.mark.parametrize("forged", ["x", "WzEsInNpbGVuY2UiXQ:1abcde:x", "%00"])
    def test_a_forged_link_changes_nothing(self, link, forged):
        answer = Client().post(f"/notices/stop/{forged}")
        assert answer.status_code in (400, 404)
        assert not NoticeChoice.objects.exists()

    def test_a_link_for_a_kind_of_a_later_release_is_not_found(self, member):
        later = signing.dumps([member.pk, "weather"], salt=SALT)
        for ask in (Client().get, Client().post):
            assert ask(f"/notices/stop/{later}").status_code == 404

    def test_a_security_notice_has_no_such_link(self, member):
        a_notice(member, NoticeKind.SECURITY)
        (message,) = send()
        assert "List-Unsubscribe" not in message.extra_headers
        assert "/stop/" not in message.body


def take_all(number: int) -> list[str]:
    """The notices that a process takes, while it sends none."""
    taken = []
    while notices := take(MAIL, timezone.now()):
        taken += [notice.public_id for notice in notices]
    return taken


@pytest.mark.django_db(transaction=True)
@pytest.mark.processes
def test_processes_that_take_at_once_never_take_the_same(member):
    made = {a_notice(member).public_id for _ in range(100)}
    taken = run_together(take_all, [(number,) for number in range(4)])
    found = [one for each in taken for one in each]
    assert len(found) == len(set(found))
    while rest := take(MAIL, timezone.now()):
        found += [notice.public_id for notice in rest]
    assert (
        set(found) | {n.public_id for n in QueuedNotice.objects.due(MAIL, timezone.now())} == made
    )
