"""Export my data, and Close my account: the pages."""

import csv
import io
import json
import re
import tracemalloc
import zipfile
from http import HTTPStatus

import pytest
from allauth.account.internal.flows.login import AUTHENTICATION_METHODS_SESSION_KEY
from allauth.mfa.models import Authenticator
from django.test import Client

from desks.models import Desk, User
from events.http import rate_limits
from events.kinds import Kind
from events.log import turn
from events.models import Event
from signals.site.own_data import export
from tests import factories, pages, staff
from tests.client import EVENTS, get, push
from tests.signals import bodies
from tests.signals.notices.chats.stage import DISCORD, a_chat
from tests.signals.webhooks.stage import a_webhook
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db(transaction=True)

DATA, CLOSE = "/accounts/data/", "/accounts/close/"
NAMES = {
    *("account", "second_factors", "sessions", "bots", "elections", "tokens", "secrets"),
    *("webhooks", "chats", "events"),
}


@pytest.fixture
def user(desk: Desk, bot: factories.Bot) -> User:
    """A customer with everything that an account can have."""
    staff.with_totp(desk.user)
    a_webhook(desk)
    a_chat(desk.user)
    push(bodies.tradingview(bot), secret=bot.secret)
    push(bodies.tradingview(bot, direction="long"), secret=bot.secret)
    return desk.user


@pytest.fixture
def visitor(user: User) -> Client:
    return staff.a_client(user)


def downloaded(answer) -> zipfile.ZipFile:
    assert answer.status_code == HTTPStatus.OK
    return zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content)))


def test_the_export_is_one_zip_of_json_and_csv_that_agree(visitor, desk, user):
    token = factories.a_desk_token(desk)
    answer = visitor.post(DATA)
    assert answer["Content-Type"] == "application/zip"
    assert answer["Content-Disposition"] == f'attachment; filename="{desk.public_id}.zip"'
    assert answer["Cache-Control"] == "no-store"
    archive = downloaded(answer)
    assert archive.testzip() is None
    assert {name.partition(".")[0] for name in archive.namelist()} == NAMES
    assert len(archive.namelist()) == 2 * len(NAMES)
    for name in NAMES:
        rows = json.loads(archive.read(f"{name}.json"))
        table = list(csv.DictReader(io.StringIO(archive.read(f"{name}.csv").decode())))
        assert len(rows) == len(table), name
        assert [list(row) for row in rows] == [list(row) for row in table]
    (account,) = json.loads(archive.read("account.json"))
    assert (account["userId"], account["email"]) == (desk.public_id, user.email)
    assert json.loads(archive.read("events.json")) == get(EVENTS, token).json()["events"]


def test_no_secret_is_in_it(visitor, desk, bot, user):
    token = factories.a_desk_token(desk)
    archive = downloaded(visitor.post(DATA))
    text = b"".join(archive.read(name) for name in archive.namelist())
    kept = [Token.objects.get().digest.encode(), bytes(SigningSecret.objects.get().ciphertext)]
    seed = Authenticator.objects.get().data["secret"]
    chat = DISCORD.rpartition("/")[2]
    hidden = [token, bot.secret, user.password, seed, visitor.session.session_key, chat]
    for secret in [*(each.encode() for each in hidden), *kept]:
        assert secret not in text
    assert b'"service": "discord", "name": "Desk", "host": "discord.com"' in text


def test_it_holds_nothing_of_another_desk(user, stranger):
    """What another desk comes to have changes no file of the archive."""
    before = files(user.desk)
    bot = factories.a_bot(stranger)
    push(bodies.tradingview(bot), secret=bot.secret)
    factories.a_desk_token(stranger)
    staff.sign_in(Client(), stranger.user, staff.with_totp(stranger.user))
    a_webhook(desk=stranger)
    a_chat(stranger.user)
    assert files(user.desk) == before
    assert stranger.public_id.encode() not in b"".join(before.values())


def files(desk: Desk) -> dict[str, bytes]:
    archive = zipfile.ZipFile(io.BytesIO(b"".join(export(desk))))
    return {name: archive.read(name) for name in archive.namelist()}


def test_what_happens_while_it_is_made_is_not_in_it(desk):
    last = Event.objects.latest("position").position
    parts = export(desk)
    first = next(parts)
    factories.a_bot(desk)
    archive = zipfile.ZipFile(io.BytesIO(first + b"".join(parts)))
    events = json.loads(archive.read("events.json"))
    assert max(event["position"] for event in events) == last


