"""The page of one event: why a signal was refused or accepted, and what its owner can do now."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from desks import actions as desks
from desks.models import User
from events.actors import SYSTEM
from events.kinds import SUPPRESSED
from events.models import Event
from signals.law.refusals import EXPLANATIONS
from signals.reports.reasons import DECIDED, NOT_REACHED, PASSED, checks
from tests.client import deploy_path, post, push, signed_in
from tests.factories import (
    a_bot,
    a_card,
    a_connected_desk,
    a_desk,
    a_platform_token,
    a_ready_desk,
)
from tests.pages import problem, source, words
from tests.signals.bodies import deploy, fanout, floor, nox, send, tradingview
from tokens import actions as tokens

pytestmark = [pytest.mark.django_db, pytest.mark.once]

# What changes a bot's message so that it is refused with the code.
REFUSED = {
    "exchange_secret": {"apiKey": "x"},
    "ticker_only": {"pair": "ETHUSDT"},
    "mode_refused": {"mode": "live"},
    "not_elected": {"elected": "true"},
    "invalid": {"direction": "up"},
    "pair_mismatch": {"pair": "SOL/USDT"},
    "direction_mismatch": {"direction": "long"},
}


def page_of_last(browser):
    return browser.get(f"/activity/{Event.objects.last().id}")


class TestReason:
    @pytest.mark.parametrize("code", REFUSED)
    def test_each_refusal_has_a_sentence_advice_and_an_action_before_its_code(
        self, owner, bot, code
    ):
        assert send(bot, **REFUSED[code]).json()["code"] == code
        page = words(page_of_last(owner))
        assert re.search(r"The bot Chart [^.]+[.;] .*What to do now \w+.* Code " + code, page)
        assert page.index("What to do now") < page.index(code)

    def test_every_code_that_the_intake_can_record_has_a_reason_and_a_check(self):
        recorded = {"signature_invalid", "nonce_used", "signal_too_old", *REFUSED}
        recorded |= {"no_election", "no_card", "desk_not_ready"}
        assert set(EXPLANATIONS) == recorded

    @pytest.mark.parametrize(
        ("sent", "sentence", "compared"),
        [
            (
                {"pair": "SOL/USDT"},
                "sent the pair SOL/USDT; you elected ETH/USDT.",
                "Pair SOL/USDT differs ETH/USDT Direction short same short",
            ),
            (
                {"direction": "long"},
                "sent the direction long; you elected short.",
                "Pair ETH/USDT same ETH/USDT Direction long differs short",
            ),
            (
                {"pair": "SOL/USDT", "direction": "long"},
                "sent SOL/USDT long; you elected ETH/USDT short.",
                "SOL/USDT differs ETH/USDT Direction long differs short",
            ),
        ],
    )
    def test_only_what_differs_is_told(self, owner, bot, sent, sentence, compared):
        send(bot, **sent)
        page = words(page_of_last(owner))
        assert sentence in page
        assert compared in page

    def test_a_pair_that_cannot_be_shown_is_not(self, owner, bot):
        send(bot, pair="A/B\u202e" + "x" * 99)
        assert "\u202e" not in source(page_of_last(owner))

    def test_what_was_sent_is_shown_as_text(self, owner, bot):
        send(bot, pair="<b>{who}</b>/X")
        page = source(page_of_last(owner))
        assert "&lt;b&gt;{who}&lt;/b&gt;/X" in page
        assert "<b>{who}" not in page

    def test_an_invalid_signal_names_its_fields_and_never_says_to_send_it_again(self, owner, bot):
        send(bot, nonce="My Long Entry Id")  # what was elected is what was sent
        page = words(page_of_last(owner))
        assert "sent a message with a field that is missing or not valid: nonce." in page
        assert "nonce: Send 1 to 128 visible ASCII characters." in page
        assert "You have elected exactly this" not in page

    def test_an_invalid_signal_of_an_earlier_release_names_no_field(self, owner, bot):
        send(bot, nonce="My Long Entry Id")
        event = Event.objects.last()
        del event.content["data"]["errors"]
        Event.objects.filter(pk=event.pk).update(content=event.content)
        assert "the answer names each field" in words(page_of_last(owner))

    @pytest.mark.parametrize("code", ["mode_refused", "not_elected"])
    def test_only_a_refusal_because_of_the_election_says_to_send_it_again(self, owner, bot, code):
        assert send(bot, **REFUSED[code]).json()["code"] == code
        assert "You have elected exactly this" not in words(page_of_last(owner))

    def test_a_bad_signature_leads_to_the_bot(self, owner, bot):
        push(tradingview(bot), secret="wrong")
        page = page_of_last(owner)
        assert "whose signature is not valid" in words(page)
        assert f'class="button" href="/bots/{bot.id}">Open Chart' in source(page)

    def test_a_nonce_that_was_used_says_that_the_first_signal_stands(self, owner, bot):
        body = tradingview(bot)
        push(body, secret=bot.secret)
        push({**body, "direction": "long"}, secret=bot.secret)
        assert "The first signal with it stands." in words(page_of_last(owner))

    def test_a_bot_without_an_election(self, owner, bot):
        desks.withdraw(desk=bot.automation.desk, automation=bot.automation, actor=SYSTEM)
        send(bot)
        page = words(page_of_last(owner))
        assert "you had elected nothing for it" in page
        assert "Nothing was elected at that time." in page

    def test_a_refusal_of_the_engine_asks_nothing_of_the_owner(self, owner, desk):
        push(floor(desk, direction="short"), a_platform_token())
        page = page_of_last(owner)
        said = "The source floor sent the direction short; the published card showed long."
        assert said in words(page)
        assert "<h1>Direction differs from the card</h1>" in source(page)
        assert "Is the direction the elected one? no: this decided" in words(page)
        assert "You need to do nothing." in words(page)
        assert 'class="button"' not in source(page).partition("<main")[2]

    @pytest.mark.parametrize(
        ("code", "changes", "shown"),
        [
            ("mode_refused", {"mode": "live"}, "Both are BTC/USDT long."),
            ("not_elected", {"elected": "true"}, "Both are BTC/USDT long."),
            ("invalid", {"mode": "quietly"}, "Both are BTC/USDT long."),
            ("nonce_used", {"direction": "short"}, "BTC/USDT Direction short differs long"),
        ],
    )
    def test_a_refusal_of_the_engine_names_what_was_elected(
        self, owner, desk, code, changes, shown
    ):
        path, engine, signal = deploy_path(desk.public_id), a_platform_token(), deploy()
        if code == "nonce_used":
            post(path, signal, engine)
        assert post(path, {**signal, **changes}, engine).json()["code"] == code
        page = words(page_of_last(owner))
        assert f"Code {code}" in page
        assert "Nothing was elected" not in page
        assert f"{shown} You elected it" in page
        assert "with the card Morning" in page

    def test_a_refusal_of_the_engine_after_the_election_says_that_nothing_was_elected(
        self, owner, desk
    ):
        desks.withdraw(desk=desk, actor=SYSTEM)
        post(deploy_path(desk.public_id), deploy(mode="live"), a_platform_token())
        assert "Nothing was elected at that time." in words(page_of_last(owner))

    @pytest.mark.parametrize(
        ("sent", "title", "sentence"),
        [
            (
                {"pair": "SOL/USDT"},
                "Pair differs from the card",
                "sent the pair SOL/USDT; the published card showed BTC/USDT.",
            ),
            (
                {"direction": "short"},
                "Direction differs from the card",
                "sent the direction short; the published card showed long.",
            ),
            (
                {"pair": "SOL/USDT", "direction": "short"},
                "Pair and direction differ from the card",
                "sent SOL/USDT short; the published card showed BTC/USDT long.",
            ),
        ],
    )
    def test_a_draft_that_differs_from_the_card_does_not_say_that_a_desk_elected_it(
        self, card, sent, title, sentence
    ):
        desk = a_connected_desk()
        draft = nox(fanout=False, userId=desk.public_id, mode="draft", **sent)
        code = push(draft, a_platform_token()).json()["code"]
        page = page_of_last(signed_in(desk.user))
        assert f"<h1>{title}</h1>" in source(page)
        assert sentence in words(page)
        assert "Nothing was elected at that time." in words(page)
        assert f'/{code}"><code>{code}</code>' in source(page)
        for wrong in (
            "you elected",
            "the election",
            "Which check decided",
            "Was something elected",
        ):
            assert wrong not in words(page)

    def test_a_draft_that_is_recorded_for_a_desk_without_an_election_passed_no_check_of_one(
        self, card
    ):
        desk = a_connected_desk()
        draft = nox(fanout=False, userId=desk.public_id, mode="draft")
        assert push(draft, a_platform_token()).status_code == 200
        page = words(page_of_last(signed_in(desk.user)))
        assert "Sent: BTC/USDT long. Nothing was elected at that time." in page
        assert "Was something elected" not in page

    def test_a_desk_that_is_not_ready_is_told_how_it_becomes_ready(self, card):
        desk = a_connected_desk()
        push(floor(desk), a_platform_token())
        page = page_of_last(signed_in(desk.user))
        assert "Connect the desk and enrol in the published card" in words(page)
        assert 'class="button" href="/desk">' in source(page)

    def test_what_was_elected_since_can_be_sent_again(self, owner, bot):
        send(bot, pair="SOL/USDT")
        refused = Event.objects.last().id
        assert "exactly this since" not in words(owner.get(f"/activity/{refused}"))
        desks.elect(automation=bot.automation, pair="SOL/USDT", direction="short", actor=SYSTEM)
        page = words(owner.get(f"/activity/{refused}"))
        assert "You have elected exactly this since: SOL/USDT short. Send the signal again" in page
        assert "you elected ETH/USDT" in page

    def test_a_removed_bot_is_named_by_its_id_and_leads_nowhere(self, owner, bot):
        send(bot, pair="SOL/USDT")
        refused = Event.objects.last().id
        tokens.remove_automation(automation=bot.automation, actor=SYSTEM)
        page = owner.get(f"/activity/{refused}")
        assert f"The bot {bot.id} sent" in words(page)
        assert 'class="button"' not in source(page).partition("<main")[2]

    def test_that_refusals_were_left_out_is_said(self, owner, bot, settings):
        settings.LIMITS = {**settings.LIMITS, "refusals": "1/minute"}
        for _ in range(3):
            send(bot, pair="SOL/USDT")
        page = words(page_of_last(owner))
        assert "More refused signals from the bot Chart were not recorded individually" in page
        assert SUPPRESSED not in page

    def test_a_refusal_shows_nonce_and_request(self, owner, bot):
        answer = send(bot, pair="SOL/USDT", nonce="bar-18")
        page = words(page_of_last(owner))
        assert f"Nonce bar-18 Request {answer.json()['requestId']} Code" in page

    def test_a_refusal_of_the_engine_shows_neither(self, owner, desk):
        answer = push(floor(desk, direction="short", nonce="eng-1"), a_platform_token())
        page = source(page_of_last(owner))
        assert "eng-1" not in page
        assert answer.json()["requestId"] not in page


class TestChecks:
    def test_the_checks_after_the_one_that_decided_were_not_reached(self):
        states = [check.state for check in checks("pair_mismatch")]
        assert states == [PASSED] * 9 + [DECIDED, NOT_REACHED]

    def test_an_accepted_signal_passed_them_all(self):
        assert {check.state for check in checks(None)} == {PASSED}

    def test_the_page_names_the_check_that_decided(self, owner, bot):
        send(bot, mode="live")
        page = words(page_of_last(owner))
        assert "Is it on paper? no: this decided Is it marked as elected? not checked" in page


class TestRecord:
    def test_a_fill_of_a_bot_shows_nonce_signal_election_and_times(self, owner, bot):
        answer = send(bot, nonce="bar-17").json()
        page = page_of_last(owner)
        assert "Nonce bar-17" in words(page)
        assert answer["signal"]["id"] in words(page)
        assert "Both are ETH/USDT short. You elected it" in words(page)
        assert 'class="compare"' not in source(page)
        at = answer["signal"]["receivedAt"][:19]
        assert re.search(rf'<time datetime="{at}\S*" title="[^"]+ UTC"', source(page))

    def test_a_time_is_in_the_zone_that_it_names(self, owner, desk, bot):
        User.objects.filter(pk=desk.user_id).update(time_zone="Asia/Kolkata")
        at = datetime.fromisoformat(send(bot).json()["signal"]["receivedAt"])
        shown = at.astimezone(ZoneInfo("Asia/Kolkata"))
        page = page_of_last(owner)
        assert f"{shown:%-d %b %Y, %H:%M:%S} IST" in words(page)
        assert " UTC" not in words(page)

    def test_a_fan_out_shows_the_card_and_no_nonce(self, owner, desk):
        nonce = push(fanout(), a_platform_token()).json()["signal"]["nonce"]
        page = words(page_of_last(owner))
        assert "with the card Morning" in page
        assert nonce not in page

    def test_the_election_is_the_one_of_that_time(self, owner, bot):
        send(bot)
        filled = Event.objects.last().id
        desks.elect(automation=bot.automation, pair="SOL/USDT", direction="long", actor=SYSTEM)
        page = words(owner.get(f"/activity/{filled}"))
        assert "Both are ETH/USDT short." in page

    def test_a_dry_run_and_a_change_of_the_desk_have_a_page_too(self, owner, desk):
        push(nox(fanout=False, userId=desk.public_id, mode="dry_run"), a_platform_token())
        assert "A dry run that matched" in words(page_of_last(owner))
        desks.disconnect(desk=desk, actor=SYSTEM)
        page = words(page_of_last(owner))
        assert "was withdrawn" in page or "was disconnected" in page
        assert "Which check decided" not in page


class TestAccess:
    def test_every_line_of_the_activity_leads_to_its_page(self, owner, bot):
        send(bot)
        send(bot, pair="SOL/USDT")
        found = re.findall(r'href="(/activity/evt_\d+)"', source(owner.get("/activity")))
        assert len(found) == source(owner.get("/activity")).count("<li class=") > 5
        assert {owner.get(path).status_code for path in found} == {200}

    def test_the_event_of_another_desk_is_not_found(self, owner, stranger):
        bot = a_bot(stranger)
        send(bot)
        answer = page_of_last(owner)
        assert (answer.status_code, problem(answer)) == (404, "not_found")

    def test_a_fan_out_is_found_only_by_a_desk_that_it_filled(self, owner, desk, card):
        late = a_connected_desk()
        push(fanout(), a_platform_token())
        fill = Event.objects.last().id
        desks.enrol(desk=late, card_id=card.pk, actor=SYSTEM)
        assert owner.get(f"/activity/{fill}").status_code == 200
        assert signed_in(late.user).get(f"/activity/{fill}").status_code == 404

    def test_a_fill_stays_found_when_the_card_is_replaced(self, owner, desk):
        push(fanout(), a_platform_token())
        fill = Event.objects.last().id
        a_card("Evening", "SOL/USDT", "short")
        assert owner.get(f"/activity/{fill}").status_code == 200

    @pytest.mark.parametrize(
        "event_id",
        [
            "evt_0",
            "evt_",
            "evt_x",
            "evt_-1",
            "evt_01",
            "evt_999999",
            "evt_" + "9" * 19,
            "evt_\u0661",
            "1",
        ],
    )
    def test_what_is_no_event_is_not_found(self, owner, event_id):
        assert owner.get(f"/activity/{event_id}").status_code == 404

    def test_platform_events_are_not_found(self, owner):
        a_platform_token()
        assert page_of_last(owner).status_code == 404

    def test_a_card_is_public(self):
        card = a_card()
        desk = a_ready_desk(card)
        assert signed_in(desk.user).get(f"/activity/evt_{card.opened}").status_code == 200
        assert signed_in(a_desk().user).get(f"/activity/evt_{card.opened}").status_code == 200
