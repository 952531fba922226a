"""Telegram: the link with a code, the bot that reads it, and the notices in that chat."""

import asyncio
import json
import logging
from ipaddress import ip_network

import pytest
import time_machine
from django.utils import timezone

from desks.models import QueuedNotice
from desks.models.chat import MAX_CHATS, Chat, ChatCode, Problem
from signals.notices.chats import services, telegram
from signals.notices.chats.actions import request_test
from signals.notices.chats.telegram import (
    CODE_LIFETIME,
    POLL_LEASE,
    add_telegram,
    lease_updates,
    new_code,
    poll_once,
    release_updates,
    save_updates,
)
from signals.notices.models import TelegramReader
from signals.outbound.guarded_client import Client
from tests import pages
from tests.notices import send
from tests.signals.notices.chats.stage import SECOND, a_chat, heard_by, send_once
from tests.signals.outbound.listeners import endpoint, reply
from tests.signals.webhooks.runner.stage import close_connections
from tests.staff import LONG_AGO, a_client
from tokens.account_closing import close_account
from tokens.models.secret import decrypt

pytestmark = [pytest.mark.django_db, pytest.mark.once]

TOKEN = "123456:tokentokentokentokentokentokentoken"
NUMBER = 4_712_345_678
NEW = "/notices/chats/new/telegram"


@pytest.fixture(autouse=True)
def bot(settings):
    settings.TELEGRAM_BOT, settings.TELEGRAM_BOT_TOKEN = "SignalsBot", TOKEN
    settings.DELIVERY_ALLOW, settings.REQUIRE_HTTPS = [ip_network("127.0.0.0/8")], False


@pytest.fixture
def answers():
    """The answers of Telegram, in order; each a status and a body. The last one is repeated."""
    return [(200, {"ok": True, "result": []})]


@pytest.fixture
def api(monkeypatch, answers):
    """Telegram, on loopback."""

    def answer(handler, request):
        status, body = answers.pop(0) if len(answers) > 1 else answers[0]
        reply(status, json.dumps(body).encode())(handler, request)

    with endpoint(answer) as heard:
        monkeypatch.setattr(services, "API", heard.url("").rstrip("/"))
        yield heard


def update(number, text, chat=NUMBER, kind="private"):
    """An update as Telegram sends it."""
    message = {"message_id": 1, "chat": {"id": chat, "type": kind}, "date": 1, "text": text}
    return {"update_id": number, "message": message}


def result(*updates):
    return 200, {"ok": True, "result": list(updates)}


def link(browser):
    page = browser.post(NEW)
    (found,) = pages.copied(page)
    return found


def code_of(member):
    return new_code(user=member, now=timezone.now())


def add(code, number=NUMBER):
    return add_telegram(code=code, number=number, now=timezone.now())


class TestTheLink:
    def test_it_opens_the_bot_with_a_code_of_which_only_a_digest_is_kept(self, member):
        found = link(a_client(member, "password"))
        base, _, code = found.partition("?start=")
        assert base == "https://t.me/SignalsBot"
        assert len(code) <= 64
        assert code.isalnum()
        row = ChatCode.objects.get()
        assert code not in str(vars(row))
        assert row.expires_at <= timezone.now() + CODE_LIFETIME

    def test_it_is_offered_with_a_bot_only(self, member, settings):
        browser = a_client(member, "password")
        assert "@SignalsBot" in pages.words(browser.get("/notices/chats/new"))
        settings.TELEGRAM_BOT = settings.TELEGRAM_BOT_TOKEN = ""
        assert "Telegram" not in pages.words(browser.get("/notices/chats/new"))
        assert browser.post(NEW).status_code == 404
        assert not ChatCode.objects.exists()

    def test_it_needs_a_recent_sign_in(self, member):
        late = a_client(member, "password", seconds_ago=LONG_AGO)
        asked = "/accounts/reauthenticate/?next=/notices/chats/new"
        assert late.post(NEW)["Location"] == asked
        assert not ChatCode.objects.exists()


