"""The control area: who may enter, and that it adds, changes and deletes nothing.

Who may open which page stands in ``tests/config/permissions.py``.
"""

import html
import re
from dataclasses import dataclass

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from desks.models import Card, Desk, Election, User
from events.actors import SYSTEM
from events.control import lists
from events.models import Event
from signals.intake.models import Signal
from signals.webhooks.models import Subscription, SubscriptionSecret
from tests import factories, pages, staff
from tests.client import Response, push
from tests.config.permissions import MODELS
from tests.crowd import a_crowd
from tests.signals import bodies
from tests.signals.webhooks.stage import (
    URL,
    a_failing_webhook,
    a_webhook,
    webhooks_to_look_at,
)
from tests.staff import staff_client  # noqa: F401 - the fixture "client"
from tokens import account_closing
from tokens.models import SigningSecret, Token

CONTROL = "/control/"
BREADCRUMBS = re.compile(r'<nav class="trail"[^>]*>(.*?)</nav>', re.DOTALL)
TAGS = re.compile(r"<[^>]+>")
RELATED = re.compile(r' href="([^"]+[?]q=[^"]+)">Its (\w+)</a>')

pytestmark = [pytest.mark.django_db, pytest.mark.once]


@pytest.fixture
def world(desk: Desk) -> None:
    fill(desk)


def fill(desk: Desk) -> None:
    """Makes at least one row of each kind, of a customer and of the platform."""
    factories.a_bot(desk)
    factories.a_desk_token(desk)
    factories.a_shared_secret()
    account_closing.deactivate(user=factories.a_desk().user, actor=SYSTEM)
    push(bodies.fanout(), factories.a_platform_token())
    webhooks_to_look_at(desk)
    a_failing_webhook(None)  # the last: its page has attempts


def every_page() -> list[str]:
    """The overview, the lists of each app, and of each kind of row its list, one row, and what can
    be done.
    """
    found = [CONTROL]
    apps = {control.model._meta.app_label for control in staff.every_control()}
    found += [reverse("admin:app_list", args=[app]) for app in sorted(apps)]
    for control in staff.every_control():
        row = control.model.objects.order_by("pk").last()
        found.append(control.page_url("changelist"))
        if control.model is not Desk:  # its owner's page is its own
            found.append(control.page_url("change", row))
        for name, page in control.pages.items():
            rows = (
                [r for r in control.model.objects.all() if page.applies_to(r)]
                if page.is_per_row
                else []
            )
            found.append(control.page_url(name, rows[0] if rows else None))
    return found


@dataclass
class Opened:
    """What staff with a second factor get of a page."""

    response: Response
    queries: int
    hidden: list[str]  # what the database held meanwhile, and no page may show

    @property
    def text(self) -> str:
        return self.response.content.decode()


@pytest.fixture(scope="module")
def opened(django_db_setup, django_db_blocker) -> dict[str, Opened]:
    """Every page, opened once, in a transaction that is rolled back."""
    with django_db_blocker.unblock():
        block = transaction.atomic()
        block._from_testcase = True  # type: ignore[attr-defined]  # the log's turns are durable, and a test's block is not theirs
        with block, override_settings(REQUIRE_STAFF_MFA=True):
            fill(factories.a_ready_desk(factories.a_card()))
            browser, found, hidden = staff.a_client(), {}, hidden_texts()
            for page in every_page():
                with CaptureQueriesContext(connection) as queries:
                    response = browser.get(page)
                found[page] = Opened(response, len(queries), hidden)
            transaction.set_rollback(True)
            return found


def hidden_texts() -> list[str]:
    """Each digest, ciphertext and password of the database, and the address of its webhooks."""
    sealed_rows = (SigningSecret, Subscription, SubscriptionSecret)
    sealed = [bytes(row.ciphertext) for model in sealed_rows for row in model.objects.all()]
    return [
        URL,
        *Token.objects.values_list("digest", flat=True),
        *User.objects.values_list("password", flat=True),
        *(ciphertext.hex() for ciphertext in sealed),
        *(str(ciphertext) for ciphertext in sealed),
    ]


