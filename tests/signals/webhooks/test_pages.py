"""The pages of webhooks: a desk's, and the platform's in the control area."""

import html
from datetime import timedelta
from ipaddress import ip_network
from urllib.parse import quote

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.utils import timezone

from desks.actions import connect, elect
from desks.models import Desk, User
from events import feed
from events.actors import SYSTEM
from events.feed import read_head
from events.http import rate_limits
from events.kinds import Kind
from events.models import Event, Head
from signals.outbound.answers import Fault
from signals.webhooks import actions
from signals.webhooks.models import (
    MAX_ATTEMPTS,
    MAX_OF_DESK,
    DeliveryAttempt,
    DisabledReason,
    Subscription,
    without_groups,
)
from signals.webhooks.pages import EVENT_CHOICES, groups_of, in_words, kinds_of, receivers
from signals.webhooks.runner.pending_events import read_one
from tests import factories, pages
from tests.client import push
from tests.signals.bodies import tradingview
from tests.signals.webhooks.stage import (
    URL,
    a_failing_webhook,
    a_lagging_webhook,
    a_webhook,
    add_bots,
    an_active_webhook,
    let_fail,
    of,
    secrets_of,
)
from tests.staff import LONG_AGO, a_client, verified
from tokens.crypto import formats

pytestmark = [pytest.mark.django_db, pytest.mark.once]


@pytest.fixture
def desk() -> Desk:
    return factories.a_desk()


@pytest.fixture
def owner(desk) -> Client:
    return a_client(desk.user, "password")


@pytest.fixture
def staff(settings) -> Client:
    settings.REQUIRE_STAFF_MFA = True
    return a_client()


def at(webhook: Subscription, page: str = "") -> str:
    return f"/webhooks/{webhook.public_id}{page and f'/{page}'}"


def press(browser: Client, webhook: Subscription, act: str, **more: object):
    """Presses a button of the webhook's page, and returns the page that follows."""
    return browser.post(at(webhook, "act"), {"act": act, **more}, follow=True)


def control(page: str, row: Subscription | None = None) -> str:
    return f"/control/signals/subscription/{f'{row.pk}/' if row else ''}{page}/"


class TestGroups:
    def test_each_kind_is_in_exactly_one_group(self):
        kinds = [kind for group in EVENT_CHOICES.values() for kind in group.kinds]
        assert sorted(kinds) == sorted(Kind)

    def test_none_and_all_mean_every_kind(self):
        assert kinds_of([]) == kinds_of(list(EVENT_CHOICES)) == []

    def test_what_was_chosen_is_chosen_again(self):
        kinds = kinds_of(["bots", "fills"])
        assert groups_of(kinds) == ["fills", "bots"]
        assert in_words(["signal.filled", "card.retired"]) == ["Fills", "card.retired"]


# --- Making ---------------------------------------------------------------------------------------


def test_a_new_one_shows_its_secret_and_code_with_it_once(owner):
    form = {"url": URL, "groups": ["fills", "refusals"]}
    key = pages.source(owner.get("/webhooks/new")).partition('one_time_key" value="')[2]
    form["one_time_key"] = key.partition('"')[0]
    shown = owner.post("/webhooks/new", form)
    secret, *samples = pages.copied(shown)
    assert len(samples) == 4
    assert all(secret in sample for sample in samples)
    webhook = Subscription.objects.get()
    assert [secret] == secrets_of(webhook)
    assert (webhook.decrypt(), webhook.kinds) == (URL, ["signal.filled", "signal.refused"])
    assert pages.problem(owner.post("/webhooks/new", form)) == "made_already"
    for page in ("/webhooks", at(webhook), at(webhook, "change"), at(webhook, "secret")):
        source = pages.source(owner.get(page))
        assert "hooks.example.com" in source
        assert "quietly" not in source
        assert secret not in source


def test_the_form_says_which_urls_it_takes(owner, settings):
    def said():
        return pages.words(owner.get("/webhooks/new"))

    listens_at = "127.0.0.1:8081"
    assert "It begins with https://, and its port is 443 or 8443. We encrypt it" in said()
    settings.DELIVERY_ALLOW = [ip_network("10.1.0.0/16")]
    assert "or with http:// in a network that the operator has opened. We encrypt it" in said()
    settings.DELIVERY_ALLOW = [ip_network("127.0.0.0/8")]
    assert f"such as http://{listens_at}, where the samples of the next page listen" in said()
    assert listens_at in next(each.code for each in receivers() if each.language == "Go")


def test_a_name_is_given_changed_and_removed(desk, owner):
    webhook = a_webhook(desk, name="Orders")
    assert 'value="Orders"' in pages.source(owner.get(at(webhook, "change")))
    for name, shown in (("<b>Fills", "<b>Fills"), ("", "hooks.example.com")):
        owner.post(at(webhook, "change"), {"name": name})
        assert Subscription.objects.get().name == name
        for page in ("/webhooks", at(webhook), at(webhook, "remove"), at(webhook, "secret")):
            assert shown in pages.words(owner.get(page))
    said = pages.words(owner.get("/activity"))
    assert "A webhook Orders to hooks.example.com was added." in said
    assert "was changed: its name." in said


