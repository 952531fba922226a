"""The audit: what it says of a sound database, and that it finds each breach planted by hand."""

import io
import json
import threading

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.core.management import CommandError, call_command
from django.db import InternalError, OperationalError, connection, connections, transaction
from django.db.models import F

from desks import actions
from desks.models import Automation, Card, Connection, Desk, Election
from events import log
from events.kinds import Kind
from events.models import Event, Head
from events.snapshot import snapshot
from signals.audit import findings as audit
from signals.audit import statements
from signals.models import Signal
from tests.client import deploy_path, post, push
from tests.factories import (
    a_bot,
    a_card,
    a_connected_desk,
    a_desk,
    a_desk_token,
    a_platform_token,
    a_ready_desk,
    a_shared_secret,
    a_staff_user,
)
from tests.signals.bodies import deploy, fanout, nox, tradingview
from tokens import actions as tokens
from tokens.models import SigningSecret, Source, Token

DIGESTS, SECRETS_OPEN, FACTORS_OPEN = audit.OF_KEYS


@pytest.fixture
def lively(db):
    """A database in which everything has happened that changes it."""
    engine, other = a_platform_token(), a_platform_token("read")
    early = a_card("Early")
    desks = [a_ready_desk(early) for _ in range(3)]
    push(fanout(), engine)
    a_card("Late")
    late = Card.objects.published().get()
    for desk in desks:
        actions.enrol(desk=desk, card_id=late.pk)
    push(fanout(), engine)
    actions.withdraw_from_card(desk=desks[0])
    post(deploy_path(desks[0].public_id), deploy(), engine)  # refused
    for mode in ("draft", "dry_run", "paper"):
        push(nox(mode=mode), engine)
        push(nox(mode=mode, fanout=False, userId=desks[1].public_id), engine)
        push(nox(mode=mode, fanout=False), engine)
    post(deploy_path(desks[1].public_id), deploy(), engine)
    a_bots_life(desks[1])
    actions.disconnect(desk=desks[2])
    actions.connect(desk=desks[2], venue="Kraken")
    a_connected_desk(), a_desk()
    a_desk_token(desks[1]), a_desk_token(desks[1])
    tokens.revoke(token=Token.objects.get(hint=other[:9] + "…" + other[-4:]))
    a_shared_secret(Source.FLOOR), a_shared_secret(Source.FLOOR)
    a_staffs_factors()
    push(fanout(), engine)
    push(fanout(pair="DOGE/USDT"), engine)  # refused


def a_bots_life(desk):
    bot, gone = a_bot(desk), a_bot(desk)
    push(tradingview(bot), secret=bot.secret)
    push(tradingview(bot, direction="long"), secret=bot.secret)  # refused
    actions.elect(automation=bot.automation, pair="SOL/USDT", direction="long")
    push(tradingview(bot, pair="SOL/USDT", direction="long"), secret=bot.secret)
    tokens.remove_automation(automation=gone.automation)


def a_staffs_factors():
    staff = a_staff_user()
    TOTP.activate(staff, generate_totp_secret())
    RecoveryCodes.activate(staff)


def broken():
    """What the audit says is broken: the promises, each with the first that break it."""
    return {found.says: found.first for found in audit.findings() if found.broken}


# --- A sound one --------------------------------------------------------------------------------


def test_a_lively_database_keeps_every_promise(lively):
    assert broken() == {}


def test_every_promise_is_held_against_something(lively):
    assert [found.says for found in audit.findings() if not found.count] == []


def test_an_empty_database_keeps_every_promise(db):
    assert broken() == {}


# --- Breaches -----------------------------------------------------------------------------------


def the_event(kind):
    return Event.objects.filter(kind=kind).latest("position")


def misname(kind):
    """An event that says something else now."""
    Event.objects.filter(pk=the_event(kind).pk).update(kind=Kind.SIGNAL_REFUSED)


def an_event_gone():
    the_event(Kind.SIGNAL_REFUSED).delete()


def an_event_gone_in_the_middle():
    Event.objects.filter(kind=Kind.SIGNAL_REFUSED).earliest("position").delete()


def a_head_that_ran_ahead():
    Head.objects.update(position=F("position") + 1)


def a_head_that_lags():
    Head.objects.update(position=F("position") - 1)


