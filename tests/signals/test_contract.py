"""GET /api/hooks/signal: the contract page, whose samples are accepted."""

import json

import pytest

from desks.models import Desk
from events.http.refusals import Refused
from tests.client import HOOK, code, get, post, push
from tests.factories import (
    Bot,
    a_bot,
    a_card,
    a_platform_token,
    a_ready_desk,
    a_shared_secret,
)
from tests.signals.bodies import a_nonce
from tokens.choices import Source

pytestmark = pytest.mark.django_db

SAMPLES = ["tv", "fanout", "oneDesk", "oneUser", "floor", "nox"]

CODES = {
    400: ["malformed", "host_invalid"],
    401: [
        "credentials_missing",
        "token_invalid",
        "signature_missing",
        "signature_invalid",
        "timestamp_invalid",
        "floor_secret_refused",
    ],
    403: [
        "scope_missing",
        "not_allowed",
        "sign_in_required",
        "csrf_failed",
        "second_factor_required",
        "reauthentication_required",
        "https_required",
    ],
    404: ["not_found"],
    405: ["method_not_allowed"],
    411: ["length_required"],
    413: ["body_too_large"],
    415: ["unsupported_media_type"],
    409: ["nonce_used", "made_already"],
    422: [
        "exchange_secret",
        "ticker_only",
        "mode_refused",
        "not_elected",
        "invalid",
        "pair_mismatch",
        "direction_mismatch",
        "no_election",
        "no_card",
        "desk_not_ready",
        "cursor_lost",
    ],
    429: ["rate_limited"],
    500: ["internal"],
    503: ["unavailable"],
}


@pytest.fixture
def desk() -> Desk:
    return a_ready_desk(a_card(pair="SOL/USDT", direction="short"))


@pytest.fixture
def bot(desk) -> Bot:
    return a_bot(desk, pair="SOL/USDT", direction="short")


def filled_in(sample: dict, desk: Desk, bot: Bot) -> tuple[str, dict]:
    """The path and body of a sample, with the ids and a new nonce filled in."""

    def fill(text: str) -> str:
        for name, value in [("userId", desk.public_id), ("botId", bot.id), ("nonce", a_nonce())]:
            text = text.replace(f"<{name}>", value).replace(f"{{{name}}}", value)
        return text

    return fill(sample["path"]), json.loads(fill(json.dumps(sample["body"])))


def test_the_page_is_public_and_complete():
    response = get(HOOK)
    assert response.status_code == 200
    page = response.json()
    assert {"paper", "liveWrites", "path", "url", "headers", "law", *SAMPLES} <= set(page)
    assert {"publishedCard", "signing", "refusals"} <= set(page)
    assert (page["paper"], page["liveWrites"]) == (True, False)
    assert page["path"] == HOOK
    assert page["url"] == f"http://testserver{HOOK}"
    assert page["headers"] == ["Authorization", "X-SVC-Timestamp", "X-SVC-Signature"]


def test_the_url_comes_from_the_setting_and_not_from_the_host_header(settings):
    settings.BASE_URL = "https://signals.example"
    assert get(HOOK, Host="localhost").json()["url"] == f"https://signals.example{HOOK}"


def test_the_published_card_is_exactly_name_pair_and_direction(desk):
    card = {"name": "Morning", "pair": "SOL/USDT", "direction": "short"}
    assert get(HOOK).json()["publishedCard"] == card


def test_without_a_card_the_samples_have_placeholders():
    page = get(HOOK).json()
    assert page["publishedCard"] is None
    for name in SAMPLES:
        assert page[name]["body"]["pair"] == "<BASE>/<QUOTE>"
        assert page[name]["body"]["direction"] == "long"


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_a_note_a_path_and_a_body(desk, name):
    sample = get(HOOK).json()[name]
    assert set(sample) == {"note", "path", "body"}
    assert isinstance(sample["note"], str)
    assert sample["note"]
    path = "/api/v1/desks/{userId}/signal" if name == "oneDesk" else HOOK
    assert sample["path"] == path


def test_the_samples_are_the_customers_shapes(desk):
    page = get(HOOK).json()
    common = {"pair", "direction", "nonce", "elected", "source"}
    assert set(page["tv"]["body"]) == {"botId", *common}
    assert set(page["oneDesk"]["body"]) == {*common, "mode"}
    assert set(page["floor"]["body"]) == {"userId", *common, "mode"}
    assert set(page["fanout"]["body"]) == {"fanout", *common}
    assert set(page["oneUser"]["body"]) == {"fanout", "userId", *common}
    assert set(page["nox"]["body"]) == {
        "fanout",
        "action_id",
        "trace_id",
        "pair",
        "direction",
        "elected",
        "source",
        "mode",
        "size_quote",
        "rationale",
        "decision_ref",
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_accepted_with_its_ids_and_nonce_filled_in(desk, bot, name):
    path, body = filled_in(get(HOOK).json()[name], desk, bot)
    assert (body["pair"], body["direction"]) == ("SOL/USDT", "short")
    engine, secret = (None, bot.secret) if name == "tv" else (a_platform_token("write"), None)
    response = post(path, body, engine, secret=secret)
    assert (response.status_code, code(response)) == (200, "ok")
    assert response.json()["outcome"] == "filled"
    assert response.json()["filled"] == 1
    assert response.json()["ignored"] == []


@pytest.mark.parametrize("name", ["fanout", "oneUser", "floor", "nox"])
def test_every_sample_of_the_hook_is_accepted_signed(desk, bot, name):
    _, body = filled_in(get(HOOK).json()[name], desk, bot)
    secret = a_shared_secret(Source.NOX if name == "nox" else Source.FLOOR)
    assert code(push(body, secret=secret)) == "ok"


def test_every_code_of_the_contract_is_listed_once_with_its_meaning():
    listed = get(HOOK).json()["refusals"]
    expected = {name: status for status, names in CODES.items() for name in names}
    assert {entry["code"]: entry["status"] for entry in listed} == expected
    assert len(listed) == len(expected)
    for entry in listed:
        assert entry["title"]
        assert entry["detail"]
    assert [refusal.code for refusal in Refused.registry()] == [e["code"] for e in listed]


def test_the_page_explains_how_to_sign():
    signing = get(HOOK).json()["signing"]
    assert signing["algorithm"] == "HMAC-SHA256"
    assert signing["toleranceSeconds"] == 300
    assert set(signing["vector"]) == {"secret", "timestamp", "body", "signature"}


def test_the_page_is_cached_but_revalidated(desk):
    response = get(HOOK)
    assert response["Cache-Control"] == "public, no-cache"
    again = get(HOOK, **{"If-None-Match": response["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again["ETag"] == response["ETag"]
    a_card("Evening")
    changed = get(HOOK, **{"If-None-Match": response["ETag"]})
    assert changed.status_code == 200
    assert changed["ETag"] != response["ETag"]
