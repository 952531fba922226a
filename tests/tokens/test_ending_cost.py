"""What ends a desk, or all of its credentials, takes the same statements however much there is.

All other writers wait for the log's lock meanwhile.
"""

from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from desks import actions as desks
from desks.models import Automation, Desk
from desks.models.chat import Chat
from events import log
from events.actors import SYSTEM
from events.kinds import Kind
from events.models import Event
from signals.webhooks.models import Subscription
from tests import factories
from tests.signals.audit.stage import broken
from tests.signals.notices.chats.stage import a_chat
from tests.signals.webhooks.stage import a_webhook
from tests.tokens.test_lock_of_the_log import TAKES_LOCK
from tokens import account_closing, actions
from tokens.account_closing import BOTS_OF_A_TURN, close_account
from tokens.choices import Source
from tokens.crypto import formats
from tokens.models import SigningSecret

pytestmark = pytest.mark.django_db(transaction=True)

# Bots of several turns, and as many ended secrets as those may have.
LARGE = {"bots": 2 * BOTS_OF_A_TURN + 1, "webhooks": 4, "chats": 3, "ended": 960}

ENDINGS = {
    "close": close_account,
    "deactivate": lambda desk: account_closing.deactivate(user=desk.user, actor=SYSTEM),
    "end all credentials": lambda desk: actions.end_credentials(
        desk=desk, actor=desk.actor, token=True, secrets=True
    ),
    "disconnect": lambda desk: desks.disconnect(desk=desk, actor=desk.actor),
}


def a_desk_with(card, *, bots: int = 1, webhooks: int = 1, chats: int = 1, ended: int = 1) -> Desk:
    """A ready desk with a token, bots with an election and two live secrets, and the rest."""
    desk = factories.a_ready_desk(card)
    factories.a_desk_token(desk)
    for _ in range(bots):
        bot = factories.a_bot(desk).automation
        actions.generate_secret(
            source=Source.TRADINGVIEW, automation=bot, overlap=timedelta(days=1), actor=SYSTEM
        )
    for _ in range(webhooks):
        a_webhook(desk)
    for _ in range(chats):
        a_chat(desk.user)
    SigningSecret.objects.bulk_create(an_ended_secret(bot) for _ in range(ended))
    return desk


def an_ended_secret(bot: Automation) -> SigningSecret:
    """A secret that was replaced a day ago. Its row has a text, and the log tells nothing of it."""
    at, text = timezone.now() - timedelta(days=1), formats.new(formats.SIGNING_SECRET)
    secret = SigningSecret(
        source=Source.TRADINGVIEW,
        automation=bot,
        hint=formats.hint(text),
        created_at=at,
        ends_at=at,
    )
    secret.encrypt(text)
    return secret


def statements_of_the_turn(end, desk: Desk) -> list[str]:
    """The statements of the last turn, from the log's lock to the commit, without their values.

    SQLite bounds the parameters of a statement, so there the events need several.
    """
    with CaptureQueriesContext(connection) as captured:
        end(desk)
    every = [query["sql"] for query in captured]
    locked = [n for n, sql in enumerate(every) if TAKES_LOCK in sql][-1]
    shapes: list[str] = []
    for sql in every[locked : every.index("COMMIT", locked)]:
        shape = " ".join(sql.split()[:3])
        if connection.vendor == "sqlite" and Event._meta.db_table in shape and shapes[-1] == shape:
            continue
        shapes.append(shape)
    return shapes


@pytest.mark.parametrize("name", ENDINGS)
def test_ending_much_takes_the_statements_of_ending_one(card, name):
    end = ENDINGS[name]
    few = statements_of_the_turn(end, a_desk_with(card))
    many = statements_of_the_turn(end, a_desk_with(card, **LARGE))
    assert many == few
    assert sum(Event._meta.db_table in shape for shape in few) == 1, "one INSERT of all events"