def test_a_cell_of_the_csv_is_no_formula(desk):
    factories.desks.add_automation(desk=desk, name="=1+1", actor=desk.actor)
    archive = zipfile.ZipFile(io.BytesIO(b"".join(export(desk))))
    assert "'=1+1" in archive.read("bots.csv").decode()
    assert json.loads(archive.read("bots.json"))[0]["name"] == "=1+1"


def test_it_is_sent_in_chunks_and_memory_does_not_grow_with_the_log(desk):
    def peak() -> tuple[int, int]:
        tracemalloc.start()
        total = sum(len(chunk) for chunk in export(desk))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return total, most

    peak()  # what is loaded once
    _fill(desk, 300)
    small, before = peak()
    _fill(desk, 3000)
    large, after = peak()
    assert large > 3 * small
    assert after < before + 2**20


def _fill(desk: Desk, count: int) -> None:
    """Adds events of the desk to the log, which do not compress well."""
    entry = {"botId": "bot_x", "name": "x" * 40}
    with turn(actor=desk.actor) as current:
        for n in range(count):
            data = {**entry, "name": f"{n:x}" * 9}
            current.append(Kind.AUTOMATION_CREATED, topic=desk.public_id, data=data)


@pytest.mark.parametrize("path", [DATA, CLOSE])
def test_an_old_sign_in_is_asked_to_confirm_who_it_is(user, path):
    old = staff.a_client(user, seconds_ago=staff.LONG_AGO)
    refused = old.post(path, {"understood": "on"})
    assert refused["Location"] == f"/accounts/reauthenticate/?next={path}"
    assert User.objects.get(pk=user.pk).is_active
    assert AUTHENTICATION_METHODS_SESSION_KEY in old.session
    if path == CLOSE:
        assert old.get(path)["Location"] == f"/accounts/reauthenticate/?next={CLOSE}"


def test_closing_says_in_red_what_goes_and_what_stays_and_asks_for_a_tick(visitor, desk, user):
    token = factories.a_desk_token(desk)
    page = visitor.get(CLOSE)
    said = pages.words(page)
    for words in (
        "2 elections are withdrawn",
        "1 bot is removed, with 1 signing secret.",
        "1 chat is removed from your notices.",
        f"The desk token {token[:9]}…{token[-4:]} is revoked.",
        "Your address, your password, your second factors and your sessions are deleted.",
        "The log stays",
        desk.public_id,
    ):
        assert words in said
    assert '<form method="post" class="confirm">' in pages.source(page)
    assert 'class="button danger">Close my account</button>' in pages.source(page)
    assert visitor.post(CLOSE).status_code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert User.objects.get(pk=user.pk).is_active


def test_closing_ends_the_account_and_the_session(visitor, user):
    closed = visitor.post(CLOSE, {"understood": "on"}, follow=True)
    assert closed.redirect_chain[-1] == ("/", 302)
    assert "Your account is closed." in pages.words(closed)
    assert "_auth_user_id" not in visitor.session
    assert Event.objects.latest("position").kind == Kind.DESK_CLOSED
    assert re.search(r'href="/accounts/login/"', pages.source(visitor.get("/")))


def test_one_closing_of_an_account_runs_at_a_time(visitor, desk, user, stranger):
    """The second request is answered meanwhile, and changes nothing."""
    with rate_limits.one_at_a_time("closing", str(desk.pk), 30):
        refused = visitor.post(CLOSE, {"understood": "on"})
    assert (refused.status_code, pages.problem(refused)) == (429, "rate_limited")
    assert refused["Retry-After"] == "1"
    assert User.objects.get(pk=user.pk).is_active
    with rate_limits.one_at_a_time("closing", str(stranger.pk), 30):
        assert visitor.post(CLOSE, {"understood": "on"}).status_code == HTTPStatus.FOUND
    assert not User.objects.get(pk=user.pk).is_active


def test_a_closing_that_fails_can_be_repeated(visitor, user, monkeypatch):
    visitor.raise_request_exception = False
    with monkeypatch.context() as patch:
        patch.setattr("tokens.account_closing.end_desk", lambda *_: 1 / 0)
        assert visitor.post(CLOSE, {"understood": "on"}).status_code == 500
    assert User.objects.get(pk=user.pk).is_active
    assert visitor.post(CLOSE, {"understood": "on"}).status_code == HTTPStatus.FOUND