class TestTheCode:
    def test_it_adds_the_chat_once_and_the_owner_is_told(self, member):
        code = code_of(member)
        chat = add(code)
        assert (chat.user, decrypt(chat), chat.label) == (
            member,
            str(NUMBER),
            "Telegram (@SignalsBot)",
        )
        assert str(NUMBER) not in str(vars(chat))
        assert [mail.subject for mail in send()] == ["A chat was added to your notices"]
        assert QueuedNotice.objects.get(channel="telegram").chat == chat
        assert add(code, NUMBER + 1) is None
        assert Chat.objects.count() == 1

    def test_it_expires(self, member):
        code = code_of(member)
        with time_machine.travel(timezone.now() + CODE_LIFETIME + SECOND):
            assert add(code) is None
        assert not Chat.objects.exists()

    def test_a_new_one_replaces_the_last_one(self, member):
        old, new = code_of(member), code_of(member)
        assert add(old) is None
        assert add(new).user == member

    def test_it_adds_to_the_notices_of_who_asked_for_it(self, member, stranger):
        code_of(member)
        assert add(code_of(stranger.user)).user == stranger.user
        assert not Chat.objects.filter(user=member).exists()

    @pytest.mark.parametrize("code", ["", "x", "0" * 32])
    def test_a_made_up_one_adds_nothing(self, member, code):
        code_of(member)
        assert add(code) is None
        assert ChatCode.objects.count() == 1

    def test_it_adds_no_more_than_the_others_allow_and_no_chat_twice(self, member):
        assert add(code_of(member)) is not None
        assert add(code_of(member)) is None
        for _ in range(MAX_CHATS - 1):
            a_chat(member)
        assert add(code_of(member), NUMBER + 1) is None
        assert Chat.objects.count() == MAX_CHATS

    @pytest.mark.django_db(transaction=True)
    def test_it_ends_with_the_account(self, desk):
        code = code_of(desk.user)
        close_account(desk)
        assert add(code) is None
        assert not ChatCode.objects.exists()


class TestReading:
    def test_only_a_start_with_a_code_in_a_private_chat_counts(self):
        found = telegram.read_updates(
            json.dumps(
                {
                    "result": [
                        update(7, "/start abc"),
                        update(8, "/start def", kind="group"),
                        update(9, "/start"),
                        update(10, "hello /start ghi"),
                        update(11, "/start two words"),
                        update(12, f"/start {'x' * 65}"),
                        {"update_id": 13, "edited_message": {"text": "/start jkl"}},
                        {"update_id": 14, "message": {"text": "/start mno"}},
                        {"update_id": 15, "message": None},
                        update(16, "/start pqr", chat="name"),
                    ]
                }
            ).encode()
        )
        assert found == telegram.Updates(16, [telegram.Started("abc", NUMBER)])

    @pytest.mark.parametrize(
        "body",
        [b"", b"<html>", b"[]", b"{}", b'{"result": [1]}', b'{"result": [{}]}', b'{"result": 1}'],
    )
    def test_what_is_no_answer_is_none(self, body):
        assert telegram.read_updates(body) is None


def test_the_lease_is_of_one_process_until_it_ends_or_is_released():
    now = timezone.now()
    assert lease_updates("one", now) == 0
    assert lease_updates("two", now + POLL_LEASE - SECOND) is None
    assert lease_updates("one", now + POLL_LEASE - SECOND) == 0
    assert lease_updates("two", now + 2 * POLL_LEASE) == 0
    release_updates("one")
    assert lease_updates("one", now + 2 * POLL_LEASE) is None
    release_updates("two")
    assert lease_updates("one", now + 2 * POLL_LEASE) == 0


def test_who_lost_the_lease_saves_nothing(member):
    code = code_of(member)
    lease_updates("one", timezone.now() - 2 * POLL_LEASE)
    lease_updates("two", timezone.now())
    save_updates("one", telegram.Updates(9, [telegram.Started(code, NUMBER)]), timezone.now())
    assert (TelegramReader.objects.get().next_update, Chat.objects.count()) == (0, 0)


