"""The pages of credentials: the desk token, and the signing secrets of bots."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from desks import actions
from desks.models import Automation
from tests.client import ME, code, get, push, signed_in
from tests.factories import a_bot, a_desk_token
from tests.pages import copied, errors, problem, source, words
from tests.signals.bodies import tradingview
from tokens import formats
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db

ONCE = "it is shown this once"


@pytest.fixture
def owner(desk):
    return signed_in(desk.user)


@pytest.fixture
def bot(desk):
    """A bot with an election and no secret."""
    automation = actions.add_automation(desk=desk, name="Chart")
    actions.elect(automation=automation, pair="ETH/USDT", direction="short")
    return automation


def everywhere(browser, *more):
    """The pages on which a value might be shown again."""
    paths = ["/desk", "/desk/token", "/activity", "/bots", *more]
    return "".join(source(browser.get(path)) for path in paths)


def session(browser):
    return str(dict(browser.session)) + str(browser.cookies)


class TestTheDeskToken:
    def test_it_is_shown_in_the_answer_and_nowhere_else(self, owner, desk, caplog):
        answer = owner.post("/desk/token")
        value, curl = copied(answer)
        assert formats.is_whole(value, formats.DESK_TOKEN)
        assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
        assert ONCE in words(answer)
        assert "If you reload this page, another token is minted" in words(answer)
        assert curl == f"curl -H 'Authorization: Bearer {value}' 'http://testserver{ME}'"
        assert value not in everywhere(owner) + session(owner) + caplog.text + str(answer.headers)

    def test_it_works(self, owner, desk):
        value = copied(owner.post("/desk/token"))[0]
        assert get(ME, value).json()["userId"] == desk.public_id

    def test_minting_replaces_the_one_in_force_and_says_so_beforehand(self, owner, desk):
        old = a_desk_token(desk)
        page = words(owner.get("/desk/token"))
        assert f"Minting replaces the token in force, {formats.hint(old)}." in page
        new = copied(owner.post("/desk/token"))[0]
        assert (code(get(ME, old)), get(ME, new).status_code) == ("token_invalid", 200)

    def test_without_one_in_force_nothing_is_replaced(self, owner):
        assert "replaces" not in words(owner.get("/desk/token"))

    def test_revoking_holds_at_once_and_touches_nobody_else(self, owner, desk, stranger):
        own, other = a_desk_token(desk), a_desk_token(stranger)
        answer = owner.post("/desk/token/revoke", follow=True)
        assert "Your desk token is revoked" in words(answer)
        assert (code(get(ME, own)), get(ME, other).status_code) == ("token_invalid", 200)

    def test_revoking_without_one_changes_nothing(self, owner):
        assert owner.post("/desk/token/revoke").status_code == 302
        assert not Token.objects.exists()


class TestASecret:
    def generate(self, owner, bot, **sent):
        return owner.post(f"/bots/{bot.pk}/secret", sent)

    def test_it_is_shown_in_the_answer_and_nowhere_else(self, owner, bot, caplog):
        answer = self.generate(owner, bot)
        value = copied(answer)[0]
        assert formats.is_whole(value, formats.SIGNING_SECRET)
        assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
        assert ONCE in words(answer)
        assert "If you reload this page, another secret is generated" in words(answer)
        again = everywhere(owner, f"/bots/{bot.pk}", f"/bots/{bot.pk}/secret")
        assert value not in again + session(owner) + caplog.text + str(answer.headers)

    def test_it_signs_the_bots_signals(self, owner, bot):
        secret = copied(self.generate(owner, bot))[0]
        body = {**tradingview(a_bot(bot.desk)), "botId": bot.pk}
        assert push(body, secret=secret).json()["outcome"] == "filled"

    def test_the_first_asks_for_no_overlap(self, owner, bot):
        assert "overlap" not in source(owner.get(f"/bots/{bot.pk}/secret"))

    def test_without_an_election_the_page_says_so(self, owner, desk):
        idle = actions.add_automation(desk=desk, name="Idle")
        assert "The bot has no election yet." in words(self.generate(owner, idle))

    @pytest.mark.parametrize("seconds", [0, 3600, 86400, 604800])
    def test_the_one_before_verifies_for_the_overlap_chosen(self, owner, desk, seconds):
        bot = a_bot(desk)
        now = timezone.now()
        with time_machine.travel(now, tick=False):
            self.generate(owner, Automation.objects.get(pk=bot.id), overlap=str(seconds))
        old = SigningSecret.objects.order_by("pk").first()
        assert abs(old.ends_at - now - timedelta(seconds=seconds)) < timedelta(seconds=1)
        for after, outcome in ((-2, "ok"), (2, "signature_invalid")):
            if seconds or after > 0:
                moment = now + timedelta(seconds=seconds + after)
                with time_machine.travel(moment, tick=False):
                    assert code(push(tradingview(bot), secret=bot.secret)) == outcome

    def test_ended_at_once_is_what_is_chosen_beforehand(self, owner, desk):
        page = source(owner.get(f"/bots/{a_bot(desk).id}/secret"))
        chosen = page.partition(" checked")[0].rpartition("<input")[2]
        assert 'value="0"' in chosen

    @pytest.mark.parametrize(
        "sent", [{}, {"overlap": "604801"}, {"overlap": "-1"}, {"overlap": "x"}]
    )
    def test_another_overlap_is_refused(self, owner, desk, sent):
        bot = a_bot(desk)
        answer = owner.post(f"/bots/{bot.id}/secret", sent)
        assert (answer.status_code, len(errors(answer))) == (422, 1)
        assert SigningSecret.objects.count() == 1

    def test_ending_one_holds_at_once(self, owner, desk):
        bot = a_bot(desk)
        secret = SigningSecret.objects.get()
        answer = owner.post(f"/bots/{bot.id}/secrets/{secret.public_id}/end", follow=True)
        assert "The secret is ended" in words(answer)
        assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"

    def test_a_secret_that_is_not_there_is_not_found(self, owner, bot):
        answer = owner.post(f"/bots/{bot.pk}/secrets/sec_{22 * '0'}/end")
        assert (answer.status_code, problem(answer)) == (404, "not_found")


class TestRemovingABot:
    def test_the_page_says_what_it_does(self, owner, bot):
        assert "A removed bot does not come back." in words(owner.get(f"/bots/{bot.pk}/remove"))

    def test_its_secret_ends_and_it_is_gone(self, owner, desk):
        bot = a_bot(desk)
        answer = owner.post(f"/bots/{bot.id}/remove", follow=True)
        assert answer.redirect_chain == [("/bots", 302)]
        assert "You have no bot yet." in words(answer)
        assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"
        assert problem(owner.get(f"/bots/{bot.id}")) == "not_found"

    def test_twice_is_not_found(self, owner, bot):
        owner.post(f"/bots/{bot.pk}/remove")
        assert problem(owner.post(f"/bots/{bot.pk}/remove")) == "not_found"