def test_a_webhook_is_limited_to_a_bot_of_the_desk_and_shows_it(desk, owner):
    connect(desk=desk, venue="Kraken", actor=SYSTEM)
    webhook, other = a_webhook(desk), factories.a_bot(factories.a_connected_desk())
    assert "bot" not in pages.fields(owner.get(at(webhook, "change")))
    bot = factories.a_bot(desk)
    assert other.id not in pages.source(owner.get(at(webhook, "change")))
    for chosen, shown in ((bot.id, True), ("", False)):
        owner.post(at(webhook, "change"), {"bot": chosen})
        assert Subscription.objects.get().bot == chosen
        assert (f"/bots/{bot.id}" in pages.source(owner.get(at(webhook)))) == shown
    assert owner.post(at(webhook, "change"), {"bot": other.id}).status_code == 422
    assert "the bot whose events it gets" in pages.words(owner.get("/activity"))


def test_groups_of_the_api_are_shown_as_they_are_and_kept(desk, owner):
    webhook = a_webhook(desk, "signal.*", "card.retired")
    shown = pages.words(owner.get(at(webhook)))
    assert "signal.*" in shown
    assert "signal.filled" not in shown
    groups = ["fills", "refusals", "unfilled"]
    owner.post(at(webhook, "change"), {"name": "Orders", "groups": groups})
    assert without_groups(Subscription.objects.get().kinds) == ["signal.*", "card.retired"]


def test_staff_keep_the_bot_of_a_webhook_that_they_change(staff):
    bot = factories.a_bot(factories.a_connected_desk())
    webhook = a_webhook(None, bot=bot.id)
    staff.post(control("change-webhook", webhook), {"name": "Orders"})
    found = Subscription.objects.get()
    assert (found.name, found.bot) == ("Orders", bot.id)


def test_what_is_wrong_stands_beside_its_field(owner):
    answer = owner.post("/webhooks/new", {"url": "http://hooks.example.com"})
    assert (answer.status_code, pages.errors(answer)) == (
        422,
        ["The address must begin with https://."],
    )
    with_secret = {"url": f"https://h.example/{formats.new_webhook_secret()}"}
    assert pages.problem(owner.post("/webhooks/new", with_secret)) == "exchange_secret"


def test_a_sixth_is_neither_offered_nor_made(desk, owner):
    for _ in range(MAX_OF_DESK):
        a_webhook(desk)
    assert "/webhooks/new" not in pages.source(owner.get("/webhooks"))
    assert owner.post("/webhooks/new", {"url": URL}).status_code == 422


# --- A recent sign-in -----------------------------------------------------------------------------


def test_every_change_first_leads_to_the_page_that_asks_who_one_is(desk):
    webhook = an_active_webhook(desk)
    browser = a_client(desk.user, "password", seconds_ago=LONG_AGO)
    head = Head.objects.get().position
    for page in ("/webhooks/new", *(at(webhook, name) for name in ("change", "secret", "remove"))):
        for answer in (browser.get(page), browser.post(page, {"url": URL, "overlap": "0"})):
            assert answer["Location"] == f"/accounts/reauthenticate/?next={page}"
    answer = browser.post(at(webhook, "act"), {"act": "pause"})
    assert answer["Location"].endswith(f"webhooks/{webhook.public_id}")
    assert browser.get(at(webhook)).status_code == 200
    assert (Head.objects.get().position, Subscription.objects.get().state) == (head, "active")


def test_the_way_over_the_password_leads_back_to_the_same_question(desk):
    """Without its query, the page would ask to skip everything that waits."""
    webhook = an_active_webhook(desk)
    add_bots(desk, 2)
    browser = a_client(verified(desk.user), "password", seconds_ago=LONG_AGO)
    page = f"{at(webhook, 'skip')}?next"
    asked, sent = browser.get(page), browser.post(page, {"until": "2"})
    assert asked["Location"] == sent["Location"] == f"/accounts/reauthenticate/?next={quote(page)}"
    back = browser.post(asked["Location"], {"password": factories.PASSWORD})
    assert back["Location"] == page
    assert "Skip the next event?" in pages.words(browser.get(page))


# --- The page of one ------------------------------------------------------------------------------


def test_the_page_says_state_lag_and_what_became_of_the_attempts(desk, owner):
    webhook = a_failing_webhook(desk)
    answer = owner.get(at(webhook))
    text, source = pages.words(answer), pages.source(answer)
    assert "Deliveries fail." in text
    assert f"Waiting {Head.objects.get().position - webhook.cursor_position} event" in text
    assert "Failed attempts in a row 2" in text
    assert "Latest attempts" in text
    assert "The name of the host was not found." in text
    assert "Cannot POST /quietly/1f3a &lt;b&gt;now&lt;/b&gt;" in source
    assert text.count("Send this and everything after it again") == 2  # once for each event
    assert "204 Test" in text