def a_signal_gone():
    Signal.objects.filter(outcome="recorded").latest("position").delete()


def a_signal_without_its_event():
    Event.objects.filter(pk=Signal.objects.latest("position").pk).update(signal_id=None)


def a_second_event_of_a_signal():
    signal = Signal.objects.latest("position")
    Event.objects.filter(pk=the_event(Kind.SIGNAL_REFUSED).pk).update(signal_id=signal.public_id)


def an_event_of_another_outcome():
    signal = Signal.objects.filter(outcome="recorded").latest("position")
    Event.objects.filter(pk=signal.pk).update(kind=Kind.SIGNAL_DRY_RUN)


def a_fill_addressed_to_another():
    signal = Signal.objects.filter(user_id__isnull=False).latest("position")
    other = Desk.objects.exclude(public_id=signal.user_id).first()
    Event.objects.filter(pk=signal.pk).update(topic=other.public_id)


def another_number_told():
    Signal.objects.filter(pk=the_event(Kind.SIGNAL_RECORDED).pk).update(matched=7)


def a_nonce_spent_twice():
    drop("ALTER TABLE signals_signal DROP CONSTRAINT nonce_is_single_use")
    first, second = Signal.objects.filter(signer="nox").order_by("position")[:2]
    Signal.objects.filter(pk=second.pk).update(nonce=first.nonce)


def a_fan_out_that_tells_another_number():
    event = Event.objects.filter(topic__startswith="card_").latest("position")
    event.platform_content["data"] |= {"matched": 9, "filled": 9}
    Event.objects.filter(pk=event.pk).update(platform_content=event.platform_content)
    Signal.objects.filter(pk=event.pk).update(matched=9, filled=9)


def a_fan_out_that_filled_nobody():
    Signal.objects.filter(fanout=True, outcome="filled", matched__gt=0).update(filled=0)


def a_fan_out_of_another_pair():
    fan_out = Signal.objects.filter(fanout=True, outcome="filled").latest("position")
    Signal.objects.filter(pk=fan_out.pk).update(pair="DOGE/USDT")


def a_deploy_of_another_direction():
    deployed = Signal.objects.filter(user_id__isnull=False, bot_id=None, outcome="filled")
    Signal.objects.filter(pk=deployed.latest("position").pk).update(direction="short")


def a_bots_fill_of_another_pair():
    pushed = Signal.objects.exclude(bot_id=None).latest("position")
    Signal.objects.filter(pk=pushed.pk).update(pair="DOGE/USDT")


def a_card_with_another_name():
    Card.objects.published().update(name="Forged")


def a_card_told_otherwise():
    event = the_event(Kind.CARD_RETIRED)
    event.content["data"]["card"]["pair"] = "DOGE/USDT"
    Event.objects.filter(pk=event.pk).update(content=event.content)


def two_cards_published():
    drop("DROP INDEX one_card_is_published")
    Card.objects.filter(name="Early").update(closed=None, retired_at=None)


def a_wrong_counter():
    Card.objects.published().update(standing=F("standing") + 1)


def an_election_of_another_pair():
    """Of a bot that never pushed: a fill would miss it as well."""
    mute = Election.objects.filter(automation__removed_at__isnull=False)
    mute.update(pair="DOGE/USDT")


def an_election_that_was_never_told():
    misname(Kind.ELECTION_MADE)


def a_withdrawal_that_was_never_told():
    misname(Kind.ELECTION_WITHDRAWN)


def two_elections_of_a_desk():
    drop("DROP INDEX one_election_of_a_desk_on_a_card")
    stands = Election.objects.standing().filter(card__isnull=False).first()
    second(stands)
    Card.objects.filter(pk=stands.card_id).update(standing=F("standing") + 1)


def two_elections_of_a_bot():
    drop("DROP INDEX one_election_of_an_automation")
    second(Election.objects.standing().filter(automation__isnull=False).first())


def second(election):
    with log.turn() as turn:
        election.pk, election.opened = None, turn.position
        election.save(force_insert=True)
        topic = election.desk.public_id
        turn.append(Kind.ELECTION_MADE, topic=topic, data=election.as_json())


def a_desk_that_was_never_told():
    misname(Kind.DESK_CREATED)


