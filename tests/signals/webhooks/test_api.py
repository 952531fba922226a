"""/api/v1/subscriptions: tokens read, recent sessions change (contract, section 4)."""

import json
import re
from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from desks.actions import connect
from desks.models import Automation, Desk
from events.actors import SYSTEM
from events.kinds import Kind
from events.models import Event, Head
from signals.webhooks import actions
from signals.webhooks.models import (
    MAX_OF_DESK,
    MAX_OF_PLATFORM,
    DeliveryAttempt,
    DisabledReason,
    Subscription,
    SubscriptionSecret,
)
from signals.webhooks.runner.delivery import finish, lease
from signals.webhooks.runner.pending_events import read_alone, read_together, with_news
from tests import factories
from tests.client import EVENTS, JSON, SUBSCRIPTIONS, bearer, code, faults, get, signed_in
from tests.notices import send
from tests.signals.audit.stage import a_lively_history
from tests.signals.webhooks.stage import (
    URL,
    a_webhook,
    act,
    an_active_webhook,
    change,
    create,
    cursor_at,
    of,
    secrets_of,
)
from tests.staff import LONG_AGO, a_client
from tokens import account_closing
from tokens.crypto import formats
from tokens.crypto.keys import KeyLostError

pytestmark = pytest.mark.django_db

PATH = URL.partition("hooks.example.com")[2]


@pytest.fixture
def desk() -> Desk:
    return factories.a_desk()


@pytest.fixture
def owner(desk) -> Client:
    return signed_in(desk.user, "password")


@pytest.fixture
def staff() -> Client:
    return a_client()


def kinds_of(desk: Desk | None) -> list[str]:
    """The kinds of the subscriptions' events that this owner's view has, in order."""
    events = Event.objects.filter(topic=desk and desk.public_id, kind__startswith="subscription.")
    return [event.kind.partition(".")[2] for event in events]


# --- Making ---------------------------------------------------------------------------------------


def test_a_new_one_is_answered_with_its_record_and_the_secret_once(desk, owner):
    kinds = ["signal.filled", "card.retired", "signal.filled"]
    answer = create(owner, {"url": URL, "kinds": kinds})
    body = answer.json()
    assert answer.status_code == 201
    assert [body.pop("secret")] == secrets_of(Subscription.objects.get())
    assert body == get(of(Subscription.objects.get()), factories.a_desk_token(desk)).json()
    assert body["kinds"] == ["card.retired", "signal.filled"]
    made = Event.objects.get(kind="subscription.created").position
    assert (body["userId"], body["cursor"]) == (desk.public_id, cursor_at(made))


def test_neither_url_nor_secret_is_in_clear_in_any_row_event_or_later_answer(desk, owner):
    secret = create(owner).json()["secret"]
    webhook = Subscription.objects.get()
    replaced = act(owner, webhook, "secret", overlap=60).json()["secret"]
    attempt = DeliveryAttempt(subscription=webhook, at=timezone.now(), milliseconds=1, status=404)
    attempt.keep_answer(f"Cannot POST {PATH}".encode())
    DeliveryAttempt.objects.bulk_create([attempt])
    models = (Subscription, SubscriptionSecret, DeliveryAttempt, Event)
    stored = "".join(str(list(model.objects.values())) for model in models)
    shown = "".join(
        get(path, factories.a_desk_token(desk)).text for path in (EVENTS, SUBSCRIPTIONS)
    )
    shown += change(owner, webhook, paused=True).text + owner.get(of(webhook)).text
    for text in (secret, replaced, secret[-12:], PATH, "1f3a", "quietly"):
        assert text not in stored + shown
    assert webhook.decrypt() == URL
    assert "hooks.example.com" in shown


def test_a_text_moved_to_another_row_cannot_be_decrypted(desk):
    """Neither a URL, nor a secret, nor an answer: each is bound to its row."""
    one, other = a_webhook(desk), a_webhook(desk)
    attempt = DeliveryAttempt(subscription=one, at=timezone.now(), milliseconds=1)
    attempt.keep_answer(b"no")
    DeliveryAttempt.objects.bulk_create([attempt])
    attempt.subscription = other
    secret = SubscriptionSecret.objects.get(subscription=one)
    secret.subscription = other
    other.ciphertext, other.key_id = one.ciphertext, one.key_id
    for row in (other, secret, attempt):
        with pytest.raises(KeyLostError):
            row.decrypt()