# --- Who may enter -----------------------------------------------------------------------------


def test_where_no_second_factor_is_asked_for_a_password_is_enough():
    assert staff.a_client(None, "password").get(CONTROL).status_code == 200


def test_staff_with_a_second_factor_open_every_page(opened):
    assert {page: each.response.status_code for page, each in opened.items()} == dict.fromkeys(
        opened, 200
    )


# --- What the pages are --------------------------------------------------------------------------


def test_every_page_says_whose_it_is_and_that_it_is_paper(opened):
    for each in opened.values():
        assert "Signal Intermediary" in each.text
        assert ">Paper<" in each.text
        assert '<a href="/">Back to the site</a>' in each.text


def test_every_page_has_sign_out_and_breadcrumbs_from_the_overview_to_itself(opened):
    for page, each in opened.items():
        assert '<button type="submit" class="link">Sign out</button>' in each.text, page
        trails = BREADCRUMBS.findall(each.text)
        assert len(trails) == (page != CONTROL), page  # the overview has none
        for trail in trails:
            words = html.unescape(TAGS.sub("", trail)).strip()
            assert re.search(r"^Overview\b.*\w[)”]?$", words, re.DOTALL), (page, trail)


def test_every_cell_of_a_list_has_the_name_of_its_column(opened):
    for control in staff.every_control():
        table = (
            opened[control.page_url("changelist")]
            .text.partition("<tbody>")[2]
            .partition("</tbody>")[0]
        )
        cells = re.findall(r"<t[dh][ >]", table)
        assert len(cells) == len(re.findall(r'<t[dh] data-label="\w', table)) > 0


def test_a_list_without_rows_says_so(client):
    assert "No cards yet." in client.get(staff.list_of(Card)).content.decode()
    nothing = client.get(f"{staff.list_of(Card)}?q=x").content.decode()
    assert "No cards match." in nothing
    assert '<a href="?">Show all</a>' in nothing


def test_no_page_holds_what_the_policy_of_content_would_stop(opened):
    for page, each in opened.items():
        policy = each.response["Content-Security-Policy"]
        assert "script-src 'self'; style-src 'self';" in policy
        assert pages.inline(each.response) == [], page


def test_no_page_is_stored(opened):
    for each in opened.values():
        assert "no-store" in each.response["Cache-Control"]


def test_no_page_shows_a_digest_a_ciphertext_or_a_password(opened):
    for page, each in opened.items():
        assert len(each.hidden) > 10
        assert not any(text in each.text for text in each.hidden), page


def test_the_frameworks_own_ways_to_sign_in_and_to_change_a_password_are_not_there(client):
    for path in ("login/", "logout/", "password_change/", "autocomplete/", "r/1/1/"):
        assert client.get(CONTROL + path).status_code == 404


# --- That nothing is added, changed or deleted ---------------------------------------------------


def everything() -> dict[str, list[tuple[object, ...]]]:
    """Returns every row of every table, without the times of sign-ins."""
    return {
        model.__name__: sorted(
            model._default_manager.defer("last_login").values_list(
                *(f.attname for f in model._meta.concrete_fields if f.name != "last_login")
            ),
            key=str,
        )
        for model in MODELS
    }


