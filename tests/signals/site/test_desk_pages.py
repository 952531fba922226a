"""The pages that change a desk: connect, enrol, bots and their elections."""

import pytest

from desks import actions
from desks.forms import TRADE_ONLY_LABEL, VENUES
from desks.models import Automation, Card, Connection, Election
from events.actors import SYSTEM
from events.kinds import Kind
from events.models import Event
from tests.client import signed_in
from tests.factories import a_bot, a_card, a_connected_desk, a_desk, a_desk_token
from tests.pages import errors, fields, source, words

pytestmark = [pytest.mark.django_db, pytest.mark.once]

CONFIRMED = {"venue": "Kraken", "trade_only": "on"}


@pytest.fixture
def newcomer():
    """A desk that is not connected."""
    return a_desk()


def bot_of(desk, name="Chart"):
    return actions.add_automation(desk=desk, name=name, actor=SYSTEM)


def elected(desk):
    """The pair and direction of each standing election of the desk."""
    return list(Election.objects.standing().filter(desk=desk).values_list("pair", "direction"))


class TestConnecting:
    def test_the_page_asks_for_a_venue_and_a_confirmation_and_never_for_a_key(self, newcomer):
        page = signed_in(newcomer.user).get("/desk/connect")
        assert page.status_code == 200
        assert TRADE_ONLY_LABEL in words(page)
        assert all(venue in words(page) for venue in VENUES)
        assert fields(page) == ["csrfmiddlewaretoken", "venue", "trade_only"]

    def test_it_connects_the_desk(self, newcomer):
        answer = signed_in(newcomer.user).post("/desk/connect", CONFIRMED, follow=True)
        assert answer.redirect_chain == [("/desk", 302)]
        assert Connection.objects.get(desk=newcomer).venue == "Kraken"
        assert "Your desk is connected." in words(answer)

    def test_without_the_confirmation_it_is_refused_and_the_venue_stays_selected(self, newcomer):
        answer = signed_in(newcomer.user).post("/desk/connect", {"venue": "OKX"})
        assert answer.status_code == 422
        assert errors(answer) == ["Confirm that the access is trade-only."]
        assert '<option value="OKX" selected>' in source(answer)
        assert not Connection.objects.exists()

    @pytest.mark.parametrize("venue", ["", "kraken"])
    def test_a_venue_that_is_not_on_the_list_is_refused(self, newcomer, venue):
        sent = {**CONFIRMED, "venue": venue}
        answer = signed_in(newcomer.user).post("/desk/connect", sent)
        assert (answer.status_code, len(errors(answer))) == (422, 1)
        assert not Connection.objects.exists()

    def test_a_connected_desk_shows_an_error_at_the_form(self):
        answer = signed_in(a_connected_desk().user).post("/desk/connect", CONFIRMED)
        assert answer.status_code == 422
        assert errors(answer) == ["This desk is already connected. Disconnect it first."]


class TestDisconnecting:
    def test_it_says_what_is_withdrawn_and_withdraws_that_of_this_desk(self, desk, stranger):
        a_bot(desk)
        a_bot(stranger, "SOL/USDT")
        browser = signed_in(desk.user)
        page = words(browser.get("/desk/disconnect"))
        assert "All elections of your desk are withdrawn" in page
        assert "BTC/USDT long on the card Morning" in page
        assert "ETH/USDT short for the bot Chart" in page
        assert page.count("BTC/USDT") == 1
        assert "SOL/USDT" not in page
        assert len(elected(desk)) == 2
        assert "Your desk is disconnected." in words(browser.post("/desk/disconnect", follow=True))
        assert not Connection.objects.filter(desk=desk).exists()
        assert elected(desk) == []
        assert elected(stranger) == [("BTC/USDT", "long"), ("SOL/USDT", "short")]


