"""The log in the control area: who and why in the list, searches, the story of an event."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from desks import actions as desks
from desks.models import Card, Desk, User
from events import log
from events.actors import SYSTEM
from events.kinds import Kind
from events.models import Event
from signals.control import search
from signals.control.stories import show_event
from tests import factories, staff
from tests.client import push
from tests.pages import words
from tests.signals import bodies
from tests.signals.audit.stage import a_lively_history
from tests.staff import staff_client  # noqa: F401 - the fixture "client"
from tokens.models import SigningSecret, Token

pytestmark = pytest.mark.django_db

MOST_QUERIES = 13


@pytest.fixture
def engine_id(engine):
    return Token.objects.get().public_id


def listed(client, **query):
    """The positions of a list, which takes few queries."""
    with CaptureQueriesContext(connection) as queries:
        response = client.get(staff.list_of(Event), query)
    assert response.status_code == 200
    assert len(queries) <= MOST_QUERIES
    return [event.position for event in response.context["cl"].result_list]


def cells(client, position):
    """The texts of the cells of an event's row by their labels."""
    response = client.get(staff.list_of(Event), {"q": f"evt_{position}"})
    row = response.content.decode().partition("<tbody>")[2].partition("</tr>")[0]
    found = {}
    for cell in row.split('data-label="')[1:]:
        label, _, rest = cell.partition('"')
        found[label] = words_of(rest.partition(">")[2])
    return found


def words_of(fragment):
    text = fragment.replace("<", "\0<").replace(">", ">\0")
    return "".join(part for part in text.split("\0") if not part.startswith("<")).strip()


def last(kind):
    return Event.objects.filter(kind=kind).last()


class TestList:
    def test_a_refusal_shows_its_reason_in_words_its_bot_owner_and_actor(self, client, desk, bot):
        push(bodies.tradingview(bot, direction="long"), secret=bot.secret)
        refused = last(Kind.SIGNAL_REFUSED)
        shown = cells(client, refused.position)
        hint = SigningSecret.objects.get().hint
        assert shown["What"] == "Direction differs from the election"
        assert shown["Bot"] == "Chart"
        assert shown["Owner"] == desk.user.email
        assert shown["Actor"] == f"Chart ({hint})"

    def test_the_list_of_refusals_has_four_columns_and_no_filter_by_kind(
        self, client, desk, bot, engine
    ):
        push(bodies.tradingview(bot, direction="long"), secret=bot.secret)
        push(bodies.fanout(pair="SOL/USDT"), engine)
        page = client.get(staff.list_of(Event), {"kind": "signal.refused"}).content.decode()
        table = page.partition("<tbody>")[2].partition("</tbody>")[0]
        labels = re.findall('data-label="([^"]+)"', table)
        assert labels == ["At", "What", "Sender", "Owner"] * 2
        assert ">Pair differs from the election</a>" in table
        assert ">Engine (" in table
        assert ">Chart</a>" in table
        assert '<input type="hidden" name="kind" value="signal.refused">' in page
        assert 'placeholder="address, id or nonce"' in page
        assert '<option value="pair_mismatch">Pair differs from the election</option>' in re.sub(
            r"\s+>", ">", page
        )

    def test_the_log_is_filtered_by_kinds_in_words_and_not_by_what_refusals_alone_have(
        self, client
    ):
        page = client.get(staff.list_of(Event)).content.decode()
        assert ">Signal filled</option>" in page
        assert 'name="reason"' not in page
        assert 'name="source"' not in page

    def test_a_member_of_the_staff_and_a_token_are_named(self, client, engine):
        client.post(staff.list_of(Token, "mint"), {"name": "Second", "scopes": ["read"]})
        assert cells(client, last(Kind.TOKEN_MINTED).position)["Actor"] == "staff@example.com"
        push(bodies.fanout(), engine)
        assert cells(client, last(Kind.SIGNAL_FILLED).position)["Actor"].startswith("Engine (")

    def test_the_header_has_a_link_to_the_refusals(self, client, engine, desk):
        push(bodies.fanout(pair="SOL/USDT"), engine)
        assert f'<a href="{staff.list_of(Event)}?kind=signal.refused"' in (
            client.get("/control/").content.decode()
        )
        refusals = client.get(staff.list_of(Event), {"kind": "signal.refused"})
        assert "<h1>Refusals</h1>" in refusals.content.decode()
        assert listed(client, kind="signal.refused") == [last(Kind.SIGNAL_REFUSED).position]

    def test_events_are_filtered_by_kind_and_an_unknown_kind_filters_nothing(
        self, client, desk, stranger
    ):
        expected = Event.objects.filter(kind="desk.connected").values_list("position", flat=True)
        assert listed(client, kind="desk.connected") == sorted(expected, reverse=True)
        assert len(listed(client, kind="no.such")) == Event.objects.count()

    def test_refusals_are_filtered_by_reason_and_by_source(self, client, desk, bot, engine):
        push(bodies.tradingview(bot, direction="long"), secret=bot.secret)
        mismatch = last(Kind.SIGNAL_REFUSED).position
        push(bodies.fanout(pair="SOL/USDT"), engine)
        pair = last(Kind.SIGNAL_REFUSED).position
        assert listed(client, reason="direction_mismatch") == [mismatch]
        assert listed(client, reason="pair_mismatch") == [pair]
        assert listed(client, source="tradingview") == [mismatch]
        assert listed(client, source="floor", reason="direction_mismatch") == []

    def test_the_names_of_more_events_take_no_more_queries(self, client, desk, bot, engine, card):
        def queries():
            with CaptureQueriesContext(connection) as captured:
                client.get(staff.list_of(Event))
            return len(captured)

        push(bodies.tradingview(bot), secret=bot.secret)
        push(bodies.fanout(), engine)
        client.post(staff.list_of(Token, "mint"), {"name": "Second", "scopes": ["read"]})
        few = queries()
        for _ in range(3):
            other = factories.a_bot(factories.a_ready_desk(card))
            push(bodies.tradingview(other), secret=other.secret)
        assert queries() == few <= MOST_QUERIES


