"""Searching the activity: by kind, bot, pair, code and day; as a page and as a CSV file."""

import csv
import io
import re
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from desks import actions as desks
from events import feed
from events.actors import SYSTEM
from events.feed import first_positions
from events.http import rate_limits
from events.models import Event, Head
from signals.reports import counts
from signals.site import activity
from signals.site.own_data import safe_cell
from tests.client import push
from tests.factories import a_bot, a_platform_token, move_the_log_back
from tests.pages import lines, plain, problem, source, words
from tests.signals.bodies import fanout, floor, nox, send
from tests.signals.site.test_pages import links
from tokens import actions as tokens

pytestmark = pytest.mark.django_db


def found(browser, query):
    """The events that the page of this search lists, newest first."""
    page = source(browser.get(f"/activity?{query}"))
    return [
        Event.objects.get(pk=int(one))
        for one in re.findall(r'<li class="\w+" id="evt_(\d+)"', page)
    ]


def rows(browser, query=""):
    """The rows of the CSV file by their columns."""
    answer = browser.get(f"/activity.csv?{query}")
    assert answer.status_code == 200
    text = b"".join(answer.streaming_content).decode()
    return list(csv.DictReader(io.StringIO(text)))


class TestSearch:
    def test_by_bot_it_lists_what_concerns_this_bot_alone(self, owner, desk, bot):
        other = a_bot(desk)
        send(bot)
        send(other)
        send(bot, pair="SOL/USDT")
        push(fanout(), a_platform_token())
        listed = [event.kind for event in found(owner, f"bot={bot.id}")]
        assert listed == [
            *("signal.refused", "signal.filled", "secret.generated"),
            *("election.made", "automation.created"),
        ]

    def test_by_pair_it_lists_what_was_sent_elected_and_published(self, owner, bot):
        send(bot)
        send(bot, pair="SOL/USDT")
        push(fanout(), a_platform_token())
        assert [e.kind for e in found(owner, "pair=SOL/USDT")] == ["signal.refused"]
        assert [e.kind for e in found(owner, "pair=ETH/USDT")] == ["signal.filled", "election.made"]
        assert [e.kind for e in found(owner, "pair=BTC/USDT")] == [
            *("signal.filled", "election.made", "card.published"),
        ]

    def test_by_code_it_lists_these_refusals_alone(self, owner, bot):
        send(bot, pair="SOL/USDT")
        send(bot, mode="live")
        assert [e.content["data"]["code"] for e in found(owner, "code=mode_refused")] == [
            "mode_refused"
        ]

    def test_several_conditions_must_all_be_met(self, owner, desk, bot):
        other = a_bot(desk)
        send(bot, pair="SOL/USDT")
        send(other, pair="SOL/USDT")
        send(bot, pair="ADA/USDT")
        send(bot)
        one = found(owner, f"bot={bot.id}&pair=SOL/USDT&code=pair_mismatch&kind=signal.refused")
        assert [event.content["data"]["sent"]["pair"] for event in one] == ["SOL/USDT"]
        assert found(owner, f"bot={bot.id}&kind=card.published") == []

    def test_by_day_both_days_are_included(self, owner, desk):
        move_the_log_back(days=30)
        today = timezone.now().replace(hour=12, minute=0)
        for days in (9, 8, 7, 6):
            with time_machine.travel(today - timedelta(days=days), tick=False):
                desks.add_automation(desk=desk, name=f"Bot {days}", actor=SYSTEM)
        day = [f"{today - timedelta(days=days):%Y-%m-%d}" for days in range(10)]
        names = lambda query: [e.content["data"]["name"] for e in found(owner, query)]  # noqa: E731
        assert names(f"since={day[8]}&until={day[7]}") == ["Bot 7", "Bot 8"]
        assert names(f"until={day[8]}&kind=automation.created") == ["Bot 8", "Bot 9"]
        assert names(f"since={day[6]}") == ["Bot 6"]
        assert names(f"since={day[5]}&until={day[4]}") == []

    def test_a_search_of_nothing_says_so_and_offers_everything(self, owner, desk):
        page = owner.get("/activity?pair=NOT/HERE")
        assert "Nothing matches your search." in words(page)
        assert 'value="NOT/HERE"' in source(page)
        assert 'href="/activity">Show everything' in source(page)

    @pytest.mark.once
    @pytest.mark.parametrize(
        "query",
        ["kind=x", "bot=x", "code=x", "since=x", "until=2026-13-01", "pair=" + "x" * 42],
    )
    def test_a_value_that_is_not_on_the_list_is_refused(self, owner, query):
        for path in ("/activity", "/activity.csv"):
            answer = owner.get(f"{path}?{query}")
            assert (answer.status_code, problem(answer)) == (422, "invalid")

    def test_a_removed_bot_can_still_be_searched_for(self, owner, bot):
        tokens.remove_automation(automation=bot.automation, actor=SYSTEM)
        assert "Chart (removed)" in source(owner.get(f"/activity?bot={bot.id}"))
        assert found(owner, f"bot={bot.id}")[0].kind == "automation.removed"

    def test_what_another_desk_did_is_never_found(self, owner, stranger):
        bot = a_bot(stranger)
        send(bot, pair="SOL/USDT")
        assert found(owner, "pair=SOL/USDT") == []
        assert found(owner, "code=pair_mismatch") == []
        assert rows(owner, "pair=SOL/USDT") == []

    def test_rows_that_are_checked_one_by_one_are_limited_and_none_is_lost(
        self, owner, bot, monkeypatch
    ):
        send(bot, pair="SOL/USDT")
        for _ in range(6):
            send(bot)
        monkeypatch.setattr(feed, "MAX_CHECKED_PER_PAGE", 3)
        query = f"bot={bot.id}&kind=signal.refused"
        page = owner.get(f"/activity?{query}")
        assert "Nothing matches in this part of the log." in words(page)
        pages = 1
        while not lines(page):
            page = owner.get(f"/activity{links(page)['Older']}")
            pages += 1
        assert pages == 3
        assert len(rows(owner, query)) == 1

    def test_the_fragment_is_of_the_same_search(self, owner, bot):
        send(bot, pair="SOL/USDT")
        send(bot)
        part = source(owner.get("/activity?pair=SOL/USDT&fragment=1"))
        assert part.count("<li ") == 1
        assert "<h1>" not in part

    @pytest.mark.once
    def test_the_page_says_where_news_are_announced(self, owner, desk):
        page = source(owner.get("/activity"))
        followed = '<div data-follow="/activity/stream">'
        assert re.search(rf'role="status" data-news></p>\s*{followed}', page)


