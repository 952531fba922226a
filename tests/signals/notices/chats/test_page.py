"""The chats on the page of notices: adding, testing and removing one, and who may."""

import logging

import pytest
from django.test import Client
from django.utils import timezone

from desks.models import QueuedNotice
from desks.models.chat import MAX_CHATS, Chat, Service
from desks.models.notice import MAIL
from events.http.refusals import NotAllowed
from signals.notices.chats.actions import add, request_test
from signals.notices.chats.sending import finish, take_for_chats
from signals.outbound.answers import Answer, Fault
from signals.site.own_data import export
from tests import pages
from tests.factories import a_staff_user
from tests.notices import send
from tests.signals.notices.chats.stage import DISCORD, NTFY, SLACK, a_chat, queued, send_once
from tests.staff import LONG_AGO, a_client
from tokens.account_closing import close_account, deactivate
from tokens.crypto.keys import KeyLostError
from tokens.models.secret import decrypt

pytestmark = [pytest.mark.django_db, pytest.mark.once]

NOTICES, NEW = "/notices", "/notices/chats/new"
SECRETS = ("1234567890123456789", "KLMNOP")


@pytest.fixture
def visitor(member) -> Client:
    return a_client(member, "password")


def at(chat: Chat, act: str) -> str:
    return f"{NOTICES}/chats/{chat.public_id}/{act}"


def answered(chat: Chat, **answer) -> None:
    """A test that the chat answered like this."""
    Chat.objects.filter(pk=chat.pk).update(next_attempt_at=None)
    request_test(chat=chat, now=timezone.now())
    (notice,) = take_for_chats(timezone.now())
    finish(notice, Answer(**answer), timezone.now())
    QueuedNotice.objects.all().delete()


class TestAdding:
    def test_the_address_is_encrypted_and_never_shown_again(self, visitor, member, caplog):
        caplog.set_level(logging.DEBUG)
        page = visitor.post(NEW, {"url": f" {DISCORD} ", "name": "Desk"}, follow=True)
        assert page.redirect_chain == [(NOTICES, 302)]
        assert "Discord: Desk is added. A first notice is on its way to it." in pages.words(page)
        chat = Chat.objects.get()
        assert (chat.user, chat.service, chat.host) == (member, "discord", "discord.com")
        assert decrypt(chat) == DISCORD
        everything = f"{vars(chat)} {pages.source(page)} {caplog.text} {export(member.desk)}"
        assert not [secret for secret in SECRETS if secret in everything]
        assert "Discord: Desk new nothing sent yet" in pages.words(page)

    def test_a_copied_ciphertext_is_of_no_use_in_another_row(self, visitor, stranger):
        visitor.post(NEW, {"url": DISCORD})
        other = a_chat(stranger.user, SLACK)
        own = Chat.objects.exclude(pk=other.pk).get()
        other.ciphertext = own.ciphertext
        with pytest.raises(KeyLostError):
            decrypt(other)

    def test_the_owner_is_told_by_mail_and_in_the_chat(self, visitor):
        visitor.post(NEW, {"url": SLACK})
        (mail,) = send()
        assert mail.subject == "A chat was added to your notices"
        assert "Slack (hooks.slack.com) gets your notices from now on." in mail.body
        assert "B0001" not in mail.body
        assert queued() == [mail.subject]

    @pytest.mark.parametrize(
        ("url", "error"),
        [
            ("https://evil.example/api/webhooks/1/x", "Enter the address of a Discord webhook or"),
            ("https://discord.com/channels/1", "This is not an address of a Discord webhook."),
            ("http://hooks.slack.com/services/T1/B1/abcdefgh", "must begin with https://"),
            (NTFY, "Enter the address of a Discord webhook or a Slack incoming webhook."),
            ("", "Enter the address."),
        ],
    )
    def test_another_address_is_refused_beside_the_field(self, visitor, url, error, settings):
        settings.DELIVERY_ALLOW = []
        page = visitor.post(NEW, {"url": url})
        assert page.status_code == 422
        assert error in pages.errors(page)[0]
        assert not Chat.objects.exists()

    def test_ntfy_is_offered_where_the_operator_chose_hosts(self, visitor, settings):
        assert "ntfy" not in pages.words(visitor.get(NEW))
        settings.NTFY_HOSTS = ["ntfy.sh"]
        assert "https://ntfy.sh/topic" in pages.words(visitor.get(NEW))
        assert visitor.post(NEW, {"url": NTFY}).status_code == 302

    def test_the_same_chat_is_added_once(self, visitor):
        for status in (302, 422):
            assert visitor.post(NEW, {"url": DISCORD}).status_code == status
        assert Chat.objects.count() == 1

    def test_a_user_has_a_bounded_number(self, visitor):
        for number in range(MAX_CHATS):
            assert visitor.post(NEW, {"url": f"{DISCORD}{number}"}).status_code == 302
        assert "Add a chat" not in pages.words(visitor.get(NOTICES))
        page = visitor.post(NEW, {"url": DISCORD})
        assert "You have 5 chats" in pages.words(page)
        assert Chat.objects.count() == MAX_CHATS

    def test_a_name_that_turns_the_text_around_is_refused(self, visitor):
        assert visitor.post(NEW, {"url": DISCORD, "name": "a\u202eb"}).status_code == 422


