"""Session cookies end with another sign-in, a sign-out or a new password."""

import secrets
from http import HTTPStatus

import pytest
from allauth.account.authentication import get_authentication_records
from allauth.account.internal.flows.login import record_authentication
from allauth.account.signals import user_logged_in
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.core import mail, signing
from django.core.signing import JSONSerializer
from django.http import HttpRequest
from django.test import Client

from config.accounts.adapters import AccountAdapter
from desks.models import Desk, User
from events.actors import SYSTEM
from events.http.refusals import NotAllowed
from tests import factories, staff
from tests.factories import PASSWORD, a_bot
from tests.tokens.admin.test_fresh import FORM
from tokens.account_closing import close_account, deactivate
from tokens.models import Token

pytestmark = [pytest.mark.django_db, pytest.mark.once]

LOGIN, RESET, CHANGE = "/accounts/login/", "/accounts/password/reset/", "/accounts/password/change/"
SESSION = "session"
NEW = "another horse battery"


@pytest.fixture
def paths(card, desk) -> list[str]:
    """Every page that requires a sign-in, of the customer and of the control area."""
    bot = a_bot(desk).id
    return [
        "/desk",
        "/activity",
        "/bots",
        f"/bots/{bot}",
        f"/bots/{bot}/secret",
        "/desk/token",
        "/control/",
        staff.list_of(Token),
        staff.list_of(Token, "mint"),
        "/accounts/email/",
        "/accounts/2fa/",
        "/accounts/sessions/",
        CHANGE,
    ]


def old_cookie(browser: Client) -> Client:
    """Another browser with a copy of this one's cookie."""
    thief = Client(raise_request_exception=False)
    thief.cookies[SESSION] = browser.cookies[SESSION].value
    return thief


def is_nobodys(browser: Client, paths: list[str]) -> bool:
    api = [browser.get("/api/v1/tokens").status_code, browser.delete("/api/v1/tokens").status_code]
    led = [browser.get(path).get("Location", "").startswith(LOGIN) for path in paths]
    return api == [401, 401] and all(led)


def test_the_key_of_the_session_changes_when_one_signs_in(db):
    browser = Client()
    browser.get(LOGIN)
    session = browser.session
    session["planted"] = "by somebody else"
    session.save()
    browser.cookies[SESSION] = planted = session.session_key
    staff.give_password(browser, staff.verified(factories.UserFactory.create()))
    assert browser.cookies[SESSION].value != planted
    assert not Session.objects.filter(session_key=planted).exists()


def test_the_key_of_the_session_changes_with_the_second_factor():
    member, browser = factories.a_staff_user(), Client()
    secret = staff.with_totp(member)
    staff.give_password(browser, member)
    before = browser.cookies[SESSION].value
    staff.give_code(browser, "/accounts/2fa/authenticate/", secret)
    assert browser.cookies[SESSION].value != before
    assert not Session.objects.filter(session_key=before).exists()


def test_what_a_session_remembers_is_encrypted(desk):
    browser = staff.a_client(desk.user, "password")
    browser.post("/accounts/reauthenticate/", {"password": PASSWORD})
    browser.get("/accounts/2fa/totp/activate/")
    seed = browser.session["mfa.totp.secret"]
    kept = Session.objects.get(session_key=browser.session.session_key).session_data
    raw = signing.loads(kept, salt=browser.session.key_salt, serializer=Plain)
    assert seed.encode() not in raw


class Plain(JSONSerializer):
    """Returns the stored bytes unread."""

    def loads(self, data: bytes) -> bytes:
        return data


def test_a_session_that_no_key_opens_is_nobodys(desk, paths, settings):
    browser = staff.a_client(desk.user, "password")
    assert browser.get("/desk").status_code == HTTPStatus.OK
    settings.SECRET_KEYS = [secrets.token_bytes(32), *settings.SECRET_KEYS]
    assert browser.get("/desk").status_code == HTTPStatus.OK
    settings.SECRET_KEYS = settings.SECRET_KEYS[:1]
    assert is_nobodys(browser, paths)


def test_a_session_that_a_fallback_key_signed_keeps_its_key(desk, settings):
    """A new session key per request would sign out a browser that sends two at once."""
    browser = staff.a_client(desk.user, "password")
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = secrets.token_hex(32)
    beside = old_cookie(browser)
    for each in (browser, beside, browser):
        response = each.get("/desk")
        assert response.status_code == HTTPStatus.OK
        assert SESSION not in response.cookies
    settings.SECRET_KEY_FALLBACKS = []
    assert browser.get("/desk").status_code == HTTPStatus.FOUND