class TestSearch:
    def test_events_are_found_by_topic_by_signal_and_by_id(self, client, desk, stranger, card):
        signal = push(bodies.fanout(), factories.a_platform_token()).json()["signal"]
        assert len(listed(client, q=desk.public_id)) == 3
        assert listed(client, q="all") == [1]
        assert listed(client, q=card.pk) == [signal["position"]]
        assert listed(client, q=signal["id"]) == [signal["position"]]
        assert listed(client, q="evt_2") == [2, 1]

    def test_a_nonce_finds_its_signal_whoever_sent_it(self, client, desk, bot, engine):
        push(bodies.fanout(nonce="same"), engine)
        push(bodies.tradingview(bot, nonce="same"), secret=bot.secret)
        push(bodies.fanout(nonce="other"), engine)
        found = Event.objects.filter(kind=Kind.SIGNAL_FILLED).values_list("position", flat=True)
        assert listed(client, q="same") == sorted(found[:2], reverse=True)

    @pytest.mark.parametrize("member", ["data", "platform_data"])
    def test_a_refusal_is_found_by_the_nonce_and_the_request_id_that_it_records(
        self, client, engine, desk, member
    ):
        push(bodies.fanout(pair="SOL/USDT"), engine)
        content = {"data": dict(last(Kind.SIGNAL_REFUSED).content["data"])}
        content.setdefault(member, {}).update(nonce="mark-9", requestId="req-9")
        with log.turn(actor=SYSTEM) as turn:
            refused = turn.append(Kind.SIGNAL_REFUSED, topic=None, **content)
        assert listed(client, q="mark-9") == [refused.position]
        assert listed(client, q="req-9") == [refused.position]
        assert listed(client, q="req-8") == []

    def test_a_token_or_secret_finds_what_it_sent(self, client, desk, bot, engine_id, engine):
        push(bodies.fanout(), engine)
        push(bodies.fanout(pair="SOL/USDT"), engine)
        by_engine = [last(Kind.SIGNAL_REFUSED).position, last(Kind.SIGNAL_FILLED).position]
        push(bodies.tradingview(bot), secret=bot.secret)
        assert listed(client, q=engine_id) == by_engine
        secret = SigningSecret.objects.get().public_id
        assert listed(client, q=secret) == [last(Kind.SIGNAL_FILLED).position]

    def test_a_part_of_an_address_finds_the_events_of_the_desk(self, client, desk, stranger):
        local = desk.user.email.partition("@")[0]
        own = Event.objects.filter(topic=desk.public_id).values_list("position", flat=True)
        assert set(listed(client, q=f"{local}@exam")) == set(own)
        everyone = Event.objects.filter(topic__startswith="usr_").count()
        assert len(listed(client, q="@example")) == everyone

    def test_a_part_of_a_staff_address_finds_what_that_member_did(self, client):
        client.post(staff.list_of(Token, "mint"), {"name": "Second", "scopes": ["read"]})
        assert listed(client, q="taff@exa") == [last(Kind.TOKEN_MINTED).position]

    def test_a_part_of_a_tokens_name_finds_what_it_sent(self, client, desk, engine):
        push(bodies.fanout(), engine)
        assert listed(client, q="ngin") == [last(Kind.SIGNAL_FILLED).position]

    def test_a_bot_finds_what_is_about_it(self, client, desk, bot, engine):
        push(bodies.tradingview(bot), secret=bot.secret)
        push(bodies.tradingview(bot, direction="long"), secret=bot.secret)
        push(bodies.fanout(), engine)
        kinds = Event.objects.filter(position__in=listed(client, q=bot.id))
        assert list(kinds.values_list("kind", flat=True)) == [
            "automation.created",
            "election.made",
            "secret.generated",
            "signal.filled",
            "signal.refused",
        ]

    def test_a_text_finds_the_newest_events_of_each_match(self, client, desk, engine, monkeypatch):
        monkeypatch.setattr(search, "MAX_EVENTS", 2)
        for _ in range(3):
            push(bodies.fanout(), engine)
        head = Event.objects.last().position
        assert listed(client, q="engine") == [head, head - 1]

    def test_users_and_desks_are_found_by_a_part_of_an_address(self, client, desk, stranger):
        part = desk.user.email[2:]
        for model in (User, Desk):
            response = client.get(staff.list_of(model), {"q": part})
            assert response.context["cl"].result_count == 1

    def test_tokens_are_found_by_a_part_of_their_name(self, client, engine, desk):
        factories.a_desk_token(desk)
        response = client.get(staff.list_of(Token), {"q": "NGIN"})
        assert [token.name for token in response.context["cl"].result_list] == ["Engine"]


