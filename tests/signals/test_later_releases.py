"""What only a later release knows stops nothing here: kinds of events, codes, actors and sources.

This release reads them while both serve, and after a step back (``deploy/OPERATING.md``).
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from desks import actions as desks
from desks.models import Automation, Card, Desk, User
from events.actors import SYSTEM
from events.control.lists import row_url
from events.kinds import Kind
from events.models import Event
from signals.intake.models import Signal
from signals.webhooks import actions as webhooks
from signals.webhooks.models import DisabledReason, Subscription
from signals.webhooks.pages import counted
from tests import pages, staff
from tests.client import BOTS, EVENTS, SUBSCRIPTIONS, get, push, signed_in
from tests.factories import a_bot, a_desk_token, a_platform_token
from tests.notices import waiting, write
from tests.signals.bodies import fanout, floor, nox, send
from tests.signals.webhooks.stage import a_failing_webhook, an_active_webhook, of
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.once]

KIND, CODE, REASON = "automation.renamed", "too_loud", "on a whim"
ACTOR, SOURCE = "partner", "sonar"


def change(events, **values):
    """Sets members of the content of these events, ``data__code`` for example."""
    for event in events:
        for name, value in values.items():
            part, member = name.split("__")
            for content in (event.content, event.platform_content or {}):
                if member in (content.get(part) or {}):
                    content[part][member] = value
        event.save()


def new_kinds():
    """Of what a desk and its bot did, of the platform's, and one of a webhook without its id."""
    Event.objects.filter(kind__startswith="automation.").update(kind=KIND)
    Event.objects.filter(kind=Kind.SUBSCRIPTION_VERIFIED).update(kind="subscription.renamed")
    Event.objects.filter(kind=Kind.SUBSCRIPTION_DISABLED).update(
        kind="subscription.limited", content={"signal": None, "data": {}}
    )
    Event.objects.filter(kind=Kind.SIGNAL_DRY_RUN).update(kind="signal.delayed")
    Event.objects.filter(kind=Kind.TOKEN_MINTED).update(kind="alert.raised")


def new_codes():
    change(Event.objects.filter(kind=Kind.SIGNAL_REFUSED), data__code=CODE)


def new_actors():
    Event.objects.update(actor_type=ACTOR, actor_id="prt_1")


def new_sources():
    Signal.objects.update(source=SOURCE)
    change(Event.objects.filter(kind__startswith="signal."), signal__source=SOURCE)
    change(Event.objects.filter(kind=Kind.SIGNAL_REFUSED), data__source=SOURCE)


def new_reasons():
    change(Event.objects.filter(kind=Kind.ELECTION_WITHDRAWN), data__reason=REASON)
    change(Event.objects.filter(kind=Kind.SUBSCRIPTION_DISABLED), data__reason=REASON)
    change(Event.objects.filter(kind=Kind.SUBSCRIPTION_CHANGED), data__changed=["speed"])


def new_values():
    for happens in (new_codes, new_actors, new_sources, new_reasons):
        happens()


@pytest.fixture
def history(settings, desk, bot) -> Desk:
    """A desk with what its pages show, and the platform beside it. No limit counts."""
    settings.LIMITS = dict.fromkeys(settings.LIMITS, "off")
    engine = a_platform_token()
    assert push(floor(desk), engine).status_code == 200
    dry_run = nox(fanout=False, userId=desk.public_id, mode="dry_run")
    assert push(dry_run, engine).status_code == 200
    assert send(bot).status_code == 200
    for _ in range(5):
        assert send(bot, pair="SOL/USDT").status_code == 422
    assert push(floor(desk, direction="short"), engine).status_code == 422
    assert push(fanout(pair="XRP/USDT"), engine).status_code == 422
    assert push(fanout(), engine).status_code == 200
    a_desk_token(desk)
    desks.elect(automation=bot.automation, pair="SOL/USDT", direction="long", actor=SYSTEM)
    for owner in (desk, None):
        webhook = an_active_webhook(owner)
        webhooks.change(webhook=webhook, name="Orders", actor=SYSTEM)
        assert webhooks.disable(webhook=webhook, reason=DisabledReason.GONE)
        a_failing_webhook(owner)
    return desk


def pages_of_owner(desk: Desk) -> Iterator[str]:
    seen = Event.objects.filter(topic__in=[desk.public_id, "all", desk.enrolled_id])
    yield from (reverse("event", args=[event.id]) for event in seen)
    for name in ("desk", "bots", "activity", "activity-csv", "webhooks", "notices"):
        yield reverse(name)
    for bot in Automation.objects.all():
        yield reverse("bot", args=[bot.pk])
    for webhook in Subscription.objects.filter(desk=desk):
        yield reverse("webhook", args=[webhook.public_id])
        yield f"{of(webhook, 'attempts')}"
        yield reverse("skip-events", args=[webhook.public_id])
    yield SUBSCRIPTIONS


