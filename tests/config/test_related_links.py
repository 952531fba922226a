"""The links from the page of a row in the control area to the lists of what belongs to it."""

import re

import pytest

from signals.intake.models import Signal
from tests import factories, staff

pytestmark = pytest.mark.django_db

LINK = re.compile(r'<a href="([^"]+[?]q=[^"]+)">Its (\w+)</a>')


def related_links(client, row) -> dict[str, str]:
    page = client.get(staff.page_of(row)).content.decode()
    return {label: url for url, label in LINK.findall(page)}


def test_a_desk_a_card_and_a_bot_link_to_what_belongs_to_them(card):
    client = staff.a_client()
    desk = factories.a_ready_desk(card)
    bot = factories.a_bot(desk).automation
    assert related_links(client, desk) == {
        "automations": f"/control/desks/automation/?q={desk.public_id}",
        "elections": f"/control/desks/election/?q={desk.public_id}",
        "events": f"/control/events/event/?q={desk.public_id}",
        "webhooks": f"/control/signals/subscription/?q={desk.public_id}",
    }
    assert related_links(client, card) == {
        "elections": f"/control/desks/election/?q={card.pk}",
        "events": f"/control/events/event/?q={card.pk}",
    }
    assert related_links(client, bot) == {
        "elections": f"/control/desks/election/?q={bot.pk}",
        "secrets": f"/control/tokens/signingsecret/?q={bot.pk}",
        "signals": f"{staff.list_of(Signal)}?q={bot.pk}",
    }
