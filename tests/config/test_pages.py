"""Public pages: home, the list of refusals, and the page of a refused request."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from desks import actions
from events.actors import SYSTEM
from tests import staff
from tests.client import signed_in
from tests.factories import a_card, a_desk, a_staff_user
from tests.pages import inline, problem, source, words

pytestmark = [pytest.mark.django_db, pytest.mark.once]

PUBLIC = ["/problems", "/problems/pair_mismatch"]
EVERYBODYS = ["/", *PUBLIC, "/problems/nothing", "/accounts/login/", "/accounts/signup/"]


class TestHome:
    def test_it_shows_the_card_as_it_is_now(self):
        browser = Client()
        assert "No card is published at the moment." in words(browser.get("/"))
        a_card()
        assert "Published card Morning BTC/USDT long" in words(browser.get("/"))
        actions.retire_card(actor=SYSTEM)
        assert "No card is published at the moment." in words(browser.get("/"))

    def test_it_says_how_one_begins_and_where_the_contract_is(self):
        page = source(Client().get("/"))
        hook = reverse("hook")
        paths = (hook, f"{hook}#quickstart", "/accounts/signup/", "/problems")
        for path in paths:
            assert f'href="{path}"' in page

    def test_who_is_signed_in_is_led_to_the_desk(self):
        page = source(signed_in(a_desk().user).get("/"))
        assert ('href="/desk"' in page, 'href="/accounts/signup/"' in page) == (True, False)

    def test_staff_are_led_to_the_control_area(self):
        page = source(signed_in(a_staff_user()).get("/"))
        assert ('href="/control/"' in page, 'href="/bots"' in page) == (True, False)


class TestRefusals:
    @pytest.mark.parametrize("code", ["nothing", "Invalid", "pair_mismatch//", "pair mismatch"])
    def test_another_code_is_not_found(self, code):
        answer = Client().get(f"/problems/{code}")
        assert (answer.status_code, problem(answer)) == (404, "not_found")

    @pytest.mark.parametrize("path", PUBLIC)
    def test_it_is_the_same_for_everybody_and_touches_no_session(
        self, path, django_assert_num_queries
    ):
        browser = signed_in(a_desk().user)
        browser.post("/desk/withdraw")  # leaves a message for the next page that is ones own
        with django_assert_num_queries(0):
            own = browser.get(path)
        assert own.content == Client().get(path).content
        assert (own.cookies, own.get("Vary")) == ({}, None)


class TestAPageThatSaysNo:
    def test_it_says_what_and_how_to_name_it_to_us(self):
        answer = Client().get("/nowhere", headers={"X-Request-Id": "mine-1"})
        assert (answer.status_code, problem(answer)) == (404, "not_found")
        assert "quote the request ID: mine-1" in words(answer)
        assert "There is no such page" in words(answer)
        assert 'href="/problems/not_found"' in source(answer)

    def test_what_was_asked_for_is_shown_as_text(self):
        answer = Client().get("/activity/<script>alert(1)</script>")
        assert "<script>alert" not in source(answer)

    def test_it_needs_no_database(self, django_assert_num_queries):
        browser = signed_in(a_desk().user)
        with django_assert_num_queries(0):
            assert browser.get("/nowhere").status_code == 404


class TestEveryPage:
    @pytest.mark.parametrize("path", [*EVERYBODYS, "/api/docs"])
    def test_it_holds_nothing_that_the_policy_stops_and_loads_nothing_from_elsewhere(self, path):
        answer = Client().get(path)
        assert inline(answer) == []
        loaded = re.findall(r'(?:src|<link[^>]*href)="([^"]+)"', source(answer))
        assert loaded
        assert all(address.startswith("/static/") for address in loaded)

    @pytest.mark.parametrize("path", EVERYBODYS)
    def test_it_says_that_all_is_paper(self, path):
        page = source(Client().get(path))
        assert '<span class="paper">Paper</span>' in page
        assert "<strong>Paper only.</strong>" in page


class TestMessages:
    @pytest.mark.parametrize("make", [a_staff_user, lambda: a_desk().user])
    def test_a_page_that_a_script_fetches_leaves_them_to_the_next_that_is_opened(self, make):
        user = make()
        browser, path = staff.a_client(user), "/control/" if user.is_staff else "/desk"
        browser.post("/accounts/preferences/", {"time_zone": "", "theme": "dark"})
        fetched = browser.get(path, headers={"Sec-Fetch-Dest": "empty"})
        opened = browser.get(path, headers={"Sec-Fetch-Dest": "document"})
        pages = (fetched, opened, browser.get(path))
        assert ["preferences are saved" in words(page) for page in pages] == [False, True, False]