class TestEnrolling:
    def test_the_page_shows_the_card_and_elects_it(self, card):
        desk = a_connected_desk()
        browser = signed_in(desk.user)
        page = browser.get("/desk/enrol")
        assert "Morning BTC/USDT long" in words(page)
        assert f'name="card" value="{card.pk}"' in source(page)
        answer = browser.post("/desk/enrol", {"card": card.pk}, follow=True)
        assert "You are now enrolled in the published card." in words(answer)
        assert answer.redirect_chain == [("/bots", 302)]
        assert "Next, create a bot if you want signals of your own" in words(answer)
        assert elected(desk) == [("BTC/USDT", "long")]

    @pytest.mark.parametrize("has_one", [a_bot, a_desk_token])
    def test_a_desk_with_a_bot_or_a_token_is_shown_after_it(self, card, has_one):
        desk = a_connected_desk()
        has_one(desk)
        answer = signed_in(desk.user).post("/desk/enrol", {"card": card.pk})
        assert answer["Location"] == "/desk"

    def test_a_card_that_was_retired_meanwhile_is_refused_and_the_new_one_shown(self, card):
        desk = a_connected_desk()
        a_card("Evening", "SOL/USDT", "short")
        answer = signed_in(desk.user).post("/desk/enrol", {"card": card.pk})
        assert answer.status_code == 422
        assert errors(answer) == ["This card is no longer published. Review the current card."]
        assert "Evening SOL/USDT short" in words(answer)
        assert elected(desk) == []

    @pytest.mark.parametrize("sent", [{}, {"card": ""}, {"card": "card_" + 22 * "0"}])
    def test_no_card_and_an_unknown_card_are_refused(self, card, sent):
        desk = a_connected_desk()
        answer = signed_in(desk.user).post("/desk/enrol", sent)
        assert (answer.status_code, len(errors(answer))) == (422, 1)
        assert elected(desk) == []

    def test_a_desk_that_is_not_connected_shows_an_error(self, card, newcomer):
        answer = signed_in(newcomer.user).post("/desk/enrol", {"card": card.pk})
        assert answer.status_code == 422
        assert errors(answer) == ["Connect the desk first."]
        assert "disabled" in source(answer)

    def test_without_a_card_there_is_nothing_to_enrol_in(self):
        page = signed_in(a_connected_desk().user).get("/desk/enrol")
        assert "No card is published at the moment." in words(page)
        assert 'name="card"' not in source(page)

    def test_withdrawing_ends_the_election_on_the_card_alone(self, desk, stranger):
        a_bot(desk)
        answer = signed_in(desk.user).post("/desk/withdraw", follow=True)
        assert "Your election on the published card is withdrawn." in words(answer)
        assert (elected(desk), elected(stranger)) == (
            [("ETH/USDT", "short")],
            [("BTC/USDT", "long")],
        )
        assert Card.objects.get().standing == 1


class TestBots:
    def test_the_page_lists_the_users_own_bots_with_their_elections(self, desk, stranger):
        bot_of(desk, "Idle")
        a_bot(desk)
        other = bot_of(stranger, "Hidden")
        page = words(signed_in(desk.user).get("/bots"))
        assert "Idle signals are refused no election 0 filled, 0 refused Last heard never" in page
        assert "Chart ETH/USDT short accepts signals 0 filled, 0 refused" in page
        assert (other.pk in page, "Hidden" in page) == (False, False)

    def test_adding_a_bot_leads_to_its_page(self, desk):
        answer = signed_in(desk.user).post("/bots", {"name": "  Évening <chart>  "})
        bot = Automation.objects.get()
        assert (bot.name, bot.desk) == ("Évening <chart>", desk)
        assert answer["Location"] == f"/bots/{bot.pk}"

    def test_a_name_is_escaped(self, desk):
        bot = bot_of(desk, "<script>alert(1)</script>")
        browser = signed_in(desk.user)
        for path in ("/bots", f"/bots/{bot.pk}", "/activity", "/desk", f"/bots/{bot.pk}/remove"):
            assert "<script>alert" not in source(browser.get(path))
            assert "<script>alert(1)</script>" in words(browser.get(path)), path

    def test_an_invalid_name_is_refused_and_stays_in_the_form(self, desk):
        browser = signed_in(desk.user)
        assert browser.post("/bots", {"name": ""}).status_code == 422
        answer = browser.post("/bots", {"name": 'x"' * 40 + "x"})
        assert answer.status_code == 422
        assert errors(answer)
        assert 'value="x&quot;x&quot;' in source(answer)
        assert 'aria-invalid="true"' in source(answer)
        assert not Automation.objects.exists()

    def test_a_name_of_80_characters_is_accepted(self, desk):
        assert signed_in(desk.user).post("/bots", {"name": "é" * 80}).status_code == 302

    def test_the_51st_bot_is_refused_at_the_form(self, desk):
        for number in range(50):
            bot_of(desk, f"Bot {number}")
        answer = signed_in(desk.user).post("/bots", {"name": "One more"})
        assert answer.status_code == 422
        assert errors(answer) == ["A desk has at most 50 bots. Remove one first."]
        assert Automation.objects.count() == 50


