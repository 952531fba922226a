"""The links from the page of a row in the control area to the lists of what belongs to it."""

import re

import pytest

from signals.intake.models import Signal
from tests import factories, staff

pytestmark = [pytest.mark.django_db, pytest.mark.once]

LINK = re.compile(r' href="([^"]+[?]q=[^"]+)">Its (\w+)</a>')


def related_links(client, row) -> dict[str, str]:
    page = client.get(staff.page_of(row)).content.decode()
    return {label: url for url, label in LINK.findall(page)}


def test_a_card_and_a_bot_link_to_what_belongs_to_them(card):
    client = staff.a_client()
    bot = factories.a_bot(factories.a_ready_desk(card)).automation
    assert related_links(client, card) == {
        "elections": f"/control/desks/election/?q={card.pk}",
        "events": f"/control/events/event/?q={card.pk}",
    }
    assert related_links(client, bot) == {
        "elections": f"/control/desks/election/?q={bot.pk}",
        "secrets": f"/control/tokens/signingsecret/?q={bot.pk}",
        "signals": f"{staff.list_of(Signal)}?q={bot.pk}",
    }
