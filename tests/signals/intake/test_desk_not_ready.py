"""The refusal desk_not_ready has a sentence for each reason (contract, section 5)."""

import pytest

from desks import actions
from desks.models import Desk
from events.actors import SYSTEM
from signals.law.refusals import DeskNotReady
from tests.client import deploy_path, post, push
from tests.factories import a_card, a_connected_desk, a_desk, a_platform_token, a_ready_desk
from tests.signals.bodies import deploy, floor
from tokens.account_closing import deactivate

pytestmark = pytest.mark.django_db


def not_connected() -> Desk:
    return a_desk()


def disconnected() -> Desk:
    desk = a_ready_desk(a_card())
    actions.disconnect(desk=desk, actor=SYSTEM)
    return desk


def not_enrolled() -> Desk:
    return a_connected_desk()


def replaced_card() -> Desk:
    desk = a_ready_desk(a_card())
    a_card(name="Evening")
    return desk


def retired_card() -> Desk:
    desk = a_ready_desk(a_card())
    actions.retire_card(actor=SYSTEM)
    return desk


def withdrawn() -> Desk:
    desk = a_ready_desk(a_card())
    actions.withdraw(desk=desk, actor=SYSTEM)
    return desk


def connected_again() -> Desk:
    desk = disconnected()
    actions.connect(desk=desk, venue="Kraken", actor=SYSTEM)
    return desk


def deactivated() -> Desk:
    desk = a_ready_desk(a_card())
    deactivate(user=desk.user, actor=SYSTEM)
    return desk


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (not_connected, "not_connected"),
        (disconnected, "not_connected"),
        (not_enrolled, "not_enrolled"),
        (replaced_card, "card_changed"),
        (retired_card, "card_changed"),
        (withdrawn, "withdrawn"),
        (connected_again, "withdrawn"),
        (deactivated, "deactivated"),
    ],
)
def test_the_refusal_gives_the_reason(make, reason):
    desk, token = make(), a_platform_token()
    for answer in (
        post(deploy_path(desk.public_id), deploy(), token),
        push(floor(desk), token),
    ):
        problem = answer.json()
        assert (problem["code"], problem["reason"]) == ("desk_not_ready", reason)
        assert problem["detail"] == DeskNotReady.REASONS[reason]


def test_each_reason_has_a_different_sentence():
    assert len(set(DeskNotReady.REASONS.values())) == len(DeskNotReady.REASONS) == 5