def test_no_row_is_added_changed_or_deleted(client, world):
    before = everything()
    for model in MODELS:
        control = staff.control_of(model)
        row, base = model._default_manager.first(), control.page_url("changelist")
        fields = {field.name: "1" for field in model._meta.concrete_fields} | {"post": "yes"}
        for path in ("add/", f"{quote(row.pk)}/change/", f"{quote(row.pk)}/delete/"):
            assert client.post(base + path, fields).status_code in {403, 404}, base + path
        assert not control.has_delete_permission(None)
        assert not control.has_add_permission(None)
        client.post(base, {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"})
        assert everything() == before, model


def test_the_framework_keeps_no_log_of_its_own_beside_ours(client, card):
    client.post(staff.list_of(Token, "mint"), {"name": "Engine", "scopes": ["read"]})
    client.post(staff.page_of(card, "retire"))
    assert Event.objects.count() == 3
    assert not LogEntry.objects.exists()


def test_what_is_not_shown_cannot_be_asked_for(client):
    names = ("digest__startswith", "password__startswith", "user__password__startswith", "pk")
    for model in MODELS:
        for name in names:
            response = client.get(staff.list_of(model), {name: "a"})
            assert (response.status_code, staff.refusal(response)) == (400, "malformed"), model


# --- What a list costs ---------------------------------------------------------------------------


def test_a_list_of_more_rows_takes_no_more_queries(client, world, card, desk):
    def queries() -> dict[str, int]:
        found = {}
        for model in MODELS:
            with CaptureQueriesContext(connection) as captured:
                assert client.get(staff.list_of(model)).status_code == 200
            found[model.__name__] = len(captured)
        return found

    few = queries()
    a_crowd(card, 50)
    other = factories.a_ready_desk(card)
    factories.a_bot(other)
    factories.a_desk_token(other)
    factories.a_platform_token()
    a_webhook(other)
    a_webhook()
    assert queries() == few
    assert max(few.values()) <= 10


def test_every_page_but_a_customers_takes_few_queries(opened):
    of_a_customer = re.compile(rf"{staff.list_of(User)}\d+/change/")
    for page, each in opened.items():
        assert each.queries <= 14 or of_a_customer.fullmatch(page), page


def test_a_list_counts_no_further_than_it_lists(client, card, monkeypatch):
    monkeypatch.setattr(lists, "MAX_LISTED", 120)
    a_crowd(card, 200)
    with CaptureQueriesContext(connection) as captured:
        text = client.get(staff.list_of(Desk)).content.decode()
    counts = [q["sql"] for q in captured if "COUNT" in q["sql"]]
    assert len(counts) == 1
    assert "LIMIT 120" in counts[0]
    assert "The first 120 desks" in text
    assert "?p=2" in text


def test_a_list_keeps_the_order_of_its_index_whatever_is_asked_for(client, world):
    with CaptureQueriesContext(connection) as captured:
        client.get(staff.list_of(Event), {"o": "2.-3"})
    assert any('ORDER BY "events_event"."position" DESC' in q["sql"] for q in captured)


def test_a_page_of_no_row_leads_back(client):
    for model in MODELS:
        for key in ("no_such", "9" * 40, "-1", "a%2Fb", "%ff"):
            response = client.get(f"{staff.list_of(model)}{key}/change/")
            assert (response.status_code, response["Location"]) == (302, CONTROL), (model, key)


def test_a_card_and_a_bot_link_to_the_lists_of_what_belongs_to_them(client, desk, card):
    bot = factories.a_bot(desk).automation
    links = {
        row: dict(RELATED.findall(client.get(staff.page_of(row)).content.decode()))
        for row in (card, bot)
    }
    assert links == {
        card: {
            f"{staff.list_of(Election)}?q={card.pk}": "elections",
            f"{staff.list_of(Event)}?q={card.pk}": "events",
        },
        bot: {
            f"{staff.list_of(Election)}?q={bot.pk}": "elections",
            f"{staff.list_of(SigningSecret)}?q={bot.pk}": "secrets",
            f"{staff.list_of(Signal)}?q={bot.pk}": "signals",
        },
    }


def test_any_search_gets_an_answer(client, world):
    for model in MODELS:
        for text in ("evt_", "evt_" + "9" * 40, "evt_²", "usr_ bot_", "bot_x", "%", "_", " "):
            found = client.get(f"{staff.list_of(model)}?q={text}&p=x")
            assert found.status_code == 200, (model, text)