def folds(page):
    """What each fold of the list says, and how many events it holds, in order."""
    found = re.findall(r'"fold .*?<summary>(.*?)</summary>(.*?)</ol>', source(page), re.DOTALL)
    said = [plain(summary).removesuffix(" just now") for summary, _ in found]
    return [(text, rows.count('id="evt_')) for text, (_, rows) in zip(said, found, strict=True)]


class TestFolds:
    def test_what_says_the_same_in_a_row_is_folded(self, owner, bot):
        for pair in ("ETH/USDT", "ETH/USDT", "SOL/USDT", "SOL/USDT", "ADA/USDT", "ETH/USDT"):
            send(bot, pair=pair)
        page = owner.get("/activity")
        assert folds(page) == [
            ("2 refusals The bot Chart sent the pair SOL/USDT; you elected ETH/USDT.", 2),
            ("2 fills on paper: ETH/USDT short from the bot Chart.", 2),
        ]
        assert lines(page)[:2] == [
            "Filled on paper: ETH/USDT short from the bot Chart.",
            "Refused The bot Chart sent the pair ADA/USDT; you elected ETH/USDT.",
        ]
        for other in ("/desk", f"/bots/{bot.id}"):
            assert folds(owner.get(other)) == folds(page)

    def test_signals_of_another_source_desk_or_mode_are_not_the_same(self, owner, desk):
        engine = a_platform_token()
        for body in (fanout(), floor(desk), floor(desk)):
            push(body, engine)
        for mode in ("dry_run", "dry_run", "draft", "draft"):
            push(nox(fanout=False, userId=desk.public_id, mode=mode), engine)
        assert folds(owner.get("/activity")) == [
            ("2 signals from Nox were recorded: BTC/USDT long. Nothing was filled.", 2),
            ("2 dry runs from Nox matched: BTC/USDT long. Nothing was filled.", 2),
            ("2 fills on paper: BTC/USDT long from the engine, for your desk alone.", 2),
        ]

    def test_signals_of_another_bot_are_not_the_same(self, owner, desk, bot):
        other = a_bot(desk)
        for each in (bot, bot, other):
            send(each)
        assert [number for _, number in folds(owner.get("/activity"))] == [2]

    def test_a_fold_ends_with_its_page(self, owner, bot, monkeypatch):
        for _ in range(5):
            send(bot)
        monkeypatch.setattr(activity, "PAGE_SIZE", 3)
        page = owner.get("/activity?kind=signal.filled")
        assert [number for _, number in folds(page)] == [3]
        page = owner.get(f"/activity{links(page)['Older']}")
        assert [number for _, number in folds(page)] == [2]

    def test_other_events_are_not_folded(self, owner, desk):
        for _ in range(2):
            desks.add_automation(desk=desk, name="Same", actor=SYSTEM)
        page = owner.get("/activity")
        assert lines(page)[:2] == ["The bot Same was created."] * 2
        assert folds(page) == []