@pytest.mark.once
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, {"url": "required"}),
        ({"url": 5}, {"url": "type"}),
        ({"url": "https://user:hidden@hooks.example.com/"}, {"url": "form"}),
        ({"url": "https://127.0.0.1/"}, {"url": "forbidden"}),
        ({"url": "https://hooks.example.com/" + "x" * 3000}, {"url": "length"}),
        ({"url": URL, "name": "x" * 81}, {"name": "length"}),
        ({"url": URL, "name": "a\u202eb"}, {"name": "characters"}),
        ({"url": URL, "name": 5}, {"name": "type"}),
        ({"url": URL, "botId": "bot_nobodys"}, {"botId": "choice"}),
        ({"url": URL, "botId": 5}, {"botId": "type"}),
        ({"url": URL, "kinds": []}, {"kinds": "required"}),
        ({"url": URL, "kinds": ["signal.invented"]}, {"kinds": "choice"}),
        ({"url": URL, "userId": None}, {"userId": "unknown"}),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_made(owner, body, expected):
    answer = create(owner, body)
    assert (code(answer), faults(answer)) == ("invalid", expected)
    assert "hidden" not in answer.text
    assert not Subscription.objects.exists()


@pytest.mark.once
def test_a_url_or_a_name_that_contains_a_secret_of_this_service_is_refused(owner):
    secret = formats.new_webhook_secret()
    for body in ({"url": f"https://h.example/?{secret}"}, {"url": URL, "name": f"my {secret}"}):
        assert code(create(owner, body)) == "exchange_secret"
    assert not Subscription.objects.exists()


KEY = {"Idempotency-Key": "one-and-the-same"}


def test_a_key_makes_one_webhook_of_its_owner_and_shows_its_secret_once(desk, owner, staff):
    answers = [create(owner, **KEY) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len({answer["Location"] for answer in answers}) == 1
    assert [bool(answer.json()["secret"]) for answer in answers] == [True, False, False]
    assert kinds_of(desk) == ["created"]
    assert len(send()) == 1
    other = factories.a_desk()
    for browser in (signed_in(other.user, "password"), staff):
        assert create(browser, **KEY).json()["secret"]
    assert Subscription.objects.count() == 3
    digests = Subscription.objects.values_list("idempotency_digest", flat=True)
    assert not any(KEY["Idempotency-Key"] in digest for digest in digests)


def test_a_key_of_another_or_a_changed_webhook_is_refused(desk, owner):
    named = {"url": URL, "name": "Orders", "kinds": ["signal.filled"]}
    create(owner, named, **KEY)
    for other in ({"url": URL + "&x"}, {"name": "Fills"}, {"kinds": None}):
        answer = create(owner, named | other, **KEY)
        assert (answer.status_code, code(answer)) == (409, "idempotency_key_reused")
    change(owner, Subscription.objects.get(), name="Fills")
    assert code(create(owner, named, **KEY)) == "idempotency_key_reused"
    assert create(owner, named | {"name": "Fills"}, **KEY).json()["secret"] is None
    assert Subscription.objects.count() == 1


def test_a_repetition_is_answered_although_there_are_as_many_as_there_may_be(desk, owner):
    for _ in range(MAX_OF_DESK - 1):
        a_webhook(desk)
    first = create(owner, **KEY).json()
    assert create(owner, **KEY).json()["id"] == first["id"]


def test_a_refused_request_uses_no_key_and_a_removed_webhook_frees_its_own(owner):
    assert code(create(owner, {"url": "nonsense"}, **KEY)) == "invalid"
    made = create(owner, **KEY).json()
    owner.delete(f"{SUBSCRIPTIONS}/{made['id']}")
    assert create(owner, **KEY).json()["secret"]
    assert faults(create(owner, **{"Idempotency-Key": "ä"})) == {"Idempotency-Key": "form"}


def test_mails_tell_of_a_new_webhook_a_new_url_and_a_new_secret_by_name_and_host(desk, owner):
    create(owner, {"url": URL, "name": "Orders"})
    webhook = Subscription.objects.get()
    act(owner, webhook, "secret")
    change(owner, webhook, url="https://new.example/secret-path")
    change(owner, webhook, name="Fills")
    owner.delete(of(webhook))
    mails = send()
    sentences = [line for mail in mails for line in mail.body.splitlines() if line[:2] == "- "]
    assert [sentence.partition(":")[0] for sentence in sentences] == [
        "- A webhook Orders to hooks.example.com was added.",
        "- The secret of a webhook Orders to hooks.example.com was replaced",
        "- The URL of the webhook Orders was changed. It now leads to new.example.",
        "- A webhook Fills to new.example was removed.",
    ]
    assert [mail.subject for mail in mails] == [
        "A webhook to hooks.example.com was added to your desk",
        "The secret of a webhook to hooks.example.com was replaced",
        "A webhook of your desk now leads to new.example",
        "A webhook to new.example was removed from your desk",
    ]
    assert not any("secret-path" in mail.body or PATH in mail.body for mail in mails)


@pytest.mark.once
@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("\u0430pple.com", "xn--pple-43d.com"),  # its first letter is Cyrillic
        ("APPLE.com", "apple.com"),
        (
            f"www.bank.com.{'a' * 63}.{'b' * 63}.evil.example",
            f"...{'b' * 47}.evil.example",
        ),
    ],
)
def test_the_subject_of_a_mail_shows_whose_host_it_is(desk, owner, host, shown):
    assert create(owner, {"url": f"https://{host}/", "name": "bank.com"}).status_code == 201
    (mail,) = send()
    assert mail.subject == f"A webhook to {shown} was added to your desk"
    assert mail.subject.isascii()
    html, _ = mail.alternatives[0]
    linked = re.findall(r'href="([^"]+)"', str(html))
    assert linked == ["http://testserver/accounts/password/reset/"]