# --- Attempts -------------------------------------------------------------------------------------


def attempt(
    webhook: Subscription, position: int | None, status: int, minutes: float = 0, error: str = ""
):
    """An attempt so many minutes ago."""
    made = {"position": position, "status": status, "error": error, "milliseconds": 7}
    at = timezone.now() - timedelta(minutes=minutes)
    return DeliveryAttempt.objects.create(subscription=webhook, at=at, **made)


def shown(answer) -> list[str]:
    """The words of each attempt that the page lists, the newest first."""
    listed = pages.source(answer).partition('class="rows attempts"')[2].partition("</ul>")[0]
    return [" ".join(html.unescape(pages.TAGS.sub(" ", li)).split()) for li in listed.split("<li")]


def test_attempts_name_their_events_and_show_what_is_sent_of_them(desk, owner):
    connect(desk=desk, venue="Kraken", actor=SYSTEM)
    bot = factories.a_bot(desk)
    webhook = an_active_webhook(desk)
    push(tradingview(bot), secret=bot.secret)
    filled = Event.objects.latest("position")
    push(tradingview(bot, direction="long"), secret=bot.secret)
    refused = Event.objects.latest("position")
    for position in (None, refused.position, filled.position, 2):
        attempt(webhook, position, 204)
    answer = owner.get(at(webhook))
    _, of_desk, of_fill, of_refusal, of_test = shown(answer)
    assert f"Filled ETH/USDT short {filled.id}" in of_fill
    assert f"Refused ETH/USDT long {refused.id}" in of_refusal
    assert "204 Test just now" in of_test
    assert "Desk connected evt_2" in of_desk
    assert "Send again" not in of_test
    sent = [read_one(webhook, event.position) for event in (filled, refused)]
    assert all(message.body.decode() in pages.copied(answer) for message in sent)
    assert f"webhook-id: {sent[0].id}" in of_fill
    assert len(pages.copied(answer)) == 3 + 4  # and the receivers


def test_what_the_owner_does_not_see_is_not_shown_of_an_attempt(desk, owner):
    """After a restore the event of another desk can be at the position of what was sent."""
    webhook = an_active_webhook(desk)
    factories.a_desk()
    other = Event.objects.latest("position")
    for position in (other.position, 10**6):
        attempt(webhook, position, 500)
    answer = owner.get(at(webhook))
    assert other.user_id not in pages.source(answer)
    assert [text.partition(" evt")[0].rpartition("> ")[2] for text in shown(answer)[1:]] == [
        "500 Unknown",
        "500 Unknown",
    ]
    assert "Send again " not in " ".join(shown(answer))
    kinds = [one["kind"] for one in owner.get(f"{of(webhook)}/attempts").json()["attempts"]]
    assert kinds == [None, None]


def test_only_what_failed_is_listed(desk, owner):
    webhook = an_active_webhook(desk)
    for position, status in ((2, 500), (2, 204), (3, 503)):
        attempt(webhook, position, status)
    assert len(shown(owner.get(at(webhook)))) == 1 + 3
    failed = shown(owner.get(at(webhook) + "?failed"))[1:]
    assert ["evt_3" in failed[0], "evt_2" in failed[1]] == [True, True]
    assert "Send again evt_3" in failed[0]
    assert "Send again evt_2" not in failed[1]  # it was delivered later
    DeliveryAttempt.objects.filter(status__gt=204).delete()
    assert "No attempt failed." in pages.words(owner.get(at(webhook) + "?failed"))


def test_an_event_that_is_sent_again_says_so_until_it_was(desk, owner):
    webhook = an_active_webhook(desk)
    attempt(webhook, 2, 500)
    said = press(owner, webhook, "resend", position=2)
    assert "evt_2 is sent again." in pages.words(said)
    assert "To be sent again 1 event" in pages.words(said)
    assert shown(said)[1].endswith("is sent again")


def again(browser: Client, webhook: Subscription, **more: object):
    form = {"what": "failed", "period": "hour", **more}
    return browser.post(at(webhook, "again"), form, follow=True)


