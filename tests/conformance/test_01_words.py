"""Section 1: what the words mean. Elections are made and withdrawn on the pages."""

import re

import pytest

from tests.conformance.browser import SHOWN, Bot
from tests.conformance.client import TOKENS, assert_refused, code

ID = "[0-9A-Za-z]{22}"
PAIR = r"[A-Z0-9._-]{1,20}/[A-Z0-9._-]{1,20}"
# What no page may ask for at a connection.
ASKED = re.compile(r'<(?:input|select|textarea)[^>]* name="([^"]+)"')


@pytest.fixture
def enrolment(service, user):
    """Enrols the user's desk; in the end it is enrolled, as it was seeded."""
    yield user.enrol
    user.enrol()


def state(service):
    desk = service.get(f"/api/v1/desks/{service.own_desk}", service.platform).json()
    return desk["connected"], desk["ready"], desk["election"]


def test_ids_are_a_prefix_and_22_base62_characters(service):
    """Section 1, desk and automation: userId, botId."""
    assert re.fullmatch(f"bot_{ID}", service.bot["botId"])
    for desk in service.desks():
        assert re.fullmatch(f"usr_{ID}", desk["userId"])


def test_the_published_card_is_a_name_a_pair_and_a_direction(service):
    """Section 1, card and pair."""
    card = service.get("/api/v1").json()["plug"]["publishedCard"]
    assert card == service.seed["card"]
    assert set(card) == {"name", "pair", "direction"}
    assert re.fullmatch(PAIR, card["pair"])
    assert card["direction"] in ("long", "short")


def test_ready_is_a_standing_election_on_the_published_card(service):
    """Section 1, ready: and so connected."""
    for desk in service.desks():
        assert desk["ready"] == (desk["election"] is not None)
        assert desk["connected"] or not desk["ready"]
        if desk["ready"]:
            assert desk["election"]["card"] == service.seed["card"]["name"]
            assert {k: desk["election"][k] for k in ("pair", "direction")} == service.elected


def test_an_election_on_the_card_stands_until_it_is_withdrawn(service, user, enrolment):
    """Section 1, election: a desk that withdrew is not ready, and one that enrols again is."""
    user.post("/desk/withdraw", {}, seen_at="/desk")
    assert state(service) == (True, False, None)
    to_own = service.to_desk(userId=service.own_desk)
    assert_refused(service.push(to_own, service.platform), 422, "desk_not_ready")
    enrolment()
    assert state(service)[1] is True
    assert service.push(to_own, service.platform).status_code == 200


def test_disconnecting_withdraws_every_election_of_the_desk(service, user, enrolment):
    """Section 1, election and connected; the venue is named, and access confirmed as trade-only."""
    bot = service.bot
    try:
        user.post("/desk/disconnect", {})
        assert state(service) == (False, False, None)
        refused = service.push(service.tradingview(), secret=bot["secret"])
        assert_refused(refused, 422, "no_election")
        asked = set(ASKED.findall(user.get("/desk/connect").text)) - {"csrfmiddlewaretoken"}
        assert asked == {"venue", "trade_only"}, "a venue's keys are never asked for"
        unconfirmed = user.post("/desk/connect", {"venue": "Kraken"})
        assert (unconfirmed.status_code, state(service)[0]) == (422, False)
    finally:
        user.post("/desk/connect", {"venue": "Kraken", "trade_only": "on"})
        enrolment()
        elect = {"pair": bot["pair"], "direction": bot["direction"]}
        user.post(f"/bots/{bot['botId']}/elect", elect)
    assert state(service)[:2] == (True, True)
    assert service.push(service.tradingview(), secret=bot["secret"]).status_code == 200


def test_an_automation_has_one_standing_election_chosen_on_its_page(service, bot):
    """Section 1, automation: another election takes the place of the first."""
    secret = bot.generate()
    assert code(service.push(bot.body(), secret=secret)) == "no_election"
    bot.elect("AAA/BBB", "long")
    bot.elect("CCC/DDD", "short")
    first = bot.body(pair="AAA/BBB", direction="long")
    assert code(service.push(first, secret=secret)) == "pair_mismatch"
    second = bot.body(pair="CCC/DDD", direction="short")
    assert service.push(second, secret=secret).status_code == 200
    bot.withdraw()
    assert code(service.push(bot.body(), secret=secret)) == "no_election"


def test_an_automation_has_at_most_two_live_secrets(service, bot):
    """Sections 1 and 2: replacing during an overlap ends the oldest."""
    bot.elect("AAA/BBB", "long")
    body = {"pair": "AAA/BBB", "direction": "long"}
    oldest, middle, newest = bot.generate(), bot.generate(3600), bot.generate(3600)
    for secret, outcome in ((oldest, 401), (middle, 200), (newest, 200)):
        assert service.push(bot.body(**body), secret=secret).status_code == outcome


def test_a_nonce_is_single_use_within_its_signer(service, bot):
    """Section 1, signer: floor is one signer whichever credential authorised, a bot is another."""
    secret = bot.generate()
    bot.elect("AAA/BBB", "long")
    shared = service.fanout()
    assert service.push(shared, service.platform).status_code == 200
    assert_refused(service.push(shared, secret=service.floor), 409, "nonce_used")
    deploy = service.one_desk(nonce=shared["nonce"])
    assert_refused(service.deploy(service.desk, deploy), 409, "nonce_used")
    own = bot.body(pair="AAA/BBB", direction="long", nonce=shared["nonce"])
    assert service.push(own, secret=secret).status_code == 200
    of_nox = service.of_nox(action_id=f"act_{shared['nonce']}"[:128])
    assert service.push(of_nox, service.platform).status_code == 200


def test_staff_have_no_desk(admin):
    """Section 1, user: staff have no desk, and so no desk token."""
    assert_refused(admin.api("POST", TOKENS, {"scope": "desk"}), 403, "not_allowed")


def test_a_removed_bot_signs_no_more(service, user):
    """Section 1, automation: its secrets end with it."""
    gone = Bot(user)
    gone.elect("AAA/BBB", "long")
    secret = gone.generate()
    gone.remove()
    body = gone.body(pair="AAA/BBB", direction="long")
    assert_refused(service.push(body, secret=secret), 401, "signature_invalid")


def test_a_secret_is_shown_once(user, bot):
    """Section 2: on the page that generates it and nowhere after."""
    secret = bot.generate()
    assert not SHOWN.search(user.get(bot.page).text)
    assert secret not in user.get(bot.page).text + user.get("/activity").text
