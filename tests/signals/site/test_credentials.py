"""The customer's pages for the desk token and the signing secrets of bots."""

import re

import pytest

from desks import actions
from events.actors import SYSTEM
from tests.client import ME, code, get, push
from tests.factories import a_bot, a_desk_token
from tests.pages import copied, errors, problem, source, words
from tests.signals.bodies import tradingview
from tokens.crypto import formats
from tokens.models import SigningSecret, Token

pytestmark = [pytest.mark.django_db, pytest.mark.once]

ONCE = "We show it only once"
OTHER = "Another desk token was minted since you opened this page. Check again what"
HIDDEN = re.compile(r'<input type="hidden" name="(replaces|token)" value="([^"]*)"')


@pytest.fixture
def bot(desk):
    """A bot with an election and without a secret."""
    automation = actions.add_automation(desk=desk, name="Chart", actor=SYSTEM)
    actions.elect(automation=automation, pair="ETH/USDT", direction="short", actor=SYSTEM)
    return automation


def hidden(page):
    """The fields by which the page's form says which token it names."""
    found = dict(HIDDEN.findall(source(page)))
    assert found
    return found


def everywhere(browser, *more):
    """The pages on which a value might be shown again."""
    paths = ["/desk", "/desk/token", "/activity", "/bots", *more]
    return "".join(source(browser.get(path)) for path in paths)


def session(browser):
    return str(dict(browser.session)) + str(browser.cookies)


class TestTheDeskToken:
    def test_it_is_shown_only_in_the_response(self, owner, desk, caplog):
        answer = owner.post("/desk/token")
        value, curl = copied(answer)
        assert formats.is_credential(value, formats.DESK_TOKEN)
        assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
        assert ONCE in words(answer)
        assert "If you reload this page, the token is not shown again" in words(answer)
        assert curl == f"curl -H 'Authorization: Bearer {value}' 'http://testserver{ME}'"
        assert value not in everywhere(owner) + session(owner) + caplog.text + str(answer.headers)

    def test_minting_replaces_the_active_token_and_the_page_says_so(self, owner, desk):
        old = a_desk_token(desk)
        page = words(owner.get("/desk/token"))
        assert f"A new token replaces your current token {formats.hint(old)}." in page
        new = copied(owner.post("/desk/token"))[0]
        assert (code(get(ME, old)), get(ME, new).status_code) == ("token_invalid", 200)

    @pytest.mark.parametrize(
        ("page", "has_one"), [("/desk", False), ("/desk/token", False), ("/desk/token", True)]
    )
    def test_a_page_replaces_no_token_that_it_did_not_name(self, owner, desk, page, has_one):
        if has_one:
            a_desk_token(desk)
        form = hidden(owner.get(page))
        live = a_desk_token(desk)  # in another tab
        answer = owner.post("/desk/token", form)
        assert (answer.status_code, errors(answer)) == (422, [f"{OTHER} is replaced."])
        current = f"A new token replaces your current token {formats.hint(live)}."
        assert current in words(answer)
        assert get(ME, live).status_code == 200

    def test_what_the_page_then_names_is_replaced(self, owner, desk):
        form = hidden(owner.get("/desk/token"))
        old = a_desk_token(desk)
        new = copied(owner.post("/desk/token", hidden(owner.post("/desk/token", form))))[0]
        assert (code(get(ME, old)), get(ME, new).status_code) == ("token_invalid", 200)

    def test_minting_needs_no_second_question_if_the_token_named_has_ended(self, owner, desk):
        a_desk_token(desk)
        form = hidden(owner.get("/desk/token"))
        owner.post("/desk/token/revoke")
        assert owner.post("/desk/token", form).status_code == 200

    def test_minting_without_an_active_token_replaces_nothing(self, owner):
        assert "replaces" not in words(owner.get("/desk/token"))

    def test_revoking_takes_effect_at_once_and_affects_no_other_desk(self, owner, desk, stranger):
        own, other = a_desk_token(desk), a_desk_token(stranger)
        answer = owner.post("/desk/token/revoke", follow=True)
        assert f"Your desk token {formats.hint(own)} is revoked" in words(answer)
        assert (code(get(ME, own)), get(ME, other).status_code) == ("token_invalid", 200)

    def test_the_page_that_asks_about_a_token_revokes_no_other(self, owner, desk):
        a_desk_token(desk)
        form = hidden(owner.get("/desk/token/revoke"))
        live = a_desk_token(desk)  # in another tab
        asked = owner.post("/desk/token/revoke", form, follow=True)
        assert f"{OTHER} is revoked." in words(asked)
        assert f"Programs that use the token {formats.hint(live)} are refused" in words(asked)
        assert get(ME, live).status_code == 200
        revoked = owner.post("/desk/token/revoke", hidden(asked), follow=True)
        assert f"Your desk token {formats.hint(live)} is revoked." in words(revoked)
        assert code(get(ME, live)) == "token_invalid"

    def test_revoking_without_one_changes_nothing(self, owner):
        assert owner.post("/desk/token/revoke").status_code == 302
        assert not Token.objects.exists()