def test_what_failed_since_a_time_is_sent_again_together(desk, owner):
    webhook = an_active_webhook(desk)
    add_bots(desk, 2)
    for position, status, minutes in (
        *((2, 500, 90), (3, 500, 50), (4, 503, 40), (4, 204, 30)),
        *((5, 500, 20), (5, 500, 10), (None, 500, 5)),
    ):
        attempt(webhook, position, status, minutes)
    head = Head.objects.get().position
    assert "2 events are sent again." in pages.words(again(owner, webhook))
    assert Subscription.objects.get().resends == [3, 5]
    assert "3 events are sent again." in pages.words(again(owner, webhook, period="day"))
    assert Subscription.objects.get().resends == [3, 5, 2]
    since = (timezone.now() - timedelta(minutes=15)).strftime("%Y-%m-%dT%H:%M")
    Subscription.objects.update(resends=None)
    said = again(owner, webhook, period="", since=since)
    assert "1 event is sent again." in pages.words(said)
    assert Subscription.objects.get().resends == [5]
    DeliveryAttempt.objects.update(status=204)
    assert "Nothing is sent again" in pages.words(again(owner, webhook))
    assert (Subscription.objects.get().cursor_position, head) == (
        webhook.cursor_position,
        Head.objects.get().position,
    )


def test_no_more_is_sent_again_together_than_may_wait(desk, owner):
    webhook = an_active_webhook(desk)
    add_bots(desk, MAX_ATTEMPTS - 1)
    for position in range(1, MAX_ATTEMPTS + 2):
        attempt(webhook, position, 500)
    again(owner, webhook)
    assert Subscription.objects.get().resends == [*range(2, MAX_ATTEMPTS + 2)]
    attempt(webhook, MAX_ATTEMPTS + 2, 500)
    refused = again(owner, webhook)
    assert refused.status_code == 422
    assert "At most 50 events wait to be sent again." in pages.errors(refused)[0]


def test_what_the_owner_does_not_see_any_more_is_not_among_what_is_sent_again(desk, owner):
    """After a restore the event of another desk can be at the position of what was sent."""
    webhook = an_active_webhook(desk)
    factories.a_desk()
    for position in (2, Event.objects.latest("position").position, 10**6):
        attempt(webhook, position, 500)
    assert "1 event is sent again." in pages.words(again(owner, webhook))
    assert Subscription.objects.get().resends == [2]


def test_what_was_sent_alone_is_not_offered_with_all_after_it(desk, owner):
    """A single event can be of a kind, or of a bot, that the webhook does not get."""
    connect(desk=desk, venue="Kraken", actor=SYSTEM)
    bot = factories.a_bot(desk)
    webhook = an_active_webhook(desk)
    made = Event.objects.get(kind="automation.created").position
    attempt(webhook, made, 500)
    for chosen, is_offered in (
        ({"kinds": ["automation.*"]}, True),
        ({"kinds": ["card.retired"]}, False),
        ({"kinds": [], "bot": factories.a_bot(desk).id}, False),
        ({"bot": bot.id}, True),
    ):
        actions.change(webhook=webhook, actor=SYSTEM, **chosen)
        text = shown(owner.get(at(webhook)))[1]
        assert ("Send this and everything after it again" in text) == is_offered
        assert text.endswith(f"Send again evt_{made}")


def test_everything_since_a_time_is_sent_again(desk, owner):
    webhook = an_active_webhook(desk)
    assert "is sent again, in order" in pages.words(again(owner, webhook, what="everything"))
    assert Subscription.objects.get().cursor_position == 0
    assert "continues from the first event" in pages.words(owner.get("/activity"))


def waits(webhook: Subscription) -> list[int]:
    """The positions of what waits."""
    webhook.refresh_from_db()
    return list(webhook.ahead().kinds)


OLDER = "in order. Older events that wait are sent first."


def test_everything_again_skips_nothing_that_waits_from_before(desk, owner):
    webhook, waiting = a_lagging_webhook(desk)
    before = webhook.cursor_position
    said = pages.words(again(owner, webhook, what="everything"))
    assert f"Everything since then is sent again, {OLDER}" in said
    assert (waits(webhook), webhook.cursor_position) == (waiting, before)
    Subscription.objects.update(cursor_position=waiting[-1])  # all is delivered
    said = pages.words(again(owner, webhook, what="everything"))
    assert "Everything since then is sent again, in order. " in said
    assert OLDER not in said
    assert waits(webhook) == waiting[-2:]


def test_an_event_and_all_after_it_again_skips_nothing_that_waits_before_it(desk, owner):
    webhook, waiting = a_lagging_webhook(desk)
    before, last = webhook.cursor_position, waiting[-1]
    said = pages.words(press(owner, webhook, "again", position=last))
    assert f"evt_{last} and everything after it is sent again, {OLDER}" in said
    assert (waits(webhook), webhook.cursor_position) == (waiting, before)


def test_staff_skip_nothing_that_waits_as_they_send_everything_again(staff):
    webhook, waiting = a_lagging_webhook(None)
    before = webhook.cursor_position
    chosen = {"what": "everything", "period": "hour"}
    said = pages.words(staff.post(control("again", webhook), chosen, follow=True))
    assert f"Everything since then is sent again, {OLDER}" in said
    assert (waits(webhook), webhook.cursor_position) == (waiting, before)


