"""The control area's pages for users."""

import pytest
from allauth.account.models import EmailAddress
from django.test import Client

from desks.models import Automation, Connection, Election, User
from tests import factories, staff
from tests.client import ME, code, get, push
from tests.signals import bodies
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


def test_a_deactivated_user_loses_the_desk_token_and_bots(client, desk):
    token, bot = factories.a_desk_token(desk), factories.a_bot(desk)
    response = client.post(staff.page_of(desk.user, "deactivate"))
    assert response["Location"] == staff.page_of(desk.user)
    assert not Connection.objects.exists()
    assert not Election.objects.standing().exists()
    assert not Automation.objects.not_removed().exists()
    assert code(get(ME, token)) == "token_invalid"
    assert code(push(bodies.tradingview(bot), secret=bot.secret)) == "signature_invalid"


def test_a_deactivated_user_is_signed_out_and_cannot_sign_in(client, desk):
    user = desk.user
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    form = {"login": user.email, "password": factories.PASSWORD}
    browser = Client()
    browser.post("/accounts/login/", form)
    assert browser.get("/accounts/2fa/").status_code == 200
    client.post(staff.page_of(user, "deactivate"))
    assert browser.get("/accounts/2fa/")["Location"].startswith("/accounts/login/")
    another = Client()
    another.post("/accounts/login/", form)
    assert another.get("/accounts/2fa/")["Location"].startswith("/accounts/login/")


def test_the_page_shows_the_consequences_and_getting_it_changes_nothing(client, desk, member):
    text = client.get(staff.page_of(desk.user, "deactivate")).content.decode()
    assert f"The desk {desk.public_id} is disconnected" in text
    assert "Reactivating restores the sign-in only." in text
    desk.user.refresh_from_db()
    assert desk.user.is_active
    other = factories.a_staff_user("other@example.com")
    assert "The desk" not in client.get(staff.page_of(other, "deactivate")).content.decode()


def test_a_user_is_deactivated_once(client, desk):
    page = staff.page_of(desk.user, "deactivate")
    client.post(page)
    response = client.post(page)
    assert (response.status_code, staff.refusal(response)) == (422, "invalid")
    assert ">Deactivate<" not in client.get(staff.page_of(desk.user)).content.decode()


def test_a_reactivated_user_can_sign_in_and_nothing_else_is_restored(client, desk):
    factories.a_desk_token(desk), factories.a_bot(desk)
    client.post(staff.page_of(desk.user, "deactivate"))
    assert ">Reactivate<" in client.get(staff.page_of(desk.user)).content.decode()
    response = client.post(staff.page_of(desk.user, "reactivate"))
    assert response["Location"] == staff.page_of(desk.user)
    assert User.objects.get(pk=desk.user_id).is_active
    assert not Connection.objects.exists()
    assert not Election.objects.standing().exists()
    assert not Automation.objects.not_removed().exists()
    assert not Token.objects.filter(desk=desk, revoked_at=None).exists()
    again = client.post(staff.page_of(desk.user, "reactivate"))
    assert (again.status_code, staff.refusal(again)) == (422, "invalid")


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
    assert listed(client, role="customers", active="yes") == [desk.user]
    assert listed(client, active="no") == [stranger.user]
