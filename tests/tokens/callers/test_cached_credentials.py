"""A credential that recently sent a signal is read once, and every answer is as if it were not.

Another server is a second cache: what is changed there is not dropped from this process's cache.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from events.actors import SYSTEM
from events.models import Event
from signals.intake.models import Signal
from tests.client import (
    DESKS,
    HOOK,
    TOKENS,
    code,
    deploy_path,
    get,
    post,
    push,
    signed,
    written,
)
from tests.factories import a_bot, a_platform_token, a_shared_secret
from tests.signals.bodies import deploy, fanout, nox, tradingview
from tokens import account_closing, actions
from tokens.callers import credential_cache
from tokens.callers.credential_cache import CredentialCache
from tokens.choices import Source
from tokens.crypto import formats, signing
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db

CHECK = "/api/hooks/check"
TOKEN_TABLE, SECRET_TABLE = Token._meta.db_table, SigningSecret._meta.db_table


@contextmanager
def on_another_server() -> Iterator[None]:
    """Runs the block with the cache of another server."""
    with (
        patch.object(credential_cache, "tokens", CredentialCache()),
        patch.object(credential_cache, "secrets", CredentialCache()),
    ):
        yield


def statements(send: Callable[[], Any], expected: str = "ok") -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        assert code(send()) == expected
    return [query["sql"] for query in captured]


def revoke() -> None:
    actions.revoke(token=Token.objects.get(revoked_at=None), actor=SYSTEM)


def replace_secret(bot: Any) -> str:
    return actions.generate_secret(
        source=Source.TRADINGVIEW, automation=bot.automation, actor=SYSTEM
    )[0]


def refusals() -> list[str]:
    recorded = Event.objects.filter(kind="signal.refused").order_by("position")
    return [event.content["data"]["code"] for event in recorded]


@pytest.fixture
def sent(desk, engine) -> Callable[..., Any]:
    """Deploys, after a first deploy that put the token into the cache."""

    def send(**changes: Any) -> Any:
        return post(deploy_path(desk.public_id), deploy(**changes), engine)

    assert code(send()) == "ok"
    return send


@pytest.fixture
def known(bot) -> Any:
    """A bot whose secret is in the cache."""
    assert code(push(tradingview(bot), secret=bot.secret)) == "ok"
    return bot


# --- What is read -------------------------------------------------------------------------------


def test_a_repeated_deploy_asks_for_the_token_only_under_the_lock(sent):
    asked = statements(sent)
    [lock] = [index for index, sql in enumerate(asked) if "events_head" in sql][:1]
    assert all(TOKEN_TABLE not in sql for sql in asked[:lock])
    assert [TOKEN_TABLE in sql for sql in asked[lock:]].count(True) == 1


def test_a_repeated_push_asks_for_the_secret_only_under_the_lock(known):
    asked = statements(lambda: push(tradingview(known), secret=known.secret))
    [lock] = [index for index, sql in enumerate(asked) if "events_head" in sql][:1]
    assert all(SECRET_TABLE not in sql for sql in asked[:lock])
    assert [SECRET_TABLE in sql for sql in asked[lock:]].count(True) == 1


@pytest.mark.parametrize("path", [DESKS, "/api/v1/events", TOKENS])
def test_every_other_endpoint_asks_each_time(sent, engine, path):
    assert any(TOKEN_TABLE in sql for sql in statements(lambda: get(path, engine)))
    with on_another_server():
        revoke()
    assert code(get(path, engine)) == "token_invalid"


def test_checking_a_signal_asks_each_time(sent, engine):
    assert code(post(CHECK, fanout(), engine)) == "ok"
    with on_another_server():
        revoke()
    assert code(post(CHECK, fanout(), engine)) == "token_invalid"


def test_an_entry_lasts_a_minute_and_the_use_is_noted_when_it_ends(desk, engine):
    now = timezone.now()

    def send() -> Any:
        return post(deploy_path(desk.public_id), deploy(), engine)

    def reads(seconds: int) -> bool:
        with time_machine.travel(now + timedelta(seconds=seconds), tick=False):
            asked = statements(send)
        return sum(TOKEN_TABLE in sql for sql in asked) > 1

    assert [reads(0), reads(59), reads(60), reads(61)] == [True, False, True, False]
    assert Token.objects.get().last_used_at == now + timedelta(seconds=60)
    assert reads(30)  # a clock that was set back


def test_the_use_is_noted_at_most_a_minute_late_if_another_server_noted_the_last_one(desk, engine):
    now = timezone.now()
    with on_another_server(), time_machine.travel(now, tick=False):
        post(deploy_path(desk.public_id), deploy(), engine)
    for seconds in (59, 60):
        with time_machine.travel(now + timedelta(seconds=seconds), tick=False):
            post(deploy_path(desk.public_id), deploy(), engine)
    assert Token.objects.get().last_used_at == now + timedelta(seconds=60)


def test_what_does_not_exist_is_not_cached(desk, bot):
    with on_another_server():
        actions.end_secret(secret=SigningSecret.objects.get(), actor=SYSTEM)
    assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"
    assert code(push(fanout(), formats.new(formats.PLATFORM_TOKEN))) == "token_invalid"
    assert not credential_cache.tokens._rows
    assert not credential_cache.secrets._rows
    with on_another_server():
        new = replace_secret(bot)
    assert code(push(tradingview(bot), secret=new)) == "ok"


def test_the_cache_holds_no_value_and_no_secret(sent, known, engine):
    push(fanout(), secret=(floor := a_shared_secret()))
    rows = [*credential_cache.tokens._rows.items(), *credential_cache.secrets._rows.items()]
    assert len(rows) == 3
    models = [
        row for _, (_, found) in rows for row in (found if isinstance(found, list) else [found])
    ]
    stored = repr([(key, vars(model)) for key, _ in rows for model in models])
    for value in (engine, known.secret, floor):
        assert value not in stored
        assert value[9:-6] not in stored


def test_the_cache_is_bounded_and_drops_what_was_not_used_for_the_longest_time():
    now, rows = timezone.now(), CredentialCache[str, int]()
    with patch.object(credential_cache, "MAX_ENTRIES", 2):
        rows.put("a", 1, now)
        rows.put("b", 2, now)
        rows.get("a", now)
        rows.put("c", 3, now)
    assert [rows.get(key, now) for key in "abc"] == [1, None, 3]


# --- What this process changes ------------------------------------------------------------------


def test_a_token_that_is_revoked_here_is_dropped(sent, django_capture_on_commit_callbacks):
    """Not before the commit: a request in between would store the old row again."""
    with django_capture_on_commit_callbacks(execute=True):
        revoke()
        assert credential_cache.tokens._rows
    assert not credential_cache.tokens._rows


@pytest.mark.parametrize("change", ["replace", "end", "remove", "end all", "deactivate"])
def test_a_bots_secret_that_changes_here_is_dropped(
    known, change, django_capture_on_commit_callbacks
):
    other = a_bot(known.automation.desk)
    assert code(push(tradingview(other), secret=other.secret)) == "ok"
    secret = SigningSecret.objects.get(automation=known.automation)
    desk = known.automation.desk
    act = {
        "replace": lambda: replace_secret(known),
        "end": lambda: actions.end_secret(secret=secret, actor=SYSTEM),
        "remove": lambda: actions.remove_automation(automation=known.automation, actor=SYSTEM),
        "end all": lambda: actions.end_credentials(
            desk=desk, actor=SYSTEM, token=False, secrets=True
        ),
        "deactivate": lambda: account_closing.deactivate(user=desk.user, actor=SYSTEM),
    }[change]
    with django_capture_on_commit_callbacks(execute=True):
        act()
    assert (Source.TRADINGVIEW, known.id) not in credential_cache.secrets._rows
    alone = change in ("replace", "end", "remove")
    assert ((Source.TRADINGVIEW, other.id) in credential_cache.secrets._rows) == alone


def test_the_floors_secret_that_stands_in_for_nox_is_dropped_with_either(
    desk, django_capture_on_commit_callbacks
):
    for source in (Source.FLOOR, Source.NOX):
        secret = a_shared_secret()
        SigningSecret.objects.filter(source=Source.NOX).delete()
        assert code(push(nox(mode="draft"), secret=secret)) == "ok"
        assert list(credential_cache.secrets._rows) == [(Source.NOX, None)]
        with django_capture_on_commit_callbacks(execute=True):
            a_shared_secret(source)
        assert not credential_cache.secrets._rows


# --- What another server changes ----------------------------------------------------------------

WRONG: dict[str, Any] = {
    "accepted": dict,
    "breaks the law": lambda: {"elected": False},
    "breaks its shape": lambda: {"direction": "up"},
    "holds a secret": lambda: {"apiKey": "x"},
    "another pair": lambda: {"pair": "X/Y"},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_token_that_was_revoked_elsewhere_is_token_invalid_and_nothing_is_recorded(sent, wrong):
    with on_another_server():
        revoke()
    events = Event.objects.count()
    assert code(sent(**WRONG[wrong]())) == "token_invalid"
    assert (Event.objects.count(), Signal.objects.count()) == (events, 1)


@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_a_token_beside_a_signature_that_ended_elsewhere_is_refused_at_once(bot, engine, end):
    """The signature authorises: nothing asks for the token under the lock."""

    def send() -> Any:
        return push(tradingview(bot), engine, secret=bot.secret)

    assert code(push(fanout(), engine)) == "ok"
    assert code(send()) == "ok"
    column = "revoked_at" if end == "revoked" else "expires_at"
    Token.objects.filter(revoked_at=None).update(**{column: timezone.now()})
    assert code(send()) == "token_invalid"
    assert Signal.objects.count() == 2


def test_a_token_that_ended_elsewhere_comes_as_far_as_the_lock_once(sent):
    with on_another_server():
        revoke()
    assert any("events_head" in sql for sql in statements(sent, "token_invalid"))
    assert not any("events_head" in sql for sql in statements(sent, "token_invalid"))


def test_secrets_that_were_replaced_elsewhere_are_read_once(known):
    with on_another_server():
        new = replace_secret(known)
    assert code(push(tradingview(known), secret=new)) == "ok"
    asked = statements(lambda: push(tradingview(known), secret=new))
    [lock] = [index for index, sql in enumerate(asked) if "events_head" in sql][:1]
    assert all(SECRET_TABLE not in sql for sql in asked[:lock])


def test_a_revoked_token_does_not_learn_of_a_nonce(sent):
    body = deploy()
    assert code(sent(**body)) == "ok"
    with on_another_server():
        revoke()
    assert code(sent(**body)) == "token_invalid"


def test_a_revoked_token_is_refused_before_the_form_of_its_body(desk, engine, sent):
    with on_another_server():
        revoke()
    path = deploy_path(desk.public_id)
    assert code(post(path, b"{", engine)) == "token_invalid"
    assert code(post(path, deploy(), engine, content_type="text/plain")) == "token_invalid"


def test_a_revoked_token_is_refused_before_the_form_of_its_body_on_the_hook(desk, engine):
    assert code(push(fanout(), engine)) == "ok"
    with on_another_server():
        revoke()
    assert code(push(b"{", engine)) == "token_invalid"


def test_a_revoked_token_is_refused_before_its_missing_signature(bot, engine):
    assert code(push(fanout(), engine)) == "ok"
    with on_another_server():
        revoke()
    assert code(push(tradingview(bot), engine)) == "token_invalid"


def test_a_revoked_token_is_refused_before_its_scope(desk):
    reader = a_platform_token("read")
    path = deploy_path(desk.public_id)
    assert code(post(path, deploy(), reader)) == "scope_missing"
    with on_another_server():
        revoke()
    assert code(post(path, deploy(), reader)) == "token_invalid"


def test_a_revoked_token_is_refused_before_its_limit(sent, settings):
    settings.LIMITS = {**settings.LIMITS, "platform": "1/minute"}
    assert [code(sent()), code(sent())] == ["ok", "rate_limited"]
    with on_another_server():
        revoke()
    assert code(sent()) == "token_invalid"


def test_a_revoked_token_is_refused_when_its_refusals_are_no_longer_recorded(sent, settings):
    settings.LIMITS = {**settings.LIMITS, "refusals": "1/minute"}
    assert [code(sent(elected=False)) for _ in range(2)] == ["not_elected"] * 2
    with on_another_server():
        revoke()
    assert code(sent(elected=False)) == "token_invalid"


@pytest.mark.parametrize("changes", [{}, {"elected": False}])
def test_a_failure_counts_once(sent, settings, changes):
    settings.LIMITS = {**settings.LIMITS, "failures": "2/minute"}
    with on_another_server():
        revoke()
    answers = [code(sent(**changes)) for _ in range(3)]
    assert answers == ["token_invalid", "token_invalid", "rate_limited"]


def test_a_bad_signature_of_a_bot_that_is_cached_counts_and_is_recorded_once(known, settings):
    settings.LIMITS = {**settings.LIMITS, "failures": "2/minute"}
    answers = [code(push(tradingview(known), secret="wrong")) for _ in range(3)]
    assert answers == ["signature_invalid", "signature_invalid", "rate_limited"]
    assert refusals() == ["signature_invalid"] * 2


def test_a_secret_that_was_replaced_elsewhere_is_refused_and_the_new_one_taken_at_once(known):
    with on_another_server():
        new = replace_secret(known)
    assert code(push(tradingview(known), secret=new)) == "ok"
    assert code(push(tradingview(known), secret=known.secret)) == "signature_invalid"
    assert refusals() == ["signature_invalid"]


@pytest.mark.parametrize(
    "wrong", ["accepted", "breaks the law", "breaks its shape", "another pair"]
)
def test_a_secret_that_was_replaced_elsewhere_signs_nothing_more(known, wrong):
    with on_another_server():
        replace_secret(known)
    body = tradingview(known, **WRONG[wrong]())
    assert code(push(body, secret=known.secret)) == "signature_invalid"
    assert refusals() == ["signature_invalid"]


@pytest.mark.parametrize(("changes", "expected"), [({}, "ok"), ({"elected": False}, "not_elected")])
def test_who_signs_with_the_old_and_the_new_secret_is_judged_by_the_new_one(
    known, changes, expected
):
    with on_another_server():
        new = replace_secret(known)
    body = written(tradingview(known, **changes))
    assert code(push(body, headers=signed(known.secret, new, body=body))) == expected
    current = SigningSecret.objects.get(ends_at=None)
    assert Event.objects.order_by("position").last().actor.id == current.public_id


def test_once_nox_has_a_secret_elsewhere_the_floors_is_refused(desk):
    secret = a_shared_secret()
    assert code(push(nox(mode="draft"), secret=secret)) == "ok"
    with on_another_server():
        new = a_shared_secret(Source.NOX)
    assert code(push(nox(mode="draft"), secret=new)) == "ok"
    with on_another_server():
        SigningSecret.objects.filter(source=Source.NOX).delete()
    assert code(push(nox(mode="draft"), secret=secret)) == "ok"
    with on_another_server():
        a_shared_secret(Source.NOX)
    for changes in ({}, {"elected": False}):
        answer = push(nox(mode="draft", **changes), secret=secret)
        assert code(answer) == "floor_secret_refused"


# --- What counts once ---------------------------------------------------------------------------


def test_a_refusal_of_a_cached_token_counts_against_its_limit_and_is_recorded_once(sent, settings):
    settings.LIMITS = {**settings.LIMITS, "platform": "4/minute"}
    answers = [code(sent(**changes)) for changes in ({}, {"elected": False}, {"pair": "X/Y"}, {})]
    assert answers == ["ok", "not_elected", "pair_mismatch", "ok"]
    assert code(sent()) == "rate_limited"
    assert refusals() == ["not_elected", "pair_mismatch"]


def test_a_malformed_body_of_a_cached_token_counts_against_its_limit_once(
    sent, desk, engine, settings
):
    settings.LIMITS = {**settings.LIMITS, "platform": "2/minute"}
    assert code(post(deploy_path(desk.public_id), b"{", engine)) == "malformed"
    assert [code(sent()), code(sent())] == ["ok", "rate_limited"]


class Broken:
    """The body of a connection that its client resets."""

    def read(self, *_: int) -> bytes:
        raise ConnectionResetError

    readline = read


def test_a_body_that_breaks_off_is_malformed_on_the_deploy_and_the_hook(sent, desk, engine):
    broken: dict[str, Any] = {"wsgi.input": Broken()}
    for path, body in ((HOOK, fanout()), (deploy_path(desk.public_id), deploy())):
        answer = post(path, body, engine, **broken)
        assert (answer.status_code, code(answer)) == (400, "malformed"), path


def test_a_push_that_is_judged_again_counts_against_its_limit_once(known, settings):
    settings.LIMITS = {**settings.LIMITS, "automation": "2/minute"}
    with on_another_server():
        new = replace_secret(known)
    body = written(tradingview(known))
    assert code(push(body, headers=signed(known.secret, new, body=body))) == "ok"
    assert code(push(tradingview(known), secret=new)) == "ok"
    assert code(push(tradingview(known), secret=new)) == "rate_limited"


# --- Who is who ---------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [Source.FLOOR, Source.NOX])
def test_no_bots_id_leads_to_a_shared_secret(bot, source):
    secret = a_shared_secret(source)
    push(fanout() if source == Source.FLOOR else nox(mode="draft"), secret=secret)
    body = tradingview(bot, botId=str(source))
    assert code(push(body, secret=secret)) == "signature_invalid"


def test_a_wrong_signature_takes_the_same_work_for_a_bot_that_is_cached(known, monkeypatch):
    verified, verifies = [], signing.verifies

    def counting(*arguments: Any) -> bool:
        verified.append(1)
        return verifies(*arguments)

    monkeypatch.setattr(signing, "verifies", counting)
    work = []
    for bot_id in (known.id, "bot_" + "0" * 22):
        verified.clear()
        push(tradingview(known, botId=bot_id), secret="wrong")
        work.append(len(verified))
    assert work[0] == work[1]