@pytest.mark.once
@pytest.mark.parametrize(
    "host", ["a.com\r\nBcc: x@y.example", "a.com\x00", "a\u202eb.com", "a b.com"]
)
def test_a_host_cannot_add_to_the_head_of_a_mail(desk, owner, host):
    assert code(create(owner, {"url": f"https://{host}/"})) in ("invalid", "malformed")
    assert send() == []


def test_a_desk_has_at_most_five_and_the_platform_fifty(desk, owner, staff):
    for _ in range(MAX_OF_DESK):
        assert create(owner).status_code == 201
    assert code(create(owner)) == "invalid"
    Subscription.objects.bulk_create(
        Subscription(host="h", ciphertext=b"", key_id="", cursor_epoch="", cursor_position=0,
                     created_at=timezone.now())
        for _ in range(MAX_OF_PLATFORM - 1)
    )  # fmt: skip
    assert create(staff).status_code == 201
    assert code(create(staff)) == "invalid"
    assert (MAX_OF_DESK, MAX_OF_PLATFORM) == (5, 50)


def test_a_group_is_answered_as_it_was_chosen_and_stored_with_its_kinds(desk, owner):
    """The release before delivers by the kinds."""
    chosen = ["card.retired", "signal.refused", "signal.*"]
    record = create(owner, {"url": URL, "kinds": chosen}).json()
    assert record["kinds"] == ["signal.*", "card.retired"]
    webhook = Subscription.objects.get()
    of_signals = [kind.value for kind in Kind if kind.startswith("signal.")]
    assert webhook.kinds == ["signal.*", "card.retired", *of_signals]
    change(owner, webhook, kinds=["signal.*", "card.retired"])  # changes nothing
    assert change(owner, webhook, kinds=["card.*"]).json()["kinds"] == ["card.*"]
    changed = Event.objects.filter(kind="subscription.changed")
    assert [event.content["data"]["kinds"] for event in changed] == [["card.*"]]