def a_connection_that_was_never_told():
    misname(Kind.DESK_CONNECTED)


def a_connection_gone():
    Connection.objects.filter(desk__elections=None).delete()


def a_desk_that_forgot_its_connection():
    Desk.objects.filter(connection__isnull=False, elections=None).update(connected=False)


def a_desk_that_forgot_its_card():
    Desk.objects.exclude(enrolled=None).update(enrolled=None)


def a_desk_that_stands_nowhere():
    nowhere = Desk.objects.filter(connected=True, elections=None)
    nowhere.update(enrolled=Card.objects.published().get())


def a_bot_that_came_back():
    Automation.objects.exclude(removed_at=None).update(removed_at=None)


def a_token_that_came_back():
    Token.objects.filter(scope="platform").exclude(revoked_at=None).update(revoked_at=None)


def a_secret_that_was_never_told():
    misname(Kind.SECRET_GENERATED)


def a_digest_of_no_key():
    Token.objects.filter(scope="platform", revoked_at=None).update(key_id="00000000")


def a_secret_moved_to_another_row():
    one, other = SigningSecret.objects.filter(source=Source.FLOOR)
    SigningSecret.objects.filter(pk=one.pk).update(ciphertext=bytes(other.ciphertext))


def a_secret_of_no_key():
    SigningSecret.objects.filter(ends_at=None, source=Source.FLOOR).update(key_id="00000000")


def a_cut_secret():
    SigningSecret.objects.filter(ends_at=None, source=Source.FLOOR).update(ciphertext=b"cut")


def a_seed_that_does_not_open():
    spoil(Authenticator.Type.TOTP, "secret")


def recovery_codes_that_do_not_open():
    spoil(Authenticator.Type.RECOVERY_CODES, "seed")


def spoil(kind, name):
    factor = Authenticator.objects.get(type=kind)
    factor.data[name] = factor.data[name][:-2] + "zz"
    factor.save()