def test_a_lost_webhook_sends_again_from_the_time_that_was_chosen(desk, owner):
    webhook, waiting = a_lagging_webhook(desk)
    Head.objects.update(epoch="0" * 8)
    webhook.refresh_from_db()
    assert actions.disable(webhook=webhook, reason=DisabledReason.CURSOR_LOST)
    said = pages.words(again(owner, webhook, what="everything"))
    assert "is sent again, in order, once the webhook is resumed." in said
    assert waits(webhook) == waiting[-2:]
    press(owner, webhook, "resume")
    assert Subscription.objects.get().state == "active"


def test_sending_everything_again_says_what_must_happen_first(desk, owner):
    webhook = a_webhook(desk)

    def said() -> str:
        page = pages.words(again(owner, webhook, what="everything"))
        return page.partition("is sent again, in order, ")[2].partition(".")[0]

    assert said() == "once its URL has answered a test"
    press(owner, webhook, "pause")
    assert said() == "once the webhook is resumed and its URL has answered a test"
    webhook.refresh_from_db()
    assert actions.verify(webhook=webhook)
    assert said() == "once the webhook is resumed"
    press(owner, webhook, "resume")
    assert said() == ""


@pytest.mark.parametrize("since", ["", "x", "0001-01-01T00:00", "9999-12-31T23:59"])
def test_a_time_that_has_not_been_is_said_beside_its_field(desk, owner, since):
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        User.objects.update(time_zone=zone)
        for what in ("failed", "everything"):
            refused = again(owner, an_active_webhook(desk), what=what, period="", since=since)
            assert (refused.status_code, len(pages.errors(refused))) == (422, 1)
    assert not Event.objects.filter(kind="subscription.rewound").exists()


def test_a_url_that_never_answered_a_test_gets_nothing_again(desk, owner):
    webhook = a_webhook(desk)
    attempt(webhook, 2, 500)
    page = pages.source(owner.get(at(webhook)))
    assert "Send again" not in page
    assert "Send many again" not in page
    assert again(owner, webhook).status_code == 422


# --- The state ------------------------------------------------------------------------------------


def test_the_page_says_when_a_failed_delivery_is_tried_again(desk, owner):
    webhook = a_failing_webhook(desk)
    with time_machine.travel(timezone.now(), tick=False):
        for minutes, said in ((10, "we try again in 10 minutes."), (0, "we try again soon.")):
            ahead = timezone.now() + timedelta(minutes=minutes)
            Subscription.objects.update(next_attempt_at=ahead)
            assert said in pages.words(owner.get(at(webhook)))


def test_the_desks_page_says_that_a_webhook_is_not_verified_fails_or_is_disabled(desk, owner):
    let_fail(a_webhook(desk, name="Orders"), 10)
    webhook = a_failing_webhook(desk)
    said = "The webhook Orders to hooks.example.com is not verified"
    assert said not in pages.words(owner.get("/desk"))
    actions.note_failing(timezone.now())
    for page in ("/desk", "/activity"):
        assert said in pages.words(owner.get(page))
    assert "The webhook to hooks.example.com fails." in pages.words(owner.get("/desk"))
    actions.disable(webhook=webhook, reason=DisabledReason.FAILED)
    assert "is disabled. Its events wait." in pages.words(owner.get("/desk"))
    assert "every attempt failed for 75 hours" in pages.words(owner.get(at(webhook)))


def test_what_waited_is_promised_to_a_verified_url_only(desk, owner):
    webhook = a_webhook(desk)
    press(owner, webhook, "pause")
    resumed = pages.words(press(owner, webhook, "resume"))
    said = "Resumed. What waited is sent in order"
    assert f"{said}, once its URL has answered a test." in resumed
    press(owner, webhook, "pause")
    assert actions.verify(webhook=webhook)
    told = "The webhook to hooks.example.com answered a test. Deliveries begin"
    assert f"{told} once it is resumed." in pages.words(owner.get("/activity"))
    assert f"{said}." in pages.words(press(owner, webhook, "resume"))
    an_active_webhook(desk)
    assert f"{told}." in pages.words(owner.get("/activity"))


def test_its_buttons_do_what_they_say(desk, owner):
    webhook = an_active_webhook(desk)
    assert "A test is on its way" in pages.words(press(owner, webhook, "test"))
    assert "Paused" in pages.words(press(owner, webhook, "pause"))
    assert "Resumed" in pages.words(press(owner, webhook, "resume"))
    assert Subscription.objects.get().test_requested_at
    factories.a_card()
    behind = press(owner, webhook, "again", position=2)
    assert "evt_2 and everything after it" in pages.words(behind)
    assert "continues after evt_1." in pages.words(owner.get("/activity"))
    assert Subscription.objects.get().cursor_position == 1
    head = Head.objects.get().position
    for act, position in (
        ("again", 0),
        ("again", head + 1),
        ("again", "x"),
        ("again", 5000 * "1"),
        ("explode", 1),
        ("skip", 1),
    ):
        assert pages.problem(press(owner, webhook, act, position=position)) == "invalid"
    assert Head.objects.get().position == head