class TestCsv:
    def test_it_holds_what_is_filtered(self, owner, bot):
        send(bot, pair="SOL/USDT", nonce="n-7")
        filled = send(bot, nonce="n-8").json()["signal"]
        found = rows(owner, f"bot={bot.id}&kind=signal.filled")
        assert [(row["signal"], row["nonce"]) for row in found] == [(filled["id"], "n-8")]
        assert found[0]["time"] == filled["receivedAt"]
        (refused,) = rows(owner, "code=pair_mismatch")
        assert (refused["pair"], refused["elected pair"]) == ("SOL/USDT", "ETH/USDT")
        assert (refused["bot"], refused["bot name"]) == (bot.id, "Chart")
        assert refused["reason"].startswith("The bot Chart sent the pair SOL/USDT;")

    def test_an_election_on_the_card_has_its_pair_and_direction(self, owner, desk, card):
        (row,) = rows(owner, "kind=election.made")
        assert (row["pair"], row["direction"]) == (card.pair, card.direction)

    def test_it_is_streamed_in_few_parts_and_has_every_event_once(self, owner, desk, monkeypatch):
        monkeypatch.setattr(activity, "CSV_PAGE_SIZE", 2)
        for number in range(7):
            desks.add_automation(desk=desk, name=f"Bot {number}", actor=SYSTEM)
        answer = owner.get("/activity.csv")
        assert "Content-Length" not in answer
        assert answer["Content-Type"] == "text/csv; charset=utf-8"
        assert answer["Content-Disposition"] == 'attachment; filename="activity.csv"'
        assert answer["Cache-Control"] == "no-store"
        assert len(list(answer.streaming_content)) <= 3
        listed = [row["event"] for row in rows(owner)]
        assert listed == [event.id for event in reversed(Event.objects.all())]

    @pytest.mark.once
    @pytest.mark.parametrize("site", ["cross-site", "same-site", "new"])
    def test_a_page_of_another_site_gets_none_and_uses_nothing_up(self, owner, desk, site):
        before = rate_limits.budget("minting", str(desk.user_id))
        answer = owner.get("/activity.csv", headers={"Sec-Fetch-Site": site})
        assert (answer.status_code, problem(answer)) == (403, "csrf_failed")
        assert "A page of another site asked for this file." in words(answer)
        assert rate_limits.budget("minting", str(desk.user_id)) == before

    @pytest.mark.once
    @pytest.mark.parametrize("site", ["same-origin", "none"])
    def test_the_services_own_page_and_a_typed_address_get_it(self, owner, site):
        answer = owner.get("/activity.csv", headers={"Sec-Fetch-Site": site})
        assert b"".join(answer.streaming_content)

    @pytest.mark.once
    @pytest.mark.parametrize(
        "start",
        [*"=+-@\uff1d\uff0b\uff0d\uff20\ufe66\u2212", " =", "\u3000=", '"=', "\t", "\r", "\n"],
    )
    def test_a_cell_that_a_spreadsheet_takes_for_a_formula_is_quoted(self, start):
        assert safe_cell(f"{start}cmd|x") == f"'{start}cmd|x"

    @pytest.mark.once
    @pytest.mark.parametrize("separator", [*";,|\t\n\r"])
    def test_a_cell_that_another_locale_takes_for_several_holds_no_formula(self, separator):
        cell = safe_cell(f'x{separator}=a{separator} \uff1db{separator}"@c{separator}d')
        assert cell == f"x{separator}'=a{separator}' \uff1db{separator}'\"@c{separator}d"

    @pytest.mark.once
    def test_another_cell_is_not_quoted(self):
        plain = ("a=b", "'", "", "7", "BTC/USDT", "a - b", "a; b", "2026-11-23T10:00:00.000Z")
        assert [safe_cell(value) for value in (*plain, None, 7)] == [*plain, "", "7"]

    def test_the_quote_reaches_the_file(self, owner, desk):
        bot = a_bot(desk)
        desks.add_automation(desk=desk, name='=HYPERLINK("x")', actor=SYSTEM)
        send(bot, nonce="-1+1")
        assert rows(owner, "kind=signal.filled")[0]["nonce"] == "'-1+1"
        assert rows(owner, "kind=automation.created")[0]["bot name"] == '\'=HYPERLINK("x")'

    @pytest.mark.once
    def test_the_page_links_to_the_file_of_its_search(self, owner, bot):
        send(bot, pair="SOL/USDT")
        assert 'href="/activity.csv?pair=SOL%2FUSDT"' in source(
            owner.get("/activity?pair=SOL/USDT")
        )