class TestAccess:
    def test_adding_and_removing_need_a_recent_sign_in(self, member):
        chat = a_chat(member)
        late = a_client(member, "password", seconds_ago=LONG_AGO)
        for path in (NEW, at(chat, "remove")):
            for answer in (late.get(path), late.post(path, {"url": SLACK})):
                assert answer["Location"] == f"/accounts/reauthenticate/?next={path}"
        assert Chat.objects.get() == chat

    def test_nobody_reaches_the_chat_of_another_user(self, visitor, stranger):
        chat = a_chat(stranger.user)
        assert visitor.get(at(chat, "remove")).status_code == 404
        assert visitor.post(at(chat, "remove")).status_code == 404
        assert Chat.objects.get() == chat
        assert queued() == []
        assert chat.public_id not in pages.source(visitor.get(NOTICES))

    def test_staff_have_chats_too_and_need_their_second_factor(self, settings):
        settings.REQUIRE_STAFF_MFA = True
        user = a_staff_user()
        assert a_client(user, "password").post(NEW, {"url": SLACK}).status_code == 403
        assert a_client(user).post(NEW, {"url": SLACK}).status_code == 302
        assert Chat.objects.get().user == user


class TestTheList:
    def test_a_test_is_queued_and_one_waits_at_most(self, visitor, member):
        chat = a_chat(member)
        for _ in range(2):
            page = visitor.post(f"{NOTICES}/test", follow=True)
        assert "The test is on its way." in pages.words(page)
        assert queued(chat) == ["A test notice"]
        assert QueuedNotice.objects.filter(channel=MAIL).count() == 1

    def test_each_state_says_what_to_do(self, visitor, member):
        chat = a_chat(member)
        for answer, said in (
            ({"status": 204}, "on last sent"),
            ({"error": Fault.DNS}, "failing The name of the host was not found. Next attempt"),
            ({"status": 404}, "off It answered 404. The chat is gone"),
        ):
            answered(chat, **answer)
            assert said in pages.words(visitor.get(NOTICES))
        assert "Remove it and add it anew." in pages.words(visitor.get(NOTICES))

    def test_removing_asks_first_deletes_what_waits_and_is_told(self, visitor, member):
        chat = a_chat(member)
        request_test(chat=chat, now=timezone.now())
        assert "Remove Discord: Desk?" in pages.words(visitor.get(at(chat, "remove")))
        assert Chat.objects.exists()
        page = visitor.post(at(chat, "remove"), follow=True)
        assert "Discord: Desk is removed." in pages.words(page)
        assert not Chat.objects.exists()
        assert queued() == []
        assert [mail.subject for mail in send()] == ["A chat was removed from your notices"]


class TestTheirEnd:
    @pytest.mark.django_db(transaction=True)
    def test_they_end_with_the_account(self, desk, stranger):
        a_chat(desk.user)
        kept = a_chat(stranger.user)
        close_account(desk)
        assert list(Chat.objects.all()) == [kept]

    @pytest.mark.django_db(transaction=True)
    def test_they_end_when_staff_deactivate_the_user(self, desk):
        a_chat(desk.user)
        deactivate(user=desk.user, actor=desk.actor)
        assert not Chat.objects.exists()

    @pytest.mark.django_db(transaction=True)
    def test_one_that_is_added_while_the_account_ends_is_refused(self, desk):
        deactivate(user=desk.user, actor=desk.actor)
        with pytest.raises(NotAllowed):
            add(user=desk.user, url=DISCORD, now=timezone.now())
        assert not Chat.objects.exists()


def says_that_nothing_was_sent(visitor: Client) -> bool:
    page = pages.words(visitor.get(NOTICES))
    assert Fault.FORBIDDEN.label not in page
    return "Desk failing Nothing was sent: we did not send to this host, or could not" in page


def test_a_chat_whose_host_was_not_offered_says_so_also_when_the_host_is_back(
    visitor, member, settings
):
    chat, settings.NTFY_HOSTS = a_chat(member, NTFY, Service.NTFY), []
    request_test(chat=chat, now=timezone.now())
    send_once()
    assert says_that_nothing_was_sent(visitor)
    settings.NTFY_HOSTS = [chat.host]
    assert says_that_nothing_was_sent(visitor)


def test_a_chat_whose_key_was_lost_says_so_also_when_the_key_is_back(visitor, member):
    chat = a_chat(member)
    request_test(chat=chat, now=timezone.now())
    Chat.objects.update(key_id="00000000")
    send_once()
    assert says_that_nothing_was_sent(visitor)
    Chat.objects.update(key_id=chat.key_id)
    assert says_that_nothing_was_sent(visitor)


def test_a_chat_of_a_later_release_is_shown(visitor, member):
    a_chat(member)
    Chat.objects.update(service="matrix", failures=1, last_error="no room")
    assert "matrix: Desk failing" in pages.words(visitor.get(NOTICES))
