"""What no event of a desk tells: the platform's webhook is disabled; a webhook's key is lost."""

import secrets
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network

import pytest
from django.utils import timezone

from desks.models import QueuedNotice
from desks.models.notice import NoticeKind
from signals.notices.triggers import LASTING, write_lost_keys
from signals.webhooks import actions
from signals.webhooks.models import DisabledReason, Subscription
from signals.webhooks.runner.delivery import finish, lease
from tests import pages
from tests.factories import a_bot, a_connected_desk, a_desk, a_staff_user
from tests.notices import mails_in, waiting, write
from tests.pages import words
from tests.signals.outbound.listeners import endpoint
from tests.signals.webhooks.runner.stage import runners, subscribe, until
from tests.signals.webhooks.stage import URL, a_failing_webhook, an_active_webhook, secrets_of
from tests.staff import a_client, verified
from tokens.crypto.keys import KeyLostError

pytestmark = pytest.mark.django_db

LOST = "we cannot decrypt the URL or the secret of this webhook"
NEEDED = "The webhook to hooks.example.com needs its URL and a new secret"


@pytest.fixture(autouse=True)
def begun(db):
    """Notices of what happens from now on: the first look tells nothing of before."""
    write()


def lose_the_key(settings):
    settings.SECRET_KEYS = [secrets.token_bytes(32)]


def look(webhook, after=timedelta(0)):
    """What a runner and the trigger do with a row that cannot be decrypted, after this time."""
    Subscription.objects.update(leased_until=None, next_attempt_at=None, failures=0)
    [leased], _ = lease([webhook.pk])
    assert leased.secrets == []
    finish([leased])
    write_lost_keys(timezone.now() + after)
    webhook.refresh_from_db()
    return leased


class TestThePlatformsWebhook:
    @pytest.fixture
    def staff(self, db):
        return a_staff_user()

    def disable(self, webhook):
        assert actions.disable(webhook=webhook, reason=DisabledReason.FAILED)
        write()
        write()

    def test_staff_are_told_once_that_it_is_disabled(self, staff):
        other, webhook = a_staff_user("other@example.com"), an_active_webhook()
        self.disable(webhook)
        notices = QueuedNotice.objects.filter(subject__contains="webhook")
        assert {notice.user for notice in notices} == {staff, other}
        assert notices.count() == 2
        notice = notices.first()
        assert notice.subject == "The platform's webhook to hooks.example.com is disabled"
        assert "every attempt failed for 75 hours" in notice.body
        path = notice.body.split()[-1].removeprefix("http://testserver")
        assert "hooks.example.com" in words(a_client(staff).get(path))

    def test_a_removed_one_leads_to_the_list(self, staff):
        webhook = an_active_webhook()
        assert actions.disable(webhook=webhook, reason=DisabledReason.GONE)
        webhook.delete()
        write()
        assert waiting() == ["The platform's webhook is disabled"]
        assert QueuedNotice.objects.get().body.endswith("/control/signals/subscription/")

    def test_staff_are_not_told_of_a_desks(self, staff):
        desk = a_desk()
        self.disable(an_active_webhook(desk))
        assert [notice.user for notice in QueuedNotice.objects.all()] == [desk.user]