class TestASecret:
    def generate(self, owner, bot, **sent):
        return owner.post(f"/bots/{bot.pk}/secret", sent)

    def test_it_is_shown_only_in_the_response(self, owner, bot, caplog):
        answer = self.generate(owner, bot)
        value = copied(answer)[0]
        assert formats.is_credential(value, formats.SIGNING_SECRET)
        assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
        assert ONCE in words(answer)
        assert "If you reload this page, the secret is not shown again" in words(answer)
        again = everywhere(owner, f"/bots/{bot.pk}", f"/bots/{bot.pk}/secret")
        assert value not in again + session(owner) + caplog.text + str(answer.headers)

    def test_the_first_secret_has_no_overlap(self, owner, bot):
        assert "overlap" not in source(owner.get(f"/bots/{bot.pk}/secret"))

    def test_without_an_election_the_page_says_so(self, owner, desk):
        idle = actions.add_automation(desk=desk, name="Idle", actor=SYSTEM)
        assert "The bot has no election yet." in words(self.generate(owner, idle))

    def test_the_default_is_to_end_the_previous_secret_at_once(self, owner, desk):
        page = source(owner.get(f"/bots/{a_bot(desk).id}/secret"))
        chosen = page.partition(" checked")[0].rpartition("<input")[2]
        assert 'value="0"' in chosen

    @pytest.mark.parametrize("sent", [{}, {"overlap": "604801"}])
    def test_another_overlap_is_refused(self, owner, desk, sent):
        bot = a_bot(desk)
        answer = owner.post(f"/bots/{bot.id}/secret", sent)
        assert (answer.status_code, len(errors(answer))) == (422, 1)
        assert SigningSecret.objects.count() == 1

    def test_ending_a_secret_takes_effect_at_once(self, owner, desk):
        bot = a_bot(desk)
        secret = SigningSecret.objects.get()
        answer = owner.post(f"/bots/{bot.id}/secrets/{secret.public_id}/end", follow=True)
        assert "The secret is ended" in words(answer)
        assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"

    def test_an_unknown_secret_is_not_found(self, owner, bot):
        answer = owner.post(f"/bots/{bot.pk}/secrets/sec_{22 * '0'}/end")
        assert (answer.status_code, problem(answer)) == (404, "not_found")


class TestRemovingABot:
    def test_its_secret_ends_and_the_bot_is_removed(self, owner, desk):
        bot = a_bot(desk)
        answer = owner.post(f"/bots/{bot.id}/remove", follow=True)
        assert answer.redirect_chain == [("/bots", 302)]
        assert "You have no bots yet." in words(answer)
        assert code(push(tradingview(bot), secret=bot.secret)) == "signature_invalid"
        assert problem(owner.get(f"/bots/{bot.id}")) == "not_found"