def drop(statement):
    """Takes away what forbids a breach, until the plant is rolled back."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(statement)


BREACHES = {
    an_event_gone: {statements.CONTIGUOUS},
    an_event_gone_in_the_middle: {statements.CONTIGUOUS},
    a_head_that_ran_ahead: {statements.CONTIGUOUS},
    a_head_that_lags: {statements.CONTIGUOUS},
    a_signal_gone: {statements.ONE_EVENT},
    a_signal_without_its_event: {statements.ONE_EVENT},
    a_second_event_of_a_signal: {statements.ONE_EVENT},
    an_event_of_another_outcome: {statements.ONE_EVENT},
    a_fill_addressed_to_another: {statements.ONE_EVENT},
    another_number_told: {statements.ONE_EVENT},
    a_fan_out_that_tells_another_number: {statements.NUMBERS},
    a_fan_out_that_filled_nobody: {statements.NUMBERS},
    a_fan_out_of_another_pair: {statements.ON_ITS_CARD},
    a_deploy_of_another_direction: {statements.CONSENTED},
    a_bots_fill_of_another_pair: {statements.CONSENTED},
    a_card_with_another_name: {statements.PUBLISHED},
    a_card_told_otherwise: {statements.RETIRED},
    # The elections on it stand again, and their desks know nothing of it.
    two_cards_published: {statements.ONE_CARD, statements.RETIRED, statements.KNOWS_CARD},
    a_wrong_counter: {statements.STANDING},
    # It was withdrawn, and both are told.
    an_election_of_another_pair: {statements.MADE, statements.WITHDRAWN},
    an_election_that_was_never_told: {statements.MADE},
    a_withdrawal_that_was_never_told: {statements.WITHDRAWN},
    two_elections_of_a_desk: {statements.ONE_ELECTION},
    two_elections_of_a_bot: {statements.ONE_ELECTION},
    a_desk_that_was_never_told: {statements.CREATED},
    a_connection_that_was_never_told: {statements.CONNECTED},
    a_connection_gone: {statements.CONNECTED, statements.KNOWS_CONNECTION},
    a_desk_that_forgot_its_connection: {statements.KNOWS_CONNECTION},
    a_desk_that_forgot_its_card: {statements.KNOWS_CARD},
    a_desk_that_stands_nowhere: {statements.KNOWS_CARD},
    a_bot_that_came_back: {statements.BOTS},
    a_token_that_came_back: {statements.TOKENS},
    a_secret_that_was_never_told: {statements.SECRETS},
    a_digest_of_no_key: {DIGESTS},
    a_secret_moved_to_another_row: {SECRETS_OPEN},
    a_secret_of_no_key: {SECRETS_OPEN},
    a_cut_secret: {SECRETS_OPEN},
    a_seed_that_does_not_open: {FACTORS_OPEN},
    recovery_codes_that_do_not_open: {FACTORS_OPEN},
}


def found_after(plant):
    """The lines that are broken by a plant, which is taken away again."""
    before = transaction.savepoint()
    plant()
    found = broken()
    transaction.savepoint_rollback(before)
    assert all(found.values()), "a breach without a name"
    return set(found)


def test_each_breach_planted_by_hand_is_found_by_the_line_that_it_breaks(lively):
    expected = {
        plant.__name__: {getattr(line, "says", line) for line in lines}
        for plant, lines in BREACHES.items()
    }
    assert {plant.__name__: found_after(plant) for plant in BREACHES} == expected
    assert set.union(*expected.values()) | {statements.SPENT_ONCE.says} == {
        found.says for found in audit.findings()
    }, "a line without a breach"


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite keeps its constraint")
def test_a_nonce_spent_twice_is_found(lively):
    assert found_after(a_nonce_spent_twice) == {statements.SPENT_ONCE.says}


def test_a_revoked_token_of_a_lost_key_breaks_nothing(lively):
    Token.objects.exclude(revoked_at=None).update(key_id="00000000")
    assert broken() == {}


# --- The command --------------------------------------------------------------------------------


def run(*arguments):
    """What the command prints, and whether it fails."""
    printed = io.StringIO()
    try:
        call_command("audit", *arguments, stdout=printed)
    except CommandError as failure:
        return printed.getvalue(), str(failure)
    return printed.getvalue(), None


@pytest.mark.django_db(transaction=True)
class TestTheCommand:
    def test_it_prints_a_line_for_each_promise_with_its_count(self, lively):
        printed, failed = run()
        head = Head.objects.get()
        assert failed is None
        assert len(printed.splitlines()) == audit.HOW_MANY + 1
        assert f"ok  {head.position:>16,} {statements.CONTIGUOUS.says}" in printed
        assert f"All of it holds at position {head.position:,}, epoch {head.epoch}." in printed

    def test_it_names_the_first_of_what_is_broken_and_fails(self, lively):
        missing = the_event(Kind.SIGNAL_REFUSED).id
        an_event_gone()
        printed, failed = run()
        assert f"{statements.CONTIGUOUS.says}: not 1, {missing}\n" in printed
        assert failed == f"1 of {audit.HOW_MANY} promises are broken."

    def test_of_very_many_it_names_a_few(self, lively):
        Desk.objects.update(connected=True)
        for _ in range(6):
            a_desk()
        Desk.objects.filter(connection=None).update(connected=True)
        printed, failed = run("--json")
        line = next(p for p in json.loads(printed)["promises"] if p["broken"])
        assert failed
        assert (line["broken"], len(line["first"])) == (7, audit.FEW)

    def test_it_is_one_object_for_a_program(self, lively):
        said = json.loads(run("--json")[0])
        head = Head.objects.get()
        assert (said["holds"], said["position"], said["epoch"]) == (True, head.position, head.epoch)
        assert len(said["promises"]) == audit.HOW_MANY

    def test_what_is_written_meanwhile_waits_for_nothing_and_is_not_seen(self, lively):
        """Another connection writes while the snapshot is open."""
        before = Head.objects.get().position
        with snapshot():
            assert Head.objects.get().position == before
            write_beside()
            assert Head.objects.get().position == before
            assert broken() == {}
        assert Head.objects.get().position == before + 1

    def test_a_snapshot_writes_nothing(self, lively):
        with pytest.raises((OperationalError, InternalError)), snapshot():
            Head.objects.update(epoch="written")
        Head.objects.update(epoch="afterwar")


def write_beside():
    """A desk of somebody's, in a thread and so on a connection of its own."""

    def write():
        a_desk()
        connections.close_all()

    writer = threading.Thread(target=write)
    writer.start()
    writer.join()