class TestDates:
    def test_the_first_position_of_a_time(self, desk):
        move_the_log_back(days=30)
        before = Head.objects.get().position
        now = timezone.now().replace(microsecond=0)
        for days in (3, 2, 1):
            with time_machine.travel(now - timedelta(days=days), tick=False):
                desks.add_automation(desk=desk, name=f"Bot {days}", actor=SYSTEM)
        times = [now - timedelta(days=days) for days in (40, 3, 2.5, 1, 0.5)]
        assert first_positions(times) == [1, before + 1, before + 2, before + 3, before + 4]

    def test_an_empty_log_has_its_first_position_to_come(self, db):
        assert first_positions([timezone.now()]) == [1]
        assert first_positions([]) == []


class TestQuickSearch:
    @pytest.mark.once
    @pytest.mark.parametrize(
        ("text", "address"),
        [
            ("evt_7", "/activity/evt_7"),
            ("SOL/USDT", "/activity?pair=SOL%2FUSDT"),
            ("nonce_used", "/activity?code=nonce_used"),
            (" chart ", "/activity?bot={bot}"),
            ("{bot}", "/activity?bot={bot}"),
            ("evt_0", "/activity?pair=evt_0"),
        ],
    )
    def test_it_finds_out_what_the_text_is(self, owner, bot, text, address):
        answer = owner.get("/activity", {"q": text.format(bot=bot.id)})
        assert (answer.status_code, answer["Location"]) == (302, address.format(bot=bot.id))

    def test_the_bot_of_another_desk_is_not_known(self, owner, stranger):
        theirs = a_bot(stranger)
        assert owner.get("/activity", {"q": theirs.id})["Location"] == f"/activity?pair={theirs.id}"


class TestFacets:
    def offered(self, owner, name, query=""):
        page = source(owner.get(f"/activity{query}"))
        select = page.partition(f'<select name="{name}"')[2].partition("</select>")[0]
        return re.findall(r'<option value="([^"]+)"[^>]*>[^<]*: ([\d,+]+)<', select)

    def test_the_filter_offers_what_occurs_with_its_counts(self, owner, desk, bot):
        idle = a_bot(desk)
        push(fanout(), a_platform_token())
        send(bot)
        send(bot, pair="SOL/USDT")
        kinds = dict(self.offered(owner, "kind"))
        assert (kinds["signal.filled"], kinds["signal.refused"]) == ("2", "1")
        assert "desk.closed" not in kinds
        assert self.offered(owner, "code") == [("pair_mismatch", "1")]
        of_bots = dict(self.offered(owner, "bot"))
        assert int(of_bots[bot.id]) == int(of_bots[idle.id]) + 2

    def test_what_is_chosen_is_offered_though_nothing_has_it(self, owner, bot):
        assert self.offered(owner, "code", "?code=nonce_used") == [("nonce_used", "0")]

    def test_events_of_other_desks_and_other_days_do_not_count(self, owner, bot, stranger):
        other = a_bot(stranger)
        send(other, pair="SOL/USDT")
        assert self.offered(owner, "code") == []
        send(bot, pair="SOL/USDT")
        assert self.offered(owner, "code") == [("pair_mismatch", "1")]
        assert self.offered(owner, "code", "?until=2020-01-01") == []

    def test_a_count_stops_at_its_limit(self, owner, bot, monkeypatch):
        monkeypatch.setattr(counts, "MAX_OF_FACET", 2)
        for _ in range(3):
            send(bot, pair="SOL/USDT")
        assert self.offered(owner, "code") == [("pair_mismatch", "2+")]
