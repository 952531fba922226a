"""The refusal desk_not_ready has a sentence for each reason (contract, section 5)."""

from collections.abc import Callable

import pytest
from django.utils import timezone

from desks import actions
from desks.models import Desk
from events.actors import SYSTEM
from signals.intake.statements import StateQuery, load_states
from signals.law.refusals import DeskNotReady
from tests.client import deploy_path, post, push
from tests.factories import a_card, a_connected_desk, a_desk, a_platform_token, a_ready_desk
from tests.signals.bodies import deploy, floor
from tokens.account_closing import deactivate

pytestmark = pytest.mark.django_db


def once_ready(happen: Callable[[Desk], object]) -> Callable[[], Desk]:
    """Makes a desk that was ready until this happened."""

    def make() -> Desk:
        desk = a_ready_desk(a_card())
        happen(desk)
        return desk

    return make


def reconnect(desk: Desk) -> None:
    actions.disconnect(desk=desk, actor=SYSTEM)
    actions.connect(desk=desk, venue="Kraken", actor=SYSTEM)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (a_desk, "not_connected"),
        (a_connected_desk, "not_enrolled"),
        (once_ready(lambda desk: actions.disconnect(desk=desk, actor=SYSTEM)), "not_connected"),
        (once_ready(lambda desk: a_card(name="Evening")), "card_changed"),
        (once_ready(lambda desk: actions.retire_card(actor=SYSTEM)), "card_changed"),
        (once_ready(lambda desk: actions.withdraw(desk=desk, actor=SYSTEM)), "withdrawn"),
        (once_ready(reconnect), "withdrawn"),
        (once_ready(lambda desk: deactivate(user=desk.user, actor=SYSTEM)), "deactivated"),
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


def test_for_a_signal_of_a_bot_it_is_not_looked_whether_the_desk_ever_enrolled():
    """Only the refusal of another signal says so, and this is read under the log's lock."""
    desk = a_ready_desk(a_card())
    actions.withdraw(desk=desk, actor=SYSTEM)
    of_bot: StateQuery = {"user_id": desk.public_id, "bot_id": "bot_1"}
    states = load_states([of_bot, {"user_id": desk.public_id}], timezone.now())
    assert [state.was_enrolled for state in states] == [None, True]
