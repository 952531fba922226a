"""Forms that make something shown once: a form that is sent again makes nothing."""

import re
from http import HTTPStatus

import pytest
import time_machine
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.utils import timezone

from tests import pages, staff
from tests.client import Response, signed_in
from tests.factories import Bot
from tokens.choices import Source
from tokens.forms import FIELD, LIFETIME
from tokens.models import SigningSecret, Token

# A table that the cache can read, and that takes no row.
FULL_CACHE = """CREATE TABLE full_cache (
    cache_key varchar(255) PRIMARY KEY, value text, expires timestamp, CHECK (value = '')
)"""

pytestmark = pytest.mark.django_db

KEY = re.compile(rf'name="{FIELD}" value="([^"]+)"')
MINT = "/desk/token"


def key_of(page: Response) -> str:
    found = KEY.search(pages.source(page))
    assert found is not None
    return found.group(1)


def test_a_form_that_is_sent_again_makes_nothing(owner: Client):
    form = {FIELD: key_of(owner.get(MINT))}
    first, again = owner.post(MINT, form), owner.post(MINT, form)
    assert first.status_code == HTTPStatus.OK
    assert again.status_code == HTTPStatus.CONFLICT
    assert pages.problem(again) == "made_already"
    (token,) = Token.objects.filter(desk__isnull=False)
    assert token.revoked_at is None
    assert pages.copied(first)[0] not in pages.source(again)


def test_every_form_that_makes_something_shown_once_carries_a_key(owner: Client, bot: Bot):
    for page in ("/desk", MINT, f"/bots/{bot.id}/secret"):
        assert key_of(owner.get(page))
    SigningSecret.objects.update(ends_at=timezone.now())
    assert key_of(owner.get(f"/bots/{bot.id}"))


def test_a_secret_is_generated_once(owner: Client, bot: Bot):
    page = f"/bots/{bot.id}/secret"
    form = {FIELD: key_of(owner.get(page)), "overlap": "0"}
    owner.post(page, form)
    assert pages.problem(owner.post(page, form)) == "made_already"
    assert SigningSecret.objects.of(Source.TRADINGVIEW, bot.id).count() == 2


@pytest.mark.parametrize(
    ("model", "name", "fields"),
    [
        (Token, "mint", {"name": "Engine", "scopes": ["read"]}),
        (SigningSecret, "generate-floor", {}),
        (SigningSecret, "generate-nox", {}),
    ],
)
def test_the_control_area_makes_a_credential_once(settings, model, name, fields):
    settings.REQUIRE_STAFF_MFA = True
    browser, path = staff.a_client(), staff.list_of(model, name)
    form = {FIELD: key_of(browser.get(path)), **fields}
    before = model.objects.count()
    answers = [browser.post(path, form) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [HTTPStatus.OK, HTTPStatus.CONFLICT]
    assert model.objects.count() == before + 1


def test_a_form_with_a_fault_can_be_sent_again(settings):
    settings.REQUIRE_STAFF_MFA = True
    browser, path = staff.a_client(), staff.list_of(Token, "mint")
    form = {FIELD: key_of(browser.get(path)), "name": "Engine", "scopes": ["read"]}
    late = browser.post(path, {**form, "expiresAt": "2001-01-01T00:00"})
    assert late.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert browser.post(path, form).status_code == HTTPStatus.OK


def test_a_key_counts_in_its_own_session_only(owner: Client, stranger):
    form = {FIELD: key_of(owner.get(MINT))}
    assert pages.problem(signed_in(stranger.user).post(MINT, form)) == "invalid"
    assert owner.post(MINT, form).status_code == HTTPStatus.OK


def test_a_key_expires_before_its_digest_does(owner: Client):
    with time_machine.travel(timezone.now(), tick=False) as clock:
        form = {FIELD: key_of(owner.get(MINT))}
        clock.shift(LIFETIME.total_seconds() + 1)
        assert pages.problem(owner.post(MINT, form)) == "invalid"


def test_only_a_digest_of_the_key_is_kept(owner: Client, monkeypatch):
    kept = []
    add = cache.add
    monkeypatch.setattr(cache, "add", lambda *entry: kept.append(entry) or add(*entry))
    key = key_of(owner.get(MINT))
    value = pages.copied(owner.post(MINT, {FIELD: key}))[0]
    ((entry, stored, seconds),) = kept
    assert key not in entry
    assert value not in f"{entry}{stored}"
    assert seconds == LIFETIME.total_seconds()


def test_a_form_makes_nothing_while_the_cache_cannot_keep_its_key(owner: Client, settings):
    with connection.cursor() as cursor:
        cursor.execute(FULL_CACHE)
    settings.CACHES = {
        "default": {"BACKEND": "config.caches.DatabaseCache", "LOCATION": "full_cache"}
    }
    answer = owner.post(MINT, {FIELD: key_of(owner.get(MINT))})
    assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert pages.problem(answer) == "unavailable"
    assert not Token.objects.filter(desk__isnull=False).exists()
