"""Seeding creates the same rows as the actions do (contract, section 9)."""

import io
import json
import re

import pytest
import time_machine
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F
from django.utils import timezone

from desks import actions
from desks.models import Automation, Card, Connection, Desk, Election, User
from events import log
from events.actors import SYSTEM
from events.http.refusals import Invalid
from events.models import Event
from signals.demo import seeding
from tests import factories, staff
from tests.signals.audit.stage import broken
from tests.tokens.test_lock_of_the_log import TAKES_LOCK
from tokens.choices import Source
from tokens.crypto import keys
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db(transaction=True)

FIELDS = {
    "card",
    "admin",
    "user",
    "platformToken",
    "readToken",
    "floorSecret",
    "desks",
    "automation",
}


def seed(*arguments):
    """The parsed output of the command."""
    printed = io.StringIO()
    call_command("seed", *arguments, "--json", stdout=printed)
    (line,) = printed.getvalue().splitlines()
    return json.loads(line)


@pytest.fixture
def seeded(monkeypatch):
    """12 ready desks and 3 idle ones, 5 in each turn."""
    monkeypatch.setattr(seeding, "DESKS_PER_TURN", 5)
    return seed("--desks=12", "--idle=3")


def timeout():
    """How long this session may stand still in a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        return cursor.fetchone()[0]


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="PostgreSQL has these timeouts.")
def test_only_in_an_empty_database_a_turn_may_take_long():
    """There nobody waits for it."""
    during = []

    def record(execute, sql, *rest):
        if TAKES_LOCK in sql:
            during.append(timeout())
        return execute(sql, *rest)

    with connection.execute_wrapper(record):
        seed("--desks=2")
        assert set(during) == {"0"}
        during.clear()
        seed("--desks=2", "--force")
    assert during
    assert "0" not in [*during, timeout()]


def kept(model, *, without):
    """The rows of a model, without ids and times."""
    return [
        {name: value for name, value in row.items() if name not in without}
        for row in model.objects.order_by("pk").values()
    ]


def test_the_output_matches_the_contract(seeded):
    assert set(seeded) == FIELDS
    assert set(seeded["card"]) == {"name", "pair", "direction"}
    assert set(seeded["admin"]) == {"email", "password", "totpSecret"}
    assert set(seeded["user"]) == {"email", "password"}
    assert set(seeded["automation"]) == {"botId", "secret", "pair", "direction"}
    assert len(seeded["desks"]) == 10
    assert all(set(desk) == {"userId", "deskToken"} for desk in seeded["desks"])


def test_the_requested_numbers_of_desks_are_ready_and_idle(seeded):
    card = Card.objects.published().get()
    desks = Desk.objects.all()
    assert desks.ready(card).count() == 12
    assert desks.ready(card, False).count() == 3
    assert Connection.objects.count() == 12
    assert card.standing == 12
    assert broken() == {}


def test_a_ready_desk_made_in_bulk_equals_one_made_by_the_actions():
    card = factories.a_card()
    users: list[User] = [factories.UserFactory.create(), factories.UserFactory.create()]
    with log.turn(actor=SYSTEM):  # one turn, so that all have the same time
        desk = actions.open_desk(desk=Desk(user=users[0]), actor=SYSTEM)
        actions.connect(desk=desk, venue="Kraken", actor=SYSTEM)
        actions.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        actions.open_desks(users=users[1:], venue="Kraken", card=card, actor=SYSTEM)
    differs = {"id", "public_id", "user_id", "desk_id", "opened", "changed", "position", "topic"}
    for model in (Desk, Connection, Election):
        one, other = kept(model, without=differs)
        assert one == other
    events = kept(Event, without=differs)[1:]
    assert events[:3] == events[3:]


def test_an_idle_desk_made_in_bulk_equals_one_made_by_the_actions():
    users: list[User] = [factories.UserFactory.create(), factories.UserFactory.create()]
    with log.turn(actor=SYSTEM):
        actions.open_desk(desk=Desk(user=users[0]), actor=SYSTEM)
        actions.open_desks(users=users[1:], actor=SYSTEM)
    differs = {"id", "public_id", "user_id", "changed", "position", "topic"}
    for model in (Desk, Event):
        one, other = kept(model, without=differs)
        assert one == other


def test_desks_in_bulk_are_not_enrolled_on_a_card_that_was_retired():
    card = factories.a_card()
    actions.retire_card(actor=SYSTEM)
    with pytest.raises(Invalid):
        actions.open_desks(
            users=[factories.UserFactory.create()], venue="Kraken", card=card, actor=SYSTEM
        )
    assert not Desk.objects.exists()


def test_the_first_desk_is_the_users_and_has_the_automation(seeded):
    first = Desk.objects.get(public_id=seeded["desks"][0]["userId"])
    bot = Automation.objects.get(pk=seeded["automation"]["botId"])
    assert first.user.email == seeded["user"]["email"]
    assert bot.desk == first
    election = Election.objects.standing().get(automation=bot)
    assert election.pair == seeded["automation"]["pair"]
    assert election.direction == seeded["automation"]["direction"]
    assert bot.secrets.get().decrypt() == seeded["automation"]["secret"]


def test_the_platform_tokens_have_their_scopes(seeded):
    for name, scopes in (("platformToken", ["read", "write"]), ("readToken", ["read"])):
        token = Token.objects.get(digest__in=keys.all_digests(seeded[name]))
        assert (token.is_platform, token.scopes) == (True, scopes)


def test_the_floor_has_its_secret_and_nox_none(seeded):
    assert SigningSecret.objects.of(Source.FLOOR).get().decrypt() == seeded["floorSecret"]
    assert not SigningSecret.objects.of(Source.NOX).exists()


def test_nox_has_a_secret_when_asked():
    seeded = seed("--desks=1", "--nox")
    assert set(seeded) == FIELDS | {"noxSecret"}
    assert SigningSecret.objects.of(Source.NOX).get().decrypt() == seeded["noxSecret"]


def test_every_address_is_verified_and_only_the_two_printed_accounts_sign_in(seeded):
    printed = {seeded[who]["email"]: seeded[who]["password"] for who in ("admin", "user")}
    assert len(set(printed.values())) == 2
    for user in User.objects.filter(email__in=printed):
        assert user.check_password(printed[user.email])
        assert user.is_staff == (user.email == seeded["admin"]["email"])
    many = User.objects.exclude(email__in=printed)
    assert many.count() == 14
    assert not any(user.has_usable_password() for user in many)
    verified = EmailAddress.objects.filter(verified=True, primary=True, email=F("user__email"))
    assert verified.count() == 16
    assert not Desk.objects.filter(user__is_staff=True).exists()


def test_without_required_mfa_there_is_no_second_factor(seeded):
    assert seeded["admin"]["totpSecret"] is None
    assert not Authenticator.objects.exists()


def test_with_required_mfa_the_printed_secret_makes_valid_codes(settings):
    settings.REQUIRE_STAFF_MFA = True
    secret = seed("--desks=1")["admin"]["totpSecret"]
    assert re.fullmatch(r"[A-Z2-7]{32}", secret)
    factor = Authenticator.objects.get(user__is_staff=True)
    with time_machine.travel(timezone.now(), tick=False):
        assert factor.wrap().validate_code(staff.code_of(secret))
    assert secret not in json.dumps(factor.data)


def test_a_database_that_holds_accounts_is_refused():
    factories.UserFactory.create()
    with pytest.raises(CommandError, match="already has accounts"):
        seed("--desks=1")
    assert User.objects.count() == 1
    assert not Event.objects.exists()


def test_force_seeds_again_with_other_addresses(seeded):
    again = seed("--desks=2", "--idle=1", "--force")
    assert again["user"]["email"] != seeded["user"]["email"]
    assert Card.objects.published().get().standing == 2
    positions = list(Event.objects.values_list("position", flat=True))
    assert positions == list(range(1, len(positions) + 1))


@pytest.mark.parametrize("arguments", [["--desks=0"], ["--desks=-1"], ["--desks=1", "--idle=x"]])
def test_an_invalid_count_is_refused(arguments):
    with pytest.raises(CommandError, match="must be a whole number"):
        seed(*arguments)


def test_progress_is_shown_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setattr("sys.stderr", terminal)
    call_command("seed", "--desks=2", "--idle=1", "--json", stdout=io.StringIO())
    monkeypatch.setattr("sys.stderr", file)
    call_command("seed", "--desks=1", "--force", stdout=io.StringIO())
    assert "3/3 " in terminal.getvalue()
    assert not file.getvalue()
