"""The pages of the desk, of a bot and of the activity."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from desks import actions as desks
from events.actors import SYSTEM
from events.models import Event, Head
from signals.intake.models import Signal
from signals.site import activity
from signals.site import desk as desk_page
from tests.client import bearer, push, signed_in
from tests.factories import (
    Bot,
    a_bot,
    a_card,
    a_connected_desk,
    a_desk,
    a_desk_token,
    a_platform_token,
    a_shared_secret,
)
from tests.pages import copied, lines, problem, source, words
from tests.signals.bodies import fanout, floor, nox, tradingview
from tests.signals.notices.chats.stage import a_chat
from tests.staff import a_client
from tokens import account_closing
from tokens import actions as tokens
from tokens.choices import Source
from tokens.crypto import formats

pytestmark = [pytest.mark.django_db, pytest.mark.once]

MOST_QUERIES = 12


def steps(page):
    """The titles of the completed steps."""
    listed = source(page).partition('<ol class="steps"')[2].partition("</ol>")[0]
    done = [item for item in listed.split("<li")[1:] if item.startswith(' class="done"')]
    return [item.partition("<span>")[2].partition("<small>")[0].strip() for item in done]


class TestDesk:
    def test_a_new_desk_shows_the_first_steps(self, card):
        page = signed_in(a_desk().user).get("/desk")
        assert "not connected" in words(page)
        assert steps(page) == []
        assert 'href="/desk/connect"' in source(page)

    def test_each_step_is_ticked_when_it_is_done(self, card):
        desk = a_desk()
        browser = signed_in(desk.user)
        desks.connect(desk=desk, venue="Kraken", actor=SYSTEM)
        assert len(steps(browser.get("/desk"))) == 1
        desks.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        assert len(steps(browser.get("/desk"))) == 2
        a_desk_token(desk)
        assert len(steps(browser.get("/desk"))) == 3
        push(fanout(), a_platform_token())
        assert steps(browser.get("/desk")) == []
        assert "Steps to your first signal" not in source(browser.get("/desk"))

    def test_a_bot_of_the_desk_completes_the_step_instead_of_a_token(self, owner, desk, stranger):
        a_bot(stranger)
        assert "Token or bot" not in steps(owner.get("/desk"))
        a_bot(desk)
        assert "Token or bot" in steps(owner.get("/desk"))

    def test_an_old_fill_completes_the_step(self, owner, desk):
        a_desk_token(desk)
        push(fanout(), a_platform_token())
        for number in range(desk_page.LATEST + 1):
            desks.add_automation(desk=desk, name=f"Bot {number}", actor=SYSTEM)
        assert "Steps to your first signal" not in source(owner.get("/desk"))

    def test_it_shows_the_election_and_posts_the_shown_card(self, card):
        desk = a_connected_desk()
        page = signed_in(desk.user).get("/desk")
        assert "Venue Kraken Access trade-only" in words(page)
        assert f'name="card" value="{card.pk}"' in source(page)
        desks.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        page = signed_in(desk.user).get("/desk")
        assert "ready" in words(page)
        assert "Enrolled just now." in words(page)
        assert 'name="card"' not in source(page)

    def test_the_election_of_another_desk_is_not_shown(self, card, stranger):
        page = words(signed_in(a_connected_desk().user).get("/desk"))
        assert "connected, not enrolled" in page

    def test_only_the_hint_of_a_token_is_shown(self, owner, desk):
        value = a_desk_token(desk)
        page = source(owner.get("/desk"))
        assert (formats.hint(value) in page, value in page) == (True, False)

    def test_a_revoked_token_is_not_shown_as_active(self, owner, desk):
        a_desk_token(desk)
        tokens.revoke(token=desk.tokens.get(), actor=SYSTEM)
        assert "Mint token" in words(owner.get("/desk"))

    def test_it_shows_the_latest_events_first_and_at_most_20(self, owner, desk):
        for number in range(25):
            desks.add_automation(desk=desk, name=f"Bot {number}", actor=SYSTEM)
        shown = lines(owner.get("/desk"))
        assert len(shown) == 20
        assert shown[0] == "The bot Bot 24 was created."


def tabs(page):
    """The labels of the tabs with their addresses, and the label of the open one."""
    listed = source(page).partition('<nav class="tabs"')[2].partition("</nav>")[0]
    found = re.findall(r'<a href="([^"]+)" (aria-current="page")?>([^<]+)</a>', listed)
    opened = [label for _, current, label in found if current]
    return {label: address for address, _, label in found}, *opened

    def test_an_election_on_a_retired_card_is_not_one_on_its_successor(self, owner, desk):
        new = a_card("Evening", "SOL/USDT", "short")
        page = owner.get("/desk")
        assert "connected, not enrolled" in words(page)
        assert f'name="card" value="{new.pk}"' in source(page)


class TestBot:
    def test_each_tab_is_a_page_of_its_own_and_links_to_the_others(self, owner, desk):
        path = f"/bots/{a_bot(desk).id}"
        expected = {
            "Overview": path,
            "Send": f"{path}/send",
            "TradingView": f"{path}/tradingview",
            "Secret": f"{path}/secret",
            "Check": f"{path}/check",
            "Alarm": f"{path}/alarm",
        }
        for label, address in expected.items():
            assert tabs(owner.get(address)) == (expected, label)

    def test_until_the_first_fill_the_overview_shows_the_next_step(self, desk):
        browser = signed_in(desk.user)
        bot = desks.add_automation(desk=desk, name="Idle", actor=SYSTEM)
        path = f"/bots/{bot.pk}"
        assert steps(browser.get(path)) == []
        assert 'name="pair"' in source(browser.get(path))
        desks.elect(automation=bot, pair="ETH/USDT", direction="short", actor=SYSTEM)
        assert steps(browser.get(path)) == ["Elect"]
        assert "Generate secret" in words(browser.get(path))
        secret, _ = tokens.generate_secret(source=Source.TRADINGVIEW, automation=bot, actor=SYSTEM)
        assert steps(browser.get(path)) == ["Elect", "Signing secret"]
        assert (
            f'href="{path}/tradingview"' in source(browser.get(path)).partition("Send the first")[2]
        )
        whole = Bot(bot, secret)
        push(tradingview(whole, pair="SOL/USDT"), secret=secret)
        assert steps(browser.get(path)) == ["Elect", "Signing secret", "First signal"]
        push(tradingview(whole), secret=secret)
        page = browser.get(path)
        assert '<ol class="steps"' not in source(page)
        assert "Send the first signal" not in words(page)

    def test_a_fill_of_another_bot_does_not_end_the_set_up(self, owner, desk):
        bot, other = a_bot(desk), a_bot(desk)
        push(tradingview(other), secret=other.secret)
        assert '<ol class="steps"' in source(owner.get(f"/bots/{bot.id}"))

    def test_send_a_test_checks_the_bots_own_message_and_stays_on_its_tab(self, owner, desk):
        bot = a_bot(desk)
        answer = owner.post(f"/bots/{bot.id}/send")
        assert "Would be accepted Outcome: filled, on paper" in words(answer)
        assert 'send" aria-current="page"' in source(answer)
        assert not Signal.objects.exists()
        desks.withdraw(desk=desk, automation=desk.automations.get(), actor=SYSTEM)
        assert "Would be refused" in words(owner.post(f"/bots/{bot.id}/send"))

    def test_it_shows_how_to_push(self, owner, desk):
        bot = a_bot(desk)
        hook, body, *samples = copied(owner.get(f"/bots/{bot.id}/send"))
        assert hook == "http://testserver/api/hooks/signal"
        assert f'"botId": "{bot.id}"' in body
        assert '"pair": "ETH/USDT"' in body
        assert [bot.id in sample for sample in samples] == [True] * 5
        for tab in ("", "/send", "/tradingview", "/secret", "/check"):
            assert bot.secret not in source(owner.get(f"/bots/{bot.id}{tab}"))

    def test_without_an_election_the_body_names_no_pair(self, owner, desk):
        bot = desks.add_automation(desk=desk, name="Idle", actor=SYSTEM)
        assert '"pair": "<BASE>/<QUOTE>"' in copied(owner.get(f"/bots/{bot.pk}/send"))[1]

    def test_an_election_needs_a_connected_desk(self, card):
        desk = a_desk()
        bot = desks.add_automation(desk=desk, name="Idle", actor=SYSTEM)
        page = signed_in(desk.user).get(f"/bots/{bot.pk}")
        assert "Connect the desk first" in words(page)
        assert 'name="pair"' not in source(page)

    def test_only_live_secrets_are_listed(self, owner, desk):
        bot = a_bot(desk)
        old = desk.automations.get().secrets.get()
        assert old.hint in source(owner.get(f"/bots/{bot.id}/secret"))
        owner.post(f"/bots/{bot.id}/secret", {"overlap": "0"})
        assert old.hint not in source(owner.get(f"/bots/{bot.id}/secret"))

    def test_it_shows_only_its_own_fills_and_refusals(self, owner, desk):
        bot, other = a_bot(desk), a_bot(desk)
        push(tradingview(bot), secret=bot.secret)
        push(tradingview(other), secret=other.secret)
        push(tradingview(bot, pair="SOL/USDT"), secret=bot.secret)
        push(fanout(), a_platform_token())
        assert lines(owner.get(f"/bots/{bot.id}")) == [
            "Refused The bot Chart sent the pair SOL/USDT; you elected ETH/USDT.",
            "Filled on paper: ETH/USDT short from the bot Chart.",
        ]


class TestActivity:
    def test_a_secret_in_an_overlap_has_the_time_at_which_it_ends(self, owner, bot):
        tokens.generate_secret(
            source=Source.TRADINGVIEW,
            automation=bot.automation,
            overlap=timedelta(days=2, hours=1),
            actor=SYSTEM,
        )
        assert "A signing secret of the bot Chart ends in 2 days." in lines(owner.get("/activity"))

    def test_every_kind_of_event_has_a_sentence(self, card):
        desk = a_desk()
        browser, token = signed_in(desk.user), a_platform_token()
        desks.connect(desk=desk, venue="Kraken", actor=SYSTEM)
        desks.enrol(desk=desk, card_id=card.pk, actor=SYSTEM)
        a_desk_token(desk)
        tokens.revoke(token=desk.tokens.get(), actor=SYSTEM)
        bot = a_bot(desk)
        push(tradingview(bot), secret=bot.secret)
        push(tradingview(bot), secret=a_shared_secret())
        push(fanout(), token)
        push(floor(desk), token)
        push(floor(desk, direction="short"), token)
        push(nox(fanout=False, userId=desk.public_id, mode="dry_run"), token)
        push(nox(fanout=False, userId=desk.public_id, mode="draft"), token)
        desks.elect(
            automation=desk.automations.get(), pair="SOL/USDT", direction="long", actor=SYSTEM
        )
        desks.withdraw(desk=desk, automation=desk.automations.get(), actor=SYSTEM)
        tokens.remove_automation(automation=desk.automations.get(), actor=SYSTEM)
        desks.disconnect(desk=desk, actor=SYSTEM)
        desks.retire_card(actor=SYSTEM)
        account_closing.deactivate(user=desk.user, actor=SYSTEM)
        account_closing.reactivate(user=desk.user, actor=SYSTEM)
        page = browser.get("/activity")
        assert lines(page) == [
            "Your account was reactivated. Connect the desk and elect again.",
            "Your account was deactivated.",
            "The card Morning was retired: BTC/USDT long. Elections on it lapsed.",
            "The desk was disconnected from Kraken.",
            "The election of BTC/USDT long on the card Morning was withdrawn: "
            "the desk was disconnected.",
            "The bot Chart was removed.",
            f"A signing secret of the bot {bot.id} has ended.",
            f"The election of SOL/USDT long for the bot {bot.id} was withdrawn: you withdrew it.",
            f"You elected SOL/USDT long for the bot {bot.id}.",
            f"The election of ETH/USDT short for the bot {bot.id} was withdrawn: "
            "a new election replaced it.",
            "A signal from Nox was recorded: BTC/USDT long. Nothing was filled.",
            "A dry run from Nox matched: BTC/USDT long. Nothing was filled.",
            "Refused The source floor sent the direction short; the published card showed long.",
            "Filled on paper: BTC/USDT long from the engine, for your desk alone.",
            "Filled on paper: BTC/USDT long from the engine, on the published card.",
            f"Refused The bot {bot.id} was named in a message whose signature is not valid.",
            f"Filled on paper: ETH/USDT short from the bot {bot.id}.",
            f"A signing secret was generated for the bot {bot.id}.",
            f"You elected ETH/USDT short for the bot {bot.id}.",
            "The bot Chart was created.",
            f"The desk token {desk.tokens.get().hint} was revoked.",
            f"The desk token {desk.tokens.get().hint} was minted.",
            "You elected BTC/USDT long on the card Morning.",
            "The desk was connected to Kraken.",
            "Your desk was opened.",
            "The card Morning was published: BTC/USDT long.",
        ]

    def test_a_deploy_names_its_code_as_a_link_to_its_explanation(self, owner, desk):
        push(floor(desk, pair="SOL/USDT"), a_platform_token())
        page = owner.get(f"/activity/{Event.objects.last().id}")
        assert 'href="/problems/pair_mismatch"' in source(page)

    def test_text_of_a_sender_is_escaped(self, owner, desk):
        push(floor(desk, pair="<b>/x", direction='x" onload="y'), a_platform_token())
        page = source(owner.get("/activity"))
        assert ("<b>/x" in page, 'onload="y' in page) == (False, False)

    def test_it_shows_no_event_of_another_desk(self, owner, stranger):
        theirs = desks.add_automation(desk=stranger, name="Hidden", actor=SYSTEM)
        page = source(owner.get("/activity"))
        assert (theirs.pk in page, stranger.public_id in page) == (False, False)

    @pytest.mark.parametrize("cursor", ["nonsense", 100 * "9"])
    def test_an_invalid_cursor_is_refused(self, owner, cursor):
        answer = owner.get(f"/activity?after={cursor}")
        assert (answer.status_code, problem(answer)) == (422, "invalid")

    def test_a_cursor_of_another_epoch_is_refused(self, owner, desk, monkeypatch):
        monkeypatch.setattr(activity, "PAGE_SIZE", 1)
        older = links(owner.get("/activity"))["Older"]
        Head.objects.update(epoch="00000000")
        assert problem(owner.get(f"/activity{older}")) == "cursor_lost"

    @pytest.mark.parametrize("search", ["", "kind=automation.created", "pair=SOL/USDT"])
    def test_older_and_newer_pages_show_everything_once(self, owner, desk, monkeypatch, search):
        for number in range(7):
            bot = desks.add_automation(desk=desk, name=f"Bot {number}", actor=SYSTEM)
            desks.elect(automation=bot, pair="SOL/USDT", direction="long", actor=SYSTEM)
        whole = lines(owner.get(f"/activity?{search}"))
        assert len(whole) >= 7
        monkeypatch.setattr(activity, "PAGE_SIZE", 3)
        down, page = [], owner.get(f"/activity?{search}")
        while True:
            down += lines(page)
            following = links(page)
            if "Older" not in following:
                break
            page = owner.get(f"/activity{following['Older']}")
        assert down == whole
        up = lines(page)
        while "Newer" in (following := links(page)):
            page = owner.get(f"/activity{following['Newer']}")
            up = lines(page) + up
        assert up == whole

    def test_after_the_latest_event_there_is_only_a_link_back(self, owner, desk):
        latest = links(owner.get("/activity"))
        assert latest == {}
        cursor = owner.get("/api/v1/events?order=desc&limit=1", headers=bearer(a_desk_token(desk)))
        page = owner.get(f"/activity?newer=1&after={cursor.json()['next']}")
        assert lines(page) == []
        assert links(page) == {"Latest": "/activity"}


def parts_of_the_site(page):
    """The links of the page's head that are marked as where the visitor is."""
    nav = re.search(r'<nav class="[^"]*nav.*?</nav>', source(page), re.DOTALL)[0]
    return re.findall(r'aria-current="page">(\w+)<', nav)


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/desk", "Desk"),
        ("/desk/connect", "Desk"),
        ("/bots", "Bots"),
        ("/bots/{bot}", "Bots"),
        ("/bots/{bot}/alarm", "Bots"),
        ("/webhooks", "Webhooks"),
        ("/activity", "Activity"),
        ("/notices", "Account"),
        ("/accounts/preferences/", "Account"),
    ],
)
def test_every_page_marks_the_part_of_the_site_that_it_belongs_to(owner, bot, path, part):
    page = owner.get(path.format(bot=bot.id))
    assert (page.status_code, parts_of_the_site(page)) == (200, [part])


def links(page):
    """The links between the pages of the activity, by their text."""
    nav = source(page).partition('<nav class="pages"')[2].partition("</nav>")[0]
    found = [part.partition("</a>")[0] for part in nav.split("<a href=")[1:]]
    return {
        part.rpartition(">")[2].strip(): part.split('"')[1].replace("&amp;", "&") for part in found
    }


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/desk",
        "/bots",
        "/bots/{bot}",
        "/bots/{bot}/send",
        "/bots/{bot}/tradingview",
        "/bots/{bot}/elect",
        "/activity",
        "/activity/{event}",
        "/desk/disconnect",
        "/accounts/data/",
        "/accounts/close/",
    ],
)
def test_a_page_takes_few_queries(desk, path):
    a_desk_token(desk)
    bot = a_bot(desk)
    for number in range(desk_page.LATEST):
        a_bot(desk, f"BTC/U{number}")
        push(tradingview(bot, pair="SOL/USDT"), secret=bot.secret)
    a_chat(desk.user)
    path = path.format(bot=bot.id, event=Event.objects.last().id)
    browser = a_client(desk.user)
    with CaptureQueriesContext(connection) as asked:
        assert browser.get(path).status_code == 200
    assert len(asked) <= MOST_QUERIES