def test_a_group_delivers_kinds_that_it_did_not_have_when_it_was_chosen(desk):
    connect(desk=desk, venue="Kraken", actor=SYSTEM)
    webhook = a_webhook(desk, "automation.*")
    Subscription.objects.update(kinds=["automation.*", "automation.removed"])
    webhook.refresh_from_db()
    before = webhook.lag
    factories.a_bot(desk)
    assert webhook.lag == before + 1
    head = Head.objects.get().position
    actions.verify(webhook=webhook)
    assert webhook.pk in with_news(head - 3, head)
    [batch] = read_together([webhook]).values()
    assert [json.loads(message.body)["type"] for message in batch.messages] == [
        "automation.created"
    ]


def test_a_bot_is_one_of_the_desk_and_for_staff_any(desk, owner, staff):
    connect(desk=desk, venue="Kraken", actor=SYSTEM)
    own, other = factories.a_bot(desk), factories.a_bot(factories.a_connected_desk())
    assert create(owner, {"url": URL, "botId": own.id}).json()["botId"] == own.id
    assert create(staff, {"url": URL, "botId": other.id}).json()["botId"] == other.id
    webhook = Subscription.objects.get(desk=desk)
    assert faults(change(owner, webhook, botId=other.id)) == {"botId": "choice"}


@pytest.mark.parametrize("kinds", [(), ("election.made", "secret.*")])
def test_one_of_a_bot_gets_the_events_of_that_bot_alone(desk, kinds):
    connect(desk=desk, venue="Kraken", actor=SYSTEM)
    bot, _ = factories.a_bot(desk), factories.a_bot(desk)
    made = {"bot": bot.id}
    webhooks = [a_webhook(desk, *kinds, **made), a_webhook(None, *kinds, **made)]
    Subscription.objects.update(state="active", is_verified=True, cursor_position=0)
    factories.a_bot(desk)
    listed = f"{EVENTS}?userId={desk.public_id}&botId={bot.id}&limit=1000"
    events = get(listed, factories.a_platform_token()).json()["events"]
    expected = [
        event["id"]
        for event in events
        if not kinds or event["kind"] in ("election.made", "secret.generated")
    ]
    assert 0 < len(expected) <= len(events)
    for webhook in webhooks:
        webhook.refresh_from_db()
        assert webhook.lag == len(expected)
        batches = [read_alone(webhook)]
        batches += read_together([webhook]).values() if webhook.desk else []
        for batch in batches:
            found = [json.loads(message.body)["data"]["id"] for message in batch.messages]
            assert found == expected
        assert actions.next_position(webhook) == int(expected[0].removeprefix("evt_"))


def test_every_event_of_a_bot_is_addressed_to_its_desk():
    """So a webhook of the platform that is limited to a bot misses none."""
    a_lively_history()
    desks = dict(Automation.objects.values_list("pk", "desk__public_id"))
    found = Event.objects.filter(bot_id__in=desks).values_list("bot_id", "topic")
    assert {desks[bot] for bot, _ in found} >= {desk for _, desk in found}
    assert all(desks[bot] == topic for bot, topic in found)
    assert len({bot for bot, _ in found}) > 1


# --- Who may --------------------------------------------------------------------------------------

ACTS = ("secret", "test", "rewind", "skip", "resend")


def test_tokens_list_their_owners_and_change_nothing(desk):
    own, platforms = a_webhook(desk), a_webhook()
    a_webhook(factories.a_desk())
    tokens_of = {
        factories.a_desk_token(desk): own,
        factories.a_platform_token("read"): platforms,
    }
    for token, webhook in tokens_of.items():
        [listed] = get(SUBSCRIPTIONS, token).json()["subscriptions"]
        assert listed["id"] == webhook.public_id
        others = platforms if webhook is own else own
        assert code(get(of(others), token)) == "not_found"
        presented = bearer(token)
        browser = signed_in(desk.user, "password")
        for method, path in [
            ("post", SUBSCRIPTIONS),
            ("patch", of(webhook)),
            ("delete", of(webhook)),
            *(("post", of(webhook, name)) for name in ACTS),
        ]:
            answer = getattr(browser, method)(path, {}, JSON, headers=presented)
            assert code(answer) == "sign_in_required", (method, path)
    assert code(get(SUBSCRIPTIONS, factories.a_platform_token("write"))) == "scope_missing"
    assert Subscription.objects.count() == 3


