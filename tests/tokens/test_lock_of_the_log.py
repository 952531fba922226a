"""How often customers, desk tokens and bots can take the log's lock."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from desks import actions as desks
from desks.models import Desk
from events.actors import SYSTEM
from events.models import Event, Head
from tests import factories
from tests.client import (
    CATALOG,
    DESKS,
    EVENTS,
    HOOK,
    ME,
    TOKENS,
    bearer,
    code,
    deploy_path,
    get,
    push,
    signed_in,
    written,
)
from tests.processes import meet, run_together
from tests.signals import bodies
from tests.signals.site.test_access import three_in_a_window
from tokens import actions as tokens
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db

TAKES_LOCK = "NOT halted"  # in the statement that locks the counter


class Turns:
    """Counts how often the log's lock was taken."""

    taken = 0


@contextmanager
def count_turns() -> Iterator[Turns]:
    turns = Turns()
    with CaptureQueriesContext(connection) as captured:
        yield turns
    turns.taken = sum(TAKES_LOCK in query["sql"] for query in captured)


# --- By token ------------------------------------------------------------------------------------


def test_a_desk_token_takes_the_lock_only_to_revoke_itself(desk, stranger):
    factories.a_desk_token(desk)
    old, own = Token.objects.get(desk=desk), factories.a_desk_token(desk)
    factories.a_desk_token(stranger)
    others = Token.objects.get(desk=stranger)
    sender, headers = Client(raise_request_exception=False), bearer(own)
    get(ME, own)  # records its use
    paths = [
        *(CATALOG, ME, DESKS, EVENTS, TOKENS, HOOK, deploy_path(desk.public_id)),
        *(f"{DESKS}/{desk.public_id}", f"{DESKS}/{stranger.public_id}"),
        *(f"{TOKENS}?id={token.public_id}" for token in (old, others)),
    ]
    said: list[Any] = [
        b"",
        b"{",
        *(bodies.fanout(), bodies.floor(desk), bodies.deploy(), bodies.nox()),
    ]
    with count_turns() as turns:
        for path, method, body in product(paths, ("GET", "POST", "DELETE", "PUT"), said):
            if (path, method, body) != (TOKENS, "DELETE", b""):
                sender.generic(method, path, written(body), "application/json", headers=headers)
    assert turns.taken == 0
    with count_turns() as turns:
        answers = [sender.delete(TOKENS, headers=headers).status_code for _ in range(3)]
    assert (answers, turns.taken) == ([200, 401, 401], 1)


def test_revoking_again_returns_the_same_response_without_the_lock(desk):
    factories.a_desk_token(desk)
    old, own = Token.objects.get(desk=desk), factories.a_desk_token(desk)
    path, position = f"{TOKENS}?id={old.public_id}", Head.objects.get().position
    with count_turns() as turns:
        answers = [Client().delete(path, headers=bearer(own)) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {200}
    assert (turns.taken, Head.objects.get().position) == (0, position)


# --- By session ----------------------------------------------------------------------------------


def test_withdrawing_and_revoking_take_no_turn_if_there_is_nothing_to_end(desk):
    factories.a_desk_token(desk)
    bot, browser = factories.a_bot(desk), signed_in(desk.user)
    secret = SigningSecret.objects.get(automation=bot.id).public_id
    requests = [
        ("POST", "/desk/withdraw"),
        ("POST", f"/bots/{bot.id}/withdraw"),
        ("POST", f"/bots/{bot.id}/secrets/{secret}/end"),
        ("POST", "/desk/token/revoke"),
        ("POST", "/desk/disconnect"),
        ("POST", f"/bots/{bot.id}/remove"),
    ]
    for method, path in requests:
        with count_turns() as first:
            browser.generic(method, path)
        with count_turns() as again:
            browser.generic(method, path)
        assert (first.taken, again.taken) == (1, 0), path
    with count_turns() as again:  # as two browsers may request it at once
        tokens.remove_automation(automation=bot.automation, actor=SYSTEM)
    assert again.taken == 0


def withdraw_everything(desk: Desk, bot: factories.Bot, token: Token, secret: SigningSecret):
    """The requests of one worker, sent one after the other."""
    for withdraw in (
        lambda: desks.withdraw(desk=desk, actor=SYSTEM),
        lambda: desks.withdraw(desk=bot.automation.desk, automation=bot.automation, actor=SYSTEM),
        lambda: tokens.end_secret(secret=secret, actor=SYSTEM),
        lambda: tokens.revoke(token=token, actor=SYSTEM),
        lambda: desks.disconnect(desk=desk, actor=SYSTEM),
        lambda: tokens.remove_automation(automation=bot.automation, actor=SYSTEM),
    ):
        meet()
        withdraw()


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_four_concurrent_workers_withdraw_once(card):
    desk = factories.a_ready_desk(card)
    bot = factories.a_bot(desk)
    factories.a_desk_token(desk)
    token, secret = Token.objects.select_related("desk").get(), SigningSecret.objects.get()
    before = Head.objects.get().position
    run_together(withdraw_everything, [(desk, bot, token, secret)] * 4)
    written = Event.objects.filter(position__gt=before).order_by("position")
    assert list(written.values_list("kind", flat=True)) == [
        *("election.withdrawn", "election.withdrawn", "secret.ended", "token.revoked"),
        *("desk.disconnected", "automation.removed"),
    ]


# --- By signature --------------------------------------------------------------------------------


def test_bad_signatures_for_a_known_bot_take_the_lock_only_to_record_refusals(desk, settings):
    settings.LIMITS = {**settings.LIMITS, "refusals": three_in_a_window()}
    bot, elsewhere = factories.a_bot(desk), factories.a_shared_secret()
    before = Event.objects.count()
    with count_turns() as turns:
        for _ in range(6):
            answer = push(bodies.tradingview(bot), secret=elsewhere)
            assert code(answer) == "signature_invalid"
    # Three refusals, and that the allowance is used up.
    assert (turns.taken, Event.objects.count() - before) == (4, 4)


def test_bad_signatures_for_unknown_bots_never_take_the_lock(desk: Desk):
    with count_turns() as turns:
        for bot_id in ("bot_" + 22 * "0", "", None, 7, desk.public_id):
            body = {**bodies.fanout(), "source": "tradingview", "botId": bot_id}
            assert code(push(body, secret="svc_sign_nobodys")) == "signature_invalid"
    assert turns.taken == 0
