"""What a customer, or who holds a desk's token, can do to the lock that every writer waits for."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from desks.models import Desk
from events.log import TAKE_POSITIONS
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
from tests.desks.test_pages_access import three_in_a_window
from tests.pages import problem
from tests.signals import bodies
from tokens.models import Token

pytestmark = pytest.mark.django_db


class Turns:
    """How often the lock was taken."""

    taken = 0


@contextmanager
def counted() -> Iterator[Turns]:
    turns = Turns()
    with CaptureQueriesContext(connection) as captured:
        yield turns
    takes = TAKE_POSITIONS.partition("%s")[0]
    turns.taken = sum(query["sql"].startswith(takes) for query in captured)


def test_the_count_sees_a_turn(desk):
    with counted() as turns:
        factories.a_desk_token(desk)
    assert turns.taken == 1


# --- By token ------------------------------------------------------------------------------------


def test_whatever_it_asks_a_desk_token_takes_the_lock_only_to_revoke_itself(desk, stranger):
    factories.a_desk_token(desk)
    old, own = Token.objects.get(desk=desk), factories.a_desk_token(desk)
    factories.a_desk_token(stranger)
    others = Token.objects.get(desk=stranger)
    sender, headers = Client(raise_request_exception=False), bearer(own)
    get(ME, own)  # notes its use
    paths = [
        *(CATALOG, ME, DESKS, EVENTS, TOKENS, HOOK, deploy_path(desk.public_id)),
        *(f"{DESKS}/{desk.public_id}", f"{DESKS}/{stranger.public_id}"),
        *(f"{TOKENS}?id={token.public_id}" for token in (old, others)),
    ]
    said = [b"", b"{", *(bodies.fanout(), bodies.floor(desk), bodies.deploy(), bodies.nox())]
    with counted() as turns:
        for path, method, body in product(paths, ("GET", "POST", "DELETE", "PUT"), said):
            if (path, method, body) != (TOKENS, "DELETE", b""):
                sender.generic(method, path, written(body), "application/json", headers=headers)
    assert turns.taken == 0
    with counted() as turns:
        answers = [sender.delete(TOKENS, headers=headers).status_code for _ in range(3)]
    assert (answers, turns.taken) == ([200, 401, 401], 1)


def test_revoking_what_is_revoked_answers_the_same_without_the_lock(desk):
    factories.a_desk_token(desk)
    old, own = Token.objects.get(desk=desk), factories.a_desk_token(desk)
    path, position = f"{TOKENS}?id={old.public_id}", Head.objects.get().position
    with counted() as turns:
        answers = [Client().delete(path, headers=bearer(own)) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {200}
    assert (turns.taken, Head.objects.get().position) == (0, position)


def test_what_a_desk_token_asks_is_limited_whatever_it_asks(desk, settings):
    settings.LIMITS = {**settings.LIMITS, "reads": three_in_a_window()}
    factories.a_desk_token(desk)
    old, own = Token.objects.get(desk=desk), factories.a_desk_token(desk)
    asked = (("GET", ME), ("GET", EVENTS), ("DELETE", f"{TOKENS}?id={old.public_id}"))
    ways = [Client().generic(*each, headers=bearer(own)) for each in (*asked, *asked)]
    assert [code(answer) for answer in ways] == ["ok"] * 3 + ["rate_limited"] * 3


# --- By session ----------------------------------------------------------------------------------


def test_toggling_is_limited_for_each_user(desk, settings):
    settings.LIMITS = {**settings.LIMITS, "changes": three_in_a_window()}
    browser, card = signed_in(desk.user), {"card": desk.elections.get().card_id}
    toggles = [("/desk/withdraw", {}), ("/desk/enrol", card)] * 4
    with counted() as turns:
        answers = [browser.post(path, fields) for path, fields in toggles]
    assert [answer.status_code for answer in answers] == [302] * 3 + [429] * 5
    assert {problem(answer) for answer in answers[3:]} == {"rate_limited"}
    assert turns.taken == 3


def test_revoking_by_session_is_one_of_those_changes(desk, stranger, settings):
    settings.LIMITS = {**settings.LIMITS, "changes": three_in_a_window()}
    factories.a_desk_token(desk)
    browser, path = signed_in(desk.user), f"{TOKENS}?id={Token.objects.get(desk=desk).public_id}"
    answers = [code(browser.delete(path)) for _ in range(4)]
    assert answers == ["ok", "ok", "ok", "rate_limited"]
    assert browser.post("/desk/withdraw").status_code == 429
    assert code(signed_in(stranger.user).delete(path)) == "not_found"


# --- By signature --------------------------------------------------------------------------------


def test_who_knows_a_bot_takes_the_lock_by_bad_signatures_no_oftener_than_is_recorded(
    desk, settings
):
    settings.LIMITS = {**settings.LIMITS, "refusals": three_in_a_window()}
    bot, elsewhere = factories.a_bot(desk), factories.a_shared_secret()
    before = Event.objects.count()
    with counted() as turns:
        for _ in range(6):
            answer = push(bodies.tradingview(bot), secret=elsewhere)
            assert code(answer) == "signature_invalid"
    assert (turns.taken, Event.objects.count() - before) == (3, 3)


def test_who_knows_no_bot_takes_it_never(desk: Desk):
    with counted() as turns:
        for bot_id in ("bot_" + 22 * "0", "", None, 7, desk.public_id):
            body = {**bodies.fanout(), "source": "tradingview", "botId": bot_id}
            assert code(push(body, secret="svc_sign_nobodys")) == "signature_invalid"
    assert turns.taken == 0