def test_a_customer_reaches_only_the_own_desks_and_staff_only_the_platforms(desk, owner, staff):
    own, platforms = a_webhook(desk), a_webhook()
    for browser, webhook, other in ((owner, own, platforms), (staff, platforms, own)):
        listed = browser.get(SUBSCRIPTIONS).json()["subscriptions"]
        assert [one["id"] for one in listed] == [webhook.public_id]
        assert code(browser.get(of(other))) == "not_found"
        assert code(change(browser, other, paused=True)) == "not_found"
        assert code(browser.delete(of(other))) == "not_found"
        lawful = {"rewind": {"after": cursor_at(1)}, "skip": {"events": "all"}}
        lawful["resend"] = {"event": "evt_1"}
        for name in ACTS:
            assert code(act(browser, other, name, **lawful.get(name, {}))) == "not_found"


def test_a_change_needs_a_recent_sign_in_and_reading_does_not(desk, settings):
    settings.REQUIRE_STAFF_MFA = True
    own, platforms = a_webhook(desk), a_webhook()
    for browser, webhook in (
        (a_client(desk.user, "password", seconds_ago=LONG_AGO), own),
        (a_client(seconds_ago=LONG_AGO), platforms),
    ):
        assert browser.get(SUBSCRIPTIONS).status_code == 200
        answers = [
            create(browser),
            change(browser, webhook, paused=True),
            browser.delete(of(webhook)),
            *(act(browser, webhook, name) for name in ACTS),
        ]
        assert {code(answer) for answer in answers} == {"reauthentication_required"}
    assert set(Subscription.objects.values_list("state", flat=True)) == {"unverified"}


@pytest.mark.once
def test_a_change_by_session_needs_the_csrf_token(desk):
    browser = signed_in(desk.user, "password", csrf=True)
    assert code(create(browser)) == "csrf_failed"
    assert code(browser.delete(of(a_webhook(desk)))) == "csrf_failed"


# --- Changing -------------------------------------------------------------------------------------


def test_a_new_url_must_answer_a_test_first(desk, owner):
    webhook = an_active_webhook(desk)
    record = change(owner, webhook, url="https://new.example:8443/p").json()
    webhook.refresh_from_db()
    assert (record["url"], record["state"]) == ("new.example:8443/…", "unverified")
    assert (webhook.decrypt(), webhook.is_verified) == ("https://new.example:8443/p", False)
    assert None not in (record["testRequestedAt"], webhook.next_attempt_at)
    event = Event.objects.latest("position")
    assert event.content["data"] == {
        "id": webhook.public_id,
        "name": None,
        "kinds": None,
        "bot": None,
        "state": "unverified",
        "reason": None,
        "changed": ["url"],
    }


def test_a_change_that_changes_nothing_writes_nothing(desk, owner):
    webhook = an_active_webhook(desk, "signal.filled")
    head = Head.objects.get().position
    same = change(owner, webhook, url=URL, kinds=["signal.filled"], paused=False)
    assert (same.status_code, same.json()["state"]) == (200, "active")
    assert Head.objects.get().position == head
    assert code(change(owner, webhook)) == "invalid"
    for wrong in ("true", 1, None):
        assert faults(change(owner, webhook, paused=wrong)).keys() == {"paused"}


def test_pausing_and_resuming_loses_nothing(desk, owner):
    webhook = an_active_webhook(desk)
    assert change(owner, webhook, paused=True).json()["state"] == "paused"
    factories.a_card()
    record = change(owner, webhook, paused=False, kinds=["card.published"]).json()
    assert (record["state"], record["lag"]) == ("active", 1)
    assert kinds_of(desk) == ["created", "verified", "paused", "changed", "resumed"]


def test_what_was_never_verified_is_not_active_after_resuming(desk, owner):
    webhook = a_webhook(desk)
    change(owner, webhook, paused=True)
    Subscription.objects.update(test_requested_at=None)
    record = change(owner, webhook, paused=False).json()
    assert (record["state"], record["testRequestedAt"] is None) == ("unverified", False)