@pytest.mark.parametrize("who", ["a customer", "staff"])
def test_a_cookie_is_dead_once_its_owner_has_signed_out(desk, paths, who):
    browser = staff.a_client(*([desk.user, "password"] if who == "a customer" else []))
    thief = old_cookie(browser)
    assert not is_nobodys(thief, paths)
    browser.post("/accounts/logout/")
    assert is_nobodys(thief, paths)
    assert is_nobodys(browser, paths)


@pytest.mark.parametrize("who", ["a customer", "staff"])
def test_every_cookie_is_dead_once_the_password_has_changed(desk, paths, who):
    user = staff.verified(desk.user if who == "a customer" else factories.a_staff_user())
    browser, elsewhere = staff.a_client(user, "password"), staff.a_client(user, "password", "mfa")
    assert not is_nobodys(elsewhere, paths)
    changed = browser.post(CHANGE, {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW})
    assert changed.status_code == HTTPStatus.FOUND
    assert is_nobodys(elsewhere, paths)
    assert is_nobodys(old_cookie(browser), paths)


def test_every_cookie_is_dead_once_the_password_was_reset_by_mail(desk, paths):
    browser, visitor = staff.a_client(staff.verified(desk.user), "password"), Client()
    visitor.post(RESET, {"email": desk.user.email})
    link = mail.outbox[-1].body.partition("http://testserver")[2].split()[0]
    form = visitor.get(link)["Location"]
    visitor.post(form, {"password1": NEW, "password2": NEW})
    assert is_nobodys(browser, paths)
    again = Client()
    once_more = {"password1": PASSWORD, "password2": PASSWORD}
    again.post(again.get(link).get("Location", link), once_more)
    desk.user.refresh_from_db()
    assert desk.user.check_password(NEW), "a link is of use once"


def test_staff_who_only_just_gave_a_password_reach_no_page_of_the_control_area(paths, settings):
    settings.REQUIRE_STAFF_MFA = True
    member, browser = factories.a_staff_user(), Client()
    staff.with_totp(member)
    staff.give_password(browser, member)
    assert is_nobodys(browser, paths)
    assert browser.post(staff.list_of(Token, "mint"), FORM)["Location"].startswith(LOGIN)


def test_a_session_does_not_grow_with_each_re_authentication(member):
    browser = staff.a_client(member, "password", "mfa")
    request = HttpRequest()
    request.user, request.session = member, browser.session
    sizes = set()
    for _ in range(50):
        record_authentication(request, member, "password", reauthenticated=True)
        sizes.add(len(get_authentication_records(request, member)))
    assert sizes == {3}
    *_, mfa, last = get_authentication_records(request, member)
    assert (mfa["method"], last["method"]) == ("mfa", "password")
    assert last["at"] > mfa["at"]
    record_authentication(request, member, "mfa")
    assert get_authentication_records(request, member)[-1]["method"] == "mfa"


def test_a_sign_in_at_the_same_time_leaves_a_new_session_on_the_list(member):
    def sign_in_elsewhere(user, **options):
        UserSession.objects.purge_and_list(user)

    user_logged_in.connect(sign_in_elsewhere)  # after allauth has listed the session
    try:
        staff.give_password(browser := Client(), member)
    finally:
        user_logged_in.disconnect(sign_in_elsewhere)
    assert UserSession.objects.get(user=member).session_key == browser.cookies[SESSION].value


def test_a_password_that_is_being_changed_does_not_undo_a_deactivation(member):
    read_before = User.objects.get(pk=member.pk)
    deactivate(user=member, actor=SYSTEM)
    AccountAdapter().set_password(read_before, NEW)
    member.refresh_from_db()
    assert not member.is_active
    assert member.check_password(NEW)


def test_a_password_that_is_being_changed_does_not_reach_a_closed_account(member):
    read_before = User.objects.get(pk=member.pk)
    close_account(Desk.objects.get(user=member))
    with pytest.raises(NotAllowed):
        AccountAdapter().set_password(read_before, NEW)
    member.refresh_from_db()
    assert not member.has_usable_password()