def test_the_activity_shows_the_host_of_a_webhook_that_is_there_and_the_log_names_none(desk, owner):
    webhook = an_active_webhook(desk)
    assert actions.disable(webhook=webhook, reason=DisabledReason.GONE)
    event = Event.objects.latest("position")
    page = f"/activity/{event.id}"
    assert "The webhook to hooks.example.com was disabled" in pages.words(owner.get(page))
    assert "hooks.example.com" not in str(event.content)
    owner.post(f"/webhooks/{webhook.public_id}/remove")
    assert not Subscription.objects.exists()
    assert f"The webhook {webhook.public_id} was disabled" in pages.words(owner.get(page))
    assert "hooks.example.com" not in str([each.content for each in Event.objects.all()])


def test_closing_says_that_events_of_earlier_releases_name_hosts(desk):
    an_active_webhook(desk)
    browser = a_client(desk.user, "password")
    said = "also name the hosts of your webhooks"
    assert said not in pages.words(browser.get("/accounts/close/"))
    event = Event.objects.filter(kind="subscription.created").get()
    event.content["data"]["host"] = "hooks.example.com"  # as the releases before wrote it
    Event.objects.filter(pk=event.pk).update(content=event.content)
    assert said in pages.words(browser.get("/accounts/close/"))
    assert "hooks.example.com" in pages.words(browser.get(f"/activity/{event.id}"))


# --- Skipping -------------------------------------------------------------------------------------


def ask_to_skip(browser: Client, webhook: Subscription, which: str = ""):
    """The page that asks, and the position up to which it would skip."""
    asked = browser.get(at(webhook, "skip") + which, follow=True)
    return asked, pages.source(asked).partition('name="until" value="')[2].partition('"')[0]


def test_skipping_says_what_it_skips_asks_first_and_tells_the_activity(desk, owner):
    webhook = an_active_webhook(desk, "automation.created", "card.published")
    assert "Nothing waits" in pages.words(ask_to_skip(owner, webhook)[0])
    add_bots(desk, 2)
    factories.a_desk(), factories.a_card()
    asked, until = ask_to_skip(owner, webhook)
    what = "This skips 3 events (Bots 2, Cards and elections 1)."
    assert what in pages.words(asked)
    assert "were skipped" not in pages.words(owner.get("/activity"))
    add_bots(desk)  # after the question
    said = owner.post(at(webhook, "skip"), {"until": until}, follow=True)
    assert "3 events were skipped." in pages.words(said)
    assert "Waiting 1 event" in pages.words(said)
    assert "3 events were skipped for the webhook to" in pages.words(owner.get("/activity"))
    again = owner.post(at(webhook, "skip"), {"until": until}, follow=True)
    assert "Nothing was skipped." in pages.words(again)
    assert "Waiting 1 event" in pages.words(again)


class GrowingLog:
    """Writes an event before each statement that reads the end of the log."""

    def __init__(self, write) -> None:
        self.write, self.is_writing = write, False

    def __call__(self, execute, sql, *rest):
        if Head._meta.db_table in sql and not self.is_writing:
            self.is_writing = True
            self.write()
            self.is_writing = False
        return execute(sql, *rest)


@pytest.mark.parametrize("page", ["all", "next", "staff"])
def test_what_is_skipped_is_what_the_page_said_although_the_log_grew_meanwhile(
    desk, owner, staff, page
):
    webhook = an_active_webhook(None if page == "staff" else desk, "automation.created")
    browser = staff if page == "staff" else owner
    path = control("skip", webhook) if page == "staff" else at(webhook, "skip")
    add_bots(desk, 2)
    with connection.execute_wrapper(GrowingLog(lambda: add_bots(desk))):
        asked = browser.get(path + ("?next" if page == "next" else ""))
    said = pages.words(asked).partition("This skips ")[2].partition(" (Bots)")[0]
    until = asked.context["form"]["until"].value()
    shown = pages.words(browser.post(path, {"until": until}, follow=True))
    assert f"{said} was skipped." in shown or f"{said} were skipped." in shown
    assert (said == "1 event") == (page == "next")


def test_the_next_event_alone_is_skipped(desk, owner):
    webhook = an_active_webhook(desk, "automation.created")
    add_bots(desk, 2)
    asked, until = ask_to_skip(owner, webhook, "?next")
    assert "Skip the next event?" in pages.words(asked)
    assert "This skips 1 event (Bots)." in pages.words(asked)
    said = owner.post(at(webhook, "skip"), {"until": until}, follow=True)
    assert "1 event was skipped." in pages.words(said)
    assert "Waiting 1 event" in pages.words(said)