class TestALostKey:
    def test_it_is_told_to_the_owner_once_when_it_lasts(self, settings):
        desk = a_desk()
        webhook = an_active_webhook(desk)
        lose_the_key(settings)
        for after in (0, 10, 59):
            look(webhook, timedelta(minutes=after))
        assert waiting() == []
        for _ in range(2):
            look(webhook, LASTING)
        notice = QueuedNotice.objects.get()
        assert (notice.user, notice.subject) == (desk.user, NEEDED)
        assert notice.body.endswith(f"/webhooks/{webhook.public_id}")

    def test_the_platforms_is_told_to_staff(self, settings):
        staff, webhook = a_staff_user(), an_active_webhook()
        lose_the_key(settings)
        look(webhook)
        look(webhook, LASTING)
        notice = QueuedNotice.objects.get(kind=NoticeKind.OPERATIONS)
        assert (notice.user, notice.subject) == (staff, NEEDED)
        path = notice.body.split()[-1].removeprefix("http://testserver")
        assert LOST in words(a_client(staff).get(path))

    def test_a_key_that_is_back_is_noted_and_a_later_loss_is_told_anew(self, settings):
        webhook, keys = an_active_webhook(a_desk()), settings.SECRET_KEYS
        for _ in range(2):
            lose_the_key(settings)
            look(webhook)
            leased = look(webhook, LASTING)
            settings.SECRET_KEYS = keys
            finish([replace(leased, secrets=["found again"])])
            webhook.refresh_from_db()
            assert (webhook.key_lost_at, webhook.key_loss_told_at) == (None, None)
        assert waiting() == [NEEDED] * 2

    def test_a_runner_whose_lease_is_over_changes_nothing(self, settings):
        webhook = an_active_webhook(a_desk())
        lose_the_key(settings)
        old = look(webhook)
        lost_at = webhook.key_lost_at
        look(webhook)
        finish([replace(old, secrets=["found again"])])
        webhook.refresh_from_db()
        assert webhook.key_lost_at == lost_at
        Subscription.objects.update(key_lost_at=None)
        finish([old])
        webhook.refresh_from_db()
        assert webhook.key_lost_at is None

    def test_a_key_that_is_back_before_the_runner_looks_again_is_not_told_as_lost(self, settings):
        webhook, keys = an_active_webhook(a_desk()), settings.SECRET_KEYS
        lose_the_key(settings)
        look(webhook)
        settings.SECRET_KEYS = keys
        write_lost_keys(timezone.now() + LASTING)
        assert waiting() == []

    def test_the_page_says_what_to_do_and_doing_it_mends_the_webhook(self, settings):
        desk = a_desk()
        webhook = a_failing_webhook(desk)
        lose_the_key(settings)
        look(webhook)
        browser = a_client(desk.user, "password")
        page = f"/webhooks/{webhook.public_id}"
        shown = words(browser.get(page))
        assert LOST in shown
        assert "It cannot be decrypted any more." in shown
        assert browser.post(f"{page}/change", {"url": URL}).status_code == 302
        form = {"overlap": "0", "one_time_key": _key_of(browser.get(f"{page}/secret"))}
        assert "secret" in pages.source(browser.post(f"{page}/secret", form))
        webhook.refresh_from_db()
        assert (webhook.decrypt(), webhook.state) == (URL, "unverified")
        assert len(secrets_of(webhook)) == 1
        assert webhook.next_attempt_at <= timezone.now()

    def test_replacing_the_secret_alone_is_not_enough_and_makes_a_runner_look(self, settings):
        desk = a_desk()
        webhook = an_active_webhook(desk)
        lose_the_key(settings)
        look(webhook)
        browser = a_client(desk.user, "password")
        page = f"/webhooks/{webhook.public_id}/secret"
        browser.post(page, {"overlap": "0", "one_time_key": _key_of(browser.get(page))})
        webhook.refresh_from_db()
        assert webhook.next_attempt_at <= timezone.now()
        with pytest.raises(KeyLostError):
            webhook.decrypt()


def _key_of(response):
    return pages.source(response).partition('one_time_key" value="')[2].partition('"')[0]


@pytest.mark.django_db(transaction=True)
@pytest.mark.processes
@pytest.mark.once
def test_a_runner_without_the_key_says_so_once_and_one_with_it_goes_on(tmp_path, settings):
    settings.DELIVERY_ALLOW = [ip_network("127.0.0.0/8")]
    desk = a_connected_desk()
    with endpoint() as found:
        _, row = subscribe(found.url(), desk)
        a_bot(desk)
        verified(desk.user)
        for folder in ("without", "with", "mails"):
            (tmp_path / folder).mkdir()
        address = f"filemail:///{tmp_path / 'mails'}"

        def noted():
            row.refresh_from_db()
            return row.key_lost_at

        def told():
            subjects = [mail["Subject"] for mail in mails_in(tmp_path / "mails")]
            return [subject for subject in subjects if "needs its URL" in subject]

        with runners(tmp_path / "without", SECRET_KEYS=secrets.token_hex(32), EMAIL_URL=address):
            until(noted)
            ended = {"leased_until": None, "next_attempt_at": timezone.now()}
            until(lambda: Subscription.objects.filter(leased_until=None).update(**ended))
            long_ago = timezone.now() - LASTING
            Subscription.objects.update(key_lost_at=long_ago)
            until(lambda: told() and not waiting())
        assert found.requests == []
        Subscription.objects.update(leased_until=None, next_attempt_at=timezone.now())
        with runners(tmp_path / "with", EMAIL_URL=address):
            until(lambda: found.requests)
            until(lambda: noted() is None)
    assert (len(told()), waiting()) == (1, [])
