"""The texts of signing secrets that have ended are erased. Their rows stay."""

import asyncio
import secrets
import threading
from datetime import timedelta
from itertools import product

import pytest
import time_machine
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from desks.models import Automation
from events.actors import SYSTEM
from signals.management.commands import deliver as loops
from signals.outbound.database import in_database
from tests import factories
from tests.client import CHECK, HOOK, code, push, signed, written
from tests.processes import meet, run_together
from tests.signals import bodies
from tests.signals.audit.stage import broken
from tokens import actions, key_rotation, secret_erasure
from tokens.account_closing import close_account
from tokens.callers import credential_cache
from tokens.choices import Source
from tokens.models import SigningSecret
from tokens.models.secret import NO_TEXT

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)


def replace(bot: factories.Bot, overlap: timedelta = timedelta(0)) -> str:
    """Replaces the bot's secret; returns the new one's text."""
    return actions.generate_secret(
        source=Source.TRADINGVIEW, automation=bot.automation, overlap=overlap, actor=SYSTEM
    )[0]


def texts() -> list[bool]:
    """Whether each secret still has its text, oldest first."""
    rows = SigningSecret.objects.order_by("id").values_list("ciphertext", "key_id")
    assert all(bool(ciphertext) == (key_id != NO_TEXT) for ciphertext, key_id in rows)
    return [bool(ciphertext) for ciphertext, _ in rows]


def test_the_text_of_an_ended_secret_is_erased_and_those_in_force_verify(bot):
    replace(bot)
    second, third = replace(bot), replace(bot, overlap=HOUR)
    assert not secret_erasure.erase_ended()
    assert texts() == [False, False, True, True]
    for text in (second, third):
        assert code(push(bodies.tradingview(bot), secret=text)) == "ok"
    assert code(push(bodies.tradingview(bot), secret=bot.secret)) == "signature_invalid"
    assert broken() == {}


def test_an_overlap_ends_by_the_logs_time(bot):
    new = replace(bot, overlap=HOUR)
    with time_machine.travel(timezone.now() + 2 * HOUR):
        secret_erasure.erase_ended()
        assert texts() == [True, True], "a server whose clock is behind may still accept it"
        assert code(push(bodies.tradingview(bot), secret=new)) == "ok"
        secret_erasure.erase_ended()
        assert texts() == [False, True]
    assert broken() == {}


def test_a_server_whose_clock_is_behind_accepts_nothing_with_an_erased_secret(bot, caplog):
    """It still takes the secret for live: what it compares with is nobody's text, and not empty."""
    late = timezone.now() + HOUR
    with time_machine.travel(late):
        actions.end_secret(secret=SigningSecret.objects.get(), actor=SYSTEM)
    secret_erasure.erase_ended()
    assert SigningSecret.objects.live(timezone.now()).exists()
    body = written(bodies.tradingview(bot))
    for path, text in product((HOOK, CHECK), (bot.secret, "")):
        answer = Client().post(path, body, "application/json", headers=signed(text, body=body))
        assert code(answer) == "signature_invalid", path
    assert "Cannot decrypt" not in caplog.text


def test_a_cached_secret_that_was_erased_is_refused(bot):
    assert code(push(bodies.tradingview(bot), secret=bot.secret)) == "ok"
    owner = (Source.TRADINGVIEW, bot.id)
    cached = credential_cache.secrets.get(owner, timezone.now())
    actions.end_secret(secret=SigningSecret.objects.get(), actor=SYSTEM)
    secret_erasure.erase_ended()
    credential_cache.secrets.put(owner, cached, timezone.now())  # as in another process
    assert code(push(bodies.tradingview(bot), secret=bot.secret)) == "signature_invalid"


def test_an_erased_nox_secret_still_keeps_the_floor_secret_from_signing_for_nox():
    floor = factories.a_shared_secret(Source.FLOOR)
    factories.a_shared_secret(Source.NOX)
    actions.end_secret(secret=SigningSecret.objects.get(source=Source.NOX), actor=SYSTEM)
    secret_erasure.erase_ended()
    assert texts() == [True, False]
    factories.a_card()
    assert code(push(bodies.nox(), secret=floor)) == "floor_secret_refused"


def test_what_fails_at_closing_is_erased_by_the_runner(desk, bot, caplog):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secret_erasure, "_ended_secrets", unreachable)
        close_account(desk)
    assert texts() == [True]
    assert "the runner does it" in caplog.text
    secret_erasure.erase_ended()
    assert texts() == [False]


def unreachable():
    with connection.cursor() as cursor:
        cursor.execute("SELECT nothing")


def test_it_is_done_in_batches(bot):
    for _ in range(3):
        replace(bot)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secret_erasure, "MAX_ERASED", 2)
        assert [secret_erasure.erase_ended(), secret_erasure.erase_ended()] == [True, False]
    assert texts() == [False, False, False, True]


def test_the_database_refuses_to_erase_a_secret_in_use(bot):
    with pytest.raises(IntegrityError), transaction.atomic():
        SigningSecret.objects.all().erase()


def test_the_audit_finds_a_secret_that_was_erased_before_its_end(bot):
    replace(bot, overlap=HOUR)
    old = SigningSecret.objects.get(ends_at__isnull=False)
    SigningSecret.objects.filter(pk=old.pk).erase()
    assert broken() == {"sealed": [old.public_id]}


def test_a_rotation_of_keys_brings_no_erased_text_back(bot, settings):
    replace(bot)
    replace(bot)
    settings.SECRET_KEYS = [secrets.token_bytes(32), *settings.SECRET_KEYS]
    moving = key_rotation.reencrypt(SigningSecret)
    next(moving)  # it has read the other rows, too
    secret_erasure.erase_ended()
    list(moving)
    assert texts() == [False, False, True]
    assert not key_rotation.on_old_keys(SigningSecret).exists()


async def close_connections() -> None:
    """Closes those of the threads in which the runner and this test used the database."""
    for pool in (in_database, loops.in_repeating):
        both = threading.Barrier(2, timeout=60)

        def close(both: threading.Barrier = both) -> None:
            both.wait()
            connection.close()

        await asyncio.gather(pool(close), pool(close))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "ERASING_TICK", 0.01)


@pytest.mark.processes
def test_the_runner_erases_what_ends(bot, quick):
    assert loops.erase_ended_secrets in loops.LOOPS
    replace(bot)

    async def run() -> None:
        stop = asyncio.Event()
        service = asyncio.create_task(loops.erase_ended_secrets(stop))
        async with asyncio.timeout(60):
            while await in_database(texts) != [False, True]:
                await asyncio.sleep(0.01)
        stop.set()
        await service
        await close_connections()

    asyncio.run(run())


def race(bot: Automation | None) -> None:
    """Replaces the secrets of a bot, or erases what has ended."""
    meet()
    for number in range(15):
        if bot is None:
            secret_erasure.erase_ended()
        else:
            actions.generate_secret(
                source=Source.TRADINGVIEW,
                automation=bot,
                overlap=HOUR * (number % 2),
                actor=SYSTEM,
            )


@pytest.mark.processes
def test_two_runners_erase_while_secrets_are_replaced_and_none_in_force_loses_its_text(desk):
    bots = [factories.a_bot(desk).automation for _ in range(2)]
    run_together(race, [(None,), (None,), *((bot,) for bot in bots)])
    secret_erasure.erase_ended()
    live = SigningSecret.objects.live(timezone.now())
    assert live.count() == 2
    assert {secret.decrypt()[:9] for secret in live} == {"svc_sign_"}
    assert not SigningSecret.objects.with_text().exclude(pk__in=live.values("pk")).exists()
    assert broken() == {}
