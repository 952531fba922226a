"""Builds a database with every kind of event, for the tests of the audit."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from operator import itemgetter
from typing import Any

import time_machine
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.db import connection, transaction
from django.db.models import CheckConstraint, Model
from django.utils import timezone

from desks import actions
from desks.expectations import watch
from desks.models import Automation, Card
from events.actors import SYSTEM
from events.kinds import EVERYONE, PLATFORM
from events.models import Event
from signals.audit.findings import Findings
from signals.audit.rows import LoggedEvent, Owner
from signals.audit.run import Proved, Stored, compare_owners, run_audit
from signals.intake.models import Signal
from tests.client import code, deploy_path, post, push
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
    expect,
    expecting,
)
from tests.signals.bodies import deploy, fanout, floor, nox, tradingview
from tests.signals.notices.chats.stage import a_chat
from tests.signals.webhooks.stage import a_webhook, a_webhooks_life
from tokens import account_closing
from tokens import actions as tokens
from tokens.account_closing import close_account
from tokens.choices import Source
from tokens.models import Token
from tokens.models.token import READ, WRITE


def a_lively_history() -> None:
    """Creates every kind of event, and rows of every table in each state."""
    expected_bots()
    engine = a_platform_token()
    floor_secret = a_shared_secret(Source.FLOOR)
    early = a_card("Early")
    desks = [a_ready_desk(early) for _ in range(4)]
    accepted(push(fanout(), engine))
    accepted(push(nox(mode="dry_run"), secret=floor_secret))
    late = a_card("Late")
    for desk in desks:
        actions.enrol(desk=desk, card_id=late.pk, actor=SYSTEM)
    accepted(push(fanout(), engine))
    actions.withdraw(desk=desks[0], actor=SYSTEM)
    assert code(post(deploy_path(desks[0].public_id), deploy(), engine)) == "desk_not_ready"
    every_mode(desks[1], engine)
    accepted(post(deploy_path(desks[1].public_id), deploy(), engine))
    accepted(push(floor(desks[1]), secret=floor_secret))
    a_bots_life(desks[1])
    actions.disconnect(desk=desks[2], actor=SYSTEM)
    actions.connect(desk=desks[2], venue="Kraken", actor=SYSTEM)
    a_connected_desk(), a_desk()
    a_shut_out_desk(late)
    a_closed_desk(late)
    a_webhooks_life(desks[1]), a_webhooks_life(None)
    a_chat(desks[1].user)
    credentials(desks[1])
    accepted(push(fanout(), engine))
    assert code(push(fanout(pair="DOGE/USDT"), engine)) == "pair_mismatch"


def a_brief_history() -> None:
    """A signal that was refused and one that filled."""
    engine = a_platform_token()
    a_ready_desk(a_card())
    assert code(push(fanout(pair="DOGE/USDT"), engine)) == "pair_mismatch"
    accepted(push(fanout(), engine))


def accepted(answer):
    assert code(answer) == "ok"


def every_mode(desk, engine):
    for mode in ("draft", "dry_run", "paper"):
        accepted(push(nox(mode=mode, size_quote=12.5, decision_ref="d"), engine))
        accepted(push(nox(mode=mode, fanout=False, userId=desk.public_id), engine))
        accepted(push(nox(mode=mode, fanout=False), engine))


def a_bots_life(desk):
    bot, gone = a_bot(desk), a_bot(desk)
    accepted(push(tradingview(bot), secret=bot.secret))
    assert code(push(tradingview(bot, direction="long"), secret=bot.secret)) != "ok"
    actions.elect(automation=bot.automation, pair="SOL/USDT", direction="long", actor=SYSTEM)
    accepted(push(tradingview(bot, pair="SOL/USDT", direction="long"), secret=bot.secret))
    tokens.remove_automation(automation=gone.automation, actor=SYSTEM)


def expected_bots() -> None:
    """Bots that were heard again, are silent, on time, no longer expected, or removed.

    All of it happened in the last hours: the log's time never runs back.
    """
    hour, now = timedelta(hours=1), timezone.now()
    often, daily = expecting(hour, timedelta(0)), expecting(None, hour)
    with time_machine.travel(now - 4 * hour):
        desk = a_connected_desk()
        heard, silent, weekly, over, gone = bots = [a_bot(desk) for _ in range(5)]
        for bot in bots:
            expect(bot, daily if bot is weekly else often)
        expect(weekly, daily, max_age=timedelta(seconds=90))
        accepted(push(tradingview(heard), secret=heard.secret))
    with time_machine.travel(now - 2 * hour):
        watch(timezone.now())
        accepted(push(tradingview(heard), secret=heard.secret))
        accepted(push(tradingview(heard), secret=heard.secret))
        watch(timezone.now())
        expect(over, None)
        tokens.remove_automation(automation=gone.automation, actor=SYSTEM)
    assert silent.automation in Automation.objects.silent()


def a_shut_out_desk(card: Card) -> None:
    for comes_back in (True, False):
        desk = a_ready_desk(card)
        a_bot(desk), a_desk_token(desk), a_webhook(desk)
        account_closing.deactivate(user=desk.user, actor=SYSTEM)
        if comes_back:
            account_closing.reactivate(user=desk.user, actor=SYSTEM)


def a_closed_desk(card: Card) -> None:
    desk = a_ready_desk(card)
    a_bot(desk), a_desk_token(desk), a_webhook(desk)
    close_account(desk)


def credentials(desk):
    a_desk_token(desk), a_desk_token(desk)
    revoked = tokens.mint_platform_token(name="Old", scopes=[READ], actor=SYSTEM)[1]
    tokens.revoke(token=Token.objects.get(pk=revoked.pk), actor=SYSTEM)
    later = timezone.now() + timedelta(days=30)
    tokens.mint_platform_token(name="Later", scopes=[WRITE], expires_at=later, actor=SYSTEM)
    a_shared_secret(Source.NOX), a_shared_secret(Source.FLOOR)
    week = timedelta(days=7)
    tokens.generate_secret(source=Source.NOX, overlap=week, actor=SYSTEM)
    staff = a_staff_user("factors@example.com")
    TOTP.activate(staff, generate_totp_secret())
    RecoveryCodes.activate(staff)


def audited(
    proved: Proved | None = None, keep: Callable[[Owner], None] = lambda owner: None
) -> Findings:
    """What an audit finds in the database, from what was proved to the end of the log."""
    findings = Findings()
    run_audit(findings, proved or Proved(), keep)
    return findings


def broken(proved: Proved | None = None) -> dict[str, list[str]]:
    """The broken promises by their names in ``Findings``, each with its first breaches."""
    return _broken(audited(proved))


def broken_by(
    stored: Stored,
    proved: Proved | None = None,
    keep: Callable[[Owner], None] = lambda owner: None,
) -> dict[str, list[str]]:
    """The same of what was read before, by the checks that read nothing else. It is faster."""
    findings = Findings()
    compare_owners(findings, proved or Proved(), stored, keep)
    return _broken(findings)


def _broken(findings: Findings) -> dict[str, list[str]]:
    return {name: finding.first for name, finding in vars(findings).items() if finding.broken}


def named(lines: dict[str, list[str]]) -> set[str]:
    """Everything that the audit named, under any promise."""
    return {name.partition(" ")[0] for names in lines.values() for name in names}


def with_values(stored: Stored, event: LoggedEvent, **values: Any) -> Stored:
    """What was read, but with other values in one event."""
    others = [other for other in stored.events if other is not event]
    return with_event(stored._replace(events=others), event._replace(**values))


def with_event(stored: Stored, event: LoggedEvent) -> Stored:
    """What was read, and one more event, at the place of its topic and position."""
    owner = "" if event.topic in (PLATFORM, EVERYONE) else event.topic
    events = [*stored.events, event._replace(owner=owner)]
    return stored._replace(events=sorted(events, key=itemgetter(0, 1)))


def spoken_of(event: Event | LoggedEvent) -> set[Any]:
    """The names that the audit may use for an event: its own, or that of its row."""
    data = event.content["data"]
    ids = [data.get(name) for name in ("id", "botId", "cardId")]
    secret = data.get("secret") or {}
    return {event.id, event.signal_id, event.topic, *ids, secret.get("id")} - {None}


def proved_at(position: int) -> Proved:
    """What an audit would have proved at an earlier position: what the log up to it describes."""
    owners = []
    with rolled_back():
        for model in (Event, Signal):
            model._default_manager.filter(position__gt=position).delete()
        audited(keep=lambda owner: owners.append((owner.id, copy.deepcopy(owner.saved()))))
    return Proved(position, owners)


@contextmanager
def rolled_back() -> Iterator[None]:
    """A block whose changes are rolled back."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def drop_rules(*models: type[Model]) -> None:
    """Drops the database constraints, as somebody who tampers with rows could."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = ON")
        for model in models:
            for rule in model._meta.constraints:
                for statement in _dropping(model._meta.db_table, rule):
                    cursor.execute(statement)


def restore_rules() -> None:
    """Restores what a rollback does not restore."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA ignore_check_constraints = OFF")


def _dropping(table, rule):
    if isinstance(rule, CheckConstraint) and connection.vendor == "sqlite":
        return []
    if isinstance(rule, CheckConstraint) or not (rule.condition or rule.expressions):
        # SQLite cannot drop unique constraints.
        on_postgresql = f"ALTER TABLE {table} DROP CONSTRAINT {rule.name}"
        return [on_postgresql] if connection.vendor == "postgresql" else []
    return [f"DROP INDEX {rule.name}"]


@contextmanager
def changed(change: str, back: str) -> Iterator[None]:
    """Executes one statement, and the other one at the end."""
    with connection.cursor() as cursor:
        cursor.execute(change)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(back)


def without_an_index() -> AbstractContextManager[None]:
    made = "CREATE INDEX event_kind ON events_event (kind, position)"
    return changed("DROP INDEX event_kind", made)