def test_more_events_than_anybody_counts_are_skipped(desk, owner, monkeypatch):
    webhook = an_active_webhook(desk, "automation.created")
    add_bots(desk, 3)
    for module in ("models", "actions", "pages"):
        monkeypatch.setattr(f"signals.webhooks.{module}.MAX_LAG", 2)
    asked, until = ask_to_skip(owner, webhook)
    assert "This skips more than 2 events." in pages.words(asked)
    owner.post(at(webhook, "skip"), {"until": until})
    assert "More than 1,000 events were skipped" in pages.words(owner.get("/activity"))


def test_a_skip_that_found_nothing_yet_says_so_and_the_next_one_looks_on(desk, owner, monkeypatch):
    connect(desk=desk, venue="Kraken", actor=SYSTEM)
    bot = factories.a_bot(desk)
    webhook = a_webhook(desk, "automation.removed", bot=bot.id)
    for pair in ("A/B", "C/D", "E/F"):
        elect(automation=bot.automation, pair=pair, direction="long", actor=SYSTEM)
    monkeypatch.setattr(feed, "MAX_CHECKED_PER_PAGE", 2)
    monkeypatch.setattr(feed, "MAX_PAGES_AHEAD", 1)
    asked, until = ask_to_skip(owner, webhook, "?next")
    assert "How many events wait is not known" in pages.words(asked)
    said = owner.post(at(webhook, "skip"), {"until": until}, follow=True)
    assert "Nothing was skipped." in pages.words(said)
    assert Subscription.objects.get().cursor_position == int(until)


def test_a_position_that_the_page_did_not_name_skips_nothing(desk, owner):
    webhook = an_active_webhook(desk)
    factories.a_card()
    for until in ("", "x", Head.objects.get().position + 1):
        assert pages.problem(owner.post(at(webhook, "skip"), {"until": until})) == "invalid"
    assert not Event.objects.filter(kind="subscription.rewound").exists()


def test_a_webhook_whose_place_is_lost_skips_what_waits_and_is_resumed(desk, owner):
    webhook = an_active_webhook(desk)
    Subscription.objects.update(cursor_epoch="00000000", cursor_position=10**6)
    webhook.refresh_from_db()
    actions.disable(webhook=webhook, reason=DisabledReason.CURSOR_LOST)
    assert "Skip what waits" in pages.words(owner.get(at(webhook)))
    asked, until = ask_to_skip(owner, webhook)
    assert "is lost" in pages.words(asked)
    said = owner.post(at(webhook, "skip"), {"until": until}, follow=True)
    assert "Skipped." in pages.words(said)
    press(owner, webhook, "resume")
    assert Subscription.objects.get().state == "active"
    assert "continues after evt_" in pages.words(owner.get("/activity"))


def test_what_is_left_as_it_was_does_not_change(desk, owner):
    webhook = an_active_webhook(desk, "card.retired")  # not a whole group
    assert owner.post(at(webhook, "change"), {"url": ""})["Location"] == at(webhook)
    assert Subscription.objects.get().kinds == ["card.retired"]
    owner.post(at(webhook, "change"), {"url": "", "groups": ["fills"]})
    found = Subscription.objects.get()
    assert (found.kinds, found.decrypt(), found.state) == (["signal.filled"], URL, "active")
    owner.post(at(webhook, "change"), {"url": "https://new.example/", "groups": ["bots"]})
    found = Subscription.objects.get()
    assert (found.decrypt(), found.state) == ("https://new.example/", "unverified")
    said = "was changed: the events that it gets and its URL."
    assert said in pages.words(owner.get("/activity"))
    assert "A test is on its way." in pages.words(owner.get(at(webhook)))


def test_a_secret_is_replaced_with_an_overlap(desk, owner):
    webhook = an_active_webhook(desk)
    [old] = secrets_of(webhook)
    new, *_ = pages.copied(owner.post(at(webhook, "secret"), {"overlap": "3600"}))
    assert secrets_of(webhook) == [new, old]


def test_removing_asks_first_in_red(desk, owner):
    webhook = an_active_webhook(desk)
    asked = pages.source(owner.get(at(webhook, "remove")))
    assert '<button type="submit" class="button danger">Remove</button>' in asked
    assert Subscription.objects.exists()
    offer = f'<a class="button danger" href="{at(webhook, "remove")}">'
    assert offer in pages.source(owner.get(at(webhook)))
    owner.post(at(webhook, "remove"))
    assert not DeliveryAttempt.objects.exists()
    assert not Subscription.objects.exists()


def test_sending_again_is_limited_together_with_the_api_and_skipping_is_not(settings, desk, owner):
    settings.LIMITS = {**settings.LIMITS, "rewinds": "2/hour"}
    webhook = a_failing_webhook(desk)
    again = {"act": "again", "position": "3"}
    assert owner.post(at(webhook, "act"), again).status_code == 302
    rate_limits.consume("rewinds", str(desk.user.pk))  # as the API does
    many = {"what": "failed", "period": "hour"}
    for page, form in (("act", again), ("again", many)):
        refused = owner.post(at(webhook, page), form)
        assert (refused.status_code, pages.problem(refused)) == (429, "rate_limited")
    assert owner.post(at(webhook, "act"), {"act": "test"}).status_code == 302
    until = {"until": Head.objects.get().position}
    assert owner.post(at(webhook, "skip"), until).status_code == 302


