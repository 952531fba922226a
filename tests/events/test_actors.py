"""The actors of events, and which of them a desk sees (contract, section 4)."""

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from desks import actions
from desks.models import User
from events import log
from events.actors import SYSTEM, Actor, ActorType
from events.models import Event
from tests import staff
from tests.client import deploy_path, get, post, push
from tests.factories import (
    a_desk_token,
    a_platform_token,
    a_shared_secret,
    a_staff_user,
)
from tests.signals.bodies import deploy, fanout, floor, tradingview
from tokens.choices import Source
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db

EVENTS = "/api/v1/events?order=desc&limit=1"


def last(token: str, kind: str = "") -> dict | None:
    """The actor of the last event that a token sees."""
    query = EVENTS + (f"&kind={kind}" if kind else "")
    return get(query, token).json()["events"][0]["actor"]


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def platform() -> str:
    return a_platform_token()


@pytest.fixture
def own(desk) -> str:
    return a_desk_token(desk)


def test_the_actor_of_a_change_on_a_page_is_the_user(desk, platform, own):
    signed_in(desk.user).post(reverse("withdraw"))
    user = {"type": "user", "id": desk.public_id}
    assert last(platform) == last(own) == user


def test_the_actor_of_a_change_over_the_api_is_the_user(desk, platform):
    client = signed_in(desk.user)
    sent = client.post("/api/v1/tokens", {"scope": "desk"}, content_type="application/json")
    assert sent.status_code == 201
    assert last(platform) == {"type": "user", "id": desk.public_id}


def test_the_actor_of_a_change_by_staff_is_hidden_from_desks(desk, platform, own):
    user = a_staff_user()
    fields = {"name": "Evening", "pair": "ETH/USDT", "direction": "long"}
    staff.publish(staff.a_client(user), fields)
    assert user.staff_id.startswith("stf_")
    assert last(platform) == {"type": "staff", "id": user.staff_id}
    assert last(own) is None


def test_the_actor_id_of_a_staff_user_is_stable_and_unique():
    user = a_staff_user()
    first = user.staff_id
    user.save()
    assert User.objects.get(pk=user.pk).staff_id == first
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.filter(pk=user.pk).update(staff_id=None)
    other = a_staff_user("other@example.com")
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.filter(pk=other.pk).update(staff_id=first)


def test_a_token_that_revokes_itself_is_shown_to_its_desk(desk, platform, own):
    token = Token.objects.get(desk=desk)
    Client().delete("/api/v1/tokens", headers={"Authorization": f"Bearer {own}"})
    assert last(platform) == {"type": "token", "id": token.public_id}
    new = a_desk_token(desk)
    assert last(new, "token.revoked") == {"type": "token", "id": token.public_id}


def test_a_platform_token_is_not_shown_to_the_desk_that_it_fills(desk, platform, own):
    token = Token.objects.get(scope="platform")
    for sent in (
        post(deploy_path(desk.public_id), deploy(), platform),
        push(fanout(), platform),
    ):
        assert sent.status_code == 200
        assert last(platform) == {"type": "token", "id": token.public_id}
        assert last(own, "signal.filled") is None


def test_a_desk_sees_its_bots_secret_as_actor_but_not_the_floors(desk, bot, platform, own):
    push(tradingview(bot), secret=bot.secret)
    secret = SigningSecret.objects.get(source=Source.TRADINGVIEW)
    assert last(platform) == last(own) == {"type": "secret", "id": secret.public_id}
    push(floor(desk), secret=a_shared_secret())
    secret = SigningSecret.objects.get(source=Source.FLOOR)
    assert last(platform) == {"type": "secret", "id": secret.public_id}
    assert last(own) is None


def test_the_actor_of_a_refusal_is_the_secret_or_null_for_a_bad_signature(bot, platform, own):
    push(tradingview(bot, pair="NOT/IT"), secret=bot.secret)
    assert last(platform) == last(own)
    assert last(own)["type"] == "secret"
    push(tradingview(bot), secret="svc_sign_of_somebody")
    assert get(EVENTS, platform).json()["events"][0]["data"]["code"] == "signature_invalid"
    assert (last(platform), last(own)) == (None, None)


def test_the_actor_of_a_command_is_the_system(desk, platform):
    assert last(platform) == {"type": "system", "id": None}


def test_a_turn_without_an_actor_is_an_error():
    with pytest.raises(TypeError), log.turn():  # type: ignore[call-arg]
        raise AssertionError


def test_a_turn_inside_another_one_has_the_same_actor(desk):
    before = Event.objects.count()
    with pytest.raises(ValueError), log.turn(actor=Actor(ActorType.STAFF, "stf_1")):  # noqa: PT011
        actions.disconnect(desk=desk, actor=SYSTEM)
    assert Event.objects.count() == before


@pytest.mark.parametrize(
    "columns",
    [("system", "usr_1"), ("user", None), (None, "usr_1")],
)
def test_an_actor_has_the_id_that_its_type_requires(desk, columns):
    kind, public_id = columns
    with pytest.raises(IntegrityError), transaction.atomic():
        Event.objects.update(actor_type=kind, actor_id=public_id)
