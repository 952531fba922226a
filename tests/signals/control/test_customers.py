"""The control area's pages for users: the list, the page of a customer, and who is let in."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from desks import actions as desks
from desks.models import Automation, User
from events.actors import SYSTEM
from events.models import Event
from signals.webhooks import actions as webhooks
from signals.webhooks.models import DisabledReason
from tests import factories, staff
from tests.client import push
from tests.pages import words
from tests.signals import bodies
from tests.signals.webhooks.stage import URL, a_failing_webhook, an_active_webhook, let_fail
from tokens import actions
from tokens.models import Token

pytestmark = pytest.mark.django_db


@pytest.fixture
def member() -> User:
    return factories.a_staff_user()


@pytest.fixture
def client(member, settings) -> Client:
    settings.REQUIRE_STAFF_MFA = True
    return staff.a_client(member)


def listed(client: Client, **query: str) -> list[User]:
    return list(client.get(staff.list_of(User), query).context["cl"].result_list)


def test_the_page_shows_the_consequences_and_getting_it_changes_nothing(client, desk, member):
    text = client.get(staff.page_of(desk.user, "deactivate")).content.decode()
    assert f"The desk {desk.public_id} is disconnected" in text
    assert "Reactivating restores the sign-in only." in text
    desk.user.refresh_from_db()
    assert desk.user.is_active
    other = factories.a_staff_user("other@example.com")
    assert "The desk" not in client.get(staff.page_of(other, "deactivate")).content.decode()


def test_a_user_is_deactivated_once_and_then_reactivated_once(client, desk):
    own = staff.page_of(desk.user)
    for act in ("deactivate", "reactivate"):
        assert f">{act.capitalize()}<" in client.get(own).content.decode()
        page = staff.page_of(desk.user, act)
        assert client.post(page)["Location"] == own
        again = client.post(page)
        assert (again.status_code, staff.refusal(again)) == (422, "invalid")
        assert f">{act.capitalize()}<" not in client.get(own).content.decode()
    assert User.objects.get(pk=desk.user_id).is_active


def test_staff_deactivate_other_staff_and_not_themselves(client, member):
    other = factories.a_staff_user("other@example.com")
    shut_out = staff.a_client(other)
    response = client.post(staff.page_of(member, "deactivate"))
    assert response.status_code == 422
    assert "You cannot deactivate your own account." in response.content.decode()
    client.post(staff.page_of(other, "deactivate"))
    assert shut_out.get("/control/").status_code == 302
    assert client.get("/control/").status_code == 200


def test_users_are_found_by_address_and_desk_and_narrowed_to_a_role(client, member, desk, stranger):
    client.post(staff.page_of(stranger.user, "deactivate"))
    everybody = [stranger.user, desk.user, member]
    assert sorted(listed(client), key=str) == sorted(everybody, key=str)
    assert listed(client, q=desk.user.email) == [desk.user]
    assert listed(client, q=" STAFF@") == [member]
    assert listed(client, q=desk.public_id) == [desk.user]
    assert listed(client, q="nobody") == []
    assert listed(client, role="staff") == [member]
    assert listed(client, role="users", active="yes") == [desk.user]
    assert listed(client, active="no") == [stranger.user]


# --- The page of a customer ----------------------------------------------------------------------


def page_of(client, user):
    response = client.get(staff.page_of(user))
    assert response.status_code == 200
    return words(response)


def test_a_customers_page_says_the_state_of_the_account_and_the_desk(client, card):
    new = factories.a_desk()
    page = page_of(client, new.user)
    assert f"User {new.user.email}" in page
    assert "not verified" in page
    assert "not connected" in page
    assert "not enrolled" in page
    ready = factories.a_ready_desk(card)
    staff.verified(ready.user)
    page = page_of(client, ready.user)
    assert f"{ready.user.email}, verified" in page
    assert "connected to" in page
    assert "ready enrolled in Morning: BTC/USDT long" in page
    desks.retire_card(card=card, actor=SYSTEM)
    assert "lapsed enrolled in Morning, which is retired" in page_of(client, ready.user)


def test_it_counts_the_sessions_that_have_not_ended(client, desk):
    assert "Sessions none" in page_of(client, desk.user)
    staff.verified(desk.user)
    first, second = Client(), Client()
    for browser in (first, second):
        staff.give_password(browser, desk.user)
    assert "Sessions 2, the latest from just now" in page_of(client, desk.user)
    first.session.flush()
    assert "Sessions 1, the latest from" in page_of(client, desk.user)


def test_it_shows_bots_with_what_keeps_them_from_filling(client, desk):
    bot = factories.a_bot(desk)
    assert "Chart accepts signals ETH/USDT" in page_of(client, desk.user)
    desks.withdraw(desk=desk, automation=Automation.objects.get(pk=bot.id), actor=SYSTEM)
    assert "Chart no election" in page_of(client, desk.user)


def test_it_shows_the_last_ten_refusals_each_with_why(client, desk):
    bot = factories.a_bot(desk)
    for _ in range(12):
        push(bodies.tradingview(bot, direction="long"), secret=bot.secret)
    push(bodies.tradingview(bot, nonce="two words"), secret=bot.secret)
    response = client.get(staff.page_of(desk.user))
    newest = Event.objects.order_by("-position").values_list("position", flat=True)
    shown = [
        int(line.event_id.removeprefix("evt_")) for line, _ in response.context["last_refusals"]
    ]
    assert shown == [*newest[:10]]
    page = words(response)
    mismatch = "Direction differs from the election. Sent: ETH/USDT long. Elected: ETH/USDT short."
    assert mismatch in page
    assert "nonce: " in page
    assert f"{staff.list_of(Event)}?kind=signal.refused&amp;q={desk.public_id}" in (
        response.content.decode()
    )


def test_it_shows_webhooks_and_credentials_and_never_a_secret(client, desk):
    failing, bot, token = (
        a_failing_webhook(desk),
        factories.a_bot(desk),
        factories.a_desk_token(desk),
    )
    page = page_of(client, desk.user)
    assert f"{failing.label} failing for" in page
    assert f"Token {Token.objects.get(desk=desk)}" in page
    assert "Signing secret" in page
    source = client.get(staff.page_of(desk.user)).content.decode()
    assert not any(secret in source for secret in (URL, token, bot.secret))


def test_it_says_how_long_a_webhook_fails_but_not_how_long_it_failed_before(client, desk):
    webhook = let_fail(an_active_webhook(desk), 3 * 24 * 60)
    assert f"{webhook.label} failing for 3 days, never delivered" in page_of(client, desk.user)
    webhooks.disable(webhook=webhook, reason=DisabledReason.FAILED)
    assert f"{webhook.label} disabled, never delivered" in page_of(client, desk.user)
    webhooks.pause(webhook=webhook, actor=SYSTEM)
    let_fail(webhook, 1)  # by a session that was under way
    assert f"{webhook.label} paused, never delivered" in page_of(client, desk.user)


def test_it_says_what_staff_did_to_the_account_and_who_ended_it(client, member, desk, stranger):
    factories.a_desk_token(desk)
    actions.revoke(token=Token.objects.get(desk=desk), actor=desk.actor)
    assert "What staff did to this account Nothing." in page_of(client, desk.user)
    client.post(staff.page_of(desk.user, "deactivate"))
    page = page_of(client, desk.user)
    assert f"Ended by {member.email} (staff) deactivated the desk of {desk.user.email}" in page
    client.post(staff.page_of(desk.user, "reactivate"))
    page = page_of(client, desk.user)
    assert "Ended by" not in page
    acts = page.partition("What staff did to this account")[2]
    assert f"{member.email} (staff) reactivated the desk" in acts
    assert f"{member.email} (staff) deactivated the desk" in acts
    assert "revoked" not in acts  # the owner did
    assert desk.user.email in page_of(client, member)  # what this member did
    assert "What staff did to this account Nothing." in page_of(client, stranger.user)


def test_what_a_member_of_staff_did_to_a_webhook_names_its_host(client, member):
    webhook = an_active_webhook()
    client.post(staff.page_of(webhook, "pause"))
    assert f"paused the webhook {webhook.public_id} to {webhook.host}" in page_of(client, member)


def test_a_customers_page_takes_as_many_queries_with_much_as_with_little(client, desk):
    bot = factories.a_bot(desk)
    push(bodies.tradingview(bot, direction="long"), secret=bot.secret)
    an_active_webhook(desk)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            client.get(staff.page_of(desk.user))
        return len(captured)

    queries()  # reads what a process reads once
    few = queries()
    for _ in range(3):
        another = factories.a_bot(desk)
        push(bodies.tradingview(another, direction="long"), secret=another.secret)
        an_active_webhook(desk)
    assert queries() == few <= 18