def test_a_disabled_one_resumes_where_it_stopped(desk, owner):
    webhook = an_active_webhook(desk)
    Subscription.objects.update(failures=30, failing_since=timezone.now())
    assert actions.disable(webhook=webhook, reason=DisabledReason.FAILED)
    record = owner.get(of(webhook)).json()
    assert (record["state"], record["reason"]) == ("disabled", "failed")
    record = change(owner, webhook, paused=False).json()
    assert (record["state"], record["reason"], record["failures"]) == ("active", None, 0)
    assert record["cursor"] == cursor_at(webhook.cursor_position)


def test_a_removed_one_leaves_no_row(desk, owner):
    webhook = a_webhook(desk)
    assert owner.delete(of(webhook)).status_code == 204
    assert code(owner.delete(of(webhook))) == "not_found"
    assert not Subscription.objects.exists()
    assert not SubscriptionSecret.objects.exists()
    assert kinds_of(desk) == ["created", "removed"]


def test_a_removed_one_leaves_with_a_desk_that_ends(desk):
    a_webhook(desk), a_webhook(desk), a_webhook()
    account_closing.deactivate(user=desk.user, actor=SYSTEM)
    assert kinds_of(desk) == ["created", "created", "removed", "removed"]
    assert Event.objects.latest("position").kind == "desk.deactivated"
    assert [one.desk for one in Subscription.objects.all()] == [None]


# --- Secrets, tests, cursors ----------------------------------------------------------------------


def test_a_replaced_secret_signs_beside_the_new_one_until_its_end(desk, owner):
    first = create(owner).json()["secret"]
    webhook = Subscription.objects.get()
    with time_machine.travel(timezone.now(), tick=False) as clock:
        answer = act(owner, webhook, "secret", overlap=3600)
        second = answer.json()["secret"]
        assert answer.status_code == 201
        assert secrets_of(webhook) == [second, first]
        assert [one["hint"] for one in answer.json()["secrets"]] == [
            formats.hint(second),
            formats.hint(first),
        ]
        clock.shift(timedelta(hours=1))
        assert secrets_of(webhook) == [second]
        third, _ = actions.replace_secret(webhook=webhook, actor=SYSTEM)
        assert secrets_of(webhook) == [third]
    assert SubscriptionSecret.objects.count() == 1
    for wrong in (-1, 604_801, 10**30, "60", True, 1.5):
        assert faults(act(owner, webhook, "secret", overlap=wrong)).keys() == {"overlap"}


def test_a_test_is_asked_for_and_sent_later(desk, owner):
    webhook = an_active_webhook(desk)
    Subscription.objects.update(test_requested_at=None, next_attempt_at=None)
    head = Head.objects.get().position
    answer = act(owner, webhook, "test")
    assert (answer.status_code, answer.json()["testRequestedAt"] is None) == (202, False)
    assert Subscription.objects.due(timezone.now() + timedelta(seconds=1)).get() == webhook
    assert Head.objects.get().position == head


def test_rewinding_goes_back_and_forward(desk, owner):
    webhook, early = an_active_webhook(desk), cursor_at(1)
    Subscription.objects.update(failures=3)
    record = act(owner, webhook, "rewind", after=early).json()
    assert (record["cursor"], record["lag"], record["failures"]) == (early, 3, 0)
    end = cursor_at(Head.objects.get().position)
    assert act(owner, webhook, "rewind", after=end).json()["lag"] == 1  # the rewind itself
    assert Event.objects.latest("position").content["data"]["position"] == 4
    for wrong, refusal in ((cursor_at(99), "cursor_lost"), ("MDAwMDAwMDAuMQ", "invalid")):
        assert code(act(owner, webhook, "rewind", after=wrong)) == refusal


def test_the_cursor_of_a_webhook_is_lost_with_its_event(desk, owner):
    webhook, token = an_active_webhook(desk), factories.a_desk_token(desk)
    after = owner.get(of(webhook)).json()["cursor"]
    assert after == cursor_at(webhook.cursor_position)
    assert code(get(f"{EVENTS}?after={after}", token)) == "ok"
    Event.objects.filter(position=webhook.cursor_position).update(signal_id="sig_of_another")
    assert code(get(f"{EVENTS}?after={after}", token)) == "cursor_lost"
    assert code(act(owner, webhook, "rewind", after=after)) == "cursor_lost"


