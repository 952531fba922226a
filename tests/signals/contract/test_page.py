"""The contract as a page: who gets it, its headers, and that it says what the service does."""

import html
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from events.api import FeedParameters
from events.http.refusals import Refused
from events.kinds import Kind
from signals.contract.document import contract
from signals.contract.page import LIMITS, SHAPES, prefers_page
from signals.contract.wheel import FILE
from tests.client import CATALOG, HOOK, JSON, get, push
from tests.factories import a_card, a_desk, a_platform_token
from tests.pages import copied, inline, source

pytestmark = [pytest.mark.django_db, pytest.mark.once]

CHROME = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;"
    "q=0.8,application/signed-exchange;v=b3;q=0.7"
)
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
SAFARI = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"
SAMPLES = ["tv", "fanout", "oneDesk", "oneUser", "floor", "nox"]
BOTH = pytest.mark.parametrize("path", [CATALOG, HOOK])


def page(path=HOOK, **headers):
    return get(path, **{"Accept": FIREFOX, **headers})


def text_of(answer):
    """The words of the page, with a space for each tag."""
    main = source(answer).partition("<main")[2].partition("</main>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", main)).split())


# --- Who gets it ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "accept",
    [
        CHROME,
        FIREFOX,
        SAFARI,
        "TEXT/HTML , Application/XHTML+XML ; q=0.1",
        "application/xhtml+xml,text/html;level=1;q=0.9,application/json;q=0.8",
        "text/html,application/xhtml+xml,*/*;q=1,application/json;q=0.5",
        "text/html;q=.9,application/xhtml+xml,*/*;q=.8",
    ],
)
def test_a_browser_prefers_the_page(accept):
    assert prefers_page(accept)


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        JSON,
        JAVA,
        "text/html",
        "text/html,application/json;q=0.9",
        "text/html,application/xhtml+xml,application/json",
        "text/html,application/xhtml+xml,*/*",
        "text/html,application/xhtml+xml,application/*",
        "text/html;q=0.8,application/xhtml+xml,application/json;q=0.9",
        "text/html;q=0,application/xhtml+xml",
        "text/html,application/xhtml+xml;q=0",
        "text/html;q=much,application/xhtml+xml",
        "text/html; Q = 0 ,application/xhtml+xml",
        "text/html,application/xhtml+xml,application/json;q=1.5",
        "text/html;q=.5,application/xhtml+xml,*/*;q=.6",
        "text/html;q=nan,application/xhtml+xml",
        "text/html;q=9,application/xhtml+xml",
        "text/html;q=,application/xhtml+xml",
        "text/html;q*=utf-8''1,application/json",
        "application/xhtml+xml",
        "text/html;q=0.5,text/html+application/xhtml+xml",
        ";;,,=;q",
    ],
)
def test_nothing_else_does(accept):
    assert not prefers_page(accept)


@BOTH
def test_the_json_is_the_document_in_compact_form(path):
    answer = get(path)
    expected = json.dumps(answer.json(), ensure_ascii=False, separators=(",", ":"))
    assert answer.content.decode() == expected


def test_both_addresses_show_one_page():
    assert page(CATALOG).content == page(HOOK).content


# --- Headers -------------------------------------------------------------------------------------


@BOTH
def test_a_form_that_did_not_change_is_not_sent_again_and_the_other_one_is(path):
    etags = {"": get(path)["ETag"], FIREFOX: page(path)["ETag"]}
    for accept, own in etags.items():
        for etag in etags.values():
            answer = get(path, **{"Accept": accept, "If-None-Match": etag})
            assert answer.status_code == (304 if etag == own else 200)
            assert answer["ETag"] == own
            assert answer["Vary"] == "Accept, Accept-Encoding"


def test_the_page_changes_with_the_card():
    before = page()["ETag"]
    a_card("Evening")
    assert page(**{"If-None-Match": before}).status_code == 200


def test_the_page_is_the_same_for_everybody_and_reads_no_cookie():
    browser = Client()
    browser.force_login(a_desk().user)
    answer = browser.get(HOOK, headers={"Accept": FIREFOX})
    assert answer.content == page().content
    assert answer.cookies == {}
    assert "COOKIES" not in vars(answer.wsgi_request)