def pages_of_staff() -> Iterator[str]:
    yield reverse("admin:index")
    for listed in ("events_event", "signals_signal", "signals_subscription"):
        yield reverse(f"admin:{listed}_changelist")
    yield f"{reverse('admin:events_event_changelist')}?kind=signal.refused"
    for model in (Event, Signal, Subscription, User, Automation, Card, Token, SigningSecret):
        yield from (row_url(row) for row in model._default_manager.all())


def failed(browser: Client, paths: Iterator[str]) -> list[tuple[str, int]]:
    """The pages that are not shown, with their status. An export is read to its end."""
    found = []
    for path in paths:
        answer: Any = browser.get(path)
        if answer.streaming:
            assert b"".join(answer.streaming_content)
        if answer.status_code != 200:
            found.append((path, answer.status_code))
    return found


@pytest.fixture(params=[new_kinds, new_values], ids=["kinds", "values"])
def happens(request) -> Callable[[], None]:
    return request.param


class TestPages:
    def test_each_page_of_the_owner_is_shown(self, history, happens):
        happens()
        assert failed(signed_in(history.user, "password"), pages_of_owner(history)) == []

    def test_each_page_of_staff_is_shown(self, history, happens):
        happens()
        assert failed(staff.a_client(), pages_of_staff()) == []

    def test_the_api_lists_events_and_bots(self, history, happens):
        happens()
        platform, own = a_platform_token(), a_desk_token(history)
        [listed] = get(BOTS, own).json()["bots"]
        assert listed["today"] == {"filled": 1, "refused": 5, "more": False}
        assert len(get(f"{EVENTS}?limit=1000", platform).json()["events"]) == Event.objects.count()
        assert get(f"{EVENTS}?limit=1000", own).status_code == 200


class TestWhatPagesSay:
    @pytest.fixture
    def owner(self, history):
        """Reads the page of the last such event, as the owner of the desk."""
        return self.reader(signed_in(history.user), lambda event: f"/activity/{event.id}")

    @pytest.fixture
    def member(self, history):
        """The same as a member of the staff."""
        return self.reader(staff.a_client(), row_url)

    def reader(self, browser, page_of):
        return lambda **found: pages.words(
            browser.get(page_of(Event.objects.filter(topic__startswith="usr_", **found).last()))
        )

    def test_a_kind_is_called_by_its_name(self, owner, member):
        new_kinds()
        assert "automation.renamed: the bot Chart." in owner(kind=KIND)
        assert "automation.renamed, the bot Chart" in member(kind=KIND)

    def test_a_code_is_called_by_its_name(self, owner, member, bot):
        new_codes()
        page = owner(code=CODE, bot_id=bot.id)
        assert "The bot Chart sent a signal that was refused with the code too_loud." in page
        assert "The answer to the signal says what was wrong with it." in page
        assert "Which check decided" not in page
        assert "It was refused: too_loud." in member(code=CODE)

    def test_lists_call_a_code_by_its_name_and_link_no_page_of_it(self, history):
        new_codes()
        refusals = f"{reverse('admin:events_event_changelist')}?kind=signal.refused"
        owner, member = signed_in(history.user), staff.a_client()
        for browser, path, said in (
            (owner, "/desk", "Chart was refused five times in a row: too_loud."),
            (owner, "/activity", "5 refusals The bot Chart sent a signal that was refused with"),
            (member, refusals, "too_loud"),
            (member, row_url(history.user), "too_loud. Sent: SOL/USDT short."),
            (member, reverse("admin:index"), "too_loud"),
        ):
            shown = browser.get(path)
            assert said in pages.words(shown)
            assert f"/problems/{CODE}" not in pages.source(shown)

    def test_a_reason_is_called_by_its_name(self, owner, member):
        new_reasons()
        for read in (owner, member):
            assert ": on a whim." in read(kind=Kind.ELECTION_WITHDRAWN)
            assert "was disabled: on a whim." in read(kind=Kind.SUBSCRIPTION_DISABLED)
            assert "speed" in read(kind=Kind.SUBSCRIPTION_CHANGED)


def test_notices_of_what_follows_are_written(history, bot, happens):
    write()
    happens()
    assert send(bot, pair="XRP/USDT").status_code == 422
    happens()
    write()
    assert waiting() == ["A signal of Chart was refused"]


def test_what_waits_for_a_webhook_is_counted_with_kinds_of_a_later_release():
    assert counted([KIND]) == "1 event (Others)"
    assert counted(["signal.filled", KIND]) == "2 events (Fills 1, Others 1)"


def test_a_webhook_that_chose_a_kind_of_a_later_release_is_sent_no_other(desk):
    webhook = an_active_webhook(desk)
    Subscription.objects.update(kinds=[KIND])
    webhook.refresh_from_db()
    assert webhook.lag == 0
    a_bot(desk)
    assert webhook.lag == 0
    new_kinds()
    assert webhook.lag == 1