class TestElecting:
    @pytest.fixture
    def bot(self, desk):
        return bot_of(desk)

    def elect(self, desk, bot, pair="ETH/USDT", direction="short", **more):
        sent = {"pair": pair, "direction": direction}
        return signed_in(desk.user).post(f"/bots/{bot.pk}/elect", sent, **more)

    def of(self, bot):
        elections = Election.objects.standing().filter(automation=bot)
        return list(elections.values_list("pair", "direction"))

    def test_the_page_suggests_nothing(self, desk, bot):
        page = source(signed_in(desk.user).get(f"/bots/{bot.pk}/elect"))
        assert " checked" not in page
        assert 'name="pair" value' not in page

    def test_the_pair_is_stored_as_it_was_entered(self, desk, bot):
        answer = self.elect(desk, bot, follow=True)
        assert answer.redirect_chain == [(f"/bots/{bot.pk}", 302)]
        assert self.of(bot) == [("ETH/USDT", "short")]

    def test_another_election_replaces_it(self, desk, bot):
        self.elect(desk, bot)
        page = signed_in(desk.user).get(f"/bots/{bot.pk}/elect")
        assert "The current election is ETH/USDT short." in words(page)
        self.elect(desk, bot, "SOL/USDT", "long")
        assert self.of(bot) == [("SOL/USDT", "long")]
        withdrawn = Event.objects.filter(kind=Kind.ELECTION_WITHDRAWN).latest("position")
        assert withdrawn.content["data"]["reason"] == "replaced"

    def test_a_suggestion_is_offered_to_be_filled_in_and_elects_nothing(self, desk, bot):
        page = source(self.elect(desk, bot, " eth-usdt"))
        assert 'data-suggestion="ETH/USDT"' in page
        assert 'value=" eth-usdt"' in page
        assert self.of(bot) == []
        assert "data-suggestion" not in source(self.elect(desk, bot, "ETH/USDT", direction=""))

    @pytest.mark.parametrize("direction", ["", "LONG"])
    def test_another_direction_is_refused_and_the_pair_kept(self, desk, bot, direction):
        answer = self.elect(desk, bot, direction=direction)
        assert (answer.status_code, len(errors(answer))) == (422, 1)
        assert 'name="pair" value="ETH/USDT"' in source(answer)
        assert self.of(bot) == []

    def test_a_desk_that_is_not_connected_shows_an_error_at_the_form(self, newcomer):
        bot = bot_of(newcomer)
        answer = self.elect(newcomer, bot)
        assert answer.status_code == 422
        assert errors(answer) == ["Connect the desk first."]

    def test_withdrawing_ends_it(self, desk, bot):
        self.elect(desk, bot)
        signed_in(desk.user).post(f"/bots/{bot.pk}/withdraw")
        assert self.of(bot) == []
