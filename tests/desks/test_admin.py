"""The control area's pages for cards, desks, bots and elections."""

import pytest
from django.forms import Form
from django.test import Client

from desks import actions
from desks.admin import RetireCard
from desks.models import Automation, Card, Desk, Election
from events.actors import SYSTEM
from events.http.refusals import Invalid
from events.models import Event
from tests import factories, staff
from tests.pages import errors, words
from tests.staff import staff_client  # noqa: F401 - the fixture "client"

CARD = {"name": "Evening", "pair": "ETH/USDT", "direction": "short"}

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def shown(client: Client, page: str) -> str:
    response = client.get(page)
    assert response.status_code == 200
    return response.content.decode()


# --- Publishing ----------------------------------------------------------------------------------


def test_the_first_card_is_published(client):
    response = staff.publish(client, CARD)
    card = Card.objects.published().get()
    assert card.to_dict() == CARD
    assert response["Location"] == staff.page_of(card)
    assert "The card is published." in shown(client, staff.page_of(card))
    assert [event.kind for event in Event.objects.all()] == ["card.published"]


def test_publishing_asks_first_and_says_how_many_desks_are_unenrolled(client, card):
    page = staff.list_of(Card, "publish")
    for desks in ("0 desks", "1 desk", "2 desks"):
        asked = words(client.post(page, CARD))
        assert "Publish Evening?" in asked
        assert "Publishing retires Morning (BTC/USDT long)." in asked
        assert f"{desks} will be unenrolled and must enrol again." in asked
        assert f"{desks} will be unenrolled and must enrol again." in words(client.get(page))
        factories.a_ready_desk(card)
    assert Card.objects.get() == card


def test_what_is_confirmed_is_what_is_retired(client, card):
    """Another card that was published meanwhile is not retired unasked."""
    page = staff.list_of(Card, "publish")
    retires = client.post(page, CARD).context["retires"]
    other = factories.a_card("Noon")
    response = client.post(page, {**CARD, "retires": retires})
    assert response.status_code == 422
    assert errors(response) == ["The published card has changed. Check again what is retired."]
    assert "Publishing retires Noon" in words(response)
    assert Card.objects.published().get() == other


def test_a_card_that_was_published_before_the_first_is_not_retired_unasked(client):
    retires = client.post(staff.list_of(Card, "publish"), CARD).context["retires"]
    other = factories.a_card("Noon")
    response = client.post(staff.list_of(Card, "publish"), {**CARD, "retires": retires})
    assert response.status_code == 422
    assert Card.objects.published().get() == other


def test_the_card_can_be_changed_before_it_is_confirmed(client, card):
    page = staff.list_of(Card, "publish")
    asked = client.post(page, CARD)
    back = client.post(page, {**CARD, "retires": asked.context["retires"], "change": "yes"})
    assert 'name="name" value="Evening"' in back.content.decode()
    assert Card.objects.get() == card


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 81),
        ("pair", "BTCUSDT"),
        ("direction", "sideways"),
    ],
)
def test_an_invalid_card_shows_the_error_at_its_field(client, card, field, value):
    response = client.post(staff.list_of(Card, "publish"), {**CARD, field: value})
    assert response.status_code == 422
    assert list(response.context["form"].errors) == [field]
    assert Card.objects.get() == card


# --- Retiring ------------------------------------------------------------------------------------


def test_a_card_is_retired_without_a_successor(client, desk, card):
    assert "1 desk will be unenrolled" in shown(client, staff.page_of(card, "retire"))
    response = client.post(staff.page_of(card, "retire"))
    assert response["Location"] == staff.page_of(card)
    assert not Card.objects.published().exists()
    assert Event.objects.filter(kind="card.retired").count() == 1


def test_a_card_is_retired_once(client, card):
    client.post(staff.page_of(card, "retire"))
    for response in (
        client.get(staff.page_of(card, "retire")),
        client.post(staff.page_of(card, "retire")),
    ):
        assert (response.status_code, staff.refusal(response)) == (422, "invalid")
    assert Event.objects.filter(kind="card.retired").count() == 1


def test_a_card_that_is_published_while_another_is_being_retired_stays(card, rf):
    page = RetireCard(control=staff.control_of(Card))
    page.request = rf.post("/")
    page.request.user = factories.a_staff_user()
    page.row = card
    actions.publish_card(actor=SYSTEM, **CARD)
    with pytest.raises(Invalid):
        page.perform(Form())
    assert Card.objects.published().get().name == "Evening"


def test_a_retired_card_has_no_actions(client, card):
    assert ">Retire<" in shown(client, staff.page_of(card))
    actions.retire_card(actor=SYSTEM)
    assert ">Retire<" not in shown(client, staff.page_of(card))


# --- Reading -------------------------------------------------------------------------------------


def test_cards_are_listed_with_their_standing_the_newest_first(client, desk):
    standing = '<td data-label="Standing" class="field-standing_now">{}</td>'
    assert standing.format(1) in shown(client, staff.list_of(Card))
    actions.publish_card(actor=SYSTEM, **CARD)
    text = shown(client, staff.list_of(Card))
    assert text.index("Evening") < text.index("Morning")
    assert text.count(standing.format(0)) == 2  # elections on a retired card have lapsed


def test_desks_are_listed_with_whether_they_are_ready_and_connected(client, desk, card):
    idle, unready = factories.a_desk(), factories.a_connected_desk()
    every = {desk.public_id, idle.public_id, unready.public_id}
    for query, expected in (
        ("", {desk, idle, unready}),
        ("?ready=yes", {desk}),
        ("?connected=yes", {desk, unready}),
        (f"?q={desk.public_id}", {desk}),
        (f"?q={desk.user.email.upper()}", {desk}),
        (f"?ready=yes&q={unready.public_id}", set()),
        ("?q=rader-", {desk, idle, unready}),
    ):
        text = shown(client, staff.list_of(Desk) + query)
        assert {name for name in every if f">{name}<" in text} == {d.public_id for d in expected}


def test_no_desk_is_ready_while_no_card_is_published(client, desk):
    actions.retire_card(actor=SYSTEM)
    assert desk.public_id not in shown(client, f"{staff.list_of(Desk)}?ready=yes")
    assert desk.public_id in shown(client, f"{staff.list_of(Desk)}?connected=yes")


def test_elections_are_found_by_desk_card_and_bot(client, desk, stranger, card):
    bot = factories.a_bot(desk)
    for text, count in (
        ("", 3),
        (desk.public_id, 2),
        (stranger.public_id, 1),
        (card.pk, 2),
        (bot.id, 1),
        ("other", 0),
    ):
        page = client.get(staff.list_of(Election), {"q": text})
        assert page.context["cl"].result_count == count, text


def test_an_election_on_a_retired_card_does_not_stand(client, desk):
    election = Election.objects.get()
    assert ">stands<" in shown(client, staff.page_of(election))
    actions.retire_card(actor=SYSTEM)
    assert ">lapsed<" in shown(client, staff.page_of(election))


def test_bots_are_found_by_their_id_and_their_desk(client, desk, stranger):
    bot = factories.a_bot(desk)
    for text, count in (("", 1), (bot.id, 1), (desk.public_id, 1), (stranger.public_id, 0)):
        page = client.get(staff.list_of(Automation), {"q": text})
        assert page.context["cl"].result_count == count, text


def test_a_desks_page_is_that_of_its_owner(client, desk):
    assert client.get(staff.page_of(desk))["Location"] == staff.page_of(desk.user)
    shown_there = shown(client, staff.page_of(desk.user))
    assert desk.public_id in shown_there