def test_an_accepted_signal_is_json_for_browsers_too():
    a_card()
    body = {**contract()["fanout"]["body"], "nonce": "n-1"}
    answer = push(body, a_platform_token(), headers={"Accept": FIREFOX})
    assert (answer.status_code, answer["Content-Type"]) == (200, JSON)
    assert "Accept" not in answer.get("Vary", "")


# --- What it says --------------------------------------------------------------------------------


def test_it_runs_under_the_policy_and_loads_nothing_from_elsewhere():
    answer = page()
    assert "script-src 'self'; style-src 'self'" in answer["Content-Security-Policy"]
    assert inline(answer) == []
    loaded = re.findall(r'(?:src|<link[^>]*href)="([^"]+)"', source(answer))
    assert loaded
    assert all(address.startswith("/static/") for address in loaded)


def test_without_a_card_the_samples_have_placeholders():
    document: Mapping[str, Any] = contract()
    assert document["publishedCard"] is None
    for name in SAMPLES:
        assert document[name]["body"]["pair"] == "<BASE>/<QUOTE>"
        assert document[name]["body"]["direction"] == "long"


def test_it_has_every_sample_of_the_contract_to_copy(desk):
    document: Mapping[str, Any] = contract()
    values = copied(page())
    shown = [value for value in values if value.startswith("{")]
    names = [name for _, _, _, of_shape in SHAPES for name in of_shape]
    assert sorted(names) == sorted(SAMPLES)
    assert [json.loads(value) for value in shown] == [document[name]["body"] for name in names]
    assert all(document[name]["note"] in text_of(page()) for name in names)


def test_it_names_every_member_of_every_shape():
    shown = source(page())
    for anchor, _, shape, _ in SHAPES:
        part = shown.partition(f'<section id="{anchor}">')[2].partition("</section>")[0]
        assert re.findall(r"<dt><code>(\w+)</code>", part) == list(shape.members)


def test_it_says_what_each_call_of_an_engine_needs_and_how_to_install_the_client(settings):
    settings.BASE_URL = "https://signals.example"
    text, document = text_of(page()), contract()
    assert all(document[name]["note"] in text for name in ("oneDesk", "fanout"))
    assert f"pip install https://signals.example/client/{FILE}" in copied(page())


def test_it_explains_every_refusal():
    text = text_of(page())
    for refusal in Refused.registry():
        shown = f"{refusal.status} {refusal.code} {refusal.title}. {refusal.detail}"
        assert shown in text


def test_it_describes_every_parameter_and_kind_of_the_feed():
    text = text_of(page())
    for name, field in FeedParameters().fields.items():
        assert f"{name} " in text
        assert str(field.help_text) in text
    assert all(kind in text for kind in Kind.values)
    assert "limit 1 to 1000, 100 by default" in text
    assert "wait 0 to 25, 0 by default" in text
    assert "order asc or desc, asc by default" in text
    assert "since a time of RFC 3339" in text


def test_it_leads_to_the_reference_which_has_every_endpoint():
    assert f'href="{reverse("docs")}">The API reference</a>' in source(page())


def test_it_shows_the_limits_as_they_are_set(settings):
    settings.LIMITS = {**settings.LIMITS, "automation": "7/minute", "platform": "off"}
    settings.TIMESTAMP_TOLERANCE = 42
    text = text_of(page())
    assert "7 per minute Signals of one bot" in text
    assert "no limit Signals of one platform token" in text
    assert "at most 42 seconds old or ahead" in text
    assert "64 KiB" in text


def test_no_limit_of_the_settings_is_left_out():
    # How many refusals the log records limits no answer.
    assert set(LIMITS) == set(settings.LIMITS) - {"refusals", "refusals_suppressed"}


def test_the_address_is_that_of_this_server(settings):
    settings.BASE_URL = "https://signals.example"
    values = copied(page())
    assert values[0] == "https://signals.example/api/hooks/signal"
    codes = [value for value in values if "svc_sign_…" in value]
    assert len(codes) == 5
    assert all("https://signals.example/api/hooks/signal" in code for code in codes)


def test_the_name_of_a_card_is_shown_as_text():
    a_card("<b>Morning</b>")
    assert "&lt;b&gt;Morning&lt;/b&gt;" in source(page())