def test_an_attempt_says_that_an_answer_was_no_proof(desk, owner):
    webhook = a_webhook(desk)
    attempt(webhook, None, 200, error=Fault.UNPROVEN)
    page = html.unescape(pages.source(owner.get(at(webhook))))
    assert "It did not prove that it knows the secret:" in page
    assert 'class="verdict refused"' in page
    assert 'class="verdict accepted"' not in page


# --- The control area -----------------------------------------------------------------------------


def test_staff_make_change_and_remove_the_platforms(staff):
    shown = staff.post(control("new"), {"url": URL, "groups": ["cards"]})
    webhook = Subscription.objects.get()
    assert pages.copied(shown) == secrets_of(webhook)
    assert (webhook.desk, webhook.kinds[0]) == (None, "card.published")
    page = html.unescape(pages.source(staff.get(control("change", webhook))))
    assert "Verify what you receive" in page
    assert all(receiver.code in page for receiver in receivers())
    for page, form in (
        ("test", {}),
        ("pause", {}),
        ("resume", {}),
        ("change-webhook", {"url": "https://new.example/", "groups": ["cards"]}),
        ("rewind", {"position": "0"}),
        ("rewind", {"position": str(10**9)}),
    ):
        assert staff.get(control(page, webhook)).status_code == 200, page
        assert staff.post(control(page, webhook), form).status_code == 302, page
    shown = staff.post(control("secret", webhook), {"overlap": "0"})
    assert pages.copied(shown) == secrets_of(webhook)
    assert staff.post(control("remove", webhook)).status_code == 302
    kinds = Event.objects.filter(kind__startswith="subscription.").values_list("kind", flat=True)
    assert [kind.partition(".")[2] for kind in kinds] == [
        *("created", "paused", "resumed", "changed", "rewound", "rewound"),
        *("secret_replaced", "removed"),
    ]


def test_staff_resume_for_what_waited_once_the_url_is_verified(staff):
    webhook = a_webhook(None)
    actions.pause(webhook=webhook, actor=SYSTEM)
    said = "What waited is sent in order"
    asked = pages.words(staff.get(control("resume", webhook)))
    assert f"{said}, once its URL has answered a test." in asked
    assert actions.verify(webhook=webhook)
    assert f"{said}." in pages.words(staff.get(control("resume", webhook)))
    assert f"{said}." in pages.words(staff.post(control("resume", webhook), follow=True))


def test_staff_read_a_customers_and_change_none(desk, staff):
    webhook = a_failing_webhook(desk)
    page = pages.source(staff.get(control("change", webhook)))
    assert "hooks.example.com" in page
    assert "The name of the host was not found." in page
    assert "Subscription" not in page
    assert "Verify what you receive" not in page
    for name in ("test", "pause", "change-webhook", "secret", "again", "skip", "rewind", "remove"):
        assert f"/{name}/" not in page
        answer = staff.post(control(name, webhook), {"overlap": "0", "position": "1"})
        assert pages.problem(answer) == "invalid", name
    listed = pages.source(staff.get(f"/control/signals/subscription/?q={desk.public_id}"))
    assert webhook.public_id in listed
    actions.remove(webhook=webhook, actor=desk.actor)


def test_staff_send_again_what_failed_of_the_platforms(staff):
    webhook = a_failing_webhook(None)
    failed = webhook.cursor_position + 1
    chosen = {"what": "failed", "period": "hour"}
    shown = staff.post(control("again", webhook), chosen, follow=True)
    assert "1 event is sent again." in pages.words(shown)
    assert Subscription.objects.get(pk=webhook.pk).resends == [failed]


def test_staff_skip_what_waits_for_the_platforms_and_the_event_names_them(staff):
    webhook = a_failing_webhook(None)
    asked = staff.get(control("skip", webhook))
    assert "This skips 1 event (Webhooks)." in pages.words(asked)
    until = asked.context["form"]["until"].value()
    a_webhook(None)  # its event comes after the question
    shown = staff.post(control("skip", webhook), {"until": until}, follow=True)
    assert "1 event was skipped." in pages.words(shown)
    assert Subscription.objects.get(pk=webhook.pk).cursor_position == until
    event = Event.objects.get(kind=Kind.SUBSCRIPTION_REWOUND)
    assert event.actor_id == User.objects.get(is_staff=True).staff_id
    assert event.data["skipped"] == 1
    everything = str(read_head().position + 100)  # no position beyond the log
    staff.post(control("skip", webhook), {"until": everything})
    again = staff.get(control("skip", webhook))
    assert "Nothing waits." in pages.words(again)