class TestStory:
    def test_the_sentences_come_first_and_the_json_is_folded(self, client, desk, engine):
        push(bodies.fanout(nonce="n-1"), engine)
        page = client.get(staff.page_of(last(Kind.SIGNAL_FILLED))).content.decode()
        sentence = page.index("sent a signal of the source floor to every desk")
        assert sentence < page.index("<details") < page.index("n-1")
        assert "It filled 1 desk on paper." in page

    def test_an_event_is_shown_as_the_platform_and_as_customers_see_it(self, client, desk, engine):
        push(bodies.fanout(nonce="seen-by-the-platform"), engine)
        page = client.get(staff.page_of(last(Kind.SIGNAL_FILLED))).content.decode()
        whole, _, for_users = page.partition("What users see")
        assert "seen-by-the-platform" in whole
        assert "seen-by-the-platform" not in for_users
        assert "pair" in for_users
        platforms = words(client.get(staff.page_of(last(Kind.TOKEN_MINTED))))
        assert "Nothing. Only the platform sees this event." in platforms

    def test_the_content_of_an_event_is_escaped(self, client, desk):
        desks.add_automation(desk=desk, name="<script>alert(1)</script>", actor=SYSTEM)
        page = client.get(staff.page_of(Event.objects.last())).content.decode()
        assert "&lt;script&gt;alert(1)" in page
        assert "<script>alert" not in page

    def test_a_refusal_says_who_what_why_and_which_check_decided(self, client, desk, bot):
        push(bodies.tradingview(bot, direction="long"), secret=bot.secret)
        page = words(client.get(staff.page_of(last(Kind.SIGNAL_REFUSED))))
        for part in (
            "The holder of the secret Chart",
            f"for the bot Chart {bot.id} to the desk of {desk.user.email}.",
            "It was refused: direction_mismatch.",
            "Sent: ETH/USDT long. Elected: ETH/USDT short.",
            "Direction differs from the election. To its sender this code says: Send exactly",
            "Is the pair the elected one? Yes.",
            "Is the direction the elected one? No: this decided.",
        ):
            assert part in page

    def test_an_invalid_signal_names_its_fields(self, client, bot):
        push(bodies.tradingview(bot, nonce="My Long Entry Id"), secret=bot.secret)
        page = words(client.get(staff.page_of(last(Kind.SIGNAL_REFUSED))))
        assert "nonce: Send 1 to 128 visible ASCII characters." in page

    @pytest.mark.once
    def test_every_kind_is_told_in_whole_sentences(self, client):
        a_lively_history()
        assert set(Event.objects.values_list("kind", flat=True)) == set(Kind.values)
        for event in Event.objects.all():
            told = " ".join(words_of(show_event(event)).split())
            assert told.endswith((".", "outcome")), told
            assert "None" not in told
            assert "  " not in told


