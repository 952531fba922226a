"""The control area's pages for signing secrets."""

import re

import pytest
from django.test import Client
from django.utils import timezone

from tests import factories, staff
from tests.client import code, push
from tests.signals import bodies
from tests.staff import staff_client  # noqa: F401 - the fixture "client"
from tokens.choices import Source
from tokens.crypto import formats
from tokens.models import SigningSecret

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def page_of(source: Source) -> str:
    return staff.list_of(SigningSecret, f"generate-{source}")


def generate(client: Client, source: Source = Source.FLOOR, **form: str) -> str:
    """Submits the form and returns the secret that the response shows."""
    response = client.post(page_of(source), form)
    assert response.status_code == 200
    return str(response.context["value"])


def signs(secret: str) -> str:
    """The hook's response to a fan-out that is signed with the secret."""
    return code(push(bodies.fanout(), secret=secret))


def text_of(client: Client, page: str) -> str:
    return client.get(page).content.decode()


def listed(client: Client, **query: str) -> list[str]:
    rows = client.get(staff.list_of(SigningSecret), query).context["cl"].result_list
    return [secret.owner for secret in rows]


# --- Generating ----------------------------------------------------------------------------------


def test_the_secret_is_shown_only_in_the_response_to_the_form(client):
    response = client.post(page_of(Source.FLOOR))
    value = response.context["value"]
    assert formats.is_credential(value, formats.SIGNING_SECRET)
    assert response.content.decode().count(value) == 1
    assert "no-store" in response["Cache-Control"]
    secret = SigningSecret.objects.get()
    for page in (staff.page_of(secret), staff.list_of(SigningSecret), page_of(Source.FLOOR)):
        assert value not in text_of(client, page)


def test_the_form_of_the_first_secret_has_no_overlap(client):
    assert "overlap" not in text_of(client, page_of(Source.FLOOR))
    generate(client)
    assert "overlap" in text_of(client, page_of(Source.FLOOR))
    assert "overlap" not in text_of(client, page_of(Source.NOX))


def test_the_old_secret_verifies_during_the_overlap(client, desk, time_machine):
    time_machine.move_to(timezone.now())
    old, new = generate(client), generate(client, overlap="3600")
    assert (signs(old), signs(new)) == ("ok", "ok")
    time_machine.shift(3601)
    assert (signs(old), signs(new)) == ("signature_invalid", "ok")


def test_the_page_says_which_secret_ends_when(client):
    generate(client)
    first = SigningSecret.objects.get()
    generate(client, overlap="3600")
    second = SigningSecret.objects.get(ends_at=None)
    text = text_of(client, page_of(Source.FLOOR))
    assert f"You choose when the current secret ({second.hint}) ends." in text
    assert f"The previous secret ({first.hint}) ends at once." in text


@pytest.mark.parametrize("overlap", ["", "1", "-3600", "604801", "soon"])
def test_an_unknown_overlap_shows_an_error_at_the_field(client, overlap):
    generate(client)
    response = client.post(page_of(Source.FLOOR), {"overlap": overlap})
    assert response.status_code == 422
    assert list(response.context["form"].errors) == ["overlap"]
    assert SigningSecret.objects.count() == 1


# --- What the first Nox secret means -------------------------------------------------------------


def test_the_page_says_beforehand_what_the_first_nox_secret_changes(client):
    assert "and nox until a Nox secret is generated" in text_of(client, page_of(Source.FLOOR))
    before = text_of(client, page_of(Source.NOX))
    assert "from now on the Floor secret can never sign nox again" in before
    generate(client, Source.NOX)
    assert "It does not sign nox" in text_of(client, page_of(Source.FLOOR))
    assert "never sign nox" not in text_of(client, page_of(Source.NOX))


# --- Ending --------------------------------------------------------------------------------------


def test_an_ended_secret_signs_nothing_and_is_ended_once(client, desk):
    value = generate(client)
    secret = SigningSecret.objects.get()
    response = client.post(staff.page_of(secret, "end"))
    assert response["Location"] == staff.page_of(secret)
    assert signs(value) == "signature_invalid"
    assert client.post(staff.page_of(secret, "end")).status_code == 422
    assert ">End<" not in text_of(client, staff.page_of(secret))


def test_a_bots_secret_is_ended_here_and_not_generated(client, desk):
    bot = factories.a_bot(desk)
    secret = SigningSecret.objects.get()
    client.post(staff.page_of(secret, "end"))
    assert code(push(bodies.tradingview(bot), secret=bot.secret)) == "signature_invalid"
    names = staff.control_of(SigningSecret).pages
    assert list(names) == ["generate-floor", "generate-nox", "end"]
    assert client.post(f"{staff.list_of(SigningSecret)}generate-tradingview/").status_code == 404


# --- Reading -------------------------------------------------------------------------------------


def test_the_platforms_secrets_are_listed_first_and_bots_beside_them(client, desk):
    bot = factories.a_bot(desk)
    generate(client)
    generate(client, Source.NOX)
    assert listed(client) == ["nox", "floor"]
    assert listed(client, owner="customers") == [bot.id]
    assert listed(client, q=bot.id) == [bot.id]
    floor = SigningSecret.objects.get(source=Source.FLOOR)
    assert listed(client, q=floor.public_id) == ["floor"]


def test_the_list_says_which_secret_is_in_use_in_overlap_or_ended(client):
    for overlap in ("0", "3600", "3600"):
        generate(client, overlap=overlap)
    text = text_of(client, staff.list_of(SigningSecret))
    states = re.findall(r'class="state[^"]*">([^<]*)<', text)
    assert states == ["in use", "in overlap", "ended"]
