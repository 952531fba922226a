"""The pages of signals in the control area."""

import pytest
from django.test import Client

from desks import actions
from desks.models import Election
from events.actors import SYSTEM
from signals.control import search
from signals.intake.models import Signal
from tests import factories, staff
from tests.client import push
from tests.pages import words
from tests.signals import bodies
from tests.staff import staff_client  # noqa: F401 - the fixture "client"
from tokens import actions as tokens
from tokens.models import Token

pytestmark = pytest.mark.django_db


def found(client: Client, text: str = "") -> list[str]:
    response = client.get(staff.list_of(Signal), {"q": text})
    assert response.status_code == 200
    return [signal.public_id for signal in response.context["cl"].result_list]


def sent(*args: object, **more: object) -> str:
    """Pushes a signal and returns its id."""
    return str(push(*args, **more).json()["signal"]["id"])  # type: ignore[arg-type]


def test_the_newest_signal_comes_first(client, desk):
    engine = factories.a_platform_token()
    ids = [sent(bodies.fanout(), engine) for _ in range(3)]
    assert found(client) == ids[::-1]


def test_signals_are_found_by_id_nonce_desk_and_bot(client, desk, stranger):
    engine, bot = factories.a_platform_token(), factories.a_bot(desk)
    everybody = sent(bodies.fanout(nonce="n-all"), engine)
    one = sent(bodies.floor(stranger, nonce="n-one"), engine)
    nox = sent(bodies.nox(action_id="act_1"), engine)
    bots = sent(bodies.tradingview(bot, nonce="n-bot"), secret=bot.secret)
    for text, expected in (
        (everybody, [everybody]),
        ("n-all", [everybody]),
        ("act_1", [nox]),
        ("n-bot", [bots]),
        (stranger.public_id, [one]),
        (desk.public_id, [bots]),
        (bot.id, [bots]),
        (f"{bot.id} n-bot", [bots]),
        (f"{bot.id} n-all", []),
        ("n-none", []),
    ):
        assert found(client, text) == expected, text


def test_a_search_for_a_desk_shows_its_newest_signals_behind_any_number_of_refusals(
    client, desk, monkeypatch
):
    engine, bot = factories.a_platform_token(), factories.a_bot(desk)
    sent(bodies.floor(desk), engine)  # one more than are shown
    of_each_kind = [
        sent(bodies.floor(desk), engine),
        sent(bodies.nox(userId=desk.public_id, mode="draft"), engine),
        sent(bodies.nox(userId=desk.public_id, mode="dry_run"), engine),
    ]
    monkeypatch.setattr(search, "MAX_SCANNED", 3)
    for _ in range(4):
        assert push(bodies.tradingview(bot, pair="A/B"), secret=bot.secret).status_code == 422
    assert found(client, desk.public_id) == of_each_kind[::-1]


def test_the_page_of_a_signal_shows_every_field(client, desk):
    sent(bodies.nox(trace_id="trc_9", rationale="<b>The trend</b>"), factories.a_platform_token())
    page = client.get(staff.page_of(Signal.objects.get())).content.decode()
    assert "trc_9" in page
    assert "&lt;b&gt;The trend&lt;/b&gt;" in page


# --- Why -----------------------------------------------------------------------------------------


def why(client: Client, public_id: str) -> str:
    """The explanation on the page of a signal."""
    signal = Signal.objects.get(public_id=public_id)
    return words(client.get(staff.page_of(signal)))


def test_a_deploy_is_explained_by_its_standing_election(client, desk, card):
    election = Election.objects.get(desk=desk)
    one = sent(bodies.floor(desk), factories.a_platform_token())
    page = why(client, one)
    assert "with the token Engine" in page
    assert f"{desk} elected BTC/USDT long at position {election.opened}" in page
    assert (
        f"{card.name}: BTC/USDT long, published at position {card.opened} and still published."
        in page
    )
    assert "It filled 1 desk: evt_" in page


def test_an_election_that_was_withdrawn_since_still_explains_it(client, desk):
    one = sent(bodies.floor(desk), factories.a_platform_token())
    before = Election.objects.get(desk=desk)
    actions.withdraw(desk=desk, actor=SYSTEM)
    closed = Election.objects.get(pk=before.pk).closed
    actions.enrol(desk=desk, card_id=before.card_id, actor=SYSTEM)
    assert f"at position {before.opened}, withdrawn at {closed}." in why(client, one)


def test_a_bots_signal_is_explained_by_the_bots_own_election(client, desk):
    bot = factories.a_bot(desk)
    page = why(client, sent(bodies.tradingview(bot), secret=bot.secret))
    assert "signed with the secret" in page
    assert "of the bot" in page
    assert f"{desk} elected ETH/USDT short at position" in page


def test_a_fan_out_shows_how_many_elections_it_matched(client, desk, stranger):
    page = why(client, sent(bodies.fanout(), factories.a_platform_token()))
    assert "2 desks were enrolled in the card" in page
    assert "It filled 2 desks" in page


def test_a_dry_run_and_a_draft_say_that_they_filled_nobody(client, desk):
    engine = factories.a_platform_token()
    dry = why(client, sent(bodies.nox(mode="dry_run"), engine))
    assert "A dry run. It matched 1 desk and filled none" in dry
    draft = why(client, sent(bodies.nox(mode="draft"), engine))
    assert "without checking an election" in draft
    assert "recorded and filled no desk" in draft


def test_a_credential_that_was_not_valid_is_reported(client, desk):
    one = sent(bodies.fanout(), factories.a_platform_token())
    assert "The credential was valid." in why(client, one)
    Signal.objects.filter(public_id=one).update(credential="tok_other")
    assert "The credential tok_other was not valid at that time." in why(client, one)


def test_a_token_that_was_revoked_later_counts_as_valid(client, desk):
    one = sent(bodies.fanout(), factories.a_platform_token())
    tokens.revoke(token=Token.objects.get(), actor=SYSTEM)
    assert "The credential was valid." in why(client, one)