class TestWhoDidIt:
    def test_a_card_names_who_published_and_who_retired_it(self, client):
        fields = {"name": "Evening", "pair": "ETH/USDT", "direction": "short"}
        staff.publish(client, fields)
        card = Card.objects.get()
        desks.retire_card(actor=SYSTEM)
        page = words(client.get(staff.page_of(card)))
        assert "staff@example.com (staff) published the card Evening" in page
        assert "The service itself retired the card Evening" in page

    def test_a_token_names_who_minted_and_who_revoked_it_and_no_other(self, client):
        client.post(staff.list_of(Token, "mint"), {"name": "Mine", "scopes": ["read"]})
        token = Token.objects.get()
        factories.a_platform_token()
        client.post(staff.page_of(token, "revoke"))
        page = words(client.get(staff.page_of(token)))
        assert "staff@example.com (staff) minted the platform token Mine" in page
        assert "staff@example.com (staff) revoked the platform token Mine" in page
        assert "the platform token Engine" not in page

    def test_a_secret_names_who_generated_and_who_ended_it(self, client, desk, bot):
        secret = SigningSecret.objects.get()
        client.post(staff.page_of(secret, "end"))
        page = words(client.get(staff.page_of(secret)))
        assert f"The service itself generated the signing secret {secret.hint}" in page
        assert f"staff@example.com (staff) ended the signing secret {secret.hint}" in page

    def test_a_token_shows_its_latest_signals_and_refusals(self, client, desk, engine):
        push(bodies.fanout(), engine)
        push(bodies.fanout(pair="SOL/USDT"), engine)
        token = Token.objects.get()
        with CaptureQueriesContext(connection) as queries:
            page = words(client.get(staff.page_of(token)))
        assert len(queries) <= MOST_QUERIES
        assert "It filled 1 desk on paper." in page
        assert "It was refused: pair_mismatch." in page
        every = f"{staff.list_of(Event)}?q={token.public_id}"
        assert every in client.get(staff.page_of(token)).content.decode()