@pytest.mark.parametrize("name", ["close", "deactivate"])
def test_the_events_come_bot_by_bot_and_the_audit_holds(card, name):
    desk = a_desk_with(card, bots=3, webhooks=2, ended=0)
    first, second, third = bots = list(desk.automations.order_by("created_at", "id"))
    desks.withdraw(desk=second.desk, automation=second, actor=SYSTEM)
    secrets = {bot: list(bot.secrets.order_by("-id")) for bot in bots}
    before = Event.objects.count()
    ENDINGS[name](desk)
    events = list(Event.objects.filter(position__gt=before).order_by("position"))

    def of_bot(bot: Automation, *, elected: bool) -> list[tuple[Kind, str]]:
        return [
            *((Kind.SECRET_ENDED, secret.public_id) for secret in secrets[bot]),
            *([(Kind.ELECTION_WITHDRAWN, bot.pk)] if elected else []),
            (Kind.AUTOMATION_REMOVED, bot.pk),
        ]

    last = Kind.DESK_CLOSED if name == "close" else Kind.DESK_DEACTIVATED
    of_bots = [
        *of_bot(first, elected=True),
        *of_bot(second, elected=False),
        *of_bot(third, elected=True),
    ]
    told = [(event.kind, event.content["data"]) for event in events[: len(of_bots)]]
    assert [(kind, data.get("botId") or data["id"]) for kind, data in told] == of_bots
    assert [event.kind for event in events[len(of_bots) :]] == [
        Kind.ELECTION_WITHDRAWN,
        Kind.DESK_DISCONNECTED,
        Kind.TOKEN_REVOKED,
        *[Kind.SUBSCRIPTION_REMOVED] * 2,
        last,
    ]
    assert len({event.at for event in events}) == 1 + (name == "close")  # the bots go before it
    assert not Subscription.objects.exists()
    assert not Chat.objects.exists()
    assert broken() == {}


@pytest.mark.parametrize(
    ("bots", "turns"),
    [(0, 1), (1, 2), (BOTS_OF_A_TURN, 2), (BOTS_OF_A_TURN + 1, 3)],
)
def test_no_turn_of_a_closing_removes_more_than_five_bots(card, bots, turns):
    desk = a_desk_with(card, bots=bots, ended=0)
    with CaptureQueriesContext(connection) as captured:
        close_account(desk)
    assert sum(TAKES_LOCK in query["sql"] for query in captured) == turns
    removed = Event.objects.filter(kind=Kind.AUTOMATION_REMOVED)
    assert removed.count() == bots
    at_once = Counter(desk.automations.values_list("removed_at", flat=True)).values()
    assert max(at_once, default=0) <= BOTS_OF_A_TURN
    assert broken() == {}


def test_a_closing_that_broke_off_is_taken_up_by_the_next(card, monkeypatch):
    desk = a_desk_with(card, bots=BOTS_OF_A_TURN + 1, ended=0)
    with monkeypatch.context() as patch:
        patch.setattr("tokens.account_closing.end_desk", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            close_account(desk)
    assert not desk.automations.filter(removed_at=None).exists()
    assert Desk.objects.get(pk=desk.pk).connection.venue
    assert broken() == {}
    close_account(desk)
    assert Desk.objects.get(pk=desk.pk).deactivated
    assert Event.objects.filter(kind=Kind.AUTOMATION_REMOVED).count() == BOTS_OF_A_TURN + 1


def test_a_desk_with_thousands_of_ended_secrets_is_closed_and_none_keeps_a_text(card):
    desk = a_desk_with(card, ended=4800)
    close_account(desk)
    assert not SigningSecret.objects.with_text().exists()
    assert SigningSecret.objects.count() == 4802


# --- Templates -----------------------------------------------------------------------------------


def test_a_template_that_is_rendered_under_the_lock_fails_the_test(desk):
    """So does an ending that renders one, in the tests above."""
    with pytest.raises(AssertionError, match="under the log's lock"), log.turn(actor=SYSTEM):
        render_to_string("tokens/email/closed_message.txt", {})