def test_a_cursor_of_another_epoch_has_no_lag_and_must_be_moved_before_resuming(desk, owner):
    webhook = an_active_webhook(desk)
    Head.objects.update(epoch="0" * 8)
    assert actions.disable(webhook=webhook, reason=DisabledReason.CURSOR_LOST)
    assert owner.get(of(webhook)).json()["lag"] is None
    refusal = change(owner, webhook, paused=False).json()
    assert refusal["code"] == "cursor_lost"
    assert "Then resume it." in refusal["detail"]
    assert act(owner, webhook, "rewind", after=cursor_at(1)).json()["state"] == "disabled"
    assert change(owner, webhook, paused=False).json()["state"] == "active"


# --- What a runner finds out ----------------------------------------------------------------------


def test_what_changed_meanwhile_is_neither_verified_nor_disabled(desk, owner):
    webhook = a_webhook(desk)
    change(owner, webhook, url="https://other.example/")
    assert not actions.verify(webhook=webhook)
    webhook.refresh_from_db()
    Subscription.objects.update(lease_generation=1)
    assert not actions.verify(webhook=webhook)
    assert Subscription.objects.get().state == "unverified"
    active = an_active_webhook(desk)
    change(owner, active, paused=True)
    assert not actions.disable(webhook=active, reason=DisabledReason.GONE)


def test_an_active_one_that_fails_is_shown_as_failing(desk, owner):
    webhook = an_active_webhook(desk)
    Subscription.objects.update(failures=1)
    assert owner.get(of(webhook)).json()["state"] == "failing"


def test_fifty_attempts_and_ten_answers_are_kept(desk):
    webhook, other = a_webhook(desk), a_webhook(desk)
    now = timezone.now()
    for batch in range(3):
        attempts = [
            DeliveryAttempt(subscription=webhook, at=now, milliseconds=n, status=500, position=n)
            for n in range(batch * 25, batch * 25 + 25)
        ]
        for attempt in attempts:
            attempt.keep_answer(b"no \xff\x00" + b"x" * 2000)
        alone = DeliveryAttempt(subscription=other, at=now, milliseconds=1)
        (leased,), _ = lease([webhook.pk])
        (of_other,), _ = lease([other.pk])
        leased.attempts, of_other.attempts = attempts, [alone]
        finish([leased, of_other])
    kept = list(webhook.attempts.all())
    assert [attempt.position for attempt in kept] == list(range(74, 24, -1))
    assert [bool(attempt.answer) for attempt in kept] == [True] * 10 + [False] * 40
    assert kept[0].answer.startswith("no \ufffdx")
    assert len(kept[0].answer) <= 1024
    assert other.attempts.count() == 3


def test_the_list_pages_in_a_stable_order(desk, owner):
    made = [a_webhook(desk).public_id for _ in range(3)]
    first = owner.get(f"{SUBSCRIPTIONS}?limit=2").json()
    second = owner.get(f"{SUBSCRIPTIONS}?limit=2&after={first['next']}").json()
    listed = [one["id"] for page in (first, second) for one in page["subscriptions"]]
    assert (listed, second["next"]) == (made, None)
    assert code(owner.get(f"{SUBSCRIPTIONS}?state=active")) == "invalid"


def test_what_is_done_twice_is_one_event(desk):
    webhook = a_webhook(desk)
    for act_on in (actions.pause, actions.resume, actions.remove):
        act_on(webhook=webhook, actor=SYSTEM)
        act_on(webhook=webhook, actor=SYSTEM)
    assert kinds_of(desk) == ["created", "paused", "resumed", "removed"]


# --- Limits --------------------------------------------------------------------------------------


def test_rewinds_have_a_limit_of_their_own(settings, desk, owner):
    settings.LIMITS = {**settings.LIMITS, "rewinds": "2/hour", "changes": "2/minute"}
    webhook, other = an_active_webhook(desk), an_active_webhook(desk)
    for one in (webhook, other):
        assert act(owner, one, "rewind", after=cursor_at(1)).status_code == 200
    answer = act(owner, webhook, "rewind", after=cursor_at(1))
    assert (answer.status_code, code(answer)) == (429, "rate_limited")
    assert kinds_of(desk).count("rewound") == 2
    for paused in (True, False):
        assert change(owner, webhook, paused=paused).status_code == 200
