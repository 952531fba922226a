"""Normalized e-mail addresses: one account for each address (contract, section 1)."""

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client

from desks.models import User
from desks.models.user import NO_DOMAIN, normalize_address
from tests import staff
from tests.desks.test_models import refused
from tests.factories import PASSWORD, a_desk

pytestmark = pytest.mark.once

ASCII = "user@xn--exmple-cua.com"


@pytest.mark.parametrize(
    "written",
    [
        ASCII,
        "user@exämple.com",
        " User@EXÄMPLE.com ",
        "user@exa\u0308mple.com",  # a and a combining mark
        "user@exämple\u3002com",  # the ideographic full stop
        "USER@XN--EXMPLE-CUA.COM",
    ],
)
def test_all_spellings_of_a_domain_normalize_to_one_address(written):
    assert normalize_address(written) == ASCII


def test_letters_that_idna_2003_merges_stay_different_addresses():
    assert normalize_address("a@straße.example") == "a@xn--strae-oqa.example"
    assert normalize_address("a@strasse.example") == "a@strasse.example"


@pytest.mark.parametrize(
    "address",
    [
        "a@exam_ple.com",
        "a@xn--a.com",  # decodes to nothing
        "a@-example.com",
        "a@exa\u200dmple.com",
        "a@☃.example",
        "a@" + "ä" * 64 + ".com",
        "a@exa\ud800mple.com",
    ],
)
def test_a_domain_that_idna_refuses_is_refused_with_a_sentence(address):
    with pytest.raises(ValidationError, match="is not a domain name") as refusal:
        normalize_address(address)
    assert refusal.value.messages == [NO_DOMAIN]


@pytest.mark.parametrize(
    "address",
    ["", "a", "a@", "@example.com", "ä@example.com", "\u212a@example.com", "a b@example.com",
     "a@[127.0.0.1]", "a@example.com\nx", r'"a\ b"@example.com', f"{'a' * 250}@example.com"],
)  # fmt: skip
def test_an_invalid_address_is_refused(address):
    with pytest.raises(ValidationError):
        normalize_address(address)


@pytest.mark.django_db
class TestEverywhereAnAddressIsRead:
    @pytest.fixture
    def member(self, db):
        desk = a_desk()
        User.objects.filter(pk=desk.user_id).update(email=ASCII)
        desk.user.refresh_from_db()
        return staff.verified(desk.user)

    @pytest.mark.parametrize("written", [ASCII, "user@exämple.com", "USER@EXÄMPLE.COM"])
    def test_every_spelling_signs_in(self, member, written):
        form = {"login": written, "password": PASSWORD}
        assert Client().post("/accounts/login/", form)["Location"] == "/desk"

    def test_every_spelling_resets_the_password(self, member, mailoutbox):
        Client().post("/accounts/password/reset/", {"email": "user@exämple.com"})
        assert [mail.to for mail in mailoutbox] == [[ASCII]]
        assert "/accounts/password/reset/key/" in mailoutbox[0].body

    def test_a_changed_address_is_normalized(self, member):
        browser = staff.a_client(member, "password")
        browser.post("/accounts/reauthenticate/", {"password": PASSWORD})
        browser.post("/accounts/email/", {"email": "neu@exämple.com", "action_add": ""})
        pending = member.emailaddress_set.get(verified=False)
        assert pending.email == "neu@xn--exmple-cua.com"

    def test_a_refused_domain_shows_the_error_at_the_field(self, member):
        browser = staff.a_client(member, "password")
        page = browser.post("/accounts/email/", {"email": "a@☃.example", "action_add": ""})
        assert NO_DOMAIN in page.content.decode()

    @pytest.mark.parametrize("where", ["/control/desks/user/", "/control/desks/desk/"])
    def test_staff_find_the_user_by_every_spelling(self, member, where):
        found = staff.a_client().get(where, {"q": "user@exämple.com"}).content.decode()
        assert ASCII in found

    def test_a_new_users_address_is_normalized(self):
        assert User.objects.create_user("user@exämple.com").email == ASCII
        assert refused(User.objects.create_user, ASCII)

    def test_the_database_refuses_an_address_that_is_not_normalized(self):
        for address in ("user@exämple.com", "User@example.com", "us er@example.com", ""):
            assert refused(User.objects.create, email=address)

    def test_a_new_staff_members_address_is_normalized(self, monkeypatch):
        monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
        call_command("createsuperuser", "--no-input", email="Chief@exämple.com", verbosity=0)
        assert User.objects.get().email == "chief@xn--exmple-cua.com"
        with pytest.raises(CommandError, match="is not a domain name"):
            call_command("createsuperuser", "--no-input", email="chief@☃.example", verbosity=0)
