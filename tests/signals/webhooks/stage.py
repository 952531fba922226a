"""Subscriptions for tests, and the requests that make and change them."""

from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from desks.actions import add_automation
from desks.models import Automation, Desk
from events.actors import SYSTEM
from events.feed import read_identity
from events.http.cursors import log_cursor
from events.models import Event, Head
from events.times import truncate_to_milliseconds
from signals.webhooks import actions
from signals.webhooks.models import DeliveryAttempt, DisabledReason, Subscription
from tests import factories
from tests.client import JSON, SUBSCRIPTIONS, Response

URL = "https://hooks.example.com/quietly/1f3a?team=7"


def a_webhook(
    desk: Desk | None = None, *kinds: str, url: str = URL, name: str = "", bot: str = ""
) -> Subscription:
    """A subscription of the desk, or of the platform, whose URL has not answered a test."""
    given = {"name": name, "url": url, "bot": bot}
    return actions.create(desk=desk, kinds=kinds, actor=SYSTEM, **given)[1]


def an_active_webhook(desk: Desk | None = None, *kinds: str, url: str = URL) -> Subscription:
    webhook = a_webhook(desk, *kinds, url=url)
    assert actions.verify(webhook=webhook)
    webhook.refresh_from_db()
    return webhook


def a_webhooks_life(desk: Desk | None) -> None:
    """Every kind of event of a subscription, and rows in each state. One of the two is removed."""
    for comes_to_nothing in (True, False):
        webhook = an_active_webhook(desk, "signal.filled")
        actions.change(webhook=webhook, name="Orders", actor=SYSTEM)
        actions.change(webhook=webhook, kinds=["card.retired"], url=URL + "&x", actor=SYSTEM)
        actions.pause(webhook=webhook, actor=SYSTEM)
        actions.change(webhook=webhook, kinds=[], actor=SYSTEM)
        actions.resume(webhook=webhook, actor=SYSTEM)
        for overlap in (timedelta(days=1), timedelta(0), timedelta(days=2)):
            actions.replace_secret(webhook=webhook, overlap=overlap, actor=SYSTEM)
        actions.rewind(webhook=webhook, after=cursor_at(1), actor=SYSTEM)
        webhook.refresh_from_db()
        skipped = actions.skip(webhook=webhook, until=Head.objects.get().position, actor=SYSTEM)
        assert skipped
        webhook.refresh_from_db()
        assert actions.verify(webhook=webhook)
        let_fail(webhook, 20)
        actions.note_failing(timezone.now())
        webhook.refresh_from_db()
        actions.note_that_it_works(webhook=webhook)
        assert actions.disable(webhook=webhook, reason=DisabledReason.GONE)
        if comes_to_nothing:
            actions.remove(webhook=webhook, actor=SYSTEM)
    an_active_webhook(desk)
    chosen = ("signal.*", "card.retired")
    bot = Automation.objects.not_removed().filter(desk=desk).first() if desk else None
    limited = a_webhook(desk, *chosen, name="Fills", bot=bot.pk if bot else "")
    actions.change(webhook=limited, kinds=["card.*"], bot="", actor=SYSTEM)
    let_fail(limited, 20)
    actions.note_failing(timezone.now())
    a_webhook(desk, *chosen, bot=bot.pk if bot else "")


def add_bots(desk: Desk, count: int = 1) -> list[int]:
    """Adds bots, each of which is an event. Returns the positions of these events."""
    for number in range(count):
        add_automation(desk=desk, name=f"Bot {number}", actor=SYSTEM)
    made = Event.objects.filter(topic=desk.public_id, kind="automation.created")
    newest_first = made.order_by("-position").values_list("position", flat=True)
    return sorted(newest_first[:count])


def let_fail(webhook: Subscription, minutes: float) -> Subscription:
    """As if it had failed for so long, and nothing was on its way."""
    since = truncate_to_milliseconds(timezone.now()) - timedelta(minutes=minutes)
    failed = {"failures": 4, "failing_since": since, "leased_until": None}
    Subscription.objects.filter(pk=webhook.pk).update(**failed)
    webhook.refresh_from_db()
    return webhook


def secrets_of(webhook: Subscription) -> list[str]:
    """The texts of the secrets that sign its deliveries, newest first."""
    live = webhook.secrets.live(timezone.now()).select_related("subscription")
    return [secret.decrypt() for secret in live]


def webhooks_to_look_at(desk: Desk) -> tuple[Subscription, Subscription, Subscription]:
    """A desk's webhook that fails, with attempts; one of the platform, and one that is paused."""
    paused = an_active_webhook()
    actions.pause(webhook=paused, actor=SYSTEM)
    return a_failing_webhook(desk), an_active_webhook(), paused


def a_failing_webhook(desk: Desk | None) -> Subscription:
    """It delivered an event, and fails at the next: by an answer, then without one."""
    webhook = an_active_webhook(desk)
    position = webhook.cursor_position  # its own first event, before that of its verification
    now = truncate_to_milliseconds(timezone.now())
    tried = {"subscription": webhook, "at": now, "milliseconds": 31}
    attempts = [
        DeliveryAttempt(**tried, status=204),
        DeliveryAttempt(**tried, status=204, position=position),
        DeliveryAttempt(**tried, status=500, position=position + 1),
        DeliveryAttempt(**tried, error="dns", position=position + 1),
    ]
    attempts[2].keep_answer(b"Cannot POST /quietly/1f3a <b>now</b>")
    DeliveryAttempt.objects.bulk_create(attempts)
    failing = {"failures": 2, "failing_since": now, "last_delivered_at": now, "last_status": 500}
    later = now + timedelta(seconds=30)
    Subscription.objects.filter(pk=webhook.pk).update(
        cursor_position=position, next_attempt_at=later, test_requested_at=None, **failing
    )
    webhook.refresh_from_db()
    return webhook


def a_lagging_webhook(desk: Desk | None) -> tuple[Subscription, list[int]]:
    """A webhook, and the positions of what waits for it: 5 events of yesterday, then 2 of now."""
    webhook = an_active_webhook(desk, "automation.created")
    of_bots = desk or factories.a_desk()
    old = add_bots(of_bots, 5)
    Event.objects.update(at=timezone.now() - timedelta(days=1))
    return webhook, old + add_bots(of_bots, 2)


def of(webhook: Subscription, act: str = "") -> str:
    """The path of a subscription, or of an act on it."""
    return f"{SUBSCRIPTIONS}/{webhook.public_id}{act and f'/{act}'}"


def create(browser: Client, body: Any = None, **headers: str) -> Response:
    return browser.post(
        SUBSCRIPTIONS, {"url": URL} if body is None else body, JSON, headers=headers
    )


def change(browser: Client, webhook: Subscription, **body: Any) -> Response:
    return browser.patch(of(webhook), body, JSON)


def act(browser: Client, webhook: Subscription, name: str, **body: Any) -> Response:
    return browser.post(of(webhook, name), body, JSON)


def cursor_at(position: int) -> str:
    return log_cursor(Head.objects.get().epoch, position, read_identity(position))