@pytest.mark.django_db(transaction=True)
class TestPolling:
    def poll(self, times):
        async def run():
            client = Client()
            found = [await poll_once(client, "me", wait=0) for _ in range(times)]
            await close_connections()
            return found

        return asyncio.run(run())

    def test_a_pressed_link_becomes_a_chat_and_each_update_is_read_once(self, desk, api, answers):
        code = code_of(desk.user)
        answers.insert(0, result(update(41, "hi"), update(42, f"/start {code}")))
        assert self.poll(2) == [True, True]
        assert decrypt(Chat.objects.get()) == str(NUMBER)
        assert [request.path for request in api.requests] == [f"/bot{TOKEN}/getUpdates"] * 2
        assert [body["offset"] for body in heard_by(api)] == [0, 43]
        assert heard_by(api)[0]["allowed_updates"] == ["message"]

    def test_a_long_message_does_not_stop_it(self, desk, api, answers):
        answers.insert(0, result(*(update(n, "\u2603" * 4096) for n in range(50, 55))))
        assert self.poll(1) == [True]
        assert TelegramReader.objects.get().next_update == 55

    def test_a_failure_is_logged_without_the_token_and_loses_nothing(
        self, desk, api, answers, caplog
    ):
        caplog.set_level(logging.DEBUG)
        code = code_of(desk.user)
        answers[:0] = [
            (409, {"ok": False}),
            (200, {"ok": False}),
            result(update(7, f"/start {code}")),
        ]
        assert self.poll(3) == [False, False, True]
        assert Chat.objects.exists()
        assert "Telegram's updates were not read (409)." in caplog.text
        for secret in (TOKEN, code, str(NUMBER)):
            assert secret not in caplog.text

    def test_while_another_process_polls_it_asks_nothing(self, desk, api):
        lease_updates("other", timezone.now())
        assert self.poll(1) == [False]
        assert api.requests == []

    def test_the_service_ends_when_it_is_told_to_and_gives_up_its_lease(self, desk, api):
        async def run():
            stop = asyncio.Event()
            service = asyncio.create_task(telegram.poll_telegram(stop))
            async with asyncio.timeout(60):
                while not api.requests:
                    await asyncio.sleep(0.01)
            stop.set()
            await service
            await close_connections()

        asyncio.run(run())
        assert TelegramReader.objects.get().until is None


class TestMessages:
    @pytest.fixture
    def chat(self, member):
        chat = add(code_of(member))
        QueuedNotice.objects.all().delete()
        request_test(chat=chat, now=timezone.now())
        return chat

    def test_it_is_plain_text_without_a_preview(self, chat, api):
        assert send_once() == 1
        (request,) = api.requests
        assert request.path == f"/bot{TOKEN}/sendMessage"
        assert json.loads(request.body) == {
            "chat_id": NUMBER,
            "text": "A test notice\n\nYou asked for this test. Notices reach this chat.\n\n"
            "http://testserver/notices",
            "link_preview_options": {"is_disabled": True},
        }

    def test_the_pause_that_it_asks_for_in_the_body_is_waited(self, chat, api, answers):
        answers[0] = (429, {"ok": False, "parameters": {"retry_after": 35}})
        with time_machine.travel(timezone.now() + SECOND, tick=False):
            send_once()
            chat.refresh_from_db()
            assert chat.next_attempt_at - timezone.now() == 35 * SECOND

    @pytest.mark.parametrize(("status", "problem"), [(403, Problem.REFUSED), (401, ""), (404, "")])
    def test_a_user_who_blocked_the_bot_is_off_and_a_wrong_token_turns_nobody_off(
        self, chat, api, answers, status, problem
    ):
        answers[0] = (status, {"ok": False, "description": "Forbidden"})
        send_once()
        chat.refresh_from_db()
        assert chat.problem == problem

    def test_without_the_bot_nothing_is_sent(self, chat, api, settings):
        settings.TELEGRAM_BOT = settings.TELEGRAM_BOT_TOKEN = ""
        send_once()
        assert api.requests == []
        assert Chat.objects.get().failures == 1

    def test_neither_the_token_nor_the_number_is_logged(self, chat, api, answers, caplog):
        caplog.set_level(logging.DEBUG)
        answers[0] = (500, {})
        send_once()
        assert "A notice was not sent to a chat: telegram (500)." in caplog.text
        assert TOKEN not in caplog.text
        assert str(NUMBER) not in caplog.text
